/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Virtual threads of HotSpot. The thread's JavaThread is in glibc's thread-specific data, where the
 * virtual machine keeps it for signal handlers. It contains the number of the thread that runs on
 * it (for monitors), which is never reused, and that thread's object. The object differs from the
 * JavaThread's own if it is a virtual thread. */
#ifndef SPANWISE_TASK_JVM_H
#define SPANWISE_TASK_JVM_H

/* Indexes in task_rule.offset. */
enum task_jvm {
    TASK_JVM_OWN = TASK_GLIBC_DATA + 1, /* of JavaThread, to which that points: _threadObj, a
                                         * handle: pointer to the object's address, */
    TASK_JVM_CURRENT, /* _vthread, likewise, */
    TASK_JVM_NUMBER, /* _monitor_owner_id */
    TASK_JVM_COLOUR, /* number of bits of an object's address that are not part of the location */
};

/* A thread that ran no virtual thread when it was last checked: the address of its number, and the
 * number at that time. As long as the number is the same, it runs none. */
struct jvm_thread {
    __u64 number_at;
    __u64 number;
    __u64 generation; /* of the rules at that time */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 8192);
    __type(key, __u64);
    __type(value, struct jvm_thread);
} jvm_threads SEC(".maps");

/* Most calls are made by platform threads. This detects them with one read instead of seven. */
static __always_inline bool jvm_runs_itself(__u64 thread)
{
    __u64 number;
    struct jvm_thread *known = bpf_map_lookup_elem(&jvm_threads, &thread);
    return known && known->generation == task_rules_generation
        && !bpf_probe_read_user(&number, 8, (void *)known->number_at) && number == known->number;
}

/* A thread ends. Another kind of thread may get its id. */
static __always_inline void jvm_thread_ends(__u64 thread)
{
    if (task_rules_generation)
        bpf_map_delete_elem(&jvm_threads, &thread);
}

static __always_inline __u64 jvm_object(__u64 handle)
{
    __u64 place, object;
    if (bpf_probe_read_user(&place, 8, (void *)handle)
        || bpf_probe_read_user(&object, 8, (void *)place))
        return 0;
    return object;
}

static __always_inline void jvm_current(const struct task_rule *rule, struct task_lookup *lookup)
{
    __u64 thread, number;
    if (jvm_runs_itself(lookup->thread))
        return;
    thread = thread_data(rule);
    if (!thread)
        return;
    __u64 own = jvm_object(thread + rule->offset[TASK_JVM_OWN]);
    __u64 current = jvm_object(thread + rule->offset[TASK_JVM_CURRENT]);
    __u32 colour = rule->offset[TASK_JVM_COLOUR] & 63;
    __u64 number_at = thread + rule->offset[TASK_JVM_NUMBER];
    if (!own || !current || bpf_probe_read_user(&number, 8, (void *)number_at))
        return;
    if (own >> colour != current >> colour) {
        lookup->ids.task = number;
        return;
    }
    struct jvm_thread itself = { number_at, number, task_rules_generation };
    __u64 key = lookup->thread;
    bpf_map_update_elem(&jvm_threads, &key, &itself, BPF_ANY);
}

#endif
