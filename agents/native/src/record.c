/* The hot path: spans and records into the calling thread's ring.
 *
 * A record is written behind the head, then the head is stored with release order: a record is
 * committed when the head is behind it. `busy` keeps signal handlers out of a half-written record:
 * what they record meanwhile is dropped and counted.
 */
#include "internal.h"

__thread struct thread *sw_thread __attribute__((tls_model("initial-exec")));

static inline uint64_t word(enum record type, uint64_t depth, uint64_t id, uint64_t words, uint64_t aux) {
    return (uint64_t)type | depth << 8 | id << 16 | words << 32 | aux << 48;
}

/* The thread's state, if it may record now. */
static inline struct thread *ready(void) {
    struct thread *t = sw_thread;
    if (!SW_LIKELY(t != NULL)) {
        t = sw_thread_make();
        if (!t) return NULL;
    }
    if (!SW_LIKELY(!t->busy)) {
        count(&t->file->dropped_signal);
        return NULL;
    }
    enter(t);
    return t;
}

/* Room for a record in the current block, or in the next one. */
uint64_t *sw_reserve(struct thread *t, uint64_t words) {
    if ((uint64_t)(t->end - t->at) < words && !sw_block_next(t)) return NULL;
    return t->at;
}

/* Publishes a record. Its first word is written last, although only the head commits it. */
static inline void commit(struct thread *t, uint64_t words) {
    t->at += words;
    publish(t, words);
}

static bool has_room(struct thread *t) {
    /* With SW_DROP the reader moves the limit. */
    if (t->limit == UINT64_MAX) return true;
    t->limit = atomic_load_explicit(&t->file->read, memory_order_acquire) + t->file->capacity;
    return t->head + (t->depth + 1) * END_BYTES + CHANGE_BYTES + 32768 <= t->limit;
}

/* One tick of its own for each start of the thread, as ids are made of it. */
static inline uint64_t start_tick(struct thread *t, uint64_t tick) {
    if (!SW_LIKELY(tick > t->last_start)) tick = t->last_start + 1;
    t->last_start = tick;
    return tick;
}

static inline bool may_start(struct thread *t) {
    if (!SW_LIKELY(t->head + (t->depth + 1) * END_BYTES + CHANGE_BYTES + 32768 <= t->limit) && !has_room(t)) {
        count(&t->file->dropped_full);
        return false;
    }
    return true;
}

static __attribute__((noinline)) sw_span begin(struct sw_site *site, const struct sw_context *parent) {
    struct thread *t = ready();
    if (!t) return 0;
    sw_span span = 0;
    uint32_t depth = t->depth;
    if (!SW_LIKELY(__atomic_load_n(&site->id, __ATOMIC_ACQUIRE) != 0)) {
        if (sw_site_register(site) || !sw_enabled(site)) goto out;
    }
    if (!SW_LIKELY(depth < DEPTH_MAX)) {
        count(&t->file->dropped_depth);
        goto out;
    }
    if (!SW_LIKELY(may_start(t))) goto out;
    struct slot *slot = &t->file->slots[depth];
    uint64_t tick = start_tick(t, now());
    slot->site = site->id;
    slot->status = SW_UNSET;
    slot->kind = 0;
    slot->flags = 0;
    if (parent) {
        slot->flags = REMOTE;
        slot->context_flags = parent->flags;
        slot->trace_hi = parent->trace_hi;
        slot->trace_lo = parent->trace_lo;
        slot->parent = parent->span_id;
    }
    atomic_store_explicit(&slot->start, tick, memory_order_relaxed);
    t->depth = depth + 1;
    atomic_store_explicit(&t->file->depth, depth + 1, memory_order_release);
    span = tick << 6 | depth;
out:
    leave(t);
    return span;
}

