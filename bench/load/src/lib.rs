//! Loads like those of 30 services whose every request is traced by OpenTelemetry
//! SDKs: the same bytes for the same seed, on every machine. There are two
//! [profiles](Profile).
//!
//! Traces have 12 to 40 spans in a call tree over HTTP, gRPC, databases and
//! messages; a span has 8 to 12 attributes of its own and takes about 550
//! bytes. Every instance of a service exports on its own, so a trace is spread
//! over as many requests as instances took part in it. [`Load`] makes the
//! requests, [`Client`] posts them, and [`LoadSummary`] says what can be asked for
//! once they are stored.
//!
//! It is written to be cheap, since it shares a machine with what it measures:
//! spans are written as protobuf directly, into buffers that are used again.

mod attributes;
mod client;
mod config;
mod exporters;
mod ids;
mod load;
mod pods;
mod post;
mod profile;
mod protobuf;
mod random;
mod runtimes;
mod services;
mod shop;
mod span;
mod summary;
mod tags;
mod trace;

pub use client::{Client, Reply};
pub use config::{LoadConfig, LoadError};
pub use load::Load;
pub use post::{Posted, post};
pub use profile::Profile;
pub use summary::{LoadSummary, SampleTrace};
pub use tags::Tags;
