//! Traces as OTLP.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as OtlpSpan, Status as OtlpStatus, TracesData,
};
use prost::Message as _;
use spanwise_model::{AttributeValue, Attributes, Kind, ModelError, Status, TraceId};
use spanwise_query::TraceTree;

use super::placed::{self, PlacedSpan, Reading, STATUS_DESCRIPTION};

/// What attributes of other formats say of the scope begins so.
const SCOPE: &str = "otel.scope.";
/// Counts of what was left out, as other formats name them.
const DROPPED_ATTRIBUTES: &str = "otel.dropped_attributes_count";
const DROPPED_EVENTS: &str = "otel.dropped_events_count";
const DROPPED_LINKS: &str = "otel.dropped_links_count";

/// What is nested deeper is a text. Decoders of Protocol Buffers refuse what is 100 deep, and a
/// level of a map is three of theirs.
const MAX_DEPTH: usize = 24;

/// A part is about this large. Clients take four times as much in one message.
pub(crate) const PART_BYTES: usize = 1 << 20;

/// Gives a trace, under this id, to `send` in parts.
///
/// # Errors
/// Where a row is no span.
pub(crate) fn parts(
    tree: &TraceTree,
    id: TraceId,
    reading: Reading,
    mut send: impl FnMut(TracesData),
) -> Result<(), ModelError> {
    let mut part = Part::default();
    for placed in placed::spans(tree, reading) {
        part.add(placed?, id);
        if part.bytes >= PART_BYTES {
            send(std::mem::take(&mut part).all);
        }
    }
    if !part.all.resource_spans.is_empty() {
        send(part.all);
    }
    Ok(())
}

/// A whole trace under its own id, as it was assembled. `complete` may add to each span.
///
/// # Errors
/// Where a row is no span.
pub(crate) fn whole(
    tree: &TraceTree,
    complete: impl Fn(&mut spanwise_model::Span),
) -> Result<TracesData, ModelError> {
    let mut part = Part::default();
    for placed in placed::spans(tree, Reading::Assembled) {
        let mut placed = placed?;
        complete(&mut placed.span);
        part.add(placed, tree.trace.trace_id);
    }
    Ok(part.all)
}

/// A part of a trace.
#[derive(Default)]
struct Part {
    all: TracesData,
    /// Of each resource, and each scope below it, the place.
    resources: HashMap<(String, String), usize>,
    scopes: HashMap<(usize, String), usize>,
    bytes: usize,
}

impl Part {
    fn add(&mut self, placed: PlacedSpan, id: TraceId) {
        let Self { all, resources, scopes, bytes } = self;
        let of = (placed.span.resource.as_str().to_owned(), placed.span.service.clone());
        let at = *resources.entry(of).or_insert_with(|| {
            let attributes = placed::resource(&placed.span.resource, &placed.span.service);
            let (attributes, [dropped]) = without_counts(attributes, [DROPPED_ATTRIBUTES]);
            let resource = Resource {
                attributes: key_values(attributes),
                dropped_attributes_count: dropped,
                ..Resource::default()
            };
            *bytes += resource.encoded_len();
            all.resource_spans
                .push(ResourceSpans { resource: Some(resource), ..ResourceSpans::default() });
            all.resource_spans.len() - 1
        });
        let (span, scope) = span(placed, id);
        let scope_spans = &mut all.resource_spans[at].scope_spans;
        let place = *scopes.entry((at, format!("{scope:?}"))).or_insert_with(|| {
            scope_spans.push(ScopeSpans { scope: Some(scope), ..ScopeSpans::default() });
            scope_spans.len() - 1
        });
        *bytes += span.encoded_len();
        scope_spans[place].spans.push(span);
    }
}

/// A span and its scope.
fn span(placed: PlacedSpan, trace_id: TraceId) -> (OtlpSpan, InstrumentationScope) {
    let message = placed.status_message().unwrap_or_default().to_owned();
    let PlacedSpan { span, id, parent, .. } = placed;
    let mut scope = InstrumentationScope::default();
    let mut of_span = Attributes::with_capacity(span.attributes.len());
    for (key, value) in span.attributes {
        match key.strip_prefix(SCOPE) {
            Some("name") => scope.name = value.to_string(),
            Some("version") => scope.version = value.to_string(),
            Some(other) => scope.attributes.push(key_value(other.to_owned(), value)),
            None if key == STATUS_DESCRIPTION => {}
            None => of_span.push((key, value)),
        }
    }
    let (attributes, [dropped_attributes, dropped_events, dropped_links]) =
        without_counts(of_span, [DROPPED_ATTRIBUTES, DROPPED_EVENTS, DROPPED_LINKS]);
    let start = nanoseconds(span.start_unix_nano);
    let span = OtlpSpan {
        trace_id: trace_id.0.to_vec(),
        span_id: id.0.to_vec(),
        trace_state: span.trace_state.unwrap_or_default(),
        parent_span_id: parent.map(|parent| parent.0.to_vec()).unwrap_or_default(),
        name: span.operation,
        kind: kind(span.kind) as i32,
        start_time_unix_nano: start,
        end_time_unix_nano: start.saturating_add(nanoseconds(span.duration_nano)),
        attributes: key_values(attributes),
        dropped_attributes_count: dropped_attributes,
        events: span.events.into_iter().map(event).collect(),
        dropped_events_count: dropped_events,
        links: span.links.into_iter().map(link).collect(),
        dropped_links_count: dropped_links,
        status: Some(OtlpStatus { code: status(span.status) as i32, message }),
        ..OtlpSpan::default()
    };
    (span, scope)
}

