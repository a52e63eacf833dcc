//! The slowest traces, those with most errors, and the largest, of all traces of the range.
//!
//! The slowest traces are found by their longest spans, which the store can return first. For
//! the other orders the rows of every trace are counted, page by page, the newest first. Only a
//! number is kept for each trace, so memory is bounded. If counting reaches a limit, the answer
//! says which part of the range was covered.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use ahash::{AHashMap, AHashSet};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use spanwise_model::schema::column;
use spanwise_model::{Status, TraceId};
use spanwise_store::{Order, Predicate, Query, TimeRange};

use super::newest::rows;
use super::query::SearchPlan;
use super::row_test::RowTest;
use super::{Candidate, Covered, MAX_CANDIDATES, SearchAnswer, TraceOrder, sort};
use crate::{Queries, QueryError};

/// Rows of a page while counting.
const PAGE_ROWS: usize = 250_000;
/// Counting stops after this time, or at this number of traces.
const COUNTING: Duration = Duration::from_secs(5);
const MAX_TRACES: usize = 2_000_000;
/// The most of the longest rows that are read.
const MAX_LONGEST: usize = 100_000;

impl Queries {
    /// The first traces in an order other than that of their starts.
    pub(super) async fn ranked(&self, plan: &SearchPlan) -> Result<SearchAnswer, QueryError> {
        let limit = plan.limit;
        let (candidates, covered) = match plan.order {
            TraceOrder::Slowest => self.slowest(plan).await?,
            _ => self.counted(plan).await?,
        };
        // The rank of the row and that of the whole trace differ, so a few more are examined.
        let most = limit + limit.min(20);
        let (mut found, examined) = self.fitting(plan, &candidates, most).await?;
        let mut warnings = Vec::new();
        let stopped = found.len() < limit && examined >= MAX_CANDIDATES;
        if !covered.complete || stopped {
            warnings.push(match covered.complete {
                true => format!("the first {examined} traces were looked at, of which few fit"),
                false => {
                    "not all traces of this time could be compared: the order holds for the time \
                     that `covered` names; choose a shorter time, or ask for less"
                        .to_owned()
                }
            });
        }
        sort(plan, &mut found);
        found.truncate(limit);
        Ok(SearchAnswer {
            traces: found.into_iter().map(|(_, summary)| summary).collect(),
            covered: Covered { complete: covered.complete && !stopped, ..covered },
            older_end_unix_nano: None,
            next: None,
            warnings,
            advice: Vec::new(),
        })
    }

    /// The traces with the longest spans, the longest first.
    async fn slowest(&self, plan: &SearchPlan) -> Result<(Vec<Candidate>, Covered), QueryError> {
        let SearchPlan { time, limit, .. } = *plan;
        let most = if plan.trace.is_empty() { limit * 2 + 20 } else { MAX_CANDIDATES };
        // A trace may last longer than its root: work may continue after the answer.
        let mut predicate = Predicate { root: false, ..plan.rows.clone() };
        if !plan.names_a_span {
            (predicate.min_duration_nano, predicate.max_duration_nano) = (None, None);
        }
        let (mut found, mut complete) = self.longest(&predicate, time, most).await?;
        if !plan.names_a_span && predicate.status.is_some() {
            // The failed span of a trace need not be its longest span.
            let failed = self.count(&predicate, time, None).await?;
            predicate.status = None;
            let (mut all, enough) = self.longest(&predicate, time, MAX_CANDIDATES).await?;
            all.retain(|candidate| failed.traces.contains_key(&candidate.id));
            // If these are not all traces, others may be slower than their failed spans.
            complete &= failed.complete && (enough || all.len() >= limit);
            let known: AHashSet<TraceId> = all.iter().map(|candidate| candidate.id).collect();
            found.retain(|candidate| !known.contains(&candidate.id));
            all.append(&mut found);
            found = all;
        }
        Ok((found, Covered { from_unix_nano: time.from_unix_nano, complete }))
    }

    /// Traces by the longest of their fitting rows, and whether these are all, or as many as
    /// requested.
    async fn longest(
        &self,
        predicate: &Predicate,
        time: TimeRange,
        most: usize,
    ) -> Result<(Vec<Candidate>, bool), QueryError> {
        let columns =
            vec![column::ASSEMBLED_TRACE_ID, column::START_UNIX_NANO, column::DURATION_NANO];
        let predicate = predicate.clone();
        let order = Order::LongestFirst;
        let mut query = Query { predicate, time, columns, keys: None, limit: most * 3, order };
        loop {
            let batches = self.store.find(&query).await?;
            let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let durations = batches.iter().flat_map(|batch| {
                let durations = batch
                    .column_by_name(column::DURATION_NANO)
                    .and_then(|column| column.as_primitive_opt::<Int64Type>());
                durations.into_iter().flat_map(|durations| durations.values().iter().copied())
            });
            let mut seen = AHashSet::new();
            let candidates: Vec<Candidate> = rows(&batches)
                .zip(durations)
                .filter_map(|((id, start_unix_nano), rank)| {
                    let id = id.filter(|id| seen.insert(*id))?;
                    Some(Candidate { id, start_unix_nano, rank })
                })
                .collect();
            let is_enough = candidates.len() >= most || found < query.limit;
            if is_enough || query.limit >= MAX_LONGEST {
                return Ok((candidates, is_enough));
            }
            query.limit = (query.limit * 8).min(MAX_LONGEST);
        }
    }

