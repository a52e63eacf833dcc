//! Every batch, whichever receiver it came through, on its way to the sink:
//! spans whose times cannot be right are marked and counted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spanwise_model::{SpanRows, mark_clocks};
use spanwise_wire::flight::Origin;

use crate::clock::now_unix_nano;
use crate::counters::Counters;
use crate::sink::{Refused, Sink};

/// When to try again after a failure of this program's own.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A sink before the sink.
pub(crate) struct Marking {
    sink: Arc<dyn Sink>,
    counters: Arc<Counters>,
}

impl Marking {
    pub(crate) const fn new(sink: Arc<dyn Sink>, counters: Arc<Counters>) -> Self {
        Self { sink, counters }
    }
}

#[async_trait]
impl Sink for Marking {
    async fn accept(&self, batch: SpanRows, origin: Option<Origin>) -> Result<(), Refused> {
        let (batch, faults) = mark_clocks(batch, now_unix_nano()).map_err(|error| {
            tracing::error!(%error, "a received batch is not of the span schema");
            Refused::Later { reason: error.to_string(), retry_after: RETRY_AFTER }
        })?;
        self.sink.accept(batch, origin).await?;
        self.counters.add_clock_faults(&faults);
        Ok(())
    }
}
