//! Strong and weak dependency, from observed failures.

use ahash::AHashMap;

use super::{ChainCall, PathId};

/// The least number of failures for a verdict.
const LEAST_FAILURES: u64 = 5;
/// The share of successful calls after which something follows, from which on it is usual.
const USUAL: f64 = 0.8;

/// How often something followed a call. Retried attempts do not count, only the last does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Follow {
    /// Successful calls.
    pub successes: u64,
    /// Successful calls after which another call was made.
    pub successes_followed: u64,
    /// Failed calls.
    pub failures: u64,
    /// Failed calls after which another call was made.
    pub failures_followed: u64,
    /// Failed calls after which no other call was made and that failed their caller.
    pub failures_passed_on: u64,
}

/// How a caller depends on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependency {
    /// If it fails, nothing that would follow is called.
    Strong,
    /// If it fails, some or all of what would follow is called.
    Weak,
    /// Too few failures, or they do not agree.
    Unknown,
}

/// A verdict with what it rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The verdict.
    pub dependency: Dependency,
    /// Failures that were observed.
    pub failures: u64,
    /// The share of them that stopped what would follow.
    pub stopped_share: f64,
    /// The bound of the 95 % interval of that share which is nearer to one half, as confidence: of
    /// stopping for strong, of not stopping for weak; 0 for unknown.
    pub confidence: f64,
}

impl Follow {
    /// Adds the counts of another.
    pub fn merge(&mut self, other: &Self) {
        self.successes += other.successes;
        self.successes_followed += other.successes_followed;
        self.failures += other.failures;
        self.failures_followed += other.failures_followed;
        self.failures_passed_on += other.failures_passed_on;
    }

    /// The verdict of these counts.
    pub fn verdict(&self) -> Verdict {
        let usual = self.successes_followed as f64 >= USUAL * self.successes.max(1) as f64;
        let stopped =
            if usual { self.failures - self.failures_followed } else { self.failures_passed_on };
        let stopped_share = stopped as f64 / self.failures.max(1) as f64;
        let (low, high) = wilson(stopped, self.failures);
        // Without successes, nobody knows what would follow.
        let is_told = self.failures >= LEAST_FAILURES && self.successes > 0;
        let (dependency, confidence) = if is_told && low > 0.5 {
            (Dependency::Strong, low)
        } else if is_told && high < 0.5 {
            (Dependency::Weak, 1.0 - high)
        } else {
            (Dependency::Unknown, 0.0)
        };
        Verdict { dependency, failures: self.failures, stopped_share, confidence }
    }
}

