//! The span: what every stage of Spanwise passes to the next.
//!
//! One flat Arrow schema ([`schema::span_schema`]) is the same in memory, on
//! the wire, in Parquet and in ClickHouse. [`Span`] is one row of it as a
//! struct, for code that works row by row; [`SpanBatchBuilder`] and
//! [`SpanBatch`] convert between the two. [`SpanRef`] is a row whose texts lie
//! elsewhere, for decoders that copy nothing in between; [`SpanRows`] is a batch
//! that says once which attributes its rows share. This crate does no IO.

pub mod absent;
mod assembled;
mod attributes;
mod batch;
mod builder;
mod clock;
mod ids;
mod protocols;
mod rows;
pub mod schema;
mod span;
mod span_ref;
mod template;
mod texts;
pub mod unknown;
mod vocabulary;
mod written_id;

pub use assembled::{Assembled, RowRef};
pub use attributes::{AttributeRef, AttributeValue, Attributes, ResourceJson, is_same, key_slot};
pub use batch::SpanBatch;
pub use builder::{
    AddressPlaces, EmitterPlaces, InnerAttributes, KnownTemplate, RowWriter, SpanBatchBuilder,
    Written,
};
pub use clock::{ClockFault, ClockFaults, mark_clocks};
pub use ids::{IdError, SpanId, TraceId};
pub use protocols::{PROTOCOLS, Protocol, ServiceKind, System, protocol};
pub use rows::{SpanRows, Templated};
pub use span::{Event, Flow, Link, Network, Span};
pub use span_ref::{Emitter, Observed, SpanRef};

pub use template::{Slot, Template};
pub use texts::Texts;
pub use vocabulary::{Capture, Evidence, Kind, Status, UnknownName, grpc};
pub use written_id::WrittenId;

/// An error met while reading a record batch as spans.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A column of the span schema is absent or of another type.
    #[error(
        "column `{column}` is missing or has another type than the span schema's; \
         the sender speaks another version of it"
    )]
    Column {
        /// Name of the offending column.
        column: &'static str,
    },
    /// A cell holds a value outside its column's vocabulary.
    #[error("column `{column}`, row {row}: {reason}")]
    Cell {
        /// Name of the offending column.
        column: &'static str,
        /// Row in the batch.
        row: usize,
        /// What is wrong with the value.
        reason: String,
    },
    /// Arrow refused to build the batch.
    #[error(transparent)]
    Arrow(#[from] arrow::error::ArrowError),
}

impl From<ModelError> for arrow::error::ArrowError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Arrow(error) => error,
            other => Self::ExternalError(Box::new(other)),
        }
    }
}
