/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The plaintext that TLS libraries encrypt and decrypt.
 *
 * The socket of a session is found in one of two ways. Nested: the library's thread uses the socket
 * inside the call. Loose: the program moves the bytes between socket and library itself (Node.js,
 * asyncio). Then a thread that has just received from a socket passes the data to the session next.
 *
 * The headers of the records that a socket received determine the TLS record of plaintext, and so
 * its sequence number (tls_records.h). */
#ifndef SPANWISE_TLS_H
#define SPANWISE_TLS_H

#include "tls_records.h"

/* Set by user space while any library has probes. In a separate map, because user space can only
 * write the map as a whole. */
__u64 tls_attached SEC(".data.tls") = 0;
/* Calls that moved plaintext of sessions whose socket is unknown. */

/* Processes whose plaintext is not reported. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32);
    __type(value, __u8);
} tls_ignored_processes SEC(".maps");

/* Processes with a thread that has a tls_thread. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, __u8);
} tls_users SEC(".maps");

/* Changes whenever a process is added. In a separate map, like tls_attached. */
__u32 tls_users_generation SEC(".data.tls_users") = 1;

static __always_inline void tls_used_by(__u32 process)
{
    const __u8 yes = 1;
    if (bpf_map_lookup_elem(&tls_users, &process))
        return;
    bpf_map_update_elem(&tls_users, &process, &yes, BPF_ANY);
    __sync_fetch_and_add(&tls_users_generation, 1);
}

/* In place of the connection of a session whose socket is filtered out. */
#define TLS_LEFT_OUT 0xffffffffffffffffull

/* A library call that has not returned. */
struct tls_call {
    __u64 session; /* the library's object; 0: no call */
    __u64 buffer;
    /* address at which the library writes the number of bytes; 0: it returns the number */
    __u64 result;
    __u64 connection; /* used inside the call; 0: none yet */
    __u64 time_nano;
    __u32 seq;
    __u32 srtt_eighth_micros;
    __u32 retransmits;
    __u8 sent;
    __u8 header; /* a record's header was read separately: seq is the header's */
};

/* The state of a thread. */
struct tls_thread {
    struct tls_call call;
    /* The call inside which the current one was made: libraries call programs back, and these may
     * write at once. */
    struct tls_call outer;
    /* Loose: the last socket from which the thread received a TLS record. */
    __u64 received_connection; /* 0: none, or already passed on */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64);
    __type(value, struct tls_thread);
} tls_threads SEC(".maps");

struct tls_session_key {
    __u64 session;
    __u64 process;
};
struct tls_session {
    __u64 connection; /* 0: unknown */
    __u32 sent; /* plaintext bytes so far, wrapping */
    __u32 received;
    __u32 record_seq; /* position of the next plaintext within its record */
    __u32 turn_bytes;
    __u32 srtt_eighth_micros;
    __u32 retransmits;
    __u8 direction;
    __u8 begun; /* a record's header was read, but nothing of the record yet */
    __u8 loose;
    __u8 has_read; /* loose: plaintext from it was seen */
    __u8 stepwise; /* it reads headers separately, and so record by record */
    __u8 batches; /* see socket_state */
    __u8 head; /* likewise */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, struct tls_session_key);
    __type(value, struct tls_session);
} tls_sessions SEC(".maps");

/* A thread without state. */
static const struct tls_thread no_thread = {};

static __always_inline struct tls_thread *tls_thread_of(__u64 task, bool create)
{
    struct tls_thread *thread = bpf_map_lookup_elem(&tls_threads, &task);
    if (thread || !create)
        return thread;
    bpf_map_update_elem(&tls_threads, &task, &no_thread, BPF_ANY);
    tls_used_by(task >> 32);
    return bpf_map_lookup_elem(&tls_threads, &task);
}

/* The same for a thread that uses this socket. Most belong to processes without a library. */
static __always_inline struct tls_thread *tls_thread_at(struct socket_state *state, __u64 task)
{
    __u32 generation = tls_users_generation;
    __u32 process = task >> 32;
    if (state->tls_less_generation == generation && state->tls_less_process == process)
        return 0;
    struct tls_thread *thread = tls_thread_of(task, false);
    if (!thread && !bpf_map_lookup_elem(&tls_users, &process)) {
        state->tls_less_process = process;
        state->tls_less_generation = generation;
    }
    return thread;
}

