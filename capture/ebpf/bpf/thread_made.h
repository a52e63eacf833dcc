/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A process creates a thread: on which thread, and in which logical task. And the end of a thread,
 * which a pool's workers do not reach. Only reported for processes that need it. The first program
 * is attached when one does. */
#ifndef SPANWISE_THREAD_MADE_H
#define SPANWISE_THREAD_MADE_H

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32);
    __type(value, __u8);
} thread_makers SEC(".maps");

SEC("?raw_tp/sched_process_fork")
int thread_made(struct bpf_raw_tracepoint_args *context)
{
    __u64 thread = bpf_get_current_pid_tgid();
    __u32 process = thread >> 32;
    if (!bpf_map_lookup_elem(&thread_makers, &process))
        return 0;
    struct task_struct *made = (struct task_struct *)context->args[1];
    if (BPF_CORE_READ(made, tgid) != process)
        return 0;
    struct task_ids ids = {};
    find_task_here(thread, 0, &ids);
    struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
    if (!event) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return 0;
    }
    fill(event, SPANWISE_THREAD, 0, thread, bpf_ktime_get_ns());
    event->extra = BPF_CORE_READ(made, pid);
    event->task = ids.task;
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}

static __always_inline void thread_ends(void)
{
    __u64 thread = bpf_get_current_pid_tgid();
    __u32 process = thread >> 32;
    jvm_thread_ends(thread);
    if (!bpf_map_lookup_elem(&thread_makers, &process))
        return;
    struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
    if (!event) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return;
    }
    fill(event, SPANWISE_THREAD, 0, thread, bpf_ktime_get_ns());
    event->direction = 1;
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

#endif
