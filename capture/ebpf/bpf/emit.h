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
    __u8 pieces; /* that are captured of a long call, where not as many as user space asks for */
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

/* What `emit_vector` tells where what follows cannot be found. */
#define LOST_PLACE (~0ull)

/* Writes an event whose bytes stand in several buffers, `skip` bytes behind their
 * beginning. The record has twice the room, so that an offset and a length of at most
 * 1024 each need no sum. The offsets lie in the record, where the verifier does
 * not follow their values: it would try every combination of them. A function of its
 * own to it, which is followed once and not for each piece.
 *
 * Tells where it ended: in the lower half how many vectors are behind it, in the upper one how many
 * bytes of the next. Where it ran out of vectors to look at, it shortens the transfer to what it
 * has written. */
__noinline __u64 emit_vector(transfer_handle handle, __u64 vectors, __u64 count, __u64 skip,
                             __u64 wanted)
{
    struct transfer *transfer = passed_transfer(handle);
    if (!transfer)
        return LOST_PLACE;
    struct {
        struct spanwise_event event;
        __u8 payload[2 * MAX_PAYLOAD];
        volatile __u64 offset;
        volatile __u64 skip;
        volatile __u32 passed;
    } *record = bpf_ringbuf_reserve(&events, sizeof *record, 0);
    if (!record) {
        __sync_fetch_and_add(&tallies.lost_data, 1);
        return LOST_PLACE;
    }
    record->offset = 0;
    record->skip = skip;
    record->passed = 0;
    for (int i = 0; i < MAX_VECTORS; i++) {
        struct iovec vector;
        __u64 offset = record->offset;
        if (i >= count || offset >= wanted || offset >= MAX_PAYLOAD
            || bpf_probe_read_user(&vector, sizeof vector,
                                   (const struct iovec *)vectors + i))
            break;
        __u64 over = record->skip;
        __u64 bytes = wanted - offset;
        if (over + bytes < vector.iov_len) {
            record->skip = over + bytes;
        } else {
            record->passed = i + 1;
            record->skip = 0;
            if (over >= vector.iov_len) {
                record->skip = over - vector.iov_len;
                continue;
            }
            bytes = vector.iov_len - over;
        }
        BOUND(bytes, 2047);
        if (bytes > MAX_PAYLOAD)
            bytes = MAX_PAYLOAD;
        __u64 at = offset;
        BOUND(at, 1023);
        if (bytes && bpf_probe_read_user(record->payload + at, bytes, vector.iov_base + over)) {
            record->passed = 0;
            break;
        }
        record->offset = offset + bytes;
    }
    __u64 offset = record->offset;
    if (offset > MAX_PAYLOAD)
        offset = MAX_PAYLOAD;
    __u64 place = record->skip << 32 | record->passed;
    if (offset < wanted) {
        if (count > MAX_VECTORS && (__u32)place == MAX_VECTORS && transfer->length == wanted)
            transfer->length = offset;
        else
            place = LOST_PLACE;
    }
    fill_data(&record->event, transfer, offset);
    bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
    return place;
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

/* Asked only about what would be cut, and not of long turns. */
static __always_inline bool is_generous(struct transfer *transfer, __u64 wanted)
{
    __u64 connection = transfer->connection;
    if (wanted != MAX_PAYLOAD || transfer->length <= MAX_PAYLOAD)
        return false;
    if (bpf_map_lookup_elem(&generous_connections, &connection))
        transfer->pieces = MAX_PIECES;
    return transfer->pieces;
}

/* `vectors` is the number of vectors at this address; 0 means that the bytes themselves are there.
 * A global function, which is verified once. */
__noinline int emit_pieces(transfer_handle handle, __u64 at, __u64 vectors)
{
    struct transfer *whole = passed_transfer(handle);
    if (!whole)
        return 0;
    /* Changed for each piece, not copied: a stack is small. */
    const __u32 length = whole->length;
    __u32 left = length, skip = 0;
    for (__u32 i = 0; i < MAX_PIECES && i < whole->pieces && left; i++) {
        __u32 passed = left < MAX_PAYLOAD ? left : MAX_PAYLOAD;
        whole->length = i + 1 < whole->pieces ? passed : left;
        if (vectors) {
            __u64 place = emit_vector(HANDLE(whole), at, vectors, skip, passed);
            if (place == LOST_PLACE)
                break;
            passed = whole->length;
            skip = place >> 32;
            at += (__u32)place * sizeof(struct iovec);
            vectors -= (__u32)place;
            if (!vectors) /* all of them are behind it */
                left = passed;
        } else {
            emit_plain(HANDLE(whole), at, passed);
            at += passed;
        }
        left -= passed;
        whole->seq += passed;
        if (whole->kind != SPANWISE_DATA) /* of plaintext, how much went before */
            whole->extra += passed;
    }
    whole->length = length;
    whole->seq -= length - left;
    if (whole->kind != SPANWISE_DATA)
        whole->extra -= length - left;
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
    if (count > MAX_VECTORS && wanted > TAIL_PAYLOAD)
        transfer->pieces = MAX_PIECES;
    if (is_generous(transfer, wanted) || transfer->pieces == MAX_PIECES)
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
    emit_vector(HANDLE(transfer), vectors, count, 0, wanted);
    return 0;
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

/* Where the first bytes of a call stand in user memory that names them so; 0 where fewer than
 * these stand together. */
static __always_inline __u64 first_buffer(__u64 array, int shape, __u64 length)
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

/* Of HTTP/2's frames, these bytes are the header (RFC 9113, section 4.1). */
#define HTTP2_HEADER 9
#define HTTP2_LAST_TYPE 9
/* Content of DATA beyond which it is a piece of a body. */
#define HTTP2_SHORT_DATA 1024
#define HTTP2_LONGEST_FRAME 16384

/* Whether a call that goes on for long in one direction begins with a frame of HTTP/2 that is no
 * long piece of a body: many requests, or many answers, are going out together. */
static __noinline bool begins_frames(__u64 array, int shape)
{
    __u8 header[HTTP2_HEADER];
    __u64 buffer = first_buffer(array, shape, HTTP2_HEADER);
    if (!buffer || bpf_probe_read_user(header, sizeof header, (void *)buffer))
        return false;
    const __u32 length = header[0] << 16 | header[1] << 8 | header[2];
    const __u32 most = header[3] ? HTTP2_LONGEST_FRAME : HTTP2_SHORT_DATA;
    return length <= most && header[3] <= HTTP2_LAST_TYPE && !(header[5] & 0x80);
}

/* How many bytes of a call are captured, by how many went the same way before it. */
static __always_inline __u64 wanted_in_turn(__u32 *turn_bytes, __u8 batches, __u32 length,
                                            __u64 array, int shape)
{
    const __u32 most = batches ? 2 * TURN_BYTES : TURN_BYTES;
    __u64 wanted = settings.max_payload;
    if (*turn_bytes <= most)
        *turn_bytes += length > most ? most + 1 : length;
    else if (!batches || (length > MAX_PAYLOAD && !begins_frames(array, shape)))
        wanted = TAIL_PAYLOAD; /* a short call on HTTP/2 is the end of a body, or what follows it */
    return wanted > length ? length : wanted;
}

/* Pieces of what may be the head of a request, by whether a body follows it in the same call. */
#define HEAD_PIECES MAX_PIECES
#define HEAD_AND_BODY_PIECES 4

/* Asked about requests of which not all would be captured. Says by how many pieces these begin
 * with the head of one of HTTP/1: what names its trace may stand far behind its cookies. */
static __noinline __u8 head_pieces(__u64 array, int shape)
{
    char begin[4];
    __u64 buffer = first_buffer(array, shape, sizeof begin);
    if (!buffer || bpf_probe_read_user(begin, sizeof begin, (void *)buffer))
        return 0;
    switch (*(__u32 *)begin) { /* as the machine reads four bytes */
    case 0x20544547: /* "GET " */
    case 0x44414548: /* "HEAD" */
    case 0x454c4544: /* "DELE" */
    case 0x4954504f: /* "OPTI" */
    case 0x4e4e4f43: /* "CONN" */
        return HEAD_PIECES;
    case 0x54534f50: /* "POST" */
    case 0x20545550: /* "PUT " */
    case 0x43544150: /* "PATC" */
        return HEAD_AND_BODY_PIECES;
    }
    return 0;
}

/* Finds how many pieces are captured of a call: more of one with which the head of a request
 * begins, and of those that follow in its turn, unless these are of its body. */
static __always_inline void expect_head(__u8 *head, bool asks, bool begins_turn, __u32 turn_bytes,
                                        struct transfer *transfer, __u64 array, int shape)
{
    transfer->pieces = 0;
    if (begins_turn)
        *head = asks && transfer->length >= MAX_PAYLOAD ? head_pieces(array, shape) : 0;
    if (begins_turn || *head == HEAD_PIECES || turn_bytes <= HEAD_AND_BODY_PIECES * MAX_PAYLOAD)
        transfer->pieces = *head;
}

/* The first bytes of a direction. */
static __noinline void begin_direction(struct socket_state *state, const struct transfer *transfer,
                                       __u64 array, int shape)
{
    state->begun |= 1 << transfer->sent;
    state->batches |= expect_batches(transfer, first_buffer(array, shape, HTTP2_PREFACE_LENGTH));
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
    const bool begins_turn = !state->turn_bytes;
    struct wanted wanted = {
        .at = call->array,
        .bytes = wanted_in_turn(&state->turn_bytes, state->batches, transfer->length, call->array,
                                call->shape),
    };
    /* Who connected asks, and the other one answers. */
    const bool asks =
        state->role == SPANWISE_UNKNOWN || (state->role == SPANWISE_CLIENT) == transfer->sent;
    expect_head(&state->head, asks, begins_turn, state->turn_bytes, transfer, call->array,
                call->shape);
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
