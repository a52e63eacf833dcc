//! Slots for statements. Only a few statements may run, or have their answers in memory, at the
//! same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::contract::StoreError;

/// A number of slots.
pub(crate) struct Rooms(Arc<Semaphore>);

/// The slot of one statement and of its answer.
#[derive(Debug)]
pub struct AnswerRoom {
    _permit: OwnedSemaphorePermit,
}

impl Rooms {
    pub(crate) fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once)))
    }

    /// Waits for a slot.
    ///
    /// # Errors
    /// If none becomes free within the timeout.
    pub(crate) async fn take(&self, timeout: Duration) -> Result<AnswerRoom, StoreError> {
        match tokio::time::timeout(timeout, Arc::clone(&self.0).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(AnswerRoom { _permit: permit }),
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(StoreError::Limit(format!(
                "other statements were running for all of its {timeout:?}, and only some run at \
                 the same time; ask again later"
            ))),
        }
    }
}
