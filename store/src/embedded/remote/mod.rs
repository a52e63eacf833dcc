//! Files in object storage.
//!
//! A file is first written on the local disk, as without object storage. Later it is uploaded: the
//! shapes, then the spans, then the head, which commits the upload. From then on the local copy is
//! a cache. If it is removed, reads fetch blocks of the objects.
//!
//! The heads on the local disk are the list of files in the bucket. A file that leaves the store
//! (merged, rewritten or expired) is removed from the bucket when no reader has it open and its
//! replacement is uploaded.
//!
//! ```text
//! DIRECTORY/object-storage.json   which bucket, as which owner
//! DIRECTORY/heads/NAME.head       the files in the bucket
//! DIRECTORY/heads/NAME.head.new   a file that is being uploaded
//! DIRECTORY/heads/NAME.head.gone  a file that must be removed from the bucket
//! DIRECTORY/cache/…               blocks of files
//! BUCKET/PREFIX/owner.json        who may write there
//! BUCKET/PREFIX/{shapes,spans}/NAME.parquet, BUCKET/PREFIX/heads/NAME.head
//! ```

mod answers;
mod bucket;
mod cache;
mod evict;
mod head;
mod object;
mod open;
mod owner;
mod tidy;
mod upkeep;
mod upload;
mod words;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use crate::contract::ObjectStorageStatus;
pub(crate) use answers::threads;
use bucket::Bucket;
use cache::Cache;
use head::{Head, WithTails};
pub(crate) use object::Object;
pub(crate) use open::refuse_without;
pub(crate) use upkeep::run;

/// The store's object storage. See the module's description.
#[derive(Debug)]
pub(crate) struct Remote {
    bucket: Arc<Bucket>,
    cache: Arc<Cache>,
    /// Directory of the heads.
    heads: PathBuf,
    id: String,
    upload_after: Duration,
    /// Files that are not served any more but are still in the bucket.
    leaving: Mutex<Vec<Head>>,
    /// The operator's message if another server owns the prefix now.
    taken_over: Mutex<Option<String>>,
    /// The last error on this host.
    trouble_here: Mutex<Option<String>>,
    figures: Figures,
}

/// Counters since the start.
#[derive(Debug, Default)]
struct Figures {
    files_uploaded: AtomicU64,
    uploads_failed: AtomicU64,
    files_removed: AtomicU64,
    leftovers_removed: AtomicU64,
    copies_dropped: AtomicU64,
    reads_failed: AtomicU64,
}

/// A file in the bucket.
#[derive(Debug)]
pub(crate) struct RemoteFile {
    head: Head,
    pub(crate) spans: Arc<Object>,
    pub(crate) shapes: Arc<Object>,
    damage: Arc<OnceLock<String>>,
    /// Whether the file is removed from the bucket once no reader has it open.
    leaves: AtomicBool,
    remote: Arc<Remote>,
}

impl RemoteFile {
    /// The name of both files, without suffixes.
    pub(crate) fn name(&self) -> &str {
        &self.head.name
    }

    /// First and last generation.
    pub(crate) const fn generations(&self) -> (u64, u64) {
        self.head.generations
    }

    /// How it differs from what was uploaded, if a reader noticed that.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// Called when the file has been opened: the copies of the files' ends are not needed any more.
    pub(crate) fn is_open(&self) {
        self.spans.forget_tail();
        self.shapes.forget_tail();
    }

    /// Ensures that the next start does not serve the file, even if it is still in the bucket.
    pub(crate) fn is_forgotten(&self) {
        let (path, gone) =
            (self.remote.head_path(&self.head.name), self.remote.gone_path(&self.head.name));
        if let Err(error) = std::fs::rename(&path, gone) {
            tracing::warn!("cannot rename {}: {error}", path.display());
        }
    }

    /// Removes the file from the bucket once no reader has it open.
    pub(crate) fn leave(&self) {
        self.leaves.store(true, Ordering::Release);
    }

    /// Excludes the file from being served again. Its objects stay for inspection.
    pub(crate) fn set_aside(&self) {
        crate::embedded::files::set_aside(&self.remote.head_path(&self.head.name));
    }

