//! Searches whose answers are whole traces, as other tracing systems' APIs ask for them.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use spanwise_assemble::TraceRows;
use spanwise_model::TraceId;
use spanwise_store::TimeRange;

use super::query::{SearchPlan, SearchQuery, SpanPredicate, TraceOrder, TracePredicate};
use super::row_test::RowTest;
use super::{Candidate, MAX_CANDIDATES};
use crate::trace::TraceTree;
use crate::{Queries, QueryError, on_blocking_thread};

/// Traces that are read at a time.
const PART: usize = 20;
/// The most spans of an answer.
const MAX_SPANS: usize = 200_000;
/// Traces that are looked at for each of several conditions, which different spans may meet.
const MOST_OF_EACH: usize = 5_000;

/// A search for whole traces, the newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeQuery {
    /// For each of these the trace must have a span that is like one of the alternatives; one
    /// span may be it for several.
    pub spans: Vec<Vec<RowQuery>>,
    /// When these spans must have started.
    pub time: TimeRange,
    /// The most traces.
    pub limit: usize,
}

/// What has been looked at for an answer.
#[derive(Default)]
struct Seen {
    traces: HashSet<TraceId>,
    found: HashSet<TraceId>,
    spans: usize,
}

/// Traces with fitting rows.
struct Found {
    candidates: Vec<Candidate>,
    /// There are more.
    more: bool,
    /// There may be more, which cannot be found.
    stopped: bool,
}

/// What one span must be like.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowQuery {
    /// What the store evaluates.
    pub span: SpanPredicate,
    /// What is evaluated on the rows that it found.
    pub test: RowTest,
}

/// Whole traces.
#[derive(Default)]
pub struct WholeAnswer {
    /// The traces, those whose fitting spans are the newest first.
    pub traces: Vec<TraceTree>,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

impl Queries {
    /// Searches for whole traces. `fits` says of each whether it belongs to the answer.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn whole_traces(
        &self,
        query: &WholeQuery,
        fits: impl Fn(&TraceTree) -> bool,
    ) -> Result<WholeAnswer, QueryError> {
        let mut answer = WholeAnswer::default();
        let mut looked_at = Seen::default();
        // A few more than wanted: some of them may be one trace by now, or may not fit.
        let mut most = query.limit.saturating_add(query.limit.min(PART));
        loop {
            most = most.min(MAX_CANDIDATES);
            let found = self.of_all(query, most).await?;
            self.add_fitting(query, &found.candidates, &fits, &mut looked_at, &mut answer).await?;
            let is_enough = answer.traces.len() >= query.limit;
            let is_full = looked_at.spans >= MAX_SPANS;
            if is_enough || is_full || !found.more || most == MAX_CANDIDATES {
                if is_full && !is_enough {
                    answer.warnings.push(format!(
                        "the first {} traces have {} spans, which is all that an answer may have; \
                         ask for a shorter time",
                        answer.traces.len(),
                        looked_at.spans
                    ));
                } else if !is_enough && (found.more || found.stopped) {
                    answer.warnings.push(format!(
                        "of the traces in this time, {} were looked at, of which {} fit; there may \
                         be others further back: choose a shorter time",
                        looked_at.traces.len(),
                        answer.traces.len()
                    ));
                }
                return Ok(answer);
            }
            most = most.saturating_mul(8);
        }
    }

