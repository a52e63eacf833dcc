//! `GET /api/v1/search`: traces that have a span like this.

use std::collections::HashMap;

use arrow::array::{Array, AsArray, RecordBatch};
use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use serde_json::{Value, json};
use spanwise_analyze::TraceSummary;
use spanwise_assemble::Trace;
use spanwise_model::schema::column;
use spanwise_model::{Span, SpanBatch, Status, TraceId};
use spanwise_store::{Key, Predicate, Query, TimeRange};

use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::{ApiState, json};

const DEFAULT_LIMIT: usize = 20;
const MAX_LIMIT: usize = 500;
/// Rows looked at, at first, per trace wanted: a trace has many.
const ROWS_PER_TRACE: usize = 25;
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
    let (ids, mut more) = newest_traces(&state, predicate, time, candidates).await?;
    let mut summaries = Vec::new();
    // In parts, so that not all candidates are read where the first ones do.
    for ids in ids.chunks(limit) {
        if summaries.len() > limit {
            break;
        }
        let part = summarise(&state, ids, time).await?;
        summaries.extend(part.into_iter().filter(|summary| whole.fits(summary)));
    }
    more |= summaries.len() > limit;
    summaries.truncate(limit);
    summaries.sort_by_key(|summary| std::cmp::Reverse(summary.start_unix_nano));
    Ok(Json(json!({
        "traces": summaries.iter().map(json::summary).collect::<Vec<_>>(),
        "searched": {
            "start_unix_nano": time.from_unix_nano.to_string(),
            "end_unix_nano": time.to_unix_nano.to_string(),
        },
        "more": more,
    })))
}

/// The traces with these ids, summed up, in their order.
async fn summarise(
    state: &ApiState,
    ids: &[TraceId],
    time: TimeRange,
) -> Result<Vec<TraceSummary>, Problem> {
    let around = TimeRange {
        from_unix_nano: time.from_unix_nano.saturating_sub(AROUND_NANO),
        to_unix_nano: time.to_unix_nano.saturating_add(AROUND_NANO),
    };
    let keys: Vec<Key> = ids.iter().map(|id| Key::AssembledTrace(*id)).collect();
    let batches = state.store.find_by_keys(&keys, around).await?;
    let mut traces: HashMap<TraceId, Vec<Span>> = HashMap::new();
    for batch in batches {
        for span in SpanBatch::try_from(batch)?.spans() {
            let span = span?;
            if let Some(id) = span.assembled_trace_id {
                traces.entry(id).or_default().push(span);
            }
        }
    }
    let found = ids.iter().filter_map(|id| traces.remove(id));
    Ok(found.map(|spans| TraceSummary::of(&Trace::of(spans))).collect())
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

/// Ids of the newest traces with a fitting row, and whether there are more.
async fn newest_traces(
    state: &ApiState,
    predicate: Predicate,
    time: TimeRange,
    limit: usize,
) -> Result<(Vec<TraceId>, bool), Problem> {
    let mut rows = (limit * ROWS_PER_TRACE).min(MAX_ROWS);
    loop {
        let query = Query {
            predicate: predicate.clone(),
            time,
            columns: vec![column::ASSEMBLED_TRACE_ID, column::START_UNIX_NANO],
            limit: rows,
        };
        let batches = state.store.find(&query).await?;
        let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let mut ids = distinct_ids(&batches);
        // Fewer rows than asked for: there are no others.
        if ids.len() > limit || found < rows || rows == MAX_ROWS {
            let more = ids.len() > limit || found >= rows;
            ids.truncate(limit);
            return Ok((ids, more));
        }
        rows = (rows * 4).min(MAX_ROWS);
    }
}

fn distinct_ids(batches: &[RecordBatch]) -> Vec<TraceId> {
    let mut seen = std::collections::HashSet::new();
    let mut ids = Vec::new();
    for batch in batches {
        let column = batch.column_by_name(column::ASSEMBLED_TRACE_ID);
        let Some(column) = column.and_then(|column| column.as_fixed_size_binary_opt()) else {
            continue;
        };
        for row in (0..column.len()).filter(|row| column.is_valid(*row)) {
            if let Some(id) = TraceId::from_bytes(column.value(row))
                && seen.insert(id)
            {
                ids.push(id);
            }
        }
    }
    ids
}
