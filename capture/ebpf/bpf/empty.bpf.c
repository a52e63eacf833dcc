// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The hooks of capture.bpf.c without their work, to measure the kernel's own cost. Loaded by the
 * capture benchmark, and briefly to probe a kernel's features (src/kernel/probe.rs). */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("?tp_btf/sock_send_length")
int BPF_PROG(empty_send_length, struct sock *sk, int result, int flags)
{
    return 0;
}

SEC("?tp_btf/sock_recv_length")
int BPF_PROG(empty_recv_length, struct sock *sk, int result, int flags)
{
    return 0;
}

SEC("?tp_btf/sys_exit")
int BPF_PROG(empty_sys_exit_btf, struct pt_regs *regs, long result)
{
    return 0;
}

SEC("?raw_tp/sys_exit")
int empty_sys_exit_raw(void *context)
{
    return 0;
}

SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(empty_state, struct sock *sk, int old, int new)
{
    return 0;
}

SEC("?raw_tp/sched_process_exec")
int empty_exec(void *context)
{
    return 0;
}

SEC("?raw_tp/sched_process_fork")
int empty_fork(void *context)
{
    return 0;
}

SEC("?fexit/inet_sendmsg")
int BPF_PROG(empty_inet_send, struct socket *socket)
{
    return 0;
}

SEC("?fexit/inet_recvmsg")
int BPF_PROG(empty_inet_receive, struct socket *socket)
{
    return 0;
}

SEC("?uprobe")
int empty_uprobe(void *context)
{
    return 0;
}

SEC("?kprobe/tcp_sendmsg")
int empty_kprobe(void *context)
{
    return 0;
}

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 16);
} ring SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_SK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, __u64);
} storage SEC(".maps");

/* Loads only if the kernel has ring buffers (5.8). */
SEC("?raw_tp/sys_exit")
int empty_ring(void *context)
{
    __u64 *record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
    if (record)
        bpf_ringbuf_discard(record, 0);
    return 0;
}

__u64 counted = 0;

__noinline int empty_function(const __u64 *number)
{
    return number ? *number & 1 : 0;
}

/* Loads only if global functions may take pointers and atomic additions may return the old value
 * (5.12). */
SEC("?raw_tp/sys_exit")
int empty_functions(void *context)
{
    const __u64 number = __sync_fetch_and_add(&counted, 1);
    return empty_function(&number);
}

/* Loads only if a tracing program may use socket storage (5.11). */
SEC("?tp_btf/inet_sock_set_state")
int BPF_PROG(empty_storage, struct sock *sk, int old, int new)
{
    bpf_sk_storage_get(&storage, sk, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    return 0;
}
