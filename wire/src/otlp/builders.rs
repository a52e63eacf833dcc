//! Builders that have built a batch and keep its memory for the next one, and
//! what they have learned of rows.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::available_parallelism;

use spanwise_model::SpanBatchBuilder;

/// Idle builders; the one used last is used next, as its memory is nearest.
static IDLE: Mutex<Vec<SpanBatchBuilder>> = Mutex::new(Vec::new());

/// As many as can be in use at a time.
static MOST_IDLE: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(2, Into::into));

/// An empty builder.
pub(super) fn take() -> SpanBatchBuilder {
    IDLE.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop()
        .unwrap_or_else(SpanBatchBuilder::sharing)
}

/// Keeps a builder that has finished its batch.
pub(super) fn give_back(builder: SpanBatchBuilder) {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if builder.is_empty() && idle.len() < *MOST_IDLE {
        idle.push(builder);
    }
}
