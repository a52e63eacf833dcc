//! The newest traces that fit.

use std::collections::HashSet;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use spanwise_model::TraceId;
use spanwise_model::schema::column;
use spanwise_store::{Order, Predicate, Query, TimeRange};

use super::query::SearchPlan;
use super::{Candidate, Covered, MAX_CANDIDATES, SearchAnswer, sort};
use crate::{Queries, QueryError};

/// Rows looked at, at first, per trace wanted.
const ROWS_PER_TRACE: usize = 3;
const MAX_ROWS: usize = 100_000;

impl Queries {
    pub(super) async fn newest(&self, plan: &SearchPlan) -> Result<SearchAnswer, QueryError> {
        let SearchPlan { time, limit, .. } = *plan;
        // Some of the traces may not fit as a whole, so more are looked at.
        let most = if plan.trace.is_empty() { limit } else { (limit * 10).min(MAX_CANDIDATES) };
        let (candidates, more) = self.newest_traces(&plan.rows, time, most).await?;
        let (mut found, examined) = self.fitting(plan, &candidates, limit).await?;
        let more = more || examined < candidates.len();
        let oldest_unix_nano = examined
            .checked_sub(1)
            .map_or(time.to_unix_nano, |last| candidates[last].start_unix_nano);
        let older_end_unix_nano = more.then(|| older_end(oldest_unix_nano, time));
        // A whole answer of one nanosecond: what else starts at it may be passed over.
        let passed_over =
            examined > 0 && older_end_unix_nano.is_some_and(|end| end <= oldest_unix_nano);
        let covered = Covered {
            from_unix_nano: if more { oldest_unix_nano } else { time.from_unix_nano },
            complete: !more || (found.len() == limit && !passed_over),
        };
        let mut warnings = Vec::new();
        if passed_over {
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
            warnings,
            advice: Vec::new(),
        })
    }

    /// The newest traces with a fitting row, newest row first, and whether there are more.
    pub(super) async fn newest_traces(
        &self,
        predicate: &Predicate,
        time: TimeRange,
        limit: usize,
    ) -> Result<(Vec<Candidate>, bool), QueryError> {
        let mut query = Query {
            predicate: predicate.clone(),
            time,
            columns: vec![column::ASSEMBLED_TRACE_ID, column::START_UNIX_NANO],
            limit: (limit * ROWS_PER_TRACE).min(MAX_ROWS),
            order: Order::NewestFirst,
        };
        let (mut seen, mut traces, mut left) = (HashSet::new(), Vec::new(), MAX_ROWS);
        loop {
            let before = traces.len();
            let batches = self.store.find(&query).await?;
            let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let oldest_unix_nano = add(&batches, &mut seen, &mut traces);
            left = left.saturating_sub(found);
            // Fewer rows than asked for: there are no others.
            let is_all = found < query.limit;
            if traces.len() > limit || is_all || left == 0 {
                let more = traces.len() > limit || !is_all;
                traces.truncate(limit);
                return Ok((traces, more));
            }
            // On from the oldest one, whose company at the same nanosecond is found
            // again, and may be more than were asked for.
            if let Some(oldest) = oldest_unix_nano {
                query.time.to_unix_nano = query.time.to_unix_nano.min(oldest.saturating_add(1));
            }
            // As many rows as those of so many traces have been so far, and as much again:
            // each row is read from another place. Where there was only company, all of
            // it may be more yet.
            let rows_per_trace = (MAX_ROWS - left).div_ceil(traces.len().max(1));
            let estimate = (limit + 1 - traces.len()) * rows_per_trace * 2;
            let more = if traces.len() > before { estimate } else { query.limit * 3 };
            query.limit = more.min(MAX_ROWS);
        }
    }
}

/// The `end` with which the search goes on where this answer stops. The last
/// row's company at the very same nanosecond is found again rather than lost,
/// unless that would be the same search.
fn older_end(oldest_unix_nano: i64, time: TimeRange) -> i64 {
    let with_company = oldest_unix_nano.saturating_add(1);
    if with_company < time.to_unix_nano {
        with_company
    } else {
        // A row may start at the very last nanosecond of all.
        oldest_unix_nano.min(time.to_unix_nano.saturating_sub(1))
    }
}

/// Adds the traces of these rows that are new, each by the first of its rows; the
/// oldest start.
fn add(
    batches: &[RecordBatch],
    seen: &mut HashSet<TraceId>,
    traces: &mut Vec<Candidate>,
) -> Option<i64> {
    let mut oldest = None;
    for (id, start_unix_nano) in rows(batches) {
        oldest = Some(oldest.map_or(start_unix_nano, |oldest: i64| oldest.min(start_unix_nano)));
        if let Some(id) = id.filter(|id| seen.insert(*id)) {
            traces.push(Candidate { id, start_unix_nano, rank: start_unix_nano });
        }
    }
    oldest
}

/// The trace and the start of each row.
pub(super) fn rows(batches: &[RecordBatch]) -> impl Iterator<Item = (Option<TraceId>, i64)> {
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
