//! Messages (jaeger-idl `proto/api_v3/query_service.proto`, `proto/storage/v2/`; jaeger
//! `internal/storage/v1/grpc/proto/storage.proto`), as far as they are spoken here.

use std::collections::HashMap;

use prost::{Message, Oneof};

/// A moment (protobuf's `Timestamp`).
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

/// A length of time (protobuf's `Duration`).
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Duration {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Services {
    #[prost(string, repeated, tag = "1")]
    pub(super) services: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OperationsRequest {
    #[prost(string, tag = "1")]
    pub(super) service: String,
    #[prost(string, tag = "2")]
    pub(super) span_kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Operation {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) span_kind: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Operations {
    #[prost(message, repeated, tag = "1")]
    pub(super) operations: Vec<Operation>,
}

/// Version 1 of the storage has names alone besides.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OldOperations {
    #[prost(string, repeated, tag = "1")]
    pub(super) names: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    pub(super) operations: Vec<Operation>,
}

/// A question for a trace by version 3.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TraceRequest {
    #[prost(string, tag = "1")]
    pub(super) trace_id: String,
    #[prost(bool, tag = "4")]
    pub(super) raw_traces: bool,
}

/// A question for traces by a storage's API.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TracesRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) query: Vec<OldTraceRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OldTraceRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    /// Only version 2 of the query API has it.
    #[prost(bool, tag = "4")]
    pub(super) raw_traces: bool,
}

/// A search by version 3.
#[derive(Clone, PartialEq, Message)]
pub(super) struct FindRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) query: Option<Find>,
}

/// Its parameters. Those of version 1 of the storage are the same, up to `depth`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Find {
    #[prost(string, tag = "1")]
    pub(super) service_name: String,
    #[prost(string, tag = "2")]
    pub(super) operation_name: String,
    #[prost(map = "string, string", tag = "3")]
    pub(super) attributes: HashMap<String, String>,
    #[prost(message, optional, tag = "4")]
    pub(super) start_time_min: Option<Timestamp>,
    #[prost(message, optional, tag = "5")]
    pub(super) start_time_max: Option<Timestamp>,
    #[prost(message, optional, tag = "6")]
    pub(super) duration_min: Option<Duration>,
    #[prost(message, optional, tag = "7")]
    pub(super) duration_max: Option<Duration>,
    #[prost(int32, tag = "8")]
    pub(super) search_depth: i32,
    #[prost(bool, tag = "9")]
    pub(super) raw_traces: bool,
    /// An expression, which is refused.
    #[prost(bytes = "vec", optional, tag = "10")]
    pub(super) filter: Option<Vec<u8>>,
}

/// A search by version 2 of the storage.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StorageFindRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) query: Option<StorageFind>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StorageFind {
    #[prost(string, tag = "1")]
    pub(super) service_name: String,
    #[prost(string, tag = "2")]
    pub(super) operation_name: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "4")]
    pub(super) start_time_min: Option<Timestamp>,
    #[prost(message, optional, tag = "5")]
    pub(super) start_time_max: Option<Timestamp>,
    #[prost(message, optional, tag = "6")]
    pub(super) duration_min: Option<Duration>,
    #[prost(message, optional, tag = "7")]
    pub(super) duration_max: Option<Duration>,
    #[prost(int32, tag = "8")]
    pub(super) search_depth: i32,
    /// An expression, which is refused.
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(super) filter: Option<Vec<u8>>,
}

/// An attribute that is searched for.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(super) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Value {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    /// Lists and maps are searched by nobody, and refused.
    #[prost(bytes, tag = "5")]
    Array(Vec<u8>),
    #[prost(bytes, tag = "6")]
    Map(Vec<u8>),
    #[prost(bytes, tag = "7")]
    Bytes(Vec<u8>),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FoundIds {
    #[prost(message, repeated, tag = "1")]
    pub(super) trace_ids: Vec<FoundId>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FoundId {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub(super) start: Option<Timestamp>,
    #[prost(message, optional, tag = "3")]
    pub(super) end: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OldFoundIds {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) trace_ids: Vec<Vec<u8>>,
}

/// Summaries of version 2 of the storage, whose ids are bytes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StorageSummaries {
    #[prost(message, repeated, tag = "1")]
    pub(super) summaries: Vec<StorageSummary>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StorageSummary {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) trace_id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) root_service_name: String,
    #[prost(string, tag = "3")]
    pub(super) root_operation_name: String,
    #[prost(fixed64, tag = "4")]
    pub(super) min_start_time_unix_nano: u64,
    #[prost(fixed64, tag = "5")]
    pub(super) max_end_time_unix_nano: u64,
    #[prost(int32, tag = "6")]
    pub(super) span_count: i32,
    #[prost(int32, tag = "7")]
    pub(super) error_span_count: i32,
    #[prost(int32, tag = "8")]
    pub(super) orphan_span_count: i32,
    #[prost(message, repeated, tag = "9")]
    pub(super) services: Vec<ServiceSummary>,
}

/// Those of version 3, whose ids are texts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Summaries {
    #[prost(message, repeated, tag = "1")]
    pub(super) summaries: Vec<Summary>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Summary {
    #[prost(string, tag = "1")]
    pub(super) trace_id: String,
    #[prost(string, tag = "2")]
    pub(super) root_service_name: String,
    #[prost(string, tag = "3")]
    pub(super) root_operation_name: String,
    #[prost(fixed64, tag = "4")]
    pub(super) min_start_time_unix_nano: u64,
    #[prost(fixed64, tag = "5")]
    pub(super) max_end_time_unix_nano: u64,
    #[prost(int32, tag = "6")]
    pub(super) span_count: i32,
    #[prost(int32, tag = "7")]
    pub(super) error_span_count: i32,
    #[prost(int32, tag = "8")]
    pub(super) orphan_span_count: i32,
    #[prost(message, repeated, tag = "9")]
    pub(super) services: Vec<ServiceSummary>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ServiceSummary {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) span_count: i32,
    #[prost(int32, tag = "3")]
    pub(super) error_span_count: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DependenciesRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) start_time: Option<Timestamp>,
    #[prost(message, optional, tag = "2")]
    pub(super) end_time: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Dependencies {
    #[prost(message, repeated, tag = "1")]
    pub(super) dependencies: Vec<Dependency>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Dependency {
    #[prost(string, tag = "1")]
    pub(super) parent: String,
    #[prost(string, tag = "2")]
    pub(super) child: String,
    #[prost(uint64, tag = "3")]
    pub(super) call_count: u64,
    /// Only storages have it.
    #[prost(string, tag = "4")]
    pub(super) source: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Capabilities {
    #[prost(message, optional, tag = "1")]
    pub(super) search: Option<SearchCapabilities>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SearchCapabilities {
    #[prost(bool, tag = "1")]
    pub(super) without_service_name: bool,
    #[prost(bool, tag = "2")]
    pub(super) same_span_conjunction: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OldCapabilities {
    #[prost(bool, tag = "1")]
    pub(super) archive_span_reader: bool,
    #[prost(bool, tag = "2")]
    pub(super) archive_span_writer: bool,
    #[prost(bool, tag = "3")]
    pub(super) streaming_span_writer: bool,
}

/// A question without fields.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}
