//! Converts bytes to Arrow record batches of the span schema, and back.
//!
//! [`otlp`] decodes what OpenTelemetry SDKs and collectors send, [`otap`] the Arrow protocol
//! between collectors, and [`zipkin`] and [`jaeger`] the formats of their clients, and [`jvm`] what the
//! JVM agent sends. [`flight`]
//! transfers span batches from the agent to the server. All input is untrusted: every length is
//! checked, and the size of decoded messages is limited. This crate stores nothing and does not
//! know traces.

mod bounds;
pub mod compression;
pub mod files;
pub mod flight;
mod inspect;
pub mod jaeger;
pub mod jvm;
mod mistaken;
pub mod otap;
pub mod otlp;
mod protobuf;
mod rows;
pub mod rpc_status;
mod tags;
mod thrift;
pub mod zipkin;

pub use bounds::LeftOut;
pub use mistaken::MeantFor;
pub use rows::DecodeError;