    /// Adds the candidates that were not looked at before and that fit.
    async fn add_fitting(
        &self,
        query: &WholeQuery,
        candidates: &[Candidate],
        fits: &impl Fn(&TraceTree) -> bool,
        looked_at: &mut Seen,
        answer: &mut WholeAnswer,
    ) -> Result<(), QueryError> {
        let new = |candidate: &&Candidate| !looked_at.traces.contains(&candidate.id);
        let candidates: Vec<Candidate> = candidates.iter().filter(new).copied().collect();
        for part in candidates.chunks(PART.min(query.limit.max(1))) {
            if answer.traces.len() >= query.limit || looked_at.spans >= MAX_SPANS {
                break;
            }
            looked_at.traces.extend(part.iter().map(|candidate| candidate.id));
            for tree in self.trees(part, query.time).await? {
                // Spans that arrived late may have made one trace of two candidates.
                if answer.traces.len() < query.limit
                    && fits(&tree)
                    && looked_at.found.insert(tree.trace.trace_id)
                {
                    looked_at.spans += tree.len();
                    answer.traces.push(tree);
                }
            }
        }
        Ok(())
    }

    /// The traces that have a span for each of the query's conditions, the newest first.
    async fn of_all(&self, query: &WholeQuery, most: usize) -> Result<Found, QueryError> {
        let WholeQuery { spans, time, .. } = query;
        let alone = [vec![RowQuery::default()]];
        let spans = if spans.is_empty() { &alone[..] } else { spans };
        let most_of_each = if spans.len() == 1 { most } else { MOST_OF_EACH };
        let mut common: Option<HashMap<TraceId, Candidate>> = None;
        let (mut more, mut stopped) = (false, false);
        for alternatives in spans {
            let mut found: HashMap<TraceId, Candidate> = HashMap::new();
            for row in alternatives {
                let (traces, more_of_it) = self.rows_like(row, *time, most_of_each).await?;
                // Fewer than wanted were found, and the store has more rows: too many to test.
                stopped |= more_of_it && (traces.len() < most_of_each || spans.len() > 1);
                more |= more_of_it && spans.len() == 1 && traces.len() == most_of_each;
                for candidate in traces {
                    let known = found.entry(candidate.id).or_insert(candidate);
                    known.start_unix_nano = known.start_unix_nano.max(candidate.start_unix_nano);
                }
            }
            if let Some(common) = &common {
                found.retain(|id, candidate| {
                    let Some(other) = common.get(id) else { return false };
                    candidate.start_unix_nano =
                        candidate.start_unix_nano.max(other.start_unix_nano);
                    true
                });
            }
            common = Some(found);
        }
        let mut candidates: Vec<Candidate> = common.unwrap_or_default().into_values().collect();
        candidates
            .sort_unstable_by_key(|candidate| Reverse((candidate.start_unix_nano, candidate.id)));
        candidates.truncate(MAX_CANDIDATES);
        Ok(Found { candidates, more, stopped })
    }

    /// The newest traces with such a row, and whether there are more.
    async fn rows_like(
        &self,
        row: &RowQuery,
        time: TimeRange,
        most: usize,
    ) -> Result<(Vec<Candidate>, bool), QueryError> {
        let RowQuery { span, test } = row;
        let (trace, order) = (TracePredicate::default(), TraceOrder::Newest);
        let query =
            SearchQuery { span: span.clone(), trace, time, order, limit: most, skip: Vec::new() };
        let mut rows = SearchPlan::from(&query).rows;
        // What is tested here may be of any row.
        rows.root &= test.is_empty();
        self.newest_traces(&rows, test, time, most).await
    }

    /// The trees of these traces, in their order, without those that were deleted meanwhile.
    async fn trees(
        &self,
        candidates: &[Candidate],
        time: TimeRange,
    ) -> Result<Vec<TraceTree>, QueryError> {
        let ids: Vec<TraceId> = candidates.iter().map(|candidate| candidate.id).collect();
        let mut gathered = self.gather(ids.iter().copied(), time, None).await?;
        let mut found: Vec<TraceRows> =
            ids.iter().filter_map(|id| gathered.take_rows(id)).collect();
        for rows in &mut found {
            self.link_messages(rows).await?;
        }
        on_blocking_thread("making the trees", move || {
            found.into_iter().map(TraceTree::of).collect::<Result<_, _>>()
        })
        .await?
        .map_err(QueryError::from)
    }
}