fn event(event: spanwise_model::Event) -> Event {
    let (attributes, [dropped]) = without_counts(event.attributes, [DROPPED_ATTRIBUTES]);
    Event {
        time_unix_nano: nanoseconds(event.time_unix_nano),
        name: event.name,
        attributes: key_values(attributes),
        dropped_attributes_count: dropped,
    }
}

fn link(link: spanwise_model::Link) -> Link {
    let (attributes, [dropped]) = without_counts(link.attributes, [DROPPED_ATTRIBUTES]);
    Link {
        trace_id: link.trace_id.0.to_vec(),
        span_id: link.span_id.0.to_vec(),
        trace_state: link.trace_state.unwrap_or_default(),
        attributes: key_values(attributes),
        dropped_attributes_count: dropped,
        ..Link::default()
    }
}

const fn kind(kind: Kind) -> SpanKind {
    match kind {
        Kind::Internal => SpanKind::Internal,
        Kind::Server => SpanKind::Server,
        Kind::Client => SpanKind::Client,
        Kind::Producer => SpanKind::Producer,
        Kind::Consumer => SpanKind::Consumer,
    }
}

const fn status(status: Status) -> StatusCode {
    match status {
        Status::Unset => StatusCode::Unset,
        Status::Ok => StatusCode::Ok,
        Status::Error => StatusCode::Error,
    }
}

/// Times before 1970 are no times of OTLP.
fn nanoseconds(nano: i64) -> u64 {
    u64::try_from(nano).unwrap_or(0)
}

/// The attributes without these counts, and the counts.
fn without_counts<const N: usize>(
    mut attributes: Attributes,
    keys: [&str; N],
) -> (Attributes, [u32; N]) {
    let counts = keys.map(|wanted| {
        let at = attributes.iter().position(|(key, _)| key == wanted)?;
        let count = u32::try_from(attributes[at].1.as_int()?).ok()?;
        attributes.remove(at);
        Some(count)
    });
    (attributes, counts.map(Option::unwrap_or_default))
}

fn key_values(attributes: Attributes) -> Vec<KeyValue> {
    attributes.into_iter().map(|(key, value)| key_value(key, value)).collect()
}

fn key_value(key: String, value: AttributeValue) -> KeyValue {
    let value = match value {
        AttributeValue::String(text) => Some(Value::StringValue(text)),
        AttributeValue::Int(number) => Some(Value::IntValue(number)),
        AttributeValue::Double(number) => Some(Value::DoubleValue(number)),
        AttributeValue::Bool(flag) => Some(Value::BoolValue(flag)),
        AttributeValue::Bytes(text) => Some(match STANDARD.decode(&text) {
            Ok(bytes) => Value::BytesValue(bytes),
            Err(_) => Value::StringValue(text),
        }),
        AttributeValue::Json(text) => match serde_json::from_str(&text) {
            Ok(json) => of_json(json, 0),
            Err(_) => Some(Value::StringValue(text)),
        },
    };
    KeyValue { key, value: Some(AnyValue { value }), ..KeyValue::default() }
}

fn of_json(json: serde_json::Value, depth: usize) -> Option<Value> {
    use serde_json::Value as Json;
    if depth == MAX_DEPTH && (json.is_array() || json.is_object()) {
        return Some(Value::StringValue(json.to_string()));
    }
    let below = |json| AnyValue { value: of_json(json, depth + 1) };
    Some(match json {
        Json::Null => return None,
        Json::Bool(flag) => Value::BoolValue(flag),
        Json::String(text) => Value::StringValue(text),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::IntValue(number),
            None => Value::DoubleValue(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::Array(items) => {
            Value::ArrayValue(ArrayValue { values: items.into_iter().map(below).collect() })
        }
        Json::Object(members) => Value::KvlistValue(KeyValueList {
            values: members
                .into_iter()
                .map(|(key, value)| KeyValue {
                    key,
                    value: Some(below(value)),
                    ..KeyValue::default()
                })
                .collect(),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_nested_too_deep_is_a_text() {
        let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        for depth in [1, 24, 25, 120] {
            let value = key_value("k".into(), AttributeValue::Json(nested(depth)));
            let (mut levels, mut at) = (0, value.value.clone().and_then(|value| value.value));
            while let Some(Value::KvlistValue(list)) = at {
                levels += 1;
                at = list.values[0].value.clone().and_then(|value| value.value);
            }
            assert_eq!(levels, depth.min(MAX_DEPTH));
            let rest = nested(depth - levels);
            match depth > MAX_DEPTH {
                true => assert_eq!(at, Some(Value::StringValue(rest))),
                false => assert_eq!(at, Some(Value::IntValue(1))),
            }
            let read = KeyValue::decode(value.encode_to_vec().as_slice()).expect("not too deep");
            assert_eq!(read, value);
        }
    }
}
