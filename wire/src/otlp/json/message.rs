//! Converts the inner messages of OTLP/JSON to protobuf messages.

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, Status, span};
use serde::Deserialize;

use super::scalar::{id, kind, list, status_code, text, unsigned32, unsigned64};
use super::value::key_values;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JsonResource {
    #[serde(deserialize_with = "key_values")]
    attributes: Vec<KeyValue>,
    #[serde(alias = "dropped_attributes_count", deserialize_with = "unsigned32")]
    dropped_attributes_count: u32,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JsonScope {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    version: String,
    #[serde(deserialize_with = "key_values")]
    attributes: Vec<KeyValue>,
}

/// Identifies a span.
#[derive(Deserialize, Default, PartialEq, Eq, Hash)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JsonIds {
    #[serde(alias = "trace_id", deserialize_with = "id")]
    trace_id: Vec<u8>,
    #[serde(alias = "span_id", deserialize_with = "id")]
    span_id: Vec<u8>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JsonSpan {
    #[serde(alias = "trace_id", deserialize_with = "id")]
    trace_id: Vec<u8>,
    #[serde(alias = "span_id", deserialize_with = "id")]
    span_id: Vec<u8>,
    #[serde(alias = "trace_state", deserialize_with = "text")]
    trace_state: String,
    #[serde(alias = "parent_span_id", deserialize_with = "id")]
    parent_span_id: Vec<u8>,
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "kind")]
    kind: i32,
    #[serde(alias = "start_time_unix_nano", deserialize_with = "unsigned64")]
    start_time_unix_nano: u64,
    #[serde(alias = "end_time_unix_nano", deserialize_with = "unsigned64")]
    end_time_unix_nano: u64,
    #[serde(deserialize_with = "key_values")]
    attributes: Vec<KeyValue>,
    #[serde(alias = "dropped_attributes_count", deserialize_with = "unsigned32")]
    dropped_attributes_count: u32,
    #[serde(deserialize_with = "list")]
    events: Vec<JsonEvent>,
    #[serde(alias = "dropped_events_count", deserialize_with = "unsigned32")]
    dropped_events_count: u32,
    #[serde(deserialize_with = "list")]
    links: Vec<JsonLink>,
    #[serde(alias = "dropped_links_count", deserialize_with = "unsigned32")]
    dropped_links_count: u32,
    status: Option<JsonStatus>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct JsonEvent {
    #[serde(alias = "time_unix_nano", deserialize_with = "unsigned64")]
    time_unix_nano: u64,
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "key_values")]
    attributes: Vec<KeyValue>,
    #[serde(alias = "dropped_attributes_count", deserialize_with = "unsigned32")]
    dropped_attributes_count: u32,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct JsonLink {
    #[serde(alias = "trace_id", deserialize_with = "id")]
    trace_id: Vec<u8>,
    #[serde(alias = "span_id", deserialize_with = "id")]
    span_id: Vec<u8>,
    #[serde(alias = "trace_state", deserialize_with = "text")]
    trace_state: String,
    #[serde(deserialize_with = "key_values")]
    attributes: Vec<KeyValue>,
    #[serde(alias = "dropped_attributes_count", deserialize_with = "unsigned32")]
    dropped_attributes_count: u32,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct JsonStatus {
    #[serde(deserialize_with = "text")]
    message: String,
    #[serde(deserialize_with = "status_code")]
    code: i32,
    /// From OTLP 0.x: any value but zero is an error, unless a newer field says otherwise.
    #[serde(rename = "deprecatedCode", alias = "deprecated_code")]
    old_code: Option<serde_json::Value>,
}

impl JsonStatus {
    fn code(&self) -> i32 {
        let is_good = |old: &serde_json::Value| {
            old.as_i64() == Some(0)
                || old.as_str().is_some_and(|name| name == "0" || name.ends_with("CODE_OK"))
        };
        match &self.old_code {
            Some(old) if self.code == 0 && !old.is_null() && !is_good(old) => {
                StatusCode::Error as i32
            }
            _ => self.code,
        }
    }
}

impl From<JsonResource> for Resource {
    fn from(json: JsonResource) -> Self {
        Self {
            attributes: json.attributes,
            dropped_attributes_count: json.dropped_attributes_count,
            entity_refs: Vec::new(),
        }
    }
}

impl From<JsonScope> for InstrumentationScope {
    fn from(json: JsonScope) -> Self {
        Self {
            name: json.name,
            version: json.version,
            attributes: json.attributes,
            dropped_attributes_count: 0,
        }
    }
}

impl From<JsonSpan> for Span {
    fn from(json: JsonSpan) -> Self {
        Self {
            trace_id: json.trace_id,
            span_id: json.span_id,
            trace_state: json.trace_state,
            parent_span_id: json.parent_span_id,
            flags: 0,
            name: json.name,
            kind: json.kind,
            start_time_unix_nano: json.start_time_unix_nano,
            end_time_unix_nano: json.end_time_unix_nano,
            attributes: json.attributes,
            dropped_attributes_count: json.dropped_attributes_count,
            events: json.events.into_iter().map(Into::into).collect(),
            dropped_events_count: json.dropped_events_count,
            links: json.links.into_iter().map(Into::into).collect(),
            dropped_links_count: json.dropped_links_count,
            status: json
                .status
                .map(|status| Status { code: status.code(), message: status.message }),
        }
    }
}

impl From<JsonEvent> for span::Event {
    fn from(json: JsonEvent) -> Self {
        Self {
            time_unix_nano: json.time_unix_nano,
            name: json.name,
            attributes: json.attributes,
            dropped_attributes_count: json.dropped_attributes_count,
        }
    }
}

impl From<JsonLink> for span::Link {
    fn from(json: JsonLink) -> Self {
        Self {
            trace_id: json.trace_id,
            span_id: json.span_id,
            trace_state: json.trace_state,
            attributes: json.attributes,
            dropped_attributes_count: json.dropped_attributes_count,
            flags: 0,
        }
    }
}
