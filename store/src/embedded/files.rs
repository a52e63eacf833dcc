//! Immutable Parquet files of spans, as they lie in a directory.
//!
//! A file's name says which generations of the log it holds. The names are the
//! list of what is stored, and a rename changes it whole or not at all: a
//! segment whose generation is in a file is done with, and a file whose
//! generations are all in a larger one is too.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::buffer::BooleanBuffer;
use parking_lot::RwLock;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::statistics::Statistics;
use spanwise_model::schema::column;

use super::fault;
use super::handle::Handle;
use super::index::Index;
use super::layout::Layout;
use super::origins::TakenRanges;
use super::shape_file::{ShapeFile, directory_of, remove_leftovers};
use crate::contract::StoreError;

/// Key of the file metadata under which the taken batches are noted.
pub(super) const ORIGINS: &str = "spanwise.origins";
/// Key of when the newest rows became a file.
pub(super) const WRITTEN: &str = "spanwise.written_unix_nano";
/// Key of where the index is.
pub(super) const INDEX: &str = "spanwise.index";
/// Key of the number of the last deletion that the file was written without.
pub(super) const DELETIONS: &str = "spanwise.deletions";

/// Key of the name of the file of its shapes.
pub(super) const SHAPES: &str = "spanwise.shapes";

/// A file, with everything that is needed to decide whether to read it.
#[derive(Debug)]
pub(super) struct SpanFile {
    pub(super) path: PathBuf,
    /// Held open, so that it can be read after another took its name.
    pub(super) file: Handle,
    /// First and last generation that it holds.
    pub(super) generations: (u64, u64),
    pub(super) rows: u64,
    pub(super) bytes: u64,
    /// Least and greatest start.
    pub(super) starts: (i64, i64),
    /// When its newest rows became a file.
    pub(super) written_unix_nano: i64,
    pub(super) index: Index,
    pub(super) origins: TakenRanges,
    /// The last deletion that it was written without.
    pub(super) deletions: u64,
    pub(super) metadata: ArrowReaderMetadata,
    pub(super) layout: Layout,
    pub(super) shapes: ShapeFile,
    /// Rows that were deleted since.
    gone: RwLock<Option<Arc<Gone>>>,
    doomed: AtomicBool,
    /// Whether another file has its name.
    superseded: AtomicBool,
}

/// Rows of a file that are deleted.
#[derive(Debug)]
pub(super) struct Gone {
    /// One bit a row; set where it is deleted.
    pub(super) rows: BooleanBuffer,
    pub(super) count: u64,
}

/// Why a file is not served.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unserved {
    /// What it holds makes no sense.
    #[error("{0}")]
    Broken(String),
    /// It may be sound, but cannot be read here and now.
    #[error("{0}")]
    Unreadable(String),
}

impl SpanFile {
    /// Reads what the file says of itself.
    pub(super) fn open(path: &Path) -> Result<Self, Unserved> {
        let broken = |reason: &dyn std::fmt::Display| Unserved::Broken(reason.to_string());
        let unreadable = |error: std::io::Error| Unserved::Unreadable(error.to_string());
        let generations =
            generations_of(path).ok_or_else(|| broken(&"its name is not that of such a file"))?;
        let file = File::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = load(&file, options).map_err(|reason| broken(&reason))?;
        let about = metadata.metadata().file_metadata();
        let note = |key: &str| {
            let pairs = about.key_value_metadata()?;
            pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
        };
        let foreign =
            || Unserved::Unreadable("its columns are not those of this version's files".to_owned());
        let shapes = note(SHAPES).filter(|name| !name.contains('/')).ok_or_else(foreign)?;
        let directory = directory_of(path.parent().unwrap_or(Path::new("")));
        let shapes = ShapeFile::open(directory.join(shapes))?;
        let layout =
            Layout::of_file(metadata.schema(), shapes.metadata.schema()).ok_or_else(foreign)?;
        let origins = note(ORIGINS).and_then(|text| serde_json::from_str(text).ok());
        let deletions = note(DELETIONS).and_then(|text| text.parse().ok());
        let written = note(WRITTEN).and_then(|text| text.parse().ok());
        let handle = Handle::new(file, bytes);
        let rows = u64::try_from(about.num_rows()).unwrap_or(0);
        let index = note(INDEX)
            .and_then(|note| Index::open(&handle, note))
            .filter(|index| index.blocks.iter().map(|b| b.rows as u64).sum::<u64>() == rows)
            .unwrap_or_else(|| Index::of_groups(groups(&metadata)));
        let least = index.blocks.iter().map(|block| block.starts.0).min().unwrap_or(i64::MAX);
        let most = index.blocks.iter().map(|block| block.starts.1).max().unwrap_or(i64::MIN);
        Ok(Self {
            path: path.to_owned(),
            file: handle,
            generations,
            rows,
            bytes: bytes + shapes.bytes,
            starts: (least, most),
            written_unix_nano: written.unwrap_or(i64::MAX),
            index,
            origins: origins.unwrap_or_default(),
            deletions: deletions.unwrap_or(0),
            metadata,
            layout,
            shapes,
            gone: RwLock::new(None),
            doomed: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
        })
    }

