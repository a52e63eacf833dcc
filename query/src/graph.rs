//! The service graph.

use arrow::array::{Array, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Int32Type, Int64Type, UInt16Type, UInt32Type};
use spanwise_analyze::{Around, Call, CallNetwork, Graph, Names, Steps};
use spanwise_model::schema::column;
use spanwise_model::{Capture, Kind, SpanId, Status};
use spanwise_store::{Order, Predicate, Query, TimeRange};

use crate::{Queries, QueryError, now_unix_nano, on_blocking_thread};

/// The most spans of a graph, the newest; if there are more, the answer says so.
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
    column::RETRANSMITS,
    column::CONNECT_NANO,
    column::RTT_NANO,
];

/// The service graph over a range of time.
#[derive(Debug, Clone)]
pub struct GraphAnswer {
    /// The graph.
    pub graph: Graph,
    /// The length of time that rates are computed over.
    pub window_seconds: f64,
    /// The steps in which the network of calls was counted, if they were asked for.
    pub steps: Option<Steps>,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

impl Queries {
    /// The service graph of the spans that started in this time.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn graph(&self, time: TimeRange) -> Result<GraphAnswer, QueryError> {
        self.graph_of(time, None).await
    }

    /// The part of the service graph that is of one service. Where `steps` is not 0, the network
    /// of its calls is counted in so many steps.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn graph_around(
        &self,
        time: TimeRange,
        service: String,
        steps: usize,
    ) -> Result<GraphAnswer, QueryError> {
        let TimeRange { from_unix_nano, to_unix_nano } = time;
        let steps = (steps > 0).then_some(Steps { from_unix_nano, to_unix_nano, count: steps });
        self.graph_of(time, Some((service, steps))).await
    }

    async fn graph_of(
        &self,
        time: TimeRange,
        around: Option<(String, Option<Steps>)>,
    ) -> Result<GraphAnswer, QueryError> {
        let query = Query {
            predicate: Predicate { assembled: true, ..Predicate::default() },
            time,
            columns: COLUMNS.to_vec(),
            keys: None,
            limit: MAX_ROWS,
            order: Order::NewestFirst,
        };
        let batches = self.store.find(&query).await?;
        // Half a million spans would delay every other request on this thread.
        on_blocking_thread("making the graph", move || GraphAnswer::of(&batches, time, around))
            .await
    }
}

impl GraphAnswer {
    fn of(
        batches: &[RecordBatch],
        time: TimeRange,
        around: Option<(String, Option<Steps>)>,
    ) -> Self {
        let mut calls = Vec::new();
        let mut names = Names::default();
        let mut seconds = Seconds::default();
        for batch in batches {
            read(batch, &mut calls, &mut names, &mut seconds);
        }
        let mut warnings = Vec::new();
        // A rate is over the time of the spans, not over the empty time before them.
        let window_seconds = seconds.until(now_unix_nano().min(time.to_unix_nano));
        if calls.len() >= MAX_ROWS {
            warnings.push(format!(
                "only the newest {MAX_ROWS} spans, of the last {window_seconds:.0} s, are counted; \
                 choose a shorter time for all of them"
            ));
        }
        let steps = around.as_ref().and_then(|(_, steps)| *steps);
        let graph = match &around {
            Some((service, steps)) => {
                Graph::around(calls, &names, Around { service, steps: *steps })
            }
            None => Graph::of(calls, &names),
        };
        Self { graph, window_seconds, steps, warnings }
    }
}

/// The range of time of the rows.
#[derive(Default)]
struct Seconds {
    earliest_unix_nano: Option<i64>,
}

impl Seconds {
    fn until(&self, end: i64) -> f64 {
        self.earliest_unix_nano.map_or(0.0, |start| end.saturating_sub(start) as f64 / 1e9)
    }
}

/// A dictionary column. Each distinct text is converted once.
pub(crate) fn words<'a, T: Copy + 'a>(
    batch: &'a RecordBatch,
    name: &str,
    mut read: impl FnMut(&str) -> T,
) -> Option<impl Fn(usize) -> Option<T> + 'a> {
    let column = batch.column_by_name(name)?;
    let dictionary = column.as_dictionary_opt::<Int32Type>()?;
    let values: &StringArray = dictionary.values().as_string_opt::<i32>()?;
    let read: Vec<Option<T>> = values.iter().map(|text| text.map(&mut read)).collect();
    Some(move |row: usize| {
        let key = dictionary.is_valid(row).then(|| dictionary.keys().value(row))?;
        usize::try_from(key).ok().and_then(|key| read.get(key).copied())?
    })
}

fn read(batch: &RecordBatch, calls: &mut Vec<Call>, names: &mut Names, seconds: &mut Seconds) {
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
        let retransmits =
            batch.column_by_name(column::RETRANSMITS)?.as_primitive_opt::<UInt32Type>()?;
        let nanos = |name| batch.column_by_name(name)?.as_primitive_opt::<Int64Type>();
        let (connects, round_trips) = (nanos(column::CONNECT_NANO)?, nanos(column::RTT_NANO)?);
        let service = words(batch, column::SERVICE, |text| names.name(text))?;
        let protocol = words(batch, column::PROTOCOL, |text| names.name(text))?;
        let address = words(batch, column::SERVER_ADDRESS, |text| names.name(text))?;
        let nameless = names.name("");
        let kind = words(batch, column::KIND, |text| text.parse::<Kind>().ok())?;
        let capture = words(batch, column::CAPTURE, |text| text.parse::<Capture>().ok())?;
        let error = words(batch, column::STATUS, |text| text == Status::Error.as_str())?;
        for row in 0..batch.num_rows() {
            let Some(span_id) = SpanId::from_bytes(ids.value(row)) else { continue };
            let Some(capture) = capture(row).flatten() else { continue };
            let start = starts.value(row);
            let earliest = seconds.earliest_unix_nano.get_or_insert(start);
            *earliest = start.min(*earliest);
            calls.push(Call {
                span_id,
                parent: parents
                    .is_valid(row)
                    .then(|| SpanId::from_bytes(parents.value(row)))
                    .flatten(),
                start_unix_nano: start,
                service: service(row).unwrap_or(nameless),
                kind: kind(row).flatten().unwrap_or(Kind::Internal),
                capture,
                protocol: protocol(row),
                error: error(row) == Some(true),
                duration_nano: durations.value(row),
                confidence: confidences.is_valid(row).then(|| confidences.value(row)),
                server: address(row)
                    .map(|address| (address, ports.is_valid(row).then(|| ports.value(row)))),
                network: retransmits.is_valid(row).then(|| CallNetwork {
                    retransmits: retransmits.value(row),
                    connect_nano: connects.is_valid(row).then(|| connects.value(row)),
                    rtt_nano: round_trips.is_valid(row).then(|| round_trips.value(row)),
                }),
            });
        }
        Some(())
    };
    if rows().is_none() {
        tracing::error!("the store returned columns of other types than the span schema's");
    }
}
