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

pub(crate) async fn search(
    State(state): State<ApiState>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let parameters = Parameters::new(pairs);
    parameters.only(PARAMETERS)?;
    let time = parameters.time_range()?;
    let limit = parameters.count("limit", DEFAULT_LIMIT, MAX_LIMIT)?;
    let predicate = predicate(&parameters)?;
    let (ids, more) = newest_traces(&state, predicate, time, limit).await?;
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
    let mut summaries: Vec<TraceSummary> = ids
        .iter()
        .filter_map(|id| traces.remove(id))
        .map(|spans| TraceSummary::of(&Trace::of(spans)))
        .collect();
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

fn predicate(parameters: &Parameters) -> Result<Predicate, Problem> {
    let status = match parameters.text("status") {
        None => None,
        Some("error") => Some(Status::Error),
        Some("ok") => Some(Status::Ok),
        Some(other) => {
            return Err(Problem::invalid(format!("`status` is `{other}`; write error or ok")));
        }
    };
    let (service, operation) = (parameters.text("service"), parameters.text("operation"));
    let mut predicate = Predicate {
        service: service.map(str::to_owned),
        operation: operation.map(str::to_owned),
        min_duration_nano: parameters.duration("min_duration")?,
        max_duration_nano: parameters.duration("max_duration")?,
        status,
        attributes: parameters.attributes("attribute")?,
        assembled: true,
        root: false,
    };
    // Without a service or operation, durations and status are those of traces.
    let names_a_span = service.is_some() || operation.is_some() || !predicate.attributes.is_empty();
    predicate.root = !names_a_span && predicate.status != Some(Status::Error);
    Ok(predicate)
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
