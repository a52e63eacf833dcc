//! The embedded store as the spool of another store. Generations become files as usual. The other
//! store takes the files in order, and each is released once the other store has made it durable.
//!
//! Before a file is removed, its release is recorded with everything that only the file knew: the
//! origins of its batches, and its generations. Generation numbers are never reused.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};
use spanwise_model::schema::span_schema;

use super::blocking;
use crate::contract::StoreError;
use crate::embedded::duplicates::origins::{self, TakenRanges};
use crate::embedded::files::SpanFile;
use crate::embedded::files::{gather, reader};
use crate::embedded::{EmbeddedStore, fault, private};

/// The state that remains of released files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Distinguishes this spool from every other; never 0.
    pub(crate) id: u32,
    /// Released generations, as ascending inclusive ranges.
    pub(crate) released: Vec<(u64, u64)>,
    /// Origins of stored batches.
    pub(crate) origins: TakenRanges,
}

impl Note {
    /// Reads the directory's note, or starts a new one. An unreadable note is set aside with a
    /// warning for the operator: batches may then be stored twice.
    ///
    /// # Errors
    /// If the note exists but the system denies access.
    pub(crate) fn open(directory: &Path) -> Result<(Self, Option<String>), StoreError> {
        let path = path(directory);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok((Self::default(), None));
            }
            Err(error) => return Err(fault::io(format!("cannot read {}", path.display()))(error)),
        };
        match serde_json::from_str(&text) {
            Ok(note) => Ok((note, None)),
            Err(error) => {
                crate::embedded::files::set_aside(&path);
                let warning = format!(
                    "{} is damaged ({error}) and was renamed to end in .broken; what was sent \
                     right before may be sent twice. Have a look at the disk",
                    path.display()
                );
                Ok((Self::default(), Some(warning)))
            }
        }
    }

    /// Assigns an id, if there is none.
    pub(crate) fn name(&mut self, directory: &Path) -> Result<(), StoreError> {
        while self.id == 0 {
            use std::hash::{BuildHasher, Hasher};
            // `RandomState` is the standard library's access to the system's random numbers.
            let random = std::hash::RandomState::new().build_hasher().finish();
            self.id = (random >> 32) as u32;
        }
        self.write(directory)
    }

    /// Whether this generation was released.
    pub(crate) fn has_released(&self, generation: u64) -> bool {
        self.released.iter().any(|&(first, last)| (first..=last).contains(&generation))
    }

    /// The first generation after all released ones.
    pub(crate) fn next_generation(&self) -> u64 {
        self.released.last().map_or(1, |&(_, last)| last.saturating_add(1))
    }

    /// Writes the note durably and atomically.
    fn write(&self, directory: &Path) -> Result<(), StoreError> {
        let path = path(directory);
        let write = || private::write_durably(&path, &serde_json::to_vec(self)?);
        write().map_err(fault::io(format!("cannot write {}", path.display())))
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join("spool.json")
}

/// A file that waits to be taken.
#[derive(Debug, Clone)]
pub(crate) struct SpoolFile(Arc<SpanFile>);

impl SpoolFile {
    /// First and last generation.
    pub(crate) fn generations(&self) -> (u64, u64) {
        self.0.generations
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.0.rows
    }

    /// Number of parts, which can be read one at a time. The division never changes.
    pub(crate) fn parts(&self) -> usize {
        self.0.metadata.metadata().num_row_groups()
    }

    /// When the file was written; 0 if the system does not know.
    pub(crate) fn written_unix_nano(&self) -> i64 {
        let written = fs::metadata(&self.0.path).and_then(|metadata| metadata.modified()).ok();
        let since = written.and_then(|written| written.duration_since(UNIX_EPOCH).ok());
        since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
    }
}

/// The interface for the store that takes the files.
#[cfg_attr(not(feature = "clickhouse"), allow(dead_code))]
impl EmbeddedStore {
    /// A number for a generation's rows that no other spool uses.
    pub(crate) fn insert_id(&self, generation: u64) -> u64 {
        u64::from(self.note.lock().id) << 32 | generation & u64::from(u32::MAX)
    }

    /// The generations in this spool, as inclusive runs.
    pub(crate) fn held(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let mut runs = Vec::new();
        for file in &state.files {
            origins::insert(&mut runs, file.generations);
        }
        for generation in state.recent.generations() {
            origins::insert(&mut runs, (generation, generation));
        }
        runs
    }

    /// The oldest file.
    pub(crate) fn next_file(&self) -> Option<SpoolFile> {
        self.state.lock().files.first().cloned().map(SpoolFile)
    }

    /// Bytes of all files.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.state.lock().files.iter().map(|file| file.bytes).sum()
    }

    /// The rows of one part of a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) async fn read_part(
        &self,
        file: &SpoolFile,
        part: usize,
    ) -> Result<RecordBatch, StoreError> {
        let file = Arc::clone(&file.0);
        blocking("reading a file", move || {
            let read = reader::read_group(&file, part)
                .and_then(|rows| Ok(gather::all(&span_schema(), &rows)?));
            read.map_err(fault::engine(format!("cannot read {}", file.path.display())))
        })
        .await
    }

    /// Sets the file aside if it is broken. Returns whether it was.
    pub(crate) async fn set_aside_if_broken(&self, file: &SpoolFile) -> bool {
        self.set_broken_aside(std::slice::from_ref(&file.0)).await
    }

    /// Releases a file whose rows the other store has.
    ///
    /// # Errors
    /// If that cannot be recorded. The file stays then.
    pub(crate) async fn let_go(&self, file: &SpoolFile) -> Result<(), StoreError> {
        let note = {
            let origins = self.state.lock().origins.ranges();
            let mut note = self.note.lock().clone();
            origins::insert(&mut note.released, file.generations());
            Note { origins, ..note }
        };
        let directory = self.config.directory.clone();
        let note = blocking("noting what was sent", move || {
            note.write(&directory)?;
            Ok(note)
        })
        .await?;
        *self.note.lock() = note;
        self.state.lock().forget(&file.0);
        file.0.doom();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_it_said_and_a_damaged_one_is_set_aside() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut note, warning) = Note::open(directory.path()).expect("a new one");
        assert!(warning.is_none());
        note.name(directory.path()).expect("named");
        assert_ne!(note.id, 0);
        origins::insert(&mut note.released, (1, 4));
        origins::insert(&mut note.released, (7, 7));
        note.write(directory.path()).expect("written");
        let (again, _) = Note::open(directory.path()).expect("read");
        assert_eq!((again.id, again.released.clone()), (note.id, vec![(1, 4), (7, 7)]));
        assert!(again.has_released(4) && !again.has_released(5));
        assert_eq!(again.next_generation(), 8);

        fs::write(path(directory.path()), "{").expect("written");
        let (_, warning) = Note::open(directory.path()).expect("set aside");
        assert!(warning.is_some_and(|warning| warning.contains(".broken")));
        assert!(!path(directory.path()).exists());
    }
}
