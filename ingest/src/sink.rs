//! The destination of received batches.

use std::time::Duration;

use async_trait::async_trait;
use spanwise_model::SpanRows;
use spanwise_wire::flight::Origin;

/// Accepts batches of the span schema.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Makes a batch durable. The sender gets a success when this returns `Ok`. A batch with an
    /// `origin` may arrive more than once. The sink must recognise it and accept it without storing
    /// it again.
    ///
    /// # Errors
    /// [`Refused`]. Nothing of the batch is stored then.
    async fn accept(&self, batch: SpanRows, origin: Option<Origin>) -> Result<(), Refused>;
}

/// Why a batch was refused, with the reason for the sender's log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A temporary problem, such as a full disk.
    #[error("{reason}; retry in {retry_after:?}")]
    Later {
        /// The problem.
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// The batch is too large, and always will be.
    #[error("{reason}")]
    TooLarge {
        /// The limit that it exceeds.
        reason: String,
    },
}
