/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Goroutines. The thread-local variable of Go's runtime points at the runtime.g of what
 * runs; its number and that of the goroutine that made it are fields of that. Numbers are
 * never used again. */
#ifndef SPANWISE_TASK_GO_H
#define SPANWISE_TASK_GO_H

/* Places in task_rule.offset. */
enum task_go {
    TASK_GO_G, /* of the variable, from the thread pointer */
    TASK_GO_NUMBER, /* of runtime.g: goid, */
    TASK_GO_PARENT, /* parentGoid, */
    TASK_GO_M, /* m, */
    TASK_GO_CURRENT, /* and of runtime.m: curg */
};

static __always_inline bool go_numbers(const struct task_rule *rule, __u64 g, struct task_ids *ids)
{
    if (bpf_probe_read_user(&ids->task, 8, (void *)(g + rule->offset[TASK_GO_NUMBER])) || !ids->task
        || bpf_probe_read_user(&ids->parent, 8, (void *)(g + rule->offset[TASK_GO_PARENT]))) {
        ids->task = 0;
        ids->parent = 0;
        return false;
    }
    return true;
}

static __always_inline void go_current(const struct task_rule *rule, struct task_ids *ids)
{
    __u64 g, m;
    if (bpf_probe_read_user(&g, 8, (void *)(thread_pointer() + (__s64)rule->offset[TASK_GO_G]))
        || go_numbers(rule, g, ids))
        return;
    /* In a call of C the thread is on a stack without a number: whose call it is, its
     * runtime.m tells. */
    if (bpf_probe_read_user(&m, 8, (void *)(g + rule->offset[TASK_GO_M]))
        || bpf_probe_read_user(&g, 8, (void *)(m + rule->offset[TASK_GO_CURRENT])) || !g)
        return;
    go_numbers(rule, g, ids);
}

#endif
