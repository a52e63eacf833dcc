/* What the benchmarks of the library and of its peers share. */
#ifndef SPANWISE_BENCH_TIMING_H
#define SPANWISE_BENCH_TIMING_H
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline double nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}
static inline int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static inline double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 2];
}

/* Ten milliseconds of sleep, and other memory, before each call; the median without the clock's. */
static inline double cold_nanoseconds(void (*call)(void)) {
    enum { N = 101, BYTES = 8 << 20 };
    static double each[N], clock[N];
    char *other = (char *)calloc(1, BYTES);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < BYTES; j += 64) other[j]++;
        usleep(10000);
        double a = nanoseconds();
        call();
        each[i] = nanoseconds() - a;
    }
    for (int i = 0; i < N; i++) {
        double a = nanoseconds();
        clock[i] = nanoseconds() - a;
    }
    free(other);
    return median(each, N) - median(clock, N);
}
#endif
