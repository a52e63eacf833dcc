/* Metrics: sums in the program's memory, written to the ring of the exporting thread. */
#include "internal.h"

static struct sw_metric *metrics[INSTRUMENTS_MAX];
static _Atomic uint32_t metric_count = 1;
static uint64_t start_tick;

int sw_metric_register(struct sw_metric *m) {
    struct process_file *p = sw_lib.process;
    if (!p || !m->name || m->kind < SW_COUNTER || m->kind > SW_HISTOGRAM || (m->kind == SW_HISTOGRAM && !m->histogram) ||
        m->attribute_count > 4) {
        return -EINVAL;
    }
    if (m->id) return -EALREADY;
    struct instrument_entry e = { sw_intern(m->name), sw_intern(m->unit ? m->unit : ""), sw_intern(m->description ? m->description : ""),
                                  (uint8_t)m->kind, (uint8_t)m->attribute_count, 0, { 0 } };
    for (unsigned i = 0; i < m->attribute_count; i++) {
        e.pairs[2 * i] = (uint16_t)sw_intern(m->attributes[i].key);
        e.pairs[2 * i + 1] = (uint16_t)sw_intern(m->attributes[i].value);
    }
    pthread_mutex_lock(&sw_lib.registry);
    uint32_t id = metric_count;
    if (id < INSTRUMENTS_MAX) {
        p->instrument[id] = e;
        metrics[id] = m;
        m->id = id;
        if (!start_tick) start_tick = now();
        atomic_store(&metric_count, id + 1);
        atomic_store(&p->instruments, id + 1);
    }
    pthread_mutex_unlock(&sw_lib.registry);
    return id < INSTRUMENTS_MAX ? 0 : -ENOSPC;
}

void sw_add(struct sw_metric *m, int64_t value) {
    struct thread *t = sw_thread;
    __atomic_fetch_add(&m->shards[t ? t->index % SW_SHARDS : 0].value, value, __ATOMIC_RELAXED);
}

void sw_set(struct sw_metric *m, int64_t value) { __atomic_store_n(&m->shards[0].value, value, __ATOMIC_RELAXED); }

static double as_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
static uint64_t as_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

/* OpenTelemetry's scale 3: bucket i holds (2^(i/8), 2^((i+1)/8)]. */
static int bucket(double value) {
    static const double bounds[7] = { 1.0905077326652577, 1.189207115002721, 1.2968395546510096, 1.4142135623730951,
                                      1.5422108254079407, 1.681792830507429, 1.8340080864093424 };
    uint64_t bits = as_bits(value);
    int exponent = (int)(bits >> 52 & 2047) - 1023, part = 0;
    double mantissa = as_double((bits & ((1ull << 52) - 1)) | 1023ull << 52);
    if (mantissa == 1.0) return exponent * 8 - 1; /* upper bounds belong to the bucket */
    while (part < 7 && mantissa > bounds[part]) part++;
    return exponent * 8 + part;
}

void sw_observe(struct sw_metric *m, double value) {
    struct sw_histogram *h = m->histogram;
    if (!h || !(value >= 0) || value > 1e300) return;
    if (value < 0x1p-29) {
        __atomic_fetch_add(&h->zero, 1, __ATOMIC_RELAXED);
    } else {
        int i = bucket(value) + 30 * 8;
        __atomic_fetch_add(&h->buckets[i >= SW_BUCKETS ? SW_BUCKETS - 1 : i], 1, __ATOMIC_RELAXED);
    }
    uint64_t old = __atomic_load_n(&h->sum, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&h->sum, &old, as_bits(as_double(old) + value), 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    /* Bits of positive doubles are in their order. `min` is kept inverted, so that zero is none. */
    uint64_t bits = as_bits(value), low = ~bits;
    old = __atomic_load_n(&h->max, __ATOMIC_RELAXED);
    while (bits > old && !__atomic_compare_exchange_n(&h->max, &old, bits, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    old = __atomic_load_n(&h->min, __ATOMIC_RELAXED);
    while (low > old && !__atomic_compare_exchange_n(&h->min, &old, low, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void sw_metrics_write(void) {
    uint32_t n = atomic_load(&metric_count);
    if (n == 1 || sw_lib.exporter) return; /* LTTng gets no metrics */
    struct thread *t = sw_thread ? sw_thread : sw_thread_make();
    if (!t) return;
    for (uint32_t id = 1; id < n; id++) {
        struct sw_metric *m = metrics[id];
        int64_t called = m->callback ? m->callback(m->argument) : 0;
        uint64_t words[10 + SW_BUCKETS] = { 0 }, used = 4;
        words[1] = now();
        words[2] = start_tick;
        if (m->kind == SW_HISTOGRAM) {
            struct sw_histogram *h = m->histogram;
            int from = SW_BUCKETS, to = 0;
            uint64_t total = words[7] = __atomic_load_n(&h->zero, __ATOMIC_RELAXED), counts[SW_BUCKETS];
            for (int i = 0; i < SW_BUCKETS; i++) {
                counts[i] = __atomic_load_n(&h->buckets[i], __ATOMIC_RELAXED);
                total += counts[i];
                if (counts[i]) {
                    if (from > i) from = i;
                    to = i + 1;
                }
            }
            words[3] = total;
            words[4] = h->sum;
            words[5] = h->min ? ~h->min : 0;
            words[6] = h->max;
            words[8] = (uint64_t)(int64_t)(from < to ? from - 240 : 0);
            used = 9;
            for (int i = from; i < to; i++) words[used++] = counts[i];
        } else {
            int64_t sum = called;
            for (int i = 0; !m->callback && i < SW_SHARDS; i++) sum += __atomic_load_n(&m->shards[i].value, __ATOMIC_RELAXED);
            words[3] = (uint64_t)sum;
        }
        words[0] = METRIC | (uint64_t)m->kind << 8 | (uint64_t)id << 16 | used << 32;
        enter(t);
        bool room = t->limit == UINT64_MAX || t->head + CHANGE_BYTES + 65536 < t->limit;
        uint64_t *to = room ? sw_reserve(t, used) : NULL;
        if (to) {
            memcpy(to, words, used * 8);
            t->at += used;
            publish(t, used);
        } else {
            count(&t->file->dropped_extras);
        }
        leave(t);
    }
}
