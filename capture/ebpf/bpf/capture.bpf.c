// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Reports what TCP sockets carry, and some UDP ports. Three sets of hooks do the same; user space
 * attaches the first that the kernel takes:
 *
 *   sock_length   tp_btf/sock_{send,recv}_length: fires for socket calls only
 *   sys_exit_btf  tp_btf/sys_exit, filtered by system call number
 *   sys_exit_raw  raw_tp/sys_exit, for kernels whose BTF lacks the above
 *
 * What a call rarely needs are functions of their own (__noinline), so that what every
 * call runs is short and lies together: little of it is in a processor's caches when the
 * program has done other things in between, and fetching it is most of what a hook costs.
 *
 * Nothing here changes what a program sends or receives. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include "spanwise.h"
#include "syscalls.h"
#include "socket.h"
#include "unread.h"

/* The kernel allows some of the helpers used here only to programs that say so. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MSG_PEEK 2
#define MSG_TRUNC 0x20
#define S_IFMT 0170000
#define S_IFSOCK 0140000

#define MAX_PAYLOAD 1024
/* Within one direction, past this many bytes only TAIL_PAYLOAD are captured of
 * each call: a body is passing by. */
#define TURN_BYTES 16384
#define TAIL_PAYLOAD 64
#define MAX_VECTORS 64
#define MAX_MESSAGES 16

const volatile __u32 max_payload = MAX_PAYLOAD;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 8 << 20);
} events SEC(".maps");

/* Read by user space through the .bss map. */
__u64 last_connection = 0;
__u64 lost_data = 0;
__u64 lost_lifecycle = 0;

struct call {
    __u64 array; /* argument 2 */
    __u64 count; /* argument 3 */
    int shape;
};

static __always_inline void fill(struct spanwise_event *event, __u8 kind,
                                 const struct socket_state *state, __u64 task, __u64 time_nano)
{
    event->kind = kind;
    event->direction = 0;
    event->captured = 0;
    event->process = task >> 32;
    event->thread = (__u32)task;
    event->seq = 0;
    event->time_nano = time_nano;
    event->connection = state ? state->connection : 0;
    event->length = 0;
    event->srtt_eighth_micros = 0;
    event->retransmits = 0;
    event->extra = 0;
    event->task = 0;
    event->parent_task = 0;
}

static __always_inline void map_ipv4(__u8 *address, __be32 ipv4)
{
    __u32 *words = (__u32 *)address;
    words[0] = 0;
    words[1] = 0;
    words[2] = bpf_htonl(0xffff);
    words[3] = ipv4;
}

#include "filter.h"

/* Tells user space of a connection before its first bytes. Once per socket. */
static __noinline bool announce(const struct sock *sk, struct socket_state *state, __u64 task)
{
    struct spanwise_opened *opened = bpf_ringbuf_reserve(&events, sizeof *opened, 0);
    if (!opened) {
        __sync_fetch_and_add(&lost_lifecycle, 1);
        return false; /* tried again with the next bytes */
    }
    state->connection = __sync_fetch_and_add(&last_connection, 1) + 1;
    state->begun = 0;
    state->batches = 0;
    __u64 address = (__u64)sk;
    bpf_map_update_elem(&connections_by_socket, &address, &state->connection, BPF_ANY);
    __u64 now = bpf_ktime_get_ns();
    fill(&opened->event, SPANWISE_OPENED, state, task,
         state->established_nano ? state->established_nano : now);
    opened->role = state->role;
    opened->first_known = state->established_nano != 0;
    opened->event.seq = state->first_sent_seq;
    opened->event.extra = state->first_received_seq;
    opened->event.sleeps = 0;
    if (state->role == SPANWISE_CLIENT && state->opener_process == task >> 32) {
        opened->event.thread = state->opener_thread;
        opened->event.sleeps = state->opener_sleeps;
    }
    opened->connect_nano = 0;
    if (state->role == SPANWISE_CLIENT && state->established_nano > state->connect_start_nano)
        opened->connect_nano = state->established_nano - state->connect_start_nano;
    opened->local_port = BPF_CORE_READ(sk, __sk_common.skc_num);
    if (!opened->local_port) /* a closed socket has given it back, and remembers it here */
        opened->local_port = bpf_ntohs(BPF_CORE_READ((struct inet_sock *)sk, inet_sport));
    opened->remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
    struct net *net = BPF_CORE_READ(sk, __sk_common.skc_net.net);
    opened->network_namespace = BPF_CORE_READ(net, ns.inum);
    if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET) {
        map_ipv4(opened->local_address, BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr));
        map_ipv4(opened->remote_address, BPF_CORE_READ(sk, __sk_common.skc_daddr));
    } else {
        BPF_CORE_READ_INTO(&opened->local_address, sk, __sk_common.skc_v6_rcv_saddr);
        BPF_CORE_READ_INTO(&opened->remote_address, sk, __sk_common.skc_v6_daddr);
    }
    bpf_get_current_comm(opened->command, sizeof opened->command);
    bpf_ringbuf_submit(opened, BPF_RB_NO_WAKEUP);
    return true;
}