/* The usual begin. `begin` does the same, and everything else. */
sw_span sw_begin_slow(struct sw_site *site) {
    struct thread *t = sw_thread;
    if (!SW_LIKELY(t && !t->busy && has_ticks())) return begin(site, NULL);
    enter(t);
    uint32_t depth = t->depth;
    if (!SW_LIKELY(__atomic_load_n(&site->id, __ATOMIC_ACQUIRE) != 0 && depth < DEPTH_MAX &&
                   t->head + (depth + 1) * END_BYTES + CHANGE_BYTES + 32768 <= t->limit)) {
        leave(t);
        return begin(site, NULL);
    }
    struct slot *slot = &t->file->slots[depth];
    uint64_t tick = start_tick(t, ticks());
    slot->site = site->id;
    slot->status = SW_UNSET;
    slot->kind = 0;
    slot->flags = 0;
    atomic_store_explicit(&slot->start, tick, memory_order_relaxed);
    t->depth = depth + 1;
    atomic_store_explicit(&t->file->depth, depth + 1, memory_order_release);
    leave(t);
    return tick << 6 | depth;
}

sw_span sw_begin_remote_slow(struct sw_site *site, const struct sw_context *parent) {
    return begin(site, parent && (parent->trace_hi | parent->trace_lo) && parent->span_id ? parent : NULL);
}

/* The slot of an open span of this thread. */
static inline struct slot *slot_of(struct thread *t, sw_span span) {
    uint32_t depth = span & (DEPTH_MAX - 1);
    if (depth >= t->depth) return NULL;
    struct slot *slot = &t->file->slots[depth];
    return slot->start << 6 == (span & ~(uint64_t)(DEPTH_MAX - 1)) ? slot : NULL;
}

static inline void end_exported(struct thread *t, struct slot *slot, uint32_t depth, uint64_t tick) {
    sw_export_slot(t, slot, depth, tick);
    t->block_spans++;
}

static void end_long(struct thread *t, struct slot *slot, uint32_t depth, uint64_t tick) {
    uint64_t words = slot->flags & REMOTE ? 7 : 4;
    uint64_t *to = sw_reserve(t, words);
    if (!to) {
        count(&t->file->dropped_ends);
        return;
    }
    to[1] = slot->start;
    to[2] = tick;
    to[3] = (uint64_t)slot->status | (uint64_t)slot->kind << 2 | (uint64_t)slot->context_flags << 8;
    if (slot->flags & REMOTE) {
        to[4] = slot->trace_hi;
        to[5] = slot->trace_lo;
        to[6] = slot->parent;
    }
    to[0] = word(SPAN_LONG, depth, slot->site, words, slot->flags);
    t->block_spans++;
    commit(t, words);
}

/* Too far from the block's base for 32 bits: a new base first. */
static void end_slow(struct thread *t, struct slot *slot, uint32_t depth, uint64_t tick) {
    if (sw_lib.exporter) {
        end_exported(t, slot, depth, tick);
        return;
    }
    if ((tick - t->base) >> 32) {
        uint64_t *to = sw_reserve(t, 2);
        if (to && (tick - t->base) >> 32) {
            to[1] = tick;
            to[0] = word(CLOCK, 0, 0, 2, 0);
            t->base = tick;
            commit(t, 2);
        }
    }
    end_long(t, slot, depth, tick);
}

/* Writes the short record of an end, if it fits. */
static inline bool end_short(struct thread *t, struct slot *slot, uint32_t depth, uint64_t tick) {
    uint64_t start = slot->start;
    if (!SW_LIKELY(tick >= start)) tick = start;
    uint64_t duration = tick - start, since = tick - t->base;
    uint64_t *to = t->at;
    if (!SW_LIKELY(to + 2 <= t->end && since >> 32 == 0 && duration >> 48 == 0 && !slot->flags)) return false;
    to[1] = duration | (uint64_t)slot->status << 48 | (uint64_t)slot->kind << 50;
    to[0] = (uint64_t)SPAN | (uint64_t)depth << 8 | (uint64_t)slot->site << 16 | since << 32;
    t->block_spans++;
    commit(t, 2);
    return true;
}

