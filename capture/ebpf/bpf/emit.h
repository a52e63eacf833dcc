/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Writes events with payload from the buffers of a call. */
#ifndef SPANWISE_EMIT_H
#define SPANWISE_EMIT_H

/* The facts about one transfer, collected by the hook. */
struct transfer {
    __u64 time_nano;
    __u64 task;
    __u64 connection;
    struct task_ids ids;
    __u32 seq;
    __u32 length;
    __u32 srtt_eighth_micros;
    __u32 retransmits;
    __u32 extra; /* PLAINTEXT: offset; DATA: why the bytes are not read */
    __u32 sleeps; /* see thread_sleeps */
    __u8 kind;
    __u8 sent;
};
PASSED(transfer)

/* Number of times that the current thread has yielded its processor to wait. If two events have the
 * same number, the thread did not wait between them. The helper that allows a direct load was added
 * in Linux 5.11. */
static __always_inline __u32 thread_sleeps(void)
{
    if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_current_task_btf))
        return bpf_get_current_task_btf()->nvcsw;
    return BPF_CORE_READ((struct task_struct *)bpf_get_current_task(), nvcsw);
}

static __always_inline void fill_data(struct spanwise_event *event,
                                      const struct transfer *transfer, __u32 captured)
{
    event->kind = transfer->kind;
    event->direction = transfer->sent;
    event->captured = captured;
    event->process = transfer->task >> 32;
    event->thread = (__u32)transfer->task;
    event->seq = transfer->seq;
    event->time_nano = transfer->time_nano;
    event->connection = transfer->connection;
    event->length = transfer->length;
    event->srtt_eighth_micros = transfer->srtt_eighth_micros;
    event->retransmits = transfer->retransmits;
    event->extra = transfer->extra;
    event->task = transfer->ids.task;
    event->parent_task = transfer->ids.parent;
    event->sleeps = transfer->sleeps;
}

/* The compiler would remove a bound that it can prove but the verifier cannot. This hides the value
 * from the compiler. */
#define BOUND(value, mask) asm volatile("%0 &= " #mask : "+r"(value))

/* Reserves a record with room for this many bytes, and limits the wanted bytes to it. */
#define TAKE_PLAIN(room, mask)                                                          \
    do {                                                                                \
        struct {                                                                        \
            struct spanwise_event event;                                                \
            __u8 payload[room];                                                         \
        } *record = bpf_ringbuf_reserve(&events, sizeof *record, 0);                    \
        if (!record)                                                                    \
            goto lost;                                                                  \
        BOUND(bytes, mask);                                                             \
        if (bytes > (room))                                                             \
            bytes = (room);                                                             \
        if (bytes && bpf_probe_read_user(record->payload, bytes, (void *)buffer))       \
            bytes = 0;                                                                  \
        event = &record->event;                                                         \
    } while (0)

/* Writes an event with bytes from one buffer. */
static __always_inline void write_plain(const struct transfer *transfer, __u64 buffer, __u64 wanted)
{
    struct spanwise_event *event;
    __u64 bytes = wanted;
    if (wanted <= 64)
        TAKE_PLAIN(64, 127);
    else if (wanted <= 256)
        TAKE_PLAIN(256, 511);
    else
        TAKE_PLAIN(1024, 2047);
    fill_data(event, transfer, bytes);
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return;
lost:
    __sync_fetch_and_add(&tallies.lost_data, 1);
}

/* The same for rare calls: a global function, once in each program. For common calls the code is
 * inlined, because returning from a function is expensive with return thunks. */
__noinline int emit_plain(transfer_handle handle, __u64 buffer, __u64 wanted)
{
    const struct transfer *transfer = passed_transfer(handle);
    if (transfer)
        write_plain(transfer, buffer, wanted);
    return 0;
}

/* Writes an event with bytes from several buffers, starting `skip` bytes after their beginning. The
 * record has twice the needed room, so that the verifier accepts an offset and a length that are
 * each below 1024, without their sum. The offsets are stored in the record, where the verifier does
 * not track their values. Otherwise it would try every combination. A global function, so that it
 * is verified once and not for each piece. */
