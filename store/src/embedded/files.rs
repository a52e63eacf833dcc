//! Immutable Parquet files. A file's name says which generations of the log it
//! holds, so that a crash between writing it and deleting their segments is
//! harmless: a segment whose generation is in a file is done with.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::{
    SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch,
};
use arrow::datatypes::Int64Type;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use spanwise_model::schema::{column, span_schema};

use crate::contract::{StoreError, TimeRange};

const MIN_START: &str = "spanwise.min_start_unix_nano";
const MAX_START: &str = "spanwise.max_start_unix_nano";
const ORIGINS: &str = "spanwise.origins";
const ROW_GROUP_ROWS: usize = 64 * 1024;

/// The last sequence taken of each source, by the source's hexadecimal text.
pub(super) type Origins = HashMap<String, u64>;

/// A file and what is known of it without opening it.
#[derive(Debug, Clone)]
pub(super) struct SpanFile {
    pub(super) path: PathBuf,
    /// First and last generation that it holds.
    pub(super) generations: (u64, u64),
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) min_start_unix_nano: i64,
    pub(super) max_start_unix_nano: i64,
    pub(super) origins: Origins,
}

impl SpanFile {
    pub(super) const fn overlaps(&self, time: TimeRange) -> bool {
        self.min_start_unix_nano < time.to_unix_nano
            && self.max_start_unix_nano >= time.from_unix_nano
    }

    const fn covers(&self, other: &Self) -> bool {
        self.generations.0 <= other.generations.0 && other.generations.1 <= self.generations.1
    }
}

fn engine(context: String) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> StoreError {
    move |source| StoreError::Engine { context, source }
}

fn io(context: String) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io { context, source }
}

fn file_name(generations: (u64, u64)) -> String {
    format!("{:012}-{:012}.parquet", generations.0, generations.1)
}

fn generations_of(path: &Path) -> Option<(u64, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".parquet")?;
    let (first, last) = name.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// The files found, and those set aside because they could not be read.
pub(super) struct Found {
    pub(super) files: Vec<SpanFile>,
    pub(super) broken: Vec<(PathBuf, String)>,
}

/// Looks through the directory: sound files are listed, oldest first; broken
/// ones are renamed; leftovers of a crash are removed.
pub(super) fn open(directory: &Path) -> Result<Found, StoreError> {
    let context = || format!("cannot read {}", directory.display());
    let mut found = Found { files: Vec::new(), broken: Vec::new() };
    for entry in fs::read_dir(directory).map_err(io(context()))? {
        let path = entry.map_err(io(context()))?.path();
        if path.extension().is_some_and(|extension| extension == "tmp") {
            let _ = fs::remove_file(&path);
            continue;
        }
        let Some(generations) = generations_of(&path) else { continue };
        match describe(&path, generations) {
            Ok(file) => found.files.push(file),
            Err(reason) => found.broken.push((path, reason)),
        }
    }
    for (path, _) in &found.broken {
        set_aside(path);
    }
    found.files.sort_by_key(|file| (file.generations.0, std::cmp::Reverse(file.generations.1)));
    // A merged file stands beside its parts after a crash at the wrong moment.
    let mut kept: Vec<SpanFile> = Vec::with_capacity(found.files.len());
    for file in found.files {
        match kept.last() {
            Some(larger) if larger.covers(&file) => {
                let _ = fs::remove_file(&file.path);
            }
            _ => kept.push(file),
        }
    }
    found.files = kept;
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

fn describe(path: &Path, generations: (u64, u64)) -> Result<SpanFile, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| error.to_string())?;
    if builder.schema().fields().len() != span_schema().fields().len() {
        return Err("its columns are not the span schema's".to_owned());
    }
    let metadata = builder.metadata().file_metadata();
    let value = |key: &str| {
        let pairs = metadata.key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    };
    let time =
        |key: &str, default: i64| value(key).and_then(|text| text.parse().ok()).unwrap_or(default);
    Ok(SpanFile {
        path: path.to_owned(),
        generations,
        rows: u64::try_from(metadata.num_rows()).unwrap_or(0),
        bytes,
        min_start_unix_nano: time(MIN_START, i64::MIN),
        max_start_unix_nano: time(MAX_START, i64::MAX),
        origins: value(ORIGINS)
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default(),
    })
}

/// Whether every page of a file can be read.
pub(super) fn is_sound(path: &Path) -> bool {
    let read = || -> Result<(), Box<dyn std::error::Error>> {
        for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()? {
            batch?;
        }
        Ok(())
    };
    // The reader of damaged pages may panic; that is an answer too.
    std::panic::catch_unwind(|| read().is_ok()).unwrap_or(false)
}

/// All rows of some files.
pub(super) fn read(files: &[SpanFile]) -> Result<Vec<RecordBatch>, StoreError> {
    let mut batches = Vec::new();
    for file in files {
        let context = || format!("cannot read {}", file.path.display());
        let opened = File::open(&file.path).map_err(io(context()))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(opened)
            .and_then(ParquetRecordBatchReaderBuilder::build)
            .map_err(|error| engine(context())(Box::new(error)))?;
        for batch in reader {
            batches.push(batch.map_err(|error| engine(context())(Box::new(error)))?);
        }
    }
    Ok(batches)
}

