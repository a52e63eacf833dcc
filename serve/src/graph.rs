//! `GET /api/v1/graph`: the service graph.

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Int32Type, Int64Type, UInt16Type};
use axum::extract::{Query as UrlQuery, State};
use axum::response::Json;
use serde_json::Value;
use spanwise_analyze::{Call, Graph};
use spanwise_model::schema::column;
use spanwise_model::{Kind, SpanId, Status};
use spanwise_store::{Order, Predicate, Query};

use crate::parameters::Parameters;
use crate::problem::Problem;
use crate::{ApiState, json};

/// The newest spans that make the graph; where there are more, the answer says so.
const MAX_ROWS: usize = 500_000;
const COLUMNS: &[&str] = &[
    column::SPAN_ID,
    column::ASSEMBLED_PARENT,
    column::SERVICE,
    column::KIND,
    column::CAPTURE,
    column::PROTOCOL,
    column::STATUS,
    column::DURATION_NANO,
    column::CONFIDENCE,
    column::SERVER_ADDRESS,
    column::SERVER_PORT,
    column::START_UNIX_NANO,
];

pub(crate) async fn graph(
    State(state): State<ApiState>,
    UrlQuery(pairs): UrlQuery<Vec<(String, String)>>,
) -> Result<Json<Value>, Problem> {
    let parameters = Parameters::new(pairs);
    parameters.only(&["start", "end"])?;
    let time = parameters.time_range()?;
    let query = Query {
        predicate: Predicate { assembled: true, ..Predicate::default() },
        time,
        columns: COLUMNS.to_vec(),
        limit: MAX_ROWS,
        order: Order::NewestFirst,
    };
    let batches = state.store.find(&query).await?;
    let mut calls = Vec::new();
    let mut seconds = Seconds::default();
    for batch in &batches {
        read(batch, &mut calls, &mut seconds);
    }
    let mut warnings = Vec::new();
    // A rate is over the time that was seen, not over an empty past.
    let now = crate::parameters::now_unix_nano();
    let window = seconds.until(now.min(time.to_unix_nano));
    if calls.len() >= MAX_ROWS {
        warnings.push(format!(
            "only the newest {MAX_ROWS} spans, of the last {window:.0} s, are counted; choose a \
             shorter time for all of them"
        ));
    }
    Ok(Json(json::graph(&Graph::of(&calls), window, &warnings)))
}

/// The time that the rows span.
#[derive(Default)]
struct Seconds {
    earliest_unix_nano: Option<i64>,
}

impl Seconds {
    fn until(&self, end: i64) -> f64 {
        self.earliest_unix_nano.map_or(0.0, |start| end.saturating_sub(start) as f64 / 1e9)
    }
}

/// A dictionary or plain text column of a projected batch.
fn text<'a>(batch: &'a RecordBatch, name: &str) -> Option<impl Fn(usize) -> Option<&'a str> + 'a> {
    let column = batch.column_by_name(name)?;
    let dictionary = column.as_dictionary_opt::<Int32Type>()?;
    let values: &StringArray = dictionary.values().as_string_opt::<i32>()?;
    Some(move |row: usize| {
        let key = dictionary.is_valid(row).then(|| dictionary.keys().value(row))?;
        let key = usize::try_from(key).ok().filter(|key| *key < values.len())?;
        Some(values.value(key))
    })
}

fn read(batch: &RecordBatch, calls: &mut Vec<Call>, seconds: &mut Seconds) {
    let mut rows = || -> Option<()> {
        let ids = batch.column_by_name(column::SPAN_ID)?.as_fixed_size_binary_opt()?;
        let parents = batch.column_by_name(column::ASSEMBLED_PARENT)?.as_fixed_size_binary_opt()?;
        let durations =
            batch.column_by_name(column::DURATION_NANO)?.as_primitive_opt::<Int64Type>()?;
        let starts =
            batch.column_by_name(column::START_UNIX_NANO)?.as_primitive_opt::<Int64Type>()?;
        let confidences =
            batch.column_by_name(column::CONFIDENCE)?.as_primitive_opt::<Float32Type>()?;
        let ports = batch.column_by_name(column::SERVER_PORT)?.as_primitive_opt::<UInt16Type>()?;
        let service = text(batch, column::SERVICE)?;
        let kind = text(batch, column::KIND)?;
        let capture = text(batch, column::CAPTURE)?;
        let protocol = text(batch, column::PROTOCOL)?;
        let status = text(batch, column::STATUS)?;
        let address = text(batch, column::SERVER_ADDRESS)?;
        for row in 0..batch.num_rows() {
            let Some(span_id) = SpanId::from_bytes(ids.value(row)) else { continue };
            let Some(capture) = capture(row).and_then(|text| text.parse().ok()) else { continue };
            let start = starts.value(row);
            let earliest = seconds.earliest_unix_nano.get_or_insert(start);
            *earliest = start.min(*earliest);
            let server = address(row).map(|address| {
                let port = ports.is_valid(row).then(|| format!(":{}", ports.value(row)));
                format!("{address}{}", port.unwrap_or_default())
            });
            calls.push(Call {
                span_id,
                parent: parents
                    .is_valid(row)
                    .then(|| SpanId::from_bytes(parents.value(row)))
                    .flatten(),
                service: service(row).unwrap_or_default().to_owned(),
                kind: kind(row).and_then(|text| text.parse().ok()).unwrap_or(Kind::Internal),
                capture,
                protocol: protocol(row).map(str::to_owned),
                error: status(row) == Some(Status::Error.as_str()),
                duration_nano: durations.value(row),
                confidence: confidences.is_valid(row).then(|| confidences.value(row)),
                server,
            });
        }
        Some(())
    };
    if rows().is_none() {
        tracing::error!("the store returned columns of other types than the span schema's");
    }
}
