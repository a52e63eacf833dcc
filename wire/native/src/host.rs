//! Metrics of hosts and their processes that have several sources: the kernel of this host, and
//! traces of others.

use crate::otlp::{MetricKind, NumberKind};

const fn metric(
    name: &'static str,
    unit: &'static str,
    description: &'static str,
    kind: NumberKind,
) -> MetricKind {
    MetricKind { name, unit, description, kind }
}

/// CPU time of a host.
pub const SYSTEM_CPU_TIME: MetricKind =
    metric("system.cpu.time", "s", "CPU time by mode", NumberKind::Counter);
/// CPU time of a process.
pub const PROCESS_CPU_TIME: MetricKind =
    metric("process.cpu.time", "s", "CPU time by mode", NumberKind::Counter);
/// Bytes over a host's interfaces.
pub const SYSTEM_NETWORK_IO: MetricKind =
    metric("system.network.io", "By", "bytes over interfaces", NumberKind::Counter);
/// How long a host's threads waited for a processor.
pub const SYSTEM_RUN_QUEUE_LATENCY: MetricKind = metric(
    "spanwise.system.run_queue.latency",
    "s",
    "how long threads, when they could run, waited for a processor",
    NumberKind::Histogram,
);
/// How long a process's threads waited for a processor.
pub const PROCESS_RUN_QUEUE_LATENCY: MetricKind = metric(
    "spanwise.process.run_queue.latency",
    "s",
    "how long its threads, when they could run, waited for a processor",
    NumberKind::Histogram,
);
/// How often a process's threads left a processor.
pub const PROCESS_CONTEXT_SWITCHES: MetricKind = metric(
    "process.context_switches",
    "{context_switch}",
    "how often its threads left a processor",
    NumberKind::Counter,
);

/// Waits of at most 1, 2, 4 … 2^23 microseconds, and longer ones.
pub const WAIT_BUCKETS: usize = 25;

/// Upper bounds of all buckets of waits but the last, in seconds.
pub fn wait_bounds_seconds() -> impl Iterator<Item = f64> {
    (0..WAIT_BUCKETS as i32 - 1).map(|n| 2_f64.powi(n) * 1e-6)
}