#include "task.h"
#include "emit.h"

static __always_inline struct sock *socket_of(__u32 fd)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    if (fd >= BPF_CORE_READ(table, max_fds))
        return 0;
    struct file **files = BPF_CORE_READ(table, fd);
    struct file *file = 0;
    bpf_probe_read_kernel(&file, sizeof file, files + fd);
    if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
        return 0;
    struct socket *socket = BPF_CORE_READ(file, private_data);
    return BPF_CORE_READ(socket, sk);
}

#include "task_go_clients.h"
#include "tls.h"
#include "tls_go.h"
#include "task_made.h"
#include "thread_made.h"
#include "datagram.h"
#include "unix.h"

static __always_inline void on_state(const struct sock *sk, struct socket_state *state, int old,
                                     int new, const bool trusted)
{
    __u64 now = bpf_ktime_get_ns();
    if (new == TCP_CLOSE)
        forget_owner(sk);
    if (new == TCP_SYN_SENT) {
        __u64 task = bpf_get_current_pid_tgid();
        state->role = SPANWISE_CLIENT;
        state->connect_start_nano = now;
        state->ended = 0; /* as its former life has */
        state->closed_unseen = 0;
        state->filter_generation = 0;
        state->opener_process = task >> 32;
        state->opener_thread = (__u32)task;
        state->opener_sleeps = thread_sleeps();
    } else if (new == TCP_ESTABLISHED) {
        state->established_nano = now;
        state->first_sent_seq = BPF_CORE_READ((struct tcp_sock *)sk, write_seq);
        state->first_received_seq = BPF_CORE_READ((struct tcp_sock *)sk, copied_seq);
        if (old == TCP_SYN_RECV)
            state->role = SPANWISE_SERVER;
    } else if (new == TCP_CLOSE && state->connection) {
        struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
        if (!event) {
            __sync_fetch_and_add(&lost_lifecycle, 1);
            return;
        }
        fill(event, SPANWISE_CLOSED, state, bpf_get_current_pid_tgid(), now);
        event->extra = READ(trusted, sk, sk_err) == ECONNRESET;
        event->seq = received_up_to(sk);
        struct tcp_sock *tcp = (struct tcp_sock *)sk;
        event->retransmits = BPF_CORE_READ(tcp, total_retrans);
        bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
        /* What it received may still be read, and would seem another connection. */
        state->connection = 0;
        state->ended = 1;
    } else if (new == TCP_CLOSE && !state->ignored && !state->ended) {
        closed_unseen(sk, state);
    }
}

/* Bytes that came before a reset can be read after it. A connection that is heard
 * of only then is closed at once, for nothing will tell of its end again. */
