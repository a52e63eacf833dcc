//! Summaries of traces, each the same as the page of the trace shows.

use spanwise_analyze::{Labels, TraceSummary};
use spanwise_assemble::Row;
use spanwise_model::TraceId;
use spanwise_store::{Outline, TimeRange};

use super::Candidate;
use crate::{Queries, QueryError};

impl Queries {
    /// Summaries of these traces, in their order; `None` for one that was deleted meanwhile.
    pub(super) async fn summarise(
        &self,
        candidates: &[Candidate],
        time: TimeRange,
    ) -> Result<Vec<Option<TraceSummary>>, QueryError> {
        let outline = Outline {
            columns: [Row::COLUMNS, Labels::COLUMNS].concat(),
            attributes: Row::ATTRIBUTES.iter().map(|key| (*key).to_owned()).collect(),
        };
        let ids = candidates.iter().map(|candidate| candidate.id);
        let mut gathered = self.gather(ids.clone(), time, Some(&outline)).await?;
        let traces: Vec<_> = ids.map(|id: TraceId| gathered.take(&id)).collect();
        let labels = Labels::of(&gathered.batches)?;
        let summary = |trace| TraceSummary::of(&trace, &labels);
        Ok(traces.into_iter().map(|trace| trace.map(summary)).collect())
    }
}
