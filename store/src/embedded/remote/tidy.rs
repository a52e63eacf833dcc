//! Removes files from the bucket that are not served any more, and leftovers of interrupted
//! uploads.

use std::collections::HashSet;
use std::fs;
use std::sync::atomic::Ordering;

use super::bucket::Failure;
use super::head::{Head, head_key, name_of, shapes_key, spans_key};
use super::upload::on_local_disk;
use super::{Remote, owner};

impl Remote {
    /// Checks that this server still owns the bucket. If another server took over, it may have
    /// files that this one does not know. So ownership is checked before every change. With an
    /// answer that is seconds old, this server could remove files that the other serves.
    pub(super) async fn check_owner(&self) -> Result<(), Failure> {
        let owner = owner::read(&self.bucket).await?;
        match owner {
            Some(owner) if owner.id == self.id => {
                *self.taken_over.lock() = None;
                Ok(())
            }
            other => {
                let said = match other {
                    Some(owner) => format!(
                        "{} was taken over by the server with the id {} on host {}: nothing is \
                         uploaded or removed there any more. Stop one of the two servers",
                        self.bucket.url, owner.id, owner.host
                    ),
                    None => format!(
                        "{}/{} is gone: nothing is uploaded or removed there until it is back, \
                         with the id {}",
                        self.bucket.url,
                        owner::KEY,
                        self.id
                    ),
                };
                if self.taken_over.lock().replace(said.clone()).is_none() {
                    tracing::warn!("{said}");
                }
                Err(Failure::Conflict)
            }
        }
    }

    /// Files that can be removed because their replacement is in the bucket; `is_safe` checks that
    /// by their generations.
    pub(super) fn removable(&self, is_safe: impl Fn((u64, u64)) -> bool) -> Vec<Head> {
        // Readers may add to `leaving` while they hold other locks.
        let leaving = self.leaving.lock().clone();
        leaving.into_iter().filter(|head| is_safe(head.generations)).collect()
    }

    /// Removes a file from the bucket, its head first.
    pub(super) async fn remove(&self, head: &Head) -> Result<(), Failure> {
        let [shapes, spans, of_head] = head.keys();
        for key in [of_head, spans, shapes] {
            self.bucket.delete(&key).await?;
        }
        let name = &head.name;
        let paths = [self.head_path(name), self.intent_path(name), self.gone_path(name)];
        on_local_disk(move || {
            for path in paths {
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(error);
                    }
                    _ => {}
                }
            }
            Ok(())
        })
        .await?;
        for key in head.keys() {
            self.cache.forget(&key.replace('/', "."));
        }
        self.leaving.lock().retain(|other| other.name != head.name);
        self.figures.files_removed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Removes objects without a head, neither local nor in the bucket. No upload may be in
    /// progress.
    pub(super) async fn remove_leftovers(&self) -> Result<(), Failure> {
        let heads = self.heads.clone();
        let mut known: HashSet<String> = on_local_disk(move || {
            let entries = fs::read_dir(heads)?;
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            // Includes heads that were set aside.
            Ok(names.filter_map(|name| Some(name.split_once(".head")?.0.to_owned())).collect())
        })
        .await?;
        let in_bucket = self.bucket.list("heads").await?;
        let name = |file: &String| name_of(file).map(str::to_owned);
        let unknown = in_bucket.iter().filter_map(name).filter(|name| !known.contains(name));
        let unknown: Vec<String> = unknown.collect();
        if !unknown.is_empty() {
            tracing::warn!(
                "{} has {} files that this server does not know, such as {}; they are left alone",
                self.bucket.url,
                unknown.len(),
                head_key(&unknown[0])
            );
        }
        known.extend(unknown);
        for (below, key) in [("spans", spans_key as fn(&str) -> String), ("shapes", shapes_key)] {
            let names: Vec<String> =
                self.bucket.list(below).await?.iter().filter_map(name).collect();
            for name in names.iter().filter(|name| !known.contains(*name)) {
                self.bucket.delete(&key(name)).await?;
                self.figures.leftovers_removed.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}