static inline void left(struct thread *t, uint32_t depth) {
    t->depth = depth;
    atomic_store_explicit(&t->file->depth, depth, memory_order_release);
}

static void end_one(struct thread *t, uint32_t depth, uint64_t tick) {
    struct slot *slot = &t->file->slots[depth];
    uint64_t not_before = slot->start;
    if (tick < not_before) tick = not_before;
    if (!end_short(t, slot, depth, tick)) end_slow(t, slot, depth, tick);
    left(t, depth);
}

/* Any end. */
static __attribute__((noinline)) void end(struct thread *t, sw_span span) {
    if (t->busy) {
        count(&t->file->misused);
        return;
    }
    enter(t);
    uint32_t depth = span & (DEPTH_MAX - 1);
    if (!slot_of(t, span)) {
        count(&t->file->misused);
    } else {
        uint64_t tick = now();
        while (t->depth != depth + 1) end_one(t, t->depth - 1, tick);
        end_one(t, depth, tick);
    }
    leave(t);
}

void sw_end(sw_span span) {
    struct thread *t = sw_thread;
    if (!span || !t) return;
    if (!SW_LIKELY(!t->busy && has_ticks())) {
        end(t, span);
        return;
    }
    /* The usual end: of the innermost span, in a short record. */
    enter(t);
    uint32_t depth = span & (DEPTH_MAX - 1);
    struct slot *slot = &t->file->slots[depth];
    if (SW_LIKELY(t->depth == depth + 1 && slot->start << 6 == (span & ~(uint64_t)(DEPTH_MAX - 1)) &&
                  end_short(t, slot, depth, ticks()))) {
        left(t, depth);
        leave(t);
        return;
    }
    leave(t);
    end(t, span);
}

void sw_set_status(sw_span span, enum sw_status status) {
    struct thread *t = sw_thread;
    struct slot *slot = span && t ? slot_of(t, span) : NULL;
    if (slot && (unsigned)status <= SW_ERROR) slot->status = (uint8_t)status;
}

void sw_set_kind(sw_span span, enum sw_kind kind) {
    struct thread *t = sw_thread;
    struct slot *slot = span && t ? slot_of(t, span) : NULL;
    if (slot && (unsigned)kind <= SW_CONSUMER) slot->kind = (uint8_t)kind;
}

/* ---- records with attributes ----------------------------------------------------------------- */

#define STRING_MAX 4096
#define ATTRS_MAX 128
#define ATTRS_WORDS 2048
#define CUT 0x80

static uint64_t value_words(const struct sw_attr *a) {
    if (a->type < SW_STRING) return 1;
    return ((a->length > STRING_MAX ? STRING_MAX : a->length) + 7) / 8;
}

static uint64_t *put(uint64_t *to, uint64_t key, const struct sw_attr *a) {
    uint64_t words = value_words(a), type = a->type, length = a->length;
    if (a->type >= SW_STRING && length > STRING_MAX) {
        length = STRING_MAX;
        type |= CUT;
    }
    *to++ = key | type << 16 | length << 32;
    if (a->type < SW_STRING) {
        memcpy(to, &a->value, 8);
    } else if (words) {
        to[words - 1] = 0;
        memcpy(to, a->value.bytes, length);
    }
    return to + words;
}

/* Writes a record: a head of `fixed` words, then attributes. */
static int record(struct thread *t, uint64_t first, const uint64_t *fixed, uint64_t fixed_words,
                  const struct sw_attr *attrs, size_t count_, uint64_t key0, const struct sw_attr *attr0) {
    uint64_t words = 1 + fixed_words + (attr0 ? 1 + value_words(attr0) : 0);
    if (count_ > ATTRS_MAX) return -EINVAL;
    for (size_t i = 0; i < count_; i++) {
        if (attrs[i].type < SW_I64 || attrs[i].type > SW_BYTES) return -EINVAL;
        words += 1 + value_words(&attrs[i]);
        if (!sw_key_id(attrs[i].key)) {
            count(&t->file->dropped_extras);
            return -ENOSPC;
        }
    }
    if (words > ATTRS_WORDS) return -EINVAL;
    uint64_t *to = has_room(t) ? sw_reserve(t, words) : NULL;
    if (!to) {
        count(&t->file->dropped_extras);
        return -ENOSPC;
    }
    uint64_t *at = to + 1;
    for (uint64_t i = 0; i < fixed_words; i++) *at++ = fixed[i];
    if (attr0) at = put(at, key0, attr0);
    for (size_t i = 0; i < count_; i++) at = put(at, attrs[i].key->id, &attrs[i]);
    to[0] = first | words << 32;
    commit(t, words);
    return 0;
}

