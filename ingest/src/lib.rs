//! Receivers: OTLP over gRPC and HTTP, OTAP, Zipkin, Jaeger (gRPC, HTTP, UDP), and Arrow Flight
//! from agents.
//!
//! This stage listens, enforces limits, lets `wire` decode the bytes, and passes the resulting
//! batches to a [`Sink`]. A sender gets a success only after the sink has confirmed it. Every
//! refusal has a reason and is counted by name ([`IngestStatus`]).

mod clock;
mod counters;
mod keys;
mod limits;
mod marking;
mod names;
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
