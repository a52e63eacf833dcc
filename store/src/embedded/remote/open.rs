//! Opens object storage with the store: checks the bucket's owner and finds out which files are in
//! the bucket.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;

use super::bucket::{Bucket, Failure};
use super::cache::Cache;
use super::head::{WithTails, head_key, name_of};
use super::owner::{self, Claim, Marker};
use super::{Figures, Remote};
use crate::contract::StoreError;
use crate::embedded::config::ObjectStorageConfig;
use crate::embedded::{fault, private};

/// Maximum time a start waits for a bucket whose files are already known.
const LOOK_AT_START: Duration = Duration::from_secs(5);
/// Heads that are fetched in parallel.
const HEADS_AT_ONCE: usize = 16;

/// Refuses to open a directory without the object storage that contains some of its files.
pub(crate) fn refuse_without(directory: &Path) -> Result<(), StoreError> {
    let Some(marker) = Marker::read(directory)? else { return Ok(()) };
    if !has_heads(&directory.join("heads")) {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "files of {} are in {}; start with --object-storage {} to have their spans",
        directory.display(),
        marker.url,
        marker.url
    )))
}

fn has_heads(heads: &Path) -> bool {
    fs::read_dir(heads).is_ok_and(|mut entries| entries.next().is_some())
}

/// Heads on the local disk.
#[derive(Default)]
pub(crate) struct Heads {
    pub(crate) sound: Vec<WithTails>,
    /// Heads of unfinished uploads.
    pub(crate) begun: Vec<WithTails>,
    /// Heads of files that must be removed from the bucket.
    pub(crate) gone: Vec<WithTails>,
    /// Unreadable heads, with the reason.
    pub(crate) broken: Vec<(std::path::PathBuf, String)>,
}

impl Remote {
    /// Claims the bucket for this directory, or checks the claim, and finds out which files are in
    /// it. Must be called from a thread that may block.
    ///
    /// # Errors
    /// If the address is wrong, the bucket belongs to another server, or, the first time, it cannot
    /// be reached.
    pub(crate) fn open(
        directory: &Path,
        config: &ObjectStorageConfig,
    ) -> Result<Arc<Self>, StoreError> {
        let bucket =
            Arc::new(Bucket::new(&config.url, &config.options).map_err(StoreError::Invalid)?);
        let heads = directory.join("heads");
        private::create_directory(&heads)
            .map_err(fault::io(format!("cannot make the directory {}", heads.display())))?;
        let cached = directory.join("cache");
        let cache = Cache::open(cached.clone(), config.cache_max_bytes)
            .map_err(fault::io(format!("cannot use the directory {}", cached.display())))?;
        let marker = match Marker::read(directory)? {
            Some(marker) if marker.url != bucket.url && has_heads(&heads) => {
                return Err(StoreError::Invalid(format!(
                    "files of {} are in {}, and not in {}; give the one, or choose another \
                     directory",
                    directory.display(),
                    marker.url,
                    bucket.url
                )));
            }
            Some(marker) if marker.url == bucket.url => marker,
            _ => Marker { id: owner::new_id(), url: bucket.url.clone(), adopted: false },
        };
        let remote = Arc::new(Self {
            bucket,
            cache: Arc::new(cache),
            heads,
            id: marker.id.clone(),
            upload_after: config.upload_after,
            leaving: Mutex::new(Vec::new()),
            taken_over: Mutex::new(None),
            trouble_here: Mutex::new(None),
            figures: Figures::default(),
        });
        let patience = if marker.adopted { LOOK_AT_START } else { Duration::MAX };
        let claimed = remote.claim(config.take_over.clone(), patience);
        if marker.adopted {
            // If the bucket is unreachable, the store serves what is local.
            if let Err(error @ StoreError::Invalid(_)) = claimed {
                return Err(error);
            }
            return Ok(remote);
        }
        // The id must be durable before the bucket knows it.
        marker.write(directory)?;
        claimed?;
        remote.adopt(directory)?;
        Marker { adopted: true, ..marker }.write(directory)?;
        Ok(remote)
    }

    fn claim(&self, take_over: Option<String>, patience: Duration) -> Result<(), StoreError> {
        let (bucket, id) = (Arc::clone(&self.bucket), self.id.clone());
        let claimed = self.bucket.wait(async move {
            let claim = owner::claim(&bucket, &id, take_over.as_deref());
            tokio::time::timeout(patience, claim).await.unwrap_or_else(|_| {
                let reason = format!("{}: no answer in {patience:?}", bucket.url);
                bucket.rest(&reason);
                Err(Failure::Unreachable(reason))
            })
        });
        match claimed.map_err(fault::io("cannot ask object storage"))? {
            Ok(Claim::Own) => Ok(()),
            Ok(Claim::Others(other)) => {
                Err(StoreError::Invalid(owner::refusal(&self.bucket, &other)))
            }
            Err(failure) => Err(unavailable(&failure)),
        }
    }

