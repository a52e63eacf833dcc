// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Reports what TCP sockets carry, and some UDP ports. Four sets of hooks do the same; user space
 * attaches the first that the kernel takes:
 *
 *   sock_length   tp_btf/sock_{send,recv}_length: fires for socket calls only
 *   inet_fexit    fexit of the functions before these, for kernels without them
 *   sys_exit_btf  tp_btf/sys_exit, filtered by system call number
 *   sys_exit_raw  raw_tp/sys_exit, for kernels whose BTF lacks the above
 *
 * They are compiled twice: for Linux 5.12 and newer, and for kernels before (BEFORE_5_12), which
 * take only the hooks at the end of system calls. passed.h says where they differ.
 *
 * What a call rarely needs are functions of their own (__noinline), so that what every
 * call runs is short and lies together: little of it is in a processor's caches when the
 * program has done other things in between, and fetching it is most of what a hook costs.
 *
 * Nothing here changes what a program sends or receives. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include "spanwise.h"
#include "layout.h" /* made by build.rs: that it reads spanwise.h as the compiler does */
#include "syscalls.h"
#include "socket.h"
#include "unread.h"
#include "passed.h"

/* The kernel allows some of the helpers used here only to programs that say so. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MSG_PEEK 2
#define MSG_TRUNC 0x20
#define S_IFMT 0170000
#define S_IFSOCK 0140000

#define MAX_PAYLOAD 1024
/* Within one direction, past this many bytes only TAIL_PAYLOAD are captured of
 * each call: a body is passing by. */
#define TURN_BYTES 16384
#define TAIL_PAYLOAD 64
/* Of a call's vectors, as many are looked at for one piece: the rest is the next one's. */
#define MAX_VECTORS 128
#define MAX_MESSAGES 16

/* In a section of its own, which user space writes. */
const volatile struct spanwise_settings settings SEC(".rodata.settings") = {
    .max_payload = MAX_PAYLOAD,
};

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 8 << 20);
} events SEC(".maps");

/* In a section of its own, which user space reads. */
struct spanwise_tallies tallies SEC(".data.tallies") = {};

struct call {
    __u64 array; /* argument 2 */
    __u64 count; /* argument 3 */
    int shape;
};

static __always_inline void fill(struct spanwise_event *event, __u8 kind,
                                 const struct socket_state *state, __u64 task, __u64 time_nano)
{
    event->kind = kind;
    event->direction = 0;
    event->captured = 0;
    event->process = task >> 32;
    event->thread = (__u32)task;
    event->seq = 0;
    event->time_nano = time_nano;
    event->connection = state ? state->connection : 0;
    event->length = 0;
    event->srtt_eighth_micros = 0;
    event->retransmits = 0;
    event->extra = 0;
    event->task = 0;
    event->parent_task = 0;
}

static __always_inline void map_ipv4(__u8 *address, __be32 ipv4)
{
    __u32 *words = (__u32 *)address;
    words[0] = 0;
    words[1] = 0;
    words[2] = bpf_htonl(0xffff);
    words[3] = ipv4;
}

#include "filter.h"

#ifdef BEFORE_5_12
/* Connections that each processor has numbered: there is no addition that tells what it added
 * to. The processor's number makes them different. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} numbered_connections SEC(".maps");
#endif

/* A number that no other connection has. */
static __always_inline __u64 next_connection(void)
{
#ifdef BEFORE_5_12
    const __u32 only = 0;
    __u64 *numbered = bpf_map_lookup_elem(&numbered_connections, &only);
    return (numbered ? ++*numbered : 0) << 16 | (bpf_get_smp_processor_id() & 0xffff);
#else
    return __sync_fetch_and_add(&tallies.last_connection, 1) + 1;
#endif
}

/* Tells user space of a connection before its first bytes. Once per socket. */
static __noinline bool announce(const struct sock *sk, struct socket_state *state, __u64 task)
{
    struct spanwise_opened *opened = bpf_ringbuf_reserve(&events, sizeof *opened, 0);
    if (!opened) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return false; /* tried again with the next bytes */
    }
    state->connection = next_connection();
    state->begun = 0;
    state->batches = 0;
    __u64 address = (__u64)sk;
    bpf_map_update_elem(&connections_by_socket, &address, &state->connection, BPF_ANY);
    __u64 now = bpf_ktime_get_ns();
    fill(&opened->event, SPANWISE_OPENED, state, task,
         state->established_nano ? state->established_nano : now);
    opened->role = state->role;
    opened->first_known = state->established_nano != 0;
    opened->event.seq = state->first_sent_seq;
    opened->event.extra = state->first_received_seq;
    opened->event.sleeps = 0;
    if (state->role == SPANWISE_CLIENT && state->opener_process == task >> 32) {
        opened->event.thread = state->opener_thread;
        opened->event.sleeps = state->opener_sleeps;
    }
    opened->connect_nano = 0;
    if (state->role == SPANWISE_CLIENT && state->established_nano > state->connect_start_nano)
        opened->connect_nano = state->established_nano - state->connect_start_nano;
    opened->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
    if (!opened->local_port) /* a closed socket has given it back, and remembers it here */
        opened->local_port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
    opened->remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    struct net *net = BPF_CORE_READ(sk, __sk_common.skc_net.net);
    opened->network_namespace = BPF_CORE_READ(net, ns.inum);
    if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET) {
        map_ipv4(opened->local_address, BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr));
        map_ipv4(opened->remote_address, BPF_CORE_READ(sk, __sk_common.skc_daddr));
    } else {
        BPF_CORE_READ_INTO(&opened->local_address, sk, __sk_common.skc_v6_rcv_saddr);
        BPF_CORE_READ_INTO(&opened->remote_address, sk, __sk_common.skc_v6_daddr);
    }
    bpf_get_current_comm(opened->command, sizeof opened->command);
    bpf_ringbuf_submit(opened, BPF_RB_NO_WAKEUP);
    return true;
}