    /// Whether the rows of this generation are in it.
    pub(super) const fn holds(&self, generation: u64) -> bool {
        self.generations.0 <= generation && generation <= self.generations.1
    }

    /// Its deleted rows; `None` where there are none.
    pub(super) fn gone(&self) -> Option<Arc<Gone>> {
        self.gone.read().clone()
    }

    /// Takes rows out of all answers that begin from now on; how many were
    /// there before.
    pub(super) fn remove_rows(&self, rows: BooleanBuffer) -> u64 {
        let mut gone = self.gone.write();
        let before = gone.as_ref().map_or(0, |gone| gone.count);
        let rows = gone.as_ref().map_or_else(|| rows.clone(), |gone| &gone.rows | &rows);
        let count = rows.count_set_bits() as u64;
        *gone = (count > 0).then(|| Arc::new(Gone { rows, count }));
        count - before
    }

    /// Whether it holds deleted rows.
    pub(super) fn is_outdated(&self) -> bool {
        self.gone.read().is_some()
    }

    /// The number of the first row of each row group, and of the end.
    pub(super) fn group_rows(&self) -> Vec<usize> {
        let mut next = 0;
        let groups = self.metadata.metadata().row_groups().iter();
        let ends = groups.map(|group| {
            next += usize::try_from(group.num_rows()).unwrap_or(0);
            next
        });
        std::iter::once(0).chain(ends).collect()
    }

    /// The numbers of all its rows.
    pub(super) fn all_rows(&self) -> Range<usize> {
        0..usize::try_from(self.rows).unwrap_or(0)
    }

    /// The start that counts for its age: no row is newer than the file itself,
    /// whatever its clock said.
    pub(super) fn newest(&self) -> i64 {
        self.starts.1.min(self.written_unix_nano)
    }

    /// Those of some blocks' rows that may have an attribute of this hash.
    pub(super) fn rows_that_may_have(
        &self,
        rows: &[Range<usize>],
        hash: u64,
    ) -> io::Result<Vec<Range<usize>>> {
        let mut left = Vec::new();
        for range in rows {
            let at = self.index.blocks.partition_point(|block| block.first_row < range.start);
            let block = self.index.blocks.get(at).filter(|block| block.first_row == range.start);
            let may = block.map_or(Ok(true), |block| self.index.may_have(&self.file, block, hash));
            left.extend(may?.then(|| range.clone()));
        }
        Ok(left)
    }

    /// Has the file removed once no query reads it any more.
    pub(super) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// The same, where another file already has its name.
    pub(super) fn supersede(&self) {
        self.superseded.store(true, Ordering::Release);
        self.doom();
    }
}

impl Drop for SpanFile {
    fn drop(&mut self) {
        if !self.doomed.load(Ordering::Acquire) {
            return;
        }
        if !self.superseded.load(Ordering::Acquire)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
        self.shapes.remove();
    }
}

/// Reads what a file says of its columns. Readers of damaged descriptions are not
/// beyond a panic, which must not keep the other files from being served.
pub(super) fn load(
    file: &File,
    options: ArrowReaderOptions,
) -> Result<ArrowReaderMetadata, String> {
    let load = AssertUnwindSafe(|| ArrowReaderMetadata::load(file, options));
    match catch_unwind(load) {
        Ok(loaded) => loaded.map_err(|error| error.to_string()),
        Err(_) => Err("what it says of its columns makes no sense".to_owned()),
    }
}

