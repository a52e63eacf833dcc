/* A request, a request in it, a payment, and messages of OpenTelemetry: one good of each kind, one damaged. */
#include "shop.h"
#include "opentelemetry.h"

#define TRACE "0102030405060708090a0b0c0d0e0f10"
#define OUTER "1111111111111111"
#define INNER "2222222222222222"
#define RESOURCE "\x0a\x18\x0a\x16\x0a\x0cservice.name\x12\x06\x0a\x04talk"
static const char spans[] = RESOURCE "\x12\x40\x12\x3e"
    "\x0a\x10\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10"
    "\x12\x08\x33\x33\x33\x33\x33\x33\x33\x33"
    "\x22\x08\x11\x11\x11\x11\x11\x11\x11\x11"
    "\x2a\x04" "blob"
    "\x39\x00\x00\x10\x63\x2d\x5e\xc7\x17"
    "\x41\x00\x00\x20\x63\x2d\x5e\xc7\x17";
/* A log record "hi", and a gauge with one point. */
static const char logs[] = RESOURCE "\x12\x08\x12\x06\x2a\x04\x0a\x02hi";
static const char metrics[] = RESOURCE "\x12\x12\x12\x10\x0a\x01m\x2a\x0b\x0a\x09\x31\x01\x00\x00\x00\x00\x00\x00\x00";

int main(void) {
    lttng_ust_tracepoint(shop, request_begin, TRACE, OUTER, "", 3);
    lttng_ust_tracepoint(shop, paid, TRACE, OUTER, 450);
    lttng_ust_tracepoint(shop, request_begin, TRACE, INNER, OUTER, 1);
    lttng_ust_tracepoint(shop, request_end, TRACE, INNER);
    lttng_ust_tracepoint(shop, request_end, TRACE, OUTER);
    lttng_ust_tracepoint(shop, idle, -7);
    lttng_ust_tracepoint(opentelemetry, resource_spans, spans, sizeof spans - 1);
    lttng_ust_tracepoint(opentelemetry, resource_logs, logs, sizeof logs - 1);
    lttng_ust_tracepoint(opentelemetry, resource_metrics, metrics, sizeof metrics - 1);
    lttng_ust_tracepoint(opentelemetry, resource_spans, spans, 20);
    /* Its end never comes. */
    lttng_ust_tracepoint(shop, request_begin, TRACE, "4444444444444444", OUTER, 2);
    return 0;
}
