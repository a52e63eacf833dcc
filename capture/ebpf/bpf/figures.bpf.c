// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Figures of processes that the kernel itself does not keep: how long their threads waited for a
 * processor, and the bytes of their TCP and UDP sockets. They are counted here, and user space reads
 * the counts now and then.
 *
 * A wait begins when a thread is woken, or is taken off a processor while it could run. It ends when
 * the thread gets a processor. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "figures.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MSG_PEEK 2
#define AF_INET 2
#define AF_INET6 10

/* The field has two names: since Linux 5.14 the first. */
struct task_struct___state {
    unsigned int __state;
} __attribute__((preserve_access_index));
struct task_struct___before_5_14 {
    volatile long state;
} __attribute__((preserve_access_index));

/* Since when a thread waits. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FIGURES_THREADS);
    __type(key, __u32);
    __type(value, __u64);
} waiting SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, FIGURES_PROCESSES);
    __type(key, __u32);
    __type(value, struct process_figures);
} figures SEC(".maps");

/* In a separate section, which user space reads. */
struct figures_lost lost SEC(".data.lost") = {};

static __always_inline void wait_begins(struct task_struct *task)
{
    const __u32 thread = task->pid;
    if (!thread)
        return; /* the idle thread */
    const __u64 now = bpf_ktime_get_ns();
    if (bpf_map_update_elem(&waiting, &thread, &now, BPF_ANY))
        __sync_fetch_and_add(&lost.waits, 1);
}

static const struct process_figures none = {};

static __always_inline struct process_figures *figures_of(__u32 process)
{
    struct process_figures *found = bpf_map_lookup_elem(&figures, &process);
    if (found)
        return found;
    bpf_map_update_elem(&figures, &process, &none, BPF_NOEXIST);
    return bpf_map_lookup_elem(&figures, &process);
}

static __always_inline __u32 bucket_of(__u64 nanoseconds)
{
    /* The n-th bucket holds what is above 2^(n-1) and at most 2^n microseconds. */
    __u64 rest = nanoseconds ? (nanoseconds - 1) / 1000 : 0;
    __u32 bucket = 0;
#pragma unroll
    for (int i = 0; i < FIGURES_BUCKETS - 1; i++) {
        if (rest) {
            bucket++;
            rest >>= 1;
        }
    }
    return bucket;
}

static __always_inline void wait_ends(struct task_struct *task)
{
    const __u32 thread = task->pid;
    const __u64 *since = bpf_map_lookup_elem(&waiting, &thread);
    if (!since)
        return;
    const __u64 waited = bpf_ktime_get_ns() - *since;
    bpf_map_delete_elem(&waiting, &thread);
    struct process_figures *of = figures_of(task->tgid);
    if (!of) {
        __sync_fetch_and_add(&lost.waits, 1);
        return;
    }
    const __u32 bucket = bucket_of(waited);
    if (bucket < FIGURES_BUCKETS)
        __sync_fetch_and_add(&of->waits[bucket], 1);
    __sync_fetch_and_add(&of->waited_nano, waited);
}

SEC("?tp_btf/sched_wakeup")
int BPF_PROG(woken, struct task_struct *task)
{
    wait_begins(task);
    return 0;
}

SEC("?tp_btf/sched_wakeup_new")
int BPF_PROG(woken_first, struct task_struct *task)
{
    wait_begins(task);
    return 0;
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(switched, bool preempt, struct task_struct *previous, struct task_struct *next)
{
    const struct task_struct___state *new = (void *)previous;
    const struct task_struct___before_5_14 *old = (void *)previous;
    const __u64 state = bpf_core_field_exists(new->__state) ? new->__state : (__u64)old->state;
    if (preempt || state == 0)
        wait_begins(previous);
    wait_ends(next);
    return 0;
}

static __always_inline int moved(const struct sock *sk, int bytes, const bool sent)
{
    const unsigned short family = sk->__sk_common.skc_family;
    if (bytes <= 0 || (family != AF_INET && family != AF_INET6))
        return 0;
    struct process_figures *of = figures_of(bpf_get_current_pid_tgid() >> 32);
    if (!of)
        __sync_fetch_and_add(&lost.bytes, bytes);
    else if (sent)
        __sync_fetch_and_add(&of->sent_bytes, bytes);
    else
        __sync_fetch_and_add(&of->received_bytes, bytes);
    return 0;
}

/* Since Linux 6.4. */
SEC("?tp_btf/sock_send_length")
int BPF_PROG(length_sent, struct sock *sk, int result, int flags)
{
    return moved(sk, result, true);
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(length_received, struct sock *sk, int result, int flags)
{
    return flags & MSG_PEEK ? 0 : moved(sk, result, false);
}

/* Before that. */
static __always_inline int moved_by(const struct socket *socket, int bytes, const bool sent)
{
    const struct sock *sk = socket->sk;
    return sk ? moved(sk, bytes, sent) : 0;
}

SEC("?fexit/inet_sendmsg")
int BPF_PROG(inet_sent, struct socket *socket, void *message, __u64 size, int result)
{
    return moved_by(socket, result, true);
}

SEC("?fexit/inet6_sendmsg")
int BPF_PROG(inet6_sent, struct socket *socket, void *message, __u64 size, int result)
{
    return moved_by(socket, result, true);
}

SEC("?fexit/inet_recvmsg")
int BPF_PROG(inet_received, struct socket *socket, void *message, __u64 size, int flags, int result)
{
    return flags & MSG_PEEK ? 0 : moved_by(socket, result, false);
}

SEC("?fexit/inet6_recvmsg")
int BPF_PROG(inet6_received, struct socket *socket, void *message, __u64 size, int flags,
             int result)
{
    return flags & MSG_PEEK ? 0 : moved_by(socket, result, false);
}
