//! The zero-code agent: sees what processes say to each other from the kernel,
//! and turns it into spans.

pub mod agent;
pub mod budget;
mod connections;
mod context;
pub mod counters;
mod datagrams;
pub mod doctor;
pub mod event;
pub mod filter;
mod golang;
pub mod kernel;
mod libraries;
mod opaque;
pub mod plugins;
mod probed;
pub mod process;
pub mod processes;
mod protocols;
pub mod recording;
mod redact;
mod rights;
pub mod sampling;
mod sessions;
mod spans;
mod stream;
mod tasks;
pub mod tracer;
mod unclaimed;
mod unsent;

pub use libraries::tls_functions;
pub use tasks::Survey;
