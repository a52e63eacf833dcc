/* Tracepoints of a program that knows nothing of Spanwise, and those of dorsal-lab's opentelemetry-c. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER shop
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./shop.h"
#if !defined(SHOP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SHOP_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_ENUM(shop, color,
    LTTNG_UST_TP_ENUM_VALUES(lttng_ust_field_enum_value("RED", 1) lttng_ust_field_enum_range("MANY", 2, 9)))
LTTNG_UST_TRACEPOINT_EVENT(shop, request_begin,
    LTTNG_UST_TP_ARGS(const char *, trace, const char *, span, const char *, parent, int, items),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(trace_id, trace)
        lttng_ust_field_string(span_id, span)
        lttng_ust_field_string(parent_span_id, parent)
        lttng_ust_field_integer(int, items, items)
        lttng_ust_field_float(double, price, items * 1.5)
        lttng_ust_field_enum(shop, color, int, color, items)
        lttng_ust_field_array(int, pair, ((int[]){ items, -items }), 2)
        lttng_ust_field_integer_hex(unsigned long, mask, items)
        lttng_ust_field_sequence_text(char, note, span, size_t, 4)))
LTTNG_UST_TRACEPOINT_EVENT(shop, request_end,
    LTTNG_UST_TP_ARGS(const char *, trace, const char *, span),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_string(trace_id, trace) lttng_ust_field_string(span_id, span)))
LTTNG_UST_TRACEPOINT_EVENT(shop, paid,
    LTTNG_UST_TP_ARGS(const char *, trace, const char *, span, int, cents),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_string(trace_id, trace)
        lttng_ust_field_string(span_id, span)
        lttng_ust_field_integer(int, cents, cents)))
LTTNG_UST_TRACEPOINT_EVENT(shop, idle, LTTNG_UST_TP_ARGS(int, n), LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, n, n)))
#endif
#include <lttng/tracepoint-event.h>
