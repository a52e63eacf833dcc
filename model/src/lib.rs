//! The span: the data that every stage of Spanwise passes to the next.
//!
//! One flat Arrow schema ([`schema::span_schema`]) is used in memory, on the wire, in Parquet and
//! in ClickHouse. [`Span`] is one row as a struct, for code that works row by row.
//! [`SpanBatchBuilder`] and [`SpanBatch`] convert between the two. [`SpanRef`] is a row with
//! borrowed texts, for decoders. [`SpanRows`] is a batch in which rows share attributes. This crate
//! does no IO.

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

/// An error while reading a record batch as spans.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// A column of the span schema is missing or has another type.
    #[error(
        "column `{column}` is missing or has another type than the span schema's; \
         the sender speaks another version of it"
    )]
    Column {
        /// Name of the column.
        column: &'static str,
    },
    /// A cell contains a value outside its column's vocabulary.
    #[error("column `{column}`, row {row}: {reason}")]
    Cell {
        /// Name of the column.
        column: &'static str,
        /// Row in the batch.
        row: usize,
        /// The problem.
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
