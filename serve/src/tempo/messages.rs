//! The messages of Tempo's API (`tempopb`), as far as they are used: as Protocol Buffers, and as
//! the JSON that is Protocol Buffers' own: numbers of 64 bits are texts, bytes are base64, and
//! what is zero is left out.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::{Enumeration, Message, Oneof};
use serde::{Serialize, Serializer};

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn digits<T: Display, S: Serializer>(number: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn double<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match *number {
        number if number.is_finite() => serializer.serialize_f64(number),
        number if number.is_nan() => serializer.serialize_str("NaN"),
        number if number > 0.0 => serializer.serialize_str("Infinity"),
        _ => serializer.serialize_str("-Infinity"),
    }
}

fn base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

/// An attribute.
#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<AnyValue>,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(transparent)]
pub(super) struct AnyValue {
    #[prost(oneof = "OneValue", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(super) value: Option<OneValue>,
}

#[derive(Clone, PartialEq, Oneof, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::enum_variant_names, reason = "so they are called in the JSON")]
pub(super) enum OneValue {
    #[prost(string, tag = "1")]
    StringValue(String),
    #[prost(bool, tag = "2")]
    BoolValue(bool),
    #[prost(int64, tag = "3")]
    IntValue(#[serde(serialize_with = "digits")] i64),
    #[prost(double, tag = "4")]
    DoubleValue(#[serde(serialize_with = "double")] f64),
    #[prost(message, tag = "5")]
    ArrayValue(ArrayValue),
    #[prost(message, tag = "6")]
    KvlistValue(KeyValueList),
    #[prost(bytes, tag = "7")]
    BytesValue(#[serde(serialize_with = "base64")] Vec<u8>),
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<AnyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SearchRequest {
    #[prost(map = "string, string", tag = "1")]
    pub(super) tags: HashMap<String, String>,
    #[prost(uint32, tag = "2")]
    pub(super) min_duration_ms: u32,
    #[prost(uint32, tag = "3")]
    pub(super) max_duration_ms: u32,
    #[prost(uint32, tag = "4")]
    pub(super) limit: u32,
    #[prost(uint32, tag = "5")]
    pub(super) start: u32,
    #[prost(uint32, tag = "6")]
    pub(super) end: u32,
    #[prost(string, tag = "8")]
    pub(super) query: String,
    #[prost(uint32, tag = "9")]
    pub(super) spans_per_span_set: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct SearchResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) traces: Vec<TraceSearchMetadata>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metrics: Option<SearchMetrics>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TraceSearchMetadata {
    #[prost(string, tag = "1")]
    #[serde(rename = "traceID")]
    pub(super) trace_id: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) root_service_name: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) root_trace_name: String,
    #[prost(uint64, tag = "4")]
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    pub(super) start_time_unix_nano: u64,
    #[prost(uint32, tag = "5")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) duration_ms: u32,
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) span_set: Option<SpanSet>,
    #[prost(message, repeated, tag = "7")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) span_sets: Vec<SpanSet>,
    #[prost(btree_map = "string, message", tag = "8")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) service_stats: BTreeMap<String, ServiceStats>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceStats {
    #[prost(uint32, tag = "1")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) span_count: u32,
    #[prost(uint32, tag = "2")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) error_count: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct SpanSet {
    #[prost(message, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) spans: Vec<MatchedSpan>,
    #[prost(uint32, tag = "2")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) matched: u32,
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MatchedSpan {
    #[prost(string, tag = "1")]
    #[serde(rename = "spanID")]
    pub(super) span_id: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[prost(uint64, tag = "3")]
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    pub(super) start_time_unix_nano: u64,
    #[prost(uint64, tag = "4")]
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    pub(super) duration_nanos: u64,
    #[prost(message, repeated, tag = "5")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attributes: Vec<KeyValue>,
}

/// What a search looked at. A job is the whole of it: it is completed, or it stopped early.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SearchMetrics {
    #[prost(uint32, tag = "1")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) inspected_traces: u32,
    #[prost(uint32, tag = "4")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) completed_jobs: u32,
    #[prost(uint32, tag = "5")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) total_jobs: u32,
    #[prost(uint64, tag = "7")]
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    pub(super) inspected_spans: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SearchTagsRequest {
    #[prost(string, tag = "1")]
    pub(super) scope: String,
    #[prost(string, tag = "2")]
    pub(super) query: String,
    #[prost(uint32, tag = "3")]
    pub(super) start: u32,
    #[prost(uint32, tag = "4")]
    pub(super) end: u32,
    #[prost(uint32, tag = "5")]
    pub(super) max_tags_per_scope: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SearchTagsResponse {
    #[prost(string, repeated, tag = "1")]
    pub(super) tag_names: Vec<String>,
    #[prost(message, optional, tag = "2")]
    pub(super) metrics: Option<MetadataMetrics>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct SearchTagsV2Response {
    #[prost(message, repeated, tag = "1")]
    pub(super) scopes: Vec<SearchTagsV2Scope>,
    #[prost(message, optional, tag = "2")]
    pub(super) metrics: Option<MetadataMetrics>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct SearchTagsV2Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "2")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SearchTagValuesRequest {
    #[prost(string, tag = "1")]
    pub(super) tag_name: String,
    #[prost(string, tag = "2")]
    pub(super) query: String,
    #[prost(uint32, tag = "4")]
    pub(super) start: u32,
    #[prost(uint32, tag = "5")]
    pub(super) end: u32,
    #[prost(uint32, tag = "6")]
    pub(super) max_tag_values: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SearchTagValuesResponse {
    #[prost(string, repeated, tag = "1")]
    pub(super) tag_values: Vec<String>,
    #[prost(message, optional, tag = "2")]
    pub(super) metrics: Option<MetadataMetrics>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct TagValue {
    #[prost(string, tag = "1")]
    pub(super) r#type: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SearchTagValuesV2Response {
    #[prost(message, repeated, tag = "1")]
    pub(super) tag_values: Vec<TagValue>,
    #[prost(message, optional, tag = "2")]
    pub(super) metrics: Option<MetadataMetrics>,
}

/// What a question for tags looked at.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetadataMetrics {
    #[prost(uint32, tag = "2")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) total_jobs: u32,
    #[prost(uint32, tag = "3")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) completed_jobs: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct QueryInstantRequest {
    #[prost(string, tag = "1")]
    pub(super) query: String,
    #[prost(uint64, tag = "2")]
    pub(super) start: u64,
    #[prost(uint64, tag = "3")]
    pub(super) end: u64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct QueryInstantResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) series: Vec<InstantSeries>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metrics: Option<SearchMetrics>,
    #[prost(enumeration = "PartialStatus", tag = "3")]
    #[serde(serialize_with = "partial_status", skip_serializing_if = "is_zero")]
    pub(super) status: i32,
    #[prost(string, tag = "4")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct InstantSeries {
    #[prost(message, repeated, tag = "1")]
    pub(super) labels: Vec<KeyValue>,
    #[prost(double, tag = "2")]
    #[serde(serialize_with = "double", skip_serializing_if = "is_zero")]
    pub(super) value: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct QueryRangeRequest {
    #[prost(string, tag = "1")]
    pub(super) query: String,
    #[prost(uint64, tag = "2")]
    pub(super) start: u64,
    #[prost(uint64, tag = "3")]
    pub(super) end: u64,
    #[prost(uint64, tag = "4")]
    pub(super) step: u64,
    #[prost(uint32, tag = "16")]
    pub(super) exemplars: u32,
    #[prost(uint32, tag = "17")]
    pub(super) max_series: u32,
}

/// Whether an answer is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum PartialStatus {
    Complete = 0,
    Partial = 1,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn partial_status<S: Serializer>(status: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match PartialStatus::try_from(*status) {
        Ok(PartialStatus::Partial) => "PARTIAL",
        _ => "COMPLETE",
    })
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct QueryRangeResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) series: Vec<TimeSeries>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metrics: Option<SearchMetrics>,
    #[prost(enumeration = "PartialStatus", tag = "3")]
    #[serde(serialize_with = "partial_status", skip_serializing_if = "is_zero")]
    pub(super) status: i32,
    #[prost(string, tag = "4")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    pub(super) labels: Vec<KeyValue>,
    #[prost(message, repeated, tag = "2")]
    pub(super) samples: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) exemplars: Vec<Exemplar>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample {
    #[prost(double, tag = "1")]
    #[serde(serialize_with = "double", skip_serializing_if = "is_zero")]
    pub(super) value: f64,
    #[prost(int64, tag = "2")]
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    pub(super) timestamp_ms: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Exemplar {
    #[prost(message, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) labels: Vec<KeyValue>,
    #[prost(double, tag = "2")]
    #[serde(serialize_with = "double", skip_serializing_if = "is_zero")]
    pub(super) value: f64,
    #[prost(int64, tag = "3")]
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    pub(super) timestamp_ms: i64,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct TraceByIdResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) trace: Option<Trace>,
    #[prost(message, optional, tag = "2")]
    pub(super) metrics: Option<TraceByIdMetrics>,
    #[prost(enumeration = "PartialStatus", tag = "3")]
    #[serde(serialize_with = "partial_status", skip_serializing_if = "is_zero")]
    pub(super) status: i32,
    #[prost(string, tag = "4")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct TraceByIdMetrics {}

/// A trace as OTLP has it.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "2")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) dropped_attributes_count: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstrumentationScope {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) version: String,
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "4")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) dropped_attributes_count: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "base64")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "base64")]
    pub(super) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "base64", skip_serializing_if = "Vec::is_empty")]
    pub(super) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[prost(enumeration = "SpanKind", tag = "6")]
    #[serde(serialize_with = "span_kind", skip_serializing_if = "is_zero")]
    pub(super) kind: i32,
    #[prost(fixed64, tag = "7")]
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    pub(super) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "10")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) dropped_attributes_count: u32,
    #[prost(message, repeated, tag = "11")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<Event>,
    #[prost(uint32, tag = "12")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) dropped_events_count: u32,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<Link>,
    #[prost(uint32, tag = "14")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) dropped_links_count: u32,
    #[prost(message, optional, tag = "15")]
    pub(super) status: Option<Status>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    #[prost(fixed64, tag = "1")]
    #[serde(serialize_with = "digits", skip_serializing_if = "is_zero")]
    pub(super) time_unix_nano: u64,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "3")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "4")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) dropped_attributes_count: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "base64")]
    pub(super) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "base64")]
    pub(super) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) trace_state: String,
    #[prost(message, repeated, tag = "4")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "5")]
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) dropped_attributes_count: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(super) struct Status {
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    #[prost(enumeration = "StatusCode", tag = "3")]
    #[serde(serialize_with = "status_code", skip_serializing_if = "is_zero")]
    pub(super) code: i32,
}

/// OTLP's kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum SpanKind {
    Unspecified = 0,
    Internal = 1,
    Server = 2,
    Client = 3,
    Producer = 4,
    Consumer = 5,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn span_kind<S: Serializer>(kind: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match SpanKind::try_from(*kind) {
        Ok(SpanKind::Internal) => "SPAN_KIND_INTERNAL",
        Ok(SpanKind::Server) => "SPAN_KIND_SERVER",
        Ok(SpanKind::Client) => "SPAN_KIND_CLIENT",
        Ok(SpanKind::Producer) => "SPAN_KIND_PRODUCER",
        Ok(SpanKind::Consumer) => "SPAN_KIND_CONSUMER",
        Ok(SpanKind::Unspecified) | Err(_) => "SPAN_KIND_UNSPECIFIED",
    })
}

/// OTLP's status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum StatusCode {
    Unset = 0,
    Ok = 1,
    Error = 2,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn status_code<S: Serializer>(code: &i32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match StatusCode::try_from(*code) {
        Ok(StatusCode::Ok) => "STATUS_CODE_OK",
        Ok(StatusCode::Error) => "STATUS_CODE_ERROR",
        Ok(StatusCode::Unset) | Err(_) => "STATUS_CODE_UNSET",
    })
}
