//! From a typed question to a typed answer, over any [`Store`].
//!
//! Every query dialect translates its requests into these questions and these answers into
//! its own format; nothing here knows HTTP. To extend the search language, extend
//! [`SpanPredicate`] (what one span must be like; the store evaluates it) or
//! [`TracePredicate`] (what an assembled trace must be like: structure, aggregates).

mod attributes;
mod cause;
mod chains;
pub mod condition;
mod error;
mod forecast;
mod graph;
mod journey;
mod search;
mod services;
mod trace;
pub mod traceql;

use std::sync::Arc;

use spanwise_store::{Deleted, Selection, Store};

pub use attributes::{AttributePlace, AttributeQuery, AttributeTotals, KeyTotal, ValueTotal};
pub use cause::{
    CauseAnswer, CauseAttribute, CauseChange, CauseEvidence, CauseKind, CauseQuery, CauseSuspect,
    CauseTrace,
};
pub use chains::{ObservedRuns, RollupMarks, RollupUpkeep, RollupWork, RunFigures};
pub use error::QueryError;
pub use forecast::RateHistory;
pub use graph::GraphAnswer;
pub use journey::{Journey, JourneyBounds, JourneyQuery, JourneyStep, JourneyTrace};
pub use search::{
    Covered, NextSearch, RowQuery, RowTest, SearchAnswer, SearchQuery, SpanPredicate, TraceOrder,
    TracePredicate, WholeAnswer, WholeQuery,
};
pub use services::{OperationTotal, ServiceTotal};
pub use spanwise_parameters::{MOMENT_FORMS, duration_nano, moment_unix_nano, now_unix_nano};
pub use trace::{PagePosition, PageRange, TraceAnswer, TraceQuery, TraceTree};

use chains::RunCache;
use trace::TraceCache;

/// Answers questions from a store. Clones share the store and the cache of traces.
#[derive(Clone)]
pub struct Queries {
    store: Arc<dyn Store>,
    traces: Arc<TraceCache>,
    runs: Arc<RunCache>,
}

impl Queries {
    /// Queries over this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, traces: Arc::default(), runs: Arc::default() }
    }

    /// Deletes the selected rows, also from the cache.
    ///
    /// # Errors
    /// Where the store cannot delete them.
    pub async fn delete(&self, selection: &Selection) -> Result<Deleted, QueryError> {
        let deleted = self.store.delete(selection).await;
        self.traces.clear();
        Ok(deleted?)
    }
}

/// Runs what takes long on another thread, so that other requests are answered meanwhile.
async fn on_blocking_thread<T: Send + 'static>(
    what: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, QueryError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|source| QueryError::Interrupted { what, source })
}
