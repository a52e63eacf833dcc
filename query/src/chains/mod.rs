//! Runs of a time range as chains: from rollups as far as there are, and from spans otherwise.
//! Spans are read in parts, newest first, until all are read or a bound is reached, which the answer
//! says.

mod cache;
mod read;
mod rollups;
mod upkeep;

use std::sync::Arc;

use spanwise_analyze::bottlenecks::Bottlenecks;
use spanwise_analyze::{Chains, Peaks, ShapeId};
use spanwise_store::TimeRange;

use crate::traceql::Bounds;
use crate::{Queries, QueryError, now_unix_nano};

pub(crate) use cache::RunCache;
pub use upkeep::{RollupMarks, RollupUpkeep, RollupWork};

/// Which runs are asked for, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RunQuestion {
    time: TimeRange,
    bounds: Bounds,
    what: RunFigures,
}

/// What is asked about runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunFigures {
    /// Everything. It is read from spans.
    Everything,
    /// Chains of all runs, without bottlenecks and peaks. Rollups have them.
    Chains,
    /// The same, only of the entrance that has a chain with this shape.
    ChainsWith(ShapeId),
}

/// The runs whose traces started in a range of time.
#[derive(Debug, Clone)]
pub struct ObservedRuns {
    /// Their chains.
    pub chains: Chains,
    /// Where they spend their time, and what they do too often.
    pub bottlenecks: Bottlenecks,
    /// The highest rates of operations and services.
    pub peaks: Peaks,
    /// The range that was asked for. Where rollups were used, it begins and ends with one of them.
    pub time: TimeRange,
    /// All runs from here on are counted; the start of the range if none are missing.
    pub from_unix_nano: i64,
    /// All runs, if `chains` has only those of one entrance.
    pub all_runs: Option<u64>,
    /// Of all runs, those that were counted in rollups.
    pub runs_of_rollups: u64,
    /// Rollups to which spans came later, and that are not corrected yet.
    pub outdated_rollups: usize,
    /// The length of time that rates are computed over: from the first run on.
    pub window_seconds: f64,
    /// Traces that were looked at.
    pub traces: usize,
    /// Their spans.
    pub spans: usize,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

impl ObservedRuns {
    /// All runs, also those of entrances that are not in `chains`.
    pub fn runs(&self) -> u64 {
        self.all_runs.unwrap_or_else(|| self.chains.runs())
    }

    /// The length of the range up to now; `None` if not all of it was read.
    pub fn whole_seconds(&self) -> Option<f64> {
        let end = self.time.to_unix_nano.min(now_unix_nano());
        let length = end.saturating_sub(self.time.from_unix_nano).max(0) as f64 / 1e9;
        (self.from_unix_nano == self.time.from_unix_nano).then_some(length)
    }
}

impl Queries {
    /// The runs of traces that started in this time. An answer to the same question is used again
    /// for a short time.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn observed_runs(
        &self,
        time: TimeRange,
        bounds: Bounds,
        what: RunFigures,
    ) -> Result<Arc<ObservedRuns>, QueryError> {
        let question = RunQuestion { time, bounds, what };
        let epoch = self.traces.epoch();
        if let Some(observed) = self.runs.get(question, epoch) {
            return Ok(observed);
        }
        let of_rollups = match what {
            RunFigures::Everything => None,
            RunFigures::Chains => self.rolled_up_runs(time, bounds, None).await?,
            RunFigures::ChainsWith(shape) => self.rolled_up_runs(time, bounds, Some(shape)).await?,
        };
        let observed = match of_rollups {
            Some(observed) => observed,
            // All other questions about the same time have the same answer.
            None if what != RunFigures::Everything => {
                let all = self.observed_runs(time, bounds, RunFigures::Everything);
                return Box::pin(all).await;
            }
            None => self.read_runs(time, bounds).await?,
        };
        let observed = Arc::new(observed);
        // What is being corrected is soon out of date.
        if observed.outdated_rollups == 0 {
            self.runs.insert(&observed, question, epoch);
        }
        Ok(observed)
    }

    /// The runs of the period before, which is as long.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn observed_runs_before(
        &self,
        time: TimeRange,
        bounds: Bounds,
        what: RunFigures,
    ) -> Result<Arc<ObservedRuns>, QueryError> {
        let end = time.to_unix_nano.min(now_unix_nano());
        let length = end.saturating_sub(time.from_unix_nano).max(1);
        let before = TimeRange {
            from_unix_nano: time.from_unix_nano.saturating_sub(length),
            to_unix_nano: time.from_unix_nano,
        };
        self.observed_runs(before, bounds, what).await
    }
}
