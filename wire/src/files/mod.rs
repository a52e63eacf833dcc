//! Decodes span files of other tools to span batches.
//!
//! The format is recognised from the bytes, never from the file's name: OTLP as JSON or protobuf,
//! as the OpenTelemetry Collector's file exporter writes it, or JSON of Jaeger or Zipkin,
//! optionally compressed with gzip or zstd. A file is read record by record. Only its largest
//! record must fit into memory.

mod kind;
mod open;
mod records;

pub use kind::Kind;
pub use open::open;
pub use records::{Record, Records};

use crate::otlp;

/// Limits of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Maximum bytes of one record: a line, a message, or a document of several lines.
    pub record_bytes: usize,
    /// Limits of one record's spans.
    pub spans: otlp::Limits,
}

impl Default for FileLimits {
    fn default() -> Self {
        // A downloaded document may contain many traces, and the user who downloaded it also
        // imports it. So its limits are higher.
        let spans = otlp::Limits { spans: 4 << 20, row_bytes: 2 << 30, ..otlp::Limits::default() };
        Self { record_bytes: 512 << 20, spans }
    }
}

/// Why a file, or a record of it, could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The format is unknown.
    #[error(
        "it is of no kind that can be imported ({reason}); known are OTLP JSON and protobuf as \
         the OpenTelemetry Collector's file exporter writes them, and the JSON of Jaeger and \
         Zipkin, also as gzip or zstd"
    )]
    Unknown {
        /// What was found instead.
        reason: String,
    },
    /// One record is invalid. Later records can still be read.
    #[error("{place}: {reason}")]
    Record {
        /// The record's position.
        place: String,
        /// The problem.
        reason: String,
    },
    /// The file ends within a record.
    #[error(
        "{place} is cut off: whatever wrote it was stopped, or is still writing; everything before \
         it has been read"
    )]
    CutOff {
        /// The record's position.
        place: String,
    },
    /// A record exceeds the size limit.
    #[error(
        "{place} is larger than {limit_bytes} bytes; split the file into smaller documents, best \
         one line each"
    )]
    TooLarge {
        /// The record's position.
        place: String,
        /// The limit.
        limit_bytes: usize,
    },
    /// The file cannot be read.
    #[error("{place}: {source}")]
    Io {
        /// How far it was read.
        place: String,
        /// The error of the system or the decompressor.
        source: std::io::Error,
    },
}

impl FileError {
    /// Whether later records can still be read.
    pub const fn goes_on(&self) -> bool {
        matches!(self, Self::Record { .. })
    }
}
