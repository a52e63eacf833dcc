//! Where runs spend their time and what they do too often. `docs/analysis.md` has the definitions.

mod critical;
mod found;
mod siblings;

use std::collections::BTreeMap;

use ahash::AHashMap;
use spanwise_model::TraceId;

use crate::chains::{ChainCall, PathId, path_ids, roots};
pub use found::{FanOut, Found, Place, RepeatedCalls, RetriedCalls, SequentialCalls, TimeShare};

/// The most paths, and the most pairs of siblings, of which figures are kept.
const MAX_PLACES: usize = 200_000;
const MAX_PAIRS: usize = 200_000;

/// Figures of one path.
#[derive(Debug, Clone, Default, PartialEq)]
struct PathTimes {
    calls: u64,
    self_nano: u128,
    /// Time of it that its run waited for.
    critical_nano: u128,
    repeated: Repeats,
    retried: Retries,
    /// Of the calls that one of these made at a time.
    wide: Width,
}

/// Calls of one path, made many times by one caller, one after another.
#[derive(Debug, Clone, Default, PartialEq)]
struct Repeats {
    /// Callers that did so.
    callers: u64,
    /// Their calls.
    calls: u64,
    /// How long these took, together.
    nano: u128,
    /// The most of one caller, and its trace.
    most: Option<(u64, TraceId)>,
}

/// Calls that were made again because they failed.
#[derive(Debug, Clone, Default, PartialEq)]
struct Retries {
    /// Failed attempts that another one followed.
    attempts: u64,
    /// From their start to that of the next attempt, together.
    nano: u128,
    /// Of these, calls of which the last attempt did not fail.
    rescued: u64,
    /// The most attempts of one call, and its trace.
    most: Option<(u64, TraceId)>,
}

/// Calls at the same time.
#[derive(Debug, Clone, Default, PartialEq)]
struct Width {
    /// Callers with many at a time.
    callers: u64,
    /// The most at a time, and the trace.
    most: Option<(u64, TraceId)>,
}

/// Two calls of one caller that followed one another.
#[derive(Debug, Clone, Default, PartialEq)]
struct Pair {
    /// The first by id began only after the second by id had ended, or the other way round.
    in_order: u64,
    reversed: u64,
    /// They ran at the same time.
    overlapped: u64,
    /// The later one was called although the earlier one failed.
    after_failure: u64,
    /// What running them at the same time would have saved.
    saved_nano: u128,
    example: Option<(i64, TraceId)>,
}

/// Accumulates runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bottlenecks {
    paths: AHashMap<PathId, PathTimes>,
    /// By the path of the caller and those of the two.
    pairs: AHashMap<(PathId, PathId, PathId), Pair>,
    /// Runs of each entrance, and how long they took together.
    entrances: BTreeMap<PathId, (u64, u128)>,
    /// Calls of which no figures are kept because there are too many different ones.
    pub left_out: u64,
}

impl Bottlenecks {
    /// Adds the calls of a trace, callers before the called.
    pub fn add_calls(&mut self, trace_id: TraceId, calls: &[ChainCall<'_>]) {
        let ids = path_ids(calls);
        let roots = roots(calls);
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); calls.len()];
        for (place, call) in calls.iter().enumerate() {
            if let Some(parent) = call.parent {
                below[parent].push(place);
            }
        }
        let critical = critical::times(calls, &below);
        for (place, call) in calls.iter().enumerate() {
            if roots[place] == place {
                let entrance = self.entrances.entry(ids[place]).or_default();
                entrance.0 += 1;
                let length = call.end_unix_nano.saturating_sub(call.start_unix_nano);
                entrance.1 += u128::from(length.max(0).unsigned_abs());
            }
            if let Some(figures) = self.path(ids[place]) {
                figures.calls += 1;
                figures.self_nano += u128::from(call.self_nano.max(0).unsigned_abs());
                figures.critical_nano += u128::from(critical[place].max(0).unsigned_abs());
            }
        }
        for (caller, below) in below.iter_mut().enumerate().filter(|(_, below)| below.len() > 1) {
            below.retain(|place| !calls[*place].asynchronous);
            below.sort_unstable_by_key(|place| (calls[*place].start_unix_nano, *place));
            self.add_siblings(trace_id, calls, &ids, caller, below);
        }
    }

    /// The figures of a path; `None` if there are too many paths.
    fn path(&mut self, id: PathId) -> Option<&mut PathTimes> {
        if self.paths.len() >= MAX_PLACES && !self.paths.contains_key(&id) {
            self.left_out += 1;
            return None;
        }
        Some(self.paths.entry(id).or_default())
    }
}

#[cfg(test)]
mod tests;