/* Reports the records that a transfer sent. */
static __always_inline void tls_tell_records(const struct tls_stream *stream, __u32 first,
                                             const struct transfer *transfer)
{
    struct spanwise_tls_records *told = bpf_ringbuf_reserve(&events, sizeof *told, 0);
    if (!told) {
        __sync_fetch_and_add(&tallies.lost_data, 1);
        return;
    }
    struct transfer records = *transfer;
    records.kind = SPANWISE_TLS_RECORDS;
    fill_data(&told->event, &records, sizeof told->records);
    for (__u32 i = 0; i < TLS_RECORDS; i++) {
        const struct spanwise_tls_record none = {};
        told->records[i] = first + i < stream->next
            ? stream->records[(first + i) & (TLS_RECORDS - 1)]
            : none;
    }
    bpf_ringbuf_submit(told, BPF_RB_NO_WAKEUP);
}

static __always_inline bool tls_covers_loose(struct socket_state *state,
                                             const struct transfer *transfer, __u64 array,
                                             int shape)
{
    if (state->tls == SOCKET_TLS_NOT || (transfer->sent && state->tls != SOCKET_TLS_LOOSE))
        return false;
    __u64 buffer = first_buffer(array, shape, transfer->length);
    if (state->tls == SOCKET_TLS_UNKNOWN)
        state->tls = tls_begins_record(buffer) ? SOCKET_TLS_LOOSE : SOCKET_TLS_NOT;
    if (state->tls == SOCKET_TLS_NOT)
        return false;
    struct tls_stream *inbound = tls_stream_of(state->connection, false, true);
    struct tls_stream *stream = tls_stream_of(state->connection, transfer->sent, true);
    if (!inbound || !stream)
        return false;
    inbound->srtt_eighth_micros = transfer->srtt_eighth_micros;
    inbound->retransmits = transfer->retransmits;
    __u32 first = stream->next;
    tls_follow_records(stream, buffer, transfer->seq, transfer->length);
    if (!transfer->sent) {
        struct tls_thread *thread = tls_thread_of(transfer->task, true);
        if (thread)
            thread->received_connection = state->connection;
    } else if (inbound->bound && stream->next != first) {
        tls_tell_records(stream, first, transfer);
    }
    return inbound->bound;
}

/* A library uses a socket that is filtered out. So its session is, too. */
static __always_inline void tls_left_out(struct socket_state *state, __u64 task)
{
    if (!tls_attached)
        return;
    struct tls_thread *thread = tls_thread_at(state, task);
    if (!thread)
        return;
    if (thread->call.session)
        thread->call.connection = TLS_LEFT_OUT;
    /* What it hands over next is not what it received of another. */
    thread->received_connection = 0;
}

/* Whether a transfer belongs to a TLS library whose plaintext is reported. Then it only determines
 * the session's socket. */
static __noinline bool tls_covers(struct socket_state *state, const struct transfer *transfer,
                                  __u64 array, int shape)
{
    struct tls_thread *thread = tls_thread_at(state, transfer->task);
    if (!thread || !thread->call.session) {
        if (state->tls == SOCKET_TLS_NESTED)
            return true;
        return tls_covers_loose(state, transfer, array, shape);
    }
    /* Libraries read a record's header separately. The last header read is that of the record that
     * the call returns, whatever records came before. */
    struct tls_call *open = &thread->call;
    bool header = !transfer->sent && transfer->length == TLS_RECORD_HEADER;
    if (transfer->sent == open->sent && (header || !open->connection)) {
        open->connection = transfer->connection;
        open->header |= header;
        open->seq = transfer->seq;
        open->time_nano = transfer->time_nano;
        open->srtt_eighth_micros = transfer->srtt_eighth_micros;
        open->retransmits = transfer->retransmits;
    }
    /* A library that reads ahead reads several records at once, and returns them one by one. */
    struct tls_stream *stream =
        transfer->sent || open->header ? 0 : tls_stream_of(transfer->connection, false, true);
    if (stream)
        tls_follow_records(stream, first_buffer(array, shape, transfer->length), transfer->seq,
                           transfer->length);
    state->tls = SOCKET_TLS_NESTED;
    return true;
}

