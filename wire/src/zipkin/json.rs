//! Version 2 as JSON (`zipkin2-api.yaml`), and what it shares with version 1.
//!
//! Variations are accepted: numbers as texts, tags of any type, and `null` for unset fields.
//! Unknown names are ignored.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Number, Value};
use spanwise_model::{AttributeValue, Attributes, Kind};

use super::span::{Annotation, Endpoint, ZipkinSpan};
use super::{Spans, parent_id, span_id, trace_id};
use crate::otlp::Invalid;
use crate::rows::DecodeError;

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct JsonSpan {
    #[serde(default)]
    trace_id: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    parent_id: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    timestamp: Option<Micros>,
    #[serde(default)]
    duration: Option<Micros>,
    #[serde(default)]
    local_endpoint: Option<JsonEndpoint>,
    #[serde(default)]
    remote_endpoint: Option<JsonEndpoint>,
    #[serde(default)]
    annotations: Option<Vec<JsonAnnotation>>,
    #[serde(default)]
    tags: Option<Tags>,
    #[serde(default)]
    debug: Option<bool>,
    #[serde(default)]
    shared: Option<bool>,
    /// Only version 1 has this member.
    #[serde(default)]
    binary_annotations: Option<IgnoredAny>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct JsonEndpoint {
    #[serde(default)]
    service_name: Option<String>,
    #[serde(default)]
    ipv4: Option<String>,
    #[serde(default)]
    ipv6: Option<String>,
    #[serde(default)]
    port: Option<Micros>,
}

#[derive(serde::Deserialize)]
struct JsonAnnotation {
    timestamp: Micros,
    value: String,
}

/// An integer in any notation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Micros(pub(super) i64);

impl<'de> Deserialize<'de> for Micros {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = match Value::deserialize(deserializer)? {
            Value::Number(number) => whole(&number),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        read.map(Self).ok_or_else(|| serde::de::Error::custom("expected a whole number"))
    }
}

fn whole(number: &Number) -> Option<i64> {
    let exact = number.as_i64().or_else(|| number.as_u64().map(|_| i64::MAX));
    exact.or_else(|| {
        // Some senders use doubles, which are exact below 2^53.
        let number = number.as_f64().filter(|number| number.abs() < 9_007_199_254_740_992.0)?;
        #[expect(clippy::cast_possible_truncation, reason = "its range was checked")]
        Some(number as i64)
    })
}

/// Tags in their original order.
struct Tags(Attributes);

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TagsVisitor;
        impl<'de> Visitor<'de> for TagsVisitor {
            type Value = Tags;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tags")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tags, A::Error> {
                let mut tags = Attributes::new();
                while let Some((key, value)) = map.next_entry::<String, Value>()? {
                    tags.push((key, attribute_value(value)));
                }
                Ok(Tags(tags))
            }
        }
        deserializer.deserialize_map(TagsVisitor)
    }
}

/// Tags should be texts, but some senders use other types.
pub(super) fn attribute_value(value: Value) -> AttributeValue {
    match value {
        Value::String(text) => AttributeValue::String(text),
        Value::Bool(flag) => AttributeValue::Bool(flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => AttributeValue::Int(whole),
            (None, Some(double)) => AttributeValue::Double(double),
            (None, None) => AttributeValue::String(number.to_string()),
        },
        other => AttributeValue::Json(other.to_string()),
    }
}

/// Decodes a list of spans, each separately.
pub(super) fn each<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    spans: &mut Spans,
    mut take: impl FnMut(T, &mut Spans) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let list: Vec<&'a RawValue> = serde_json::from_slice(body)
        .map_err(|error| DecodeError::malformed(spans.rows.format(), "the list", error))?;
    for (index, raw) in list.into_iter().enumerate() {
        if !spans.rows.admit(raw.get().len())? {
            continue;
        }
        match serde_json::from_str(raw.get()) {
            Ok(span) => take(span, spans)?,
            Err(error) => spans.rows.malformed(|| (format!("spans[{index}]"), error)),
        }
    }
    Ok(())
}

/// Decodes a list of version 2 spans.
pub(super) fn read(body: &[u8], spans: &mut Spans) -> Result<(), DecodeError> {
    each(body, spans, |span: JsonSpan, spans| {
        if span.binary_annotations.is_some() {
            let error = "it is of version 1, which is taken at /api/v1/spans";
            spans.rows.malformed(|| ("a span with `binaryAnnotations`".to_owned(), error));
            return Ok(());
        }
        spans.take(span.read())
    })
}

impl JsonSpan {
    fn read(self) -> Result<ZipkinSpan, Invalid> {
        let trace_id = trace_id(self.trace_id.as_deref().unwrap_or_default())?;
        let id = span_id(self.id.as_deref().unwrap_or_default())?;
        let parent_id = parent_id(self.parent_id.as_deref())?;
        Ok(ZipkinSpan {
            kind: self.kind.as_deref().and_then(kind),
            name: self.name.unwrap_or_default(),
            timestamp_micros: self.timestamp.map(|micros| micros.0).filter(|micros| *micros != 0),
            duration_micros: self.duration.map(|micros| micros.0),
            local: endpoint(self.local_endpoint),
            remote: endpoint(self.remote_endpoint),
            annotations: self
                .annotations
                .into_iter()
                .flatten()
                .map(|one| Annotation { timestamp_micros: one.timestamp.0, value: one.value })
                .collect(),
            tags: self.tags.map(|tags| tags.0).unwrap_or_default(),
            debug: self.debug.unwrap_or(false),
            shared: self.shared.unwrap_or(false),
            ..ZipkinSpan::new(trace_id, id, parent_id)
        })
    }
}

/// The endpoint, with any of its parts.
pub(super) fn endpoint(json: Option<JsonEndpoint>) -> Endpoint {
    json.map(|json| {
        Endpoint::new(json.service_name, json.ipv4, json.ipv6, json.port.map(|port| port.0))
    })
    .unwrap_or_default()
}

fn kind(name: &str) -> Option<Kind> {
    name.to_ascii_lowercase().parse().ok()
}