/* Keys without a name: the span's own fields. */
#define KEY_TRACESTATE 65535
#define KEY_MESSAGE 65534
#define KEY_BODY 65533

/* The same as events of LTTng: attributes first, then what they belong to. */
static int export_extra(struct thread *t, enum record type, uint64_t of, const char *name, const uint64_t *fixed,
                        const struct sw_attr *attrs, size_t n, uint64_t key0, const struct sw_attr *attr0) {
    if (attr0) {
        uint8_t field = key0 == KEY_MESSAGE ? FIELD_MESSAGE : FIELD_TRACESTATE;
        sw_lib.exporter->attribute(of, "", field, attr0->value.bytes, attr0->length > STRING_MAX ? STRING_MAX : attr0->length);
        return 0;
    }
    if (type == ATTRS) return sw_export_attrs(of, attrs, n);
    uint64_t id = span_id(t->salt, start_tick(t, now()));
    int result = sw_export_attrs(id, attrs, n);
    if (result) return result;
    if (type == EVENT) {
        sw_lib.exporter->event(of, id, name);
    } else {
        struct sw_context to = { fixed[0], fixed[1], fixed[2], (uint8_t)fixed[3] };
        sw_lib.exporter->link(of, id, &to);
    }
    return 0;
}

/* A record for an open span of this thread. */
static int extra(enum record type, sw_span span, uint64_t id, const char *name, const uint64_t *fixed,
                 uint64_t fixed_words, const struct sw_attr *attrs, size_t n, uint64_t key0, const struct sw_attr *attr0) {
    if (!span) return 0;
    struct thread *t = ready();
    if (!t) return -EBUSY;
    int result = -ENOENT;
    struct slot *slot = slot_of(t, span);
    if (slot && sw_lib.exporter) {
        result = export_extra(t, type, span_id(t->salt, slot->start), name, fixed, attrs, n, key0, attr0);
    } else if (slot) {
        result = record(t, word(type, span & (DEPTH_MAX - 1), id, 0, 0), fixed, fixed_words, attrs, n, key0, attr0);
    } else {
        count(&t->file->misused);
    }
    leave(t);
    return result;
}

int sw_attrs(sw_span span, const struct sw_attr *attrs, size_t n) {
    return extra(ATTRS, span, 0, NULL, NULL, 0, attrs, n, 0, NULL);
}

int sw_event(sw_span span, struct sw_key *name, const struct sw_attr *attrs, size_t n) {
    if (!span) return 0;
    uint64_t tick = now(), id = sw_key_id(name);
    return id ? extra(EVENT, span, id, name->name, &tick, 1, attrs, n, 0, NULL) : -ENOSPC;
}

int sw_link(sw_span span, const struct sw_context *to, const struct sw_attr *attrs, size_t n) {
    uint64_t fixed[4] = { to->trace_hi, to->trace_lo, to->span_id, to->flags };
    return extra(LINK, span, 0, NULL, fixed, 4, attrs, n, 0, NULL);
}

int sw_set_tracestate(sw_span span, const char *value) {
    struct sw_attr a = sw_string(NULL, value, strnlen(value, 513));
    if (a.length > 512) return -EINVAL;
    return extra(ATTRS, span, 0, NULL, NULL, 0, NULL, 0, KEY_TRACESTATE, &a);
}

