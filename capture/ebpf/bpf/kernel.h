/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The kernel types and fields that are used here. CO-RE finds each field's offset in the running
 * kernel. Other fields are not declared. */
#ifndef SPANWISE_KERNEL_H
#define SPANWISE_KERNEL_H

#define __VMLINUX_H__ /* bpf_tracing.h then uses the kernel's names of registers */

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;
enum { false = 0, true = 1 };

enum bpf_map_type {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_PERCPU_ARRAY = 6,
    BPF_MAP_TYPE_LRU_HASH = 9,
    BPF_MAP_TYPE_SK_STORAGE = 24,
    BPF_MAP_TYPE_RINGBUF = 27,
};

enum bpf_func_id {
    BPF_FUNC_get_current_task_btf = 158,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
    unsigned long r14, bx, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_pt_regs {
    __u64 regs[31];
    __u64 sp, pc, pstate;
};
struct pt_regs {
    struct user_pt_regs user_regs;
    __u64 orig_x0;
    __s32 syscallno;
};
#endif

struct ns_common {
    unsigned int inum;
};
struct net {
    struct ns_common ns;
};
typedef struct {
    struct net *net;
} possible_net_t;

struct in6_addr {
    union {
        __u8 u6_addr8[16];
        __be32 u6_addr32[4];
    } in6_u;
};

struct sock_common {
    __be32 skc_daddr;
    __be32 skc_rcv_saddr;
    __be16 skc_dport;
    __u16 skc_num;
    unsigned short skc_family;
    volatile unsigned char skc_state;
    unsigned long skc_flags;
    possible_net_t skc_net;
    struct in6_addr skc_v6_daddr;
    struct in6_addr skc_v6_rcv_saddr;
};

struct socket;
struct sock {
    struct sock_common __sk_common;
    u16 sk_protocol;
    u16 sk_type;
    int sk_err;
    struct socket *sk_socket;
};

struct inet_sock {
    __be16 inet_sport;
};

struct tcp_sock {
    u32 rcv_nxt;
    u32 copied_seq;
    u32 write_seq;
    u32 snd_nxt;
    u32 srtt_us;
    u32 total_retrans;
    u64 tcp_clock_cache;
    u64 bytes_received;
    u64 bytes_acked;
};

struct file;
struct socket {
    struct file *file;
    struct sock *sk;
};

struct sockaddr_un {
    unsigned short sun_family;
    char sun_path[108];
};
struct unix_address {
    int len;
    struct sockaddr_un name[0];
};
struct unix_sock {
    struct sock sk;
    struct unix_address *addr;
    struct sock *peer;
};

struct inode {
    unsigned short i_mode;
};
struct file {
    struct inode *f_inode;
    void *private_data;
};
struct fdtable {
    unsigned int max_fds;
    struct file **fd;
};
struct files_struct {
    struct fdtable *fdt;
};

typedef struct {
    int counter;
} atomic_t;
struct signal_struct {
    atomic_t live;
};
struct thread_info {
    u32 status; /* x86 */
};
#if defined(__TARGET_ARCH_x86)
struct thread_struct {
    unsigned long fsbase;
};
#elif defined(__TARGET_ARCH_arm64)
struct user_thread_words {
    unsigned long tp_value;
};
struct thread_struct {
    struct user_thread_words uw;
};
#endif
/* A thread's ids, in each namespace down to its own. */
struct upid {
    int nr;
    void *ns;
};
struct pid {
    unsigned int level;
    struct upid numbers[1];
};
struct task_struct {
    struct thread_info thread_info;
    void *stack;
    struct pid *thread_pid;
    struct thread_struct thread;
    int pid;
    int tgid;
    unsigned long nvcsw;
    struct signal_struct *signal;
    struct files_struct *files;
};

struct bpf_raw_tracepoint_args {
    __u64 args[0];
};

#pragma clang attribute pop

struct iovec {
    void *iov_base;
    unsigned long iov_len;
};

#endif
