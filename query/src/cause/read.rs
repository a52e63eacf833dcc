//! Reads the spans of a window of time, at most so many.

use ahash::{AHashMap, AHashSet};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, UInt16Type, UInt32Type};
use spanwise_analyze::cause::CauseSpan;
use spanwise_analyze::{Name, Names};
use spanwise_model::schema::column;
use spanwise_model::{Kind, ServiceKind, SpanId, Status, TraceId};
use spanwise_store::{Key, Order, Outline, Predicate, Query, TimeRange};

use crate::graph::words;
use crate::{Queries, QueryError, on_blocking_thread};

/// Rows of one service by which its traces are found, and traces that are read, in a window.
const MAX_ROWS_OF_SERVICE: usize = 4_000;
const MAX_TRACES: usize = 400;
/// How far spans of a trace may start outside of the window that one of them is in.
const AROUND_NANO: i64 = 120_000_000_000;

const COLUMNS: &[&str] = &[
    column::SPAN_ID,
    column::ASSEMBLED_TRACE_ID,
    column::ASSEMBLED_PARENT,
    column::SERVICE,
    column::OPERATION,
    column::KIND,
    column::PROTOCOL,
    column::STATUS,
    column::ERROR,
    column::START_UNIX_NANO,
    column::DURATION_NANO,
    column::HOST,
    column::INSTANCE,
    column::RESOURCE,
    column::SERVER_ADDRESS,
    column::SERVER_PORT,
    column::RTT_NANO,
    column::RETRANSMITS,
];

/// What a verdict does not need of a span, but its explanation does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Detail {
    pub(super) trace: TraceId,
    pub(super) protocol: Option<Name>,
    pub(super) error: Option<Name>,
    pub(super) host: Option<Name>,
    /// The pod, or else the instance.
    pub(super) instance: Option<Name>,
    pub(super) version: Option<Name>,
    pub(super) server: Option<(Name, Option<u16>)>,
    pub(super) rtt_nano: Option<i64>,
}

/// Spans, and as many details.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) spans: Vec<CauseSpan>,
    pub(super) details: Vec<Detail>,
    /// There were more than the bound.
    pub(super) cut: bool,
}

impl Rows {
    pub(super) fn extend(&mut self, other: &Self) {
        self.spans.extend_from_slice(&other.spans);
        self.details.extend_from_slice(&other.details);
        self.cut |= other.cut;
    }

    /// Keeps spans of a service, those below them, and the calls that these answer.
    fn keep_below(&mut self, service: Name) {
        let places: AHashMap<SpanId, usize> =
            self.spans.iter().enumerate().map(|(at, span)| (span.span_id, at)).collect();
        let parent = |at: usize| {
            self.spans[at].parent.and_then(|id| places.get(&id).copied()).filter(|to| *to != at)
        };
        // 0: not known yet, 1: below the service, 2: not.
        let mut known: Vec<u8> =
            self.spans.iter().map(|span| u8::from(span.service == service)).collect();
        let mut path = Vec::new();
        for start in 0..self.spans.len() {
            let mut at = start;
            path.clear();
            let found = loop {
                if known[at] != 0 {
                    break known[at];
                }
                // Parents that form a circle lead nowhere.
                known[at] = 2;
                path.push(at);
                match parent(at) {
                    Some(next) => at = next,
                    None => break 2,
                }
            };
            for at in &path {
                known[*at] = found;
            }
        }
        let mut keep: Vec<bool> = known.iter().map(|state| *state == 1).collect();
        let below = known.iter().enumerate().filter(|(_, state)| **state == 1);
        for above in below.filter_map(|(at, _)| parent(at)) {
            keep[above] |= self.spans[above].is_call;
        }
        let mut kept = keep.iter();
        self.spans.retain(|_| kept.next() == Some(&true));
        let mut kept = keep.iter();
        self.details.retain(|_| kept.next() == Some(&true));
    }
}

impl Queries {
    /// Spans that started in a window, the newest `limit`. With a service, its traces in the
    /// window, and of these what is below its spans.
    pub(super) async fn cause_rows(
        &self,
        mut names: Names,
        time: TimeRange,
        limit: usize,
        service: Option<&str>,
    ) -> Result<(Rows, Names), QueryError> {
        let (batches, cut) = match service {
            None => self.newest_to_compare(time, limit).await?,
            Some(service) => self.service_to_compare(service, time).await?,
        };
        let service = service.map(|service| names.name(service));
        on_blocking_thread("reading spans to compare", move || {
            let mut rows = Rows { cut, ..Rows::default() };
            for batch in &batches {
                if read(batch, &mut rows, &mut names).is_none() {
                    tracing::error!("the store returned columns of other types than the schema's");
                }
            }
            if let Some(service) = service {
                rows.keep_below(service);
            }
            (rows, names)
        })
        .await
    }

    async fn newest_to_compare(
        &self,
        time: TimeRange,
        limit: usize,
    ) -> Result<(Vec<RecordBatch>, bool), QueryError> {
        let query = Query {
            predicate: Predicate { assembled: true, ..Predicate::default() },
            time,
            columns: COLUMNS.to_vec(),
            keys: None,
            limit,
            order: Order::NewestFirst,
        };
        let batches = self.store.find(&query).await?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        Ok((batches, rows >= limit))
    }

