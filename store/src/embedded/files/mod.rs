//! Immutable Parquet files of spans, in a directory or in object storage.
//!
//! A file's name says which generations of the log it contains. The names are the list of what is
//! stored, and a rename changes that list atomically. A log segment is obsolete once its generation
//! is in a file. A file is obsolete once its generations are in a larger file.

pub(super) mod cache;
pub(super) mod column_encoder;
pub(super) mod encoding;
pub(super) mod gather;
pub(super) mod handle;
pub(super) mod index;
pub(super) mod layout;
pub(super) mod lengths;
pub(super) mod listing;
pub(super) mod order;
pub(super) mod pages;
pub(super) mod parquet_writer;
pub(super) mod reader;
pub(super) mod shape_file;
pub(super) mod writer;

use std::fs;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use arrow::buffer::BooleanBuffer;
use parking_lot::{Mutex, RwLock};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::PageIndexPolicy;
use parquet::file::statistics::Statistics;
use spanwise_model::schema::column;

use crate::contract::RowTotal;
use crate::embedded::duplicates::origins::TakenRanges;
use crate::embedded::keys::{is_past, oldest as oldest_of};
use crate::embedded::remote::RemoteFile;
use handle::Handle;
use index::Index;
use layout::Layout;
use shape_file::{ShapeFile, directory_of};

/// Metadata key of the origins of stored batches.
pub(crate) const ORIGINS: &str = "spanwise.origins";
/// Metadata key of the time at which the newest rows became a file.
pub(crate) const WRITTEN: &str = "spanwise.written_unix_nano";
/// Metadata key of the earliest plausible start.
pub(crate) const OLDEST: &str = "spanwise.oldest_unix_nano";
/// Metadata key of the index's location.
pub(crate) const INDEX: &str = "spanwise.index";
/// Metadata key of the last deletion that is applied in the file.
pub(crate) const DELETIONS: &str = "spanwise.deletions";

/// Metadata key of the attribute keys in the file's map. Missing if there are very many.
pub(crate) const MAPPED: &str = "spanwise.mapped_keys";

/// Key of the keys of which a value may be where the index does not tell of it: as an
/// element of a list, or with an event or a link. Missing where they are very many.
pub(crate) const SCATTERED: &str = "spanwise.scattered_keys";

/// Key of the name of the file of its shapes.
pub(crate) const SHAPES: &str = "spanwise.shapes";

/// An open file, with everything needed to decide whether to read it.
#[derive(Debug)]
pub(crate) struct SpanFile {
    /// Its path on the local disk, if it has a local copy.
    pub(crate) path: PathBuf,
    pub(crate) file: Handle,
    /// First and last generation in the file.
    pub(crate) generations: (u64, u64),
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// Minimum and maximum start.
    pub(crate) starts: (i64, i64),
    /// Approximate earliest plausible start, if any start is plausible.
    pub(crate) oldest_unix_nano: Option<i64>,
    /// The time at which its newest rows became a file.
    pub(crate) written_unix_nano: i64,
    pub(crate) index: Index,
    pub(crate) origins: TakenRanges,
    /// The last deletion that is applied in the file.
    pub(crate) deletions: u64,
    pub(crate) metadata: ArrowReaderMetadata,
    pub(crate) layout: Layout,
    /// Attribute keys in its map, sorted. `None` means that any key may be there.
    pub(crate) mapped: Option<Vec<String>>,
    /// Keys of which lists, events or links have values, in order; `None` where that may
    /// be any.
    pub(crate) scattered: Option<Vec<String>>,
    pub(crate) shapes: ShapeFile,
    /// The time since which it contains rows that are not in object storage.
    pub(crate) waits_since: SystemTime,
    /// The remote file.
    remote: OnceLock<Arc<RemoteFile>>,
    /// Rows that were deleted after the file was written.
    gone: RwLock<Option<Arc<Gone>>>,
    totals: Mutex<Option<Arc<FileTotals>>>,
    doomed: AtomicBool,
    /// Whether another file replaced it under the same name.
    superseded: AtomicBool,
}

/// Deleted rows of a file.
#[derive(Debug)]
pub(crate) struct Gone {
    /// One bit for each row, set if the row is deleted.
    pub(crate) rows: BooleanBuffer,
    pub(crate) count: u64,
}

