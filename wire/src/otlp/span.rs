//! One OTLP span to one row.
//!
//! Not kept: `schema_url`s, entity references, and `flags` (of the sampled bit
//! a stored span says enough).

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use spanwise_model::{
    AttributeRef, Capture, EmitterPlaces, Kind, RowWriter, SpanBatchBuilder, SpanId, SpanRef,
    Status, TraceId,
};

use super::known::{FlowRef, Known};
use super::repeats::{Own, Repeated};
use super::resource::ScopeFacts;
use super::value::Value;
use super::view::{EventView, SpanView};

/// Which id makes that a span is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    Trace,
    Span,
    Parent,
}

impl Invalid {
    /// Its counter's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Trace => "invalid_trace_id",
            Self::Span => "invalid_span_id",
            Self::Parent => "invalid_parent_span_id",
        }
    }
}

/// Appends the span's row; the number of its links that had to be left out.
pub(super) fn append(
    span: &SpanView<'_>,
    emitter: &EmitterPlaces,
    scope: &ScopeFacts,
    builder: &mut SpanBatchBuilder,
) -> Result<u64, Invalid> {
    let mut known = Known::default();
    for pair in &span.attributes {
        if let Some(note) = pair.note {
            note(&mut known, pair.value.as_ref());
        }
    }
    let flow = known.flow_ref(kind(span.kind));
    let message = Some(span.status_message).filter(|message| !message.is_empty());
    let mut row = row(span, &known, &flow)?;
    let named = row.error;
    // The message is the error where nothing names it better; else it is kept under
    // the name that OpenTelemetry gives it outside OTLP.
    row.error = named.or(message);

    let mut row = builder.begin(&row, emitter);
    for pair in &span.attributes {
        row.attribute(pair.key, pair.value.as_ref());
    }
    if let (Some(_), Some(message)) = (named, message) {
        row.attribute("otel.status_description", AttributeRef::String(message));
    }
    row.attributes(scope.attributes());
    let counts = [
        (DROPPED_ATTRIBUTES, span.dropped_attributes_count),
        ("otel.dropped_events_count", span.dropped_events_count),
        ("otel.dropped_links_count", span.dropped_links_count),
    ];
    for (key, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        row.attribute(key, AttributeRef::Int(count.into()));
    }
    for event in &span.events {
        append_event(&mut row, span, event);
    }
    Ok(append_links(&mut row, span))
}

/// Appends the row of a span like others, which has neither events nor links, and no
/// status message; `false`, and there is none, where the builder does not know them.
pub(super) fn append_repeated(
    span: &SpanView<'_>,
    like: &Repeated,
    own: &Own<'_>,
    emitter: &EmitterPlaces,
    builder: &mut SpanBatchBuilder,
) -> Result<bool, Invalid> {
    let known = like.known(own);
    let flow = known.flow_ref(kind(span.kind));
    let row = row(span, &known, &flow)?;
    Ok(builder.push_known(like.template, &row, emitter, own.values()))
}

/// The columns that are no attributes.
fn row<'a>(
    span: &'a SpanView<'_>,
    known: &'a Known<'_>,
    flow: &'a FlowRef<'_>,
) -> Result<SpanRef<'a>, Invalid> {
    let status = status(span.status_code);
    Ok(SpanRef {
        trace_id: Some(TraceId::from_bytes(span.trace_id).ok_or(Invalid::Trace)?),
        span_id: SpanId::from_bytes(span.span_id).ok_or(Invalid::Span)?,
        parent_span_id: parent(span.parent_span_id)?,
        trace_state: Some(span.trace_state).filter(|state| !state.is_empty()),
        start_unix_nano: nanoseconds(span.start_time_unix_nano),
        duration_nano: duration(span.start_time_unix_nano, span.end_time_unix_nano),
        operation: span.name,
        kind: kind(span.kind),
        protocol: known.protocol(),
        status,
        status_code: known.status_code(),
        error: error(status, known, span),
        capture: Capture::App,
        client_address: flow.client_address.as_deref(),
        client_port: flow.client_port,
        server_address: flow.server_address.as_deref(),
        server_port: flow.server_port,
        x_request_id: known.x_request_id.as_deref(),
    })
}

