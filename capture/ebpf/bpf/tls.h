/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What TLS libraries are given to encrypt and give decrypted. The socket is the
 * one that the library's thread uses inside the call; a call that uses none
 * (bytes were left of an earlier record) belongs to the session's last one. */
#ifndef SPANWISE_TLS_H
#define SPANWISE_TLS_H

#define TLS_RECORD_HEADER 5

/* Set by user space while any library has probes; in a map of its own, for it
 * can be written only as a whole. */
__u64 tls_attached SEC(".data.tls") = 0;
/* Plaintext of sessions whose socket was never seen. */
__u64 tls_unbound = 0;

/* Processes whose plaintext is not looked at. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32);
    __type(value, __u8);
} tls_ignored_processes SEC(".maps");

/* A call into a library that has not returned. */
struct tls_call {
    __u64 session; /* the library's object */
    __u64 buffer;
    __u64 result; /* where the library writes how many bytes; 0: it returns it */
    __u64 connection; /* that the thread used meanwhile; 0: none yet */
    __u64 time_nano;
    __u32 seq;
    __u32 srtt_eighth_micros;
    __u32 retransmits;
    __u8 sent;
    __u8 header; /* a record's header was read by itself: seq is its */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, __u64); /* thread */
    __type(value, struct tls_call);
} tls_calls SEC(".maps");

struct tls_session_key {
    __u64 session;
    __u64 process;
};
struct tls_session {
    __u64 connection;
    __u32 sent; /* plaintext so far, wrapping */
    __u32 received;
    __u32 record_seq; /* where in the record the next plaintext stands */
    __u32 turn_bytes;
    __u32 srtt_eighth_micros;
    __u32 retransmits;
    __u8 direction;
    __u8 begun; /* a record's header was read, and nothing of the record yet */
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, struct tls_session_key);
    __type(value, struct tls_session);
} tls_sessions SEC(".maps");

/* Whether a transfer is a TLS library's: then its plaintext is reported, and it
 * only says to which socket that belongs. */
static __always_inline bool tls_covers(struct socket_state *state, const struct transfer *transfer)
{
    if (!tls_attached)
        return false;
    __u64 task = transfer->task;
    struct tls_call *call = bpf_map_lookup_elem(&tls_calls, &task);
    if (!call)
        return state->tls;
    /* Libraries read a record's header by itself: the last one read is that of
     * the record that the call returns, whatever records came before it. */
    bool header = !transfer->sent && transfer->length == TLS_RECORD_HEADER;
    if (transfer->sent == call->sent && (header || !call->connection)) {
        call->connection = transfer->connection;
        call->header |= header;
        call->seq = transfer->seq;
        call->time_nano = transfer->time_nano;
        call->srtt_eighth_micros = transfer->srtt_eighth_micros;
        call->retransmits = transfer->retransmits;
    }
    state->tls = 1;
    return true;
}

static __always_inline int tls_enter(struct pt_regs *context, const bool sent, __u64 result)
{
    __u64 task = bpf_get_current_pid_tgid();
    __u32 process = task >> 32;
    if (bpf_map_lookup_elem(&tls_ignored_processes, &process)
        || bpf_map_lookup_elem(&ignored_processes, &process))
        return 0;
    struct tls_call call = {
        .session = PT_REGS_PARM1(context),
        .buffer = PT_REGS_PARM2(context),
        .result = result,
        .sent = sent,
    };
    bpf_map_update_elem(&tls_calls, &task, &call, BPF_ANY);
    return 0;
}

/* SSL_write(session, buffer, count), and all that look like it. */
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

static __always_inline struct tls_session *tls_session_of(const struct tls_call *call, __u64 task)
{
    struct tls_session_key key = { .session = call->session, .process = task >> 32 };
    struct tls_session *session = bpf_map_lookup_elem(&tls_sessions, &key);
    if (session && (!call->connection || session->connection == call->connection))
        return session;
    /* A session at this address that had another socket is gone. */
    struct tls_session fresh = { .connection = call->connection, .direction = 2 };
    bpf_map_update_elem(&tls_sessions, &key, &fresh, BPF_ANY);
    return bpf_map_lookup_elem(&tls_sessions, &key);
}

SEC("?uretprobe")
int tls_exit(struct pt_regs *context)
{
    __u64 task = bpf_get_current_pid_tgid();
    struct tls_call *open = bpf_map_lookup_elem(&tls_calls, &task);
    if (!open)
        return 0;
    struct tls_call call = *open;
    bpf_map_delete_elem(&tls_calls, &task);
    int returned = (int)PT_REGS_RC(context);
    struct tls_session *session = tls_session_of(&call, task);
    if (!session)
        return 0;
    if (call.connection) {
        session->srtt_eighth_micros = call.srtt_eighth_micros;
        session->retransmits = call.retransmits;
        if (!call.sent && (call.header || !session->begun))
            session->record_seq = call.seq;
        session->begun |= call.header;
    }
    if (returned <= 0)
        return 0;
    __u64 length = returned;
    if (call.result && bpf_probe_read_user(&length, sizeof length, (void *)call.result))
        return 0;
    length &= 0x7fffffff;
    if (!length)
        return 0;
    if (!session->connection) {
        __sync_fetch_and_add(&tls_unbound, 1);
        return 0;
    }
    struct transfer transfer = {
        .kind = SPANWISE_PLAINTEXT,
        .task = task,
        .connection = session->connection,
        .sent = call.sent,
        .length = length,
        .srtt_eighth_micros = session->srtt_eighth_micros,
        .retransmits = session->retransmits,
    };
    if (call.sent) {
        transfer.seq = call.seq;
        transfer.time_nano = call.time_nano;
        transfer.offset = session->sent;
        session->sent += length;
    } else {
        transfer.seq = session->record_seq;
        session->record_seq += length;
        session->begun = 0;
        transfer.offset = session->received;
        session->received += length;
    }
    if (!transfer.time_nano)
        transfer.time_nano = bpf_ktime_get_ns();
    if (session->direction != call.sent) {
        session->direction = call.sent;
        session->turn_bytes = 0;
    }
    __u64 wanted = session->turn_bytes > TURN_BYTES ? TAIL_PAYLOAD : max_payload;
    if (wanted > length)
        wanted = length;
    if (session->turn_bytes <= TURN_BYTES)
        session->turn_bytes += length > TURN_BYTES ? TURN_BYTES + 1 : length;
    emit_plain(&transfer, call.buffer, wanted);
    return 0;
}

/* SSL_free(session): its address may be another one's soon. */
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
