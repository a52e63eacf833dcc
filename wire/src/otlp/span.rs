//! One OTLP span to one row.
//!
//! Not kept: `schema_url`s, entity references, and `flags` (of the sampled bit
//! a stored span says enough).

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span as OtlpSpan, span as otlp};
use spanwise_model::{
    AttributeValue, Attributes, Capture, Event, Kind, Link, Span, SpanId, Status, TraceId,
};

use super::known::Known;
use super::resource::{ResourceFacts, ScopeFacts};
use super::value::attributes;

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

/// The row, and the number of its links that had to be left out.
pub(super) fn to_row(
    span: OtlpSpan,
    resource: &ResourceFacts,
    scope: &ScopeFacts,
) -> Result<(Span, u64), Invalid> {
    let trace_id = TraceId::from_bytes(&span.trace_id).ok_or(Invalid::Trace)?;
    let span_id = SpanId::from_bytes(&span.span_id).ok_or(Invalid::Span)?;
    let parent_span_id = parent(&span.parent_span_id)?;
    let kind = kind(span.kind);
    let start_unix_nano = nanoseconds(span.start_time_unix_nano);
    let duration_nano = duration(span.start_time_unix_nano, span.end_time_unix_nano);
    let events: Vec<Event> = span.events.into_iter().map(event).collect();
    let sent_links = span.links.len();
    let links: Vec<Link> = span.links.into_iter().filter_map(link).collect();
    let dropped_links = (sent_links - links.len()) as u64;
    let mut attributes = attributes(span.attributes);

    let known = Known::new(&attributes);
    let message = span.status.as_ref().map_or("", |status| status.message.as_str());
    let status = status(span.status.as_ref().map_or(0, |status| status.code));
    let error = error(status, &known, &events).map(str::to_owned);
    let (protocol, status_code) = (known.protocol().map(str::to_owned), known.status_code());
    let (flow, x_request_id) = (known.flow(kind), known.x_request_id);

    // The message is the error where nothing names it better; else it is kept
    // under the name that OpenTelemetry gives it outside OTLP.
    let error = match error {
        Some(error) => {
            push_text(&mut attributes, "otel.status_description", message);
            Some(error)
        }
        None if message.is_empty() => None,
        None => Some(message.to_owned()),
    };
    attributes.extend_from_slice(scope.attributes());
    push_count(&mut attributes, "otel.dropped_attributes_count", span.dropped_attributes_count);
    push_count(&mut attributes, "otel.dropped_events_count", span.dropped_events_count);
    push_count(&mut attributes, "otel.dropped_links_count", span.dropped_links_count);

    let row = Span {
        trace_id: Some(trace_id),
        parent_span_id,
        trace_state: Some(span.trace_state).filter(|state| !state.is_empty()),
        instance: resource.instance.clone(),
        protocol,
        status,
        status_code,
        error,
        flow,
        x_request_id,
        host: resource.host.clone(),
        process_id: resource.process_id,
        resource: resource.json.clone(),
        attributes,
        events,
        links,
        ..Span::new(
            span_id,
            Capture::App,
            kind,
            resource.service.as_str(),
            span.name,
            start_unix_nano,
            duration_nano,
        )
    };
    Ok((row, dropped_links))
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
fn error<'a>(status: Status, known: &Known<'a>, events: &'a [Event]) -> Option<&'a str> {
    if status == Status::Error {
        let thrown = || {
            let exception = events.iter().rev().find(|event| event.name == "exception")?;
            let (_, value) =
                exception.attributes.iter().find(|(key, _)| key == "exception.type")?;
            value.as_str()
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

fn event(event: otlp::Event) -> Event {
    let mut attributes = attributes(event.attributes);
    push_count(&mut attributes, "otel.dropped_attributes_count", event.dropped_attributes_count);
    Event { time_unix_nano: nanoseconds(event.time_unix_nano), name: event.name, attributes }
}

fn link(link: otlp::Link) -> Option<Link> {
    let mut attributes = attributes(link.attributes);
    push_count(&mut attributes, "otel.dropped_attributes_count", link.dropped_attributes_count);
    Some(Link {
        trace_id: TraceId::from_bytes(&link.trace_id)?,
        span_id: SpanId::from_bytes(&link.span_id)?,
        trace_state: Some(link.trace_state).filter(|state| !state.is_empty()),
        attributes,
    })
}

fn push_count(attributes: &mut Attributes, key: &str, count: u32) {
    if count > 0 {
        attributes.push((key.to_owned(), AttributeValue::Int(count.into())));
    }
}

fn push_text(attributes: &mut Attributes, key: &str, text: &str) {
    if !text.is_empty() {
        attributes.push((key.to_owned(), text.into()));
    }
}
