/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Passing structures to global functions, which the verifier checks once and not for each call.
 * Since Linux 5.12 they may take pointers. On older kernels (BEFORE_5_12; capture.bpf.c is compiled
 * for both) they may take only numbers. There, a structure is placed in a per-CPU map where all
 * functions of a program find it. Programs that use the same place do not interrupt each other: on
 * those kernels they run with preemption disabled, in the context of a thread. */
#ifndef SPANWISE_PASSED_H
#define SPANWISE_PASSED_H

/* For structures of this type:
 *
 *     pass_TYPE(&local)      what to pass and to use from then on; 0 on failure
 *     TYPE_handle, HANDLE()  the argument's type, and a pointer as that type
 *     passed_TYPE(handle)    the pointer again, inside the function */
#ifdef BEFORE_5_12
#define PASSED(name)                                                                    \
    struct {                                                                            \
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                        \
        __uint(max_entries, 1);                                                         \
        __type(key, __u32);                                                             \
        __type(value, struct name);                                                     \
    } place_of_##name SEC(".maps");                                                     \
    typedef __u64 name##_handle;                                                        \
    static __always_inline struct name *passed_##name(name##_handle handle)             \
    {                                                                                   \
        const __u32 only = 0;                                                           \
        asm volatile("" : "+r"(handle)); /* used, or callers would not pass it */       \
        return bpf_map_lookup_elem(&place_of_##name, &only);                            \
    }                                                                                   \
    static __always_inline struct name *pass_##name(const struct name *local)           \
    {                                                                                   \
        struct name *place = passed_##name(0);                                          \
        if (place)                                                                      \
            *place = *local;                                                            \
        return place;                                                                   \
    }
#define HANDLE(pointer) ((void)(pointer), 0)
#else
#define PASSED(name)                                                                    \
    typedef struct name *name##_handle;                                                 \
    static __always_inline struct name *passed_##name(name##_handle handle)             \
    {                                                                                   \
        return handle;                                                                  \
    }                                                                                   \
    static __always_inline struct name *pass_##name(struct name *local)                 \
    {                                                                                   \
        return local;                                                                   \
    }
#define HANDLE(pointer) (pointer)
#endif

#endif