/// Writes rows as the file of these generations; it is there whole or not at
/// all. `None` where there are no rows.
pub(super) fn write(
    directory: &Path,
    generations: (u64, u64),
    batches: &[RecordBatch],
    origins: Origins,
) -> Result<Option<SpanFile>, StoreError> {
    let path = directory.join(file_name(generations));
    let context = || format!("cannot write {}", path.display());
    let arrow = |error: arrow::error::ArrowError| engine(context())(Box::new(error));
    let rows = concat_batches(&span_schema(), batches).map_err(arrow)?;
    if rows.num_rows() == 0 {
        return Ok(None);
    }
    let rows = by_trace(&rows).map_err(arrow)?;
    let starts = rows
        .column_by_name(column::START_UNIX_NANO)
        .and_then(|starts| starts.as_primitive_opt::<Int64Type>())
        .map(|starts| starts.values().to_vec())
        .unwrap_or_default();
    let min = starts.iter().copied().min().unwrap_or(i64::MIN);
    let max = starts.iter().copied().max().unwrap_or(i64::MAX);
    let origin_text = serde_json::to_string(&origins).unwrap_or_default();
    let properties = properties(vec![
        KeyValue::new(MIN_START.to_owned(), min.to_string()),
        KeyValue::new(MAX_START.to_owned(), max.to_string()),
        KeyValue::new(ORIGINS.to_owned(), origin_text),
    ]);
    let temporary = path.with_extension("tmp");
    let written = || -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
        let file = File::create(&temporary)?;
        let mut writer = ArrowWriter::try_new(file, span_schema(), Some(properties))?;
        writer.write(&rows)?;
        let file = writer.into_inner()?;
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        fs::rename(&temporary, &path)?;
        File::open(directory)?.sync_all()?;
        Ok(bytes)
    };
    let bytes = written().map_err(|error| {
        let _ = fs::remove_file(&temporary);
        engine(context())(error)
    })?;
    Ok(Some(SpanFile {
        path,
        generations,
        rows: rows.num_rows() as u64,
        bytes,
        min_start_unix_nano: min,
        max_start_unix_nano: max,
        origins,
    }))
}

/// The rows with each trace's together, traces in the order of their first
/// start, and starts in order within: equal neighbours compress, and a trace
/// is one place to read.
fn by_trace(rows: &RecordBatch) -> Result<RecordBatch, arrow::error::ArrowError> {
    let starts = rows
        .column_by_name(column::START_UNIX_NANO)
        .and_then(|array| array.as_primitive_opt::<Int64Type>());
    let traces = rows
        .column_by_name(column::ASSEMBLED_TRACE_ID)
        .and_then(|array| array.as_fixed_size_binary_opt());
    let (Some(starts), Some(traces)) = (starts, traces) else { return Ok(rows.clone()) };
    let mut first: HashMap<&[u8], i64> = HashMap::new();
    for row in 0..rows.num_rows() {
        let start = starts.value(row);
        let entry = first.entry(trace_of(traces, row)).or_insert(start);
        *entry = start.min(*entry);
    }
    let trace_starts: ArrayRef = Arc::new(
        (0..rows.num_rows())
            .map(|row| first.get(trace_of(traces, row)).copied())
            .collect::<arrow::array::Int64Array>(),
    );
    let sort = |values: ArrayRef| SortColumn { values, options: Some(SortOptions::default()) };
    let order: UInt32Array = lexsort_to_indices(
        &[sort(trace_starts), sort(Arc::new(traces.clone())), sort(Arc::new(starts.clone()))],
        None,
    )?;
    take_record_batch(rows, &order)
}

fn trace_of(traces: &arrow::array::FixedSizeBinaryArray, row: usize) -> &[u8] {
    if traces.is_valid(row) { traces.value(row) } else { &[] }
}

fn properties(metadata: Vec<KeyValue>) -> WriterProperties {
    let path = |name: &str| ColumnPath::from(name);
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3).unwrap_or_default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_created_by("spanwise".to_owned())
        .set_key_value_metadata(Some(metadata));
    // Times grow by little within a trace.
    for name in [column::START_UNIX_NANO, column::DURATION_NANO, column::FRAGMENT_ID] {
        builder = builder
            .set_column_dictionary_enabled(path(name), false)
            .set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    // Ids are random: a dictionary of them is larger than they are.
    for name in [column::SPAN_ID, column::REQUEST_TCP_SEQ, column::RESPONSE_TCP_SEQ] {
        builder = builder.set_column_dictionary_enabled(path(name), false);
    }
    for name in [
        column::ASSEMBLED_TRACE_ID,
        column::TRACE_ID,
        column::SPAN_ID,
        column::FRAGMENT_ID,
        column::REQUEST_TCP_SEQ,
    ] {
        builder = builder.set_column_bloom_filter_enabled(path(name), true);
    }
    builder.build()
}
