//! The slowest traces that fit, those with most errors, and the largest: of all in the
//! time, not of a page of them.
//!
//! The slowest are found by their longest spans, which the store can put first. How many
//! spans a trace has, and how many failed, is counted: rows go by page by page, newest
//! first, and of each trace a number is kept, so that memory is bounded. What was not
//! reached when a bound stops it, the answer says.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use ahash::{AHashMap, AHashSet};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use spanwise_model::schema::column;
use spanwise_model::{Status, TraceId};
use spanwise_store::{Order, Predicate, Query, TimeRange};

use super::newest::{newest_traces, rows};
use super::{Candidate, Covered, Found, MAX_CANDIDATES, Sort, Wanted, fitting, in_order};
use crate::ApiState;
use crate::problem::Problem;

/// Rows of a page while counting.
const PAGE_ROWS: usize = 250_000;
/// Counting stops after this time, and at so many traces.
const COUNTING: Duration = Duration::from_secs(5);
const MAX_TRACES: usize = 2_000_000;
/// The longest rows that are looked at.
const MAX_LONGEST: usize = 100_000;

pub(super) async fn find(
    state: &ApiState,
    wanted: &Wanted,
    time: TimeRange,
    limit: usize,
    sort: Sort,
) -> Result<Found, Problem> {
    let (candidates, covered) = match sort {
        Sort::Slowest => slowest(state, wanted, time, limit).await?,
        _ => counted(state, wanted, time, sort).await?,
    };
    // What a trace is as a whole may put it before others, so a few more are looked at.
    let most = limit + limit.min(20);
    let (mut found, looked_at) = fitting(state, wanted, &candidates, time, most).await?;
    let mut warnings = Vec::new();
    let stopped = found.len() < limit && looked_at >= MAX_CANDIDATES;
    if !covered.complete || stopped {
        warnings.push(match covered.complete {
            true => format!("the first {looked_at} traces were looked at, of which few fit"),
            false => "not all traces of this time could be compared: the order holds for the time \
                      that `covered` names; choose a shorter time, or ask for less"
                .to_owned(),
        });
    }
    in_order(sort, wanted.names_a_span, &mut found);
    found.truncate(limit);
    Ok(Found {
        summaries: found.into_iter().map(|(_, summary)| summary).collect(),
        covered: Covered { complete: covered.complete && !stopped, ..covered },
        older_end_unix_nano: None,
        warnings,
    })
}

/// The traces with the longest spans, the longest first.
async fn slowest(
    state: &ApiState,
    wanted: &Wanted,
    time: TimeRange,
    limit: usize,
) -> Result<(Vec<Candidate>, Covered), Problem> {
    let most = if wanted.whole.is_anything() { limit * 2 + 20 } else { MAX_CANDIDATES };
    // A trace may last longer than its root: what goes on after the answer is its, too.
    let mut predicate = Predicate { root: false, ..wanted.predicate.clone() };
    if !wanted.names_a_span {
        (predicate.min_duration_nano, predicate.max_duration_nano) = (None, None);
    }
    let (mut found, mut complete) = longest(state, &predicate, time, most).await?;
    if !wanted.names_a_span && predicate.status.is_some() {
        // Of traces that shall have failed, the failed span need not be the longest one.
        let failed = Count::of(state, &predicate, time, None).await?;
        predicate.status = None;
        let (mut all, enough) = longest(state, &predicate, time, MAX_CANDIDATES).await?;
        all.retain(|candidate| failed.traces.contains_key(&candidate.id));
        // Where these are not all, others may be slower than by their failed spans.
        complete &= failed.complete && (enough || all.len() >= limit);
        let known: AHashSet<TraceId> = all.iter().map(|candidate| candidate.id).collect();
        found.retain(|candidate| !known.contains(&candidate.id));
        all.append(&mut found);
        found = all;
    }
    Ok((found, Covered { from_unix_nano: time.from_unix_nano, complete }))
}

/// Traces by the longest of their fitting rows; whether these are all, or as many as
/// are wanted.
async fn longest(
    state: &ApiState,
    predicate: &Predicate,
    time: TimeRange,
    most: usize,
) -> Result<(Vec<Candidate>, bool), Problem> {
    let columns = vec![column::ASSEMBLED_TRACE_ID, column::START_UNIX_NANO, column::DURATION_NANO];
    let predicate = predicate.clone();
    let order = Order::LongestFirst;
    let mut query = Query { predicate, time, columns, limit: most * 3, order };
    loop {
        let batches = state.store.find(&query).await?;
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

/// Rows that failed, of those that fulfil a predicate.
fn failed(predicate: &Predicate) -> Predicate {
    Predicate { status: Some(Status::Error), assembled: true, ..predicate.clone() }
}

/// The traces that have most spans, or most failed ones.
async fn counted(
    state: &ApiState,
    wanted: &Wanted,
    time: TimeRange,
    sort: Sort,
) -> Result<(Vec<Candidate>, Covered), Problem> {
    // What is counted is the whole trace's; what is named is one of its spans.
    let is_narrowed = wanted.names_a_span || wanted.predicate.status.is_some();
    let fitting = match is_narrowed {
        true => Some(Count::of(state, &wanted.predicate, time, None).await?),
        false => None,
    };
    let every = Predicate { assembled: true, ..Predicate::default() };
    let every = if sort == Sort::Errors { failed(&every) } else { every };
    let count = Count::of(state, &every, time, fitting.as_ref()).await?;
    let mut candidates = count.most();
    // Behind those that failed come those that did not.
    if sort == Sort::Errors && candidates.len() < MAX_CANDIDATES {
        let known: AHashSet<TraceId> = candidates.iter().map(|candidate| candidate.id).collect();
        let newest = newest_traces(state, &wanted.predicate, time, MAX_CANDIDATES / 4).await?.0;
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

/// How many rows traces have.
struct Count {
    /// With the newest start of them.
    traces: AHashMap<TraceId, (u32, i64)>,
    /// All rows from here on were counted.
    from_unix_nano: i64,
    complete: bool,
}

impl Count {
    /// Of rows that fulfil a predicate, and whose traces are among others that were
    /// counted before.
    async fn of(
        state: &ApiState,
        predicate: &Predicate,
        time: TimeRange,
        among: Option<&Self>,
    ) -> Result<Self, Problem> {
        let began = Instant::now();
        let columns = vec![column::ASSEMBLED_TRACE_ID, column::START_UNIX_NANO];
        let (predicate, order) = (predicate.clone(), Order::NewestFirst);
        let mut query = Query { predicate, time, columns, limit: PAGE_ROWS, order };
        let mut count =
            Self { traces: AHashMap::new(), from_unix_nano: time.from_unix_nano, complete: true };
        loop {
            let batches = state.store.find(&query).await?;
            let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
            let is_last = found < query.limit;
            let oldest = rows(&batches).map(|(_, start)| start).min().unwrap_or(i64::MIN);
            let newest = rows(&batches).map(|(_, start)| start).max().unwrap_or(i64::MIN);
            // The company of the oldest one comes whole with the next page.
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

    /// The traces with most rows, most first.
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