/// What a file has of each kind of row, by all of [`RowTotal::COLUMNS`].
#[derive(Debug)]
pub(crate) struct FileTotals {
    /// Number of rows that were deleted when it was counted.
    pub(crate) gone: u64,
    pub(crate) of_kinds: Vec<RowTotal>,
}

/// Why a file is not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unserved {
    /// The contents are invalid.
    #[error("{0}")]
    Broken(String),
    /// The file may be intact, but cannot be read now.
    #[error("{0}")]
    Unreadable(String),
}

/// Whether a key is among those that are noted; any may be where none are.
fn may_be_among(noted: Option<&Vec<String>>, key: &str) -> bool {
    noted.is_none_or(|noted| noted.binary_search_by(|noted| noted.as_str().cmp(key)).is_ok())
}

impl SpanFile {
    /// Opens a local file and reads its metadata.
    pub(crate) fn open(path: &Path) -> Result<Self, Unserved> {
        let unreadable = |error: std::io::Error| Unserved::Unreadable(error.to_string());
        let file = Handle::open(path).map_err(unreadable)?;
        let mut opened = Self::of(path, file, ShapeFile::open)?;
        let written = fs::metadata(path).and_then(|metadata| metadata.modified());
        opened.waits_since = written.unwrap_or(SystemTime::UNIX_EPOCH);
        Ok(opened)
    }

    /// Opens a remote file; `directory` is where a local copy would be.
    pub(crate) fn open_remote(
        directory: &Path,
        remote: &Arc<RemoteFile>,
    ) -> Result<Self, Unserved> {
        let path = directory.join(file_name(remote.generations()));
        let shapes = |path| ShapeFile::of(path, Handle::remote(Arc::clone(&remote.shapes)));
        let opened = Self::of(&path, Handle::remote(Arc::clone(&remote.spans)), shapes)?;
        let _ = opened.remote.set(Arc::clone(remote));
        remote.is_open();
        Ok(opened)
    }

