//! Spans as Jaeger's own protobuf has them (jaeger-idl `proto/api_v2/model.proto`).

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use spanwise_model::{AttributeValue, Attributes, Event, ModelError, TraceId};
use spanwise_query::TraceTree;

use super::messages::{Duration, Timestamp};
use super::question::{duration, timestamp};
use crate::dialect::grpc;
use crate::dialect::otlp::PART_BYTES;
use crate::dialect::placed::{self, PlacedSpan, Reading};
use crate::jaeger::tags;

#[derive(Clone, PartialEq, Message)]
struct Chunk {
    #[prost(message, repeated, tag = "1")]
    spans: Vec<JaegerSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct JaegerSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    operation_name: String,
    #[prost(message, repeated, tag = "4")]
    references: Vec<Reference>,
    #[prost(uint32, tag = "5")]
    flags: u32,
    #[prost(message, optional, tag = "6")]
    start_time: Option<Timestamp>,
    #[prost(message, optional, tag = "7")]
    duration: Option<Duration>,
    #[prost(message, repeated, tag = "8")]
    tags: Vec<KeyValue>,
    #[prost(message, repeated, tag = "9")]
    logs: Vec<Log>,
    #[prost(message, optional, tag = "10")]
    process: Option<Process>,
    #[prost(string, repeated, tag = "12")]
    warnings: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Reference {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    /// 0 for a child, 1 for what only follows.
    #[prost(int32, tag = "3")]
    kind: i32,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    /// 0 text, 1 truth value, 2 integer, 3 double, 4 bytes.
    #[prost(int32, tag = "2")]
    kind: i32,
    #[prost(string, tag = "3")]
    text: String,
    #[prost(bool, tag = "4")]
    flag: bool,
    #[prost(int64, tag = "5")]
    integer: i64,
    #[prost(double, tag = "6")]
    double: f64,
    #[prost(bytes = "vec", tag = "7")]
    bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Log {
    #[prost(message, optional, tag = "1")]
    timestamp: Option<Timestamp>,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(string, tag = "1")]
    service_name: String,
    #[prost(message, repeated, tag = "2")]
    tags: Vec<KeyValue>,
}

/// A trace as messages, which are as large as those of OTLP.
///
/// # Errors
/// Where a row is no span.
pub(super) fn parts(
    tree: &TraceTree,
    id: TraceId,
    reading: Reading,
) -> Result<Vec<Bytes>, ModelError> {
    let mut messages = Vec::new();
    let (mut chunk, mut bytes) = (Chunk::default(), 0);
    for placed in placed::spans(tree, reading) {
        let span = JaegerSpan::of(placed?, id);
        bytes += span.encoded_len();
        chunk.spans.push(span);
        if bytes >= PART_BYTES {
            messages.push(grpc::framed(&std::mem::take(&mut chunk)));
            bytes = 0;
        }
    }
    if !chunk.spans.is_empty() {
        messages.push(grpc::framed(&chunk));
    }
    Ok(messages)
}

impl JaegerSpan {
    fn of(mut placed: PlacedSpan, trace_id: TraceId) -> Self {
        let reference = |reference: tags::Reference| Reference {
            trace_id: reference.trace_id.0.to_vec(),
            span_id: reference.span_id.0.to_vec(),
            kind: i32::from(!reference.is_parent),
        };
        let references = tags::references(&placed, trace_id).into_iter().map(reference);
        let references = references.collect();
        let (attributes, said) = tags::tags(&mut placed);
        let warnings: Vec<String> = said
            .warnings
            .and_then(|warnings| serde_json::from_value(warnings).ok())
            .unwrap_or_default();
        let PlacedSpan { span, id, .. } = placed;
        let mut resource = placed::resource(&span.resource, &span.service);
        resource.remove(0);
        Self {
            trace_id: trace_id.0.to_vec(),
            span_id: id.0.to_vec(),
            operation_name: span.operation,
            references,
            flags: said.flags,
            start_time: Some(timestamp(span.start_unix_nano)),
            duration: Some(duration(span.duration_nano)),
            tags: key_values(attributes),
            logs: span.events.into_iter().map(log).collect(),
            process: Some(Process { service_name: span.service, tags: key_values(resource) }),
            warnings,
        }
    }
}

fn log(event: Event) -> Log {
    let timestamp = Some(timestamp(event.time_unix_nano));
    Log { timestamp, fields: key_values(tags::fields(event)) }
}

fn key_values(attributes: Attributes) -> Vec<KeyValue> {
    let key_value = |(key, value): (String, AttributeValue)| {
        let named = KeyValue { key, ..KeyValue::default() };
        match value {
            AttributeValue::String(text) | AttributeValue::Json(text) => KeyValue { text, ..named },
            AttributeValue::Bool(flag) => KeyValue { kind: 1, flag, ..named },
            AttributeValue::Int(integer) => KeyValue { kind: 2, integer, ..named },
            AttributeValue::Double(double) => KeyValue { kind: 3, double, ..named },
            AttributeValue::Bytes(text) => match STANDARD.decode(&text) {
                Ok(bytes) => KeyValue { kind: 4, bytes, ..named },
                Err(_) => KeyValue { text, ..named },
            },
        }
    };
    attributes.into_iter().map(key_value).collect()
}
