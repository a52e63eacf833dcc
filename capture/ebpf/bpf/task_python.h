/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Contexts of Python (contextvars): asyncio tasks and callbacks each have their own. The
 * thread's PyThreadState is found as PyGILState_Ensure finds it, in the thread-specific
 * data of glibc: it stays there while the interpreter's lock is given up. */
#ifndef SPANWISE_TASK_PYTHON_H
#define SPANWISE_TASK_PYTHON_H

/* Places in task_rule.offset. */
enum task_python {
    TASK_PYTHON_BLOCK, /* from the thread pointer: pointer to the data of some keys, */
    TASK_PYTHON_STATE, /* there: pointer to the PyThreadState, */
    TASK_PYTHON_CONTEXT, /* of that: context */
    TASK_PYTHON_TYPE, /* of PyObject: ob_type */
    TASK_PYTHON_ENTERED, /* of PyContext: ctx_entered */
};
/* Places in task_rule.address. */
enum task_python_address {
    TASK_PYTHON_CONTEXT_TYPE, /* PyContext_Type */
};

/* 0 where there is none. One that nobody has entered is the thread's own: who uses that
 * is not told from the thread, and how it came to be was not seen. */
static __always_inline __u64 python_context(const struct task_rule *rule)
{
    __u64 block, state, context, type;
    __u32 entered;
    if (bpf_probe_read_user(&block, 8,
                            (void *)(thread_pointer() + (__s64)rule->offset[TASK_PYTHON_BLOCK]))
        || bpf_probe_read_user(&state, 8, (void *)(block + rule->offset[TASK_PYTHON_STATE]))
        || bpf_probe_read_user(&context, 8, (void *)(state + rule->offset[TASK_PYTHON_CONTEXT]))
        || !context
        || bpf_probe_read_user(&type, 8, (void *)(context + rule->offset[TASK_PYTHON_TYPE]))
        || type != rule->address[TASK_PYTHON_CONTEXT_TYPE]
        || bpf_probe_read_user(&entered, 4, (void *)(context + rule->offset[TASK_PYTHON_ENTERED])))
        return 0;
    return entered ? context : 0;
}

static __always_inline void python_current(const struct task_rule *rule, struct task_ids *ids)
{
    ids->task = python_context(rule);
}

#endif
