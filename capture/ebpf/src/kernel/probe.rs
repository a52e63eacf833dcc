//! Tests the kernel's features: each is loaded and attached briefly with a program that does
//! nothing.

use serde::Serialize;

use super::objects;

/// A feature that a kernel may support.
#[derive(Debug, Clone, Serialize)]
pub struct Probe {
    /// Its name.
    pub feature: &'static str,
    /// What the agent uses it for.
    pub purpose: &'static str,
    /// What is lost or replaced without it.
    pub without: &'static str,
    /// The result.
    pub outcome: ProbeOutcome,
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOutcome {
    /// It works.
    Works,
    /// The feature does not work, for this reason.
    Missing(String),
}

/// Probes at many functions at once, in all processes.
const MANY_UPROBES: &str = "uprobe.multi";
const EMPTY_UPROBE: &str = "empty_uprobe";
/// Global functions that accept pointers.
const FUNCTIONS: &str = "BPF functions with pointers";
const EMPTY_FUNCTIONS: &str = "empty_functions";

const PROBES: &[(&str, &str, &str, &str)] = &[
    (
        "tp_btf/sock_send_length",
        "empty_send_length",
        "sees what processes send, at no cost to other system calls",
        "fexit or, at the price of a filter for every system call of the machine, sys_exit is used",
    ),
    (
        "tp_btf/sock_recv_length",
        "empty_recv_length",
        "sees what processes receive, at no cost to other system calls",
        "fexit or, at the price of a filter for every system call of the machine, sys_exit is used",
    ),
    (
        "fexit/inet_sendmsg",
        "empty_inet_send",
        "the same as sock_send_length, for kernels that do not have it (before 6.4)",
        "nothing is lost where sock_send_length works; else sys_exit is used",
    ),
    (
        "fexit/inet_recvmsg",
        "empty_inet_receive",
        "the same as sock_recv_length, for kernels that do not have it (before 6.4)",
        "nothing is lost where sock_recv_length works; else sys_exit is used",
    ),
    (
        "tp_btf/sys_exit",
        "empty_sys_exit_btf",
        "third choice for seeing transfers",
        "raw_tp/sys_exit remains",
    ),
    (
        "raw_tp/sys_exit",
        "empty_sys_exit_raw",
        "last choice for seeing transfers",
        "without any of the three no traffic is seen",
    ),
    (
        "tp_btf/inet_sock_set_state",
        "empty_state",
        "opening and closing of connections, connect time, which side a socket is",
        "raw_tp/inet_sock_set_state is used",
    ),
    (
        "raw_tp/sched_process_exec",
        "empty_exec",
        "start and end of processes",
        "a process id that is used again may keep its former name for a while",
    ),
    (
        "raw_tp/sched_process_fork",
        "empty_fork",
        "by which other thread a thread is made, in processes whose calls need it",
        "calls of threads that requests start are linked while one request is open",
    ),
    (
        "BPF ring buffer",
        "empty_ring",
        "carries events to the agent in order",
        "the agent cannot run (Linux 5.8 or newer is needed)",
    ),
    (
        FUNCTIONS,
        EMPTY_FUNCTIONS,
        "keep what programs pass to them on the stack",
        "programs for kernels before 5.12 are used, which pass it through a table",
    ),
    (
        "socket storage in tracing programs",
        "empty_storage",
        "keeps what is known of a socket in the socket",
        "a table by address is used, with sys_exit hooks",
    ),
    (
        MANY_UPROBES,
        EMPTY_UPROBE,
        "reads in the clear what TLS libraries of processes encrypt",
        "single uprobes are used, which the kernel gives to CAP_SYS_ADMIN only",
    ),
    (
        "uprobe",
        EMPTY_UPROBE,
        "the same, where the kernel knows no uprobe.multi (before 6.6)",
        "nothing is lost where uprobe.multi works; else of encrypted connections only the \
         handshake's facts, bytes and times are seen",
    ),
    (
        "kprobe",
        "empty_kprobe",
        "not used: kernels without kprobes are traced as well",
        "nothing is lost",
    ),
];

/// Whether many probes can be attached at once. Older kernels load programs for it, too, so
/// attaching is tried.
pub(super) fn many_uprobes_attach() -> bool {
    attempt(MANY_UPROBES, EMPTY_UPROBE).is_ok()
}

/// Whether global functions accept pointers (Linux 5.12).
pub(super) fn functions_take_pointers() -> bool {
    attempt(FUNCTIONS, EMPTY_FUNCTIONS).is_ok()
}

fn attempt(feature: &str, program: &str) -> Result<(), String> {
    let many = feature == MANY_UPROBES;
    let of_many: &[&str] = if many { &[program] } else { &[] };
    let object = objects::load(objects::EMPTY, &[program], of_many, |_, _| Ok(()))?;
    if program == EMPTY_UPROBE {
        objects::attach_to_libc(&object, program, many).map(drop)
    } else {
        objects::attach(&object, &[program]).map(drop)
    }
}

/// Tests every feature.
pub fn probe_all() -> Vec<Probe> {
    PROBES
        .iter()
        .map(|&(feature, program, purpose, without)| {
            let outcome = attempt(feature, program)
                .map_or_else(ProbeOutcome::Missing, |()| ProbeOutcome::Works);
            Probe { feature, purpose, without, outcome }
        })
        .collect()
}
