//! Traces that have a span with certain properties.

mod advice;
mod newest;
mod query;
mod ranked;
mod row_test;
mod summaries;
mod whole;

use std::cmp::Reverse;
use std::collections::HashMap;

use spanwise_analyze::TraceSummary;
use spanwise_model::TraceId;

use crate::{Queries, QueryError};
use query::SearchPlan;

pub(crate) use newest::rows;

pub use query::{
    Covered, NextSearch, SearchAnswer, SearchQuery, SpanPredicate, TraceOrder, TracePredicate,
};
pub use row_test::RowTest;
pub use whole::{RowQuery, WholeAnswer, WholeQuery};

/// The most traces that are examined if the answer depends on whole traces.
const MAX_CANDIDATES: usize = 2_000;

/// A trace, and a row by which it was found.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    id: TraceId,
    start_unix_nano: i64,
    /// Its rank in the order of the search.
    rank: i64,
}

/// The traces of an answer before their order is final, each with the rank of its row.
type RankedSummaries = Vec<(i64, TraceSummary)>;

impl Queries {
    /// Searches for traces.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn search(&self, query: &SearchQuery) -> Result<SearchAnswer, QueryError> {
        let plan = SearchPlan::from(query);
        let mut answer = match plan.order {
            TraceOrder::Newest => self.newest(&plan).await?,
            _ => self.ranked(&plan).await?,
        };
        if answer.traces.is_empty() {
            answer.advice = self.advice(&plan).await?;
        }
        Ok(answer)
    }

    /// Summaries of the candidates whose traces meet the plan's predicate, until there are
    /// `limit`; also how many candidates were examined.
    async fn fitting(
        &self,
        plan: &SearchPlan,
        candidates: &[Candidate],
        limit: usize,
    ) -> Result<(RankedSummaries, usize), QueryError> {
        let mut summaries: RankedSummaries = Vec::new();
        let mut positions: HashMap<TraceId, usize> = HashMap::new();
        let mut examined = 0;
        // In parts, so that not all candidates are read where the first ones do.
        for part in candidates.chunks(limit) {
            for (candidate, summary) in part.iter().zip(self.summarise(part, plan.time).await?) {
                if summaries.len() == limit {
                    return Ok((summaries, examined));
                }
                examined += 1;
                let Some(summary) = summary.filter(|summary| plan.trace.holds(summary)) else {
                    continue;
                };
                // Spans that arrived late may have made one trace of two candidates.
                match positions.get(&summary.trace_id) {
                    Some(position) if summaries[*position].1.spans < summary.spans => {
                        summaries[*position].1 = summary;
                    }
                    Some(_) => {}
                    None => {
                        positions.insert(summary.trace_id, summaries.len());
                        summaries.push((candidate.rank, summary));
                    }
                }
            }
        }
        Ok((summaries, examined))
    }
}

/// Sorts summaries in the plan's order.
fn sort(plan: &SearchPlan, summaries: &mut [(i64, TraceSummary)]) {
    summaries.sort_by_key(|(rank, summary)| {
        let rank = match plan.order {
            TraceOrder::Newest => summary.start_unix_nano,
            TraceOrder::Slowest if plan.names_a_span => *rank,
            TraceOrder::Slowest => summary.duration_nano,
            TraceOrder::MostErrors => i64::try_from(summary.errors).unwrap_or(i64::MAX),
            TraceOrder::MostSpans => i64::try_from(summary.spans).unwrap_or(i64::MAX),
        };
        Reverse((rank, summary.start_unix_nano))
    });
}
