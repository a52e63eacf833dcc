//! The result of assembly for a row: the message from the assembler to the store.

use crate::{Evidence, SpanId, TraceId};

/// A reference to a row of a stored batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowRef {
    /// The store's number of the batch.
    pub batch: u64,
    /// The row's index in the batch.
    pub row: u32,
}

/// Values of the `assembled_trace_id`, `assembled_parent`, `evidence` and `confidence` columns for
/// one row. They replace the previous values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assembled {
    /// The row.
    pub row: RowRef,
    /// The row's trace.
    pub trace_id: TraceId,
    /// Its parent; `None` for a root.
    pub parent: Option<SpanId>,
    /// The evidence for the parent. [`Evidence::Ambiguous`] without a parent means that there were
    /// several candidates.
    pub evidence: Option<Evidence>,
    /// The link's confidence, 0 to 1.
    pub confidence: Option<f32>,
}