    /// The traces that have most spans, or most failed ones.
    async fn counted(&self, plan: &SearchPlan) -> Result<(Vec<Candidate>, Covered), QueryError> {
        let time = plan.time;
        // All rows of a trace are counted, also if the search names one of its spans.
        let is_narrowed = plan.names_a_span || plan.rows.status.is_some();
        let fitting = match is_narrowed {
            true => Some(self.count(&plan.rows, time, None).await?),
            false => None,
        };
        let every = Predicate { assembled: true, ..Predicate::default() };
        let every = if plan.order == TraceOrder::MostErrors { failed(&every) } else { every };
        let count = self.count(&every, time, fitting.as_ref()).await?;
        let mut candidates = count.most();
        // Traces without errors come after those with errors.
        if plan.order == TraceOrder::MostErrors && candidates.len() < MAX_CANDIDATES {
            let known: AHashSet<TraceId> =
                candidates.iter().map(|candidate| candidate.id).collect();
            let any = RowTest::default();
            let newest = self.newest_traces(&plan.rows, &any, time, MAX_CANDIDATES / 4).await?.0;
            let others = newest.into_iter().filter(|candidate| !known.contains(&candidate.id));
            candidates.extend(others.map(|candidate| Candidate { rank: 0, ..candidate }));
        }
        let of_fitting = fitting.as_ref().map_or(time.from_unix_nano, |count| count.from_unix_nano);
        let covered = Covered {
            from_unix_nano: count.from_unix_nano.max(of_fitting),
            complete: count.complete && fitting.is_none_or(|count| count.complete),
        };
        Ok((candidates, covered))
    }

    /// Counts, by trace, the rows that fulfil a predicate. `among` restricts it to traces that
    /// were counted before.
    async fn count(
        &self,
        predicate: &Predicate,
        time: TimeRange,
        among: Option<&Count>,
    ) -> Result<Count, QueryError> {
        let began = Instant::now();
        let columns = vec![column::ASSEMBLED_TRACE_ID, column::START_UNIX_NANO];
        let (predicate, order) = (predicate.clone(), Order::NewestFirst);
        let mut query = Query { predicate, time, columns, keys: None, limit: PAGE_ROWS, order };
        let mut count =
            Count { traces: AHashMap::new(), from_unix_nano: time.from_unix_nano, complete: true };
        loop {
            let batches = self.store.find(&query).await?;
            let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let is_last = found < query.limit;
            let oldest = rows(&batches).map(|(_, start)| start).min().unwrap_or(i64::MIN);
            let newest = rows(&batches).map(|(_, start)| start).max().unwrap_or(i64::MIN);
            // All rows that start with the oldest one are counted with the next page.
            let is_whole = is_last || oldest == newest;
            for (id, start) in rows(&batches) {
                let Some(id) = id.filter(|_| is_whole || start > oldest) else { continue };
                if among.is_none_or(|among| among.traces.contains_key(&id)) {
                    let (rows, newest) = count.traces.entry(id).or_insert((0, start));
                    *rows = rows.saturating_add(1);
                    *newest = start.max(*newest);
                }
            }
            if is_last {
                return Ok(count);
            }
            count.from_unix_nano = if is_whole { oldest } else { oldest.saturating_add(1) };
            count.complete = oldest != newest && count.complete;
            if began.elapsed() >= COUNTING || count.traces.len() >= MAX_TRACES {
                count.complete = false;
                return Ok(count);
            }
            query.time.to_unix_nano = count.from_unix_nano;
        }
    }
}

/// The predicate, for failed rows only.
fn failed(predicate: &Predicate) -> Predicate {
    Predicate { status: Some(Status::Error), assembled: true, ..predicate.clone() }
}

/// The number of rows of traces.
struct Count {
    /// The number of rows, and their newest start.
    traces: AHashMap<TraceId, (u32, i64)>,
    /// All rows from here on were counted.
    from_unix_nano: i64,
    complete: bool,
}

impl Count {
    /// The traces with most rows, in that order.
    fn most(&self) -> Vec<Candidate> {
        let mut all: Vec<Candidate> = self
            .traces
            .iter()
            .map(|(&id, &(rows, start_unix_nano))| Candidate {
                id,
                start_unix_nano,
                rank: rows.into(),
            })
            .collect();
        let by = |candidate: &Candidate| {
            Reverse((candidate.rank, candidate.start_unix_nano, candidate.id))
        };
        if all.len() > MAX_CANDIDATES {
            all.select_nth_unstable_by_key(MAX_CANDIDATES, by);
            all.truncate(MAX_CANDIDATES);
        }
        all.sort_unstable_by_key(by);
        all
    }
}
