//! Receivers: OTLP over gRPC and HTTP, OTAP, Zipkin, Jaeger (gRPC, HTTP, UDP),
//! and Arrow Flight from agents.
//!
//! This stage listens, bounds what it takes, hands bytes to `wire` and the
//! batches that come back to a [`Sink`]. A sender hears "taken" only after the
//! sink has said so. Whatever is refused is answered with a reason and counted
//! by name ([`IngestStatus`]).

mod clock;
mod counters;
mod limits;
mod marking;
mod receivers;
mod server;
mod sink;
mod transport;

pub use limits::Limits;
pub use receivers::flight::agents::AgentStatus;
pub use receivers::{AGENTS, RECEIVERS, Receiver, ReceiverAddresses};
pub use server::{Ingest, IngestError, IngestStatus, Socket};
pub use sink::{Refused, Sink};
pub use spanwise_wire::flight::Origin;
pub use transport::ports::Allowed;