    fn of(
        path: &Path,
        handle: Handle,
        open_shapes: impl FnOnce(PathBuf) -> Result<ShapeFile, Unserved>,
    ) -> Result<Self, Unserved> {
        let broken = |reason: &dyn std::fmt::Display| Unserved::Broken(reason.to_string());
        let generations =
            generations_of(path).ok_or_else(|| broken(&"its name is not that of such a file"))?;
        let bytes = handle.byte_len();
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = load(&handle, options).map_err(|reason| broken(&reason))?;
        let about = metadata.metadata().file_metadata();
        let note = |key: &str| {
            let pairs = about.key_value_metadata()?;
            pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
        };
        let foreign =
            || Unserved::Unreadable("its columns are not those of this version's files".to_owned());
        let shapes = note(SHAPES).filter(|name| !name.contains('/')).ok_or_else(foreign)?;
        let directory = directory_of(path.parent().unwrap_or(Path::new("")));
        let shapes = open_shapes(directory.join(shapes))?;
        let layout =
            Layout::of_file(metadata.schema(), shapes.metadata.schema()).ok_or_else(foreign)?;
        let origins = note(ORIGINS).and_then(|text| serde_json::from_str(text).ok());
        let deletions = note(DELETIONS).and_then(|text| text.parse().ok());
        let oldest = note(OLDEST).and_then(|text| text.parse().ok());
        let written = note(WRITTEN).and_then(|text| text.parse().ok());
        let rows = u64::try_from(about.num_rows()).unwrap_or(0);
        let keys = |name| note(name).and_then(|text| serde_json::from_str(text).ok());
        let (mapped, scattered) = (keys(MAPPED), keys(SCATTERED));
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
            oldest_unix_nano: oldest.or_else(|| {
                // The file was written before this was recorded. Uses the bounds of blocks instead.
                let edges = index.blocks.iter().flat_map(|block| [block.starts.0, block.starts.1]);
                oldest_of(&edges.collect::<Vec<_>>())
            }),
            written_unix_nano: written.unwrap_or(i64::MAX),
            index,
            origins: origins.unwrap_or_default(),
            deletions: deletions.unwrap_or(0),
            metadata,
            layout,
            mapped,
            scattered,
            shapes,
            waits_since: SystemTime::now(),
            remote: OnceLock::new(),
            gone: RwLock::new(None),
            totals: Mutex::new(None),
            doomed: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
        })
    }

    /// Whether the file contains this generation.
    pub(crate) const fn holds(&self, generation: u64) -> bool {
        self.generations.0 <= generation && generation <= self.generations.1
    }

    /// Whether any row's map may contain this key.
    pub(crate) fn may_map(&self, key: &str) -> bool {
        may_be_among(self.mapped.as_ref(), key)
    }

    /// Keys of attributes that rows may have in their maps; `None` if they were too many to note.
    pub(crate) fn mapped_keys(&self) -> Option<&[String]> {
        self.mapped.as_deref()
    }

    /// Whether a list, an event or a link of any row may have a value of this key.
    pub(crate) fn may_scatter(&self, key: &str) -> bool {
        may_be_among(self.scattered.as_ref(), key)
    }

    /// Deleted rows; `None` if there are none.
    pub(crate) fn gone(&self) -> Option<Arc<Gone>> {
        self.gone.read().clone()
    }

    /// Its totals, if they were counted since rows were last deleted.
    pub(crate) fn totals(&self) -> Option<Arc<FileTotals>> {
        let gone = self.gone().map_or(0, |gone| gone.count);
        self.totals.lock().clone().filter(|totals| totals.gone == gone)
    }

    /// Keeps its totals.
    pub(crate) fn keep_totals(&self, totals: &Arc<FileTotals>) {
        *self.totals.lock() = Some(Arc::clone(totals));
    }

    /// Removes rows from all answers that begin from now on. Returns how many were not deleted
    /// before.
    pub(crate) fn remove_rows(&self, rows: BooleanBuffer) -> u64 {
        let mut gone = self.gone.write();
        let before = gone.as_ref().map_or(0, |gone| gone.count);
        let rows = gone.as_ref().map_or_else(|| rows.clone(), |gone| &gone.rows | &rows);
        let count = rows.count_set_bits() as u64;
        *gone = (count > 0).then(|| Arc::new(Gone { rows, count }));
        count - before
    }

    /// Whether the file contains deleted rows.
    pub(crate) fn is_outdated(&self) -> bool {
        self.gone.read().is_some()
    }

    /// The index of each row group's first row, and the end.
    pub(crate) fn group_rows(&self) -> Vec<usize> {
        let mut next = 0;
        let groups = self.metadata.metadata().row_groups().iter();
        let ends = groups.map(|group| {
            next += usize::try_from(group.num_rows()).unwrap_or(0);
            next
        });
        std::iter::once(0).chain(ends).collect()
    }

    /// The indexes of all rows.
    pub(crate) fn all_rows(&self) -> Range<usize> {
        0..usize::try_from(self.rows).unwrap_or(0)
    }

    /// The start that determines the file's age. No row counts as newer than the file, whatever its
    /// clock said. Rows with a clock that was never set count by their time of arrival.
    pub(crate) fn newest(&self) -> i64 {
        match is_past(self.starts.1) {
            true => self.written_unix_nano,
            false => self.starts.1.min(self.written_unix_nano),
        }
    }

    /// Fetches the data for these hashes in some row groups.
    pub(crate) fn prepare_groups(
        &self,
        groups: impl Iterator<Item = usize>,
        hashes: &[u64],
    ) -> io::Result<()> {
        self.index.prepare(&self.file, groups, hashes)
    }

    /// The blocks of a row group that may contain all of these hashes, as a bit mask.
    pub(crate) fn blocks_with_all(&self, group: usize, hashes: &[u64]) -> io::Result<u32> {
        hashes.iter().try_fold(u32::MAX, |blocks, hash| {
            Ok(blocks & self.index.blocks_with(&self.file, group, *hash)?)
        })
    }

    /// The file's name in object storage: the name of its shapes file, which is unique.
    pub(crate) fn name(&self) -> Option<String> {
        let name = self.shapes.path.file_name()?.to_str()?;
        name.strip_suffix(".parquet").map(str::to_owned)
    }

    /// The remote file; `None` if the file is only local.
    pub(crate) fn remote(&self) -> Option<&Arc<RemoteFile>> {
        self.remote.get()
    }

    /// Records that the file is now in object storage, too.
    pub(crate) fn is_uploaded_as(&self, remote: &Arc<RemoteFile>) {
        self.file.is_uploaded_as(Arc::clone(&remote.spans));
        self.shapes.file.is_uploaded_as(Arc::clone(&remote.shapes));
        let _ = self.remote.set(Arc::clone(remote));
    }

    /// Whether there is a complete local copy.
    pub(crate) fn is_local(&self) -> bool {
        self.file.is_local()
    }

    /// How its objects differ from what was uploaded, if a reader noticed that.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.remote()?.damage()
    }

    /// Whether the file can only be read from object storage, and is not known to be damaged.
    pub(crate) fn may_be_away(&self) -> bool {
        !self.is_local() && self.damage().is_none()
    }

    /// The time of the last read.
    pub(crate) fn last_use(&self) -> u64 {
        self.file.last_use().max(self.shapes.file.last_use())
    }

    /// Removes the local copy. Readers continue with the objects. No other file may have the same
    /// name.
    pub(crate) fn drop_copy(&self) {
        // If spans are removed first, a crash leaves only shapes, which the next start removes.
        for (file, path) in [(&self.file, &self.path), (&self.shapes.file, &self.shapes.path)] {
            if file.drop_copy()
                && let Err(error) = fs::remove_file(path)
            {
                tracing::warn!("cannot remove {}: {error}", path.display());
            }
        }
    }

    /// The offsets in its two files from which data is read when it is opened.
    pub(crate) fn tails(&self) -> (u64, u64) {
        let end = |metadata: &ArrowReaderMetadata| {
            let chunks = metadata.metadata().row_groups().iter().flat_map(|group| group.columns());
            chunks.map(|chunk| chunk.byte_range()).map(|(start, length)| start + length).max()
        };
        let spans = self.index.entries_offset().or_else(|| end(&self.metadata));
        (spans.unwrap_or(0), end(&self.shapes.metadata).unwrap_or(0))
    }

    /// Excludes the file from being served again. Its bytes stay for inspection.
    pub(crate) fn set_aside(&self) {
        if let Some(remote) = self.remote() {
            remote.set_aside();
        }
        if self.is_local() {
            set_aside(&self.path);
        }
    }

    /// The file's location, for operators.
    pub(crate) fn place(&self) -> String {
        match self.remote() {
            Some(remote) if !self.is_local() => format!("{} in object storage", remote.name()),
            _ => self.path.display().to_string(),
        }
    }

    /// Removes the file once no query reads it.
    pub(crate) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// Like [`SpanFile::doom`], for a file that no other file replaces. Its rows must not come
    /// back.
    pub(crate) fn doom_for_good(&self) {
        if let Some(remote) = self.remote() {
            remote.is_forgotten();
        }
        self.doom();
    }

    /// Like [`SpanFile::doom`], if another file already has its name.
    pub(crate) fn supersede(&self) {
        self.superseded.store(true, Ordering::Release);
        self.doom();
    }
}

