/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Reports the data of AF_UNIX stream sockets, in the hooks on socket calls.
 *
 * They have no sequence numbers. Each side counts the bytes of both directions from the first that
 * it saw, starting with a hash of the sending socket's cookie, which is unique while the kernel
 * runs. So both sides assign the same numbers to the same bytes if both saw the first byte.
 *
 * Most such sockets carry nothing relevant (D-Bus, journals, displays). User space says which
 * connections it reads. The others are ignored after their first five seconds. */
#ifndef SPANWISE_UNIX_H
#define SPANWISE_UNIX_H

#define AF_UNIX 1
#define SOCK_STREAM 1
#define SOCK_DEAD 0 /* the bit of sk_flags that says that nobody holds the socket */
#define UNIX_TRIAL_NANO 5000000000ULL

struct unix_state {
    struct socket_state socket;
    __u64 first_nano;
    __u64 peer; /* address of the peer's socket */
    __u64 sent_seq; /* only the lower half is used; it wraps */
    __u64 received_seq;
    __u8 followed;
};
struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct unix_state);
} unix_sockets SEC(".maps");

/* Connections that user space reads. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, __u64);
    __type(value, __u8);
} unix_followed SEC(".maps");

static __always_inline __u32 first_seq_of(__u64 cookie)
{
    /* The finalizer of MurmurHash3: similar inputs give very different hashes. */
    cookie ^= cookie >> 33;
    cookie *= 0xff51afd7ed558ccdULL;
    cookie ^= cookie >> 33;
    cookie *= 0xc4ceb9fe1a85ec53ULL;
    return (__u32)(cookie >> 32);
}

/* The length of the path to which a socket is bound, and its location. */
static __always_inline int path_of(const struct unix_sock *unix, const char **path)
{
    const struct unix_address *address = BPF_CORE_READ(unix, addr);
    if (!address)
        return 0;
    __u64 offset = bpf_core_field_offset(struct unix_address, name);
    *path = (const char *)address + offset + sizeof(unsigned short);
    return BPF_CORE_READ(address, len) - (int)sizeof(unsigned short);
}

static __always_inline bool announce_unix(struct sock *sk, struct unix_state *state, __u64 task)
{
    struct unix_sock *unix = bpf_skc_to_unix_sock(sk);
    if (!unix)
        return false;
    struct sock *peer = unix->peer;
    __u64 own_cookie = bpf_get_socket_cookie(sk);
    __u64 peer_cookie = peer ? bpf_get_socket_cookie(peer) : 0;
    struct spanwise_opened_unix *opened = bpf_ringbuf_reserve(&events, sizeof *opened, 0);
    if (!opened) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return false; /* retried with the next bytes */
    }
    state->socket.connection = next_connection();
    state->first_nano = bpf_ktime_get_ns();
    state->sent_seq = first_seq_of(own_cookie);
    state->received_seq = first_seq_of(peer_cookie);
    state->peer = (__u64)peer;
    __u64 address = (__u64)sk;
    bpf_map_update_elem(&connections_by_socket, &address, &state->socket.connection, BPF_ANY);

    fill(&opened->opened.event, SPANWISE_OPENED_UNIX, &state->socket, task, state->first_nano);
    __builtin_memset(opened->opened.local_address, 0, 32);
    opened->opened.local_port = 0;
    opened->opened.remote_port = 0;
    opened->opened.connect_nano = 0;
    opened->opened.first_known = 0;
    struct net *net = sk->__sk_common.skc_net.net;
    opened->opened.network_namespace = BPF_CORE_READ(net, ns.inum);
    bpf_get_current_comm(opened->opened.command, sizeof opened->opened.command);
    /* An accepted socket has the listener's path. A connecting socket rarely has one. */
    const char *path = 0;
    int length = path_of(unix, &path);
    opened->opened.role = SPANWISE_SERVER;
    if (length <= 0 && peer) {
        length = path_of((const struct unix_sock *)peer, &path);
        opened->opened.role = length > 0 ? SPANWISE_CLIENT : SPANWISE_UNKNOWN;
    } else if (length <= 0) {
        opened->opened.role = SPANWISE_UNKNOWN;
    }
    __u64 bytes = length > 0 ? length : 0;
    BOUND(bytes, 127);
    if (bytes > UNIX_PATH)
        bytes = UNIX_PATH;
    if (bytes && bpf_probe_read_kernel(opened->path, bytes, path))
        bytes = 0;
    opened->opened.event.captured = bytes;
    bpf_ringbuf_submit(opened, BPF_RB_NO_WAKEUP);
    return true;
}

