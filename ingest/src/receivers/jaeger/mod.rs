//! Jaeger's collector and its agent: over gRPC, HTTP and UDP.

pub(super) mod grpc;
pub(super) mod http;
pub(super) mod udp;

/// Counts spans of all three.
const SPANS: &str = "jaeger_spans_accepted";
