//! Builders that have built a batch and keep its memory for the next one, and
//! what they have learned of rows.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::available_parallelism;

use spanwise_model::SpanBatchBuilder;

use super::kept::Kept;
use super::repeats::Repeats;
use super::resource::{ResourceFacts, ScopeFacts};

/// A builder, and what is known of what its spans were read from.
pub(crate) struct Builder {
    pub(super) rows: SpanBatchBuilder,
    pub(super) repeats: Repeats,
    pub(super) resources: Kept<ResourceFacts>,
    pub(super) scopes: Kept<ScopeFacts>,
}

impl Builder {
    pub(super) fn new(rows: SpanBatchBuilder) -> Self {
        Self {
            rows,
            repeats: Repeats::default(),
            resources: Kept::default(),
            scopes: Kept::default(),
        }
    }
}

/// Idle builders; the one used last is used next, as its memory is nearest.
static IDLE: Mutex<Vec<Builder>> = Mutex::new(Vec::new());

/// As many as can be in use at a time.
static MOST_IDLE: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(2, Into::into));

/// Does something with an empty builder, which is empty again afterwards and keeps
/// what it has learned.
pub(crate) fn with_builder<T>(work: impl FnOnce(&mut Builder) -> T) -> T {
    let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = idle().pop();
    let mut builder = known.unwrap_or_else(|| Builder::new(SpanBatchBuilder::sharing()));
    let done = work(&mut builder);
    // Rows are left where the work was given up.
    if builder.rows.is_empty() || builder.rows.finish_rows().is_ok() {
        let mut idle = idle();
        if idle.len() < *MOST_IDLE {
            idle.push(builder);
        }
    }
    done
}
