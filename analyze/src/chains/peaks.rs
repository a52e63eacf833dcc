//! The highest rates of operations and services that were observed.

use std::collections::BTreeMap;

use ahash::AHashMap;

use super::{ChainCall, Operation, PathId, operation_id};

/// The most counts.
const MAX_COUNTS: usize = 1_000_000;

/// Calls of each operation in each interval of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Peaks {
    /// The length of an interval.
    step_nano: i64,
    operations: AHashMap<PathId, (Operation, BTreeMap<i64, u64>)>,
    counts: usize,
    /// Calls that are not counted because there are too many operations and intervals.
    pub left_out: u64,
}

/// The highest rate, and when.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Peak {
    /// Calls per second in the interval.
    pub per_second: f64,
    /// The start of the interval.
    pub start_unix_nano: i64,
}

impl Peaks {
    /// Counts in intervals of this length.
    pub fn new(step_nano: i64) -> Self {
        Self { step_nano: step_nano.max(1), ..Self::default() }
    }

    /// The length of an interval.
    pub fn step_seconds(&self) -> f64 {
        self.step_nano as f64 / 1e9
    }

    /// Adds the calls of a trace.
    pub fn add_calls(&mut self, calls: &[ChainCall<'_>]) {
        for call in calls {
            let name = || Operation {
                service: call.service.to_owned(),
                operation: call.operation.to_owned(),
            };
            let interval = call.start_unix_nano.div_euclid(self.step_nano);
            let id = operation_id(call.service, call.operation);
            let (_, counts) =
                self.operations.entry(id).or_insert_with(|| (name(), BTreeMap::new()));
            if let Some(count) = counts.get_mut(&interval) {
                *count += 1;
            } else if self.counts >= MAX_COUNTS {
                self.left_out += 1;
            } else {
                counts.insert(interval, 1);
                self.counts += 1;
            }
        }
    }

    /// The peak of each operation.
    pub fn operations(&self) -> BTreeMap<Operation, Peak> {
        let all = self.operations.values();
        all.filter_map(|(name, counts)| Some((name.clone(), self.peak(counts)?))).collect()
    }

    /// The peak of each service, of all its operations together.
    pub fn services(&self) -> BTreeMap<String, Peak> {
        let mut services: BTreeMap<&str, BTreeMap<i64, u64>> = BTreeMap::new();
        for (name, counts) in self.operations.values() {
            let service = services.entry(&name.service).or_default();
            for (interval, count) in counts {
                *service.entry(*interval).or_default() += count;
            }
        }
        let all = services.into_iter();
        all.filter_map(|(name, counts)| Some((name.to_owned(), self.peak(&counts)?))).collect()
    }

    fn peak(&self, counts: &BTreeMap<i64, u64>) -> Option<Peak> {
        let (interval, count) = counts.iter().max_by_key(|(_, count)| **count)?;
        Some(Peak {
            per_second: *count as f64 / self.step_seconds(),
            start_unix_nano: interval.saturating_mul(self.step_nano),
        })
    }
}
