/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Virtual threads of HotSpot. The thread's JavaThread is found in the thread-specific data
 * of glibc, where the virtual machine keeps it for signal handlers. It knows the number of
 * the thread that runs on it (for monitors), which is never used again; and that thread
 * as an object, which is another one than its own where it is a virtual thread. */
#ifndef SPANWISE_TASK_JVM_H
#define SPANWISE_TASK_JVM_H

/* Places in task_rule.offset. */
enum task_jvm {
    TASK_JVM_BLOCK, /* from the thread pointer: pointer to the data of some keys, */
    TASK_JVM_THREAD, /* there: pointer to the JavaThread; of that: */
    TASK_JVM_OWN, /* _threadObj, a handle: pointer to where the object's address is, */
    TASK_JVM_CURRENT, /* _vthread, likewise, */
    TASK_JVM_NUMBER, /* _monitor_owner_id */
    TASK_JVM_COLOUR, /* bits of an object's address that say nothing of where it is */
};

static __always_inline __u64 jvm_object(__u64 handle)
{
    __u64 place, object;
    if (bpf_probe_read_user(&place, 8, (void *)handle)
        || bpf_probe_read_user(&object, 8, (void *)place))
        return 0;
    return object;
}

static __always_inline void jvm_current(const struct task_rule *rule, struct task_ids *ids)
{
    __u64 block, thread, number;
    if (bpf_probe_read_user(&block, 8,
                            (void *)(thread_pointer() + (__s64)rule->offset[TASK_JVM_BLOCK]))
        || bpf_probe_read_user(&thread, 8, (void *)(block + rule->offset[TASK_JVM_THREAD]))
        || !thread)
        return;
    __u64 own = jvm_object(thread + rule->offset[TASK_JVM_OWN]);
    __u64 current = jvm_object(thread + rule->offset[TASK_JVM_CURRENT]);
    __u32 colour = rule->offset[TASK_JVM_COLOUR] & 63;
    if (!own || !current || own >> colour == current >> colour)
        return;
    if (!bpf_probe_read_user(&number, 8, (void *)(thread + rule->offset[TASK_JVM_NUMBER])))
        ids->task = number;
}

#endif
