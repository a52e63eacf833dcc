/* libspanwise-lttng.so: loaded by sw_start with SW_LTTNG, so that only programs that want LTTng
 * need it. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng/tracepoints.h"

static void span(const struct exported_span *span) { lttng_ust_tracepoint(spanwise, span, span); }
static void attribute(uint64_t of, const char *key, uint8_t type, const void *value, size_t length) {
    lttng_ust_tracepoint(spanwise, attribute, of, key, type, value, length);
}
static void event(uint64_t of, uint64_t id, const char *name) { lttng_ust_tracepoint(spanwise, event, of, id, name); }
static void link_to(uint64_t of, uint64_t id, const struct sw_context *to) {
    lttng_ust_tracepoint(spanwise, link, of, id, to);
}
static void log_record(uint64_t id, uint32_t pid, uint8_t severity, const struct sw_context *in, const char *body) {
    lttng_ust_tracepoint(spanwise, log, id, pid, severity, in, body);
}
static void process(uint32_t pid, const char *service, const char *resource, size_t length) {
    lttng_ust_tracepoint(spanwise, process, pid, service, resource, length);
}

SW_API const struct exporter sw_exporter = { EXPORTER_ABI, span, attribute, event, link_to, log_record, process };
