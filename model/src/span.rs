//! One row of the span schema as a struct.

use crate::{Attributes, Capture, Evidence, Kind, ResourceJson, SpanId, Status, TraceId};

/// One span. Every field is the column of the same name (see [`crate::schema`] for the meaning).
/// `flow` and `network` are groups of columns.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "documented column by column in the schema")]
pub struct Span {
    pub trace_id: Option<TraceId>,
    pub span_id: SpanId,
    pub parent_span_id: Option<SpanId>,
    pub trace_state: Option<String>,
    pub start_unix_nano: i64,
    pub duration_nano: i64,
    pub service: String,
    pub instance: Option<String>,
    pub operation: String,
    pub kind: Kind,
    pub protocol: Option<String>,
    pub status: Status,
    pub status_code: Option<i32>,
    pub error: Option<String>,
    pub capture: Capture,
    pub fragment_id: Option<u64>,
    pub request_tcp_seq: Option<u32>,
    pub response_tcp_seq: Option<u32>,
    pub flow: Flow,
    pub x_request_id: Option<String>,
    pub logical_key: Option<String>,
    pub assembled_trace_id: Option<TraceId>,
    pub assembled_parent: Option<SpanId>,
    pub evidence: Option<Evidence>,
    pub confidence: Option<f32>,
    pub host: Option<String>,
    pub process_id: Option<u32>,
    pub resource: ResourceJson,
    pub network: Network,
    pub attributes: Attributes,
    pub events: Vec<Event>,
    pub links: Vec<Link>,
}

/// The connection of the span's request. Addresses are text without a port; IPv4 in dotted form,
/// even on an IPv6 socket.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "documented column by column in the schema")]
pub struct Flow {
    pub client_address: Option<String>,
    pub client_port: Option<u16>,
    pub server_address: Option<String>,
    pub server_port: Option<u16>,
    pub network_namespace: Option<u32>,
}

/// Facts about the connection from the kernel's TCP stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented column by column in the schema")]
pub struct Network {
    pub connect_nano: Option<i64>,
    pub rtt_nano: Option<i64>,
    pub retransmits: Option<u32>,
    pub zero_windows: Option<u32>,
    pub resets: Option<u32>,
    pub request_bytes: Option<u64>,
    pub response_bytes: Option<u64>,
}

/// A timestamped event of a span.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The time, in nanoseconds since 1970.
    pub time_unix_nano: i64,
    /// The name, for example `exception`.
    pub name: String,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A reference to a span of this or another trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// The other span's trace.
    pub trace_id: TraceId,
    /// The other span.
    pub span_id: SpanId,
    /// The other span's W3C trace state, if it has one.
    pub trace_state: Option<String>,
    /// The link's attributes.
    pub attributes: Attributes,
}

impl Span {
    /// A span with these fields and nothing else.
    pub fn new(
        span_id: SpanId,
        capture: Capture,
        kind: Kind,
        service: impl Into<String>,
        operation: impl Into<String>,
        start_unix_nano: i64,
        duration_nano: i64,
    ) -> Self {
        Self {
            trace_id: None,
            span_id,
            parent_span_id: None,
            trace_state: None,
            start_unix_nano,
            duration_nano,
            service: service.into(),
            instance: None,
            operation: operation.into(),
            kind,
            protocol: None,
            status: Status::Unset,
            status_code: None,
            error: None,
            capture,
            fragment_id: None,
            request_tcp_seq: None,
            response_tcp_seq: None,
            flow: Flow::default(),
            x_request_id: None,
            logical_key: None,
            assembled_trace_id: None,
            assembled_parent: None,
            evidence: None,
            confidence: None,
            host: None,
            process_id: None,
            resource: ResourceJson::default(),
            network: Network::default(),
            attributes: Attributes::new(),
            events: Vec::new(),
            links: Vec::new(),
        }
    }

    /// The end, in nanoseconds since 1970; saturates at the limits of time.
    pub const fn end_unix_nano(&self) -> i64 {
        self.start_unix_nano.saturating_add(self.duration_nano)
    }

    /// The first attribute with this key.
    pub fn attribute(&self, key: &str) -> Option<&crate::AttributeValue> {
        self.attributes.iter().find(|(k, _)| k == key).map(|(_, value)| value)
    }
}
