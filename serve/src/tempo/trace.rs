//! Traces as OTLP has them. Parents are those that assembly found; what it knows of a span that
//! no SDK sent is among its attributes.

use ahash::AHashMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use spanwise_assemble::Node;
use spanwise_model::{AttributeValue, Attributes, Capture, Kind, ModelError, Status as Said};
use spanwise_query::TraceTree;

use super::messages::{
    AnyValue, ArrayValue, Event, InstrumentationScope, KeyValue, KeyValueList, Link, OneValue,
    Resource, ResourceSpans, ScopeSpans, Span, SpanKind, Status, StatusCode, Trace,
};

/// The trace of a tree, its spans by resource and scope.
pub(super) fn of_tree(tree: &TraceTree) -> Result<Trace, ModelError> {
    let mut resources: Vec<ResourceSpans> = Vec::new();
    let mut places: AHashMap<(String, String), usize> = AHashMap::new();
    for node in &tree.trace.nodes {
        let at = node.row.at;
        let Some(batch) = tree.batches.get(at.batch as usize) else { continue };
        let row = batch.span(at.row as usize)?;
        let resource = (row.resource.as_str().to_owned(), row.service.clone());
        let place = *places.entry(resource).or_insert_with_key(|(json, service)| {
            let attributes = of_resource(json, service);
            let resource = Some(Resource { attributes });
            resources.push(ResourceSpans { resource, scope_spans: Vec::new() });
            resources.len() - 1
        });
        let parent = node.parent.map(|parent| tree.trace.nodes[parent].row.span_id);
        let parent = parent.or_else(|| node.missing_parent());
        let (scope, mut span) = span(row, node);
        span.trace_id = tree.trace.trace_id.0.to_vec();
        span.span_id = node.row.span_id.0.to_vec();
        span.parent_span_id = parent.map(|id| id.0.to_vec()).unwrap_or_default();
        let scopes = &mut resources[place].scope_spans;
        match scopes.iter_mut().find(|of| of.scope.as_ref() == Some(&scope)) {
            Some(of) => of.spans.push(span),
            None => scopes.push(ScopeSpans { scope: Some(scope), spans: vec![span] }),
        }
    }
    Ok(Trace { resource_spans: resources })
}

/// A row as a span without its ids, and the scope that wrote it.
fn span(row: spanwise_model::Span, node: &Node) -> (InstrumentationScope, Span) {
    let mut scope = InstrumentationScope::default();
    let mut span = Span {
        trace_state: row.trace_state.unwrap_or_default(),
        name: row.operation,
        kind: kind(row.kind).into(),
        start_time_unix_nano: nanos(row.start_unix_nano),
        end_time_unix_nano: nanos(row.start_unix_nano.saturating_add(row.duration_nano)),
        ..Span::default()
    };
    let mut message = row.error.unwrap_or_default();
    for (key, value) in row.attributes {
        let count = || u32::try_from(value.as_int().unwrap_or(0)).unwrap_or(u32::MAX);
        match (key.as_str(), &value) {
            ("otel.scope.name", AttributeValue::String(name)) => scope.name.clone_from(name),
            ("otel.scope.version", AttributeValue::String(version)) => {
                scope.version.clone_from(version);
            }
            ("otel.status_description", AttributeValue::String(text)) => message.clone_from(text),
            ("otel.dropped_attributes_count", _) => span.dropped_attributes_count = count(),
            ("otel.dropped_events_count", _) => span.dropped_events_count = count(),
            ("otel.dropped_links_count", _) => span.dropped_links_count = count(),
            (of_scope, _) if of_scope.starts_with("otel.scope.") => {
                let key = of_scope["otel.scope.".len()..].to_owned();
                scope.attributes.push(KeyValue { key, value: Some(any_value(value)) });
            }
            _ => span.attributes.push(KeyValue { key, value: Some(any_value(value)) }),
        }
    }
    if row.capture != Capture::App {
        let mut made = |key: &str, value| {
            span.attributes.push(KeyValue { key: key.to_owned(), value: Some(any_value(value)) });
        };
        made("spanwise.capture", row.capture.as_str().into());
        if let Some(evidence) = node.assembled.evidence {
            made("spanwise.evidence", evidence.as_str().into());
        }
        if let Some(confidence) = node.assembled.confidence {
            made("spanwise.confidence", AttributeValue::Double(confidence.into()));
        }
        let flow = row.flow;
        for (key, address, port) in [
            ("spanwise.client", flow.client_address, flow.client_port),
            ("spanwise.server", flow.server_address, flow.server_port),
        ] {
            if let Some(address) = address {
                made(key, spanwise_query::traceql::endpoint(&address, port).into());
            }
        }
    }
    let of_nested = |time_unix_nano, name, attributes| Event {
        time_unix_nano: nanos(time_unix_nano),
        name,
        attributes: key_values(attributes),
    };
    span.events = (row.events.into_iter())
        .map(|event| of_nested(event.time_unix_nano, event.name, event.attributes))
        .collect();
    span.links = (row.links.into_iter())
        .map(|link| Link {
            trace_id: link.trace_id.0.to_vec(),
            span_id: link.span_id.0.to_vec(),
            trace_state: link.trace_state.unwrap_or_default(),
            attributes: key_values(link.attributes),
        })
        .collect();
    let code = match row.status {
        Said::Unset => StatusCode::Unset,
        Said::Ok => StatusCode::Ok,
        Said::Error => StatusCode::Error,
    };
    span.status = Some(Status { message, code: code.into() });
    (scope, span)
}

