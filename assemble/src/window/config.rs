//! Bounds of the window, and what it counts.

use crate::timing::TimingCounters;

/// Times and bounds of the window. All times are of one monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct WindowConfig {
    /// A group that got no row for this long is told.
    pub quiet_nano: u64,
    /// A group is told at the latest this long after its first untold row.
    pub longest_wait_nano: u64,
    /// A group is remembered for this long after its last row.
    pub remember_nano: u64,
    /// Rows held at once; beyond, the groups longest unheard of are let go.
    pub max_rows: usize,
    /// Rows of one group; a larger one is told and let go, so that one trace
    /// id that everything carries does not bind everything together.
    pub max_group_rows: usize,
    /// Whether calls that nothing else gives to a request are linked by time
    /// alone, where that makes one request likely.
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

/// What the window did and could not do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowCounters {
    /// Rows taken.
    pub rows: u64,
    /// Results told.
    pub told: u64,
    /// Of them, results that changed an earlier one.
    pub changed: u64,
    /// Groups let go before their time, for want of room.
    pub groups_evicted: u64,
    /// Groups let go before their time, because they had grown too large.
    pub groups_too_large: u64,
    /// Calls that were linked by time alone, and that could not be.
    pub timing: TimingCounters,
}

impl WindowCounters {
    /// Both together.
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
