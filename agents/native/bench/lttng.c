/* What an event of LTTng-UST costs, of the size of a span: a peer of the library. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng.h"

#include <stdio.h>

#include "timing.h"

#define ROUNDS 101
#define EVENTS 2000

static void event(void) { lttng_ust_tracepoint(bench, span, "benchmark", 1, 2, 3, 4); }

int main(void) {
    double each[ROUNDS], off[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double a = nanoseconds();
        for (int i = 0; i < EVENTS; i++) event();
        double b = nanoseconds();
        for (int i = 0; i < EVENTS; i++) lttng_ust_tracepoint(bench, disabled, i);
        each[r] = (b - a) / EVENTS;
        off[r] = (nanoseconds() - b) / EVENTS;
        usleep(5000); /* its consumer reads */
    }
    printf("figure lttng.event_hot_ns %.2f\n", median(each, ROUNDS));
    printf("figure lttng.disabled_ns %.2f\n", median(off, ROUNDS));
    printf("figure lttng.event_cold_ns %.0f\n", cold_nanoseconds(event));
    return 0;
}
