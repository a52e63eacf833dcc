//! Long-lived streams: not more at a time than are allowed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many streams of one kind there may be, and are.
#[derive(Debug)]
pub(crate) struct Places {
    open: Arc<AtomicUsize>,
    limit: usize,
}

/// One of the streams allowed at a time, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<AtomicUsize>);

impl Places {
    pub(crate) fn new(limit: usize) -> Self {
        Self { open: Arc::default(), limit }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// A place; none where all are taken.
    pub(crate) fn take(&self) -> Option<Place> {
        let more = |open| (open < self.limit).then_some(open + 1);
        self.open
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()
            .map(|_| Place(Arc::clone(&self.open)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
