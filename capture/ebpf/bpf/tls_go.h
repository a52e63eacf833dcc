/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Go's crypto/tls. Goroutines change threads, so calls are distinguished by goroutine. Stacks move,
 * so returns are probed at return instructions, not by changing the return address. The connection
 * is found through the structures from the tls.Conn to its file descriptor, which have not changed
 * since Go 1.17 (task_go_clients.h). */
#ifndef SPANWISE_TLS_GO_H
#define SPANWISE_TLS_GO_H

struct go_call_key {
    __u64 goroutine;
    __u64 process;
};
struct go_call {
    __u64 session;
    __u64 buffer;
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, struct go_call_key);
    __type(value, struct go_call);
} go_reads SEC(".maps");

static __always_inline int go_moved(__u64 task, __u64 session_address, __u64 buffer, __u64 length,
                                    const bool sent)
{
    struct tls_session_key key = { .session = session_address, .process = task >> 32 };
    /* A tls.Conn begins with the underlying connection. */
    __u64 value, socket = 0;
    if (!bpf_probe_read_user(&value, 8, (void *)(session_address + GO_INTERFACE_VALUE)))
        socket = go_socket(value);
    __u64 *known = socket ? bpf_map_lookup_elem(&connections_by_socket, &socket) : 0;
    if (!known) {
        __sync_fetch_and_add(&tallies.tls_unbound, 1);
        return 0;
    }
    __u64 connection = *known;
    struct tls_session *session = bpf_map_lookup_elem(&tls_sessions, &key);
    if (!session || session->connection != connection) {
        /* The memory of a former tls.Conn may be reused. */
        struct tls_session fresh = { .connection = connection, .loose = 1, .direction = 2 };
        bpf_map_update_elem(&tls_sessions, &key, &fresh, BPF_ANY);
        session = bpf_map_lookup_elem(&tls_sessions, &key);
        if (!session)
            return 0;
    }
    struct transfer described = {
        .kind = SPANWISE_PLAINTEXT,
        .task = task,
        .connection = connection,
        .sent = sent,
        .length = length,
        .time_nano = bpf_ktime_get_ns(),
        .sleeps = thread_sleeps(),
    };
    struct transfer *transfer = pass_transfer(&described);
    if (!transfer)
        return 0;
    tls_place_loose(session, transfer);
    find_task_here(task, sent ? socket : 0, &transfer->ids);
    tls_emit(session, transfer, buffer);
    return 0;
}

static __always_inline bool go_ignored(__u64 task)
{
    __u32 process = task >> 32;
    return bpf_map_lookup_elem(&tls_ignored_processes, &process)
        || bpf_map_lookup_elem(&ignored_processes, &process);
}

/* (*Conn).Write(c, b): reported at its start, because the data is sent inside. */
SEC("?uprobe")
int go_tls_write(struct pt_regs *context)
{
    __u64 task = bpf_get_current_pid_tgid();
    __u64 length = GO_ARG3(context) & 0x7fffffff;
    if (!length || go_ignored(task))
        return 0;
    return go_moved(task, GO_ARG1(context), GO_ARG2(context), length, true);
}

/* (*Conn).Read(c, b) */
SEC("?uprobe")
int go_tls_read(struct pt_regs *context)
{
    __u64 task = bpf_get_current_pid_tgid();
    if (go_ignored(task))
        return 0;
    struct go_call_key key = { .goroutine = GO_GOROUTINE(context), .process = task >> 32 };
    struct go_call call = { .session = GO_ARG1(context), .buffer = GO_ARG2(context) };
    bpf_map_update_elem(&go_reads, &key, &call, BPF_ANY);
    return 0;
}

SEC("?uprobe")
int go_tls_read_end(struct pt_regs *context)
{
    __u64 task = bpf_get_current_pid_tgid();
    struct go_call_key key = { .goroutine = GO_GOROUTINE(context), .process = task >> 32 };
    struct go_call *open = bpf_map_lookup_elem(&go_reads, &key);
    if (!open)
        return 0;
    struct go_call call = *open;
    bpf_map_delete_elem(&go_reads, &key);
    __s64 length = GO_RESULT1(context);
    if (length <= 0)
        return 0;
    return go_moved(task, call.session, call.buffer, length & 0x7fffffff, false);
}

#endif
