//! The window's reported result for a row.

use spanwise_model::{Assembled, Evidence, SpanId, TraceId};

/// The trace and the parent that were reported for a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Outcome {
    pub(super) trace_id: TraceId,
    pub(super) parent: Option<SpanId>,
    pub(super) evidence: Option<Evidence>,
    pub(super) confidence: Option<f32>,
}

impl Outcome {
    pub(super) const fn of(result: &Assembled) -> Self {
        let Assembled { row: _, trace_id, parent, evidence, confidence } = *result;
        Self { trace_id, parent, evidence, confidence }
    }
}