/* A session may be older than its probes. Then records have arrived whose plaintext was returned
 * before. The next plaintext comes after them. */
static __always_inline void tls_begin_behind(const struct tls_session *session, const bool last)
{
    if (!session->loose || session->has_read)
        return;
    struct tls_stream *inbound = tls_stream_of(session->connection, false, false);
    if (inbound)
        tls_forget_records(inbound, last ? inbound->end_seq : inbound->begin_seq);
}

/* A session that takes what the thread has just received belongs to that socket. */
static __always_inline void tls_bind_received(struct tls_thread *thread, __u64 session, __u64 task)
{
    if (!thread->received_connection)
        return;
    struct tls_session_key key = { .session = session, .process = task >> 32 };
    struct tls_session fresh = {
        .connection = thread->received_connection,
        .loose = 1,
        .direction = 2,
    };
    thread->received_connection = 0;
    /* A bound session stays bound until it is freed. */
    struct tls_session *known = bpf_map_lookup_elem(&tls_sessions, &key);
    if (known && known->connection)
        return;
    /* Data at a socket's end may be passed to no session. It is left over when the thread continues
     * with a session of another socket. */
    struct tls_stream *inbound = tls_stream_of(fresh.connection, false, false);
    if (inbound && inbound->bound)
        return;
    tls_begin_behind(&fresh, false);
    bpf_map_update_elem(&tls_sessions, &key, &fresh, BPF_ANY);
}

static __always_inline int tls_enter(struct pt_regs *context, const bool sent, __u64 result)
{
    __u64 task = bpf_get_current_pid_tgid();
    __u32 process = task >> 32;
    if (bpf_map_lookup_elem(&tls_ignored_processes, &process)
        || bpf_map_lookup_elem(&ignored_processes, &process))
        return 0;
    struct tls_thread *thread = tls_thread_of(task, true);
    if (!thread)
        return 0;
    thread->outer = thread->call;
    struct tls_call call = {
        .session = PT_REGS_PARM1(context),
        .buffer = PT_REGS_PARM2(context),
        .result = result,
        .sent = sent,
    };
    thread->call = call;
    /* A write may continue the handshake. */
    tls_bind_received(thread, call.session, task);
    return 0;
}

/* SSL_write(session, buffer, count) and functions with the same arguments */
SEC("?uprobe")
int tls_write(struct pt_regs *context)
{
    return tls_enter(context, true, 0);
}

SEC("?uprobe")
int tls_read(struct pt_regs *context)
{
    return tls_enter(context, false, 0);
}

/* SSL_write_ex(session, buffer, count, &written) */
SEC("?uprobe")
int tls_write_ex(struct pt_regs *context)
{
    return tls_enter(context, true, PT_REGS_PARM4(context));
}

SEC("?uprobe")
int tls_read_ex(struct pt_regs *context)
{
    return tls_enter(context, false, PT_REGS_PARM4(context));
}

/* SSL_do_handshake(session): moves no plaintext, but reveals the socket. */
SEC("?uprobe")
int tls_handshake(struct pt_regs *context)
{
    __u64 task = bpf_get_current_pid_tgid();
    struct tls_thread *thread = tls_thread_of(task, false);
    if (!thread)
        return 0;
    tls_bind_received(thread, PT_REGS_PARM1(context), task);
    return 0;
}

/* The session of a returned call, bound to the socket that the call used. */
static __always_inline struct tls_session *tls_session_of(const struct tls_call *call, __u64 task)
{
    struct tls_session_key key = { .session = call->session, .process = task >> 32 };
    struct tls_session *session = bpf_map_lookup_elem(&tls_sessions, &key);
    if (session && (!call->connection || session->connection == call->connection))
        return session;
    /* A session at this address with another socket was freed. */
    struct tls_session fresh = { .connection = call->connection, .direction = 2 };
    bpf_map_update_elem(&tls_sessions, &key, &fresh, BPF_ANY);
    return bpf_map_lookup_elem(&tls_sessions, &key);
}

/* The position of a loose session's plaintext in the socket's bytes. For writes, it is reported
 * when they are sent. */
