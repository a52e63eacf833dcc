/* Spanwise for native programs: spans, metrics and log records at the cost of two clock reads.
 *
 * Records go to memory-mapped files in a directory; `spanwise replay DIR` sends them on. Functions
 * return 0 or a negative errno. After sw_start and a thread's first record nothing is allocated,
 * and no lock is taken. docs/native.md explains the use, docs/native-format.md the files.
 *
 * Functions marked [signal] may be called in a signal handler, if the thread has called
 * sw_thread_start and the site or key has been used before.
 */
#ifndef SPANWISE_H
#define SPANWISE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SW_ABI 1

#if defined(__GNUC__)
#define SW_API __attribute__((visibility("default")))
#define SW_LIKELY(x) __builtin_expect(!!(x), 1)
#else
#error "spanwise.h needs gcc or clang"
#endif

/* What happens when there is no room. */
enum sw_policy {
    SW_ROLL = 0,      /* further files; the oldest are deleted beyond disk_bytes */
    SW_DROP = 1,      /* new spans are dropped and counted */
    SW_OVERWRITE = 2, /* flight recorder: the oldest blocks are overwritten */
    SW_LTTNG = 3,     /* no files: records are events of LTTng-UST, and its buffers decide */
};

enum sw_kind { SW_UNSPECIFIED, SW_INTERNAL, SW_SERVER, SW_CLIENT, SW_PRODUCER, SW_CONSUMER };
enum sw_status { SW_UNSET, SW_OK, SW_ERROR };
/* OpenTelemetry's severity numbers; also the levels of call sites. */
enum sw_level { SW_TRACE = 1, SW_DEBUG = 5, SW_INFO = 9, SW_WARN = 13, SW_ERR = 17, SW_FATAL = 21 };

struct sw_resource {
    const char *key, *value;
};

struct sw_options {
    size_t size; /* sizeof(struct sw_options): newer fields may follow */
    const char *dir;
    const char *service_name;
    enum sw_policy policy;
    uint64_t ring_bytes; /* a thread's ring, or segment with SW_ROLL; 0: 8 MiB */
    uint64_t disk_bytes; /* bound on all segments of the process with SW_ROLL; 0: 1 GiB */
    const struct sw_resource *resource;
    size_t resource_count;
    unsigned metrics_interval_ms; /* 0: 1000 */
};

/* Starts recording. -EINVAL: bad options; -EALREADY: started; -ELIBACC: libspanwise-lttng.so cannot
 * be loaded (SW_LTTNG); else the error of the file system. */
SW_API int sw_start(const struct sw_options *options);
/* Takes the last clock anchor and metrics, and disables every site. */
SW_API int sw_stop(void);
/* Makes the calling thread's ring now instead of at its first record. */
SW_API int sw_thread_start(void);
SW_API unsigned sw_abi(void);

/* ---- call sites ------------------------------------------------------------------------- */

struct sw_site {
    const volatile uint8_t *enabled;
    const char *name, *file;
    uint32_t line;
    uint16_t id;
    uint8_t kind, level;
};

SW_API extern const volatile uint8_t sw_unregistered;

#define SW_SITE_INIT(name_, kind_, level_) \
    { &sw_unregistered, name_, __FILE__, __LINE__, 0, kind_, level_ }
/* Declares a call site: SW_SITE(accept_site, "accept", SW_SERVER, SW_INFO); */
#define SW_SITE(var, name, kind, level) static struct sw_site var = SW_SITE_INIT(name, kind, level)

/* Whether a site records at the moment: a load and a branch. [signal] */
static inline int sw_enabled(const struct sw_site *site) {
    return __atomic_load_n(__atomic_load_n(&site->enabled, __ATOMIC_RELAXED), __ATOMIC_RELAXED) != 0;
}

/* ---- spans ------------------------------------------------------------------------------ */

/* An open span of this thread; 0 is a span that is not recorded, and may be used like others. */
typedef uint64_t sw_span;

struct sw_context {
    uint64_t trace_hi, trace_lo, span_id;
    uint8_t flags; /* 1: sampled */
};

SW_API sw_span sw_begin_slow(struct sw_site *site);
SW_API sw_span sw_begin_remote_slow(struct sw_site *site, const struct sw_context *parent);

/* Begins a span below the thread's innermost open span. [signal] */
static inline sw_span sw_begin(struct sw_site *site) {
    return sw_enabled(site) ? sw_begin_slow(site) : 0;
}
/* Begins a span of this thread whose parent is elsewhere. [signal] */
static inline sw_span sw_begin_remote(struct sw_site *site, const struct sw_context *parent) {
    return sw_enabled(site) ? sw_begin_remote_slow(site, parent) : 0;
}
/* Ends a span, and spans below it that are still open. [signal] */
SW_API void sw_end(sw_span span);
/* [signal] */
SW_API void sw_set_status(sw_span span, enum sw_status status);
SW_API void sw_set_kind(sw_span span, enum sw_kind kind);

/* ---- attributes, events, links, logs ------------------------------------------------------ */

struct sw_key {
    const char *name;
    uint16_t id;
};
#define SW_KEY(var, name) static struct sw_key var = { name, 0 }

