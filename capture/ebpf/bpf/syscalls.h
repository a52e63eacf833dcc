/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* System calls that move bytes through sockets: their numbers, and the location of their arguments
 * in the registers of a task inside the call. */
#ifndef SPANWISE_SYSCALLS_H
#define SPANWISE_SYSCALLS_H

#if defined(__TARGET_ARCH_x86)
#define NR_READ 0
#define NR_WRITE 1
#define NR_READV 19
#define NR_WRITEV 20
#define NR_SENDFILE 40
#define NR_SENDTO 44
#define NR_RECVFROM 45
#define NR_SENDMSG 46
#define NR_RECVMSG 47
#define NR_SPLICE 275
#define NR_RECVMMSG 299
#define NR_SENDMMSG 307
#define NR_PREADV2 327
#define NR_PWRITEV2 328
#define NR_IO_URING_ENTER 426
#define REGS_NR(regs) ((regs)->orig_ax)
#define REGS_ARG1(regs) ((regs)->di)
#define REGS_SP(regs) ((regs)->sp)
#define REGS_ARG2(regs) ((regs)->si)
#define REGS_ARG3(regs) ((regs)->dx)
#define REGS_ARG4(regs) ((regs)->r10)
#define REGS_ARG5(regs) ((regs)->r8)
#elif defined(__TARGET_ARCH_arm64)
#define NR_READ 63
#define NR_WRITE 64
#define NR_READV 65
#define NR_WRITEV 66
#define NR_SENDFILE 71
#define NR_SPLICE 76
#define NR_SENDTO 206
#define NR_RECVFROM 207
#define NR_SENDMSG 211
#define NR_RECVMSG 212
#define NR_RECVMMSG 243
#define NR_SENDMMSG 269
#define NR_PREADV2 286
#define NR_PWRITEV2 287
#define NR_IO_URING_ENTER 426
#define REGS_NR(regs) ((regs)->syscallno)
#define REGS_ARG1(regs) ((regs)->orig_x0)
#define REGS_SP(regs) ((regs)->user_regs.sp)
#define REGS_ARG2(regs) ((regs)->user_regs.regs[1])
#define REGS_ARG3(regs) ((regs)->user_regs.regs[2])
#define REGS_ARG4(regs) ((regs)->user_regs.regs[3])
#define REGS_ARG5(regs) ((regs)->user_regs.regs[4])
#else
#error "spanwise knows the system calls of x86-64 and arm64"
#endif

/* How a call describes its buffer. */
enum buffer_shape {
    BUFFER_NONE,    /* the bytes were never in user memory (sendfile, splice) */
    BUFFER_PLAIN,   /* argument 2 points to the bytes */
    BUFFER_VECTOR,  /* argument 2 is an iovec array, argument 3 its length */
    BUFFER_MESSAGE, /* argument 2 is a msghdr */
    BUFFER_MESSAGES /* argument 2 is a mmsghdr array, argument 3 its length */
};

static __always_inline int shape_of(long nr)
{
    switch (nr) {
    case NR_READ:
    case NR_WRITE:
    case NR_SENDTO:
    case NR_RECVFROM:
        return BUFFER_PLAIN;
    case NR_READV:
    case NR_WRITEV:
    case NR_PREADV2:
    case NR_PWRITEV2:
        return BUFFER_VECTOR;
    case NR_SENDMSG:
    case NR_RECVMSG:
        return BUFFER_MESSAGE;
    case NR_SENDMMSG:
    case NR_RECVMMSG:
        return BUFFER_MESSAGES;
    default:
        return BUFFER_NONE;
    }
}

static __always_inline bool sends(long nr)
{
    switch (nr) {
    case NR_WRITE:
    case NR_SENDTO:
    case NR_WRITEV:
    case NR_PWRITEV2:
    case NR_SENDMSG:
    case NR_SENDMMSG:
    case NR_SENDFILE:
        return true;
    default:
        return false;
    }
}

#endif
