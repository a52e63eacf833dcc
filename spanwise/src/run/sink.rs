//! The destination of received batches: the store, then assembly.

use std::sync::Arc;
use std::time::Duration;

use spanwise_ingest::{Origin, Refused, Sink};
use spanwise_model::SpanRows;
use spanwise_store::{Appended, Store, StoreError, Unsettled};
use tokio::sync::mpsc;

use crate::memory;

/// Retry delay for senders after a failure that may last.
const RETRY_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Stores batches.
pub(crate) struct StoreSink {
    store: Arc<dyn Store>,
    assembly: mpsc::Sender<Unsettled>,
}

impl StoreSink {
    pub(crate) fn new(store: Arc<dyn Store>, assembly: mpsc::Sender<Unsettled>) -> Self {
        Self { store, assembly }
    }
}

#[async_trait::async_trait]
impl Sink for StoreSink {
    async fn accept(&self, batch: SpanRows, origin: Option<Origin>) -> Result<(), Refused> {
        let (store, assembly) = (Arc::clone(&self.store), self.assembly.clone());
        // In a separate task: a sender that disconnects drops this future, but a stored batch must
        // still be assembled.
        tokio::spawn(take(store, assembly, batch, origin))
            .await
            .unwrap_or_else(|error| Err(failed(&format!("storing the batch failed: {error}"))))
    }
}

async fn take(
    store: Arc<dyn Store>,
    assembly: mpsc::Sender<Unsettled>,
    batch: SpanRows,
    origin: Option<Origin>,
) -> Result<(), Refused> {
    // Reserves a slot in the queue first, so that senders slow down to the speed of assembly
    // instead of filling memory.
    let slot = assembly.reserve().await.map_err(|_| failed("the server is stopping"))?;
    let origin = origin
        .map(|origin| spanwise_store::Origin { source: origin.source, sequence: origin.sequence });
    // Columns are shared, not copied.
    match store.append(batch.clone(), origin).await {
        Ok(Appended::Stored { batch: number }) => {
            memory::took_spans(batch.num_rows());
            slot.send(Unsettled { batch: number, rows: batch });
            Ok(())
        }
        Ok(Appended::Partly { batch: number, rows }) => match batch.take(&rows.into()) {
            Ok(rows) => {
                memory::took_spans(rows.num_rows());
                slot.send(Unsettled { batch: number, rows });
                Ok(())
            }
            // The rows are stored and will be assembled at the next start.
            Err(error) => {
                tracing::error!(%error, "the rows of a batch cannot be assembled");
                Ok(())
            }
        },
        Ok(Appended::Duplicate) => Ok(()),
        Err(StoreError::Full { reason, retry_after }) => {
            Err(Refused::Later { reason, retry_after })
        }
        Err(StoreError::Invalid(reason)) => Err(Refused::TooLarge { reason }),
        Err(error) => {
            tracing::error!(%error, "a batch could not be stored");
            Err(failed(&error.to_string()))
        }
    }
}

fn failed(reason: &str) -> Refused {
    Refused::Later { reason: reason.to_owned(), retry_after: RETRY_AFTER_FAILURE }
}
