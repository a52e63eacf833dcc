//! Receivers: OTLP over gRPC and HTTP, OTAP, Zipkin, Jaeger (gRPC, HTTP, UDP),
//! and Arrow Flight from agents.
//!
//! This stage listens, bounds what it takes, hands bytes to `wire` and the
//! batches that come back to a [`Sink`]. A sender hears "taken" only after the
//! sink has said so. Whatever is refused is answered with a reason and counted
//! by name ([`IngestStatus`]).

mod agents;
mod binding;
mod body;
mod budget;
mod clock;
mod counters;
mod facts;
mod failure;
mod flight;
mod grpc;
mod http;
mod jaeger_grpc;
mod jaeger_http;
mod jaeger_udp;
mod kernel_drops;
mod limits;
mod marking;
mod messages;
mod otap;
mod otlp;
mod places;
mod plain;
mod ports;
mod refusals;
mod server;
mod sink;
mod sparse;
mod take;
mod together;
mod unary;
mod zipkin;

pub use agents::AgentStatus;
pub use limits::Limits;
pub use ports::Allowed;
pub use server::{Ingest, IngestError, IngestStatus};
pub use sink::{Refused, Sink};
pub use spanwise_wire::flight::Origin;
pub use spanwise_wire::jaeger::Protocol as ThriftProtocol;
