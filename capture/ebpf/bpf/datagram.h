/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Reports UDP datagrams from and to a few ports. A datagram is a complete message with both
 * addresses, so nothing is stored for its socket. TCP sockets never get here. */
#ifndef SPANWISE_DATAGRAM_H
#define SPANWISE_DATAGRAM_H

#define IPPROTO_UDP 17
#define MAX_DATAGRAM_PORTS 8

/* Datagrams from or to these ports are reported. */
const volatile __u16 datagram_ports[MAX_DATAGRAM_PORTS] = { 53, 5353 };

/* Sockets that have sent to such a port without being connected to it, or that use mmsghdr arrays:
 * the current entry. */
struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct socket_state);
} datagram_sockets SEC(".maps");

struct datagram_call {
    __u64 sk;
    __u64 array; /* argument 2, or the message's header */
    __u64 count; /* argument 3 */
    __u64 name;  /* argument 5 of sendto and recvfrom: the peer's address */
    __u32 length;
    __u32 shape;
    __u8 sent;
    /* The peer's address is in user memory. The kernel writes the address of a received datagram
     * only after the receive hook. */
    __u8 named;
    /* Whether the socket has sent to a watched port. Its own port is arbitrary. */
    __u8 watched;
    struct task_ids ids; /* whose it is, if that is known */
};
PASSED(datagram_call)

static __always_inline bool is_datagram_port(__u16 port)
{
    for (int i = 0; i < MAX_DATAGRAM_PORTS; i++)
        if (port && datagram_ports[i] == port)
            return true;
    return false;
}

/* Whether a datagram may be relevant, according to the socket's own ports. The peer of an
 * unconnected socket is not known yet. */
static __always_inline bool is_datagram(const struct sock *sk, const bool trusted)
{
    __u16 family = READ(trusted, sk, __sk_common.skc_family);
    if ((family != AF_INET && family != AF_INET6)
        || READ(trusted, sk, sk_protocol) != IPPROTO_UDP)
        return false;
    __u16 remote = bpf_ntohs(READ(trusted, sk, __sk_common.skc_dport));
    return !remote || is_datagram_port(remote)
        || is_datagram_port(READ(trusted, sk, __sk_common.skc_num));
}

struct socket_name { /* struct sockaddr_in and the beginning of sockaddr_in6 */
    __u16 family;
    __be16 port;
    __be32 ipv4; /* or the flow label */
    __u8 ipv6[16];
};

static __always_inline void read_name(struct spanwise_datagram *datagram, __u64 from)
{
    struct socket_name name;
    if (!from || bpf_probe_read_user(&name, 8, (void *)from))
        return;
    if (name.family == AF_INET)
        map_ipv4(datagram->remote_address, name.ipv4);
    else if (name.family != AF_INET6
             || bpf_probe_read_user(datagram->remote_address, 16,
                                    (void *)(from + __builtin_offsetof(struct socket_name, ipv6))))
        return;
    datagram->remote_port = bpf_ntohs(name.port);
}

struct user_buffer {
    __u64 at;
    __u64 length;
    __u64 name;
};

/* The location of the datagram's bytes: the first of its buffers. */
static __always_inline struct user_buffer datagram_buffer(const struct datagram_call *call)
{
    struct user_buffer buffer = { call->array, call->count, call->name };
    __u64 vectors = call->array;
    if (call->shape == BUFFER_PLAIN)
        return buffer;
    struct user_buffer none = {};
    buffer.name = 0;
    if (call->shape == BUFFER_MESSAGE) {
        struct message_header header;
        if (bpf_probe_read_user(&header, sizeof header, (void *)call->array))
            return none;
        buffer.name = (__u64)header.name;
        vectors = (__u64)header.vectors;
    } else if (call->shape != BUFFER_VECTOR) {
        return none;
    }
    struct iovec first;
    if (bpf_probe_read_user(&first, sizeof first, (void *)vectors))
        return none;
    buffer.at = (__u64)first.iov_base;
    buffer.length = first.iov_len;
    return buffer;
}

