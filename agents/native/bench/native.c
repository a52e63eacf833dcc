/* What a span costs. Prints `figure NAME VALUE`. Figures are medians of rounds of one run. */
#include "../src/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

SW_SITE(site, "benchmark", SW_INTERNAL, SW_INFO);
SW_SITE(disabled, "disabled", SW_INTERNAL, SW_INFO);

#define ROUNDS 21
#define SPANS 200000

static double nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

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

/* Ten milliseconds of sleep, and other memory, before each span. */
static void cold(void) {
    enum { N = 101, BYTES = 8 << 20 };
    double each[N];
    char *other = malloc(BYTES);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < BYTES; j += 64) other[j]++;
        usleep(10000);
        double a = nanoseconds();
        sw_end(sw_begin(&site));
        each[i] = nanoseconds() - a;
    }
    double clock[N];
    for (int i = 0; i < N; i++) {
        double a = nanoseconds();
        clock[i] = nanoseconds() - a;
    }
    printf("figure native.span_cold_ns %.0f\n", median(each, N) - median(clock, N));
    free(other);
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
    if (argc < 3) return fprintf(stderr, "usage: native DIR hot|flood [SECONDS]\n"), 2;
    bool flooding = !strcmp(argv[2], "flood");
    struct sw_options o = { .size = sizeof o, .dir = argv[1], .service_name = "bench",
                            .policy = flooding ? SW_ROLL : SW_OVERWRITE, .ring_bytes = flooding ? 16 << 20 : 8 << 20,
                            .disk_bytes = 64ull << 30 };
    int error = sw_start(&o);
    if (error) return fprintf(stderr, "%s: %s\n", argv[1], strerror(-error)), 1;
    sw_end(sw_begin(&disabled));
    ((struct process_file *)sw_lib.process)->enabled[disabled.id] = 0;
    if (flooding) {
        flood(argc > 3 ? atof(argv[3]) : 60);
    } else {
        hot();
        tail();
        cold();
    }
    return sw_stop() != 0;
}
