/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Python contexts (contextvars): asyncio tasks and callbacks each have their own. The thread's
 * PyThreadState is found like PyGILState_Ensure does, in glibc's thread-specific data. It stays
 * there while the interpreter's lock is released.
 *
 * Greenlets (gevent, eventlet) have no entered context. Their library keeps the current one of each
 * thread in a thread-local variable. Every thread's main greenlet is the thread itself. */
#ifndef SPANWISE_TASK_PYTHON_H
#define SPANWISE_TASK_PYTHON_H

/* Indexes in task_rule.offset. */
enum task_python {
    TASK_PYTHON_CONTEXT = TASK_GLIBC_DATA + 1, /* of PyThreadState, to which that points:
                                                * context */
    TASK_PYTHON_TYPE, /* of PyObject: ob_type */
    TASK_PYTHON_ENTERED, /* of PyContext: ctx_entered */
    TASK_PYTHON_VECTOR, /* from the thread pointer: pointer to the dtv, the list of blocks
                         * of thread-local variables; */
    TASK_PYTHON_MODULE, /* which of these is that of the greenlet library (0: there is none); */
    TASK_PYTHON_GREENLETS, /* in the block: pointer to the library's state of the thread */
};
/* Indexes in task_rule.address. */
enum task_python_address {
    TASK_PYTHON_CONTEXT_TYPE, /* PyContext_Type */
    TASK_PYTHON_LOOP, /* start of uvloop's code (0: there is none), */
    TASK_PYTHON_LOOP_END, /* and its end */
    TASK_PYTHON_GREENLET_TYPE, /* PyGreenlet_Type */
};

/* An entry of the dtv (glibc): a block's address, and what to free with it. The entry before the
 * first contains their number. */
#define DTV_ENTRY_BYTES 16

/* uvloop reads in no context, and then calls whatever has waited for the data. All calls of that
 * callback are made before the function that has read, uv__read, returns. So a call belongs to the
 * read if the stack slot of the read's return address still contains the same address. */
struct python_read {
    __u64 connection;
    __u64 slot; /* in the thread's stack: the slot of the return address, */
    __u64 returns; /* which was this */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64);
    __type(value, struct python_read);
} python_reads SEC(".maps");

/* Number of words at the top of the stack that are searched for the return address. */
#define PYTHON_STACK_WORDS 12
/* Maximum size of a function. */
#define PYTHON_FUNCTION_BYTES 4096

/* 0 if there is none. A context that nobody has entered is the thread's own. It says nothing about
 * who uses it, and its creation was not seen. */
static __always_inline __u64 python_context(const struct task_rule *rule)
{
    __u64 state = thread_data(rule), context, type;
    __u32 entered;
    if (!state
        || bpf_probe_read_user(&context, 8, (void *)(state + rule->offset[TASK_PYTHON_CONTEXT]))
        || !context
        || bpf_probe_read_user(&type, 8, (void *)(context + rule->offset[TASK_PYTHON_TYPE]))
        || type != rule->address[TASK_PYTHON_CONTEXT_TYPE]
        || bpf_probe_read_user(&entered, 4, (void *)(context + rule->offset[TASK_PYTHON_ENTERED])))
        return 0;
    return entered ? context : 0;
}

/* 0 if the thread's main greenlet runs, or there never was another. */
static __always_inline __u64 python_greenlet(const struct task_rule *rule)
{
    __u32 module = rule->offset[TASK_PYTHON_MODULE];
    __u64 vector, count, block, state, type;
    struct {
        __u64 main, current;
    } greenlets; /* as greenlet::ThreadState begins */
    if (!module
        || bpf_probe_read_user(&vector, 8,
                               (void *)(thread_pointer() + (__s64)rule->offset[TASK_PYTHON_VECTOR]))
        || bpf_probe_read_user(&count, 8, (void *)(vector - DTV_ENTRY_BYTES)) || module > count
        || bpf_probe_read_user(&block, 8, (void *)(vector + module * DTV_ENTRY_BYTES))
        || bpf_probe_read_user(&state, 8, (void *)(block + rule->offset[TASK_PYTHON_GREENLETS]))
        || bpf_probe_read_user(&greenlets, sizeof greenlets, (void *)state)
        || bpf_probe_read_user(&type, 8, (void *)(greenlets.main + rule->offset[TASK_PYTHON_TYPE]))
        || type != rule->address[TASK_PYTHON_GREENLET_TYPE]
        || greenlets.current == greenlets.main)
        return 0;
    return greenlets.current;
}

/* The current task of a thread. An entered context has priority over a greenlet, because SQLAlchemy
 * runs greenlets inside asyncio tasks. */
static __always_inline __u64 python_task(const struct task_rule *rule)
{
    __u64 context = python_context(rule);
    return context ? context : python_greenlet(rule);
}

static __always_inline void python_current(const struct task_rule *rule, struct task_ids *ids)
{
    ids->task = python_task(rule);
    ids->loop = !ids->task && rule->address[TASK_PYTHON_LOOP];
}

/* An event loop has read from a connection. `stack` is its thread's stack pointer. A global
 * function. */
__noinline int python_has_read(__u64 thread, __u64 connection, __u64 stack)
{
    __u32 process = thread >> 32;
    __u64 words[PYTHON_STACK_WORDS];
    struct task_rule *rule = bpf_map_lookup_elem(&task_rules, &process);
    if (!rule || rule->kind != TASK_PYTHON
        || bpf_probe_read_user(words, sizeof words, (void *)stack))
        return 0;
    for (int i = 0; i < PYTHON_STACK_WORDS; i++) {
        if (words[i] < rule->address[TASK_PYTHON_LOOP]
            || words[i] >= rule->address[TASK_PYTHON_LOOP_END])
            continue;
        struct python_read read = {
            .connection = connection,
            .slot = stack + i * 8,
            .returns = words[i],
        };
        bpf_map_update_elem(&python_reads, &thread, &read, BPF_ANY);
        return 0;
    }
    bpf_map_delete_elem(&python_reads, &thread);
    return 0;
}

/* The connection for which an event loop runs the current callback; 0: none. */
static __always_inline __u64 python_reading(__u64 thread, __u64 stack)
{
    __u64 returns;
    struct python_read *read = bpf_map_lookup_elem(&python_reads, &thread);
    if (!read || stack >= read->slot || bpf_probe_read_user(&returns, 8, (void *)read->slot)
        || returns == read->returns
        || returns - read->returns + PYTHON_FUNCTION_BYTES >= 2 * PYTHON_FUNCTION_BYTES)
        return 0;
    return read->connection;
}

#endif
