//! Traces in JSON, as Jaeger's UI and API return them (`/api/traces`; jaeger:
//! `internal/uimodel/model.go`).
//!
//! Variations are accepted: ids without leading zeros, numbers as texts, and `null` for unset
//! fields. Unknown names are ignored.

use std::collections::HashMap;

use serde::de::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use spanwise_model::{AttributeValue, Attributes, SpanId, TraceId};

use super::process::Process;
use super::span::{JaegerSpan, Log, Reference, ReferenceKind};
use crate::rows::{DecodeError, Rows};

#[derive(serde::Deserialize)]
struct JsonTrace<'a> {
    #[serde(borrow, default)]
    spans: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    processes: Option<HashMap<String, JsonProcess>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JsonProcess {
    service_name: Option<String>,
    tags: Option<Vec<JsonTag>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct JsonSpan {
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
    /// Older versions name the parent here instead of in the references.
    #[serde(rename = "parentSpanID")]
    parent_span_id: Option<String>,
    flags: Option<u32>,
    operation_name: Option<String>,
    references: Option<Vec<JsonReference>>,
    start_time: Micros,
    duration: Micros,
    tags: Option<Vec<JsonTag>>,
    logs: Option<Vec<JsonLog>>,
    #[serde(rename = "processID")]
    process_id: Option<String>,
    process: Option<JsonProcess>,
    warnings: Option<Vec<String>>,
}

#[derive(serde::Deserialize)]
struct JsonReference {
    #[serde(rename = "refType")]
    kind: Option<String>,
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
}

#[derive(serde::Deserialize)]
struct JsonLog {
    #[serde(default)]
    timestamp: Micros,
    #[serde(default)]
    fields: Option<Vec<JsonTag>>,
}

#[derive(serde::Deserialize)]
struct JsonTag {
    key: String,
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    value: Value,
}

/// Microseconds, stored as nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Micros(i64);

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let micros = match Value::deserialize(deserializer)? {
            Value::Null => Some(0),
            // Tools that convert files may write fractions.
            Value::Number(number) => {
                number.as_i64().or_else(|| number.as_f64().map(|micros| micros as i64))
            }
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        micros
            .map(|micros: i64| Self(micros.saturating_mul(1_000)))
            .ok_or_else(|| serde::de::Error::custom("expected microseconds, a whole number"))
    }
}

/// Decodes a list of traces.
pub(super) fn read(body: &[u8], rows: &mut Rows) -> Result<(), DecodeError> {
    let format = rows.format();
    let traces: Vec<&RawValue> = serde_json::from_slice(body)
        .map_err(|error| DecodeError::malformed(format, "the list", error))?;
    for (index, raw) in traces.into_iter().enumerate() {
        let place = || format!("[{index}]");
        let trace: JsonTrace<'_> = serde_json::from_str(raw.get())
            .map_err(|error| DecodeError::malformed(format, place(), error))?;
        let processes: HashMap<String, Process> = trace
            .processes
            .into_iter()
            .flatten()
            .map(|(name, process)| (name, process.read()))
            .collect();
        let unnamed = JsonProcess::default().read();
        for (index, raw) in trace.spans.into_iter().flatten().enumerate() {
            if !rows.admit(raw.get().len())? {
                continue;
            }
            let mut span: JsonSpan = match serde_json::from_str(raw.get()) {
                Ok(span) => span,
                Err(error) => {
                    rows.malformed(|| (format!("{}.spans[{index}]", place()), error));
                    continue;
                }
            };
            let own = span.process.take().map(JsonProcess::read);
            let named = span.process_id.as_ref().and_then(|name| processes.get(name));
            span.read().take(own.as_ref().or(named).unwrap_or(&unnamed), rows)?;
        }
    }
    Ok(())
}

impl JsonProcess {
    fn read(self) -> Process {
        Process::new(self.service_name.unwrap_or_default(), attributes(self.tags))
    }
}

