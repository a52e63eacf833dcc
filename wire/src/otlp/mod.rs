//! OTLP traces (opentelemetry-proto 1.x): protobuf and JSON to span batches.
//!
//! A request is decoded span by span. A span's fields are noted in a reusable view that borrows
//! from the request, and then copied to columns. So no objects are built, an attribute is allocated
//! only if it is an array or a map, and a request of many tiny messages cannot grow to many times
//! its size. If a span resembles earlier ones, only its own values are decoded.

mod builders;
mod collect;
mod decode;
mod json;
mod kept;
mod keys;
pub(crate) mod known;
mod protobuf;
mod repeats;
mod resource;
mod response;
mod signature;
mod span;
mod unknown;
mod value;
mod view;

pub use collect::{Decoded, Limits, Part, Rejections};
pub use json::decode_json;
pub use protobuf::{Together, decode_protobuf, decode_protobuf_together};
pub use response::{response_json, response_protobuf};
pub(crate) use span::Invalid;
pub(crate) use unknown::spans_in_protobuf;

/// The parts that convert spans to rows, for formats with OTLP's fields in another encoding.
pub(crate) mod rows {
    pub(crate) use super::builders::{Builder, with_builder};
    pub(crate) use super::collect::{Collector, Emitting};
    pub(crate) use super::keys::Keys;
    pub(crate) use super::resource::{ResourceFacts, ScopeFacts};
    pub(crate) use super::value::{Any, Pair};
    pub(crate) use super::view::{EventView, LinkView, ResourceView, ScopeView, SpanView};
}

use crate::bounds::said;
use crate::mistaken::{MeantFor, Taken, with_hint};

/// Why a request could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// It is not an ExportTraceServiceRequest.
    #[error("the body is no OTLP ExportTraceServiceRequest: {place}: {reason}")]
    Malformed {
        /// The invalid message.
        place: String,
        /// The problem.
        reason: String,
        /// The receiver where it belongs, if it belongs elsewhere.
        meant_for: Option<MeantFor>,
    },
    /// It exceeds a limit.
    #[error("the request is too large: {what} (limit {limit}); send smaller batches")]
    TooLarge {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit that it passes.
        limit: usize,
    },
    /// The rows could not be put into a batch, which is an internal error.
    #[error(transparent)]
    Model(#[from] spanwise_model::ModelError),
}

impl OtlpError {
    fn malformed(place: impl Into<String>, reason: impl ToString) -> Self {
        Self::Malformed { place: place.into(), reason: said(reason), meant_for: None }
    }

    /// Adds a hint what the body seems to be.
    fn with_hint(self, body: &[u8], taken: Taken) -> Self {
        match self {
            Self::Malformed { place, reason, .. } => {
                let (reason, meant_for) = with_hint(reason, body, taken);
                Self::Malformed { place, reason, meant_for }
            }
            other => other,
        }
    }
}
