/* The tracepoints of dorsal-lab's opentelemetry-c: messages of OpenTelemetry, one an event. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER opentelemetry
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./opentelemetry.h"
#if !defined(OPENTELEMETRY_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define OPENTELEMETRY_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(opentelemetry, resource_spans, LTTNG_UST_TP_ARGS(const char *, bytes, size_t, length),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence(uint8_t, resource_spans, bytes, size_t, length)))
LTTNG_UST_TRACEPOINT_EVENT(opentelemetry, resource_logs, LTTNG_UST_TP_ARGS(const char *, bytes, size_t, length),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence(uint8_t, resource_logs, bytes, size_t, length)))
LTTNG_UST_TRACEPOINT_EVENT(opentelemetry, resource_metrics, LTTNG_UST_TP_ARGS(const char *, bytes, size_t, length),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_sequence(uint8_t, resource_metrics, bytes, size_t, length)))
#endif
#include <lttng/tracepoint-event.h>
