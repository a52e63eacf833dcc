//! Receivers: OTLP over gRPC and HTTP, and Arrow Flight from agents.
//!
//! This stage listens, bounds what it takes, hands bytes to `wire` and the
//! batches that come back to a [`Sink`]. A sender hears "taken" only after the
//! sink has said so. Whatever is refused is answered with a reason and counted
//! by name ([`IngestStatus`]).

mod agents;
mod body;
mod budget;
mod connections;
mod counters;
mod failure;
mod flight;
mod grpc;
mod http;
mod limits;
mod marking;
mod otlp;
mod server;
mod sink;

pub use agents::AgentStatus;
pub use limits::Limits;
pub use server::{Ingest, IngestError, IngestStatus};
pub use sink::{Refused, Sink};
pub use spanwise_wire::flight::Origin;
