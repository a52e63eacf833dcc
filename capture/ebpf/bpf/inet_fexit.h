/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Hooks at the return of the kernel's functions that send and receive for sockets, for kernels
 * without the tracepoints of sock_length.h (before Linux 6.4). Those tracepoints are right after
 * these functions. The stack is small here. */
#ifndef SPANWISE_INET_FEXIT_H
#define SPANWISE_INET_FEXIT_H

static __always_inline int on_inet(const struct socket *socket, int result, int flags,
                                   const bool sent)
{
    struct sock *sk = socket->sk;
    return sk ? on_length(sk, result, flags, sent, SOCKETS_INET, false) : 0;
}

SEC("?fexit/inet_sendmsg")
int BPF_PROG(inet_send, struct socket *socket, void *message, __u64 size, int result)
{
    return on_inet(socket, result, 0, true);
}

SEC("?fexit/inet6_sendmsg")
int BPF_PROG(inet6_send, struct socket *socket, void *message, __u64 size, int result)
{
    return on_inet(socket, result, 0, true);
}

/* sendfile and splice, for both address families. */
SEC("?fexit/inet_sendpage")
int BPF_PROG(inet_send_page, struct socket *socket, void *page, int offset, __u64 size, int flags,
             long result)
{
    return on_inet(socket, result, 0, true);
}

SEC("?fexit/inet_recvmsg")
int BPF_PROG(inet_receive, struct socket *socket, void *message, __u64 size, int flags, int result)
{
    return flags & MSG_PEEK ? 0 : on_inet(socket, result, flags, false);
}

SEC("?fexit/inet6_recvmsg")
int BPF_PROG(inet6_receive, struct socket *socket, void *message, __u64 size, int flags, int result)
{
    return flags & MSG_PEEK ? 0 : on_inet(socket, result, flags, false);
}

static __always_inline int on_unix_socket(const struct socket *socket, int result, const bool sent)
{
    struct sock *sk = socket->sk;
    return sk && result >= 0 ? on_unix_length(sk, result, sent, false) : 0;
}

SEC("?fexit/unix_stream_sendmsg")
int BPF_PROG(unix_send, struct socket *socket, void *message, __u64 size, int result)
{
    return on_unix_socket(socket, result, true);
}

SEC("?fexit/unix_stream_recvmsg")
int BPF_PROG(unix_receive, struct socket *socket, void *message, __u64 size, int flags, int result)
{
    return flags & MSG_PEEK ? 0 : on_unix_socket(socket, result, false);
}

#endif
