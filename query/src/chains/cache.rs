//! Keeps the last observed runs for a short time: a page asks for several analyses of one range.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::{ObservedRuns, RunQuestion};
use crate::trace::Epoch;

/// How long they are kept.
const MAX_AGE: Duration = Duration::from_secs(30);
/// The most answers.
const MAX_ENTRIES: usize = 4;
/// The most paths of an answer that is kept.
const MAX_CELLS: usize = 100_000;

/// See the module.
#[derive(Default)]
pub(crate) struct RunCache(Mutex<Vec<Entry>>);

struct Entry {
    observed: Arc<ObservedRuns>,
    question: RunQuestion,
    epoch: Epoch,
}

impl RunCache {
    /// The answer to exactly this question, if nothing was deleted since it was found.
    pub(super) fn get(&self, question: RunQuestion, epoch: Epoch) -> Option<Arc<ObservedRuns>> {
        let entries = self.0.lock();
        let found = entries.iter().find(|entry| entry.question == question && entry.epoch == epoch);
        found.map(|entry| Arc::clone(&entry.observed))
    }

    /// Keeps runs that were read in this epoch for a while.
    pub(super) fn insert(
        self: &Arc<Self>,
        observed: &Arc<ObservedRuns>,
        question: RunQuestion,
        epoch: Epoch,
    ) {
        if observed.chains.cells() > MAX_CELLS {
            return;
        }
        let mut entries = self.0.lock();
        entries.retain(|entry| entry.epoch == epoch && entry.question != question);
        if entries.len() >= MAX_ENTRIES {
            entries.remove(0);
        }
        entries.push(Entry { observed: Arc::clone(observed), question, epoch });
        drop(entries);
        let (cache, observed): (Weak<Self>, Weak<ObservedRuns>) =
            (Arc::downgrade(self), Arc::downgrade(observed));
        tokio::spawn(async move {
            tokio::time::sleep(MAX_AGE).await;
            if let Some(cache) = cache.upgrade() {
                let is_it =
                    |entry: &Entry| Weak::ptr_eq(&Arc::downgrade(&entry.observed), &observed);
                cache.0.lock().retain(|entry| !is_it(entry));
            }
        });
    }
}
