/* The library's records as events of LTTng-UST. `spanwise replay` reads them (docs/native.md). */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER spanwise
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./lttng/tracepoints.h"
#if !defined(SW_TRACEPOINTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SW_TRACEPOINTS_H
#include <lttng/tracepoint.h>
#include "internal.h"

/* A span that ended at the event's time. */
LTTNG_UST_TRACEPOINT_EVENT(spanwise, span,
    LTTNG_UST_TP_ARGS(const struct exported_span *, span),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uint64_t, trace_hi, span->context.trace_hi)
        lttng_ust_field_integer_hex(uint64_t, trace_lo, span->context.trace_lo)
        lttng_ust_field_integer_hex(uint64_t, span_id, span->context.span_id)
        lttng_ust_field_integer_hex(uint64_t, parent_id, span->parent_id)
        lttng_ust_field_integer(uint64_t, duration, span->duration_ns)
        lttng_ust_field_integer(uint32_t, pid, span->pid)
        lttng_ust_field_integer(uint16_t, flags, span->flags)
        lttng_ust_field_integer(uint8_t, kind, span->kind)
        lttng_ust_field_integer(uint8_t, status, span->status)
        lttng_ust_field_string(name, span->name)))
/* An attribute of the span, event, link or log record with this id, which comes later. */
LTTNG_UST_TRACEPOINT_EVENT(spanwise, attribute,
    LTTNG_UST_TP_ARGS(uint64_t, of, const char *, key, uint8_t, type, const void *, value, size_t, length),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uint64_t, of, of)
        lttng_ust_field_string(key, key)
        lttng_ust_field_integer(uint8_t, type, type)
        lttng_ust_field_sequence(uint8_t, value, value, size_t, length)))
LTTNG_UST_TRACEPOINT_EVENT(spanwise, event,
    LTTNG_UST_TP_ARGS(uint64_t, of, uint64_t, id, const char *, name),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uint64_t, of, of)
        lttng_ust_field_integer_hex(uint64_t, id, id)
        lttng_ust_field_string(name, name)))
LTTNG_UST_TRACEPOINT_EVENT(spanwise, link,
    LTTNG_UST_TP_ARGS(uint64_t, of, uint64_t, id, const struct sw_context *, to),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uint64_t, of, of)
        lttng_ust_field_integer_hex(uint64_t, id, id)
        lttng_ust_field_integer_hex(uint64_t, trace_hi, to->trace_hi)
        lttng_ust_field_integer_hex(uint64_t, trace_lo, to->trace_lo)
        lttng_ust_field_integer_hex(uint64_t, span_id, to->span_id)
        lttng_ust_field_integer(uint8_t, flags, to->flags)))
LTTNG_UST_TRACEPOINT_EVENT(spanwise, log,
    LTTNG_UST_TP_ARGS(uint64_t, id, uint32_t, pid, uint8_t, severity, const struct sw_context *, in, const char *, body),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer_hex(uint64_t, id, id)
        lttng_ust_field_integer_hex(uint64_t, trace_hi, in->trace_hi)
        lttng_ust_field_integer_hex(uint64_t, trace_lo, in->trace_lo)
        lttng_ust_field_integer_hex(uint64_t, span_id, in->span_id)
        lttng_ust_field_integer(uint32_t, pid, pid)
        lttng_ust_field_integer(uint8_t, severity, severity)
        lttng_ust_field_string(body, body)))
/* Once in a second, as a session may begin at any time. */
LTTNG_UST_TRACEPOINT_EVENT(spanwise, process,
    LTTNG_UST_TP_ARGS(uint32_t, pid, const char *, service, const char *, resource, size_t, length),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint32_t, pid, pid)
        lttng_ust_field_string(service, service)
        lttng_ust_field_sequence(uint8_t, resource, resource, size_t, length)))
#endif
#include <lttng/tracepoint-event.h>
