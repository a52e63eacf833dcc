//! Converts one OTLP span to one row.
//!
//! Not stored: `schema_url`s, entity references, and `flags` (the sampled bit is implied for stored
//! spans).

use std::borrow::Cow;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use spanwise_model::{
    AttributeRef, Capture, EmitterPlaces, InnerAttributes, Kind, RowWriter, SpanBatchBuilder,
    SpanId, SpanRef, Status, TraceId,
};

use super::collect::Limits;
use super::known::{FlowRef, Known};
use super::repeats::{Own, SharedPart};
use super::resource::ScopeFacts;
use super::value::{Pair, Value};
use super::view::{EventView, LinkView, SpanView};
use crate::bounds::{LeftOut, NAME_BYTES, SHARED_ATTRIBUTES, dropped};

/// The invalid id because of which a span is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    Trace,
    Span,
    Parent,
}

impl Invalid {
    /// The counter's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Trace => "invalid_trace_id",
            Self::Span => "invalid_span_id",
            Self::Parent => "invalid_parent_span_id",
        }
    }
}

/// Appends the span's row. Returns what was left out.
pub(super) fn append(
    span: &SpanView<'_>,
    emitter: &EmitterPlaces,
    scope: &ScopeFacts,
    limits: &Limits,
    builder: &mut SpanBatchBuilder,
) -> Result<LeftOut, Invalid> {
    let mut left_out = LeftOut::default();
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
    // The message becomes the error if there is no more specific one. Otherwise it is stored under
    // OpenTelemetry's name for other formats.
    row.error = named.or(message);
    let cut = if is_too_long(&row) { Some(TruncatedTexts::new(&row, &mut left_out)) } else { None };
    let row = cut.as_ref().map_or(row, |cut| cut.of(row));

    let attributes = first(&span.attributes, limits.span_attributes);
    let events = first(&span.events, limits.span_events);
    let links = first(&span.links, limits.span_links);
    let gone = [
        span.attributes.len() - attributes.len() + span.attributes_beyond,
        span.events.len() - events.len() + span.events_beyond,
        span.links.len() - links.len() + span.links_beyond,
    ]
    .map(|gone| gone as u64);
    let mut row = builder.begin(&row, emitter);
    for pair in attributes {
        left_out.attribute(pair.key, pair.value.as_ref(), |key, value| row.attribute(key, value));
    }
    if let (Some(_), Some(message)) = (named, message) {
        let message = left_out.text(message);
        row.attribute("otel.status_description", AttributeRef::String(&message));
    }
    row.attributes(scope.attributes());
    let counts = [
        (dropped::ATTRIBUTES, span.dropped_attributes_count, gone[0]),
        (dropped::EVENTS, span.dropped_events_count, gone[1]),
        (dropped::LINKS, span.dropped_links_count, gone[2]),
    ];
    for (key, before, gone) in counts {
        if before > 0 || gone > 0 {
            row.attribute(key, count(u64::from(before) + gone));
        }
    }
    left_out.attributes += gone[0];
    left_out.events += gone[1];
    left_out.links += gone[2];
    for event in events {
        append_event(&mut row, span, event, &mut left_out);
    }
    append_links(&mut row, span, links, &mut left_out);
    Ok(left_out)
}

fn first<T>(all: &[T], most: usize) -> &[T] {
    all.get(..most).unwrap_or(all)
}

fn count(count: u64) -> AttributeRef<'static> {
    AttributeRef::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

/// Whether a column's text exceeds its limit.
fn is_too_long(row: &SpanRef<'_>) -> bool {
    let is_long = |text: Option<&str>| text.is_some_and(|text| text.len() > NAME_BYTES);
    row.operation.len() > NAME_BYTES
        || is_long(row.error)
        || is_long(row.trace_state)
        || is_long(row.protocol)
        || is_long(row.client_address)
        || is_long(row.server_address)
        || is_long(row.x_request_id)
}

/// The truncated texts of the columns.
struct TruncatedTexts<'a> {
    operation: Cow<'a, str>,
    texts: [Option<Cow<'a, str>>; 6],
}

impl<'a> TruncatedTexts<'a> {
    fn new(row: &SpanRef<'a>, left_out: &mut LeftOut) -> Self {
        Self {
            operation: left_out.name(row.operation),
            texts: [
                row.error.map(|text| left_out.text(text)),
                row.trace_state.map(|text| left_out.text(text)),
                row.protocol.map(|text| left_out.name(text)),
                row.client_address.map(|text| left_out.name(text)),
                row.server_address.map(|text| left_out.name(text)),
                row.x_request_id.map(|text| left_out.name(text)),
            ],
        }
    }

