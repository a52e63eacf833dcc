//! A span of a trace. The server writes spans from their columns, without these types; its
//! tests read what it writes as these types.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use spanwise_model::{Capture, Evidence, Kind};

use crate::{Bytes, Nano};

/// How the operation of a span ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SpanStatus {
    /// Nobody said.
    Unset,
    /// Said to be right.
    Ok,
    /// Failed.
    Error,
    /// The agent did not see how it ended (attribute `spanwise.status`).
    Unknown,
}

/// A span of a trace. Fields without a value are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Span {
    /// The trace id that a header or an SDK carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The span's id.
    pub span_id: String,
    /// The parent that a header or an SDK named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// The W3C `tracestate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_state: Option<String>,
    /// The start.
    pub start_unix_nano: Nano,
    /// The duration.
    pub duration_nano: Nano,
    /// The service.
    pub service: String,
    /// The instance of the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The span's name.
    pub operation: String,
    /// The role of the span in its exchange.
    #[cfg_attr(test, schemars(with = "crate::vocabulary::SpanKind"))]
    pub kind: Kind,
    /// The protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// How the operation ended.
    pub status: SpanStatus,
    /// The protocol's status code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
    /// The error's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where the span was captured.
    #[cfg_attr(test, schemars(with = "crate::vocabulary::Capture"))]
    pub capture: Capture,
    /// Identifies what one process did for one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragment_id: Option<String>,
    /// The TCP sequence number of the request's first byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_tcp_seq: Option<u32>,
    /// The TCP sequence number of the response's first byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_tcp_seq: Option<u32>,
    /// The address that opened the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_address: Option<String>,
    /// Its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_port: Option<u16>,
    /// The address that accepted the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_address: Option<String>,
    /// Its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_port: Option<u16>,
    /// The inode number of the network namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_namespace: Option<u32>,
    /// The `X-Request-ID` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x_request_id: Option<String>,
    /// A business key that chains requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_key: Option<String>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_id: Option<u32>,
    /// The resource attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, Value>"))]
    pub resource: Option<Value>,
    /// The time that the connection took to open, on the span that opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_nano: Option<Nano>,
    /// The smoothed round-trip time when the response arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_nano: Option<Nano>,
    /// Segments that were retransmitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u32>,
    /// How often the peer's window closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_windows: Option<u32>,
    /// Connection resets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets: Option<u32>,
    /// Bytes of the request on the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<Bytes>,
    /// Bytes of the response on the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_bytes: Option<Bytes>,
    /// The attributes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<Attribute>>,
    /// The events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<SpanEvent>>,
    /// The links to other spans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<SpanLink>>,
    /// The id of the trace that it was assembled into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assembled_trace_id: Option<String>,
    /// The id of its parent in that trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assembled_parent: Option<String>,
    /// Why it has this parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<crate::vocabulary::Evidence>"))]
    pub evidence: Option<Evidence>,
    /// How sure that is, from 0 to 1. A link of 0.999 or more is certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence: Option<f32>,
    /// The id of its parent in the tree; null for a root.
    pub parent: Option<String>,
    /// Its level in the tree; 0 for a root.
    pub depth: u64,
    /// The time that no child covers.
    pub self_nano: Nano,
    /// The ids of its children.
    pub children: Vec<String>,
}

/// An attribute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Attribute {
    /// Its key.
    pub key: String,
    /// The type of its value.
    pub r#type: AttributeType,
    /// Its value. Integers beyond 2^53, and doubles that are not finite, are strings.
    pub value: Value,
}

/// The type of an attribute's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AttributeType {
    /// Text.
    String,
    /// An integer of 64 bits.
    Int,
    /// A floating-point number of 64 bits.
    Double,
    /// True or false.
    Bool,
    /// Bytes, in base64.
    Bytes,
    /// An array or an object.
    Json,
}

/// An event of a span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SpanEvent {
    /// When it happened.
    pub time_unix_nano: Nano,
    /// Its name.
    pub name: String,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// A link to another span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SpanLink {
    /// The trace of that span.
    pub trace_id: String,
    /// The span.
    pub span_id: String,
    /// The W3C `tracestate` of that span.
    pub trace_state: Option<String>,
    /// The link's attributes.
    pub attributes: Vec<Attribute>,
}