/// Rows and starts of the row groups, of which the file may not say everything.
fn groups(metadata: &ArrowReaderMetadata) -> impl Iterator<Item = (usize, (i64, i64))> {
    let starts = |group: &parquet::file::metadata::RowGroupMetaData| {
        let columns = group.columns();
        let start = columns.iter().find(|c| c.column_path().string() == column::START_UNIX_NANO)?;
        match start.statistics()? {
            Statistics::Int64(range) => Some((*range.min_opt()?, *range.max_opt()?)),
            _ => None,
        }
    };
    metadata.metadata().row_groups().iter().map(move |group| {
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        (rows, starts(group).unwrap_or((i64::MIN, i64::MAX)))
    })
}

/// The name of the file of these generations.
pub(super) fn file_name((first, last): (u64, u64)) -> String {
    format!("{first:012}-{last:012}.parquet")
}

fn generations_of(path: &Path) -> Option<(u64, u64)> {
    let name = path.file_name()?.to_str()?;
    let (generations, rest) = name.split_once('.')?;
    let (first, last) = generations.split_once('-').filter(|_| rest.contains("parquet"))?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// What a directory holds.
pub(super) struct Found {
    /// Oldest generation first.
    pub(super) files: Vec<Arc<SpanFile>>,
    /// Those that were set aside because they could not be read, and why.
    pub(super) broken: Vec<(PathBuf, String)>,
    /// Those that stay where they are and are not served, and why.
    pub(super) unreadable: Vec<(PathBuf, String)>,
    /// The first generation that no file, sound or broken, was of.
    pub(super) next_generation: u64,
}

/// Looks through the directory: sound files are listed, broken ones are
/// renamed, leftovers of a crash are removed.
pub(super) fn open(directory: &Path) -> Result<Found, StoreError> {
    let context = || format!("cannot read {}", directory.display());
    let mut found =
        Found { files: Vec::new(), broken: Vec::new(), unreadable: Vec::new(), next_generation: 1 };
    for entry in fs::read_dir(directory).map_err(fault::io(context()))? {
        let path = entry.map_err(fault::io(context()))?.path();
        let Some((_, last)) = generations_of(&path) else { continue };
        found.next_generation = found.next_generation.max(last.saturating_add(1));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("tmp") => drop(fs::remove_file(&path)),
            Some("parquet") => match SpanFile::open(&path) {
                Ok(file) => found.files.push(Arc::new(file)),
                Err(Unserved::Broken(reason)) => {
                    set_aside(&path);
                    found.broken.push((path, reason));
                }
                Err(Unserved::Unreadable(reason)) => found.unreadable.push((path, reason)),
            },
            _ => {}
        }
    }
    found.files.sort_by_key(|file| (file.generations.0, std::cmp::Reverse(file.generations.1)));
    let mut kept: Vec<Arc<SpanFile>> = Vec::with_capacity(found.files.len());
    for file in found.files {
        // A merged file stands beside its parts after a crash at that moment.
        match kept.last() {
            Some(larger) if larger.holds(file.generations.1) => file.doom(),
            _ => kept.push(file),
        }
    }
    found.files = kept;
    remove_leftovers(directory, |name| {
        let path = Path::new(name);
        // Of a file that is not there or cannot be read now, it may be wanted again.
        let holds = |file: &&Arc<SpanFile>| {
            generations_of(path).is_some_and(|(first, last)| file.holds(first) && file.holds(last))
        };
        let holder = found.files.iter().find(holds);
        holder.is_none_or(|file| file.shapes.path.file_name() == path.file_name())
    });
    Ok(found)
}

/// Renames a broken file, so that nothing reads it again.
pub(super) fn set_aside(path: &Path) {
    let mut name = path.as_os_str().to_owned();
    name.push(".broken");
    if let Err(error) = fs::rename(path, &name) {
        tracing::warn!("cannot set {} aside: {error}", path.display());
    }
}

/// What the operator is told of a broken file.
pub(super) fn broken_warning(path: &Path, reason: &str) -> String {
    format!(
        "{} is damaged ({reason}) and was renamed to end in .broken; its spans are missing from \
         answers. Have a look at the disk, or restore the file from a backup",
        path.display()
    )
}
