//! Keeps the agent's resource usage within its budget by reducing detail: first spans of fast,
//! successful requests, then connections.

use std::fmt;
use std::time::{Duration, Instant};

/// The agent's limits. The CPU time of the BPF programs counts for the traced programs, not here.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// CPU-seconds a second.
    pub cpu_cores: Option<f64>,
    /// Resident memory of the process.
    pub memory_bytes: Option<u64>,
}

/// How much is reported. Levels up to [`SAMPLED_LEVELS`] halve the share of sampled spans, further
/// levels halve the connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Detail(u8);

const SAMPLED_LEVELS: u8 = 4;
const MAX_LEVEL: u8 = 16;

impl Detail {
    /// The share of spans of fast, successful requests.
    pub fn span_share(self) -> f64 {
        0.5f64.powi(i32::from(self.0.min(SAMPLED_LEVELS)))
    }

    /// The share of connections, in parts of 2^32.
    pub(crate) const fn connection_share(self) -> u32 {
        u32::MAX >> self.0.saturating_sub(SAMPLED_LEVELS)
    }

    /// Whether anything is left out.
    pub const fn is_less(self) -> bool {
        self.0 > 0
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("everything");
        }
        write!(f, "1 of {} fast successes", 1u32 << self.0.min(SAMPLED_LEVELS))?;
        match self.0.saturating_sub(SAMPLED_LEVELS) {
            0 => Ok(()),
            halvings => write!(f, ", 1 of {} connections", 1u32 << halvings),
        }
    }
}

/// Measured totals of the process, or of the agent's part of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) memory_bytes: u64,
}

/// Interval at which usage is compared with the budget.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Detail increases again after usage was below this share of the budget ...
const ROOM: f64 = 0.4;
/// ... for this long. The time doubles each time that detail had to be reduced again soon.
const CALM: Duration = Duration::from_secs(10);
const MAX_CALM: Duration = Duration::from_secs(320);

/// Chooses the level of detail.
#[derive(Debug)]
pub(crate) struct Governor {
    budget: Budget,
    detail: Detail,
    last: Option<(Instant, Usage)>,
    calm_since: Option<Instant>,
    calm: Duration,
    given_back: Option<Instant>,
}

impl Governor {
    pub(crate) const fn new(budget: Budget) -> Self {
        Self {
            budget,
            detail: Detail(0),
            last: None,
            calm_since: None,
            calm: CALM,
            given_back: None,
        }
    }

    /// Whether there is no budget.
    pub(crate) const fn is_idle(&self) -> bool {
        self.budget.cpu_cores.is_none() && self.budget.memory_bytes.is_none()
    }

    /// Whether a check is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.last.is_none_or(|(last, _)| now.duration_since(last) >= LOOK_EVERY)
    }

    /// Processes a measurement. Returns the new level of detail if it changes.
    pub(crate) fn look(&mut self, now: Instant, usage: Usage) -> Option<Detail> {
        let (last, before) = self.last.replace((now, usage))?;
        let seconds = now.duration_since(last).as_secs_f64();
        let cores = (usage.cpu_seconds - before.cpu_seconds) / seconds.max(f64::EPSILON);
        let cpu = self.budget.cpu_cores.map_or(0.0, |budget| cores / budget);
        let memory = self
            .budget
            .memory_bytes
            .map_or(0.0, |budget| usage.memory_bytes as f64 / budget as f64);
        let before = self.detail;
        if cpu > 1.0 || memory > 1.0 {
            self.calm_since = None;
            if self.given_back.is_some_and(|back| now.duration_since(back) < self.calm) {
                self.calm = (self.calm * 2).min(MAX_CALM);
                self.given_back = None;
            }
            // Usage far above the budget needs several halvings at once.
            let halvings = (cpu.log2().ceil() as u8).clamp(1, MAX_LEVEL);
            self.detail = Detail((self.detail.0 + halvings).min(MAX_LEVEL));
        } else if self.detail.is_less() && cpu < ROOM && memory < 0.9 {
            let since = *self.calm_since.get_or_insert(now);
            if now.duration_since(since) >= self.calm {
                self.detail = Detail(self.detail.0 - 1);
                self.calm_since = Some(now);
                self.given_back = Some(now);
            }
        } else {
            self.calm_since = None;
        }
        (self.detail != before).then_some(self.detail)
    }
}

/// CPU-seconds so far of the calling thread or the whole process.
pub(crate) fn usage(whole_process: bool) -> Usage {
    let clock = if whole_process {
        rustix::time::ClockId::ProcessCPUTime
    } else {
        rustix::time::ClockId::ThreadCPUTime
    };
    let cpu = rustix::time::clock_gettime(clock);
    let resident_pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok())
        .unwrap_or(0);
    Usage {
        cpu_seconds: cpu.tv_sec as f64 + cpu.tv_nsec as f64 * 1e-9,
        memory_bytes: resident_pages * rustix::param::page_size() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates seconds of a load that takes `cores` in full detail and half of it at each further
    /// level.
    fn run(governor: &mut Governor, from: &mut (Instant, f64), seconds: u32, cores: f64) -> Detail {
        for _ in 0..seconds {
            from.0 += Duration::from_secs(1);
            from.1 += cores * 0.5f64.powi(i32::from(governor.detail.0));
            governor.look(from.0, Usage { cpu_seconds: from.1, memory_bytes: 1 << 20 });
        }
        governor.detail
    }

    #[test]
    fn detail_is_given_up_until_the_budget_is_kept_and_comes_back() {
        let budget = Budget { cpu_cores: Some(0.1), memory_bytes: None };
        let mut governor = Governor::new(budget);
        let mut from = (Instant::now(), 0.0);
        assert_eq!(run(&mut governor, &mut from, 5, 0.09), Detail(0));
        let under_load = run(&mut governor, &mut from, 10, 0.9);
        assert_eq!(under_load, Detail(4), "0.9 / 16 is below 0.1 and 0.9 / 8 is not");
        assert_eq!(run(&mut governor, &mut from, 60, 0.9), Detail(4), "and it stays");
        assert_eq!(run(&mut governor, &mut from, 120, 0.001), Detail(0));
    }

    #[test]
    fn giving_back_too_early_makes_it_wait_longer() {
        // The load alternates between two levels: one is too much, and the next is too little.
        let mut governor = Governor::new(Budget { cpu_cores: Some(0.1), memory_bytes: None });
        let mut from = (Instant::now(), 0.0);
        let mut changes = 0;
        let mut last = Detail(0);
        for second in 0..3600 {
            let cores = if governor.detail.0 == 0 { 0.2 } else { 0.06 };
            let now = run(&mut governor, &mut from, 1, cores);
            changes += u32::from(now != last && second > 60);
            last = now;
        }
        assert!(changes < 60, "{changes}");
    }

    #[test]
    fn memory_counts_as_well_and_levels_end() {
        let budget = Budget { cpu_cores: None, memory_bytes: Some(100) };
        let mut governor = Governor::new(budget);
        let start = Instant::now();
        for second in 0..100u32 {
            let now = start + Duration::from_secs(u64::from(second));
            governor.look(now, Usage { cpu_seconds: 0.0, memory_bytes: 101 });
        }
        assert_eq!(governor.detail, Detail(MAX_LEVEL));
        assert!(governor.detail.connection_share() > 0);
        assert_eq!(governor.detail.to_string(), "1 of 16 fast successes, 1 of 4096 connections");
    }

    #[test]
    fn usage_can_be_measured() {
        let usage = usage(true);
        assert!(usage.cpu_seconds > 0.0 && usage.memory_bytes > 1 << 20);
    }
}