impl Drop for SpanFile {
    fn drop(&mut self) {
        if !self.doomed.load(Ordering::Acquire) {
            return;
        }
        if let Some(remote) = self.remote() {
            remote.leave();
        }
        if !self.superseded.load(Ordering::Acquire)
            && self.is_local()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
        self.shapes.remove();
    }
}

/// Reads the file's metadata. The Parquet library may panic on damaged metadata. A panic must not
/// prevent other files from being served.
pub(crate) fn load(
    file: &Handle,
    options: ArrowReaderOptions,
) -> Result<ArrowReaderMetadata, String> {
    let load = AssertUnwindSafe(|| ArrowReaderMetadata::load(file, options));
    match catch_unwind(load) {
        Ok(loaded) => loaded.map_err(|error| error.to_string()),
        Err(_) => Err("what it says of its columns makes no sense".to_owned()),
    }
}

/// Number of rows and bounds of starts of each row group. The bounds may be missing in the file.
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

/// The name of the file with these generations.
pub(crate) fn file_name((first, last): (u64, u64)) -> String {
    format!("{first:012}-{last:012}.parquet")
}

pub(crate) fn generations_of(path: &Path) -> Option<(u64, u64)> {
    let name = path.file_name()?.to_str()?;
    let (generations, rest) = name.split_once('.')?;
    let (first, last) = generations.split_once('-').filter(|_| rest.contains("parquet"))?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Renames a broken file, so that it is not read again.
pub(crate) fn set_aside(path: &Path) {
    let mut name = path.as_os_str().to_owned();
    name.push(".broken");
    if let Err(error) = fs::rename(path, &name) {
        tracing::warn!("cannot set {} aside: {error}", path.display());
    }
}

/// The operator's warning about a broken file.
pub(crate) fn broken_warning(path: &Path, reason: &str) -> String {
    format!(
        "{} is damaged ({reason}) and was renamed to end in .broken; its spans are missing from \
         answers. Have a look at the disk, or restore the file from a backup",
        path.display()
    )
}
