//! A pool of batch builders, which keep their memory and what they have learned about rows.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::available_parallelism;

use spanwise_model::SpanBatchBuilder;

use super::kept::MessageCache;
use super::repeats::Repeats;
use super::resource::{ResourceFacts, ScopeFacts};

/// A builder, and what is known about the input of its spans.
pub(crate) struct Builder {
    pub(super) rows: SpanBatchBuilder,
    pub(super) repeats: Repeats,
    pub(super) resources: MessageCache<ResourceFacts>,
    pub(super) scopes: MessageCache<ScopeFacts>,
}

impl Builder {
    pub(super) fn new(rows: SpanBatchBuilder) -> Self {
        Self {
            rows,
            repeats: Repeats::default(),
            resources: MessageCache::default(),
            scopes: MessageCache::default(),
        }
    }
}

/// Idle builders. The last used one is reused first, because its memory is still cached.
static IDLE: Mutex<Vec<Builder>> = Mutex::new(Vec::new());

/// Maximum builders in use at a time.
static MOST_IDLE: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(2, Into::into));

/// Runs `work` with an empty builder. Afterwards the builder is emptied and keeps what it has
/// learned.
pub(crate) fn with_builder<T>(work: impl FnOnce(&mut Builder) -> T) -> T {
    let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = idle().pop();
    let mut builder = known.unwrap_or_else(|| Builder::new(SpanBatchBuilder::sharing()));
    let done = work(&mut builder);
    // Rows remain if the work was abandoned.
    if builder.rows.is_empty() || builder.rows.finish_rows().is_ok() {
        let mut idle = idle();
        if idle.len() < *MOST_IDLE {
            idle.push(builder);
        }
    }
    done
}
