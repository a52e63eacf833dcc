//! The span side: what a kernel or a recording reports of connections goes in, and spans
//! come out. It runs on any platform.

mod common;
mod connections;
pub mod counters;
mod datagrams;
pub mod event;
mod opaque;
pub mod recording;
pub mod sampling;
mod shown_keys;
mod spans;
mod tracer;
mod unknown;
mod unsent;

pub use tracer::{Assumed, Tracer, TracerConfig};
pub use unknown::ServiceUnknown;
