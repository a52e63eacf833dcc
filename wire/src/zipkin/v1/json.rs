//! Version 1 as JSON (`zipkin-api.yaml`).

use serde::de::IgnoredAny;
use serde_json::Value;

use super::{V1Annotation, V1Span, V1Tag};
use crate::otlp::Invalid;
use crate::rows::DecodeError;
use crate::zipkin::json::{JsonEndpoint, Micros, attribute_value, each, endpoint};
use crate::zipkin::span::Endpoint;
use crate::zipkin::{Spans, parent_id, span_id, trace_id};

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
    name: Option<String>,
    #[serde(default)]
    timestamp: Option<Micros>,
    #[serde(default)]
    duration: Option<Micros>,
    #[serde(default)]
    annotations: Option<Vec<JsonAnnotation>>,
    #[serde(default)]
    binary_annotations: Option<Vec<JsonTag>>,
    #[serde(default)]
    debug: Option<bool>,
    /// Only version 2 has this member, in each span.
    #[serde(default)]
    local_endpoint: Option<IgnoredAny>,
}

#[derive(serde::Deserialize)]
struct JsonAnnotation {
    timestamp: Micros,
    value: String,
    #[serde(default)]
    endpoint: Option<JsonEndpoint>,
}

#[derive(serde::Deserialize)]
struct JsonTag {
    key: String,
    value: Value,
    #[serde(default)]
    endpoint: Option<JsonEndpoint>,
}

/// Decodes a list of spans.
pub(in crate::zipkin) fn read(body: &[u8], spans: &mut Spans) -> Result<(), DecodeError> {
    each(body, spans, |span: JsonSpan, spans| {
        if span.local_endpoint.is_some() {
            let error = "it is of version 2, which is taken at /api/v2/spans";
            spans.rows().malformed(|| ("a span with `localEndpoint`".to_owned(), error));
            return Ok(());
        }
        match span.read() {
            Ok(span) => super::take(span, spans),
            Err(invalid) => spans.take(Err(invalid)),
        }
    })
}

impl JsonSpan {
    fn read(self) -> Result<V1Span, Invalid> {
        Ok(V1Span {
            trace_id: trace_id(self.trace_id.as_deref().unwrap_or_default())?,
            id: span_id(self.id.as_deref().unwrap_or_default())?,
            parent_id: parent_id(self.parent_id.as_deref())?,
            name: self.name.unwrap_or_default(),
            timestamp_micros: self.timestamp.map(|micros| micros.0).filter(|micros| *micros != 0),
            duration_micros: self.duration.map(|micros| micros.0).filter(|micros| *micros != 0),
            annotations: self.annotations.into_iter().flatten().map(JsonAnnotation::read).collect(),
            tags: self.binary_annotations.into_iter().flatten().map(JsonTag::read).collect(),
            debug: self.debug.unwrap_or(false),
        })
    }
}

impl JsonAnnotation {
    fn read(self) -> V1Annotation {
        V1Annotation {
            timestamp_micros: self.timestamp.0,
            value: self.value,
            endpoint: known(self.endpoint),
        }
    }
}

impl JsonTag {
    fn read(self) -> V1Tag {
        let value = attribute_value(self.value);
        V1Tag { key: self.key, value, endpoint: known(self.endpoint) }
    }
}

fn known(json: Option<JsonEndpoint>) -> Option<Endpoint> {
    json.map(|json| endpoint(Some(json)))
}