fn nanos(nano: i64) -> u64 {
    nano.max(0).cast_unsigned()
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

/// The service of a resource is the one that Spanwise shows; it comes first.
fn of_resource(json: &str, service: &str) -> Vec<KeyValue> {
    const SERVICE: &str = "service.name";
    let mut all = vec![KeyValue {
        key: SERVICE.to_owned(),
        value: Some(AnyValue { value: Some(OneValue::StringValue(service.to_owned())) }),
    }];
    if let Ok(Json::Object(members)) = serde_json::from_str(json) {
        let members = members.into_iter().filter(|(key, _)| key != SERVICE);
        all.extend(members.map(|(key, value)| KeyValue { key, value: Some(of_json(value)) }));
    }
    all
}

fn key_values(attributes: Attributes) -> Vec<KeyValue> {
    let of = |(key, value)| KeyValue { key, value: Some(any_value(value)) };
    attributes.into_iter().map(of).collect()
}

fn any_value(value: AttributeValue) -> AnyValue {
    let value = match value {
        AttributeValue::String(text) => OneValue::StringValue(text),
        AttributeValue::Int(number) => OneValue::IntValue(number),
        AttributeValue::Double(number) => OneValue::DoubleValue(number),
        AttributeValue::Bool(flag) => OneValue::BoolValue(flag),
        AttributeValue::Bytes(text) => match STANDARD.decode(&text) {
            Ok(bytes) => OneValue::BytesValue(bytes),
            Err(_) => OneValue::StringValue(text),
        },
        AttributeValue::Json(text) => match serde_json::from_str(&text) {
            Ok(json) => return of_json(json),
            Err(_) => OneValue::StringValue(text),
        },
    };
    AnyValue { value: Some(value) }
}

fn of_json(json: Json) -> AnyValue {
    let value = match json {
        Json::Null => return AnyValue { value: None },
        Json::Bool(flag) => OneValue::BoolValue(flag),
        Json::Number(number) => match number.as_i64() {
            Some(number) => OneValue::IntValue(number),
            None => OneValue::DoubleValue(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => OneValue::StringValue(text),
        Json::Array(values) => {
            OneValue::ArrayValue(ArrayValue { values: values.into_iter().map(of_json).collect() })
        }
        Json::Object(members) => {
            let member = |(key, value)| KeyValue { key, value: Some(of_json(value)) };
            OneValue::KvlistValue(KeyValueList {
                values: members.into_iter().map(member).collect(),
            })
        }
    };
    AnyValue { value: Some(value) }
}
