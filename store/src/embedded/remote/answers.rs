//! Answers over files some of which are far away, or cannot be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::contract::StoreError;
use crate::embedded::EmbeddedStore;
use crate::embedded::files::SpanFile;

/// Files that are far away are looked at by so many threads, which mostly wait.
const THREADS: usize = 16;

/// Does the same with every file, in order; with those that are not on the local
/// disk at the same time, since each takes a few round trips.
pub(in crate::embedded) fn each<T: Send>(
    files: &[Arc<SpanFile>],
    work: impl Fn(&SpanFile) -> T + Sync,
) -> Vec<T> {
    let far = files.iter().filter(|file| !file.is_local()).count();
    if far < 2 {
        return files.iter().map(|file| work(file)).collect();
    }
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(files.len())));
    std::thread::scope(|scope| {
        for _ in 0..far.min(THREADS) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(at) else { return };
                    let own = work(file);
                    done.lock().push((at, own));
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, own)| own).collect()
}

impl EmbeddedStore {
    /// Counts the files that an answer was made without, since they cannot be
    /// reached. Without anything else in it, it would say what nobody knows.
    pub(in crate::embedded) fn left_out(
        &self,
        unreadable: &[Arc<SpanFile>],
        is_empty: bool,
    ) -> Result<(), StoreError> {
        let mut any = !self.state.lock().hidden.is_empty();
        for file in unreadable.iter().filter(|file| file.may_be_away()) {
            any = true;
            if let Some(remote) = file.remote() {
                remote.count_unread();
            }
        }
        if any && is_empty { Err(self.away()) } else { Ok(()) }
    }

    /// The error for an answer that would lack what cannot be reached.
    pub(in crate::embedded) fn away(&self) -> StoreError {
        let why = self.remote.as_ref().map(|remote| remote.why_away()).unwrap_or_default();
        let reason = format!("spans may be in object storage, and {why}");
        StoreError::Unavailable { reason }
    }
}