static __noinline void after_end(const struct sock *sk, struct socket_state *state)
{
    if (state->closed_unseen)
        __sync_fetch_and_add(&unseen.connections, -1);
    state->closed_unseen = 0;
    on_state(sk, state, TCP_CLOSE, TCP_CLOSE, false);
    state->ended = 1;
}

static __always_inline void after_transfer(const struct sock *sk, struct socket_state *state,
                                           const bool trusted)
{
    if (READ(trusted, sk, __sk_common.skc_state) == TCP_CLOSE)
        after_end(sk, state);
}

/* ---- sock_length ------------------------------------------------------- */

/* What bpf_get_current_pid_tgid says, without asking for it: each helper costs a call. */
static __always_inline __u64 numbers_of(const struct task_struct *task)
{
    return (__u64)task->tgid << 32 | (__u32)task->pid;
}

/* A socket of TCP as such; kernels since 6.2 take the program's word for what it is. */
static __always_inline const struct tcp_sock *tcp_of(struct sock *sk)
{
    if (bpf_ksym_exists(bpf_rdonly_cast))
        return bpf_core_cast(sk, struct tcp_sock);
    return bpf_skc_to_tcp_sock(sk);
}

/* How far behind the beginning of its stack a task's registers are, the same for all tasks; 0
 * while it is not known. */
__u64 registers_offset SEC(".data.registers") = 0;

static __noinline __u64 find_registers_offset(struct task_struct *task)
{
    const struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
    __u64 address = 0;
    /* To the verifier the pointer itself is no number. */
    bpf_probe_read_kernel(&address, sizeof address, &regs);
    registers_offset = address - (__u64)task->stack;
    return registers_offset;
}

/* What bpf_task_pt_regs says, asking for it once only, as above. */
static __always_inline const struct pt_regs *registers_of(struct task_struct *task)
{
    if (!bpf_ksym_exists(bpf_rdonly_cast))
        return (struct pt_regs *)bpf_task_pt_regs(task);
    __u64 offset = registers_offset;
    if (!offset)
        offset = find_registers_offset(task);
    return bpf_core_cast((__u64)task->stack + offset, struct pt_regs);
}

/* A FIN takes a sequence number of its own, and the read that takes the last
 * byte before a FIN that has come moves copied_seq past both. It has where
 * nothing is left up to rcv_nxt, which counts the FIN from its arrival. */
static __always_inline __u32 took_fin(unsigned char state, __u32 copied_seq, __u32 rcv_nxt)
{
    return copied_seq == rcv_nxt &&
           (state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING);
}

static __noinline int on_datagram(struct sock *sk, int result, bool sent)
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
    if (!emit_datagram(&call) || !sent || connected || asked)
        return 0;
    /* From whom it receives is not known here: that it asks must be enough. */
    state = bpf_sk_storage_get(&datagram_sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (state)
        state->role = SPANWISE_CLIENT;
    return 0;
}

/* Of sockets that are not TCP's. */
static __always_inline int on_other_length(struct sock *sk, int result, int flags, const bool sent)
{
    if (sk->__sk_common.skc_family == AF_UNIX)
        return result < 0 ? 0 : on_unix(sk, result, flags, sent);
    return result <= 0 || is_tcp(sk, true) ? 0 : on_datagram(sk, result, sent);
}

/* Of all sockets, or of TCP's alone: before Linux 6.13 all programs of a call share one stack of
 * 512 bytes, and so the others have a program of their own there. */