__noinline int emit_vector(transfer_handle handle, __u64 vectors, __u64 count, __u64 skip,
                           __u64 wanted)
{
    const struct transfer *transfer = passed_transfer(handle);
    if (!transfer)
        return 0;
    struct {
        struct spanwise_event event;
        __u8 payload[2 * MAX_PAYLOAD];
        volatile __u64 offset;
        volatile __u64 skip;
    } *record = bpf_ringbuf_reserve(&events, sizeof *record, 0);
    if (!record) {
        __sync_fetch_and_add(&tallies.lost_data, 1);
        return 0;
    }
    record->offset = 0;
    record->skip = skip;
    for (int i = 0; i < MAX_VECTORS; i++) {
        struct iovec vector;
        __u64 offset = record->offset;
        if (i >= count || offset >= wanted || offset >= MAX_PAYLOAD
            || bpf_probe_read_user(&vector, sizeof vector,
                                   (const struct iovec *)vectors + i))
            break;
        __u64 over = record->skip;
        if (over >= vector.iov_len) {
            record->skip = over - vector.iov_len;
            continue;
        }
        record->skip = 0;
        __u64 bytes = wanted - offset;
        if (bytes > vector.iov_len - over)
            bytes = vector.iov_len - over;
        if (bytes > MAX_PAYLOAD - 1)
            bytes = MAX_PAYLOAD - 1;
        BOUND(bytes, 1023);
        __u64 at = offset;
        BOUND(at, 1023);
        if (bytes && bpf_probe_read_user(record->payload + at, bytes, vector.iov_base + over))
            break;
        record->offset = offset + bytes;
    }
    __u64 offset = record->offset;
    if (offset > MAX_PAYLOAD)
        offset = MAX_PAYLOAD;
    fill_data(&record->event, transfer, offset);
    bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
    return 0;
}

/* Connections on which many messages are sent together. User space requests more data from them. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64);
    __type(value, __u8);
} generous_connections SEC(".maps");

/* Maximum pieces of 1024 bytes that are captured of one call. Each is reported like a separate
 * call. */
#define MAX_PIECES 32

/* Only called if data would be truncated, and not in long bodies. */
static __always_inline bool is_generous(const struct transfer *transfer, __u64 wanted)
{
    __u64 connection = transfer->connection;
    return wanted == MAX_PAYLOAD && transfer->length > MAX_PAYLOAD
        && bpf_map_lookup_elem(&generous_connections, &connection);
}

/* `vectors` is the number of vectors at this address; 0 means that the bytes themselves are there.
 * A global function, which is verified once. */
__noinline int emit_pieces(transfer_handle handle, __u64 at, __u64 vectors)
{
    struct transfer *whole = passed_transfer(handle);
    if (!whole)
        return 0;
    /* Changed in place for each piece, because the stack is small. */
    const __u32 seq = whole->seq, length = whole->length, extra = whole->extra;
    for (__u32 i = 0; i < MAX_PIECES; i++) {
        __u32 skip = i * MAX_PAYLOAD;
        if (skip >= length)
            break;
        __u32 rest = length - skip;
        __u64 wanted = rest < MAX_PAYLOAD ? rest : MAX_PAYLOAD;
        whole->length = i < MAX_PIECES - 1 ? wanted : rest;
        if (vectors)
            emit_vector(HANDLE(whole), at, vectors, skip, wanted);
        else
            emit_plain(HANDLE(whole), at + skip, wanted);
        whole->seq += MAX_PAYLOAD;
        if (whole->kind != SPANWISE_DATA) /* PLAINTEXT: number of bytes before the piece */
            whole->extra += MAX_PAYLOAD;
    }
    whole->seq = seq;
    whole->length = length;
    whole->extra = extra;
    return 0;
}

#define HTTP 0x50545448 /* "HTTP" and an empty line, as four-byte integers */
#define EMPTY_LINE 0x0a0d0a0d
/* Shorter messages are captured like any other data. */
#define SHORTEST_HEAD 64

#define EMIT_HEAD(room, mask)                                                           \
    do {                                                                                \
        struct {                                                                        \
            struct spanwise_event event;                                                \
            __u8 payload[room];                                                         \
        } *record = bpf_ringbuf_reserve(&events, sizeof *record, 0);                    \
        if (!record) {                                                                  \
            __sync_fetch_and_add(&tallies.lost_data, 1);                                        \
            return 1;                                                                   \
        }                                                                               \
        __u64 bytes = length;                                                           \
        BOUND(bytes, mask);                                                             \
        if (bytes < SHORTEST_HEAD || bytes > (room)                                     \
            || bpf_probe_read_user(record->payload, bytes, (void *)buffer)              \
            || *(__u32 *)record->payload != HTTP                                        \
            || *(__u32 *)(record->payload + bytes - 4) != EMPTY_LINE) {                 \
            bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);                              \
            return 0;                                                                   \
        }                                                                               \
        fill_data(&record->event, transfer, bytes);                                     \
        bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);                                   \
        return 1;                                                                       \
    } while (0)

