//! Writes rows as a Parquet file.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrow::compute::{
    SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch,
};
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use spanwise_model::schema::{column, span_schema};

use super::fault;
use super::files::{DELETIONS, ORIGINS, SpanFile, file_name};
use super::keys::starts;
use super::origins::TakenRanges;
use crate::contract::StoreError;

const ROW_GROUP_ROWS: usize = 64 * 1024;
/// Level 3 packs a tenth better than level 1 at twice its time.
const ZSTD_LEVEL: i32 = 3;

/// What a file says of itself besides its rows.
#[derive(Debug)]
pub(super) struct Notes {
    /// Batches that it holds.
    pub(super) origins: TakenRanges,
    /// The last deletion that it is written without.
    pub(super) deletions: u64,
}

/// Writes the file of these generations; it is there whole or not at all.
/// `None` where there are no rows.
///
/// # Errors
/// Where the file cannot be written; nothing of it stays.
pub(super) fn write(
    directory: &Path,
    generations: (u64, u64),
    batches: &[RecordBatch],
    notes: &Notes,
) -> Result<Option<SpanFile>, StoreError> {
    let path = directory.join(file_name(generations));
    let context = || format!("cannot write {}", path.display());
    let rows = concat_batches(&span_schema(), batches)
        .and_then(|rows| by_trace(&rows))
        .map_err(fault::engine(context()))?;
    if rows.num_rows() == 0 {
        return Ok(None);
    }
    let temporary = path.with_extension("parquet.tmp");
    let written = write_rows(&temporary, &rows, notes)
        .and_then(|()| Ok(fs::rename(&temporary, &path)?))
        .and_then(|()| Ok(File::open(directory)?.sync_all()?));
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(fault::engine(context())(error));
    }
    SpanFile::open(&path).map(Some).map_err(fault::engine(format!(
        "{} cannot be read right after it was written",
        path.display()
    )))
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn write_rows(path: &Path, rows: &RecordBatch, notes: &Notes) -> Result<(), Failure> {
    let origins = KeyValue::new(ORIGINS.to_owned(), serde_json::to_string(&notes.origins)?);
    let deletions = KeyValue::new(DELETIONS.to_owned(), notes.deletions.to_string());
    let file = File::create(path)?;
    let mut writer =
        ArrowWriter::try_new(file, span_schema(), Some(properties(vec![origins, deletions])))?;
    writer.write(rows)?;
    Ok(writer.into_inner()?.sync_all()?)
}

/// The rows with each trace's together, traces in the order of their first
/// start, and starts in order within: neighbours that resemble one another pack
/// well, and a trace is in one place.
fn by_trace(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let traces = rows
        .column_by_name(column::ASSEMBLED_TRACE_ID)
        .and_then(|array| array.as_fixed_size_binary_opt());
    let (Some(starts), Some(traces)) = (starts(rows), traces) else { return Ok(rows.clone()) };
    let mut first: AHashMap<&[u8], i64> = AHashMap::new();
    for row in (0..rows.num_rows()).filter(|row| traces.is_valid(*row)) {
        let start = starts.value(row);
        let entry = first.entry(traces.value(row)).or_insert(start);
        *entry = start.min(*entry);
    }
    // A row of no trace stands by its own start.
    let trace_starts: Int64Array = (0..rows.num_rows())
        .map(|row| Some(first_start(&first, traces, row).unwrap_or_else(|| starts.value(row))))
        .collect();
    let sort = |values: ArrayRef| SortColumn { values, options: Some(SortOptions::default()) };
    let order = lexsort_to_indices(
        &[
            sort(Arc::new(trace_starts)),
            sort(Arc::new(traces.clone())),
            sort(Arc::new(starts.clone())),
        ],
        None,
    )?;
    take_record_batch(rows, &order)
}

fn first_start(
    first: &AHashMap<&[u8], i64>,
    traces: &FixedSizeBinaryArray,
    row: usize,
) -> Option<i64> {
    traces.is_valid(row).then(|| first.get(traces.value(row)).copied()).flatten()
}

fn properties(metadata: Vec<KeyValue>) -> WriterProperties {
    let path = |name: &str| ColumnPath::from(name);
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).unwrap_or_default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by("spanwise".to_owned())
        .set_key_value_metadata(Some(metadata));
    // Pages of other columns are not told apart by their least and greatest.
    builder = builder
        .set_column_statistics_enabled(path(column::START_UNIX_NANO), EnabledStatistics::Page);
    // Times grow by little within a trace.
    for name in [column::START_UNIX_NANO, column::DURATION_NANO] {
        builder = builder
            .set_column_dictionary_enabled(path(name), false)
            .set_column_encoding(path(name), Encoding::DELTA_BINARY_PACKED);
    }
    // Nearly all are distinct: a dictionary of them is larger than they are.
    for name in [column::SPAN_ID, column::REQUEST_TCP_SEQ, column::RESPONSE_TCP_SEQ] {
        builder = builder.set_column_dictionary_enabled(path(name), false);
    }
    for name in [
        column::ASSEMBLED_TRACE_ID,
        column::TRACE_ID,
        column::SPAN_ID,
        column::FRAGMENT_ID,
        column::REQUEST_TCP_SEQ,
        column::X_REQUEST_ID,
    ] {
        builder = builder
            .set_column_bloom_filter_enabled(path(name), true)
            .set_column_bloom_filter_fpp(path(name), 0.01);
    }
    builder.build()
}