static __always_inline void tls_place_loose(struct tls_session *session, struct transfer *transfer)
{
    struct tls_stream *inbound = tls_stream_of(session->connection, false, false);
    if (inbound) {
        inbound->bound = 1;
        session->srtt_eighth_micros = inbound->srtt_eighth_micros;
        session->retransmits = inbound->retransmits;
    }
    session->has_read |= !transfer->sent;
    if (transfer->sent || !inbound || !tls_record_of(inbound, transfer->length, &transfer->seq))
        transfer->kind = SPANWISE_PLAINTEXT_UNPLACED;
}

/* Reports plaintext and counts it. */
static __always_inline void tls_emit(struct tls_session *session, struct transfer *transfer,
                                     __u64 buffer)
{
    const bool sent = transfer->sent;
    const __u32 length = transfer->length;
    transfer->srtt_eighth_micros = session->srtt_eighth_micros;
    transfer->retransmits = session->retransmits;
    if (sent) {
        transfer->extra = session->sent;
        session->sent += length;
    } else {
        transfer->extra = session->received;
        session->received += length;
    }
    if (!transfer->extra)
        session->batches |= expect_batches(transfer, buffer);
    if (session->direction != sent) {
        session->direction = sent;
        session->turn_bytes = 0;
    }
    const bool begins_turn = !session->turn_bytes;
    const struct wanted wanted = {
        .at = buffer,
        .bytes = wanted_in_turn(&session->turn_bytes, session->batches, length, buffer,
                                BUFFER_PLAIN),
    };
    expect_head(&session->head, true, begins_turn, session->turn_bytes, transfer, buffer,
                BUFFER_PLAIN);
    emit_buffer(transfer, &wanted);
}

SEC("?uretprobe")
int tls_exit(struct pt_regs *context)
{
    __u64 task = bpf_get_current_pid_tgid();
    struct tls_thread *thread = tls_thread_of(task, false);
    if (!thread || !thread->call.session)
        return 0;
    const struct tls_call call = thread->call;
    thread->call = thread->outer;
    thread->outer.session = 0;
    struct tls_session *session = tls_session_of(&call, task);
    if (!session)
        return 0;
    const bool sent = call.sent;
    if (call.connection) {
        session->loose = 0;
        session->srtt_eighth_micros = call.srtt_eighth_micros;
        session->retransmits = call.retransmits;
        if (!sent && (call.header || !session->begun))
            session->record_seq = call.seq;
        session->begun |= call.header;
        session->stepwise |= call.header;
    }
    int returned = (int)PT_REGS_RC(context);
    /* A thread that writes, or reads in vain, has read everything. */
    if (sent || returned <= 0)
        tls_begin_behind(session, true);
    if (returned <= 0)
        return 0;
    __u64 length = returned;
    if (call.result && bpf_probe_read_user(&length, sizeof length, (void *)call.result))
        return 0;
    length &= 0x7fffffff;
    if (!length)
        return 0;
    if (!session->connection) {
        __sync_fetch_and_add(&tallies.tls_unbound, 1);
        return 0;
    }
    if (session->connection == TLS_LEFT_OUT)
        return 0;
    struct transfer described = {
        .kind = SPANWISE_PLAINTEXT,
        .task = task,
        .connection = session->connection,
        .sent = sent,
        .length = length,
        .time_nano = sent && call.time_nano ? call.time_nano : bpf_ktime_get_ns(),
        .sleeps = thread_sleeps(),
    };
    struct transfer *transfer = pass_transfer(&described);
    if (!transfer)
        return 0;
    if (session->loose) {
        tls_place_loose(session, transfer);
    } else if (sent) {
        transfer->seq = call.seq;
    } else {
        struct tls_stream *stream = tls_stream_of(session->connection, false, false);
        if (session->stepwise || !stream || !tls_record_of(stream, length, &transfer->seq))
            transfer->seq = session->record_seq;
        session->record_seq = transfer->seq + length;
        session->begun = 0;
    }
    find_task_here(task, 0, &transfer->ids);
    tls_emit(session, transfer, call.buffer);
    return 0;
}

/* SSL_free(session): its address may be reused soon. */
SEC("?uprobe")
int tls_free(struct pt_regs *context)
{
    struct tls_session_key key = {
        .session = PT_REGS_PARM1(context),
        .process = bpf_get_current_pid_tgid() >> 32,
    };
    bpf_map_delete_elem(&tls_sessions, &key);
    return 0;
}

#endif
