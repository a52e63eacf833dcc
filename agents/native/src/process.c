/* Everything that is not hot: files, threads, interning, filters, clock anchors. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

struct library sw_lib = { .registry = PTHREAD_MUTEX_INITIALIZER, .names = PTHREAD_MUTEX_INITIALIZER };
const volatile uint8_t sw_unregistered = 1;
static pthread_key_t exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Segments that are complete, oldest first. */
static struct { uint32_t ring; uint64_t number; } complete[8192];
static uint32_t complete_from, complete_count;

static uint64_t clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool tsc_is_good(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    const char *wanted = getenv("SPANWISE_NATIVE_CLOCK");
    if (wanted && !strcmp(wanted, "monotonic")) return false;
    if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d >> 8 & 1)) return false;
    /* Across sockets the kernel knows best. */
    char source[16] = { 0 };
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, source, sizeof source - 1);
    close(fd);
    return n >= 3 && !strncmp(source, "tsc", 3);
#else
    return false;
#endif
}

static uint64_t now_fenced(void) {
#if defined(__x86_64__)
    _mm_lfence();
    uint64_t tick = now();
    _mm_lfence();
    return tick;
#else
    return now();
#endif
}

/* The clocks together: of sixteen attempts the closest. */
static struct anchor anchor_take(void) {
    struct anchor best = { 0 };
    uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < 16; i++) {
        uint64_t before = now_fenced();
        uint64_t wall = clock_ns(CLOCK_REALTIME);
        uint64_t after = now_fenced();
        if (after - before < shortest) {
            shortest = after - before;
            best = (struct anchor){ before + (after - before) / 2, wall, 0 };
        }
    }
    best.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    return best;
}

void sw_anchor(void) {
    struct process_file *p = sw_lib.process;
    struct anchor a = anchor_take();
    uint64_t n = atomic_load(&p->anchors);
    p->anchor[n < ANCHORS_KEPT ? n : ANCHORS_KEPT + (n - ANCHORS_KEPT) % (ANCHORS_MAX - ANCHORS_KEPT)] = a;
    atomic_store_explicit(&p->anchors, n + 1, memory_order_release);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void *map_file(const char *path, uint64_t bytes, int flags, int populate, int *error) {
    int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0640);
    if (fd < 0) {
        *error = -errno;
        return NULL;
    }
    void *at = MAP_FAILED;
    int failed = 0;
    if (flags & O_CREAT) {
        /* Rings take their room at once: a full disk is an error now, not a SIGBUS later. */
        failed = populate ? posix_fallocate(fd, 0, (off_t)bytes) : ftruncate(fd, (off_t)bytes) ? errno : 0;
    }
    if (!failed) {
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (populate ? MAP_POPULATE : 0), fd, 0);
        if (at == MAP_FAILED) failed = errno;
    }
    close(fd);
    if (failed) {
        *error = -failed;
        if (flags & O_EXCL) unlink(path);
        return NULL;
    }
    *error = 0;
    return at;
}

static void segment_path(char *to, size_t size, uint32_t ring, uint64_t number) {
    snprintf(to, size, "%s/%s.%u.%llu.segment", sw_lib.dir, sw_lib.prefix, ring, (unsigned long long)number);
}

/* The helper makes a segment that is not there (O_EXCL). A thread that outran it may find the one that
 * the helper is making, and takes it. */
