//! OTLP traces (opentelemetry-proto 1.x): protobuf and JSON to span batches.
//!
//! A request is read span by span. A span is looked at where it lies: its fields
//! are noted in a view, which is used again for the next one, and then copied to
//! their columns. So no tree of objects is built, nothing is allocated for an
//! attribute unless it is an array or a map, and a request of many tiny messages
//! cannot grow to many times its size. Of a span like others before, only what is its
//! own is read.

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

/// What makes rows of spans, for formats that have OTLP's fields in another
/// form.
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
        /// Where it belongs, if it belongs elsewhere.
        meant_for: Option<MeantFor>,
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
        Self::Malformed { place: place.into(), reason: said(reason), meant_for: None }
    }

    /// With what the body rather is.
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