const DROPPED_ATTRIBUTES: &str = "otel.dropped_attributes_count";

fn append_event(row: &mut RowWriter<'_>, span: &SpanView<'_>, event: &EventView<'_>) {
    let mut attributes = row.event(nanoseconds(event.time_unix_nano), event.name);
    for pair in &span.inner[event.attributes.clone()] {
        attributes.attribute(pair.key, pair.value.as_ref());
    }
    if event.dropped_attributes_count > 0 {
        let count = AttributeRef::Int(event.dropped_attributes_count.into());
        attributes.attribute(DROPPED_ATTRIBUTES, count);
    }
}

/// Returns how many were left out because their ids are wrong.
fn append_links(row: &mut RowWriter<'_>, span: &SpanView<'_>) -> u64 {
    let mut dropped = 0;
    for link in &span.links {
        let ids = TraceId::from_bytes(link.trace_id).zip(SpanId::from_bytes(link.span_id));
        let Some((trace_id, span_id)) = ids else {
            dropped += 1;
            continue;
        };
        let state = Some(link.trace_state).filter(|state| !state.is_empty());
        let mut attributes = row.link(trace_id, span_id, state);
        for pair in &span.inner[link.attributes.clone()] {
            attributes.attribute(pair.key, pair.value.as_ref());
        }
        if link.dropped_attributes_count > 0 {
            let count = AttributeRef::Int(link.dropped_attributes_count.into());
            attributes.attribute(DROPPED_ATTRIBUTES, count);
        }
    }
    dropped
}

fn parent(bytes: &[u8]) -> Result<Option<SpanId>, Invalid> {
    match bytes.len() {
        // All zero stands for none, too: some senders fill the field always.
        0 | SpanId::LEN => Ok(SpanId::from_bytes(bytes)),
        _ => Err(Invalid::Parent),
    }
}

fn kind(number: i32) -> Kind {
    match SpanKind::try_from(number) {
        Ok(SpanKind::Server) => Kind::Server,
        Ok(SpanKind::Client) => Kind::Client,
        Ok(SpanKind::Producer) => Kind::Producer,
        Ok(SpanKind::Consumer) => Kind::Consumer,
        // `trace.proto`: unspecified may be taken as internal.
        Ok(SpanKind::Internal | SpanKind::Unspecified) | Err(_) => Kind::Internal,
    }
}

fn status(number: i32) -> Status {
    match StatusCode::try_from(number) {
        Ok(StatusCode::Ok) => Status::Ok,
        Ok(StatusCode::Error) => Status::Error,
        Ok(StatusCode::Unset) | Err(_) => Status::Unset,
    }
}

/// The name of what failed. An exception that was recorded on a span which did
/// not fail was handled, and is no error.
fn error<'a>(status: Status, known: &'a Known<'_>, span: &'a SpanView<'_>) -> Option<&'a str> {
    if status == Status::Error {
        let thrown = || {
            let exception = span.events.iter().rev().find(|event| event.name == "exception")?;
            let attributes = &span.inner[exception.attributes.clone()];
            match attributes.iter().find(|pair| pair.key == "exception.type")?.value {
                Value::Text(text) => Some(text),
                _ => None,
            }
        };
        known.exception_type.or_else(thrown).or(known.error_type)
    } else {
        known.error_type
    }
}

/// Times past the year 2262 stay there.
fn nanoseconds(unix_nano: u64) -> i64 {
    i64::try_from(unix_nano).unwrap_or(i64::MAX)
}

/// Negative where the clock jumped; zero where no end was sent.
fn duration(start_unix_nano: u64, end_unix_nano: u64) -> i64 {
    if end_unix_nano == 0 {
        return 0;
    }
    let difference = i128::from(end_unix_nano) - i128::from(start_unix_nano);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}
