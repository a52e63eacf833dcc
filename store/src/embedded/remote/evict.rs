//! Keeps local copies of remote data within limits: whole files and cached blocks, least recently
//! read first.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Remote;
use crate::contract::ObjectStorageStatus;
use crate::embedded::EmbeddedStore;
use crate::embedded::files::SpanFile;

/// Copies are removed if free space is below this many times the configured minimum, so that new
/// spans have room.
const FREE_FACTOR: u64 = 2;

impl EmbeddedStore {
    /// Removes copies until the limits hold.
    pub(super) async fn drop_copies(&self, remote: &Remote) {
        if !self.has_too_many_copies(remote) {
            return;
        }
        // No other file may take over a file's name meanwhile.
        let _gate = self.moving.lock().await;
        while self.has_too_many_copies(remote) {
            let oldest = self.copies().into_iter().min_by_key(|file| file.last_use());
            match (oldest, remote.cache.oldest_use()) {
                (Some(file), block) if block.is_none_or(|used| file.last_use() <= used) => {
                    file.drop_copy();
                    remote.figures.copies_dropped.fetch_add(1, Ordering::Relaxed);
                }
                (_, Some(_)) => drop(remote.cache.shrink()),
                (_, None) => return,
            }
        }
    }

    fn has_too_many_copies(&self, remote: &Remote) -> bool {
        let bytes: u64 = self.copies().iter().map(|file| file.bytes).sum();
        let bytes = bytes + remote.cache.bytes();
        let is_short = || {
            let Ok(disk) = rustix::fs::statvfs(&self.config.directory) else { return false };
            disk.f_bavail.saturating_mul(disk.f_frsize) < FREE_FACTOR * self.config.min_free_bytes
        };
        bytes > remote.cache.max_bytes || bytes > 0 && is_short()
    }

    /// Remote files that also have a complete local copy.
    fn copies(&self) -> Vec<Arc<SpanFile>> {
        let state = self.state.lock();
        let is_copy = |file: &&Arc<SpanFile>| file.remote().is_some() && file.is_local();
        state.files.iter().filter(is_copy).cloned().collect()
    }

    /// The status of object storage.
    pub(crate) fn remote_status(&self, remote: &Remote) -> ObjectStorageStatus {
        let mut status = ObjectStorageStatus {
            url: remote.bucket.url.clone(),
            cache_bytes: remote.cache.bytes(),
            cache_max_bytes: remote.cache.max_bytes,
            leaving_files: remote.leaving.lock().len() as u64,
            ..ObjectStorageStatus::default()
        };
        let state = self.state.lock();
        status.hidden_files = state.hidden.len() as u64;
        for file in state.files.iter().chain(&state.hidden) {
            match file.remote() {
                Some(_) => {
                    status.remote_files += 1;
                    status.remote_bytes += file.bytes;
                    status.cache_bytes += if file.is_local() { file.bytes } else { 0 };
                }
                None => {
                    status.waiting_files += 1;
                    status.waiting_bytes += file.bytes;
                }
            }
        }
        status
    }
}
