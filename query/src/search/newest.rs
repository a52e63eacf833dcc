//! The newest traces.

use std::collections::HashSet;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use spanwise_model::TraceId;
use spanwise_model::schema::column;
use spanwise_store::{Order, Predicate, Query, TimeRange};

use super::query::SearchPlan;
use super::row_test::RowTest;
use super::{Candidate, Covered, MAX_CANDIDATES, NextSearch, SearchAnswer, sort};
use crate::{Queries, QueryError};

/// Rows that are read first for each requested trace.
const ROWS_PER_TRACE: usize = 3;
const MAX_ROWS: usize = 100_000;
/// Traces of one nanosecond that a continued search passes over.
const MAX_SKIPPED: usize = 200;

impl Queries {
    pub(super) async fn newest(&self, plan: &SearchPlan) -> Result<SearchAnswer, QueryError> {
        let SearchPlan { time, limit, .. } = *plan;
        // Some of the traces may not fit as a whole, so more are examined.
        let most = if plan.trace.is_empty() { limit } else { (limit * 10).min(MAX_CANDIDATES) };
        let most = most + plan.skip.len();
        let (mut candidates, more) =
            self.newest_traces(&plan.rows, &RowTest::default(), time, most).await?;
        candidates.retain(|candidate| !plan.skip.contains(&candidate.id));
        let (mut found, examined) = self.fitting(plan, &candidates, limit).await?;
        let more = more || examined < candidates.len();
        let oldest_unix_nano = examined
            .checked_sub(1)
            .map_or(time.to_unix_nano, |last| candidates[last].start_unix_nano);
        let older_end_unix_nano = more.then(|| older_end(oldest_unix_nano, time));
        let next = more.then(|| next(plan, &candidates[..examined], oldest_unix_nano));
        // All rows start at the same nanosecond: further rows of it may be skipped.
        let may_skip =
            examined > 0 && older_end_unix_nano.is_some_and(|end| end <= oldest_unix_nano);
        let covered = Covered {
            from_unix_nano: if more { oldest_unix_nano } else { time.from_unix_nano },
            complete: !more || (found.len() == limit && !may_skip),
        };
        let mut warnings = Vec::new();
        if may_skip {
            warnings.push(format!(
                "more than {examined} traces have spans that start at the very same nanosecond \
                 ({oldest_unix_nano}), and older answers may lack some of them: raise `limit`, or \
                 narrow the search"
            ));
        } else if !covered.complete {
            warnings.push(format!(
                "of the traces in this time, {examined} were looked at, of which {} fit; there may \
                 be others further back",
                found.len()
            ));
        }
        sort(plan, &mut found);
        Ok(SearchAnswer {
            traces: found.into_iter().map(|(_, summary)| summary).collect(),
            covered,
            older_end_unix_nano,
            next,
            warnings,
            advice: Vec::new(),
        })
    }

    /// The newest traces with a fitting row, by their newest row, and whether there are more.
    /// Rows must also pass `test`, which is evaluated here.
    pub(super) async fn newest_traces(
        &self,
        predicate: &Predicate,
        test: &RowTest,
        time: TimeRange,
        limit: usize,
    ) -> Result<(Vec<Candidate>, bool), QueryError> {
        let mut columns = vec![column::ASSEMBLED_TRACE_ID, column::START_UNIX_NANO];
        columns.extend(test.columns());
        let max_rows = test.max_rows().unwrap_or(MAX_ROWS);
        let mut query = Query {
            predicate: predicate.clone(),
            time,
            columns,
            keys: None,
            // Of rows that are tested here few may pass.
            limit: test.max_rows().unwrap_or(limit * ROWS_PER_TRACE).min(max_rows),
            order: Order::NewestFirst,
        };
        let (mut seen, mut traces, mut left) = (HashSet::new(), Vec::new(), max_rows);
        loop {
            let before = traces.len();
            let batches = self.store.find(&query).await?;
            let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let oldest_unix_nano = add(&batches, test, &mut seen, &mut traces);
            left = left.saturating_sub(found);
            // The store has no other rows.
            let is_all = found < query.limit;
            if traces.len() > limit || is_all || left == 0 {
                let more = traces.len() > limit || !is_all;
                traces.truncate(limit);
                return Ok((traces, more));
            }
            // Continue from the oldest row. The rows that start at the same nanosecond are
            // found again, and may be more than were requested.
            if let Some(oldest) = oldest_unix_nano {
                query.time.to_unix_nano = query.time.to_unix_nano.min(oldest.saturating_add(1));
            }
            // Estimate from the rows of the traces so far, and double it: each further request
            // costs much. If there was no new trace, many rows start at one nanosecond.
            let rows_per_trace = (max_rows - left).div_ceil(traces.len().max(1));
            let estimate = (limit + 1 - traces.len()) * rows_per_trace * 2;
            let more = if traces.len() > before { estimate } else { query.limit * 3 };
            query.limit = more.min(max_rows);
        }
    }
}

