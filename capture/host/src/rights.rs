//! The rights of this process (`capabilities(7)`, `linux/capability.h`).

/// A capability's number.
pub type Capability = u32;

/// Permits reading any file.
pub const CAP_DAC_READ_SEARCH: Capability = 2;
/// Permits reading the state of other processes.
pub const CAP_SYS_PTRACE: Capability = 19;
const CAP_SYS_ADMIN: Capability = 21;
/// Permits raising its priority.
pub const CAP_SYS_NICE: Capability = 23;
/// Permits attaching BPF programs.
pub const CAP_PERFMON: Capability = 38;
/// Permits loading BPF programs.
pub const CAP_BPF: Capability = 39;

/// Whether this process has a capability in effect, or one that includes it.
pub fn holds(capability: Capability) -> bool {
    let effective = effective();
    let has = |bit: u32| effective & (1 << bit) != 0;
    // CAP_SYS_ADMIN includes the newer, narrower capabilities.
    has(capability) || (capability >= CAP_PERFMON && has(CAP_SYS_ADMIN))
}

/// The effective capabilities, as a bit mask.
fn effective() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
