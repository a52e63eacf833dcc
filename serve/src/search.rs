//! `GET /api/v1/search`: traces that have a span like this.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use serde_json::{Value, json};
use spanwise_analyze::{Labels, TraceSummary};
use spanwise_assemble::{Row, Trace};
use spanwise_model::schema::column;
use spanwise_model::{Status, TraceId};
use spanwise_store::{Key, Order, Outline, Predicate, Query, TimeRange};

use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::{ApiState, json};

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;
/// Rows looked at, at first, per trace wanted.
const ROWS_PER_TRACE: usize = 3;
const MAX_ROWS: usize = 100_000;
/// Traces looked at where the answer depends on whole traces.
const MAX_CANDIDATES: usize = 2_000;
/// A trace found by one of its spans may reach this far around the range.
const AROUND_NANO: i64 = 3_600_000_000_000;
const PARAMETERS: &[&str] = &[
    "service",
    "operation",
    "min_duration",
    "max_duration",
    "status",
    "attribute",
    "start",
    "end",
    "limit",
];

/// What is asked for: rows that the store can find, and what their traces shall
/// be like, which only shows once they are assembled.
struct Wanted {
    predicate: Predicate,
    whole: Whole,
}

/// What whole traces shall be like.
#[derive(Default)]
struct Whole {
    without_errors: bool,
    min_duration_nano: Option<i64>,
    max_duration_nano: Option<i64>,
}

impl Whole {
    const fn is_anything(&self) -> bool {
        !self.without_errors && self.min_duration_nano.is_none() && self.max_duration_nano.is_none()
    }

    fn fits(&self, summary: &TraceSummary) -> bool {
        (summary.errors == 0 || !self.without_errors)
            && self.min_duration_nano.is_none_or(|least| summary.duration_nano >= least)
            && self.max_duration_nano.is_none_or(|most| summary.duration_nano <= most)
    }
}

pub(crate) async fn search(
    State(state): State<ApiState>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let parameters = Parameters::new(pairs);
    parameters.only(PARAMETERS)?;
    let time = parameters.time_range()?;
    let limit = parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let Wanted { predicate, whole } = wanted(&parameters)?;
    // Some of the traces will not fit as a whole, so more are looked at.
    let candidates = if whole.is_anything() { limit } else { (limit * 10).min(MAX_CANDIDATES) };
    let (found, mut more) = newest_traces(&state, predicate, time, candidates).await?;
    let mut summaries = Vec::new();
    let mut oldest_unix_nano = time.to_unix_nano;
    // In parts, so that not all candidates are read where the first ones do.
    'parts: for part in found.chunks(limit) {
        for (candidate, summary) in part.iter().zip(summarise(&state, part, time).await?) {
            if summaries.len() == limit {
                more = true;
                break 'parts;
            }
            oldest_unix_nano = candidate.start_unix_nano;
            summaries.extend(summary.filter(|summary| whole.fits(summary)));
        }
    }
    summaries.sort_by_key(|summary| std::cmp::Reverse(summary.start_unix_nano));
    Ok(Json(json!({
        "traces": summaries.iter().map(json::summary).collect::<Vec<_>>(),
        "searched": {
            "start_unix_nano": time.from_unix_nano.to_string(),
            "end_unix_nano": time.to_unix_nano.to_string(),
        },
        "older_end_unix_nano": more.then(|| older_end(oldest_unix_nano, time).to_string()),
    })))
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

/// A trace and the start of the row by which it was found.
struct Candidate {
    id: TraceId,
    start_unix_nano: i64,
}

/// These traces summed up, in their order; none for one that is gone meanwhile.
async fn summarise(
    state: &ApiState,
    candidates: &[Candidate],
    time: TimeRange,
) -> Result<Vec<Option<TraceSummary>>, Problem> {
    let around = TimeRange {
        from_unix_nano: time.from_unix_nano.saturating_sub(AROUND_NANO),
        to_unix_nano: time.to_unix_nano.saturating_add(AROUND_NANO),
    };
    let keys: Vec<Key> = candidates.iter().map(|each| Key::AssembledTrace(each.id)).collect();
    let outline = Outline {
        columns: [Row::COLUMNS, Labels::COLUMNS].concat(),
        attributes: Row::ATTRIBUTES.to_vec(),
    };
    let batches = state.store.find_outlines(&keys, around, &outline).await?;
    let mut traces: HashMap<TraceId, Vec<Row>> = HashMap::new();
    for (number, batch) in (0..).zip(&batches) {
        for row in Row::read(number, batch)? {
            if let Some(prior) = row.prior {
                traces.entry(prior.trace_id).or_default().push(row);
            }
        }
    }
    let labels = Labels::of(&batches)?;
    let summary = |rows| TraceSummary::of(&Trace::of(rows), &labels);
    Ok(candidates.iter().map(|each| traces.remove(&each.id).map(summary)).collect())
}

