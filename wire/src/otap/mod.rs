//! OTAP, the OpenTelemetry protocol with Apache Arrow: what one collector sends
//! to another on a long-lived gRPC stream, as tables instead of objects.
//!
//! A message holds up to eight tables (spans, their events and links, and the
//! attributes of each of these), every one a piece of an Arrow IPC stream of its
//! own. Dictionaries live as long as such a stream, so a decoder belongs to one
//! gRPC stream, and where a table could not be read nothing after it can be.
//! Rows are made by the code that makes those of OTLP, from views of columns.
//!
//! Sources: open-telemetry/otel-arrow, `docs/otap-spec.md` and
//! `arrow_service.proto`; where these leave a choice, its Go producer, which is
//! what the Collector's exporter runs.
//!
//! What the format loses, nobody here can restore: it sorts attributes and
//! events, and the Go producer leaves out attributes without a value or a key.
//! Events are put back in the order of their times.

mod attributes;
mod cbor;
mod columns;
mod decoder;
mod ids;
mod ipc;
mod message;
mod payload;
mod schema;
mod spans;
mod status;
mod tables;

pub use decoder::{Batch, Broken, StreamDecoder};
pub use status::{BatchStatus, StatusCode};

use crate::otlp::{self, OtlpError};

/// What one stream may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtapLimits {
    /// Bytes of one batch's columns, uncompressed, and of dictionaries that it
    /// makes be copied.
    pub batch_bytes: usize,
    /// Rows of one batch's tables together.
    pub table_rows: usize,
    /// What the spans of one batch may be.
    pub spans: otlp::Limits,
}

impl Default for OtapLimits {
    fn default() -> Self {
        Self { batch_bytes: 128 << 20, table_rows: 4 << 20, spans: otlp::Limits::default() }
    }
}

/// Why a batch was not taken.
#[derive(Debug, thiserror::Error)]
pub enum OtapError {
    /// It is not what the format asks for.
    #[error("the OTAP batch cannot be read: {place}: {reason}")]
    Malformed {
        /// Which part of it.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// It holds more than one batch may.
    #[error("the OTAP batch is too large: {what} (limit {limit}); send smaller batches")]
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

impl OtapError {
    fn malformed(place: impl Into<String>, reason: impl ToString) -> Self {
        Self::Malformed { place: place.into(), reason: reason.to_string() }
    }
}

impl From<OtlpError> for OtapError {
    fn from(error: OtlpError) -> Self {
        match error {
            OtlpError::Malformed { place, reason, .. } => Self::Malformed { place, reason },
            OtlpError::TooLarge { what, limit } => Self::TooLarge { what, limit },
            OtlpError::Model(error) => Self::Model(error),
        }
    }
}