int sw_set_status_message(sw_span span, const char *message) {
    struct sw_attr a = sw_string(NULL, message, strnlen(message, STRING_MAX + 1));
    return extra(ATTRS, span, 0, NULL, NULL, 0, NULL, 0, KEY_MESSAGE, &a);
}

int sw_log(enum sw_level level, const char *body, const struct sw_attr *attrs, size_t n) {
    struct thread *t = ready();
    if (!t) return -EBUSY;
    uint64_t tick = now();
    /* The depth of the innermost span, and 254 without one. */
    uint64_t depth = t->depth ? t->depth - 1 : 254;
    struct sw_attr a = sw_string(NULL, body, strnlen(body, STRING_MAX + 1));
    if (sw_lib.exporter) {
        struct sw_context in = { 0, 0, 0, 0 };
        uint64_t id = span_id(t->salt, start_tick(t, now()));
        sw_current(&in);
        int result = sw_export_attrs(id, attrs, n);
        if (!result) sw_lib.exporter->log(id, t->file->pid, (uint8_t)level & 31, &in, body);
        leave(t);
        return result;
    }
    int result = record(t, word(LOG, depth, (uint64_t)level & 31, 0, 0), &tick, 1, attrs, n, KEY_BODY, &a);
    leave(t);
    return result;
}

/* ---- detached spans -------------------------------------------------------------------------- */

static bool detached_write(struct thread *t, enum record type, const struct sw_detached *span, uint64_t end) {
    if (sw_lib.exporter) {
        if (type == DETACHED_END) sw_export_detached(t, span, end);
        return true;
    }
    uint64_t *to = sw_reserve(t, 8);
    if (!to) return false;
    to[1] = span->start;
    to[2] = end;
    to[3] = span->context.trace_hi;
    to[4] = span->context.trace_lo;
    to[5] = span->context.span_id;
    to[6] = span->parent_id;
    to[7] = span->status | (uint64_t)span->context.flags << 8;
    to[0] = word(type, DEPTH_DETACHED, span->site, 8, 0);
    if (type == DETACHED_END) t->block_spans++;
    commit(t, 8);
    return true;
}

void sw_detached_begin(struct sw_detached *span, struct sw_site *site, const struct sw_context *parent) {
    memset(span, 0, sizeof *span);
    if (!sw_enabled(site)) return;
    struct thread *t = ready();
    if (!t) return;
    if ((__atomic_load_n(&site->id, __ATOMIC_ACQUIRE) || !sw_site_register(site)) && sw_enabled(site) && may_start(t)) {
        uint64_t tick = start_tick(t, now());
        span->start = tick;
        span->site = site->id;
        span->context.span_id = span_id(t->salt, tick);
        span->context.flags = parent ? parent->flags : 1;
        span->context.trace_hi = parent ? parent->trace_hi : trace_hi(t->salt);
        span->context.trace_lo = parent ? parent->trace_lo : trace_lo(t->salt, tick);
        span->parent_id = parent ? parent->span_id : 0;
        span->live = detached_write(t, DETACHED_BEGIN, span, 0);
        if (!span->live) count(&t->file->dropped_full);
    }
    leave(t);
}

void sw_detached_end(struct sw_detached *span) {
    if (!span->live) return;
    struct thread *t = ready();
    if (!t) return;
    span->live = 0;
    uint64_t tick = now();
    if (tick < span->start) tick = span->start;
    if (!has_room(t) || !detached_write(t, DETACHED_END, span, tick)) count(&t->file->dropped_ends);
    leave(t);
}

int sw_detached_attrs(struct sw_detached *span, const struct sw_attr *attrs, size_t n) {
    if (!span->live) return 0;
    struct thread *t = ready();
    if (!t) return -EBUSY;
    if (sw_lib.exporter) {
        int exported = sw_export_attrs(span->context.span_id, attrs, n);
        leave(t);
        return exported;
    }
    int result = record(t, word(ATTRS, DEPTH_DETACHED, 0, 0, 0), &span->context.span_id, 1, attrs, n, 0, NULL);
    leave(t);
    return result;
}

