/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Python creates a context or a greenlet: reports which one created it. */
#ifndef SPANWISE_TASK_MADE_H
#define SPANWISE_TASK_MADE_H

SEC("?uretprobe")
int python_context_made(struct pt_regs *context)
{
    __u64 thread = bpf_get_current_pid_tgid();
    __u32 process = thread >> 32;
    __u64 made = PT_REGS_RC(context), type;
    struct task_rule *rule = bpf_map_lookup_elem(&task_rules, &process);
    if (!made || !rule || rule->kind != TASK_PYTHON
        || bpf_probe_read_user(&type, 8, (void *)(made + rule->offset[TASK_PYTHON_TYPE])))
        return 0;
    struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
    if (!event) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return 0;
    }
    fill(event, SPANWISE_TASK, 0, thread, bpf_ktime_get_ns());
    event->direction = 1;
    event->task = made;
    if (rule->address[TASK_PYTHON_LOOP])
        event->connection = python_reading(thread, PT_REGS_SP(context));
    /* A greenlet's creator does not determine its work: the greenlet may belong to a pool. */
    event->extra = type != rule->address[TASK_PYTHON_CONTEXT_TYPE];
    event->parent_task = python_task(rule);
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}

#endif
