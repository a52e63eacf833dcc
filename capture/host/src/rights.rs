//! What this process may do (`capabilities(7)`, `linux/capability.h`).

/// A capability's number.
pub type Capability = u32;

/// Reads any file.
pub const CAP_DAC_READ_SEARCH: Capability = 2;
/// Looks into other processes.
pub const CAP_SYS_PTRACE: Capability = 19;
const CAP_SYS_ADMIN: Capability = 21;
/// Takes precedence.
pub const CAP_SYS_NICE: Capability = 23;
/// Attaches programs to the kernel.
pub const CAP_PERFMON: Capability = 38;
/// Loads programs into the kernel.
pub const CAP_BPF: Capability = 39;

/// Whether this process has a capability in effect, or what stands in for it.
pub fn holds(capability: Capability) -> bool {
    let effective = effective();
    let has = |bit: u32| effective & (1 << bit) != 0;
    // CAP_SYS_ADMIN stands in for the newer, narrower ones.
    has(capability) || (capability >= CAP_PERFMON && has(CAP_SYS_ADMIN))
}

/// Those in effect, each a bit.
fn effective() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