/* If the buffer contains the head of an HTTP/1 response, writes an event with the whole buffer and
 * returns true. The check uses the copy in the record, because another read of user memory would
 * cost more than the record's space. */
static __always_inline int emit_head(struct transfer *transfer, __u64 buffer, __u64 length)
{
    if (length <= 256)
        EMIT_HEAD(256, 511);
    EMIT_HEAD(1024, 2047);
}

/* Whether there is data at this address that does not begin another response. */
static __always_inline bool is_body(const void *at)
{
    __u32 begin;
    return !bpf_probe_read_user(&begin, sizeof begin, at) && begin != HTTP;
}

/* For two or more buffers. A global function, once in each program. */
__noinline int emit_several(transfer_handle handle, __u64 vectors, __u64 count, __u64 wanted)
{
    struct transfer *transfer = passed_transfer(handle);
    if (!transfer)
        return 0;
    if (is_generous(transfer, wanted))
        return emit_pieces(HANDLE(transfer), vectors, count);
    struct iovec both[2];
    if (bpf_probe_read_user(both, sizeof both, (void *)vectors))
        return emit_plain(HANDLE(transfer), 0, 0);
    if (both[0].iov_len >= wanted)
        return emit_plain(HANDLE(transfer), (__u64)both[0].iov_base, wanted);
    /* The usual form of a response: a head, and a body that is not needed. */
    if (count == 2 && both[0].iov_len >= SHORTEST_HEAD && both[1].iov_len >= sizeof(__u32)
        && is_body(both[1].iov_base)
        && emit_head(transfer, (__u64)both[0].iov_base, both[0].iov_len))
        return 0;
    return emit_vector(HANDLE(transfer), vectors, count, 0, wanted);
}

/* The location of a call's bytes that are wanted. */
struct wanted {
    __u64 at;
    __u64 bytes;
};

/* Writes the event of a call with one buffer. */
static __always_inline void emit_buffer(struct transfer *transfer, const struct wanted *wanted)
{
    if (is_generous(transfer, wanted->bytes))
        emit_pieces(HANDLE(transfer), wanted->at, 0);
    else
        write_plain(transfer, wanted->at, wanted->bytes);
}

/* Finds the buffer if there is only one. If there are several, writes the event, returns false. */
static __always_inline bool find_in_vectors(struct transfer *transfer, __u64 vectors, __u64 count,
                                            struct wanted *wanted)
{
    struct iovec only;
    if (count > 1) {
        emit_several(HANDLE(transfer), vectors, count, wanted->bytes);
        return false;
    }
    if (!count || bpf_probe_read_user(&only, sizeof only, (void *)vectors))
        wanted->bytes = 0;
    else
        wanted->at = (__u64)only.iov_base;
    return true;
}

struct message_header { /* struct msghdr in user memory */
    void *name;
    __u32 name_length;
    struct iovec *vectors;
    __u64 vector_count;
    void *control;
    __u64 control_length;
    __u32 flags;
};
struct message_entry { /* struct mmsghdr */
    struct message_header header;
    __u32 length;
};

static __always_inline bool find_in_far_message(struct transfer *transfer, __u64 header,
                                                struct wanted *wanted)
{
    struct {
        struct iovec *vectors;
        __u64 count;
    } list;
    if (!bpf_probe_read_user(&list, sizeof list,
                             (void *)(header + __builtin_offsetof(struct message_header, vectors))))
        return find_in_vectors(transfer, (__u64)list.vectors, list.count, wanted);
    wanted->bytes = 0;
    return true;
}

/* Bytes that are read around a message's header. */
#define NEAR_BEFORE 48
#define NEAR_BYTES 128

/* Like `find_in_vectors`. If `near`, a message's header and its vectors are often close together on
 * the caller's stack, so one read gets both. This needs variable offsets into a program's own stack
 * (5.12) and room on the stack. */
static __always_inline bool find_in_message(struct transfer *transfer, __u64 header,
                                            struct wanted *wanted, const bool near)
{
    __u64 around[NEAR_BYTES / 8];
    const __u64 from = header - NEAR_BEFORE;
    const struct message_header *message = (void *)around + NEAR_BEFORE;
    if (!near || bpf_probe_read_user(around, sizeof around, (void *)from))
        return find_in_far_message(transfer, header, wanted);
    __u64 at = (__u64)message->vectors - from;
    if (message->vector_count != 1 || at % 8 || at > NEAR_BYTES - sizeof(struct iovec))
        return find_in_vectors(transfer, (__u64)message->vectors, message->vector_count, wanted);
    BOUND(at, 120); /* always true, but the verifier needs it */
    if (at > NEAR_BYTES - sizeof(struct iovec))
        return false;
    const struct iovec *only = (void *)around + at;
    wanted->at = (__u64)only->iov_base;
    return true;
}

