/* Files and thread state. docs/native-format.md is the description of the files. */
#ifndef SW_INTERNAL_H
#define SW_INTERNAL_H

#include "spanwise.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define VERSION 1
#define BLOCK (64u << 10)
#define BLOCK_HEADER 32
#define DEPTH_MAX 64
#define HEADER 8192
#define SITES_MAX 4096
#define INSTRUMENTS_MAX 1024
#define STRINGS_MAX 16384
#define HEAP_BYTES (1u << 20)
#define ANCHORS_KEPT 32
#define ANCHORS_MAX 65536
#define THREADS_MAX 1024
#define RESOURCE_MAX 64
/* Room that an open span keeps for its end with SW_DROP, and for one change of block. */
#define END_BYTES 72
#define CHANGE_BYTES 8192

/* Low bytes of a record's first word. */
enum record { PAD, SPAN, SPAN_LONG, CLOCK, ATTRS, EVENT, LINK, DETACHED_BEGIN, DETACHED_END, LOG, METRIC, STACK };
#define DEPTH_DETACHED 255
#define REMOTE 1u

struct anchor {
    uint64_t tick, realtime_ns, monotonic_ns;
};
struct site_entry {
    uint32_t name, file, line;
    uint8_t kind, level;
    uint16_t unused;
    uint32_t unused2[4];
};
struct instrument_entry {
    uint32_t name, unit, description;
    uint8_t kind, attributes;
    uint16_t unused;
    uint16_t pairs[8];
};
struct process_file {
    char magic[8];
    uint32_t version, header_bytes, pid, clock;
    uint64_t started_ns, ticks_per_second, salt;
    _Atomic uint32_t state;
    uint32_t policy;
    _Atomic uint32_t strings, heap_used, sites, instruments;
    _Atomic uint64_t anchors;
    uint32_t resource_count, unused;
    uint32_t resource[RESOURCE_MAX][2];
    uint32_t offsets[6]; /* enabled, sites, instruments, string index, heap, anchors */
    _Atomic uint64_t threads_refused;
    char pad[4096 - 88 - RESOURCE_MAX * 8 - 24 - 8];
    volatile uint8_t enabled[SITES_MAX];
    struct site_entry site[SITES_MAX];
    struct instrument_entry instrument[INSTRUMENTS_MAX];
    uint32_t string_index[STRINGS_MAX];
    uint8_t heap[HEAP_BYTES];
    struct anchor anchor[ANCHORS_MAX];
};
_Static_assert(offsetof(struct process_file, enabled) == 4096, "header");

struct control_file {
    char magic[8];
    uint32_t version;
    _Atomic uint32_t generation; /* odd while it is written */
    uint32_t length, unused;
    char rules[8192 - 24];
};

struct slot {
    _Atomic uint64_t start;
    uint16_t site;
    uint8_t status, kind, flags, context_flags;
    uint16_t unused;
    uint64_t trace_hi, trace_lo, parent;
    uint64_t unused2[3];
};
_Static_assert(sizeof(struct slot) == 64, "slot");

struct ring_file {
    char magic[8];
    uint32_t version, header_bytes, pid, tid;
    uint64_t started_ns, salt;
    uint32_t policy, block_bytes;
    uint64_t capacity, segment_bytes;
    uint32_t number;
    _Atomic uint32_t state;
    char name[16];
    char pad[128 - 88];
    /* 128 */
    _Atomic uint64_t head;
    _Atomic uint32_t depth;
    uint32_t unused;
    _Atomic uint64_t dropped_full, dropped_depth, dropped_signal, dropped_extras, dropped_ends, misused;
    char pad2[256 - 192];
    _Atomic uint64_t read;
    char pad3[4096 - 264];
    struct slot slots[DEPTH_MAX];
};
_Static_assert(offsetof(struct ring_file, head) == 128, "head");
_Static_assert(offsetof(struct ring_file, slots) == 4096, "slots");

struct thread {
    volatile uint32_t busy;
    uint32_t depth, max_depth;
    uint64_t last_start;
    uint64_t *at, *end; /* in the current block */
    uint64_t base;      /* tick of the current block */
    uint64_t head, limit;
    uint64_t spans_before; /* spans in complete blocks */
    uint64_t block_spans;
    uint64_t salt, retry_ns;
    struct ring_file *file;
    uint8_t *data;
    /* with SW_ROLL */
    _Atomic(uint8_t *) next;    /* a prepared segment */
    _Atomic uint64_t next_segment; /* its number */
    _Atomic(uint8_t *) retired; /* a segment to unmap */
    _Atomic uint64_t segment;
    uint32_t index;
};

