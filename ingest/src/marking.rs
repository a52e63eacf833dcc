//! Marks and counts spans with impossible times, and names operations, and adds business keys, in every batch before it
//! reaches the sink, whichever receiver it came through.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use spanwise_keys::KeyRules;
use spanwise_model::{SpanRows, mark_clocks};
use spanwise_wire::flight::Origin;

use crate::clock::now_unix_nano;
use crate::counters::Counters;
use crate::keys::Keys;
use crate::names::Names;
use crate::sink::{Refused, Sink};

/// Retry delay after an internal error.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A sink that marks spans and passes them to the real sink.
pub(crate) struct Marking {
    sink: Arc<dyn Sink>,
    counters: Arc<Counters>,
    names: Names,
    keys: Keys,
}

impl Marking {
    pub(crate) fn new(sink: Arc<dyn Sink>, counters: Arc<Counters>, rules: Arc<KeyRules>) -> Self {
        let keys = Keys::new(rules, Arc::clone(&counters));
        Self { sink, counters, names: Names::default(), keys }
    }
}

#[async_trait]
impl Sink for Marking {
    async fn accept(&self, batch: SpanRows, origin: Option<Origin>) -> Result<(), Refused> {
        let marked = mark_clocks(batch, now_unix_nano());
        let named = marked
            .and_then(|(batch, faults)| Ok((self.keys.add(self.names.rename(batch)?)?, faults)));
        let (batch, faults) = named.map_err(|error| {
            tracing::error!(%error, "a received batch is not of the span schema");
            Refused::Later { reason: error.to_string(), retry_after: RETRY_AFTER }
        })?;
        self.sink.accept(batch, origin).await?;
        self.counters.add_clock_faults(&faults);
        Ok(())
    }
}
