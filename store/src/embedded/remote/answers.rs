//! Answers that involve remote or unreachable files.

use std::sync::Arc;

use crate::contract::StoreError;
use crate::embedded::EmbeddedStore;
use crate::embedded::files::SpanFile;
use crate::embedded::parallel::NEAR_THREADS;

/// Threads for remote files. They mostly wait.
const FAR_THREADS: usize = 16;

/// Number of threads for these files; `is_much` says whether much data is read.
pub(crate) fn threads(files: &[Arc<SpanFile>], is_much: bool) -> usize {
    let far = files.iter().filter(|file| !file.is_local()).count();
    let near = if is_much { NEAR_THREADS } else { 1 };
    far.min(FAR_THREADS).max(near)
}

impl EmbeddedStore {
    /// Counts files that were left out of an answer because they are unreachable. If nothing else
    /// was found, the answer is an error instead: an empty answer would be a claim about unknown
    /// data.
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

    /// The error for an answer that would be incomplete.
    pub(crate) fn away(&self) -> StoreError {
        let why = self.remote.as_ref().map(|remote| remote.why_away()).unwrap_or_default();
        let reason = format!("spans may be in object storage, and {why}");
        StoreError::Unavailable { reason }
    }
}
