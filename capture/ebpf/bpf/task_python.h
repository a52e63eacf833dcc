/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Contexts of Python (contextvars): asyncio tasks and callbacks each have their own. The
 * thread's PyThreadState is found as PyGILState_Ensure finds it, in the thread-specific
 * data of glibc: it stays there while the interpreter's lock is given up.
 *
 * Greenlets (gevent, eventlet) have no context that anybody has entered. Which of them runs
 * in a thread is in a thread-local variable of their library; every thread's main greenlet
 * is the thread itself. */
#ifndef SPANWISE_TASK_PYTHON_H
#define SPANWISE_TASK_PYTHON_H

/* Places in task_rule.offset. */
enum task_python {
    TASK_PYTHON_CONTEXT = TASK_GLIBC_DATA + 1, /* of PyThreadState, to which that points:
                                                * context */
    TASK_PYTHON_TYPE, /* of PyObject: ob_type */
    TASK_PYTHON_ENTERED, /* of PyContext: ctx_entered */
    TASK_PYTHON_VECTOR, /* from the thread pointer: pointer to the dtv, where the blocks of
                         * libraries' thread-local variables are listed; */
    TASK_PYTHON_MODULE, /* which of these is that of greenlets' library (0: there is none); */
    TASK_PYTHON_GREENLETS, /* in the block: pointer to what it knows of the thread */
};
/* Places in task_rule.address. */
enum task_python_address {
    TASK_PYTHON_CONTEXT_TYPE, /* PyContext_Type */
    TASK_PYTHON_LOOP, /* where the code of uvloop begins (0: there is none), */
    TASK_PYTHON_LOOP_END, /* and ends */
    TASK_PYTHON_GREENLET_TYPE, /* PyGreenlet_Type */
};

/* An entry of the dtv (glibc): a block's address, and what is freed with it. Before the
 * first one is how many there are. */
#define DTV_ENTRY_BYTES 16

/* uvloop reads in no context, and then calls what has waited for it. Whatever that makes
 * is made inside of the call: the function that has read, uv__read, has not returned. So
 * where its call of read(2) had its return address, that of the callback is. */
struct python_read {
    __u64 connection;
    __u64 slot; /* in the thread's stack: the return address, */
    __u64 returns; /* which was this */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64);
    __type(value, struct python_read);
} python_reads SEC(".maps");

/* Words of the stack, from its top, among which the return address is. */
#define PYTHON_STACK_WORDS 12
/* A function is no longer than this. */
#define PYTHON_FUNCTION_BYTES 4096

/* 0 where there is none. One that nobody has entered is the thread's own: who uses that
 * is not told from the thread, and how it came to be was not seen. */
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

/* 0 where the thread's main one runs, or none ever did. */
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

/* What a thread works at. A context that is entered goes before a greenlet: SQLAlchemy runs
 * greenlets inside of asyncio's tasks. */
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

/* A loop has read from a connection; `stack` is its thread's stack pointer. A function of
 * its own to the verifier. */
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

/* The connection for which a loop has called back what runs now; 0: for none. */
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
