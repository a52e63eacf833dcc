//! Simulated loads of 30 services, all of whose requests are traced by OpenTelemetry SDKs. A seed
//! determines the bytes, on every host. There are two [profiles](Profile).
//!
//! Traces have 12 to 40 spans in a call tree over HTTP, gRPC, databases and messages. A span has 8
//! to 12 attributes of its own and takes about 550 bytes. Every instance of a service exports
//! separately, so a trace is spread over as many requests as instances took part in it. [`Load`]
//! makes the requests, [`Client`] posts them, and [`LoadSummary`] says what can be queried once
//! they are stored.
//!
//! It must be cheap, because it shares a host with what it measures. So it writes protobuf directly
//! into reused buffers.

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