static __always_inline void tell_closed(__u64 connection, __u64 task)
{
    struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
    if (!event) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return;
    }
    fill(event, SPANWISE_CLOSED, 0, task, bpf_ktime_get_ns());
    event->connection = connection;
    event->seq = 0;
    event->length = 1; /* seq is not valid */
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* No hook sees these sockets closed. A reader that reaches the end learns that the peer is gone. */
static __always_inline void ended_unix(struct sock *sk, struct unix_state *state)
{
    struct unix_sock *unix = bpf_skc_to_unix_sock(sk);
    struct sock *peer = unix ? unix->peer : 0;
    if (!peer || (__u64)peer != state->peer
        || !(BPF_CORE_READ(peer, __sk_common.skc_flags) >> SOCK_DEAD & 1))
        return; /* the peer only stops sending */
    __u64 task = bpf_get_current_pid_tgid();
    __u64 *connection = bpf_map_lookup_elem(&connections_by_socket, &state->peer);
    if (connection) {
        tell_closed(*connection, task);
        bpf_map_delete_elem(&connections_by_socket, &state->peer);
    }
    tell_closed(state->socket.connection, task);
    state->socket.ended = 1;
}

/* `near` as in emit.h. */
static __always_inline int on_unix_length(struct sock *sk, int result, const bool sent,
                                          const bool near)
{
    if (sk->sk_type != SOCK_STREAM)
        return 0;
    struct unix_state *state = bpf_sk_storage_get(&unix_sockets, sk, 0, 0);
    if (result == 0) {
        if (!sent && state && state->socket.connection && !state->socket.ended)
            ended_unix(sk, state);
        return 0;
    }
    if (!state)
        state = bpf_sk_storage_get(&unix_sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!state || state->socket.ended)
        return 0;
    __u64 task = bpf_get_current_pid_tgid();
    /* It has no ports, so no port is requested. */
    if (!is_looked_at(sk, &state->socket, task))
        return 0;
    if (!state->socket.connection && !announce_unix(sk, state, task))
        return 0;
    __u64 now = bpf_ktime_get_ns();
    if (!state->followed && now - state->first_nano > UNIX_TRIAL_NANO) {
        if (!bpf_map_lookup_elem(&unix_followed, &state->socket.connection)) {
            state->socket.ended = 1;
            tell_closed(state->socket.connection, task);
            return 0;
        }
        state->followed = 1;
    }
    struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
    __u32 unread;
    struct call call = {
        .array = REGS_ARG2(regs),
        .count = REGS_ARG3(regs),
        .shape = shape_now(sk, regs, &unread),
    };
    struct transfer transfer = {
        .task = task,
        .time_nano = now,
        .extra = unread,
        .connection = state->socket.connection,
        .seq = sent ? __sync_fetch_and_add(&state->sent_seq, result)
                    : __sync_fetch_and_add(&state->received_seq, result),
        .length = result,
        .kind = SPANWISE_DATA,
        .sent = sent,
        .sleeps = thread_sleeps(),
    };
    find_task(&state->socket, task, sent ? (__u64)sk : 0, &transfer.ids);
    emit(&state->socket, &transfer, &call, near);
    return 0;
}

static __noinline int on_unix(struct sock *sk, int result, bool sent)
{
    return on_unix_length(sk, result, sent, true);
}

#endif