    fn of<'b>(&'b self, row: SpanRef<'b>) -> SpanRef<'b> {
        let [error, trace_state, protocol, client_address, server_address, x_request_id] =
            self.texts.each_ref().map(Option::as_deref);
        SpanRef {
            operation: &self.operation,
            error,
            trace_state,
            protocol,
            client_address,
            server_address,
            x_request_id,
            ..row
        }
    }
}

/// Appends the row of a recognised span, which has no events, links or status message. Returns
/// `false` and appends nothing if the builder does not know its template.
pub(super) fn append_repeated(
    span: &SpanView<'_>,
    like: &SharedPart,
    own: &Own<'_>,
    emitter: &EmitterPlaces,
    builder: &mut SpanBatchBuilder,
) -> Result<bool, Invalid> {
    let known = like.known(own);
    let flow = known.flow_ref(kind(span.kind));
    let row = row(span, &known, &flow)?;
    Ok(!is_too_long(&row) && builder.push_known(like.template, &row, emitter, own.values()))
}

/// The columns other than attributes.
fn row<'a>(
    span: &'a SpanView<'_>,
    known: &'a Known<'_>,
    flow: &'a FlowRef<'_>,
) -> Result<SpanRef<'a>, Invalid> {
    let status = match status(span.status_code) {
        Status::Unset if span.old_status_code != 0 => Status::Error,
        status => status,
    };
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

fn append_event(
    row: &mut RowWriter<'_>,
    span: &SpanView<'_>,
    event: &EventView<'_>,
    left_out: &mut LeftOut,
) {
    let name = left_out.name(event.name);
    let attributes = row.event(nanoseconds(event.time_unix_nano), &name);
    let pairs = &span.inner[event.attributes.clone()];
    append_inner(attributes, pairs, event.dropped_attributes_count, left_out);
}

fn append_links(
    row: &mut RowWriter<'_>,
    span: &SpanView<'_>,
    links: &[LinkView<'_>],
    left_out: &mut LeftOut,
) {
    for link in links {
        let ids = TraceId::from_bytes(link.trace_id).zip(SpanId::from_bytes(link.span_id));
        let Some((trace_id, span_id)) = ids else {
            left_out.invalid_links += 1;
            continue;
        };
        let state = Some(link.trace_state).filter(|state| !state.is_empty());
        let state = state.map(|state| left_out.text(state));
        let attributes = row.link(trace_id, span_id, state.as_deref());
        let pairs = &span.inner[link.attributes.clone()];
        append_inner(attributes, pairs, link.dropped_attributes_count, left_out);
    }
}

/// Appends the attributes of an event or a link.
fn append_inner(
    mut attributes: InnerAttributes<'_>,
    pairs: &[Pair<'_>],
    dropped_before: u32,
    left_out: &mut LeftOut,
) {
    let kept = first(pairs, SHARED_ATTRIBUTES);
    for pair in kept {
        left_out.attribute(pair.key, pair.value.as_ref(), |key, value| {
            attributes.attribute(key, value);
        });
    }
    let gone = (pairs.len() - kept.len()) as u64;
    left_out.attributes += gone;
    if dropped_before > 0 || gone > 0 {
        attributes.attribute(dropped::ATTRIBUTES, count(u64::from(dropped_before) + gone));
    }
}

fn parent(bytes: &[u8]) -> Result<Option<SpanId>, Invalid> {
    match bytes.len() {
        // Zero means none, too, because some senders always set the field.
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
        // `trace.proto`: unspecified may be treated as internal.
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

/// The name of the error. A recorded exception is no error if the span did not fail, because it was
/// handled.
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

/// Times after the year 2262 are capped.
fn nanoseconds(unix_nano: u64) -> i64 {
    i64::try_from(unix_nano).unwrap_or(i64::MAX)
}

/// Negative if the clock jumped; zero if no end was sent.
fn duration(start_unix_nano: u64, end_unix_nano: u64) -> i64 {
    if end_unix_nano == 0 {
        return 0;
    }
    let difference = i128::from(end_unix_nano) - i128::from(start_unix_nano);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}
