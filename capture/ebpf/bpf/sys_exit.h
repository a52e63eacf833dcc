/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Hooks at the end of each system call, in two forms. A socket's state is kept in a table by its
 * address. */
#ifndef SPANWISE_SYS_EXIT_H
#define SPANWISE_SYS_EXIT_H

/* A global function. Otherwise the verifier would check a copy of it for every message. */
__noinline int emit_one(__u64 socket, transfer_handle handle, __u64 header)
{
    struct socket_state *state = table_state((const struct sock *)socket, false);
    struct transfer *transfer = passed_transfer(handle);
    const struct call call = { .shape = BUFFER_MESSAGE, .array = header };
    if (state && transfer)
        emit(state, transfer, &call, false);
    return 0;
}

struct exit_call {
    struct call call;
    __u64 fd;
    __u64 name; /* where a datagram's peer is named; 0: in the message, if anywhere */
    long nr;
};

/* The length of a message of a sendmmsg or recvmmsg, which the kernel has already written beside
 * it. */
static __always_inline __u32 message_length(__u64 entry)
{
    __u32 length = 0;
    bpf_probe_read_user(&length, sizeof length,
                        (void *)(entry + __builtin_offsetof(struct message_entry, length)));
    return length;
}

static __always_inline int on_exit_datagram(struct sock *sk, const struct exit_call *exit,
                                            long result, const bool sent)
{
    if (!is_datagram(sk, false))
        return 0;
    struct datagram_call described = {
        .sk = (__u64)sk,
        .array = exit->call.array,
        .count = exit->call.count,
        .name = exit->name,
        .length = result,
        .shape = exit->call.shape,
        .sent = sent,
        .named = true,
    };
    struct datagram_call *one = pass_datagram_call(&described);
    if (!one)
        return 0;
    if (one->shape != BUFFER_MESSAGES)
        return report_datagram(one, true);
    one->shape = BUFFER_MESSAGE;
    for (int i = 0; i < MAX_MESSAGES; i++) {
        if (i >= result)
            break;
        one->array = exit->call.array + i * sizeof(struct message_entry);
        one->length = message_length(one->array);
        if (one->length)
            report_datagram(one, true);
    }
    return 0;
}

/* Lengths are read twice instead of being stored, because the stack is small. */
static __always_inline void on_messages(const struct sock *sk, struct transfer *transfer,
                                        __u64 array, __u32 end_seq, long messages)
{
    transfer->seq = end_seq;
    for (int i = 0; i < MAX_MESSAGES && i < messages; i++)
        transfer->seq -= message_length(array + i * sizeof(struct message_entry));
    for (int i = 0; i < MAX_MESSAGES && i < messages; i++) {
        const __u64 entry = array + i * sizeof(struct message_entry);
        const __u32 length = message_length(entry);
        transfer->length = length;
        if (length)
            emit_one((__u64)sk, HANDLE(transfer), entry);
        transfer->seq += length;
    }
}

static __always_inline int on_exit(const struct exit_call *exit, long result)
{
    bool sent = sends(exit->nr);
    struct sock *sk = socket_of(exit->fd);
    if (!sk && exit->nr == NR_SPLICE) {
        sent = true;
        sk = socket_of(exit->call.count); /* argument 3 */
    }
    if (!sk)
        return 0;
    struct socket_state *state = table_state(sk, false);
    if (!state) {
        if (!is_tcp(sk, false))
            return on_exit_datagram(sk, exit, result, sent);
        state = table_state(sk, true);
        if (!state)
            return 0;
    }
    __u64 task = bpf_get_current_pid_tgid();
    if (!is_reported(sk, state, task))
        return 0;
    struct tcp_sock *tcp = (struct tcp_sock *)sk;
    __u32 end_seq = sent ? BPF_CORE_READ(tcp, write_seq) : BPF_CORE_READ(tcp, copied_seq);
    if (!sent)
        end_seq -= took_fin(BPF_CORE_READ(sk, __sk_common.skc_state), end_seq,
                            BPF_CORE_READ(tcp, rcv_nxt));
    __u64 left_nano = 0;
    if (sent && BPF_CORE_READ(tcp, snd_nxt) == end_seq)
        left_nano = BPF_CORE_READ(tcp, tcp_clock_cache);
    struct transfer described = {
        .task = task,
        .time_nano = left_nano ? left_nano : bpf_ktime_get_ns(),
        .seq = end_seq - (__u32)result,
        .connection = state->connection,
        .length = result,
        .kind = SPANWISE_DATA,
        .sent = sent,
        .extra = exit->call.shape == BUFFER_NONE ? SPANWISE_UNREAD_FILE : SPANWISE_READ,
        .srtt_eighth_micros = BPF_CORE_READ(tcp, srtt_us),
        .retransmits = BPF_CORE_READ(tcp, total_retrans),
        .sleeps = thread_sleeps(),
    };
    struct transfer *transfer = pass_transfer(&described);
    if (!transfer || (tls_attached && tls_covers(state, transfer, exit->call.array, exit->call.shape)))
        return 0;
    find_task(state, task, sent ? (__u64)sk : 0, &transfer->ids);
    if (exit->call.shape == BUFFER_MESSAGES)
        on_messages(sk, transfer, exit->call.array, end_seq, result);
    else
        emit(state, transfer, &exit->call, false);
    after_transfer(sk, state, false);
    return 0;
}

