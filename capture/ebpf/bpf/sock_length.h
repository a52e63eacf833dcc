/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Hooks where the kernel reports how many bytes a socket has sent or received: the programs
 * sock_length, or other_length with one of tcp_length and tcp_small. A socket's state is kept in
 * socket storage. */
#ifndef SPANWISE_SOCK_LENGTH_H
#define SPANWISE_SOCK_LENGTH_H

#include "unix.h"

/* Like bpf_get_current_pid_tgid, without the cost of a helper call. */
static __always_inline __u64 numbers_of(const struct task_struct *task)
{
    return (__u64)task->tgid << 32 | (__u32)task->pid;
}

/* The socket as tcp_sock. Since Linux 6.2 the kernel trusts this cast. */
static __always_inline const struct tcp_sock *tcp_of(struct sock *sk)
{
    if (bpf_ksym_exists(bpf_rdonly_cast))
        return bpf_core_cast(sk, struct tcp_sock);
    return bpf_skc_to_tcp_sock(sk);
}

/* The offset of a task's registers from the start of its stack. It is the same for all tasks; 0
 * while unknown. */
__u64 registers_offset SEC(".data.registers") = 0;

static __noinline __u64 find_registers_offset(struct task_struct *task)
{
    const struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
    __u64 address = 0;
    /* The verifier does not let the pointer itself be used as a number. */
    bpf_probe_read_kernel(&address, sizeof address, &regs);
    registers_offset = address - (__u64)task->stack;
    return registers_offset;
}

/* Like bpf_task_pt_regs, but calls it only once, for the same reason. */
static __always_inline const struct pt_regs *registers_of(struct task_struct *task)
{
    if (!bpf_ksym_exists(bpf_rdonly_cast))
        return (struct pt_regs *)bpf_task_pt_regs(task);
    __u64 offset = registers_offset;
    if (!offset)
        offset = find_registers_offset(task);
    return bpf_core_cast((__u64)task->stack + offset, struct pt_regs);
}

