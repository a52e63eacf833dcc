/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Logical tasks: what a language runtime considers current when one of its threads makes a system
 * call (a goroutine, an asyncio task, a virtual thread). It is read from the process's memory,
 * starting at the thread pointer, by a rule that user space made for that process. There is one
 * file for each runtime.
 *
 * Most processes have no rule. A socket remembers that, so they only pay for two comparisons. */
#ifndef SPANWISE_TASK_H
#define SPANWISE_TASK_H

/* src/kernel/tasks.rs knows this layout. */
enum task_kind {
    TASK_NONE,
    TASK_GO,
    TASK_PYTHON,
    TASK_JVM,
    TASK_TOLD, /* only what the program itself reports */
};

#define TASK_OFFSETS 14
#define TASK_ADDRESSES 4

struct task_rule {
    __u32 kind;
    __s32 offset[TASK_OFFSETS]; /* of fields; the runtime's file defines them */
    __u32 pad;
    __u64 address[TASK_ADDRESSES]; /* in the process's memory, likewise */
};

struct task_ids {
    __u64 task; /* 0: unknown */
    __u64 parent; /* the task that created it; 0: unknown */
    __u64 loop; /* a native event loop makes the call and calls tasks back; its rule has more */
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 16384);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, struct task_rule);
} task_rules SEC(".maps");

/* Changes whenever a process gets a rule; 0 while none has one. In a separate map, because user
 * space can only write the map as a whole. */
__u64 task_rules_generation SEC(".data.tasks") = 0;

/* Input and output of the reader of a runtime. */
struct task_lookup {
    __u64 thread; /* in the format of bpf_get_current_pid_tgid */
    __u64 written; /* address of the socket that is written; 0: none */
    __u64 has_rule; /* output: */
    struct task_ids ids; /* the result */
};
PASSED(task_lookup)

static __always_inline __u32 process_of(const struct task_lookup *lookup)
{
    return lookup->thread >> 32;
}

#if defined(__TARGET_ARCH_x86)
#define THREAD_POINTER thread.fsbase
#else
#define THREAD_POINTER thread.uw.tp_value
#endif

/* The thread pointer of the current thread. */
static __always_inline __u64 thread_pointer(void)
{
    if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf))
        return bpf_get_current_task_btf()->THREAD_POINTER; /* see thread_sleeps */
    return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), THREAD_POINTER);
}

/* The location of glibc's thread-specific data: the first offsets of rules that start there. Data
 * of the first keys is in the thread's descriptor itself. */
enum task_glibc {
    TASK_GLIBC_BLOCK, /* from the thread pointer: pointer to the data of some keys (0: the
                       * thread pointer itself), */
    TASK_GLIBC_DATA, /* there: the data of one key */
};

/* 0 if the thread has no data. */
static __always_inline __u64 thread_data(const struct task_rule *rule)
{
    __u64 block = thread_pointer(), data;
    __s32 pointer = rule->offset[TASK_GLIBC_BLOCK];
    if ((pointer && bpf_probe_read_user(&block, 8, (void *)(block + pointer)))
        || bpf_probe_read_user(&data, 8, (void *)(block + rule->offset[TASK_GLIBC_DATA])))
        return 0;
    return data;
}

#include "task_go.h"
#include "task_python.h"
#include "task_jvm.h"
#include "task_told.h"

/* A global function: verified once, not in every program. */
__noinline int read_task(task_lookup_handle handle)
{
    struct task_lookup *lookup = passed_task_lookup(handle);
    if (!lookup)
        return 0;
    __u32 process = process_of(lookup);
    struct task_rule *rule = bpf_map_lookup_elem(&task_rules, &process);
    lookup->has_rule = rule != 0;
    if (!rule)
        return 0;
    switch (rule->kind) {
    case TASK_GO:
        go_current(rule, lookup);
        break;
    case TASK_PYTHON:
        python_current(rule, &lookup->ids);
        break;
    case TASK_JVM:
        jvm_current(rule, lookup);
        told_current(rule, lookup);
        break;
    case TASK_TOLD:
        told_current(rule, lookup);
        break;
    }
    return 0;
}

/* The task that uses a socket now. `written` is the socket's address if it is written. Nothing
 * changes if the task is unknown. */
static __always_inline void find_task(struct socket_state *state, __u64 thread, __u64 written,
                                      struct task_ids *ids)
{
    __u32 generation = task_rules_generation;
    __u32 process = thread >> 32;
    if (!generation
        || (state->taskless_generation == generation && state->taskless_process == process))
        return;
    struct task_lookup asked = { .thread = thread, .written = written };
    struct task_lookup *lookup = pass_task_lookup(&asked);
    if (!lookup)
        return;
    read_task(HANDLE(lookup));
    if (lookup->has_rule) {
        *ids = lookup->ids;
    } else {
        state->taskless_process = process;
        state->taskless_generation = generation;
    }
}

/* The current task, if there is no socket. */
static __always_inline void find_task_here(__u64 thread, __u64 written, struct task_ids *ids)
{
    if (!task_rules_generation)
        return;
    struct task_lookup asked = { .thread = thread, .written = written };
    struct task_lookup *lookup = pass_task_lookup(&asked);
    if (!lookup)
        return;
    read_task(HANDLE(lookup));
    *ids = lookup->ids;
}

/* A socket is closed. Its address may be reused soon. */
static __always_inline void forget_owner(const struct sock *sk)
{
    __u64 address = (__u64)sk;
    if (task_rules_generation)
        bpf_map_delete_elem(&go_owners, &address);
}

#endif