/* What libspanwise-lttng.so has for SW_LTTNG. Ids are of spans, or of what comes with attributes. */
#define EXPORTER_ABI 1
struct exported_span {
    struct sw_context context;
    uint64_t parent_id, duration_ns;
    uint32_t pid;
    uint16_t flags;
    uint8_t kind, status;
    const char *name;
};
struct exporter {
    uint64_t abi;
    void (*span)(const struct exported_span *span);
    void (*attribute)(uint64_t of, const char *key, uint8_t type, const void *value, size_t length);
    void (*event)(uint64_t of, uint64_t id, const char *name);
    void (*link)(uint64_t of, uint64_t id, const struct sw_context *to);
    void (*log)(uint64_t id, uint32_t pid, uint8_t severity, const struct sw_context *in, const char *body);
    void (*process)(uint32_t pid, const char *service, const char *resource, size_t length);
};
/* Types of an attribute that are a span's own fields. */
enum { FIELD_MESSAGE = 6, FIELD_TRACESTATE = 7 };

struct library {
    _Atomic int started;
    bool tsc;
    uint32_t policy;
    uint64_t ring_bytes, disk_bytes;
    unsigned interval_ms;
    const struct exporter *exporter; /* with SW_LTTNG */
    struct process_file *process;
    struct control_file *control;
    struct thread *threads[THREADS_MAX];
    pthread_mutex_t registry; /* threads come and go */
    pthread_mutex_t names;    /* interning */
    pthread_t helper;
    _Atomic uint32_t wake, stopping, ring_numbers;
    char dir[3000], prefix[64];
};

extern struct library sw_lib;
extern __thread struct thread *sw_thread __attribute__((tls_model("initial-exec")));

/* Whether the time is one instruction, `ticks`. Functions that only go on if it is call nothing, and
 * so save no registers. */
static inline bool has_ticks(void) {
#if defined(__x86_64__)
    return sw_lib.tsc;
#else
    return false;
#endif
}
static inline uint64_t ticks(void) {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return 0;
#endif
}
static inline uint64_t now(void) {
#if defined(__x86_64__)
    if (SW_LIKELY(sw_lib.tsc)) return __rdtsc();
#endif
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
static inline uint64_t span_id(uint64_t salt, uint64_t start) {
    uint64_t id = mix(salt + start);
    return id ? id : 1;
}
static inline uint64_t trace_hi(uint64_t salt) { return mix(salt ^ 0x9e3779b97f4a7c15u) | 1; }
static inline uint64_t trace_lo(uint64_t salt, uint64_t start) { return mix(~salt + start); }

static inline void enter(struct thread *t) {
    t->busy = 1;
    atomic_signal_fence(memory_order_seq_cst);
}
static inline void leave(struct thread *t) {
    atomic_signal_fence(memory_order_seq_cst);
    t->busy = 0;
}
static inline void count(_Atomic uint64_t *counter) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1, memory_order_relaxed);
}
/* Only this thread writes its slots and its block: a release store publishes them. */
static inline void publish(struct thread *t, uint64_t words) {
    t->head += words * 8;
    atomic_store_explicit(&t->file->head, t->head, memory_order_release);
}

struct thread *sw_thread_make(void);
bool sw_block_next(struct thread *t);
uint64_t *sw_reserve(struct thread *t, uint64_t words);
int sw_site_register(struct sw_site *site);
uint16_t sw_key_id(struct sw_key *key);
uint32_t sw_intern(const char *text);
void sw_anchor(void);
void sw_metrics_write(void);
void sw_filters_apply(uint32_t site);
void sw_wake(void);
const char *sw_site_name(uint16_t site, char *to, size_t size);
void sw_export_slot(struct thread *t, struct slot *slot, uint32_t depth, uint64_t tick);
void sw_export_detached(struct thread *t, const struct sw_detached *span, uint64_t tick);
int sw_export_attrs(uint64_t of, const struct sw_attr *attrs, size_t n);
int sw_exporter_load(void);
void sw_export_process(void);

#endif