#define EMIT_DATAGRAM(room, mask)                                                       \
    do {                                                                                \
        struct {                                                                        \
            struct spanwise_datagram datagram;                                          \
            __u8 payload[room];                                                         \
        } *record = bpf_ringbuf_reserve(&events, sizeof *record, 0);                    \
        if (!record) {                                                                  \
            __sync_fetch_and_add(&tallies.lost_data, 1);                                        \
            return 0;                                                                   \
        }                                                                               \
        record->datagram = datagram;                                                    \
        __u64 bytes = wanted;                                                           \
        BOUND(bytes, mask);                                                             \
        if (bytes > (room))                                                             \
            bytes = (room);                                                             \
        if (bytes && bpf_probe_read_user(record->payload, bytes, (void *)buffer.at))    \
            bytes = 0;                                                                  \
        record->datagram.event.captured = bytes;                                        \
        bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);                                   \
        return 1;                                                                       \
    } while (0)

/* The port in a socket's name; 0 if it cannot be read. */
static __always_inline __u16 named_port(__u64 from)
{
    struct socket_name name;
    if (!from || bpf_probe_read_user(&name, 8, (void *)from)
        || (name.family != AF_INET && name.family != AF_INET6))
        return 0;
    return bpf_ntohs(name.port);
}

/* The following are global functions, which the verifier checks separately, so that the TCP
 * programs stay unchanged. They are called one after another, because the stack has no room for
 * all of them. */

/* Whether the datagram comes from one of the ports, or goes there. */
__noinline int is_datagram_reported(datagram_call_handle handle)
{
    const struct datagram_call *call = passed_datagram_call(handle);
    if (!call)
        return 0;
    const struct sock *sk = (const struct sock *)call->sk;
    if (call->watched || is_datagram_port(BPF_CORE_READ(sk, __sk_common.skc_num)))
        return 1;
    __u16 remote = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    if (!remote && call->named)
        remote = named_port(datagram_buffer(call).name);
    return is_datagram_port(remote);
}

/* Finds out whose datagram it is. */
__noinline int find_datagram_task(datagram_call_handle handle)
{
    struct datagram_call *call = passed_datagram_call(handle);
    if (call)
        find_task_here(bpf_get_current_pid_tgid(), 0, &call->ids);
    return 0;
}

/* Returns 1 if the datagram is reported. */
__noinline int emit_datagram(datagram_call_handle handle)
{
    const struct datagram_call *call = passed_datagram_call(handle);
    if (!call)
        return 0;
    const struct sock *sk = (const struct sock *)call->sk;
    struct user_buffer buffer = datagram_buffer(call);
    struct spanwise_datagram datagram = {};
    datagram.local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
    datagram.remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    if (!datagram.remote_port && call->named)
        read_name(&datagram, buffer.name);
    __u64 task = bpf_get_current_pid_tgid();
    __u32 process = task >> 32;
    if (bpf_map_lookup_elem(&ignored_processes, &process))
        return 0;

    fill(&datagram.event, SPANWISE_DATAGRAM, 0, task, bpf_ktime_get_ns());
    datagram.event.direction = call->sent;
    datagram.event.length = call->length;
    datagram.event.sleeps = thread_sleeps();
    datagram.event.task = call->ids.task;
    datagram.event.parent_task = call->ids.parent;
    struct net *net = BPF_CORE_READ(sk, __sk_common.skc_net.net);
    datagram.network_namespace = BPF_CORE_READ(net, ns.inum);
    bool connected = BPF_CORE_READ(sk, __sk_common.skc_dport) != 0;
    if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET) {
        map_ipv4(datagram.local_address, BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr));
        if (connected)
            map_ipv4(datagram.remote_address, BPF_CORE_READ(sk, __sk_common.skc_daddr));
    } else {
        BPF_CORE_READ_INTO(&datagram.local_address, sk, __sk_common.skc_v6_rcv_saddr);
        if (connected)
            BPF_CORE_READ_INTO(&datagram.remote_address, sk, __sk_common.skc_v6_daddr);
    }
    bpf_get_current_comm(datagram.command, sizeof datagram.command);

    __u64 wanted = call->length < settings.max_payload ? call->length : settings.max_payload;
    if (wanted > buffer.length)
        wanted = buffer.length;
    if (wanted <= 256)
        EMIT_DATAGRAM(256, 511);
    EMIT_DATAGRAM(1024, 2047);
}

/* Reports the datagram if it is one of those. Returns 1 if it was. */
static __always_inline int report_datagram(struct datagram_call *call, const bool with_task)
{
    if (!is_datagram_reported(HANDLE(call)))
        return 0;
    if (with_task)
        find_datagram_task(HANDLE(call));
    return emit_datagram(HANDLE(call));
}

#endif
