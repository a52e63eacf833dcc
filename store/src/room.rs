//! Room for statements: few run, or have their answers in memory, at the same time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::contract::StoreError;

/// Room for some statements at the same time.
pub(crate) struct Rooms(Arc<Semaphore>);

/// That of one statement, and then of its answer.
#[derive(Debug)]
pub struct AnswerRoom {
    _permit: OwnedSemaphorePermit,
}

impl Rooms {
    pub(crate) fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once)))
    }

    /// Waits for room.
    ///
    /// # Errors
    /// Where there is none for all of the time.
    pub(crate) async fn take(&self, timeout: Duration) -> Result<AnswerRoom, StoreError> {
        match tokio::time::timeout(timeout, Arc::clone(&self.0).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(AnswerRoom { _permit: permit }),
            // It is never closed.
            Ok(Err(_)) | Err(_) => Err(StoreError::Limit(format!(
                "other statements were running for all of its {timeout:?}, and only some run at \
                 the same time; ask again later"
            ))),
        }
    }
}
