/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The state of each TCP socket, and how it is found: in socket storage if the hook has a trusted
 * pointer, else in a table by address. */
#ifndef SPANWISE_SOCKET_H
#define SPANWISE_SOCKET_H

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
#define TCP_ESTABLISHED 1
#define TCP_SYN_SENT 2
#define TCP_SYN_RECV 3
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8
#define TCP_LAST_ACK 9
#define TCP_CLOSING 11
#define ECONNRESET 104

struct socket_state {
    __u64 connection; /* 0: not reported to user space yet */
    __u64 connect_start_nano;
    __u64 established_nano;
    __u32 opener_process;
    __u32 opener_thread;
    __u32 opener_sleeps; /* see thread_sleeps */
    __u32 turn_bytes; /* bytes since the direction last changed */
    __u32 message_index;
    __u64 message_array; /* of the last sendmmsg or recvmmsg */
    __u32 first_sent_seq; /* of the connection's first bytes, if the role is known */
    __u32 first_received_seq;
    __u8 direction;
    __u8 role;
    __u8 ignored; /* by the filter of this generation: */
    __u8 tls;
    __u32 filter_generation;
    __u8 ended; /* user space knows, or was told that nobody reads it */
    __u8 closed_unseen; /* counted as such; received data may still be read */
    __u8 begun; /* bytes were received: 1, sent: 2, both: 3 */
    __u8 batches; /* it is known that many messages go out together */
    __u8 head; /* see expect_head */
    __u32 taskless_process; /* the last process that used it and has no rule in task.h, */
    __u32 taskless_generation; /* at that time */
    __u32 tls_less_process; /* the last process that used it and has no TLS library, likewise */
    __u32 tls_less_generation;
};

/* How a socket uses TLS. Only relevant while any library has probes. */
enum socket_tls {
    SOCKET_TLS_UNKNOWN,
    SOCKET_TLS_NOT, /* the first received data is not TLS, and no library uses the socket itself */
    SOCKET_TLS_NESTED, /* a library with probes uses the socket itself */
    SOCKET_TLS_LOOSE, /* the program passes its bytes to a library */
};

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct socket_state);
} sockets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, __u64);
    __type(value, struct socket_state);
} sockets_by_address SEC(".maps");

/* Connections by socket address, for programs without a trusted pointer. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, __u64);
    __type(value, __u64);
} connections_by_socket SEC(".maps");

/* Connections that were there before the agent, by socket address. What HTTP/2 has said on them
 * earlier is not known. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64);
    __type(value, __u64);
} late_connections SEC(".maps");

/* Functions that exist in a trusted and an untrusted form are written once. `trusted` is a
 * constant, and unreachable code is not compiled. */
#define READ(trusted, source, field) \
    ((trusted) ? (source)->field : BPF_CORE_READ(source, field))

static __always_inline bool is_tcp(const struct sock *sk, const bool trusted)
{
    __u16 family = READ(trusted, sk, __sk_common.skc_family);
    return (family == AF_INET || family == AF_INET6)
        && READ(trusted, sk, sk_protocol) == IPPROTO_TCP;
}

/* A socket without known state. */
static const struct socket_state no_state = {};

static __always_inline struct socket_state *table_state(const struct sock *sk, bool create)
{
    __u64 key = (__u64)sk;
    struct socket_state *state = bpf_map_lookup_elem(&sockets_by_address, &key);
    if (state || !create)
        return state;
    bpf_map_update_elem(&sockets_by_address, &key, &no_state, BPF_ANY);
    return bpf_map_lookup_elem(&sockets_by_address, &key);
}

/* A FIN takes a sequence number. The read of the last byte before a FIN moves copied_seq past both.
 * That is the case if nothing is left up to rcv_nxt, which includes the FIN once it has arrived. */
static __always_inline __u32 took_fin(unsigned char state, __u32 copied_seq, __u32 rcv_nxt)
{
    return copied_seq == rcv_nxt &&
           (state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING);
}

#endif
