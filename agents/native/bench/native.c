/* What a span costs. Prints `figure NAME VALUE`. Figures are medians of rounds of one run. */
#include "../src/internal.h"

#include <stdio.h>

#include "timing.h"

SW_SITE(site, "benchmark", SW_INTERNAL, SW_INFO);
SW_SITE(disabled, "disabled", SW_INTERNAL, SW_INFO);

/* Rounds are short: the median is then of rounds that nothing interrupted. */
#define ROUNDS 1001
#define SPANS 4000

static volatile uint64_t sink;

static void hot(void) {
    double span[ROUNDS], clock[ROUNDS], off[ROUNDS], beyond[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        double a = nanoseconds();
        for (int i = 0; i < SPANS; i++) sw_end(sw_begin(&site));
        double b = nanoseconds();
        uint64_t sum = 0;
        for (int i = 0; i < SPANS; i++) {
            sum += now();
            sum ^= now();
        }
        sink = sum;
        double c = nanoseconds();
        for (int i = 0; i < SPANS; i++) {
            sw_span s = sw_begin(&disabled);
            if (s) sw_end(s);
            __asm__ volatile("" ::: "memory");
        }
        double d = nanoseconds();
        span[r] = (b - a) / SPANS;
        clock[r] = (c - b) / SPANS;
        off[r] = (d - c) / SPANS;
        beyond[r] = span[r] - clock[r];
    }
    printf("figure none.two_clock_reads_ns %.2f\n", median(clock, ROUNDS));
    printf("figure native.span_hot_ns %.2f\n", median(span, ROUNDS));
    printf("figure native.span_beyond_clock_ns %.2f\n", median(beyond, ROUNDS));
    printf("figure native.disabled_ns %.2f\n", median(off, ROUNDS));
}

static void tail(void) {
    enum { N = 1000000 };
    double *each = malloc(N * sizeof *each), per_tick;
    double from = nanoseconds();
    uint64_t tick = now();
    for (int i = 0; i < N; i++) {
        uint64_t a = now();
        sw_end(sw_begin(&site));
        each[i] = (double)(now() - a);
    }
    per_tick = (nanoseconds() - from) / (double)(now() - tick);
    qsort(each, N, sizeof *each, compare);
    printf("figure native.span_p999_ns %.1f\n", each[N - N / 1000] * per_tick);
    free(each);
}

static void one(void) { sw_end(sw_begin(&site)); }

/* The share of a processor that metrics take which are written every so often: sixty-four of them,
 * a quarter histograms, in a program that does nothing else. */
static int64_t called(void *argument) { return (int64_t)(intptr_t)argument; }

static void metrics(double seconds, unsigned milliseconds) {
    enum { N = 64 };
    static struct sw_metric all[N];
    static struct sw_histogram histograms[N];
    static char names[N][32];
    for (int i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "benchmark.metric_%d", i);
        enum sw_instrument kind = i % 4 == 0 ? SW_HISTOGRAM : i % 4 == 1 ? SW_GAUGE : SW_COUNTER;
        all[i] = (struct sw_metric){ .name = names[i], .unit = "1", .kind = kind,
                                     .histogram = kind == SW_HISTOGRAM ? &histograms[i] : NULL,
                                     .callback = i % 4 == 2 ? called : NULL, .argument = (void *)(intptr_t)i };
        if (sw_metric_register(&all[i])) abort();
        for (int value = 1; kind == SW_HISTOGRAM && value < 1000; value++) sw_observe(&all[i], value);
        if (kind != SW_HISTOGRAM) sw_add(&all[i], i);
    }
    /* The helper's own ring is made with its first export, once. */
    usleep((useconds_t)milliseconds * 1000 + 300000);
    struct timespec before, after;
    double from = nanoseconds();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep((useconds_t)(seconds * 1e6));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double used = (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    printf("share %.7f\n", used / (nanoseconds() - from));
}

static void flood(double seconds) {
    double from = nanoseconds(), until = from + seconds * 1e9;
    uint64_t made = 0;
    do {
        for (int i = 0; i < 10000; i++) sw_end(sw_begin(&site));
        made += 10000;
    } while (nanoseconds() < until);
    printf("figure native.flood_spans_per_second %.0f\n", (double)made / ((nanoseconds() - from) / 1e9));
    printf("made %llu\n", (unsigned long long)made);
}

int main(int argc, char **argv) {
    if (argc < 3) return fprintf(stderr, "usage: native DIR hot|flood|metrics [SECONDS [MILLISECONDS]]\n"), 2;
    bool flooding = !strcmp(argv[2], "flood");
    struct sw_options o = { .size = sizeof o, .dir = argv[1], .service_name = "bench",
                            .policy = flooding ? SW_ROLL : SW_OVERWRITE, .ring_bytes = flooding ? 16 << 20 : 8 << 20,
                            .disk_bytes = 64ull << 30, .metrics_interval_ms = argc > 4 ? (unsigned)atoi(argv[4]) : 0 };
    int error = sw_start(&o);
    if (error) return fprintf(stderr, "%s: %s\n", argv[1], strerror(-error)), 1;
    sw_end(sw_begin(&disabled));
    ((struct process_file *)sw_lib.process)->enabled[disabled.id] = 0;
    if (flooding) {
        flood(argc > 3 ? atof(argv[3]) : 60);
    } else if (!strcmp(argv[2], "metrics")) {
        metrics(argc > 3 ? atof(argv[3]) : 10, o.metrics_interval_ms);
    } else {
        hot();
        tail();
        printf("figure native.span_cold_ns %.0f\n", cold_nanoseconds(one));
    }
    return sw_stop() != 0;
}