/// Wilson's 95 % interval of a share.
fn wilson(hits: u64, of: u64) -> (f64, f64) {
    const Z: f64 = 1.96;
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (of as f64, hits as f64 / of as f64);
    let middle = share + Z * Z / (2.0 * n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let whole = 1.0 + Z * Z / n;
    ((middle - half) / whole, (middle + half) / whole)
}

/// The last starts of the calls of one caller: of any path, and of any other path than that one.
#[derive(Clone, Copy, Default)]
struct LastStarts {
    last: Option<(i64, PathId)>,
    other: Option<i64>,
}

impl LastStarts {
    fn add(&mut self, start: i64, path: PathId) {
        match self.last {
            Some((last, of)) if of == path => self.last = Some((last.max(start), of)),
            Some((last, _)) if start > last => {
                (self.last, self.other) = (Some((start, path)), Some(last));
            }
            Some(_) => self.other = self.other.max(Some(start)),
            None => self.last = Some((start, path)),
        }
    }

    /// Whether a call of another path starts at this time or later.
    fn has_after(&self, end: i64, path: PathId) -> bool {
        match self.last {
            Some((last, of)) if of != path => last >= end,
            Some(_) => self.other.is_some_and(|other| other >= end),
            None => false,
        }
    }
}

/// The most calls of one caller that are compared one by one.
const MOST_COMPARED: usize = 128;

/// Whether each call that runs at the same time as another one of its caller is followed by a call
/// of a path that is no such other one. `None` for calls that do not overlap any.
fn overlapping(calls: &[ChainCall<'_>], ids: &[PathId]) -> Vec<Option<bool>> {
    let mut found: Vec<Option<bool>> = vec![None; calls.len()];
    // Calls of one caller are nearly always in the order of their starts.
    let mut reached: Vec<i64> = vec![i64::MIN; calls.len()];
    let mut callers: Vec<usize> = Vec::new();
    for call in calls {
        let Some(parent) = call.parent else { continue };
        if call.start_unix_nano < reached[parent] && callers.last() != Some(&parent) {
            callers.push(parent);
        }
        reached[parent] = reached[parent].max(call.end_unix_nano);
    }
    if callers.is_empty() {
        return found;
    }
    callers.sort_unstable();
    callers.dedup();
    let mut called: Vec<Vec<usize>> = vec![Vec::new(); callers.len()];
    for (place, call) in calls.iter().enumerate() {
        let at = call.parent.and_then(|parent| callers.binary_search(&parent).ok());
        if let Some(at) = at {
            called[at].push(place);
        }
    }
    let mut beside: Vec<PathId> = Vec::new();
    for siblings in called.iter().filter(|siblings| siblings.len() <= MOST_COMPARED) {
        for place in siblings {
            let (start, end) = (calls[*place].start_unix_nano, calls[*place].end_unix_nano);
            let others = || siblings.iter().filter(|other| ids[**other] != ids[*place]);
            beside.clear();
            beside.extend(
                others()
                    .filter(|other| {
                        calls[**other].start_unix_nano < end && calls[**other].end_unix_nano > start
                    })
                    .map(|other| ids[*other]),
            );
            if !beside.is_empty() {
                found[*place] = Some(others().any(|other| {
                    calls[*other].start_unix_nano >= end && !beside.contains(&ids[*other])
                }));
            }
        }
    }
    found
}

/// What followed each call: below its caller, and in the whole run.
pub(super) fn follows(calls: &[ChainCall<'_>], ids: &[PathId]) -> Vec<(Follow, Follow)> {
    let mut last: Vec<LastStarts> = vec![LastStarts::default(); calls.len()];
    let mut attempts: AHashMap<(usize, PathId), i64> = AHashMap::new();
    for (place, call) in calls.iter().enumerate() {
        let Some(parent) = call.parent else { continue };
        last[parent].add(call.start_unix_nano, ids[place]);
        let attempt = attempts.entry((parent, ids[place])).or_insert(call.start_unix_nano);
        *attempt = call.start_unix_nano.max(*attempt);
    }
    let overlapping = overlapping(calls, ids);
    let mut found: Vec<(Follow, Follow)> = Vec::with_capacity(calls.len());
    // Whether anything in the run starts after the call.
    let mut later: Vec<bool> = Vec::with_capacity(calls.len());
    for (place, call) in calls.iter().enumerate() {
        let Some(parent) = call.parent else {
            later.push(false);
            found.push(Default::default());
            continue;
        };
        // What ran beside the call, and goes on, does not follow it.
        let followed = overlapping[place]
            .unwrap_or_else(|| last[parent].has_after(call.end_unix_nano, ids[place]));
        let anything = followed || later[parent];
        later.push(anything);
        let is_retried = call.failed && attempts[&(parent, ids[place])] >= call.end_unix_nano;
        // Nobody waits for an asynchronous call, so nothing depends on it here.
        if is_retried || call.asynchronous {
            found.push(Default::default());
            continue;
        }
        let count = |followed: bool, caller: usize| {
            let (followed_once, failed) = (u64::from(followed), u64::from(call.failed));
            let passed_on = call.failed && !followed && calls[caller].failed;
            Follow {
                successes: 1 - failed,
                successes_followed: followed_once * (1 - failed),
                failures: failed,
                failures_followed: followed_once * failed,
                failures_passed_on: u64::from(passed_on),
            }
        };
        let mut root = parent;
        while let Some(above) = calls[root].parent {
            root = above;
        }
        found.push((count(followed, parent), count(anything, root)));
    }
    found
}
