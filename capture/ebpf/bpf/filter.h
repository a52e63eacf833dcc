/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The filter for connections. User space changes it at runtime. A socket asks it once, and again
 * when its generation has changed. */
#ifndef SPANWISE_FILTER_H
#define SPANWISE_FILTER_H

#define FILTER_ENTRIES 16

struct port_range {
    __u16 first;
    __u16 last; /* 0: no range */
};

/* src/kernel/filter.rs knows this layout. Lists end with a zero. An empty `only` means all. */
struct filter {
    __u32 generation;
    __u32 connection_share; /* of 2^32: share of the wanted connections that are traced */
    struct port_range only_ports[FILTER_ENTRIES];
    struct port_range except_ports[FILTER_ENTRIES];
    __u32 only_namespaces[FILTER_ENTRIES]; /* inodes of network namespaces */
    __u32 except_namespaces[FILTER_ENTRIES];
};

/* In a separate section. Counters are elsewhere, so that this stays in the caches of all CPUs. */
struct filter filter SEC(".data.filter") = { .generation = 1, .connection_share = 0xffffffff };

/* Processes that are not traced: the agent's own, its server's, and those whose service is filtered
 * out. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, __u8);
} ignored_processes SEC(".maps");

/* Whether one of the ports on which a socket may serve is in a range. */
static __always_inline bool has_port(const struct port_range *ranges, __u16 port, __u16 other_port)
{
    for (int i = 0; i < FILTER_ENTRIES; i++) {
        __u16 first = ranges[i].first, last = ranges[i].last;
        if (!last)
            break;
        if ((port >= first && port <= last)
            || (other_port && other_port >= first && other_port <= last))
            return true;
    }
    return false;
}

static __always_inline bool has_namespace(const __u32 *namespaces, __u32 namespace)
{
    for (int i = 0; i < FILTER_ENTRIES && namespaces[i]; i++)
        if (namespaces[i] == namespace)
            return true;
    return false;
}

/* `hash` is the same at both ends of a connection. `port` and `other_port` are the ports on which
 * the socket may serve; the second is 0 if the first is certain. A global function. */
__noinline int is_wanted(__u32 process, __u32 namespace, __u32 hash, __u16 port, __u16 other_port)
{
    if (bpf_map_lookup_elem(&ignored_processes, &process))
        return 0;
    if ((filter.only_ports[0].last && !has_port(filter.only_ports, port, other_port))
        || has_port(filter.except_ports, port, other_port))
        return 0;
    if ((filter.only_namespaces[0] && !has_namespace(filter.only_namespaces, namespace))
        || has_namespace(filter.except_namespaces, namespace))
        return 0;
    return hash <= filter.connection_share;
}

/* A hash of a connection's two ends. Without address translation, it is the same at both ends.
 * Knuth's multiplicative hash. */
static __always_inline __u32 connection_hash(const struct sock *sk)
{
    __u32 ports = BPF_CORE_READ(sk, __sk_common.skc_num)
        ^ bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    __u32 addresses = 0;
    if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET)
        addresses = BPF_CORE_READ(sk, __sk_common.skc_daddr)
            ^ BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr);
    return (ports * 0x9e3779b1u ^ addresses) * 0x85ebca6bu;
}

static __noinline void ask_filter(const struct sock *sk, struct socket_state *state, __u64 task)
{
    struct net *net = BPF_CORE_READ(sk, __sk_common.skc_net.net);
    __u16 local = BPF_CORE_READ(sk, __sk_common.skc_num);
    __u16 remote = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    state->ignored = !is_wanted(task >> 32, BPF_CORE_READ(net, ns.inum), connection_hash(sk),
                                state->role == SPANWISE_CLIENT ? remote : local,
                                state->role == SPANWISE_UNKNOWN ? remote : 0);
    if (!state->ignored)
        return;
    /* Nor does it have the number that another one at its address had. */
    __u64 address = (__u64)sk;
    bpf_map_delete_elem(&connections_by_socket, &address);
    if (!state->connection)
        return;
    /* User space knows the connection and must not wait for its data. If it is wanted again later,
     * it is reported as another one. */
    struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
    if (event) {
        fill(event, SPANWISE_LEFT_OUT, state, task, bpf_ktime_get_ns());
        bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    } else {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
    }
    state->connection = 0;
    state->tls = 0;
}

static __always_inline bool is_looked_at(const struct sock *sk, struct socket_state *state,
                                         __u64 task)
{
    __u32 generation = filter.generation;
    if (!state->ended && state->filter_generation != generation) {
        state->filter_generation = generation;
        ask_filter(sk, state, task);
    }
    return !state->ignored && !state->ended;
}

#endif
