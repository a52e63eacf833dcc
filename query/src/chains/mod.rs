//! Runs of a time range as chains: read in parts, newest first, until all are read or a bound is
//! reached, which the answer says.

mod cache;
mod read;

use std::sync::Arc;

use spanwise_analyze::bottlenecks::Bottlenecks;
use spanwise_analyze::{Chains, Peaks};
use spanwise_store::TimeRange;

use crate::traceql::Bounds;
use crate::{Queries, QueryError, now_unix_nano};

pub(crate) use cache::RunCache;

/// The runs whose traces started in a range of time.
#[derive(Debug, Clone)]
pub struct ObservedRuns {
    /// Their chains.
    pub chains: Chains,
    /// Where they spend their time, and what they do too often.
    pub bottlenecks: Bottlenecks,
    /// The highest rates of operations and services.
    pub peaks: Peaks,
    /// The range that was asked for.
    pub time: TimeRange,
    /// All runs from here on are counted; the start of the range if none are missing.
    pub from_unix_nano: i64,
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
    ) -> Result<Arc<ObservedRuns>, QueryError> {
        let epoch = self.traces.epoch();
        if let Some(observed) = self.runs.get(time, bounds, epoch) {
            return Ok(observed);
        }
        let observed = Arc::new(self.read_runs(time, bounds).await?);
        self.runs.insert(&observed, bounds, epoch);
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
    ) -> Result<Arc<ObservedRuns>, QueryError> {
        let end = time.to_unix_nano.min(now_unix_nano());
        let length = end.saturating_sub(time.from_unix_nano).max(1);
        let before = TimeRange {
            from_unix_nano: time.from_unix_nano.saturating_sub(length),
            to_unix_nano: time.from_unix_nano,
        };
        self.observed_runs(before, bounds).await
    }
}
