/* The library from its outside. `library record DIR`, `load DIR`, `many DIR` write recordings for
 * the reader's tests, `observe DIR` writes a histogram of the numbers that it reads, `clocks DIR` says
 * when its spans began, `work DIR POLICY MICROSECONDS SECONDS` works in several threads. */
#include "../src/internal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x) \
    do { \
        if (!(x)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x); \
            exit(1); \
        } \
    } while (0)

SW_SITE(server, "serve", SW_SERVER, SW_INFO);
SW_SITE(query, "query", SW_CLIENT, SW_DEBUG);
SW_SITE(task, "task", SW_INTERNAL, SW_INFO);
SW_KEY(status_key, "http.response.status_code");
SW_KEY(text_key, "text");
SW_KEY(retry_key, "retry");
SW_METRIC(requests, "requests", "{request}", SW_COUNTER);
SW_METRIC_HISTOGRAM(latency, "latency", "ms");

static void begin(const char *dir, enum sw_policy policy, uint64_t ring, uint64_t disk) {
    static const struct sw_resource resource[] = { { "deployment.environment.name", "test" } };
    struct sw_options o = { .size = sizeof o, .dir = dir, .service_name = "library", .policy = policy, .ring_bytes = ring,
                            .disk_bytes = disk, .resource = resource, .resource_count = 1 };
    CHECK(sw_start(&o) == 0);
    CHECK(sw_start(&o) == -EALREADY);
}

static void record_all(const char *dir) {
    begin(dir, SW_ROLL, 0, 0);
    CHECK(sw_metric_register(&requests) == 0 && sw_metric_register(&latency) == 0);
    struct sw_context parent;
    CHECK(sw_parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 55, &parent) == 0);
    sw_span a = sw_begin_remote(&server, &parent);
    struct sw_attr attrs[] = { sw_i64(&status_key, 500), sw_string(&text_key, "caf\xc3\xa9", 5) };
    CHECK(sw_attrs(a, attrs, 2) == 0 && sw_set_tracestate(a, "x=1") == 0);
    sw_span b = sw_begin(&query);
    CHECK(sw_event(b, &retry_key, attrs, 1) == 0 && sw_link(b, &parent, NULL, 0) == 0);
    struct sw_context context, again;
    CHECK(sw_current(&context) == 0 && context.trace_hi == parent.trace_hi && context.trace_lo == parent.trace_lo);
    char text[56];
    uint8_t bytes[32];
    sw_format(&context, text);
    CHECK(sw_parse(text, 55, &again) == 0 && again.span_id == context.span_id);
    sw_pack(&context, bytes);
    CHECK(sw_unpack(bytes, 32, &again) == 0 && again.span_id == context.span_id && again.trace_lo == context.trace_lo);
    printf("query %s\n", text);
    CHECK(sw_log(SW_WARN, "slow", attrs, 1) == 0);
    sw_end(b);
    sw_set_status(a, SW_ERROR);
    CHECK(sw_set_status_message(a, "failed") == 0);
    sw_end(a);
    struct sw_detached d;
    sw_detached_begin(&d, &task, &context);
    CHECK(sw_detached_attrs(&d, attrs, 1) == 0);
    sw_detached_end(&d);
    sw_add(&requests, 3);
    sw_observe(&latency, 4.0);
    sw_observe(&latency, 5.0);
    sw_begin(&server);
    sw_begin(&query);
    sw_stop();
}

static void observe(const char *dir) {
    begin(dir, SW_ROLL, 0, 0);
    CHECK(sw_metric_register(&latency) == 0);
    double value;
    while (scanf("%lf", &value) == 1) sw_observe(&latency, value);
    sw_stop();
}

static uint64_t wall_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Spans, and the wall clock before and after each begin. */
static void clocks(const char *dir) {
    begin(dir, SW_ROLL, 0, 0);
    for (int i = 0; i < 60; i++) {
        uint64_t before = wall_ns();
        sw_span span = sw_begin(&server);
        uint64_t after = wall_ns();
        sw_end(span);
        printf("%llu %llu\n", (unsigned long long)before, (unsigned long long)after);
        usleep(50000);
    }
    sw_stop();
}

static void contexts(void) {
    static const char *bad[] = { "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0", "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                 "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                                 "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", "" };
    struct sw_context c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(sw_parse(bad[i], strlen(bad[i]), &c) == -EINVAL);
    const char *later = "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more";
    CHECK(sw_parse(later, strlen(later), &c) == 0 && c.span_id == 0xb7ad6b7169203331);
    uint8_t zero[32] = { 0 };
    CHECK(sw_unpack(zero, 32, &c) == -EINVAL && sw_unpack(zero, 31, &c) == -EINVAL);
}

static _Atomic uint64_t made;
static void on_signal(int number) {
    (void)number;
    sw_span s = sw_begin(&task);
    sw_end(s);
    made++;
}

static void *worker(void *argument) {
    long n = (long)argument;
    for (long i = 0; i < n; i++) {
        sw_span a = sw_begin(&server), b = sw_begin(&query);
        sw_add(&requests, 1);
        sw_end(b);
        sw_end(a);
    }
    made += 2 * (uint64_t)n;
    return NULL;
}

