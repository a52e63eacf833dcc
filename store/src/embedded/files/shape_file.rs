//! The shapes of a file's rows, in a second file with corresponding row groups.
//!
//! It is written before the spans file, which contains its name, and removed with it. No two shapes
//! files have the same name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowSelection,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;

use super::cache::Cache;
use super::handle::Handle;
use super::layout::{SHAPE_NUMBERS, Shapes, not_of_file, shape_numbers};
use super::pages::Group;
use super::{Unserved, load};

/// Size of the cache of shapes of all files.
const CACHE_BYTES: usize = 24 << 20;
/// Fewer than one in this many of a row group's shapes count as few.
const FEW_OF: usize = 16;
/// The bits that are zero in the number of a row group's first shape.
const LAST_NUMBER: i64 = (1 << SHAPE_NUMBERS) - 1;

/// An open file of shapes. See the module's description.
#[derive(Debug)]
pub(crate) struct ShapeFile {
    pub(crate) path: PathBuf,
    pub(crate) file: Handle,
    pub(crate) metadata: ArrowReaderMetadata,
    pub(crate) bytes: u64,
}

impl ShapeFile {
    pub(crate) fn open(path: PathBuf) -> Result<Self, Unserved> {
        let unreadable = |error: std::io::Error| {
            Unserved::Unreadable(format!("its shapes, {}: {error}", path.display()))
        };
        let file = Handle::open(&path).map_err(unreadable)?;
        Self::of(path, file)
    }

    /// Reads the metadata of an open file.
    pub(crate) fn of(path: PathBuf, file: Handle) -> Result<Self, Unserved> {
        let bytes = file.byte_len();
        let metadata = load(&file, ArrowReaderOptions::new()).map_err(|reason| {
            Unserved::Broken(format!("its shapes, {}: {reason}", path.display()))
        })?;
        Ok(Self { file, path, metadata, bytes })
    }

    /// Columns of all shapes of a row group.
    ///
    /// # Errors
    /// If the file is damaged.
    pub(crate) fn group(
        &self,
        group: usize,
        places: &[usize],
    ) -> Result<Arc<Shapes>, ParquetError> {
        if let Some(shapes) = self.cached(group, places) {
            return Ok(shapes);
        }
        let shapes = Arc::new(self.read(group, places)?);
        let key = (self.file.serial(), group, places.into());
        CACHE.lock().put(key, Arc::clone(&shapes), shapes.memory_bytes());
        Ok(shapes)
    }

    /// Columns of the shapes that some rows have. If they are few, only these shapes are read, and
    /// they are not cached, since the next rows have other shapes. If the whole group was recently
    /// requested and would still be cached, it is read and cached.
    ///
    /// # Errors
    /// If the file is damaged.
    pub(crate) fn of_rows(
        &self,
        group: usize,
        places: &[usize],
        rows: &[RecordBatch],
    ) -> Result<Arc<Shapes>, ParquetError> {
        if let Some(shapes) = self.cached(group, places) {
            return Ok(shapes);
        }
        let mut wanted: Vec<i64> = Vec::new();
        for batch in rows {
            wanted.extend_from_slice(shape_numbers(batch)?.values());
        }
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.len() * FEW_OF > self.count(group)? || self.was_asked_for(group, places) {
            return self.group(group, places);
        }
        let places_of: Vec<usize> =
            wanted.iter().map(|number| (number & LAST_NUMBER) as usize).collect();
        match Shapes::some(self.select(group, places, Some(&places_of))?, wanted) {
            Some(shapes) => Ok(Arc::new(shapes)),
            // The shapes are numbered differently.
            None => self.group(group, places),
        }
    }

    fn cached(&self, group: usize, places: &[usize]) -> Option<Arc<Shapes>> {
        CACHE.lock().get(&(self.file.serial(), group, places.into()))
    }

    /// Whether these columns of the row group were requested recently. Records this request.
    fn was_asked_for(&self, group: usize, places: &[usize]) -> bool {
        let key = (self.file.serial(), group, places.into());
        let mut asked_for = ASKED_FOR.lock();
        let was = asked_for.get(&key).is_some();
        if !was {
            asked_for.put(key, Arc::new(()), self.estimated_bytes(group, places));
        }
        was
    }

