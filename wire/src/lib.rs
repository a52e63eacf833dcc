//! Bytes to Arrow record batches of the span schema, and back.
//!
//! [`otlp`] reads what OpenTelemetry SDKs and collectors send, [`otap`] what
//! collectors send to each other in Arrow's columns, [`zipkin`] and [`jaeger`]
//! what their own clients do; [`flight`] carries span batches from the agent to
//! the server. All take bytes from strangers: every length is
//! checked before it is believed, and what a message may grow to is bounded.
//! This crate stores nothing and knows no trees.

mod bounds;
pub mod compression;
pub mod files;
pub mod flight;
mod inspect;
pub mod jaeger;
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
