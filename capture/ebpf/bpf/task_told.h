/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Work items that a program itself reports, in a table in its memory (docs/task-table.md): for each
 * thread or logical task, what it works on, and by whom and when that was handed over. The table is
 * read during a call of the thread that wrote the entry, so never half-written. */
#ifndef SPANWISE_TASK_TOLD_H
#define SPANWISE_TASK_TOLD_H

/* Indexes in task_rule.offset, the last of them. A runtime's own come first. */
enum task_told {
    /* number of bits of an index in the table, which has 1 << that many; 0: none */
    TASK_TOLD_BITS = 10,
    TASK_TOLD_SLOT = 11, /* bytes of a slot */
    TASK_TOLD_SPAN = 12, /* where in a slot the current span is; 0: nowhere */
};
/* Indexes in task_rule.address. */
enum task_told_address {
    TASK_TOLD_KEYS = 0, /* the owner of each slot */
    TASK_TOLD_SLOTS = 1,
};

/* Maximum number of keys that are compared. The table has as many additional slots at its end. */
#define TOLD_PROBES 4
/* Flag of a key: it is a logical task's number, not a thread's. */
#define TOLD_LOGICAL (1ULL << 63)
/* Flag of a task number in events: it is a work item. */
#define TOLD_WORK (1ULL << 62)
/* Also in the table: the thread's own work, which nobody handed over, */
#define TOLD_OWN (1ULL << 61)
/* or the creator of the thread. */
#define TOLD_STARTED (1ULL << 60)
/* Flag of a task number in events, which may be 0 otherwise: the parent is no task, but the span in
 * which the thread works. */
#define TOLD_SPAN (1ULL << 59)
/* Flag of a key of reported work: it is a thread's. */
#define TOLD_WHOSE (1ULL << 63)
#define TOLD_SPREAD 0x9e3779b97f4a7c15ULL

struct told_slot {
    __u64 work;
    __u64 hops; /* number of hops that follow */
};
struct told_hop {
    __u64 nano; /* when the work was handed over, */
    __u64 origin; /* in the course of this work */
};
/* Maximum number of hops in a slot. */
#define TOLD_HOPS 14

/* Work items that user space knows. */
struct told_key {
    __u64 work;
    __u64 process;
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, struct told_key);
    __type(value, __u64);
} told_works SEC(".maps");

/* The thread's id in the process's namespace. */
static __always_inline __u64 told_thread(void)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct pid *pid = BPF_CORE_READ(task, thread_pid);
    __u64 level = BPF_CORE_READ(pid, level);
    struct upid number = {};
    bpf_probe_read_kernel(&number, sizeof number,
                          (void *)__builtin_preserve_access_index(&pid->numbers[0])
                              + level * sizeof number);
    return (__u32)number.nr;
}

/* Reports a work item once. Returns false if user space already knew it. The event contains the
 * work item in whose course it was handed over, or if there was none, the thread's logical
 * task. */
static __always_inline bool told_tell(__u64 process, __u64 work, __u64 origin, __u64 nano)
{
    struct told_key key = { .work = origin & TOLD_WORK ? work : work | TOLD_WHOSE,
                            .process = process };
    __u64 told = 1;
    if (bpf_map_lookup_elem(&told_works, &key))
        return false;
    struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
    if (!event) {
        __sync_fetch_and_add(&tallies.lost_lifecycle, 1);
        return false;
    }
    fill(event, SPANWISE_TASK, 0, bpf_get_current_pid_tgid(), nano);
    event->direction = 2;
    event->task = work | TOLD_WORK;
    event->parent_task = origin;
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    bpf_map_update_elem(&told_works, &key, &told, BPF_ANY);
    return true;
}

/* The span in which the slot's owner works. Runtimes with a table know no parents of tasks, so the
 * span takes that place. */
static __always_inline void told_span(const struct task_rule *rule, __u64 slot, struct task_ids *ids)
{
    __u64 span;
    __u32 at = rule->offset[TASK_TOLD_SPAN];
    if (!at || bpf_probe_read_user(&span, 8, (void *)(slot + at)) || !span)
        return;
    ids->task |= TOLD_SPAN;
    ids->parent = span;
}

/* The current work item of the thread according to the table. Nothing changes if there is none. */
static __always_inline void told_current(const struct task_rule *rule, struct task_lookup *lookup)
{
    __u64 keys[TOLD_PROBES];
    struct told_slot slot;
    __u32 bits = rule->offset[TASK_TOLD_BITS] & 31;
    if (!bits) /* no table: done */
        return;
    __u64 key = lookup->ids.task ? lookup->ids.task | TOLD_LOGICAL : told_thread();
    if (!key)
        return;
    __u64 place = key * TOLD_SPREAD >> (64 - bits);
    if (bpf_probe_read_user(keys, sizeof keys, (void *)(rule->address[TASK_TOLD_KEYS] + place * 8)))
        return;
    __u64 found = TOLD_PROBES;
    for (int i = 0; i < TOLD_PROBES; i++)
        if (keys[i] == key)
            found = i;
    if (found == TOLD_PROBES)
        return;
    __u64 at = rule->address[TASK_TOLD_SLOTS] + (place + found) * (__u32)rule->offset[TASK_TOLD_SLOT];
    if (bpf_probe_read_user(&slot, sizeof slot, (void *)at))
        return;
    __u64 task = lookup->ids.task;
    told_span(rule, at, &lookup->ids);
    if (!slot.work)
        return;
    if (slot.work & (TOLD_OWN | TOLD_STARTED))
        told_tell(process_of(lookup), slot.work, task, bpf_ktime_get_ns());
    else
        lookup->ids.task = slot.work | TOLD_WORK | (lookup->ids.task & TOLD_SPAN);
    for (__u64 i = 0; i < TOLD_HOPS && i < slot.hops; i++) {
        struct told_hop hop;
        if (bpf_probe_read_user(&hop, sizeof hop, (void *)(at + sizeof slot + i * sizeof hop))
            || !told_tell(process_of(lookup), slot.work, hop.origin | TOLD_WORK, hop.nano))
            return;
        slot.work = hop.origin;
    }
}

#endif