    /// Fetches the heads of all files in the bucket.
    fn adopt(&self, directory: &Path) -> Result<(), StoreError> {
        let bucket = Arc::clone(&self.bucket);
        let fetched = self.bucket.wait(async move {
            let names = bucket.list("heads").await?;
            let names: Vec<String> =
                names.iter().filter_map(|file| name_of(file)).map(str::to_owned).collect();
            let one = |name: String| {
                let bucket = &bucket;
                async move {
                    let head = bucket.get(&head_key(&name)).await?;
                    Ok::<_, Failure>((name, head.bytes))
                }
            };
            futures::stream::iter(names)
                .map(one)
                .buffer_unordered(HEADS_AT_ONCE)
                .try_collect::<Vec<_>>()
                .await
        });
        let fetched = fetched.map_err(fault::io("cannot ask object storage"))?;
        let fetched = fetched.map_err(|failure| unavailable(&failure))?;
        if !fetched.is_empty() && has_rows(directory) {
            return Err(StoreError::Invalid(format!(
                "{} has spans, and so has {}: they cannot become one store. Choose an empty \
                 directory to have those of the bucket, or another prefix for those of the \
                 directory",
                directory.display(),
                self.bucket.url
            )));
        }
        if !fetched.is_empty() {
            tracing::info!("{} files are in {}", fetched.len(), self.bucket.url);
        }
        for (name, bytes) in fetched {
            let path = self.head_path(&name);
            private::write_durably(&path, &bytes)
                .map_err(fault::io(format!("cannot write {}", path.display())))?;
        }
        Ok(())
    }

    /// The heads on the local disk.
    ///
    /// # Errors
    /// If the directory cannot be read. Files must not be overlooked.
    pub(crate) fn heads(&self) -> Result<Heads, StoreError> {
        let mut heads = Heads::default();
        let context = || format!("cannot read {}", self.heads.display());
        for entry in fs::read_dir(&self.heads).map_err(fault::io(context()))? {
            let path = entry.map_err(fault::io(context()))?.path();
            let read = |path: &Path| -> Result<WithTails, String> {
                let bytes = fs::read(path).map_err(|error| error.to_string())?;
                WithTails::decode(&bytes.into())
            };
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("head") => match read(&path) {
                    Ok(head) => heads.sound.push(head),
                    Err(reason) => heads.broken.push((path, reason)),
                },
                Some("new") => match read(&path) {
                    Ok(head) => heads.begun.push(head),
                    // The intent was not durable yet, so nothing had been uploaded.
                    Err(_) => drop(fs::remove_file(&path)),
                },
                Some("gone") => match read(&path) {
                    Ok(head) => heads.gone.push(head),
                    Err(reason) => tracing::warn!("{}: {reason}", path.display()),
                },
                Some("tmp") => drop(fs::remove_file(&path)),
                _ => {}
            }
        }
        Ok(heads)
    }

    /// Fetches a head again if the local copy is damaged.
    pub(crate) fn fetch_head(&self, path: &Path) -> io::Result<WithTails> {
        let file_name = path.file_name().and_then(|name| name.to_str());
        let name = file_name.and_then(name_of).ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let (bucket, key) = (Arc::clone(&self.bucket), head_key(&name));
        let bytes = self.bucket.wait(async move { bucket.get(&key).await })??.bytes;
        let head = WithTails::decode(&bytes).map_err(io::Error::other)?;
        private::write_durably(path, &bytes)?;
        Ok(head)
    }

    /// Called when all files were registered: removes cached blocks of unknown objects.
    pub(crate) fn is_opened(&self) {
        self.cache.forget_unnamed();
    }
}

/// Whether a directory contains rows of its own.
fn has_rows(directory: &Path) -> bool {
    ["spans", "wal"].iter().any(|name| {
        let entries = fs::read_dir(directory.join(name));
        entries.is_ok_and(|mut entries| {
            entries.any(|entry| {
                entry.is_ok_and(|entry| entry.metadata().is_ok_and(|metadata| metadata.len() > 0))
            })
        })
    })
}

fn unavailable(failure: &Failure) -> StoreError {
    StoreError::Unavailable { reason: failure.to_string() }
}
