//! Files of spans, as other tools write them, to span batches.
//!
//! What a file holds is decided from its bytes, never from its name: OTLP in
//! JSON or protobuf, as the OpenTelemetry Collector's file exporter writes it,
//! JSON of Jaeger or Zipkin, also compressed with gzip or zstd. A file is read record by record, so that
//! its size does not matter, only that of its largest record.

mod kind;
mod open;
mod records;

pub use kind::Kind;
pub use open::open;
pub use records::{Record, Records};

use crate::otlp;

/// What a file may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Bytes of one record: a line, a message, or a document over many lines.
    pub record_bytes: usize,
    /// What one record may hold.
    pub spans: otlp::Limits,
}

impl Default for FileLimits {
    fn default() -> Self {
        // What is downloaded as one document may hold many traces, and is read
        // by the one who asked for it.
        let spans = otlp::Limits { spans: 4 << 20, row_bytes: 2 << 30, ..otlp::Limits::default() };
        Self { record_bytes: 512 << 20, spans }
    }
}

/// Why a file, or one record of it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The bytes are of no kind that is known.
    #[error(
        "it is of no kind that can be imported ({reason}); known are OTLP JSON and protobuf as \
         the OpenTelemetry Collector's file exporter writes them, and the JSON of Jaeger and \
         Zipkin, also as gzip or zstd"
    )]
    Unknown {
        /// What was seen instead.
        reason: String,
    },
    /// One record is wrong; those after it can still be read.
    #[error("{place}: {reason}")]
    Record {
        /// Which one.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file ends in the midst of a record.
    #[error(
        "{place} is cut off: whatever wrote it was stopped, or is still writing; everything before \
         it has been read"
    )]
    CutOff {
        /// Which record.
        place: String,
    },
    /// A record is larger than one may be.
    #[error(
        "{place} is larger than {limit_bytes} bytes; split the file into smaller documents, best \
         one line each"
    )]
    TooLarge {
        /// Which record.
        place: String,
        /// The limit.
        limit_bytes: usize,
    },
    /// The file cannot be read.
    #[error("{place}: {source}")]
    Io {
        /// How far it was read.
        place: String,
        /// What the system or the decompressor said.
        source: std::io::Error,
    },
}

impl FileError {
    /// Whether the records after this one can still be read.
    pub const fn goes_on(&self) -> bool {
        matches!(self, Self::Record { .. })
    }
}
