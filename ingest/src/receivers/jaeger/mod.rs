//! Jaeger's collector over gRPC and HTTP, and its agent over UDP.

pub(super) mod grpc;
pub(super) mod http;
pub(super) mod udp;

/// Counter of spans from all three.
const SPANS: &str = "jaeger_spans_accepted";
