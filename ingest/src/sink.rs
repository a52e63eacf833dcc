//! Where received batches go.

use std::time::Duration;

use async_trait::async_trait;
use spanwise_model::SpanRows;
use spanwise_wire::flight::Origin;

/// Takes batches of the span schema.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Makes a batch durable. The sender is told that it was taken when this
    /// returns `Ok`. A batch with an `origin` may come more than once: the
    /// second time it is to be recognised, and taken without being kept twice.
    ///
    /// # Errors
    /// [`Refused`]; nothing of the batch is kept then.
    async fn accept(&self, batch: SpanRows, origin: Option<Origin>) -> Result<(), Refused>;
}

/// Why a batch was not taken, with the reason for the sender's log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Something is full or broken that may be well again later.
    #[error("{reason}; retry in {retry_after:?}")]
    Later {
        /// What is full or broken.
        reason: String,
        /// When it may be worth trying again.
        retry_after: Duration,
    },
    /// The batch is too large to be taken, now or later.
    #[error("{reason}")]
    TooLarge {
        /// What it is too large for.
        reason: String,
    },
}