static __always_inline int handle_datagram(struct sock *sk, int result, bool sent,
                                           const bool with_task)
{
    if (!is_datagram(sk, true))
        return 0;
    struct socket_state *state = bpf_sk_storage_get(&datagram_sockets, sk, 0, 0);
    const bool asked = state && state->role == SPANWISE_CLIENT;
    const bool connected = sk->__sk_common.skc_dport != 0;
    if (!sent && !connected && !asked && !is_datagram_port(sk->__sk_common.skc_num))
        return 0;
    struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
    __u32 unread;
    int shape = shape_now(sk, regs, &unread);
    struct datagram_call call = {
        .sk = (__u64)sk,
        .array = REGS_ARG2(regs),
        .count = REGS_ARG3(regs),
        .name = shape == BUFFER_PLAIN && REGS_NR(regs) == NR_SENDTO ? REGS_ARG5(regs) : 0,
        .length = result,
        .shape = shape,
        .sent = sent,
        .named = sent,
        .watched = !sent && asked,
    };
    if (call.shape == BUFFER_MESSAGES) {
        if (!state)
            state = bpf_sk_storage_get(&datagram_sockets, sk, 0,
                                       BPF_LOCAL_STORAGE_GET_F_CREATE);
        if (!state)
            return 0;
        if (state->direction != sent) {
            state->direction = sent;
            state->message_index = 0;
        }
        struct call array = { .array = call.array, .count = call.count };
        call.array = message_header_of(state, &array);
        call.shape = BUFFER_MESSAGE;
    }
    if (!report_datagram(&call, with_task) || !sent || connected || asked)
        return 0;
    /* The peer of a receive is not known here. It is enough that the socket asks. */
    state = bpf_sk_storage_get(&datagram_sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (state)
        state->role = SPANWISE_CLIENT;
    return 0;
}

static __noinline int on_datagram(struct sock *sk, int result, bool sent)
{
    return handle_datagram(sk, result, sent, true);
}

/* For the programs that handle TCP too, which leave little of the stack (before Linux 6.4). */
static __noinline int on_datagram_without_task(struct sock *sk, int result, bool sent)
{
    return handle_datagram(sk, result, sent, false);
}

/* For sockets other than TCP. */
static __always_inline int on_other_length(struct sock *sk, int result, const bool sent)
{
    if (sk->__sk_common.skc_family == AF_UNIX)
        return result < 0 ? 0 : on_unix_length(sk, result, sent, false);
    return result <= 0 || is_tcp(sk, true) ? 0 : on_datagram(sk, result, sent);
}

/* Which sockets a program receives, and which it handles. Before Linux 6.13, all functions of a
 * program share one stack of 512 bytes. So non-TCP sockets have a separate program there. */
enum sockets {
    SOCKETS_ALL,
    SOCKETS_TCP, /* of all sockets */
    SOCKETS_INET, /* there are no others */
};

/* `near` as in emit.h. */
static __always_inline int on_length(struct sock *sk, int result, int flags, const bool sent,
                                     const enum sockets sockets_told, const bool near)
{
    if (sockets_told != SOCKETS_INET && sk->__sk_common.skc_family == AF_UNIX)
        return sockets_told == SOCKETS_TCP || result < 0 ? 0 : on_unix(sk, result, sent);
    if (result <= 0)
        return 0;
    struct socket_state *state = bpf_sk_storage_get(&sockets, sk, 0, 0);
    if (!state) {
        if (!is_tcp(sk, true)) {
            if (sockets_told == SOCKETS_INET)
                return on_datagram_without_task(sk, result, sent);
            return sockets_told == SOCKETS_TCP ? 0 : on_datagram(sk, result, sent);
        }
        state = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
        if (!state)
            return 0;
    }
    struct task_struct *current = bpf_get_current_task_btf();
    __u64 task = numbers_of(current);
    if (!is_reported(sk, state, task))
        return 0;
    const struct tcp_sock *tcp = tcp_of(sk);
    if (!tcp)
        return 0;
    const struct pt_regs *regs = registers_of(current);
    __u32 unread;
    struct call call = {
        .array = REGS_ARG2(regs),
        .count = REGS_ARG3(regs),
        .shape = shape_now(sk, regs, &unread),
    };
    if (flags & MSG_TRUNC) {
        call.shape = BUFFER_NONE;
        unread = SPANWISE_UNREAD_OTHER;
    }
    struct transfer transfer = {
        .task = task,
        .extra = unread,
        .connection = state->connection,
        .length = result,
        .kind = SPANWISE_DATA,
        .sent = sent,
        .srtt_eighth_micros = tcp->srtt_us,
        .retransmits = tcp->total_retrans,
        .sleeps = current->nvcsw,
    };
    if (sent) {
        transfer.seq = tcp->write_seq - result;
        /* If everything was sent, TCP has recorded the time. It is earlier than the time at which
         * the receiver could read, while the current time may be later. */
        transfer.time_nano = tcp->snd_nxt == tcp->write_seq ? tcp->tcp_clock_cache : 0;
        if (!transfer.time_nano)
            transfer.time_nano = bpf_ktime_get_ns();
    } else {
        transfer.seq = tcp->copied_seq - result -
                       took_fin(sk->__sk_common.skc_state, tcp->copied_seq, tcp->rcv_nxt);
        transfer.time_nano = bpf_ktime_get_ns();
    }
    if (!tls_attached || !tls_covers(state, &transfer, call.array, call.shape)) {
        find_task(state, task, sent ? (__u64)sk : 0, &transfer.ids);
        if (!sent && transfer.ids.loop)
            python_has_read(task, state->connection, REGS_SP(regs));
        emit(state, &transfer, &call, near);
    }
    after_transfer(sk, state, true);
    return 0;
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(sock_length_send, struct sock *sk, int result, int flags)
{
    return on_length(sk, result, 0, true, SOCKETS_ALL, true);
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(sock_length_receive, struct sock *sk, int result, int flags)
{
    return flags & MSG_PEEK ? 0 : on_length(sk, result, flags, false, SOCKETS_ALL, true);
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(tcp_length_send, struct sock *sk, int result, int flags)
{
    return on_length(sk, result, 0, true, SOCKETS_TCP, true);
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(tcp_length_receive, struct sock *sk, int result, int flags)
{
    return flags & MSG_PEEK ? 0 : on_length(sk, result, flags, false, SOCKETS_TCP, true);
}

/* Uses a stack that fits on kernels that count in steps of 32 bytes (before Linux 6.8). */
SEC("?tp_btf/sock_send_length")
int BPF_PROG(tcp_small_send, struct sock *sk, int result, int flags)
{
    return on_length(sk, result, 0, true, SOCKETS_TCP, false);
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(tcp_small_receive, struct sock *sk, int result, int flags)
{
    return flags & MSG_PEEK ? 0 : on_length(sk, result, flags, false, SOCKETS_TCP, false);
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(other_length_send, struct sock *sk, int result, int flags)
{
    return on_other_length(sk, result, true);
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(other_length_receive, struct sock *sk, int result, int flags)
{
    return flags & MSG_PEEK ? 0 : on_other_length(sk, result, false);
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(state_storage, struct sock *sk, int old, int new)
{
    if (!is_tcp(sk, true))
        return 0;
    struct socket_state *state = bpf_sk_storage_get(
        &sockets, sk, 0, creates_state(old, new) ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
    if (state)
        on_state(sk, state, old, new, true);
    return 0;
}

#endif