static uint8_t *segment_make(struct thread *t, uint64_t number, int flags) {
    char path[4096];
    int error;
    segment_path(path, sizeof path, t->index, number);
    return map_file(path, sw_lib.ring_bytes, O_CREAT | flags, 1, &error);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Where a block's bytes are; with SW_ROLL this goes to the next segment. */
static uint8_t *block_place(struct thread *t, uint64_t number) {
    if (sw_lib.policy != SW_ROLL) return t->data + number * BLOCK % sw_lib.ring_bytes;
    uint64_t segment = number * BLOCK / sw_lib.ring_bytes;
    if (!t->data || segment != t->segment) {
        uint8_t *next = atomic_exchange(&t->next, NULL);
        if (next && atomic_load(&t->next_segment) != segment) {
            munmap(next, sw_lib.ring_bytes);
            next = NULL;
        }
        if (!next) next = segment_make(t, segment, 0);
        if (!next) return NULL;
        uint8_t *old = t->data;
        t->data = next;
        atomic_store(&t->segment, segment);
        if (old) {
            uint8_t *nothing = NULL;
            if (!atomic_compare_exchange_strong(&t->retired, &nothing, old)) munmap(old, sw_lib.ring_bytes);
        }
        sw_wake();
    }
    return t->data + number * BLOCK % sw_lib.ring_bytes;
}

/* Fills the current block up and begins the next. It starts with the spans that are open, so that
 * a block is read without those before it. */
bool sw_block_next(struct thread *t) {
    uint64_t head = (t->head + BLOCK - 1) / BLOCK * BLOCK;
    /* A full disk is not asked again for every span. */
    if (t->retry_ns && clock_ns(CLOCK_MONOTONIC) < t->retry_ns) return false;
    if (t->at && t->at < t->end) *t->at = PAD;
    uint8_t *block = block_place(t, head / BLOCK);
    t->retry_ns = block ? 0 : clock_ns(CLOCK_MONOTONIC) + 100000000;
    if (!block) return false;
    uint64_t header[4] = { 0x314b4c4257530000u | BLOCK_HEADER, head / BLOCK, now(), t->spans_before + t->block_spans };
    uint64_t *to = (uint64_t *)(void *)block;
    to[0] = 0;
    atomic_thread_fence(memory_order_release);
    memcpy(to + 1, header + 1, 24);
    uint64_t *at = to + 4;
    uint32_t depth = t->depth;
    uint64_t words = 1 + (uint64_t)depth * 6;
    at[0] = STACK | (uint64_t)depth << 8 | words << 32;
    for (uint32_t i = 0; i < depth; i++) {
        struct slot *slot = &t->file->slots[i];
        uint64_t *entry = at + 1 + i * 6;
        entry[0] = slot->start;
        entry[1] = slot->site | (uint64_t)slot->flags << 16 | (uint64_t)slot->context_flags << 24;
        entry[2] = slot->trace_hi;
        entry[3] = slot->trace_lo;
        entry[4] = slot->parent;
        entry[5] = 0;
    }
    atomic_store_explicit((_Atomic uint64_t *)to, header[0], memory_order_release);
    t->base = header[2];
    t->spans_before = header[3];
    t->block_spans = 0;
    t->at = at + words;
    t->end = to + BLOCK / 8;
    t->head = head;
    publish(t, 4 + words);
    return true;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void thread_release(struct thread *t) {
    uint64_t data = sw_lib.policy == SW_ROLL || sw_lib.policy == SW_LTTNG ? 0 : sw_lib.ring_bytes;
    uint8_t *next = atomic_exchange(&t->next, NULL), *old = atomic_exchange(&t->retired, NULL);
    if (next) munmap(next, sw_lib.ring_bytes);
    if (old) munmap(old, sw_lib.ring_bytes);
    if (sw_lib.policy == SW_ROLL && t->data) munmap(t->data, sw_lib.ring_bytes);
    munmap(t->file, HEADER + data);
    munmap(t, sizeof *t);
}

static void segment_complete(uint32_t ring, uint64_t number);

static void thread_exit(void *argument) {
    struct thread *t = argument;
    sw_thread = NULL;
    atomic_store_explicit(&t->file->state, 2, memory_order_release);
    pthread_mutex_lock(&sw_lib.registry);
    for (int i = 0; i < THREADS_MAX; i++) {
        if (sw_lib.threads[i] == t) sw_lib.threads[i] = NULL;
    }
    if (sw_lib.policy == SW_ROLL) {
        uint64_t segment = atomic_load(&t->segment);
        segment_complete(t->index, segment);
        if (atomic_load(&t->next)) {
            char path[4096];
            segment_path(path, sizeof path, t->index, segment + 1);
            unlink(path);
        }
    }
    thread_release(t);
    pthread_mutex_unlock(&sw_lib.registry);
}

struct thread *sw_thread_make(void) {
    static __thread bool making;
    if (making || atomic_load_explicit(&sw_lib.started, memory_order_acquire) != 1) return NULL;
    making = true;
    struct thread *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (t == MAP_FAILED) t = NULL;
    int error = 0;
    bool no_data = sw_lib.policy == SW_ROLL || sw_lib.policy == SW_LTTNG;
    if (t) {
        char path[4096];
        uint64_t bytes = HEADER + (no_data ? 0 : sw_lib.ring_bytes);
        t->index = atomic_fetch_add(&sw_lib.ring_numbers, 1);
        snprintf(path, sizeof path, "%s/%s.%u.ring", sw_lib.dir, sw_lib.prefix, t->index);
        t->file = map_file(path, bytes, O_CREAT | O_EXCL, 1, &error);
    }
    if (!t || !t->file) goto refused;
    struct ring_file *f = t->file;
    if (getrandom(&t->salt, 8, GRND_NONBLOCK) != 8) t->salt = mix(now() ^ (uintptr_t)t);
    t->data = no_data ? NULL : (uint8_t *)f + HEADER;
    t->limit = sw_lib.policy == SW_DROP ? sw_lib.ring_bytes : UINT64_MAX;
    f->version = VERSION;
    f->header_bytes = HEADER;
    f->pid = (uint32_t)getpid();
    f->tid = (uint32_t)syscall(SYS_gettid);
    f->started_ns = sw_lib.process->started_ns;
    f->salt = t->salt;
    f->policy = sw_lib.policy;
    f->block_bytes = BLOCK;
    f->capacity = no_data ? 0 : sw_lib.ring_bytes;
    f->segment_bytes = no_data ? sw_lib.ring_bytes : 0;
    f->number = t->index;
    f->state = 1;
    pthread_getname_np(pthread_self(), f->name, sizeof f->name);
    atomic_thread_fence(memory_order_release);
    memcpy(f->magic, "SPWNRING", 8);
    if (sw_lib.exporter) {
        t->at = t->end = (uint64_t *)(void *)t; /* never any room: every end takes the slow path */
    } else if (!sw_block_next(t)) {
        goto refused;
    }
    pthread_mutex_lock(&sw_lib.registry);
    int free = 0;
    while (free < THREADS_MAX && sw_lib.threads[free]) free++;
    if (free < THREADS_MAX) sw_lib.threads[free] = t;
    pthread_mutex_unlock(&sw_lib.registry);
    if (free == THREADS_MAX) goto refused;
    pthread_setspecific(exit_key, t);
    sw_thread = t;
    making = false;
    sw_wake();
    return t;
refused:
    atomic_fetch_add(&sw_lib.process->threads_refused, 1);
    if (t && t->file) thread_release(t);
    else if (t) munmap(t, sizeof *t);
    making = false;
    return NULL;
}

int sw_thread_start(void) { return sw_thread || sw_thread_make() ? 0 : -ENOSPC; }

/* ---- names and sites ------------------------------------------------------------------------- */

/* A thread that holds `names` is busy, so that its signal handlers never wait for themselves. */
static bool names_lock(bool *was_busy) {
    struct thread *t = sw_thread;
    *was_busy = !t || t->busy;
    if (t) t->busy = 1;
    pthread_mutex_lock(&sw_lib.names);
    return true;
}
static void names_unlock(bool was_busy) {
    pthread_mutex_unlock(&sw_lib.names);
    if (!was_busy) leave(sw_thread);
}

static uint32_t intern(const char *text) {
    struct process_file *p = sw_lib.process;
    size_t length = text ? strnlen(text, 1024) : 0;
    uint32_t strings = p->strings;
    for (uint32_t i = 1; i < strings; i++) {
        uint16_t other;
        uint8_t *at = p->heap + p->string_index[i];
        memcpy(&other, at, 2);
        if (other == length && !memcmp(at + 2, text, length)) return i;
    }
    if (strings >= STRINGS_MAX || p->heap_used + 2 + length > HEAP_BYTES) return 0;
    uint16_t length16 = (uint16_t)length;
    memcpy(p->heap + p->heap_used, &length16, 2);
    if (length) memcpy(p->heap + p->heap_used + 2, text, length);
    p->string_index[strings] = p->heap_used;
    p->heap_used += 2 + (uint32_t)length;
    atomic_store_explicit(&p->strings, strings + 1, memory_order_release);
    return strings;
}

uint32_t sw_intern(const char *text) {
    bool was;
    if (!sw_lib.process) return 0;
    names_lock(&was);
    uint32_t id = intern(text);
    names_unlock(was);
    return id;
}

uint16_t sw_key_id(struct sw_key *key) {
    uint16_t id = __atomic_load_n(&key->id, __ATOMIC_RELAXED);
    if (SW_LIKELY(id != 0)) return id;
    id = (uint16_t)sw_intern(key->name);
    __atomic_store_n(&key->id, id, __ATOMIC_RELAXED);
    return id;
}

static const char *string_at(uint32_t id, char *to, size_t size) {
    struct process_file *p = sw_lib.process;
    uint16_t length;
    memcpy(&length, p->heap + p->string_index[id], 2);
    if (length >= size) length = (uint16_t)(size - 1);
    memcpy(to, p->heap + p->string_index[id] + 2, length);
    to[length] = 0;
    return to;
}

const char *sw_site_name(uint16_t site, char *to, size_t size) {
    return string_at(sw_lib.process->site[site].name, to, size);
}

/* A line is `on|off LEVEL GLOB`, where GLOB is for the name or `FILE:LINE`. The last that fits holds. */
static bool allowed(const char *rules, const char *name, const char *place, unsigned level) {
    bool on = true;
    char verb[8], glob[1024];
    unsigned from;
    int used;
    while (sscanf(rules, "%7s %u %1023[^\n]%n", verb, &from, glob, &used) == 3) {
        rules += used;
        bool fits = !fnmatch(glob, name, 0) || !fnmatch(glob, place, 0);
        /* `on` holds from the level up, `off` below it (0: at every level). */
        if (!strcmp(verb, "on") && fits && level >= from) on = true;
        if (!strcmp(verb, "off") && fits && (from == 0 || level < from)) on = false;
    }
    return on;
}

void sw_filters_apply(uint32_t site) {
    struct control_file *c = sw_lib.control;
    struct process_file *p = sw_lib.process;
    char name[1025], file[1025], place[1100], rules[sizeof c->rules + 1];
    struct site_entry *e = &p->site[site];
    string_at(e->name, name, sizeof name);
    snprintf(place, sizeof place, "%s:%u", string_at(e->file, file, sizeof file), e->line);
    for (int attempt = 0; attempt < 1000; attempt++) {
        uint32_t generation = atomic_load(&c->generation);
        if (generation & 1) {
            usleep(100);
            continue;
        }
        uint32_t length = c->length < sizeof c->rules ? c->length : (uint32_t)sizeof c->rules;
        memcpy(rules, c->rules, length);
        rules[length] = 0;
        __atomic_store_n(&p->enabled[site], allowed(rules, name, place, e->level), __ATOMIC_RELAXED);
        if (atomic_load(&c->generation) == generation) return;
    }
}

int sw_site_register(struct sw_site *site) {
    if (atomic_load_explicit(&sw_lib.started, memory_order_acquire) != 1) return -EAGAIN;
    struct process_file *p = sw_lib.process;
    bool was;
    int result = 0;
    names_lock(&was);
    uint32_t n = p->sites;
    if (site->id) goto out;
    uint32_t name = intern(site->name), file = intern(site->file);
    if (n >= SITES_MAX || !name || !file) {
        result = -ENOSPC;
        goto out;
    }
    p->site[n] = (struct site_entry){ .name = name, .file = file, .line = site->line, .kind = site->kind, .level = site->level };
    atomic_store(&p->sites, n + 1);
    sw_filters_apply(n);
    __atomic_store_n(&site->enabled, &p->enabled[n], __ATOMIC_RELAXED);
    __atomic_store_n(&site->id, (uint16_t)n, __ATOMIC_RELEASE);
out:
    names_unlock(was);
    return result;
}

/* ---- the helper thread: segments, anchors, metrics ---------------------------------------------- */

void sw_wake(void) {
    atomic_fetch_add(&sw_lib.wake, 1);
    syscall(SYS_futex, &sw_lib.wake, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Deletes the oldest segments beyond the bound. Called with `registry`. */
static void segment_complete(uint32_t ring, uint64_t number) {
    uint32_t room = sizeof complete / sizeof *complete;
    uint64_t bound = sw_lib.disk_bytes / sw_lib.ring_bytes;
    /* Each live thread has two: the current and the next one. */
    for (int i = 0; i < THREADS_MAX; i++) {
        if (sw_lib.threads[i]) bound = bound > 2 ? bound - 2 : 1;
    }
    while (complete_count && (complete_count >= room || complete_count + 1 > bound)) {
        char path[4096];
        segment_path(path, sizeof path, complete[complete_from].ring, complete[complete_from].number);
        unlink(path);
        complete_from = (complete_from + 1) % room;
        complete_count--;
    }
    complete[(complete_from + complete_count++) % room].ring = ring;
    complete[(complete_from + complete_count - 1) % room].number = number;
}

static void segments_prepare(void) {
    static uint64_t seen[THREADS_MAX];
    static uint32_t whose[THREADS_MAX];
    pthread_mutex_lock(&sw_lib.registry);
    for (int i = 0; i < THREADS_MAX; i++) {
        struct thread *t = sw_lib.threads[i];
        if (!t) continue;
        uint8_t *old = atomic_exchange(&t->retired, NULL);
        if (old) munmap(old, sw_lib.ring_bytes);
        uint64_t segment = atomic_load(&t->segment);
        if (whose[i] != t->index + 1) {
            whose[i] = t->index + 1;
            seen[i] = 0;
        }
        while (seen[i] < segment) segment_complete(t->index, seen[i]++);
        if (!atomic_load(&t->next)) {
            uint8_t *next = segment_make(t, segment + 1, O_EXCL);
            uint8_t *nothing = NULL;
            if (next) atomic_store(&t->next_segment, segment + 1);
            /* The thread may have gone on and made it itself: then O_EXCL failed. */
            if (next && (atomic_load(&t->segment) != segment || !atomic_compare_exchange_strong(&t->next, &nothing, next))) {
                munmap(next, sw_lib.ring_bytes);
            }
        }
    }
    pthread_mutex_unlock(&sw_lib.registry);
}

static void *help(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "spanwise");
    uint64_t interval = (uint64_t)sw_lib.interval_ms * 1000000, started = clock_ns(CLOCK_MONOTONIC);
    uint64_t gap = 1000000, anchor_at = started + gap, metrics_at = started + interval;
    while (!atomic_load(&sw_lib.stopping)) {
        uint32_t wake = atomic_load(&sw_lib.wake);
        if (sw_lib.policy == SW_ROLL) segments_prepare();
        uint64_t at = clock_ns(CLOCK_MONOTONIC);
        if (at >= anchor_at) {
            /* Ever further apart, up to a second: what comes after the last is never far. */
            sw_anchor();
            gap = gap * 2 > 1000000000 ? 1000000000 : gap * 2;
            anchor_at = at + gap;
        }
        if (at >= metrics_at) {
            sw_metrics_write();
            if (sw_lib.exporter) sw_export_process();
            metrics_at = at + interval;
        }
        uint64_t until = anchor_at < metrics_at ? anchor_at : metrics_at;
        uint64_t wait = until > at ? until - at : 1;
        struct timespec t = { (time_t)(wait / 1000000000), (long)(wait % 1000000000) };
        syscall(SYS_futex, &sw_lib.wake, FUTEX_WAIT_PRIVATE, wake, &t, NULL, 0);
    }
    return NULL;
}

static int helper_start(void) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&sw_lib.helper, NULL, help, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -error;
}

/* ---- start, fork, stop ------------------------------------------------------------------------ */

static int process_make(const struct process_file *like) {
    char path[4096];
    int error;
    uint64_t started = clock_ns(CLOCK_REALTIME);
    snprintf(sw_lib.prefix, sizeof sw_lib.prefix, "%d-%llx", (int)getpid(), (unsigned long long)started);
    snprintf(path, sizeof path, "%s/%s.process", sw_lib.dir, sw_lib.prefix);
    struct process_file *p = map_file(path, sizeof *p, O_CREAT | O_EXCL, 0, &error);
    if (!p) return error;
    if (like) {
        /* A child: sites and names stay, at the same addresses. */
        memcpy(p, like, offsetof(struct process_file, anchor));
        memset(p->magic, 0, 8);
        void *at = mremap(p, sizeof *p, sizeof *p, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)like);
        if (at == MAP_FAILED) return -errno;
        p = at;
    }
    p->version = VERSION;
    p->header_bytes = 4096;
    p->pid = (uint32_t)getpid();
    p->clock = sw_lib.tsc ? 1 : 2;
    p->started_ns = started;
    p->policy = sw_lib.policy;
    p->state = 1;
    p->anchors = 0;
    p->threads_refused = 0;
    if (getrandom(&p->salt, 8, GRND_NONBLOCK) != 8) p->salt = mix(started);
    uint32_t offsets[6] = { offsetof(struct process_file, enabled), offsetof(struct process_file, site),
                            offsetof(struct process_file, instrument), offsetof(struct process_file, string_index),
                            offsetof(struct process_file, heap), offsetof(struct process_file, anchor) };
    memcpy(p->offsets, offsets, sizeof offsets);
    sw_lib.process = p;
    if (!like) {
        p->sites = p->instruments = 1;
        p->strings = 0;
        intern("");
    }
    sw_anchor();
    struct timespec pause = { 0, 1000000 };
    struct anchor first = p->anchor[0];
    if (!sw_lib.tsc) {
        p->ticks_per_second = 1000000000;
    } else {
        /* A first estimate; readers take the anchors. */
        nanosleep(&pause, NULL);
        sw_anchor();
        struct anchor second = p->anchor[1];
        double seconds = (double)(second.realtime_ns - first.realtime_ns) / 1e9;
        p->ticks_per_second = seconds > 0 ? (uint64_t)((double)(second.tick - first.tick) / seconds) : 0;
    }
    atomic_thread_fence(memory_order_release);
    memcpy(p->magic, "SPWNPROC", 8);
    return 0;
}

static void fork_prepare(void) {
    pthread_mutex_lock(&sw_lib.registry);
    pthread_mutex_lock(&sw_lib.names);
}
static void fork_parent(void) {
    pthread_mutex_unlock(&sw_lib.names);
    pthread_mutex_unlock(&sw_lib.registry);
}
static void fork_child(void) {
    pthread_mutex_init(&sw_lib.names, NULL);
    pthread_mutex_init(&sw_lib.registry, NULL);
    if (atomic_load(&sw_lib.started) != 1) return;
    /* The rings are the parent's. Spans open at the fork are its own, too. */
    for (int i = 0; i < THREADS_MAX; i++) sw_lib.threads[i] = NULL;
    if (sw_thread) {
        sw_thread->next = NULL;
        pthread_setspecific(exit_key, NULL);
        thread_release(sw_thread);
        sw_thread = NULL;
    }
    complete_count = 0;
    sw_lib.ring_numbers = 0;
    if (process_make(sw_lib.process) || helper_start()) atomic_store(&sw_lib.started, 2);
}

static void init_once(void) {
    pthread_key_create(&exit_key, thread_exit);
    pthread_atfork(fork_prepare, fork_parent, fork_child);
}

unsigned sw_abi(void) { return SW_ABI; }

int sw_start(const struct sw_options *o) {
    if (!o || o->size < sizeof *o || !o->dir || !*o->dir || strlen(o->dir) >= sizeof sw_lib.dir || o->policy > SW_LTTNG ||
        o->resource_count >= RESOURCE_MAX) {
        return -EINVAL;
    }
    uint64_t ring = o->ring_bytes ? o->ring_bytes : 8u << 20;
    if (ring % BLOCK || ring < 2 * BLOCK || ring > 1ull << 40) return -EINVAL;
    int expected = 0;
    if (!atomic_compare_exchange_strong(&sw_lib.started, &expected, 3)) return -EALREADY;
    pthread_once(&once, init_once);
    /* LTTng's clock is CLOCK_MONOTONIC, and durations are in its nanoseconds. */
    sw_lib.tsc = o->policy != SW_LTTNG && tsc_is_good();
    sw_lib.policy = o->policy;
    sw_lib.exporter = NULL;
    sw_lib.ring_bytes = ring;
    sw_lib.disk_bytes = o->disk_bytes ? o->disk_bytes : 1u << 30;
    sw_lib.interval_ms = o->metrics_interval_ms ? o->metrics_interval_ms : 1000;
    strcpy(sw_lib.dir, o->dir);
    int error = 0;
    char path[4096];
    if (o->policy == SW_LTTNG && (error = sw_exporter_load())) goto failed;
    if (mkdir(o->dir, 0750) && errno != EEXIST) {
        error = -errno;
        goto failed;
    }
    snprintf(path, sizeof path, "%s/control", o->dir);
    sw_lib.control = map_file(path, sizeof(struct control_file), O_CREAT, 0, &error);
    if (!sw_lib.control) goto failed;
    memcpy(sw_lib.control->magic, "SPWNCTRL", 8);
    sw_lib.control->version = VERSION;
    if ((error = process_make(NULL))) goto failed;
    struct process_file *p = sw_lib.process;
    p->resource[0][0] = intern("service.name");
    p->resource[0][1] = intern(o->service_name && *o->service_name ? o->service_name : "unknown_service");
    uint32_t n = 1;
    for (size_t i = 0; i < o->resource_count; i++, n++) {
        p->resource[n][0] = intern(o->resource[i].key);
        p->resource[n][1] = intern(o->resource[i].value);
    }
    p->resource_count = n;
    if (sw_lib.exporter) sw_export_process();
    atomic_store(&sw_lib.started, 1);
    if ((error = helper_start())) goto failed;
    return 0;
failed:
    atomic_store(&sw_lib.started, 0);
    return error;
}

int sw_stop(void) {
    int expected = 1;
    if (!atomic_compare_exchange_strong(&sw_lib.started, &expected, 3)) return -EINVAL;
    struct process_file *p = sw_lib.process;
    atomic_store(&sw_lib.stopping, 1);
    sw_wake();
    pthread_join(sw_lib.helper, NULL);
    for (int i = 0; i < SITES_MAX; i++) __atomic_store_n(&p->enabled[i], 0, __ATOMIC_RELAXED);
    atomic_store(&sw_lib.started, 1);
    sw_metrics_write();
    if (sw_lib.exporter) sw_export_process();
    /* Rings stay mapped, as threads may be in the middle of a record. */
    atomic_store(&sw_lib.started, 2);
    sw_anchor();
    atomic_store(&p->state, 2);
    return 0;
}