/* Spans of four threads, with signals: stored and dropped are what was made. */
static void counted(enum sw_policy policy) {
    char dir[] = "/tmp/spanwise-library-XXXXXX";
    CHECK(mkdtemp(dir));
    pid_t pid = fork();
    if (!pid) {
        begin(dir, policy, 4 * BLOCK, 1u << 20);
        CHECK(sw_thread_start() == 0);
        sw_end(sw_begin(&task));
        signal(SIGUSR1, on_signal);
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, worker, (void *)20000L) == 0);
        struct ring_file *f = sw_thread->file;
        for (int i = 0; i < 2000; i++) {
            sw_span s = sw_begin(&task);
            raise(SIGUSR1);
            sw_end(s);
            sw_end(s); /* twice: counted, nothing else */
        }
        uint64_t stored = sw_thread->spans_before + sw_thread->block_spans;
        CHECK(stored + f->dropped_full + f->dropped_signal == 4001);
        CHECK(policy == SW_DROP || f->misused == 2000);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        CHECK(made == 2000 + 4 * 40000);
        CHECK(sw_begin(&task) != 0 || policy == SW_DROP);
        pid_t inner = fork();
        if (!inner) {
            sw_end(sw_begin(&task));
            _exit(sw_thread && sw_thread->file->pid == (uint32_t)getpid() ? 0 : 1);
        }
        int status;
        CHECK(waitpid(inner, &status, 0) == inner && status == 0);
        CHECK(sw_stop() == 0 && sw_stop() == -EINVAL && sw_begin(&task) == 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK(system(command) == 0);
}

/* Runs until it is killed. What it began and ended is in the file `made`. */
static void load(const char *dir) {
    char path[512];
    snprintf(path, sizeof path, "%s/made", dir);
    mkdir(dir, 0755);
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    volatile uint64_t *progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    begin(dir, SW_ROLL, 16 * BLOCK, 1u << 30);
    for (;;) {
        sw_span a = sw_begin(&server);
        progress[0]++;
        sw_span b = sw_begin(&query);
        progress[0]++;
        sw_end(b);
        progress[1]++;
        sw_end(a);
        progress[1]++;
    }
}

/* ---- threads that hand spans to each other ---- */

enum { WORKERS = 3 };
struct progress {
    volatile uint64_t begun, ended, detached_begun, detached_ended, logs, tried, unused[2];
};
static struct progress *progress;
static _Atomic(struct sw_detached *) mailbox[WORKERS];
static unsigned pause_us;
static double work_until;
SW_KEY(worker_key, "worker");
SW_KEY(hand_key, "handed");

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *work_on(void *argument) {
    long me = (long)argument;
    struct progress *p = &progress[me];
    for (long i = 0; work_until == 0 || seconds() < work_until; i++) {
        struct sw_attr who[] = { sw_i64(&worker_key, me), sw_string(&text_key, "caf\xc3\xa9", 5) };
        p->tried += 2;
        sw_span a = sw_begin(&server);
        if (a) p->begun++;
        sw_attrs(a, who, 2);
        sw_span b = sw_begin(&query);
        if (b) p->begun++;
        if (i % 16 == 0 && sw_log(SW_INFO, "working", who, 1) == 0) p->logs++;
        if (i % 64 == 0 && !atomic_load(&mailbox[(me + 1) % WORKERS])) {
            struct sw_detached *d = malloc(sizeof *d);
            p->tried++;
            sw_detached_begin(d, &task, NULL);
            if (d->live) p->detached_begun++;
            sw_detached_attrs(d, who, 1);
            atomic_store(&mailbox[(me + 1) % WORKERS], d);
        }
        struct sw_detached *d = atomic_exchange(&mailbox[me], NULL);
        if (d) {
            struct sw_attr handed = sw_i64(&hand_key, me);
            int live = d->live;
            sw_detached_attrs(d, &handed, 1);
            sw_detached_end(d);
            if (live) p->detached_ended++;
            free(d);
        }
        sw_end(b);
        if (b) p->ended++;
        sw_end(a);
        if (a) p->ended++;
        if (pause_us) usleep(pause_us);
    }
    return NULL;
}

/* Until it is killed, or for some seconds. What each thread did is in the file `made`. */
static void work(const char *dir, enum sw_policy policy) {
    char path[512];
    mkdir(dir, 0755);
    snprintf(path, sizeof path, "%s/%d.made", dir, (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT, 0644);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(progress != MAP_FAILED);
    begin(dir, policy, 16 * BLOCK, 1u << 30);
    CHECK(sw_metric_register(&requests) == 0);
    sw_add(&requests, 1);
    pthread_t threads[WORKERS];
    for (long i = 0; i < WORKERS; i++) CHECK(pthread_create(&threads[i], NULL, work_on, (void *)i) == 0);
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    sw_stop();
}

int main(int argc, char **argv) {
    if (argc == 6 && !strcmp(argv[1], "work")) {
        pause_us = (unsigned)atoi(argv[4]);
        work_until = atof(argv[5]) > 0 ? seconds() + atof(argv[5]) : 0;
        return work(argv[2], (enum sw_policy)atoi(argv[3])), 0;
    }
    if (argc == 3 && !strcmp(argv[1], "record")) return record_all(argv[2]), 0;
    if (argc == 3 && !strcmp(argv[1], "observe")) return observe(argv[2]), 0;
    if (argc == 3 && !strcmp(argv[1], "clocks")) return clocks(argv[2]), 0;
    if (argc == 3 && !strcmp(argv[1], "load")) return load(argv[2]), 0;
    if (argc == 3 && !strcmp(argv[1], "filtered")) {
        begin(argv[2], SW_OVERWRITE, 0, 0);
        sw_span a = sw_begin(&server), b = sw_begin(&query);
        CHECK(a && !b);
        sw_end(b);
        sw_end(a);
        return sw_stop();
    }
    contexts();
    CHECK(sw_begin(&server) == 0);
    counted(SW_ROLL);
    counted(SW_DROP);
    counted(SW_OVERWRITE);
    puts("library: ok");
    return 0;
}