    async fn service_to_compare(
        &self,
        service: &str,
        time: TimeRange,
    ) -> Result<(Vec<RecordBatch>, bool), QueryError> {
        let service = Some(service.to_owned());
        let query = Query {
            predicate: Predicate { assembled: true, service, ..Predicate::default() },
            time,
            columns: vec![column::ASSEMBLED_TRACE_ID],
            keys: None,
            limit: MAX_ROWS_OF_SERVICE,
            order: Order::NewestFirst,
        };
        let found = self.store.find(&query).await?;
        let rows: usize = found.iter().map(RecordBatch::num_rows).sum();
        let mut traces: AHashSet<TraceId> = AHashSet::new();
        let mut keys = Vec::new();
        for batch in &found {
            let ids = batch.column_by_name(column::ASSEMBLED_TRACE_ID);
            let Some(ids) = ids.and_then(|ids| ids.as_fixed_size_binary_opt()) else { continue };
            let ids = (0..ids.len()).filter(|row| ids.is_valid(*row)).map(|row| ids.value(row));
            for id in ids.filter_map(TraceId::from_bytes) {
                if keys.len() < MAX_TRACES && traces.insert(id) {
                    keys.push(Key::AssembledTrace(id));
                }
            }
        }
        let cut = rows >= MAX_ROWS_OF_SERVICE || keys.len() >= MAX_TRACES;
        if keys.is_empty() {
            return Ok((Vec::new(), false));
        }
        let around = TimeRange {
            from_unix_nano: time.from_unix_nano.saturating_sub(AROUND_NANO),
            to_unix_nano: time.to_unix_nano.saturating_add(AROUND_NANO),
        };
        let outline = Outline { columns: COLUMNS.to_vec(), attributes: Vec::new() };
        Ok((self.store.find_outlines(&keys, around, &outline).await?, cut))
    }
}

/// What is read of a resource.
#[derive(Debug, Clone, Copy, Default)]
struct Resource {
    pod: Option<Name>,
    version: Option<Name>,
}

impl Resource {
    fn read(text: &str, names: &mut Names) -> Self {
        let Ok(serde_json::Value::Object(members)) = serde_json::from_str(text) else {
            return Self::default();
        };
        let mut name = |key: &str| {
            let text = members.get(key)?.as_str()?;
            (!text.is_empty()).then(|| names.name(text))
        };
        Self { pod: name("k8s.pod.name"), version: name("service.version") }
    }
}

/// Appends the rows of a batch; `None` if its columns have other types than the schema's.
fn read(batch: &RecordBatch, rows: &mut Rows, names: &mut Names) -> Option<()> {
    let column = |name| batch.column_by_name(name);
    let ids = column(column::SPAN_ID)?.as_fixed_size_binary_opt()?;
    let traces = column(column::ASSEMBLED_TRACE_ID)?.as_fixed_size_binary_opt()?;
    let parents = column(column::ASSEMBLED_PARENT)?.as_fixed_size_binary_opt()?;
    let starts = column(column::START_UNIX_NANO)?.as_primitive_opt::<Int64Type>()?;
    let durations = column(column::DURATION_NANO)?.as_primitive_opt::<Int64Type>()?;
    let ports = column(column::SERVER_PORT)?.as_primitive_opt::<UInt16Type>()?;
    let trips = column(column::RTT_NANO)?.as_primitive_opt::<Int64Type>()?;
    let retransmits = column(column::RETRANSMITS)?.as_primitive_opt::<UInt32Type>()?;
    let service = words(batch, column::SERVICE, |text| names.name(text))?;
    let operation = words(batch, column::OPERATION, |text| names.name(text))?;
    let protocol = words(batch, column::PROTOCOL, |text| names.name(text))?;
    let error = words(batch, column::ERROR, |text| names.name(text))?;
    let host = words(batch, column::HOST, |text| names.name(text))?;
    let instance = words(batch, column::INSTANCE, |text| names.name(text))?;
    let server = words(batch, column::SERVER_ADDRESS, |text| names.name(text))?;
    let resource = words(batch, column::RESOURCE, |text| Resource::read(text, names))?;
    let kind = words(batch, column::KIND, |text| text.parse::<Kind>().ok())?;
    let failed = words(batch, column::STATUS, |text| text == Status::Error.as_str())?;
    let nameless = names.name("");
    let is_store = |protocol: Option<Name>| {
        let system = protocol.and_then(|protocol| names.system(protocol));
        system.is_some_and(|it| matches!(it.kind, ServiceKind::Database | ServiceKind::Cache))
    };
    for row in 0..batch.num_rows() {
        let Some(span_id) = SpanId::from_bytes(ids.value(row)) else { continue };
        let trace = traces.is_valid(row).then(|| TraceId::from_bytes(traces.value(row))).flatten();
        let Some(trace) = trace else { continue };
        let parent =
            parents.is_valid(row).then(|| SpanId::from_bytes(parents.value(row))).flatten();
        let resource = resource(row).unwrap_or_default();
        let kind = kind(row).flatten();
        rows.spans.push(CauseSpan {
            span_id,
            parent,
            service: service(row).unwrap_or(nameless),
            operation: operation(row).unwrap_or(nameless),
            is_call: matches!(kind, Some(Kind::Client | Kind::Producer)),
            is_stored: kind == Some(Kind::Server) && is_store(protocol(row)),
            start_unix_nano: starts.value(row),
            duration_nano: durations.value(row),
            error: failed(row) == Some(true),
            retransmits: retransmits.is_valid(row).then(|| retransmits.value(row)),
        });
        rows.details.push(Detail {
            trace,
            protocol: protocol(row),
            error: error(row),
            host: host(row),
            instance: resource.pod.or_else(|| instance(row)),
            version: resource.version,
            server: server(row)
                .map(|address| (address, ports.is_valid(row).then(|| ports.value(row)))),
            rtt_nano: trips.is_valid(row).then(|| trips.value(row)),
        });
    }
    Some(())
}
