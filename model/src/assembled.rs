//! What assembly found for a row: the message from the assembler to the store.

use crate::{Evidence, SpanId, TraceId};

/// A row of a batch that the store has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowRef {
    /// The number that the store gave to the batch.
    pub batch: u64,
    /// The row in it.
    pub row: u32,
}

/// Values of the `assembled_trace_id`, `assembled_parent`, `evidence` and
/// `confidence` columns for one row. They replace what the row had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assembled {
    /// Which row.
    pub row: RowRef,
    /// The trace that the row belongs to.
    pub trace_id: TraceId,
    /// Its parent; `None` for a root.
    pub parent: Option<SpanId>,
    /// Why that parent; [`Evidence::Ambiguous`] with no parent where several
    /// could be it.
    pub evidence: Option<Evidence>,
    /// How sure the link is, 0 to 1.
    pub confidence: Option<f32>,
}