    /// Counts a read that failed because the file is unreachable.
    pub(crate) fn count_unread(&self) {
        self.remote.figures.reads_failed.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        if self.leaves.load(Ordering::Acquire) {
            self.remote.leaving.lock().push(self.head.clone());
        }
    }
}

impl Remote {
    fn head_path(&self, name: &str) -> PathBuf {
        self.heads.join(format!("{name}.head"))
    }

    /// The path of the head that is written before the upload completes.
    fn intent_path(&self, name: &str) -> PathBuf {
        self.heads.join(format!("{name}.head.new"))
    }

    /// The path of the head of a file that must not be served again.
    fn gone_path(&self, name: &str) -> PathBuf {
        self.heads.join(format!("{name}.head.gone"))
    }

    /// A file of the bucket, for reading.
    pub(crate) fn file(self: &Arc<Self>, with_tails: WithTails) -> Arc<RemoteFile> {
        let WithTails { head, spans, shapes } = with_tails;
        let damage = Arc::new(OnceLock::new());
        let object = |key: String, part: &head::Part, tail| {
            let (bucket, cache) = (Arc::clone(&self.bucket), Arc::clone(&self.cache));
            let part = (key, part.clone(), Some(tail));
            Arc::new(Object::new(bucket, cache, part, Arc::clone(&damage)))
        };
        Arc::new(RemoteFile {
            spans: object(head::spans_key(&head.name), &head.spans, spans),
            shapes: object(head::shapes_key(&head.name), &head.shapes, shapes),
            damage,
            head,
            leaves: AtomicBool::new(false),
            remote: Arc::clone(self),
        })
    }

    /// Whether the bucket contains files that are not served any more.
    pub(crate) fn has_leaving(&self) -> bool {
        !self.leaving.lock().is_empty()
    }

    /// The reason why object storage is unreachable.
    fn why_away(&self) -> String {
        let gone_by = || format!("{} could not be reached for a moment", self.bucket.url);
        self.bucket.trouble().unwrap_or_else(gone_by)
    }

    /// Whether the last request failed.
    pub(crate) fn is_away(&self) -> bool {
        self.bucket.trouble().is_some()
    }

    /// Warnings for the operator.
    pub(crate) fn warnings(&self, status: &ObjectStorageStatus) -> Vec<String> {
        let mut warnings: Vec<String> = self.taken_over.lock().iter().cloned().collect();
        if let Some(reason) = self.bucket.trouble() {
            warnings.push(format!(
                "object storage cannot be used: {reason}. Spans are taken as always and wait on \
                 this disk ({} files, {} MiB); answers lack those of files that are only there",
                status.waiting_files,
                status.waiting_bytes >> 20
            ));
        }
        if let Some(reason) = self.trouble_here.lock().as_ref() {
            warnings.push(format!("a file cannot be brought to object storage: {reason}"));
        }
        if status.hidden_files > 0 {
            warnings.push(format!(
                "{} files are left out of answers until object storage can be read, since it is \
                 not known which of their spans were deleted on request",
                status.hidden_files
            ));
        }
        warnings
    }

    /// Counters by name.
    pub(crate) fn counters(&self) -> Vec<(String, u64)> {
        let (bucket, cache, own) = (&self.bucket.figures, &self.cache, &self.figures);
        [
            ("remote_requests", &bucket.requests),
            ("remote_requests_failed", &bucket.requests_failed),
            ("remote_bytes_read", &bucket.bytes_read),
            ("remote_bytes_written", &bucket.bytes_written),
            ("remote_cache_hits", &cache.hits),
            ("remote_cache_misses", &cache.misses),
            ("remote_cache_writes_failed", &cache.writes_failed),
            ("remote_files_uploaded", &own.files_uploaded),
            ("remote_uploads_failed", &own.uploads_failed),
            ("remote_files_removed", &own.files_removed),
            ("remote_leftovers_removed", &own.leftovers_removed),
            ("remote_local_copies_dropped", &own.copies_dropped),
            ("remote_files_not_reached", &own.reads_failed),
        ]
        .map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed)))
        .into()
    }
}