    /// Approximate memory of these columns of the row group, including a number for each shape.
    fn estimated_bytes(&self, group: usize, places: &[usize]) -> usize {
        let schema = self.metadata.parquet_schema();
        let mask = ProjectionMask::roots(schema, places.iter().copied());
        let metadata = self.metadata.metadata().row_group(group);
        let leaves = (0..schema.num_columns()).filter(|leaf| mask.leaf_included(*leaf));
        let bytes = |leaf| {
            let column = metadata.column(leaf);
            usize::try_from(column.uncompressed_size()).unwrap_or(0)
                + usize::try_from(metadata.num_rows()).unwrap_or(0) * size_of::<i32>()
        };
        leaves.map(bytes).sum()
    }

    /// Number of shapes in a row group.
    fn count(&self, group: usize) -> Result<usize, ParquetError> {
        let metadata = self.metadata.metadata();
        if group >= metadata.num_row_groups() {
            return Err(damaged("a row group has none"));
        }
        Ok(usize::try_from(metadata.row_group(group).num_rows()).unwrap_or(0))
    }

    /// Like [`Self::group`], without the cache.
    ///
    /// # Errors
    /// If the file is damaged.
    pub(crate) fn read(&self, group: usize, places: &[usize]) -> Result<Shapes, ParquetError> {
        let all = self.select(group, places, None)?;
        Shapes::all(all).ok_or_else(|| damaged("their numbers are not in order"))
    }

    /// Columns of the shapes with these indexes, ascending, or of all.
    fn select(
        &self,
        group: usize,
        places: &[usize],
        shapes: Option<&[usize]>,
    ) -> Result<RecordBatch, ParquetError> {
        let count = self.count(group)?;
        if shapes.and_then(<[usize]>::last).is_some_and(|last| *last >= count) {
            return Err(not_of_file().into());
        }
        let selection = shapes.map(|shapes| {
            let ranges = shapes.iter().map(|shape| *shape..*shape + 1);
            RowSelection::from_consecutive_ranges(ranges, count)
        });
        let schema = self.metadata.parquet_schema();
        let hint = Some(self.metadata.schema().fields());
        let mask = ProjectionMask::roots(schema, places.iter().copied());
        let levels = parquet_to_arrow_field_levels(schema, mask.clone(), hint)?;
        let group =
            Group { file: &self.file, metadata: self.metadata.metadata(), group, keep: false };
        group.prepare(schema, &mask, None::<std::iter::Empty<_>>)?;
        let batch_rows = shapes.map_or(count, <[usize]>::len).max(1);
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(
            &levels, &group, batch_rows, selection,
        )?;
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        let columns = Arc::new(self.metadata.schema().project(places)?);
        Ok(concat_batches(&columns, &batches)?)
    }

    /// Fetches columns of the shapes of some row groups together, if they are remote.
    ///
    /// # Errors
    /// If they cannot be reached.
    pub(crate) fn prepare(
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

    pub(crate) fn remove(&self) {
        if self.file.is_local()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("shapes: {what}"))
}

/// The directory of shapes files.
pub(crate) fn directory_of(spans: &Path) -> PathBuf {
    spans.with_file_name("shapes")
}

/// Removes shapes files without a spans file, which a crash left behind.
pub(crate) fn remove_leftovers(spans: &Path, is_needed: impl Fn(&str) -> bool) {
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

/// File, row group, and columns of its shapes.
type Key = (u64, usize, Box<[usize]>);

/// Recent requests for which only a few shapes were read. Its capacity corresponds to that of the
/// [cache](CACHE).
static ASKED_FOR: LazyLock<Mutex<Cache<Key, ()>>> =
    LazyLock::new(|| Mutex::new(Cache::new(CACHE_BYTES)));

/// Recently read shapes.
static CACHE: LazyLock<Mutex<Cache<Key, Shapes>>> =
    LazyLock::new(|| Mutex::new(Cache::new(CACHE_BYTES)));