#include "task.h"
#include "emit.h"

static __always_inline struct sock *socket_of(__u32 fd)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    if (fd >= BPF_CORE_READ(table, max_fds))
        return 0;
    struct file **files = BPF_CORE_READ(table, fd);
    struct file *file = 0;
    bpf_probe_read_kernel(&file, sizeof file, files + fd);
    if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
        return 0;
    struct socket *socket = BPF_CORE_READ(file, private_data);
    return BPF_CORE_READ(socket, sk);
}

#include "task_go_clients.h"
#include "tls.h"
#include "tls_go.h"
#include "task_made.h"
#include "thread_made.h"
#include "datagram.h"

static __always_inline bool creates_state(int old, int new)
{
    return new == TCP_SYN_SENT || (new == TCP_ESTABLISHED && old == TCP_SYN_RECV);
}

static __always_inline void on_state(const struct sock *sk, struct socket_state *state, int old,
                                     int new, const bool trusted)
{
    __u64 now = bpf_ktime_get_ns();
    if (new == TCP_CLOSE)
        forget_owner(sk);
    if (creates_state(old, new)) {
        /* Another one had this address before. */
        __u64 address = (__u64)sk;
        bpf_map_delete_elem(&connections_by_socket, &address);
    }
    if (new == TCP_SYN_SENT) {
        __u64 task = bpf_get_current_pid_tgid();
        state->role = SPANWISE_CLIENT;
        state->connect_start_nano = now;
        state->ended = 0; /* as its former life has */
        state->closed_unseen = 0;
        state->filter_generation = 0;
        state->opener_process = task >> 32;
        state->opener_thread = (__u32)task;
        state->opener_sleeps = thread_sleeps();
    } else if (new == TCP_ESTABLISHED) {
        state->established_nano = now;
        state->first_sent_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
        state->first_received_seq = BPF_CORE_READ((struct tcp_sock *)sk, copied_seq);
        if (old == TCP_SYN_RECV)
            state->role = SPANWISE_SERVER;
    } else if (new == TCP_CLOSE && state->connection) {
        struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
        if (!event) {
            __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
            return;
        }
        fill(event, SPANWISE_CLOSED, state, bpf_get_current_pid_tgid(), now);
        event->extra = READ(trusted, sk, sk_err) == ECONNRESET;
        event->seq = received_up_to(sk);
        struct tcp_sock *tcp = (struct tcp_sock *)sk;
        event->retransmits = BPF_CORE_READ(tcp, total_retrans);
        bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
        /* What it received may still be read, and would seem another connection. */
        state->connection = 0;
        state->ended = 1;
    } else if (new == TCP_CLOSE && !state->ignored && !state->ended) {
        closed_unseen(sk, state);
    }
}

/* Bytes that came before a reset can be read after it. A connection that is heard
 * of only then is closed at once, for nothing will tell of its end again. */
static __noinline void after_end(const struct sock *sk, struct socket_state *state)
{
    if (state->closed_unseen)
        __sync_fetch_and_add(&unseen.connections, -1);
    state->closed_unseen = 0;
    on_state(sk, state, TCP_CLOSE, TCP_CLOSE, false);
    state->ended = 1;
}

/* Whether a call is to be reported; then user space knows of its connection. */
static __always_inline bool is_reported(const struct sock *sk, struct socket_state *state,
                                        __u64 task)
{
    if (!is_looked_at(sk, state, task)) {
        after_close(state);
        tls_left_out(state, task);
        return false;
    }
    return state->connection || announce(sk, state, task);
}

static __always_inline void after_transfer(const struct sock *sk, struct socket_state *state,
                                           const bool trusted)
{
    if (READ(trusted, sk, __sk_common.skc_state) == TCP_CLOSE)
        after_end(sk, state);
}

#ifndef BEFORE_5_12 /* these hooks are newer */
#include "sock_length.h"
#include "inet_fexit.h"
#endif
#include "sys_exit.h"

/* ---- processes --------------------------------------------------------- */

static __always_inline int on_process(__u8 kind)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    bpf_map_delete_elem(&thread_makers, &process);
    struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
    if (!event) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return 0;
    }
    fill(event, kind, 0, bpf_get_current_pid_tgid(), bpf_ktime_get_ns());
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}

static __always_inline bool last_thread(void)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    return BPF_CORE_READ(task, signal, live.counter) == 0;
}

SEC("?raw_tp/sched_process_exec")
int process_exec(void *context)
{
    return on_process(SPANWISE_EXEC);
}

SEC("?raw_tp/sched_process_exit")
int process_exit(void *context)
{
    if (last_thread())
        return on_process(SPANWISE_EXIT);
    thread_ends();
    return 0;
}
