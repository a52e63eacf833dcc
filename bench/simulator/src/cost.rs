//! CPU time and memory.

use rustix::time::{ClockId, clock_gettime};

/// CPU time of this thread so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Peak resident memory of this process in megabytes.
pub(crate) fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}
