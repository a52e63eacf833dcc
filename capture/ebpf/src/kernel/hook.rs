//! The sets of hooks that can capture socket traffic, best first.

use std::fmt;
use std::str::FromStr;

/// A set of hooks that together capture every transfer on a TCP socket, and UDP datagrams from and
/// to the ports of DNS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// `tp_btf/sock_send_length` and `tp_btf/sock_recv_length`: they fire only for socket calls.
    /// Linux 6.4 and newer.
    SockLength,
    /// `fexit` of the kernel's functions that send and receive for sockets, which those tracepoints
    /// follow. The equivalent for Linux 5.15 to 6.3.
    InetFexit,
    /// `tp_btf/sys_exit`: fires at the end of every system call.
    SysExitBtf,
    /// `raw_tp/sys_exit`: the same, without typed arguments.
    SysExitRaw,
}

impl Hook {
    /// Best first.
    pub const ALL: &'static [Self] =
        &[Self::SockLength, Self::InetFexit, Self::SysExitBtf, Self::SysExitRaw];

    /// Its name in flags and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SockLength => "sock-length",
            Self::InetFexit => "inet-fexit",
            Self::SysExitBtf => "sys-exit-btf",
            Self::SysExitRaw => "sys-exit-raw",
        }
    }

    /// The cost of the hook, or what it misses, for people.
    pub const fn consequence(self) -> &'static str {
        match self {
            Self::SockLength => {
                "socket calls only are touched; other system calls cost nothing; who sent a \
                 datagram to a socket without a fixed peer is known by the answer only; what \
                 splice takes from a socket is known by what comes after it"
            }
            Self::InetFexit => {
                "as sock-length; where the kernel interrupts a hook for another thread, that one's \
                 calls go unseen meanwhile (counted as kernel_calls_missed)"
            }
            Self::SysExitBtf => {
                "every system call of the machine passes the filter (about 80 to 200 ns each); \
                 what io_uring moves is not seen"
            }
            Self::SysExitRaw => {
                "every system call of the machine passes the filter (about 100 to 350 ns each); \
                 what io_uring moves is not seen"
            }
        }
    }

    /// Names of its programs in the BPF object. The first set that the kernel accepts is used.
    pub(super) const fn program_sets(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::SockLength => &[
                &[
                    "sock_length_send",
                    "sock_length_receive",
                    "state_storage",
                    "process_exec",
                    "process_exit",
                ],
                // Before Linux 6.13, the stack is too small for a single program for all sockets.
                &[
                    "tcp_length_send",
                    "tcp_length_receive",
                    "other_length_send",
                    "other_length_receive",
                    "state_storage",
                    "process_exec",
                    "process_exit",
                ],
                // Before 6.8, it is also too small for the variant with the largest reads.
                &[
                    "tcp_small_send",
                    "tcp_small_receive",
                    "other_length_send",
                    "other_length_receive",
                    "state_storage",
                    "process_exec",
                    "process_exit",
                ],
            ],
            Self::InetFexit => &[&[
                "inet_send",
                "inet6_send",
                "inet_send_page",
                "inet_receive",
                "inet6_receive",
                "unix_send",
                "unix_receive",
                "state_storage",
                "process_exec",
                "process_exit",
            ]],
            Self::SysExitBtf => &[&["sys_exit_btf", "state_table", "process_exec", "process_exit"]],
            Self::SysExitRaw => &[&["sys_exit_raw", "state_raw", "process_exec", "process_exit"]],
        }
    }

    /// Programs that do nothing, at the same hooks.
    pub(super) const fn empty_programs(self) -> &'static [&'static str] {
        match self {
            Self::SockLength => &["empty_send_length", "empty_recv_length"],
            Self::InetFexit => &["empty_inet_send", "empty_inet_receive"],
            Self::SysExitBtf => &["empty_sys_exit_btf"],
            Self::SysExitRaw => &["empty_sys_exit_raw"],
        }
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which set of hooks to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HookChoice {
    /// The best set that can be attached.
    #[default]
    Auto,
    /// Only this set.
    Only(Hook),
    /// Only this set, with the programs for kernels before Linux 5.12, which also run on newer
    /// ones. For tests.
    Older(Hook),
}

impl From<Hook> for HookChoice {
    fn from(hook: Hook) -> Self {
        Self::Only(hook)
    }
}

impl fmt::Display for HookChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Only(hook) => hook.fmt(f),
            Self::Older(hook) => write!(f, "{hook} for kernels before 5.12"),
        }
    }
}

impl FromStr for HookChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        Hook::ALL.iter().find(|hook| hook.name() == text).map(|hook| Self::Only(*hook)).ok_or_else(
            || {
                let names: Vec<_> = Hook::ALL.iter().map(|hook| hook.name()).collect();
                format!("`{text}` is no hook; known: auto, {}", names.join(", "))
            },
        )
    }
}