/* The current entry of a mmsghdr array. The hook runs once for each entry, in order, while the
 * registers show only the array. */
static __always_inline __u64 message_header_of(struct socket_state *state, const struct call *call)
{
    if (state->message_array != call->array || state->message_index >= call->count
        || state->message_index >= MAX_MESSAGES)
        state->message_index = 0;
    state->message_array = call->array;
    return call->array + state->message_index++ * sizeof(struct message_entry);
}

/* The address of a call's bytes in user memory; 0 if they are not in one buffer. */
static __always_inline __u64 one_buffer(__u64 array, int shape, __u64 length)
{
    struct iovec first;
    __u64 vectors = array;
    if (shape == BUFFER_PLAIN)
        return array;
    if (shape == BUFFER_MESSAGE
        && bpf_probe_read_user(&vectors, sizeof vectors,
                               (void *)(array + __builtin_offsetof(struct message_header, vectors))))
        return 0;
    if (shape != BUFFER_MESSAGE && shape != BUFFER_VECTOR)
        return 0;
    if (bpf_probe_read_user(&first, sizeof first, (void *)vectors) || first.iov_len < length)
        return 0;
    return (__u64)first.iov_base;
}

/* The first bytes of an HTTP/2 client (RFC 9113, section 3.4). */
#define HTTP2_PREFACE 0x5448202a20495250 /* "PRI * HT", as the machine reads eight bytes */
#define HTTP2_PREFACE_LENGTH 24

/* Called with the first bytes of each direction. HTTP/2 often sends many messages together, and
 * later messages cannot be decoded without earlier ones. So more data is captured at once, without
 * waiting for user space. */
static __always_inline bool expect_batches(const struct transfer *transfer, __u64 buffer)
{
    __u64 begin, connection = transfer->connection;
    const __u8 yes = 1;
    if (transfer->length < HTTP2_PREFACE_LENGTH || !buffer
        || bpf_probe_read_user(&begin, sizeof begin, (void *)buffer) || begin != HTTP2_PREFACE)
        return false;
    bpf_map_update_elem(&generous_connections, &connection, &yes, BPF_ANY);
    return true;
}

/* How many bytes of a call to capture, depending on how many went in the same direction before. */
static __always_inline __u64 wanted_in_turn(__u32 *turn_bytes, __u8 batches, __u32 length)
{
    const __u32 most = batches ? 2 * TURN_BYTES : TURN_BYTES;
    __u64 wanted = *turn_bytes > most ? TAIL_PAYLOAD : settings.max_payload;
    if (*turn_bytes <= most)
        *turn_bytes += length > most ? most + 1 : length;
    return wanted > length ? length : wanted;
}

/* The first bytes of a direction. */
static __noinline void begin_direction(struct socket_state *state, const struct transfer *transfer,
                                       __u64 array, int shape)
{
    state->begun |= 1 << transfer->sent;
    state->batches |= expect_batches(transfer, one_buffer(array, shape, transfer->length));
}

static __always_inline void emit(struct socket_state *state, struct transfer *transfer,
                                 const struct call *call, const bool near)
{
    if (state->direction != transfer->sent) {
        state->direction = transfer->sent;
        state->turn_bytes = 0;
        state->message_index = 0;
    }
    if (!(state->begun >> transfer->sent & 1))
        begin_direction(state, transfer, call->array, call->shape);
    struct wanted wanted = {
        .at = call->array,
        .bytes = wanted_in_turn(&state->turn_bytes, state->batches, transfer->length),
    };
    switch (call->shape) {
    case BUFFER_PLAIN:
        break;
    case BUFFER_VECTOR:
        if (!find_in_vectors(transfer, call->array, call->count, &wanted))
            return;
        break;
    case BUFFER_MESSAGE:
    case BUFFER_MESSAGES: {
        __u64 header =
            call->shape == BUFFER_MESSAGE ? call->array : message_header_of(state, call);
        if (!find_in_message(transfer, header, &wanted, near))
            return;
        break;
    }
    default:
        wanted.bytes = 0;
    }
    emit_buffer(transfer, &wanted);
}

#endif
