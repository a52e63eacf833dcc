//! The shapes of a file's rows: a file of their own, whose row groups belong to
//! those of the other.
//!
//! It is written before the other file, which names it, and is removed with it. No
//! two have the same name.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

use arrow::compute::concat_batches;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowSelection, RowSelector,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;

use super::cache::Cache;
use super::files::{Unserved, load};
use super::handle::Handle;
use super::layout::{Shapes, shape_numbers};
use super::pages::Group;

/// Memory for shapes that were read, of all files.
const CACHE_BYTES: usize = 64 << 20;

/// See the module.
#[derive(Debug)]
pub(super) struct ShapeFile {
    pub(super) path: PathBuf,
    pub(super) file: Handle,
    pub(super) metadata: ArrowReaderMetadata,
    pub(super) bytes: u64,
    /// Names it among all that were ever opened.
    serial: u64,
    /// Of each row group the number of its first shape, once somebody has looked.
    firsts: Vec<OnceLock<i64>>,
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
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let serial = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut firsts = Vec::new();
        firsts.resize_with(metadata.metadata().num_row_groups(), OnceLock::new);
        Ok(Self { file, path, metadata, bytes, serial, firsts })
    }

    /// A number that no other file has or had.
    pub(super) const fn serial(&self) -> u64 {
        self.serial
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
        let key = (self.serial, group, places.into());
        if let Some(shapes) = CACHE.lock().get(&key) {
            return Ok(shapes);
        }
        let shapes = self.read(group, places, None)?;
        let shapes = Arc::new(Some(shapes).filter(Shapes::is_run).ok_or_else(unordered)?);
        CACHE.lock().put(key, Arc::clone(&shapes), shapes.memory_bytes());
        Ok(shapes)
    }

    /// As [`Self::group`], at least the shapes of a few rows, which have these numbers:
    /// a row group may have some thousand.
    pub(super) fn some(
        &self,
        group: usize,
        places: &[usize],
        mut numbers: Vec<i64>,
    ) -> Result<Arc<Shapes>, ParquetError> {
        let key = (self.serial, group, places.into());
        if let Some(shapes) = CACHE.lock().get(&key) {
            return Ok(shapes);
        }
        let first = self.first(group)?;
        numbers.sort_unstable();
        numbers.dedup();
        let mut at = 0;
        let mut selectors = Vec::new();
        for number in numbers {
            // Where there is none with this number, none is found later.
            let Ok(place) = usize::try_from(number.wrapping_sub(first)) else { continue };
            selectors.extend((place > at).then(|| RowSelector::skip(place - at)));
            selectors.push(RowSelector::select(1));
            at = place + 1;
        }
        let rows = self.rows(group)?;
        if at > rows || at == 0 {
            return Err(damaged("a row's shape is not among them"));
        }
        selectors.extend((rows > at).then(|| RowSelector::skip(rows - at)));
        Ok(Arc::new(self.read(group, places, Some(selectors.into()))?))
    }

    /// The number of the first shape of a row group.
    fn first(&self, group: usize) -> Result<i64, ParquetError> {
        let known = self.firsts.get(group).ok_or_else(|| damaged("a row group has none"))?;
        if let Some(first) = known.get() {
            return Ok(*first);
        }
        let rows = self.rows(group)?;
        let mut selectors = vec![RowSelector::select(1)];
        selectors.extend((rows > 1).then(|| RowSelector::skip(rows - 1)));
        let shapes = self.read(group, &[0], Some(selectors.into()))?;
        let first = *shape_numbers(shapes.rows())?.values().first().ok_or_else(unordered)?;
        Ok(*known.get_or_init(|| first))
    }

    /// How many a row group has.
    fn rows(&self, group: usize) -> Result<usize, ParquetError> {
        if group >= self.metadata.metadata().num_row_groups() {
            return Err(damaged("a row group has none"));
        }
        let rows = self.metadata.metadata().row_group(group).num_rows();
        Ok(usize::try_from(rows).unwrap_or(0))
    }

    /// The selected ones, or all.
    fn read(
        &self,
        group: usize,
        places: &[usize],
        selected: Option<RowSelection>,
    ) -> Result<Shapes, ParquetError> {
        let rows = self.rows(group)?;
        let schema = self.metadata.parquet_schema();
        let hint = Some(self.metadata.schema().fields());
        let mask = ProjectionMask::roots(schema, places.iter().copied());
        let levels = parquet_to_arrow_field_levels(schema, mask.clone(), hint)?;
        let group = Group { file: &self.file, metadata: self.metadata.metadata(), group };
        group.prepare(schema, &mask, None::<std::iter::Empty<_>>)?;
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(
            &levels,
            &group,
            rows.max(1),
            selected,
        )?;
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        let columns = Arc::new(self.metadata.schema().project(places)?);
        let shapes = concat_batches(&columns, &batches)?;
        Shapes::new(shapes).ok_or_else(unordered)
    }

    pub(super) fn remove(&self) {
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

fn unordered() -> ParquetError {
    damaged("their numbers are not in order")
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
