//! Where received batches go.

use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use spanwise_wire::flight::Origin;

/// Takes batches of the span schema.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Makes a batch durable. The sender is told that it was taken when this
    /// returns `Ok`. A batch with an `origin` may come more than once: the
    /// second time it is to be recognised, and taken without being kept twice.
    ///
    /// # Errors
    /// [`Refused`] where there is no room; nothing of the batch is kept then.
    async fn accept(&self, batch: RecordBatch, origin: Option<Origin>) -> Result<(), Refused>;
}

/// A batch was not taken; the sender shall come again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; retry in {retry_after:?}")]
pub struct Refused {
    /// What is full or broken, for the sender's log.
    pub reason: String,
    /// When it may be worth trying again.
    pub retry_after: Duration,
}
