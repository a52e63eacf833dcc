/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Transfers whose bytes are counted but not read, and what no hook sees. */
#ifndef SPANWISE_UNREAD_H
#define SPANWISE_UNREAD_H

#define ENOSYS 38
#define SOCK_DONE 1 /* the bit of sk_flags that says that a FIN has arrived */
#define TS_COMPAT 2 /* arch/x86/include/asm/thread_info.h */

/* In a separate section, which user space reads. */
struct spanwise_unseen unseen SEC(".data.unseen") = {};

/* Whether the task is inside the system call that its registers show. io_uring also uses sockets on
 * a task's return to user space after another call, and in its own threads, whose registers are a
 * copy. Then the registers have nothing to do with the socket. */
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

/* Whether a program holds the socket. The kernel has sockets of its own, and uses them inside
 * programs' calls on files. */
static __always_inline bool is_programs(struct sock *sk)
{
    struct socket *socket = sk->sk_socket;
    return socket && socket->file;
}

/* The buffer form of the current call, and in `unread` why there is none. */
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

/* Whether the system call that ends was made by a 32-bit program. Its number then has another
 * meaning, and its arguments are elsewhere. */
static __always_inline bool is_compat(void)
{
#if defined(__TARGET_ARCH_x86)
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    return BPF_CORE_READ(task, thread_info.status) & TS_COMPAT;
#else
    return false;
#endif
}

/* The sequence number after the last byte received from a closed socket. A FIN counts as a byte. */
static __always_inline __u32 received_up_to(const struct sock *sk)
{
    const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
    __u32 copied_seq = BPF_CORE_READ(tcp, copied_seq);
    bool fin = copied_seq == BPF_CORE_READ(tcp, rcv_nxt)
        && (BPF_CORE_READ(sk, __sk_common.skc_flags) >> SOCK_DONE & 1);
    return copied_seq - fin;
}

/* For a call that is not reported. */
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
