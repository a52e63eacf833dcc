//! Limits and counters of the window.

use crate::timing::TimingCounters;

/// Times and limits of the window. All times are of one monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct WindowConfig {
    /// A group without new rows for this long is reported.
    pub quiet_nano: u64,
    /// A group is reported at the latest this long after its first unreported row.
    pub longest_wait_nano: u64,
    /// A group is remembered this long after its last row.
    pub remember_nano: u64,
    /// Maximum rows. Beyond it, the least recently active groups are evicted.
    pub max_rows: usize,
    /// Maximum rows of one group. A larger group is reported and removed, so that one trace id on
    /// everything does not join everything.
    pub max_group_rows: usize,
    /// Whether calls without other evidence are linked by time alone, if that makes one request
    /// likely.
    pub links_by_timing: bool,
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self {
            quiet_nano: 400_000_000,
            longest_wait_nano: 2_000_000_000,
            remember_nano: 45_000_000_000,
            max_rows: 200_000,
            max_group_rows: 20_000,
            links_by_timing: true,
        }
    }
}

/// Counters of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowCounters {
    /// Rows added.
    pub rows: u64,
    /// Results reported.
    pub told: u64,
    /// Results that changed an earlier one; part of `told`.
    pub changed: u64,
    /// Groups removed early because the window was full.
    pub groups_evicted: u64,
    /// Groups removed early because they were too large.
    pub groups_too_large: u64,
    /// Links by time, and calls that could not be linked.
    pub timing: TimingCounters,
}

impl WindowCounters {
    /// The sum of both.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            told: self.told + other.told,
            changed: self.changed + other.changed,
            groups_evicted: self.groups_evicted + other.groups_evicted,
            groups_too_large: self.groups_too_large + other.groups_too_large,
            timing: self.timing,
        }
    }
}