enum sw_type { SW_I64 = 1, SW_F64 = 2, SW_BOOL = 3, SW_STRING = 4, SW_BYTES = 5 };

struct sw_attr {
    struct sw_key *key;
    enum sw_type type;
    uint32_t length; /* of strings and bytes */
    union {
        int64_t i64;
        double f64;
        const void *bytes;
    } value;
};

static inline struct sw_attr sw_i64(struct sw_key *key, int64_t value) {
    struct sw_attr a = { key, SW_I64, 0, { 0 } };
    a.value.i64 = value;
    return a;
}
static inline struct sw_attr sw_bool(struct sw_key *key, int value) {
    struct sw_attr a = { key, SW_BOOL, 0, { 0 } };
    a.value.i64 = value != 0;
    return a;
}
static inline struct sw_attr sw_f64(struct sw_key *key, double value) {
    struct sw_attr a = { key, SW_F64, 0, { 0 } };
    a.value.f64 = value;
    return a;
}
static inline struct sw_attr sw_string(struct sw_key *key, const char *value, size_t length) {
    struct sw_attr a = { key, SW_STRING, (uint32_t)(length > 4096 ? 4097 : length), { 0 } };
    a.value.bytes = value;
    return a;
}

/* All [signal]. Strings of more than 4096 bytes are cut, and marked as cut. -ENOSPC: dropped and
 * counted. -EINVAL: more than 128 attributes or 16 KiB. */
SW_API int sw_attrs(sw_span span, const struct sw_attr *attrs, size_t count);
SW_API int sw_event(sw_span span, struct sw_key *name, const struct sw_attr *attrs, size_t count);
SW_API int sw_link(sw_span span, const struct sw_context *to, const struct sw_attr *attrs, size_t count);
SW_API int sw_set_tracestate(sw_span span, const char *value);
SW_API int sw_set_status_message(sw_span span, const char *message);
/* A log record in the innermost open span. */
SW_API int sw_log(enum sw_level level, const char *body, const struct sw_attr *attrs, size_t count);

/* ---- spans that no thread's stack holds ---------------------------------------------------- */

struct sw_detached {
    struct sw_context context;
    uint64_t parent_id, start;
    uint16_t site;
    uint8_t status, live;
};
/* Begins a span that any thread may end; `parent` may be NULL. Costs two records. */
SW_API void sw_detached_begin(struct sw_detached *span, struct sw_site *site, const struct sw_context *parent);
SW_API void sw_detached_end(struct sw_detached *span);
SW_API int sw_detached_attrs(struct sw_detached *span, const struct sw_attr *attrs, size_t count);

/* ---- W3C trace context --------------------------------------------------------------------- */

/* The context of an open span of this thread, or of the innermost one. -ENOENT: there is none. [signal] */
SW_API int sw_context_of(sw_span span, struct sw_context *context);
SW_API int sw_current(struct sw_context *context);
/* traceparent: 55 characters and a NUL. [signal] */
SW_API void sw_format(const struct sw_context *context, char text[56]);
/* -EINVAL: not a valid traceparent. [signal] */
SW_API int sw_parse(const char *text, size_t length, struct sw_context *context);
/* 32 bytes for any carrier: trace id, span id, flags, version 1, "SWC", three zeros. [signal] */
SW_API void sw_pack(const struct sw_context *context, uint8_t bytes[32]);
SW_API int sw_unpack(const uint8_t *bytes, size_t length, struct sw_context *context);

/* ---- metrics ------------------------------------------------------------------------------- */

enum sw_instrument { SW_COUNTER = 1, SW_UP_DOWN_COUNTER = 2, SW_GAUGE = 3, SW_HISTOGRAM = 4 };
#define SW_SHARDS 8
#define SW_BUCKETS 512 /* eight for each power of two, from 2^-30 */

struct sw_shard {
    int64_t value;
    int64_t unused[7]; /* a cache line for each */
};
struct sw_histogram {
    uint64_t count, zero, buckets[SW_BUCKETS];
    uint64_t sum, min, max; /* bits of doubles */
};
struct sw_metric {
    const char *name, *unit, *description;
    enum sw_instrument kind;
    int64_t (*callback)(void *); /* asynchronous: called before each export */
    void *argument;
    struct sw_histogram *histogram;
    const struct sw_resource *attributes; /* at most 4 */
    unsigned attribute_count;
    unsigned id;
    struct sw_shard shards[SW_SHARDS];
};
#ifndef __cplusplus
#define SW_METRIC(var, name_, unit_, kind_) \
    static struct sw_metric var = { .name = name_, .unit = unit_, .kind = kind_ }
#define SW_METRIC_HISTOGRAM(var, name_, unit_)      \
    static struct sw_histogram var##_buckets;       \
    static struct sw_metric var = { .name = name_, .unit = unit_, .kind = SW_HISTOGRAM, .histogram = &var##_buckets }
#endif
/* Once for each metric, after sw_start. */
SW_API int sw_metric_register(struct sw_metric *metric);
/* Lock-free; [signal]. */
SW_API void sw_add(struct sw_metric *metric, int64_t value);
SW_API void sw_set(struct sw_metric *metric, int64_t value);
SW_API void sw_observe(struct sw_metric *metric, double value);

#ifdef __cplusplus
}
#endif
#endif
