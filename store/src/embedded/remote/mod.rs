//! Files in object storage.
//!
//! A file is written and committed on the local disk, as without object storage.
//! Some time later it is uploaded: the shapes, then the spans, then the head, which
//! is the commit. From then on the local copy is a cache: it may go, and what is
//! read of the file is fetched in blocks.
//!
//! The heads on the local disk say which files are in the bucket. A file that
//! leaves the store (merged, written anew, too old) leaves the bucket once no
//! reader has it open and what takes its place is there.
//!
//! ```text
//! DIRECTORY/object-storage.json   which bucket, as which owner
//! DIRECTORY/heads/NAME.head       the files in the bucket
//! DIRECTORY/heads/NAME.head.new   a file that is being uploaded
//! DIRECTORY/heads/NAME.head.gone  a file that is to be removed from there
//! DIRECTORY/cache/…               blocks of them
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

/// See the module.
#[derive(Debug)]
pub(crate) struct Remote {
    bucket: Arc<Bucket>,
    cache: Arc<Cache>,
    /// Directory of the heads.
    heads: PathBuf,
    id: String,
    upload_after: Duration,
    /// Files that are served no more, and are still in the bucket.
    leaving: Mutex<Vec<Head>>,
    /// Another server owns the prefix now: what is said of it.
    taken_over: Mutex<Option<String>>,
    /// What kept this machine from its part of the work, the last time.
    trouble_here: Mutex<Option<String>>,
    figures: Figures,
}

/// What was done since the start.
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
    /// Whether it leaves the bucket when nobody reads it any more.
    leaves: AtomicBool,
    remote: Arc<Remote>,
}

impl RemoteFile {
    /// The name of both files, without their endings.
    pub(crate) fn name(&self) -> &str {
        &self.head.name
    }

    /// First and last generation.
    pub(crate) const fn generations(&self) -> (u64, u64) {
        self.head.generations
    }

    /// Why it is not what was uploaded, where somebody has seen that.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.get().map(String::as_str)
    }

    /// The file has been opened: nothing more is read of its end.
    pub(crate) fn is_open(&self) {
        self.spans.forget_tail();
        self.shapes.forget_tail();
    }

    /// Keeps it from coming back at the next start, though it may still be in the
    /// bucket then.
    pub(crate) fn is_forgotten(&self) {
        let (path, gone) =
            (self.remote.head_path(&self.head.name), self.remote.gone_path(&self.head.name));
        if let Err(error) = std::fs::rename(&path, gone) {
            tracing::warn!("cannot rename {}: {error}", path.display());
        }
    }

    /// Has it removed from the bucket once nobody reads it any more.
    pub(crate) fn leave(&self) {
        self.leaves.store(true, Ordering::Release);
    }

    /// Keeps it from being served again; its objects stay, for somebody to look at.
    pub(crate) fn set_aside(&self) {
        crate::embedded::files::set_aside(&self.remote.head_path(&self.head.name));
    }

    /// What is left out while it cannot be reached is counted.
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

    /// The path of the head that is written before the upload is complete.
    fn intent_path(&self, name: &str) -> PathBuf {
        self.heads.join(format!("{name}.head.new"))
    }

    /// The path of the head of a file that is not to be served again.
    fn gone_path(&self, name: &str) -> PathBuf {
        self.heads.join(format!("{name}.head.gone"))
    }

    /// A file of the bucket, to be read.
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

    /// Whether files that are served no more are still in the bucket.
    pub(crate) fn has_leaving(&self) -> bool {
        !self.leaving.lock().is_empty()
    }

    /// Why something could not be reached.
    fn why_away(&self) -> String {
        let gone_by = || format!("{} could not be reached for a moment", self.bucket.url);
        self.bucket.trouble().unwrap_or_else(gone_by)
    }

    /// Whether it could not be reached the last time.
    pub(crate) fn is_away(&self) -> bool {
        self.bucket.trouble().is_some()
    }

    /// What the operator should know.
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

    /// Counters, by name.
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
