//! Lists the files of a store when it is opened: those in its directory, and those whose heads say
//! that they are in object storage.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::shape_file::remove_leftovers;
use super::{SpanFile, Unserved, generations_of, set_aside};
use crate::contract::StoreError;
use crate::embedded::fault;
use crate::embedded::remote::{Remote, RemoteFile};

/// The files of a store.
pub(crate) struct Listing {
    /// Oldest generation first.
    pub(crate) files: Vec<Arc<SpanFile>>,
    /// Files that could not be read and were set aside, with the reason.
    pub(crate) broken: Vec<(PathBuf, String)>,
    /// Files that are left in place but not served, with the reason.
    pub(crate) unreadable: Vec<(PathBuf, String)>,
    /// The first generation after those of all files, intact or broken.
    pub(crate) next_generation: u64,
}

/// Scans the directory and the heads of remote files. Intact files are listed, broken ones renamed,
/// and leftovers of a crash removed.
pub(crate) fn open(directory: &Path, remote: Option<&Arc<Remote>>) -> Result<Listing, StoreError> {
    let context = || format!("cannot read {}", directory.display());
    let mut found = Listing {
        files: Vec::new(),
        broken: Vec::new(),
        unreadable: Vec::new(),
        next_generation: 1,
    };
    let mut heads = InBucket::read(remote, &mut found)?;
    for entry in fs::read_dir(directory).map_err(fault::io(context()))? {
        let path = entry.map_err(fault::io(context()))?.path();
        let Some(generations) = generations_of(&path) else { continue };
        found.next_generation = found.next_generation.max(generations.1.saturating_add(1));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("tmp") => drop(fs::remove_file(&path)),
            Some("parquet") => match SpanFile::open(&path) {
                Ok(file) => {
                    heads.attach(&file);
                    found.files.push(Arc::new(file));
                }
                // A broken copy is replaced by the remote file.
                Err(_) if heads.have(generations) => set_aside(&path),
                Err(Unserved::Broken(reason)) => {
                    set_aside(&path);
                    found.broken.push((path, reason));
                }
                Err(Unserved::Unreadable(reason)) => found.unreadable.push((path, reason)),
            },
            _ => {}
        }
    }
    heads.open_rest(directory, &mut found);
    found.files.sort_by_key(|file| {
        let (first, last) = file.generations;
        // Of two files with the same generations, the one without deleted rows is used.
        (first, Reverse(last), Reverse(file.deletions), file.remote().is_some())
    });
    let mut kept: Vec<Arc<SpanFile>> = Vec::with_capacity(found.files.len());
    for file in found.files {
        // After a crash during a merge, the merged file may exist beside its parts.
        match kept.last() {
            Some(larger) if larger.holds(file.generations.1) => file.doom(),
            _ => kept.push(file),
        }
    }
    found.files = kept;
    remove_leftovers(directory, |name| {
        let path = Path::new(name);
        // Copies of missing or unreadable files may be needed again.
        let holds = |file: &&Arc<SpanFile>| {
            generations_of(path).is_some_and(|(first, last)| file.holds(first) && file.holds(last))
        };
        let holder = found.files.iter().find(holds);
        let is_its = |file: &Arc<SpanFile>| file.shapes.path.file_name() == path.file_name();
        holder.is_none_or(|file| file.is_local() && is_its(file))
    });
    heads.finish(&found.files);
    Ok(found)
}

/// Remote files, while a store is opened.
struct InBucket<'a> {
    remote: Option<&'a Arc<Remote>>,
    /// Files without a local copy so far, by name.
    files: BTreeMap<String, Arc<RemoteFile>>,
    begun: Vec<Arc<RemoteFile>>,
}

impl<'a> InBucket<'a> {
    fn read(remote: Option<&'a Arc<Remote>>, found: &mut Listing) -> Result<Self, StoreError> {
        let mut own = Self { remote, files: BTreeMap::new(), begun: Vec::new() };
        let Some(remote) = remote else { return Ok(own) };
        let heads = remote.heads()?;
        let mut sound = heads.sound;
        for (path, reason) in heads.broken {
            match remote.fetch_head(&path) {
                Ok(head) => sound.push(head),
                Err(error) => found.unreadable.push((path, format!("{reason}; {error}"))),
            }
        }
        for head in sound {
            let file = remote.file(head);
            let (_, last) = file.generations();
            found.next_generation = found.next_generation.max(last.saturating_add(1));
            own.files.insert(file.name().to_owned(), file);
        }
        own.begun.extend(heads.begun.into_iter().map(|head| remote.file(head)));
        for head in heads.gone {
            let file = remote.file(head);
            let (_, last) = file.generations();
            found.next_generation = found.next_generation.max(last.saturating_add(1));
            file.leave();
        }
        Ok(own)
    }

    fn have(&self, generations: (u64, u64)) -> bool {
        self.files.values().any(|file| file.generations() == generations)
    }

    /// A file of the directory may be the copy of a remote file.
    fn attach(&mut self, file: &SpanFile) {
        if let Some(remote) = file.name().and_then(|name| self.files.remove(&name)) {
            remote.is_open();
            file.is_uploaded_as(&remote);
        }
    }

    /// Opens remote files without a local copy.
    fn open_rest(&mut self, directory: &Path, found: &mut Listing) {
        for file in std::mem::take(&mut self.files).into_values() {
            match SpanFile::open_remote(directory, &file) {
                Ok(file) => found.files.push(Arc::new(file)),
                Err(Unserved::Broken(reason)) => {
                    file.set_aside();
                    found.broken.push((directory.join(file.name()), reason));
                }
                Err(Unserved::Unreadable(reason)) => {
                    found.unreadable.push((directory.join(file.name()), reason));
                }
            }
        }
    }

    /// Restarts interrupted uploads whose files still exist, and removes the objects of the others.
    fn finish(self, served: &[Arc<SpanFile>]) {
        for file in &self.begun {
            let is_it = |other: &Arc<SpanFile>| other.name().as_deref() == Some(file.name());
            if !served.iter().any(is_it) {
                file.leave();
            }
        }
        if let Some(remote) = self.remote {
            remote.is_opened();
        }
    }
}