static __always_inline int on_length(struct sock *sk, int result, int flags, const bool sent,
                                     const bool all)
{
    if (sk->__sk_common.skc_family == AF_UNIX)
        return !all || result < 0 ? 0 : on_unix(sk, result, flags, sent);
    if (result <= 0)
        return 0;
    struct socket_state *state = bpf_sk_storage_get(&sockets, sk, 0, 0);
    if (!state) {
        if (!is_tcp(sk, true))
            return all ? on_datagram(sk, result, sent) : 0;
        state = bpf_sk_storage_get(&sockets, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
        if (!state)
            return 0;
    }
    struct task_struct *current = bpf_get_current_task_btf();
    __u64 task = numbers_of(current);
    if (!is_looked_at(sk, state, task)) {
        after_close(state);
        tls_left_out(state, task);
        return 0;
    }
    if (!state->connection && !announce(sk, state, task))
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
        /* Where all of it has left, TCP noted when: that is before the receiver
         * could read it, which the time now is not. */
        transfer.time_nano = tcp->snd_nxt == tcp->write_seq ? tcp->tcp_clock_cache : 0;
        if (!transfer.time_nano)
            transfer.time_nano = bpf_ktime_get_ns();
    } else {
        transfer.seq = tcp->copied_seq - result -
                       took_fin(sk->__sk_common.skc_state, tcp->copied_seq, tcp->rcv_nxt);
        transfer.time_nano = bpf_ktime_get_ns();
    }
    if (!tls_attached || !tls_covers(state, &transfer, &call)) {
        find_task(state, task, sent ? (__u64)sk : 0, &transfer.ids);
        if (!sent && transfer.ids.loop)
            python_has_read(task, state->connection, REGS_SP(regs));
        emit(state, &transfer, &call, true);
    }
    after_transfer(sk, state, true);
    return 0;
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(sock_length_send, struct sock *sk, int result, int flags)
{
    return on_length(sk, result, 0, true, true);
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(sock_length_receive, struct sock *sk, int result, int flags)
{
    return flags & MSG_PEEK ? 0 : on_length(sk, result, flags, false, true);
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(tcp_length_send, struct sock *sk, int result, int flags)
{
    return on_length(sk, result, 0, true, false);
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(tcp_length_receive, struct sock *sk, int result, int flags)
{
    return flags & MSG_PEEK ? 0 : on_length(sk, result, flags, false, false);
}

SEC("?tp_btf/sock_send_length")
int BPF_PROG(other_length_send, struct sock *sk, int result, int flags)
{
    return on_other_length(sk, result, 0, true);
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(other_length_receive, struct sock *sk, int result, int flags)
{
    return flags & MSG_PEEK ? 0 : on_other_length(sk, result, flags, false);
}

/* ---- sys_exit, both forms ---------------------------------------------- */

/* A function of its own to the verifier, which would else follow a copy of it
 * for every message. */
__noinline int emit_one(struct socket_state *state, struct transfer *transfer, struct call *call)
{
    if (!state || !transfer || !call)
        return 0;
    emit(state, transfer, call, false);
    return 0;
}

struct exit_call {
    struct call call;
    __u64 fd;
    __u64 name; /* argument 5 */
    long nr;
};

static __always_inline int on_exit_datagram(struct sock *sk, const struct exit_call *exit,
                                            long result, const bool sent)
{
    if (!is_datagram(sk, false))
        return 0;
    struct datagram_call call = {
        .sk = (__u64)sk,
        .array = exit->call.array,
        .count = exit->call.count,
        .name = exit->nr == NR_SENDTO || exit->nr == NR_RECVFROM ? exit->name : 0,
        .length = result,
        .shape = exit->call.shape,
        .sent = sent,
        .named = true,
    };
    if (call.shape != BUFFER_MESSAGES)
        return emit_datagram(&call);
    call.shape = BUFFER_MESSAGE;
    for (int i = 0; i < MAX_MESSAGES; i++) {
        if (i >= result)
            break;
        call.array = exit->call.array + i * sizeof(struct message_entry);
        __u64 length = call.array + __builtin_offsetof(struct message_entry, length);
        if (!bpf_probe_read_user(&call.length, 4, (void *)length))
            emit_datagram(&call);
    }
    return 0;
}

/* The bytes of a message of a sendmmsg or recvmmsg, which the kernel has by now
 * written beside it. */
static __always_inline __u32 message_length(__u64 entry)
{
    __u32 length = 0;
    bpf_probe_read_user(&length, sizeof length,
                        (void *)(entry + __builtin_offsetof(struct message_entry, length)));
    return length;
}

/* Lengths are read twice and not kept: a stack is small. */
static __always_inline void on_messages(struct socket_state *state, struct transfer *transfer,
                                        __u64 array, __u32 end_seq, long messages)
{
    transfer->seq = end_seq;
    for (int i = 0; i < MAX_MESSAGES && i < messages; i++)
        transfer->seq -= message_length(array + i * sizeof(struct message_entry));
    for (int i = 0; i < MAX_MESSAGES && i < messages; i++) {
        struct call one = { .shape = BUFFER_MESSAGE,
                            .array = array + i * sizeof(struct message_entry) };
        const __u32 length = message_length(one.array);
        transfer->length = length;
        if (length)
            emit_one(state, transfer, &one);
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
    if (!is_looked_at(sk, state, task)) {
        after_close(state);
        tls_left_out(state, task);
        return 0;
    }
    if (!state->connection && !announce(sk, state, task))
        return 0;
    struct tcp_sock *tcp = (struct tcp_sock *)sk;
    __u32 end_seq = sent ? BPF_CORE_READ(tcp, write_seq) : BPF_CORE_READ(tcp, copied_seq);
    if (!sent)
        end_seq -= took_fin(BPF_CORE_READ(sk, __sk_common.skc_state), end_seq,
                            BPF_CORE_READ(tcp, rcv_nxt));
    __u64 left_nano = 0;
    if (sent && BPF_CORE_READ(tcp, snd_nxt) == end_seq)
        left_nano = BPF_CORE_READ(tcp, tcp_clock_cache);
    struct transfer transfer = {
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
    if (tls_attached && tls_covers(state, &transfer, &exit->call))
        return 0;
    find_task(state, task, sent ? (__u64)sk : 0, &transfer.ids);
    if (exit->call.shape == BUFFER_MESSAGES)
        on_messages(state, &transfer, exit->call.array, end_seq, result);
    else
        emit(state, &transfer, &exit->call, false);
    after_transfer(sk, state, false);
    return 0;
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
        .name = REGS_ARG5(regs),
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
        .name = argument5,
        .call = { .array = argument2, .count = argument3, .shape = shape_of(nr) },
    };
    return on_exit(&exit, result);
}

/* ---- connections ------------------------------------------------------- */

static __always_inline bool creates_state(int old, int new)
{
    return new == TCP_SYN_SENT || (new == TCP_ESTABLISHED && old == TCP_SYN_RECV);
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

static __always_inline int on_state_table(const struct sock *sk, int old, int new)
{
    if (!is_tcp(sk, false))
        return 0;
    __u64 key = (__u64)sk;
    if (creates_state(old, new)) /* a former socket at this address is gone */
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

/* ---- processes --------------------------------------------------------- */

static __always_inline int on_process(__u8 kind)
{
    __u32 process = bpf_get_current_pid_tgid() >> 32;
    bpf_map_delete_elem(&thread_makers, &process);
    struct spanwise_event *event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
    if (!event) {
        __sync_fetch_and_add(&lost_lifecycle, 1);
        return 0;
    }
    fill(event, kind, 0, bpf_get_current_pid_tgid(), bpf_ktime_get_ns());
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}

static __always_inline bool last_thread(void)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    return BPF_CORE_READ(task, signal, live.counter) == 0;
}

SEC("?raw_tp/sched_process_exec")
int process_exec(void *context)
{
    return on_process(SPANWISE_EXEC);
}

SEC("?raw_tp/sched_process_exit")
int process_exit(void *context)
{
    if (last_thread())
        return on_process(SPANWISE_EXIT);
    thread_ends();
    return 0;
}
