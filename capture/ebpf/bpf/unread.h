/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Transfers whose bytes are counted and not read, and what no hook sees. */
#ifndef SPANWISE_UNREAD_H
#define SPANWISE_UNREAD_H

#define ENOSYS 38
#define SOCK_DONE 1 /* the bit of sk_flags that says that a FIN has come */
#define TS_COMPAT 2 /* arch/x86/include/asm/thread_info.h */

/* In a section of its own, which user space reads. */
struct spanwise_unseen unseen SEC(".data.unseen") = {};

/* Whether the task is inside the system call that its registers show. io_uring
 * uses sockets also on a task's way back to user space, when another call has
 * ended, and in threads of its own, whose registers are a copy: what these point
 * at has nothing to do with the socket then. */
static __always_inline bool inside_call(const struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
    /* Set on entry, and overwritten by the result. */
    return (long)regs->ax == -ENOSYS;
#else
    /* The first argument, overwritten by the result. */
    return regs->user_regs.regs[0] == regs->orig_x0;
#endif
}

/* Whether a program holds the socket: the kernel has sockets of its own, and uses
 * them inside programs' calls on files. */
static __always_inline bool is_programs(struct sock *sk)
{
    struct socket *socket = sk->sk_socket;
    return socket && socket->file;
}

/* How the call under way names its buffer, and in `unread` why it does not. */
static __always_inline int shape_now(struct sock *sk, const struct pt_regs *regs, __u32 *unread)
{
    long nr = REGS_NR(regs);
    int shape = BUFFER_NONE;
    if (!is_programs(sk))
        *unread = SPANWISE_UNREAD_OTHER;
    else if (nr == NR_IO_URING_ENTER || !inside_call(regs))
        *unread = SPANWISE_UNREAD_IO_URING;
    else if (nr == NR_SENDFILE || nr == NR_SPLICE)
        *unread = SPANWISE_UNREAD_FILE;
    else {
        shape = shape_of(nr);
        *unread = shape == BUFFER_NONE ? SPANWISE_UNREAD_OTHER : SPANWISE_READ;
    }
    return shape;
}

/* Whether the system call that ends is a 32-bit program's: its number means
 * another call, and its arguments stand elsewhere. */
static __always_inline bool is_compat(void)
{
#if defined(__TARGET_ARCH_x86)
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    return BPF_CORE_READ(task, thread_info.status) & TS_COMPAT;
#else
    return false;
#endif
}

/* The sequence number after the last byte that was received from a socket that is
 * closed: a FIN counts as one. */
static __always_inline __u32 received_up_to(const struct sock *sk)
{
    const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
    __u32 copied_seq = BPF_CORE_READ(tcp, copied_seq);
    bool fin = copied_seq == BPF_CORE_READ(tcp, rcv_nxt)
        && (BPF_CORE_READ(sk, __sk_common.skc_flags) >> SOCK_DONE & 1);
    return copied_seq - fin;
}

/* Of a call that is not looked at. */
static __always_inline void after_close(const struct socket_state *state)
{
    if (state->ended)
        __sync_fetch_and_add(&unseen.reads_after_close, 1);
}

static __always_inline void closed_unseen(const struct sock *sk, struct socket_state *state)
{
    const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
    if (!BPF_CORE_READ(tcp, bytes_received) && !BPF_CORE_READ(tcp, bytes_acked))
        return;
    state->closed_unseen = 1;
    __sync_fetch_and_add(&unseen.connections, 1);
}

#endif