/// Service, operation and attributes name a span, and durations and `error` are
/// then that span's; without them they are the trace's. `ok` is always said of
/// the trace: none of its spans failed.
fn wanted(parameters: &Parameters) -> Result<Wanted, Problem> {
    let (failed, without_errors) = match parameters.text("status") {
        None => (false, false),
        Some("error") => (true, false),
        Some("ok") => (false, true),
        Some(other) => {
            return Err(Problem::invalid(format!("`status` is `{other}`; write error or ok")));
        }
    };
    let min_duration_nano = parameters.duration("min_duration")?;
    let max_duration_nano = parameters.duration("max_duration")?;
    let (service, operation) = (parameters.text("service"), parameters.text("operation"));
    let attributes = parameters.attributes("attribute")?;
    let names_a_span = service.is_some() || operation.is_some() || !attributes.is_empty();
    let mut wanted = Wanted {
        predicate: Predicate {
            service: service.map(str::to_owned),
            operation: operation.map(str::to_owned),
            min_duration_nano,
            max_duration_nano,
            status: failed.then_some(Status::Error),
            attributes,
            assembled: true,
            // One row a trace stands for it, where any will do.
            root: !names_a_span && !failed,
        },
        whole: Whole { without_errors, ..Whole::default() },
    };
    if !names_a_span {
        // Where roots are looked for, the store leaves out most traces that
        // are too short or too long; a failing span's own duration says nothing.
        wanted.whole.min_duration_nano = min_duration_nano;
        wanted.whole.max_duration_nano = max_duration_nano;
        if failed {
            wanted.predicate.min_duration_nano = None;
            wanted.predicate.max_duration_nano = None;
        }
    }
    Ok(wanted)
}

/// The newest traces with a fitting row, newest row first, and whether there are more.
async fn newest_traces(
    state: &ApiState,
    predicate: Predicate,
    time: TimeRange,
    limit: usize,
) -> Result<(Vec<Candidate>, bool), Problem> {
    let mut query = Query {
        predicate,
        time,
        columns: vec![column::ASSEMBLED_TRACE_ID, column::START_UNIX_NANO],
        limit: (limit * ROWS_PER_TRACE).min(MAX_ROWS),
        order: Order::NewestFirst,
    };
    let (mut seen, mut traces, mut left) = (HashSet::new(), Vec::new(), MAX_ROWS);
    loop {
        let before = traces.len();
        let batches = state.store.find(&query).await?;
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

/// Adds the traces of these rows that are new, each by the first of its rows; the
/// oldest start.
fn add(
    batches: &[RecordBatch],
    seen: &mut HashSet<TraceId>,
    traces: &mut Vec<Candidate>,
) -> Option<i64> {
    let mut oldest = None;
    for batch in batches {
        let ids = batch.column_by_name(column::ASSEMBLED_TRACE_ID);
        let starts = batch.column_by_name(column::START_UNIX_NANO);
        let (Some(ids), Some(starts)) = (
            ids.and_then(|column| column.as_fixed_size_binary_opt()),
            starts.and_then(|column| column.as_primitive_opt::<Int64Type>()),
        ) else {
            continue;
        };
        for row in 0..ids.len() {
            let start_unix_nano = starts.value(row);
            oldest =
                Some(oldest.map_or(start_unix_nano, |oldest: i64| oldest.min(start_unix_nano)));
            let id = ids.is_valid(row).then(|| TraceId::from_bytes(ids.value(row))).flatten();
            if let Some(id) = id.filter(|id| seen.insert(*id)) {
                traces.push(Candidate { id, start_unix_nano });
            }
        }
    }
    oldest
}
