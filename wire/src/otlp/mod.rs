//! OTLP traces (opentelemetry-proto 1.x): protobuf and JSON to span batches.
//!
//! A request is read in two layers. The outer one (resources, scopes) is walked
//! over the bytes as they lie; each span is then decoded on its own, turned into
//! a row and dropped. So a request of many tiny messages cannot grow to many
//! times its size, and a faster span decoder can take the inner layer's place.

mod collect;
mod json;
pub(crate) mod known;
mod protobuf;
mod resource;
mod response;
mod span;
mod value;

pub use collect::{Decoded, Limits, Rejections};
pub use json::decode_json;
pub use protobuf::decode_protobuf;
pub use response::{response_json, response_protobuf};
pub(crate) use span::Invalid;

/// Why a request could not be read.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// It is no ExportTraceServiceRequest.
    #[error("the body is no OTLP ExportTraceServiceRequest: {place}: {reason}")]
    Malformed {
        /// Which message of it.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It holds more than one request may.
    #[error("the request is too large: {what} (limit {limit}); send smaller batches")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit that it passes.
        limit: usize,
    },
    /// The rows could not be put into a batch: a mistake of this program.
    #[error(transparent)]
    Model(#[from] spanwise_model::ModelError),
}

impl OtlpError {
    fn malformed(place: impl Into<String>, reason: impl ToString) -> Self {
        Self::Malformed { place: place.into(), reason: reason.to_string() }
    }
}
