//! The JSON of version 1 (jaeger `internal/uimodel`), and how spans become it, which is
//! "OpenTelemetry to Jaeger Transformation".

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;
use spanwise_model::{AttributeValue, Attributes, Event, ModelError, TraceId};
use spanwise_query::{OperationTotal, TraceTree};

use crate::dialect::placed::{self, PlacedSpan, Reading, exact_json, short_id};
use crate::jaeger::Dependency;
use crate::jaeger::tags;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct JaegerSpan {
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
    #[serde(skip_serializing_if = "is_zero")]
    flags: u32,
    operation_name: String,
    references: Vec<Reference>,
    start_time: u64,
    duration: u64,
    tags: Vec<KeyValue>,
    logs: Vec<Log>,
    #[serde(rename = "processID")]
    process_id: String,
    warnings: Option<Value>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    ref_type: &'static str,
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
}

#[derive(Debug, Serialize)]
struct KeyValue {
    key: String,
    r#type: &'static str,
    value: Value,
}

#[derive(Debug, Serialize)]
struct Log {
    timestamp: u64,
    fields: Vec<KeyValue>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    service_name: String,
    tags: Vec<KeyValue>,
}

/// An operation, with the kind of its spans.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Operation {
    name: String,
    span_kind: &'static str,
}

/// How often one service called another.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DependencyLink {
    parent: String,
    child: String,
    call_count: u64,
}

impl From<OperationTotal> for Operation {
    fn from(total: OperationTotal) -> Self {
        Self { name: total.name, span_kind: total.kind.as_str() }
    }
}

impl From<Dependency> for DependencyLink {
    fn from(Dependency { parent, child, calls }: Dependency) -> Self {
        Self { parent, child, call_count: calls }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(flags: &u32) -> bool {
    *flags == 0
}

/// Appends a trace, under this id, as an object.
///
/// # Errors
/// Where a row is no span.
pub(super) fn write(
    tree: &TraceTree,
    id: TraceId,
    reading: Reading,
    json: &mut Vec<u8>,
) -> Result<(), ModelError> {
    let mut processes = BTreeMap::new();
    let mut known: HashMap<(String, String), String> = HashMap::new();
    json.extend_from_slice(b"{\"traceID\":");
    put(json, &short_id(id));
    json.extend_from_slice(b",\"spans\":[");
    for (place, placed) in placed::spans(tree, reading).enumerate() {
        let placed = placed?;
        let span = &placed.span;
        let of = (span.resource.as_str().to_owned(), span.service.clone());
        let number = known.len() + 1;
        let process_id = known.entry(of).or_insert_with(|| {
            let process_id = format!("p{number}");
            let mut attributes = placed::resource(&span.resource, &span.service);
            attributes.remove(0);
            let service_name = span.service.clone();
            let process = Process { service_name, tags: key_values(attributes) };
            processes.insert(process_id.clone(), process);
            process_id
        });
        let process_id = process_id.clone();
        if place > 0 {
            json.push(b',');
        }
        put(json, &JaegerSpan::of(placed, id, process_id));
    }
    json.extend_from_slice(b"],\"processes\":");
    put(json, &processes);
    json.extend_from_slice(b",\"warnings\":");
    let warnings = match reading {
        Reading::Assembled if !tree.warnings.is_empty() => Some(&tree.warnings),
        _ => None,
    };
    put(json, &warnings);
    json.push(b'}');
    Ok(())
}

fn put(json: &mut Vec<u8>, value: &impl Serialize) {
    // Writing texts and numbers to memory cannot fail.
    let _ = serde_json::to_writer(json, value);
}

impl JaegerSpan {
    fn of(mut placed: PlacedSpan, trace_id: TraceId, process_id: String) -> Self {
        let references = tags::references(&placed, trace_id).into_iter().map(|reference| {
            let ref_type = if reference.is_parent { "CHILD_OF" } else { "FOLLOWS_FROM" };
            Reference {
                ref_type,
                trace_id: short_id(reference.trace_id),
                span_id: reference.span_id.to_string(),
            }
        });
        let references = references.collect();
        let (attributes, said) = tags::tags(&mut placed);
        let PlacedSpan { span, id, .. } = placed;
        Self {
            trace_id: short_id(trace_id),
            span_id: id.to_string(),
            flags: said.flags,
            operation_name: span.operation,
            references,
            start_time: micros(span.start_unix_nano),
            duration: micros(span.duration_nano),
            tags: key_values(attributes),
            logs: span.events.into_iter().map(log).collect(),
            process_id,
            warnings: said.warnings,
        }
    }
}

/// Times before 1970 are none of Jaeger's.
fn micros(nano: i64) -> u64 {
    u64::try_from(nano / 1_000).unwrap_or(0)
}

fn log(event: Event) -> Log {
    let timestamp = micros(event.time_unix_nano);
    Log { timestamp, fields: key_values(tags::fields(event)) }
}

fn key_values(attributes: Attributes) -> Vec<KeyValue> {
    let key_value = |(key, value): (String, AttributeValue)| {
        let r#type = match &value {
            AttributeValue::String(_) | AttributeValue::Json(_) => "string",
            AttributeValue::Int(_) => "int64",
            AttributeValue::Double(_) => "float64",
            AttributeValue::Bool(_) => "bool",
            AttributeValue::Bytes(_) => "binary",
        };
        let value = match value {
            AttributeValue::String(text) | AttributeValue::Json(text) => Value::String(text),
            other => exact_json(&other),
        };
        KeyValue { key, r#type, value }
    };
    attributes.into_iter().map(key_value).collect()
}
