//! OTAP, the OpenTelemetry protocol with Apache Arrow: a long-lived gRPC stream between collectors,
//! with tables instead of objects.
//!
//! A message contains up to eight tables: spans, their events and links, and the attributes of
//! each. Each table is part of its own Arrow IPC stream. Dictionaries live as long as that stream.
//! So a decoder belongs to one gRPC stream, and after a table that cannot be decoded, nothing else
//! can be. Rows are made from views of columns by the same code as for OTLP.
//!
//! Sources: open-telemetry/otel-arrow, `docs/otap-spec.md` and `arrow_service.proto`. If these are
//! ambiguous, its Go producer, which the Collector's exporter uses.
//!
//! The format loses some information: it sorts attributes and events, and the Go producer omits
//! attributes without a value or a key. Events are sorted by time again.

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

/// Limits of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtapLimits {
    /// Maximum uncompressed bytes of one batch's columns and of the dictionaries that it causes to
    /// be copied.
    pub batch_bytes: usize,
    /// Maximum rows of one batch's tables together.
    pub table_rows: usize,
    /// Limits of one batch's spans.
    pub spans: otlp::Limits,
}

impl Default for OtapLimits {
    fn default() -> Self {
        Self { batch_bytes: 128 << 20, table_rows: 4 << 20, spans: otlp::Limits::default() }
    }
}

/// Why a batch was rejected.
#[derive(Debug, thiserror::Error)]
pub enum OtapError {
    /// It does not follow the format.
    #[error("the OTAP batch cannot be read: {place}: {reason}")]
    Malformed {
        /// The invalid part.
        place: String,
        /// The problem.
        reason: String,
    },
    /// It exceeds a limit.
    #[error("the OTAP batch is too large: {what} (limit {limit}); send smaller batches")]
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
