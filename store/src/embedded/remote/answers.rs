//! Answers over files some of which are far away, or cannot be reached.

use std::sync::Arc;

use crate::contract::StoreError;
use crate::embedded::EmbeddedStore;
use crate::embedded::files::SpanFile;
use crate::embedded::parallel::NEAR_THREADS;

/// Files that are far away are looked at by so many threads, which mostly wait.
const FAR_THREADS: usize = 16;

/// By how many threads some files are looked at together, where much is looked for or
/// little.
pub(crate) fn threads(files: &[Arc<SpanFile>], is_much: bool) -> usize {
    let far = files.iter().filter(|file| !file.is_local()).count();
    let near = if is_much { NEAR_THREADS } else { 1 };
    far.min(FAR_THREADS).max(near)
}

impl EmbeddedStore {
    /// Counts the files that an answer was made without, since they cannot be
    /// reached. Without anything else in it, it would say what nobody knows.
    pub(crate) fn left_out(
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
    pub(crate) fn away(&self) -> StoreError {
        let why = self.remote.as_ref().map(|remote| remote.why_away()).unwrap_or_default();
        let reason = format!("spans may be in object storage, and {why}");
        StoreError::Unavailable { reason }
    }
}
