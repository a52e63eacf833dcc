/* What a span is as an event of LTTng-UST. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng.h"
#if !defined(BENCH_LTTNG_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define BENCH_LTTNG_H
#include <lttng/tracepoint.h>
#include <stdint.h>
LTTNG_UST_TRACEPOINT_EVENT(bench, span,
    LTTNG_UST_TP_ARGS(const char *, name, uint64_t, trace_hi, uint64_t, trace_lo, uint64_t, span_id, uint64_t, parent_id),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(name, name)
        lttng_ust_field_integer(uint64_t, trace_hi, trace_hi)
        lttng_ust_field_integer(uint64_t, trace_lo, trace_lo)
        lttng_ust_field_integer(uint64_t, span_id, span_id)
        lttng_ust_field_integer(uint64_t, parent_id, parent_id)))
LTTNG_UST_TRACEPOINT_EVENT(bench, disabled, LTTNG_UST_TP_ARGS(int, n), LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, n, n)))
#endif
#include <lttng/tracepoint-event.h>