/// The end of the range in which the search continues. Rows that start at the same nanosecond
/// as the last row are found again rather than lost, unless that would be the same search.
fn older_end(oldest_unix_nano: i64, time: TimeRange) -> i64 {
    let with_company = oldest_unix_nano.saturating_add(1);
    if with_company < time.to_unix_nano {
        with_company
    } else {
        // A row may start at the last nanosecond that there is.
        oldest_unix_nano.min(time.to_unix_nano.saturating_sub(1))
    }
}

/// Where the search continues, if it does behind these candidates.
fn next(plan: &SearchPlan, examined: &[Candidate], oldest_unix_nano: i64) -> NextSearch {
    let end_unix_nano = oldest_unix_nano.saturating_add(1);
    let at_end = examined.iter().rev().take_while(|it| it.start_unix_nano == oldest_unix_nano);
    let mut skip: Vec<TraceId> = at_end.map(|candidate| candidate.id).collect();
    if end_unix_nano == plan.time.to_unix_nano {
        skip.extend(&plan.skip);
    }
    if skip.is_empty() || skip.len() > MAX_SKIPPED {
        let end_unix_nano = older_end(oldest_unix_nano, plan.time);
        return NextSearch { end_unix_nano, skip: Vec::new() };
    }
    NextSearch { end_unix_nano, skip }
}

/// Adds the new traces of these rows, each with its first row. Returns the oldest start.
fn add(
    batches: &[RecordBatch],
    test: &RowTest,
    seen: &mut HashSet<TraceId>,
    traces: &mut Vec<Candidate>,
) -> Option<i64> {
    let mut oldest = None;
    for batch in batches {
        let test = test.of(batch);
        for (row, (id, start_unix_nano)) in rows(std::slice::from_ref(batch)).enumerate() {
            let so_far = oldest.unwrap_or(start_unix_nano);
            oldest = Some(start_unix_nano.min(so_far));
            let Some(id) = id.filter(|id| !seen.contains(id) && test.passes(row)) else { continue };
            seen.insert(id);
            traces.push(Candidate { id, start_unix_nano, rank: start_unix_nano });
        }
    }
    oldest
}

/// The trace and the start of each row.
pub(crate) fn rows(batches: &[RecordBatch]) -> impl Iterator<Item = (Option<TraceId>, i64)> {
    batches.iter().flat_map(|batch| {
        let ids = batch
            .column_by_name(column::ASSEMBLED_TRACE_ID)
            .and_then(|column| column.as_fixed_size_binary_opt());
        let starts = batch
            .column_by_name(column::START_UNIX_NANO)
            .and_then(|column| column.as_primitive_opt::<Int64Type>());
        ids.zip(starts).into_iter().flat_map(|(ids, starts)| {
            (0..ids.len()).map(move |row| {
                let id = ids.is_valid(row).then(|| TraceId::from_bytes(ids.value(row))).flatten();
                (id, starts.value(row))
            })
        })
    })
}
