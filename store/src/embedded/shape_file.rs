//! The shapes of a file's rows: a file of their own, whose row groups belong to
//! those of the other.
//!
//! It is written before the other file, which names it, and is removed with it. No
//! two have the same name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow::compute::concat_batches;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;

use super::cache::Cache;
use super::files::{Unserved, load};
use super::handle::Handle;
use super::layout::Shapes;
use super::pages::Group;

/// Memory for shapes that were read, of all files.
const CACHE_BYTES: usize = 40 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct ShapeFile {
    pub(super) path: PathBuf,
    pub(super) file: Handle,
    pub(super) metadata: ArrowReaderMetadata,
    pub(super) bytes: u64,
}

impl ShapeFile {
    pub(super) fn open(path: PathBuf) -> Result<Self, Unserved> {
        let unreadable = |error: std::io::Error| {
            Unserved::Unreadable(format!("its shapes, {}: {error}", path.display()))
        };
        let file = Handle::open(&path).map_err(unreadable)?;
        Self::of(path, file)
    }

    /// That which is read so.
    pub(super) fn of(path: PathBuf, file: Handle) -> Result<Self, Unserved> {
        let bytes = file.byte_len();
        let metadata = load(&file, ArrowReaderOptions::new()).map_err(|reason| {
            Unserved::Broken(format!("its shapes, {}: {reason}", path.display()))
        })?;
        Ok(Self { file, path, metadata, bytes })
    }

    /// The columns at these places of the shapes of a row group.
    ///
    /// # Errors
    /// Where the file is damaged.
    pub(super) fn group(
        &self,
        group: usize,
        places: &[usize],
    ) -> Result<Arc<Shapes>, ParquetError> {
        let key = (self.file.serial(), group, places.into());
        if let Some(shapes) = CACHE.lock().get(&key) {
            return Ok(shapes);
        }
        let shapes = Arc::new(self.read(group, places)?);
        CACHE.lock().put(key, Arc::clone(&shapes), shapes.memory_bytes());
        Ok(shapes)
    }

    /// The same, which is not kept.
    ///
    /// # Errors
    /// Where the file is damaged.
    pub(super) fn read(&self, group: usize, places: &[usize]) -> Result<Shapes, ParquetError> {
        let damaged = |what: &str| ParquetError::General(format!("shapes: {what}"));
        if group >= self.metadata.metadata().num_row_groups() {
            return Err(damaged("a row group has none"));
        }
        let rows = self.metadata.metadata().row_group(group).num_rows();
        let schema = self.metadata.parquet_schema();
        let hint = Some(self.metadata.schema().fields());
        let mask = ProjectionMask::roots(schema, places.iter().copied());
        let levels = parquet_to_arrow_field_levels(schema, mask.clone(), hint)?;
        let group =
            Group { file: &self.file, metadata: self.metadata.metadata(), group, keep: false };
        group.prepare(schema, &mask, None::<std::iter::Empty<_>>)?;
        let batch_rows = usize::try_from(rows).unwrap_or(0).max(1);
        let reader =
            ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, batch_rows, None)?;
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        let columns = Arc::new(self.metadata.schema().project(places)?);
        let shapes = concat_batches(&columns, &batches)?;
        Shapes::new(shapes).ok_or_else(|| damaged("their numbers are not in order"))
    }

    /// Has columns of the shapes of some row groups ready, where they are far away: all
    /// at once, and not group by group.
    ///
    /// # Errors
    /// Where they cannot be reached.
    pub(super) fn prepare(
        &self,
        groups: impl Iterator<Item = usize>,
        places: &[usize],
    ) -> Result<(), ParquetError> {
        if self.file.is_local() {
            return Ok(());
        }
        let metadata = self.metadata.metadata();
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), places.iter().copied());
        let leaves = (0..self.metadata.parquet_schema().num_columns())
            .filter(|leaf| mask.leaf_included(*leaf));
        let groups = groups.filter(|group| *group < metadata.num_row_groups());
        let ranges = groups.flat_map(|group| {
            leaves.clone().map(move |leaf| {
                let (start, length) = metadata.row_group(group).column(leaf).byte_range();
                start..start + length
            })
        });
        Ok(self.file.prepare(&ranges.collect::<Vec<_>>())?)
    }

    pub(super) fn remove(&self) {
        if self.file.is_local()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Where the shapes of files of this directory are.
pub(super) fn directory_of(spans: &Path) -> PathBuf {
    spans.with_file_name("shapes")
}

/// Removes what a crash left behind: files of no file of spans.
pub(super) fn remove_leftovers(spans: &Path, is_needed: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(directory_of(spans)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| !is_needed(name))
            && let Err(error) = fs::remove_file(entry.path())
        {
            tracing::warn!("cannot remove {}: {error}", entry.path().display());
        }
    }
}

/// A file, a row group of it, and columns of its shapes.
type Key = (u64, usize, Box<[usize]>);

/// Shapes that were read of late.
static CACHE: LazyLock<Mutex<Cache<Key, Shapes>>> =
    LazyLock::new(|| Mutex::new(Cache::new(CACHE_BYTES)));