static __always_inline bool has_name(long nr)
{
    return nr == NR_SENDTO || nr == NR_RECVFROM;
}

/* The flags of a receive that took nothing from the stream. */
static __always_inline bool peeked(long nr, __u64 argument3, __u64 argument4)
{
    if (nr == NR_RECVFROM || nr == NR_RECVMMSG)
        return argument4 & MSG_PEEK;
    return nr == NR_RECVMSG && (argument3 & MSG_PEEK);
}

static __always_inline bool wanted_call(long nr)
{
    if (nr == NR_IO_URING_ENTER)
        __sync_fetch_and_add(&unseen.io_uring_calls, 1);
    return shape_of(nr) != BUFFER_NONE || nr == NR_SENDFILE || nr == NR_SPLICE;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(sys_exit_btf, struct pt_regs *regs, long result)
{
    if (result <= 0)
        return 0;
    long nr = REGS_NR(regs);
    if (!wanted_call(nr) || is_compat() || peeked(nr, REGS_ARG3(regs), REGS_ARG4(regs)))
        return 0;
    struct exit_call exit = {
        .nr = nr,
        .fd = REGS_ARG1(regs),
        .name = has_name(nr) ? REGS_ARG5(regs) : 0,
        .call = { .array = REGS_ARG2(regs), .count = REGS_ARG3(regs), .shape = shape_of(nr) },
    };
    return on_exit(&exit, result);
}

SEC("?raw_tp/sys_exit")
int sys_exit_raw(struct bpf_raw_tracepoint_args *context)
{
    long result = context->args[1];
    if (result <= 0)
        return 0;
    struct pt_regs *regs = (struct pt_regs *)context->args[0];
#if defined(__TARGET_ARCH_x86)
    long nr = BPF_CORE_READ(regs, orig_ax);
    if (!wanted_call(nr))
        return 0;
    __u64 fd = BPF_CORE_READ(regs, di), argument2 = BPF_CORE_READ(regs, si);
    __u64 argument3 = BPF_CORE_READ(regs, dx), argument4 = BPF_CORE_READ(regs, r10);
    __u64 argument5 = BPF_CORE_READ(regs, r8);
#else
    long nr = BPF_CORE_READ(regs, syscallno);
    if (!wanted_call(nr))
        return 0;
    __u64 fd = BPF_CORE_READ(regs, orig_x0), argument2 = BPF_CORE_READ(regs, user_regs.regs[1]);
    __u64 argument3 = BPF_CORE_READ(regs, user_regs.regs[2]);
    __u64 argument4 = BPF_CORE_READ(regs, user_regs.regs[3]);
    __u64 argument5 = BPF_CORE_READ(regs, user_regs.regs[4]);
#endif
    if (is_compat() || peeked(nr, argument3, argument4))
        return 0;
    struct exit_call exit = {
        .nr = nr,
        .fd = fd,
        .name = has_name(nr) ? argument5 : 0,
        .call = { .array = argument2, .count = argument3, .shape = shape_of(nr) },
    };
    return on_exit(&exit, result);
}

static __always_inline int on_state_table(const struct sock *sk, int old, int new)
{
    if (!is_tcp(sk, false))
        return 0;
    __u64 key = (__u64)sk;
    if (creates_state(old, new)) /* a previous socket at this address is gone */
        bpf_map_delete_elem(&sockets_by_address, &key);
    struct socket_state *state = table_state(sk, creates_state(old, new));
    if (!state)
        return 0;
    on_state(sk, state, old, new, false);
    if (new == TCP_CLOSE)
        bpf_map_delete_elem(&sockets_by_address, &key);
    return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(state_table, struct sock *sk, int old, int new)
{
    return on_state_table(sk, old, new);
}

SEC("?raw_tp/inet_sock_set_state")
int state_raw(struct bpf_raw_tracepoint_args *context)
{
    return on_state_table((struct sock *)context->args[0], context->args[1], context->args[2]);
}

#endif