/* ---- context --------------------------------------------------------------------------------- */

int sw_context_of(sw_span span, struct sw_context *context) {
    struct thread *t = sw_thread;
    struct slot *slot = span && t ? slot_of(t, span) : NULL;
    if (!slot) return -ENOENT;
    context->span_id = span_id(t->salt, slot->start);
    /* The trace is that of the nearest span above whose parent is elsewhere, or of the root. */
    struct slot *root = slot;
    while (root > t->file->slots && !(root->flags & REMOTE)) root--;
    if (root->flags & REMOTE) {
        context->trace_hi = root->trace_hi;
        context->trace_lo = root->trace_lo;
        context->flags = root->context_flags;
    } else {
        context->trace_hi = trace_hi(t->salt);
        context->trace_lo = trace_lo(t->salt, root->start);
        context->flags = 1;
    }
    return 0;
}

int sw_current(struct sw_context *context) {
    struct thread *t = sw_thread;
    if (!t || !t->depth) return -ENOENT;
    uint32_t depth = t->depth - 1;
    return sw_context_of(t->file->slots[depth].start << 6 | depth, context);
}

static void hex(char *to, uint64_t value, int digits) {
    while (digits--) {
        to[digits] = "0123456789abcdef"[value & 15];
        value >>= 4;
    }
}

void sw_format(const struct sw_context *c, char text[56]) {
    memcpy(text, "00-", 3);
    hex(text + 3, c->trace_hi, 16);
    hex(text + 19, c->trace_lo, 16);
    text[35] = '-';
    hex(text + 36, c->span_id, 16);
    text[52] = '-';
    hex(text + 53, c->flags, 2);
    text[55] = 0;
}

static bool unhex(const char *from, int digits, uint64_t *value) {
    *value = 0;
    while (digits--) {
        char c = *from++;
        if (c >= '0' && c <= '9') *value = *value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f') *value = *value << 4 | (uint64_t)(c - 'a' + 10);
        else return false;
    }
    return true;
}

int sw_parse(const char *s, size_t length, struct sw_context *c) {
    uint64_t version, flags;
    struct sw_context read;
    if (length < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' || !unhex(s, 2, &version) || version == 255 ||
        (version == 0 && length != 55) || (length > 55 && s[55] != '-') || !unhex(s + 3, 16, &read.trace_hi) ||
        !unhex(s + 19, 16, &read.trace_lo) || !unhex(s + 36, 16, &read.span_id) || !unhex(s + 53, 2, &flags) ||
        !(read.trace_hi | read.trace_lo) || !read.span_id) {
        return -EINVAL;
    }
    read.flags = (uint8_t)flags;
    *c = read;
    return 0;
}

static void big(uint8_t *to, uint64_t value) {
    for (int i = 7; i >= 0; i--, value >>= 8) to[i] = (uint8_t)value;
}
static uint64_t from_big(const uint8_t *from) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) value = value << 8 | from[i];
    return value;
}

void sw_pack(const struct sw_context *c, uint8_t bytes[32]) {
    memset(bytes, 0, 32);
    big(bytes, c->trace_hi);
    big(bytes + 8, c->trace_lo);
    big(bytes + 16, c->span_id);
    bytes[24] = c->flags;
    bytes[25] = 1;
    memcpy(bytes + 26, "SWC", 3);
}

int sw_unpack(const uint8_t *bytes, size_t length, struct sw_context *c) {
    if (length != 32 || bytes[25] != 1 || memcmp(bytes + 26, "SWC", 3)) return -EINVAL;
    struct sw_context read = { from_big(bytes), from_big(bytes + 8), from_big(bytes + 16), bytes[24] };
    if (!(read.trace_hi | read.trace_lo) || !read.span_id) return -EINVAL;
    *c = read;
    return 0;
}
