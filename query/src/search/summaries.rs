//! Summaries of traces, each the same as the page of the trace shows.

use spanwise_analyze::{Labels, TraceSummary};
use spanwise_assemble::Row;
use spanwise_model::TraceId;
use spanwise_store::{Outline, TimeRange};

use super::Candidate;
use crate::traceql::FoundTrace;
use crate::{Queries, QueryError};

/// Traces that are read together.
const TOGETHER: usize = 50;

impl Queries {
    /// Summaries of traces that a search in TraceQL found, in their order. One that was deleted
    /// meanwhile is not among them.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn summaries(
        &self,
        found: &[FoundTrace],
        time: TimeRange,
    ) -> Result<Vec<TraceSummary>, QueryError> {
        let starts = |trace: &FoundTrace| trace.start_unix_nanos.cast_signed();
        let ends =
            |trace: &FoundTrace| starts(trace).saturating_add(trace.duration_nanos.cast_signed());
        // A trace may be longer than the range that a span of it was searched in.
        let time = TimeRange {
            from_unix_nano: found.iter().map(starts).fold(time.from_unix_nano, i64::min),
            to_unix_nano: found.iter().map(ends).fold(time.to_unix_nano, i64::max),
        };
        let mut summaries = Vec::with_capacity(found.len());
        for part in found.chunks(TOGETHER) {
            let candidates: Vec<Candidate> = part
                .iter()
                .map(|trace| Candidate { id: trace.id, start_unix_nano: starts(trace), rank: 0 })
                .collect();
            summaries.extend(self.summarise(&candidates, time).await?.into_iter().flatten());
        }
        Ok(summaries)
    }

    /// Summaries of traces that have spans in this time, in their order. One that was deleted
    /// meanwhile is not among them.
    pub(crate) async fn summaries_of(
        &self,
        ids: &[TraceId],
        time: TimeRange,
    ) -> Result<Vec<TraceSummary>, QueryError> {
        let mut summaries = Vec::with_capacity(ids.len());
        for part in ids.chunks(TOGETHER) {
            let candidates: Vec<Candidate> = part
                .iter()
                .map(|id| Candidate { id: *id, start_unix_nano: time.from_unix_nano, rank: 0 })
                .collect();
            summaries.extend(self.summarise(&candidates, time).await?.into_iter().flatten());
        }
        Ok(summaries)
    }

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
