//! Writes rows as a Parquet file, with an index in it.
//!
//! Rows are encoded once, when their generation becomes a file. Files are
//! merged by copying row groups as they are, but for small ones, which become
//! one, and those with deleted rows, which are written anew without them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{FieldRef, Schema};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::KeyValue;
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::writer::SerializedFileWriter;
use spanwise_model::schema::{column, span_schema};

use super::encoding::properties;
use super::files::{DELETIONS, INDEX, ORIGINS, SpanFile, WRITTEN, file_name};
use super::index::{IndexWriter, TraceRun};
use super::origins::TakenRanges;
use super::{fault, gather, keys, order, reader};
use crate::contract::StoreError;

/// Rows of a row group, at most.
const ROW_GROUP_ROWS: usize = 128 * 1024;
/// Row groups of fewer rows are made one with their neighbours in a merge.
pub(super) const SMALL_GROUP_ROWS: usize = 16 * 1024;

/// What a file says of itself besides its rows.
#[derive(Debug, Clone)]
pub(super) struct Notes {
    /// Batches that it holds.
    pub(super) origins: TakenRanges,
    /// The last deletion that it is written without.
    pub(super) deletions: u64,
    /// When its newest rows became a file.
    pub(super) written_unix_nano: i64,
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
    make(directory, generations, notes, |file| file.add(batches))
}

/// Makes one file of the rows of some files, as [`write`] does. Only the rows of
/// small row groups are in memory, as many as make one row group.
///
/// # Errors
/// As [`write`], and where a part cannot be read.
pub(super) fn merge(
    directory: &Path,
    generations: (u64, u64),
    parts: &[Arc<SpanFile>],
    notes: &Notes,
) -> Result<Option<SpanFile>, StoreError> {
    make(directory, generations, notes, |file| file.merge(parts))
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn make(
    directory: &Path,
    generations: (u64, u64),
    notes: &Notes,
    fill: impl FnOnce(&mut FileWriter) -> Result<(), Failure>,
) -> Result<Option<SpanFile>, StoreError> {
    let path = directory.join(file_name(generations));
    let temporary = path.with_extension("parquet.tmp");
    let written = || -> Result<bool, Failure> {
        let mut file = FileWriter::create(&temporary)?;
        fill(&mut file)?;
        if file.rows == 0 {
            fs::remove_file(&temporary)?;
            return Ok(false);
        }
        file.finish(notes)?;
        fs::rename(&temporary, &path)?;
        File::open(directory)?.sync_all()?;
        Ok(true)
    };
    match written() {
        Ok(true) => SpanFile::open(&path).map(Some).map_err(fault::engine(format!(
            "{} cannot be read right after it was written",
            path.display()
        ))),
        Ok(false) => Ok(None),
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            Err(fault::engine(format!("cannot write {}", path.display()))(error))
        }
    }
}

/// A row group of a file.
type Group<'a> = (&'a Arc<SpanFile>, usize);

struct FileWriter {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: ArrowRowGroupWriterFactory,
    index: IndexWriter,
    groups: usize,
    rows: usize,
}

