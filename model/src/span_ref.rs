//! A span with borrowed texts, which decoders pass to the batch builder without copying.

use crate::{Capture, Evidence, Kind, Network, ResourceJson, Span, SpanId, Status, TraceId};

/// The emitter of spans: columns that all spans of a resource share, with the meaning of [`Span`].
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented column by column in the schema")]
pub struct Emitter<'a> {
    pub service: &'a str,
    pub instance: Option<&'a str>,
    pub host: Option<&'a str>,
    pub process_id: Option<u32>,
    pub resource: &'a ResourceJson,
}

/// The columns of a span reported by an application, without attributes, events and links.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "documented column by column in the schema")]
pub struct SpanRef<'a> {
    pub trace_id: Option<TraceId>,
    pub span_id: SpanId,
    pub parent_span_id: Option<SpanId>,
    pub trace_state: Option<&'a str>,
    pub start_unix_nano: i64,
    pub duration_nano: i64,
    pub operation: &'a str,
    pub kind: Kind,
    pub protocol: Option<&'a str>,
    pub status: Status,
    pub status_code: Option<i32>,
    pub error: Option<&'a str>,
    pub capture: Capture,
    pub client_address: Option<&'a str>,
    pub client_port: Option<u16>,
    pub server_address: Option<&'a str>,
    pub server_port: Option<u16>,
    pub x_request_id: Option<&'a str>,
}

/// The columns of a span observed from outside the application, with the meaning of [`Span`].
#[derive(Debug, Clone, Copy, Default)]
#[expect(missing_docs, reason = "documented column by column in the schema")]
pub struct Observed {
    pub fragment_id: Option<u64>,
    pub request_tcp_seq: Option<u32>,
    pub response_tcp_seq: Option<u32>,
    pub network_namespace: Option<u32>,
    pub evidence: Option<Evidence>,
    pub confidence: Option<f32>,
    pub network: Network,
}

impl From<&Span> for Observed {
    fn from(span: &Span) -> Self {
        Self {
            fragment_id: span.fragment_id,
            request_tcp_seq: span.request_tcp_seq,
            response_tcp_seq: span.response_tcp_seq,
            network_namespace: span.flow.network_namespace,
            evidence: span.evidence,
            confidence: span.confidence,
            network: span.network,
        }
    }
}

impl<'a> From<&'a Span> for SpanRef<'a> {
    fn from(span: &'a Span) -> Self {
        Self {
            trace_id: span.trace_id,
            span_id: span.span_id,
            parent_span_id: span.parent_span_id,
            trace_state: span.trace_state.as_deref(),
            start_unix_nano: span.start_unix_nano,
            duration_nano: span.duration_nano,
            operation: &span.operation,
            kind: span.kind,
            protocol: span.protocol.as_deref(),
            status: span.status,
            status_code: span.status_code,
            error: span.error.as_deref(),
            capture: span.capture,
            client_address: span.flow.client_address.as_deref(),
            client_port: span.flow.client_port,
            server_address: span.flow.server_address.as_deref(),
            server_port: span.flow.server_port,
            x_request_id: span.x_request_id.as_deref(),
        }
    }
}