impl JsonSpan {
    fn read(self) -> JaegerSpan {
        let references = self.references.into_iter().flatten();
        JaegerSpan {
            trace_id: trace_id(&self.trace_id),
            span_id: span_id(&self.span_id),
            parent_span_id: self.parent_span_id.as_deref().and_then(span_id),
            operation: self.operation_name.unwrap_or_default(),
            references: references.map(JsonReference::read).collect(),
            flags: self.flags.unwrap_or_default(),
            start_unix_nano: self.start_time.0,
            duration_nano: self.duration.0,
            tags: attributes(self.tags),
            logs: self.logs.into_iter().flatten().map(JsonLog::read).collect(),
            warnings: self.warnings.unwrap_or_default(),
        }
    }
}

impl JsonReference {
    fn read(self) -> Reference {
        Reference {
            trace_id: trace_id(&self.trace_id),
            span_id: span_id(&self.span_id),
            kind: match self.kind.as_deref() {
                Some("FOLLOWS_FROM") => ReferenceKind::FollowsFrom,
                _ => ReferenceKind::ChildOf,
            },
        }
    }
}

impl JsonLog {
    fn read(self) -> Log {
        Log { time_unix_nano: self.timestamp.0, fields: attributes(self.fields) }
    }
}

fn attributes(tags: Option<Vec<JsonTag>>) -> Attributes {
    tags.into_iter().flatten().map(|tag| (tag.key, value(tag.kind.as_deref(), tag.value))).collect()
}

/// The value according to its type. If the type does not match, the JSON value decides.
fn value(kind: Option<&str>, value: Value) -> AttributeValue {
    let text = value.as_str();
    let typed = match kind.map(str::to_ascii_lowercase).as_deref() {
        Some("bool") => value
            .as_bool()
            .or_else(|| text.and_then(|text| text.parse().ok()))
            .map(AttributeValue::Bool),
        // Integers beyond 2^53 are texts.
        Some("int64") => value
            .as_i64()
            .or_else(|| text.and_then(|text| text.parse().ok()))
            .map(AttributeValue::Int),
        Some("float64") => value
            .as_f64()
            .or_else(|| text.and_then(|text| text.parse().ok()))
            .map(AttributeValue::Double),
        // Base64.
        Some("binary") => text.map(|text| AttributeValue::Bytes(text.to_owned())),
        _ => None,
    };
    typed.unwrap_or_else(|| match value {
        Value::String(text) => AttributeValue::String(text),
        Value::Bool(flag) => AttributeValue::Bool(flag),
        Value::Number(number) => match number.as_i64() {
            Some(int) => AttributeValue::Int(int),
            None => AttributeValue::Double(number.as_f64().unwrap_or_default()),
        },
        Value::Null => AttributeValue::String(String::new()),
        other => AttributeValue::Json(other.to_string()),
    })
}

fn trace_id(text: &str) -> Option<TraceId> {
    format!("{:0>32}", text.trim()).parse().ok()
}

fn span_id(text: &str) -> Option<SpanId> {
    format!("{:0>16}", text.trim()).parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_the_type_that_is_told_where_they_can() {
        for (kind, given, expected) in [
            ("int64", json!("9223372036854775807"), AttributeValue::Int(i64::MAX)),
            ("int64", json!(7), AttributeValue::Int(7)),
            ("float64", json!(2), AttributeValue::Double(2.0)),
            ("bool", json!("true"), AttributeValue::Bool(true)),
            ("binary", json!("AP8="), AttributeValue::Bytes("AP8=".to_owned())),
            ("string", json!("x"), "x".into()),
            ("int64", json!("x"), "x".into()),
            ("string", json!({"a": 1}), AttributeValue::Json("{\"a\":1}".to_owned())),
        ] {
            assert_eq!(value(Some(kind), given.clone()), expected, "{kind} {given}");
        }
    }

    #[test]
    fn ids_may_lack_leading_zeros() {
        let low = "abc".parse::<TraceId>();
        assert!(low.is_err(), "the model's own ids are whole");
        assert_eq!(trace_id("abc").map(|id| id.to_string()), Some(format!("{:0>32}", "abc")));
        assert_eq!((trace_id("0"), span_id("xyz"), span_id("")), (None, None, None));
    }
}