impl FileWriter {
    fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path)?;
        let writer = ArrowWriter::try_new(file, span_schema(), Some(properties()))?;
        let (writer, columns) = writer.into_serialized_writer()?;
        let index = IndexWriter::default();
        Ok(Self { path: path.to_owned(), writer, columns, index, groups: 0, rows: 0 })
    }

    /// Adds rows, encoded and in order.
    fn add(&mut self, batches: &[RecordBatch]) -> Result<(), Failure> {
        let places = order::by_trace(batches)?;
        for places in places.chunks(ROW_GROUP_ROWS) {
            self.add_group(batches, places)?;
        }
        Ok(())
    }

    fn add_group(
        &mut self,
        batches: &[RecordBatch],
        places: &[order::Place],
    ) -> Result<(), Failure> {
        let mut writers = self.columns.create_column_writers(self.groups)?.into_iter();
        let mut chunks = Vec::with_capacity(writers.len());
        let mut keys: Vec<(FieldRef, ArrayRef)> = Vec::new();
        let mut attributes = None;
        for (index, field) in span_schema().fields().iter().enumerate() {
            // Column by column, so that no more than one is there twice.
            let arrays: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(index)).collect();
            let column = gather::column(field, &arrays, places)?;
            for (leaf, mut writer) in compute_leaves(field, &column)?.iter().zip(&mut writers) {
                writer.write(leaf)?;
                chunks.push(writer.close()?);
            }
            if keys::COLUMNS.contains(&field.name().as_str()) {
                keys.push((Arc::clone(field), column));
            } else if field.name() == column::ATTRIBUTES {
                attributes = Some(column);
            }
        }
        let mut group = self.writer.next_row_group()?;
        for chunk in chunks {
            chunk.append_to_row_group(&mut group)?;
        }
        group.close()?;
        let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = keys.into_iter().unzip();
        let keys = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        self.index.add(&keys, attributes.as_ref().and_then(|array| array.as_map_opt()));
        self.groups += 1;
        self.rows += places.len();
        Ok(())
    }

    fn merge(&mut self, parts: &[Arc<SpanFile>]) -> Result<(), Failure> {
        let mut small: Vec<Group<'_>> = Vec::new();
        let mut small_rows = 0;
        for part in parts {
            let traces = part.index.traces(&part.file)?;
            let rows = part.group_rows();
            for (group, rows) in rows.windows(2).enumerate() {
                let count = rows[1] - rows[0];
                // Without an index to copy, one is made from the rows.
                let deleted = part
                    .gone()
                    .is_some_and(|gone| gone.rows.slice(rows[0], count).count_set_bits() > 0);
                let anew = traces.is_none() || deleted;
                if anew || count < SMALL_GROUP_ROWS {
                    small.push((part, group));
                    small_rows += count;
                    if small_rows < ROW_GROUP_ROWS {
                        continue;
                    }
                }
                self.add_groups(std::mem::take(&mut small))?;
                small_rows = 0;
                if let Some(traces) =
                    traces.as_deref().filter(|_| !anew && count >= SMALL_GROUP_ROWS)
                {
                    self.copy_group((part, group), traces)?;
                }
            }
        }
        self.add_groups(small)
    }

    /// Adds the rows of some row groups, encoded anew.
    fn add_groups(&mut self, groups: Vec<Group<'_>>) -> Result<(), Failure> {
        let mut rows = Vec::new();
        for (part, group) in groups {
            rows.extend(reader::read_group(part, group)?);
        }
        self.add(&rows)
    }

    /// Adds a row group as it is.
    fn copy_group(
        &mut self,
        (part, number): Group<'_>,
        traces: &[TraceRun],
    ) -> Result<(), Failure> {
        let metadata = part.metadata.metadata();
        let group = metadata.row_group(number);
        let rows = part.group_rows();
        let rows = rows[number]..rows[number + 1];
        let mut writer = self.writer.next_row_group()?;
        for (place, chunk) in group.columns().iter().enumerate() {
            let of_pages = metadata.column_index().and_then(|all| all.get(number)?.get(place));
            let offsets = metadata.offset_index().and_then(|all| all.get(number)?.get(place));
            let close = ColumnCloseResult {
                bytes_written: u64::try_from(chunk.compressed_size()).unwrap_or(0),
                rows_written: rows.len() as u64,
                metadata: chunk.clone(),
                bloom_filter: None,
                column_index: of_pages
                    .filter(|index| !matches!(index, ColumnIndexMetaData::NONE))
                    .cloned(),
                offset_index: offsets.cloned(),
            };
            writer.append_column(&part.file, close)?;
        }
        writer.close()?;
        self.index.copy(&part.file, &part.index, traces, rows.clone())?;
        self.groups += 1;
        self.rows += rows.len();
        Ok(())
    }

    fn finish(mut self, notes: &Notes) -> Result<(), Failure> {
        let offset = self.writer.bytes_written() as u64;
        let (bytes, index) = self.index.finish(offset);
        self.writer.write_all(&bytes)?;
        for (key, value) in [
            (ORIGINS, serde_json::to_string(&notes.origins)?),
            (DELETIONS, notes.deletions.to_string()),
            (WRITTEN, notes.written_unix_nano.to_string()),
            (INDEX, serde_json::to_string(&index)?),
        ] {
            self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        self.writer.into_inner()?.sync_all()?;
        tracing::debug!(path = %self.path.display(), rows = self.rows, "a file is written");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Key, TimeRange};
    use crate::embedded::index::BLOCK_ROWS;
    use crate::embedded::keys::{KeySet, hash_attribute};
    use spanwise_model::{Capture, Kind, Span, SpanBatch, SpanBatchBuilder, SpanId, TraceId};

    const SECOND: i64 = 1_000_000_000;

    /// Ten spans a trace; the fragment of each is its own number.
    fn span(n: u64) -> Span {
        let id = SpanId::from_u64(n + 1).expect("not zero");
        let start = n as i64 * SECOND;
        let mut span = Span::new(id, Capture::App, Kind::Internal, "service", "o", start, 1);
        span.assembled_trace_id = Some(trace(n / 10));
        span.trace_id = n.is_multiple_of(20).then(|| trace(n + (1 << 40)));
        span.fragment_id = n.is_multiple_of(2).then_some(n);
        span.attributes = vec![("n".to_owned(), n.to_string().into())];
        span
    }

    fn trace(n: u64) -> TraceId {
        let mut bytes = [1; 16];
        bytes[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
        TraceId(bytes)
    }

    fn notes() -> Notes {
        Notes { origins: TakenRanges::new(), deletions: 0, written_unix_nano: 5 }
    }

    fn file(directory: &Path, generation: u64, rows: std::ops::Range<u64>) -> Arc<SpanFile> {
        let mut builder = SpanBatchBuilder::new();
        rows.for_each(|n| builder.push(&span(n)));
        let batch = builder.finish().expect("a batch");
        let file = write(directory, (generation, generation), &[batch], &notes()).expect("written");
        Arc::new(file.expect("rows"))
    }

    fn found(file: &SpanFile, keys: &[Key], time: TimeRange) -> Vec<Span> {
        let batches = reader::find_by_keys(file, &KeySet::new(keys), time).expect("read");
        let spans = |batch| {
            let batch = SpanBatch::try_from(batch).expect("spans");
            batch.spans().map(|span| span.expect("a span")).collect::<Vec<_>>()
        };
        let mut found: Vec<Span> = batches.into_iter().flat_map(spans).collect();
        found.sort_by_key(|span| span.span_id);
        found
    }

    #[test]
    fn row_groups_are_copied_made_one_or_written_anew_and_hold_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let large = SMALL_GROUP_ROWS as u64 + 1000;
        let ends = [0, large, large + 100, large + 300, 2 * large + 300, 3 * large + 300];
        let parts: Vec<Arc<SpanFile>> = (1..)
            .zip(ends.windows(2))
            .map(|(generation, ends)| file(directory.path(), generation, ends[0]..ends[1]))
            .collect();
        // The last but one loses its first thousand rows.
        let first_kept = ends[3] + 1000;
        let gone = arrow::buffer::BooleanBuffer::collect_bool(large as usize, |row| row < 1000);
        assert_eq!(parts[3].remove_rows(gone), 1000);
        let merged = merge(directory.path(), (1, 5), &parts, &notes()).expect("merged");
        let merged = merged.expect("rows");
        assert_eq!(merged.rows, ends[5] - 1000);
        assert_eq!(merged.group_rows().len() - 1, 3, "two copied, three made one");
        let blocks = &merged.index.blocks;
        assert!(blocks.iter().all(|block| block.rows <= BLOCK_ROWS));
        assert_eq!(
            (merged.starts, merged.written_unix_nano),
            ((0, (ends[5] as i64 - 1) * SECOND), 5)
        );
        for n in (0..ends[5]).step_by(997).chain([0, ends[1], ends[2] - 1, ends[5] - 1]) {
            let there = |n: &u64| !(ends[3]..first_kept).contains(n);
            let wanted = |numbers: &mut dyn Iterator<Item = u64>| {
                numbers.filter(there).filter(|n| *n < ends[5]).map(span).collect::<Vec<_>>()
            };
            let all = TimeRange::ALL;
            let of_trace = found(&merged, &[Key::AssembledTrace(trace(n / 10))], all);
            let first = n / 10 * 10;
            assert_eq!(of_trace, wanted(&mut (first..first + 10)), "trace {}", n / 10);
            assert_eq!(found(&merged, &[Key::Span(span(n).span_id)], all), wanted(&mut (n..=n)));
            let fragments: Vec<Key> = (first..first + 10).map(Key::Fragment).collect();
            let even = &mut (first..first + 10).filter(|n| n % 2 == 0);
            assert_eq!(found(&merged, &fragments, all), wanted(even), "fragments from {first}");
            let before = TimeRange { from_unix_nano: 0, to_unix_nano: n as i64 * SECOND };
            assert_eq!(found(&merged, &[Key::Span(span(n).span_id)], before), []);
            let header = Key::Trace(trace(first / 20 * 20 + (1 << 40)));
            assert_eq!(
                found(&merged, &[header], all),
                wanted(&mut std::iter::once(first / 20 * 20))
            );
            // Nearly all blocks are left out where an attribute is looked for.
            let all: Vec<_> = blocks.iter().map(|b| b.first_row..b.first_row + b.rows).collect();
            let hash = hash_attribute("n", &n.to_string());
            let left = merged.rows_that_may_have(&all, hash).expect("read");
            assert!(left.len() <= 6, "{} of {} blocks", left.len(), all.len());
            assert!(!left.is_empty() || !there(&n));
        }
    }
}
