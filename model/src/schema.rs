//! The Arrow schema of spans. Times are nanoseconds since 1970-01-01 UTC, durations are
//! nanoseconds, and ids are big-endian bytes. Texts with few distinct values are dictionaries (an
//! integer for each row).

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

macro_rules! columns {
    ($($(#[$doc:meta])* $const:ident = $name:literal,)+) => {
        /// Names of the columns, in schema order.
        pub mod column {
            $($(#[$doc])* pub const $const: &str = $name;)+
            /// All column names.
            pub const ALL: &[&str] = &[$($name,)+];
        }
    };
}

columns! {
    /// Trace id from a header or an SDK; null if there was none.
    TRACE_ID = "trace_id",
    /// The span's own id. The agent generates one if no header contains it.
    SPAN_ID = "span_id",
    /// The parent according to a header or an SDK.
    PARENT_SPAN_ID = "parent_span_id",
    /// W3C `tracestate`.
    TRACE_STATE = "trace_state",
    /// Start.
    START_UNIX_NANO = "start_unix_nano",
    /// Duration; 0 if the end was before the start (see [`crate::ClockFault`]).
    DURATION_NANO = "duration_nano",
    /// `service.name`.
    SERVICE = "service",
    /// `service.instance.id`; for zero-code spans `HOST/PID`.
    INSTANCE = "instance",
    /// Span name, for example `GET /cart` or `SELECT`.
    OPERATION = "operation",
    /// See [`crate::Kind`].
    KIND = "kind",
    /// See [`crate::protocol`].
    PROTOCOL = "protocol",
    /// See [`crate::Status`].
    STATUS = "status",
    /// The protocol's own status code: HTTP status, gRPC status.
    STATUS_CODE = "status_code",
    /// The error, for people: `error.type`, or an SQLSTATE with its message.
    ERROR = "error",
    /// See [`crate::Capture`].
    CAPTURE = "capture",
    /// Identifies the work of one process for one request: the request that it served, and the
    /// calls that it made for it. Null if the agent could not tell.
    FRAGMENT_ID = "fragment_id",
    /// TCP sequence number of the request's first byte.
    REQUEST_TCP_SEQ = "request_tcp_seq",
    /// TCP sequence number of the response's first byte.
    RESPONSE_TCP_SEQ = "response_tcp_seq",
    /// Address of the side that opened the connection, at the capture point.
    CLIENT_ADDRESS = "client_address",
    /// Its port.
    CLIENT_PORT = "client_port",
    /// Address of the side that accepted the connection.
    SERVER_ADDRESS = "server_address",
    /// Its port.
    SERVER_PORT = "server_port",
    /// Inode number of the network namespace of the connection.
    NETWORK_NAMESPACE = "network_namespace",
    /// X-Request-ID header of the request, or of its response.
    X_REQUEST_ID = "x_request_id",
    /// The messages of a broker that the span sent (`>task:9f86d081884c7d65`) and received (`<…`),
    /// separated by spaces. Spans that have one in common are linked when they are read.
    LOGICAL_KEY = "logical_key",
    /// The trace according to assembly; null until assembly has run.
    ASSEMBLED_TRACE_ID = "assembled_trace_id",
    /// The parent according to assembly; null for a root.
    ASSEMBLED_PARENT = "assembled_parent",
    /// The evidence for the parent. Before assembly: the agent's evidence for the fragment.
    EVIDENCE = "evidence",
    /// The link's confidence, 0 to 1; see [`crate::Evidence::CERTAIN`].
    CONFIDENCE = "confidence",
    /// `host.name`.
    HOST = "host",
    /// `process.pid`.
    PROCESS_ID = "process_id",
    /// All resource attributes, as a JSON object with sorted keys.
    RESOURCE = "resource",
    /// Time for opening the connection, on the span that opened it.
    CONNECT_NANO = "connect_nano",
    /// Smoothed round-trip time at the response.
    RTT_NANO = "rtt_nano",
    /// Segments retransmitted during the span.
    RETRANSMITS = "retransmits",
    /// Number of times that the peer's window closed during the span.
    ZERO_WINDOWS = "zero_windows",
    /// Resets during the span.
    RESETS = "resets",
    /// Bytes of the request on the connection.
    REQUEST_BYTES = "request_bytes",
    /// Bytes of the response on the connection.
    RESPONSE_BYTES = "response_bytes",
    /// Typed attributes: key to {type, value}; see [`crate::AttributeValue`].
    ATTRIBUTES = "attributes",
    /// Events: time, name, attributes.
    EVENTS = "events",
    /// Links to other spans.
    LINKS = "links",
}

/// A dictionary of texts with 32-bit keys.
pub fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// Fields of an attribute's value.
pub fn value_fields() -> Fields {
    Fields::from(vec![
        Field::new("type", DataType::UInt8, false),
        Field::new("value", DataType::Utf8, false),
    ])
}

/// Name, key and value field names of the attribute map: Parquet's own.
const MAP_NAMES: [&str; 3] = ["key_value", "key", "value"];

/// Fields of an entry of the attribute map.
pub fn map_entry_fields() -> Fields {
    Fields::from(vec![
        Field::new(MAP_NAMES[1], DataType::Utf8, false),
        Field::new(MAP_NAMES[2], DataType::Struct(value_fields()), false),
    ])
}

/// The field with the entries of the attribute map.
pub fn map_entries_field() -> FieldRef {
    Arc::new(Field::new(MAP_NAMES[0], DataType::Struct(map_entry_fields()), false))
}

/// The type of a map of attributes.
pub fn map_type() -> DataType {
    DataType::Map(map_entries_field(), false)
}

/// Fields of an event.
pub fn event_fields() -> Fields {
    Fields::from(vec![
        Field::new("time_unix_nano", DataType::Int64, false),
        Field::new("name", DataType::Utf8, false),
        Field::new("attributes", map_type(), false),
    ])
}

/// Fields of a link.
pub fn link_fields() -> Fields {
    Fields::from(vec![
        Field::new("trace_id", DataType::FixedSizeBinary(16), false),
        Field::new("span_id", DataType::FixedSizeBinary(8), false),
        Field::new("trace_state", DataType::Utf8, true),
        Field::new("attributes", map_type(), false),
    ])
}

/// The list item field of `events` and `links`.
pub fn list_item(fields: Fields) -> FieldRef {
    Arc::new(Field::new("item", DataType::Struct(fields), false))
}

/// The schema of spans.
pub fn span_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        use DataType::{FixedSizeBinary, Float32, Int32, Int64, UInt16, UInt32, UInt64, Utf8};
        let required = |name, data_type| Field::new(name, data_type, false);
        let optional = |name, data_type| Field::new(name, data_type, true);
        Arc::new(Schema::new(vec![
            optional(column::TRACE_ID, FixedSizeBinary(16)),
            required(column::SPAN_ID, FixedSizeBinary(8)),
            optional(column::PARENT_SPAN_ID, FixedSizeBinary(8)),
            optional(column::TRACE_STATE, Utf8),
            required(column::START_UNIX_NANO, Int64),
            required(column::DURATION_NANO, Int64),
            required(column::SERVICE, dictionary_type()),
            optional(column::INSTANCE, dictionary_type()),
            required(column::OPERATION, dictionary_type()),
            required(column::KIND, dictionary_type()),
            optional(column::PROTOCOL, dictionary_type()),
            required(column::STATUS, dictionary_type()),
            optional(column::STATUS_CODE, Int32),
            optional(column::ERROR, dictionary_type()),
            required(column::CAPTURE, dictionary_type()),
            optional(column::FRAGMENT_ID, UInt64),
            optional(column::REQUEST_TCP_SEQ, UInt32),
            optional(column::RESPONSE_TCP_SEQ, UInt32),
            optional(column::CLIENT_ADDRESS, dictionary_type()),
            optional(column::CLIENT_PORT, UInt16),
            optional(column::SERVER_ADDRESS, dictionary_type()),
            optional(column::SERVER_PORT, UInt16),
            optional(column::NETWORK_NAMESPACE, UInt32),
            optional(column::X_REQUEST_ID, Utf8),
            optional(column::LOGICAL_KEY, Utf8),
            optional(column::ASSEMBLED_TRACE_ID, FixedSizeBinary(16)),
            optional(column::ASSEMBLED_PARENT, FixedSizeBinary(8)),
            optional(column::EVIDENCE, dictionary_type()),
            optional(column::CONFIDENCE, Float32),
            optional(column::HOST, dictionary_type()),
            optional(column::PROCESS_ID, UInt32),
            required(column::RESOURCE, dictionary_type()),
            optional(column::CONNECT_NANO, Int64),
            optional(column::RTT_NANO, Int64),
            optional(column::RETRANSMITS, UInt32),
            optional(column::ZERO_WINDOWS, UInt32),
            optional(column::RESETS, UInt32),
            optional(column::REQUEST_BYTES, UInt64),
            optional(column::RESPONSE_BYTES, UInt64),
            required(column::ATTRIBUTES, map_type()),
            required(column::EVENTS, DataType::List(list_item(event_fields()))),
            required(column::LINKS, DataType::List(list_item(link_fields()))),
        ]))
    });
    Arc::clone(&SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_schema() {
        let schema = span_schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, column::ALL);
    }
}
