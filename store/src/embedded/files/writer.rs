//! Writes rows as a Parquet file with an index.
//!
//! Rows are encoded once, when their generation becomes a file. Merging copies row groups
//! unchanged, except for small ones, which are combined, and those with deleted rows, which are
//! encoded again without them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::AsArray as _;
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use parquet::file::metadata::KeyValue;
use spanwise_model::SpanRows;
use spanwise_model::absent::has_values;
use spanwise_model::schema::column;

use super::gather::Gathered;
use super::index::IndexWriter;
use super::layout::{self, Layout, Own, OwnEncoders, Packed, Plan, Rows, file_column};
use super::parquet_writer::{Failure, ParquetWriter, Part};
use super::shape_file::directory_of;
use super::{
    DELETIONS, INDEX, MAPPED, OLDEST, ORIGINS, SCATTERED, SHAPES, SpanFile, WRITTEN, file_name,
};
use super::{encoding, order, reader};
use crate::contract::StoreError;
use crate::embedded::duplicates::origins::TakenRanges;
use crate::embedded::{fault, keys, private};

/// Maximum rows of a row group.
pub(crate) const ROW_GROUP_ROWS: usize = 128 * 1024;
/// A merge combines row groups with fewer rows than this.
pub(crate) const SMALL_GROUP_ROWS: usize = 16 * 1024;

/// A file names keys of some kind where they are so many bytes at most.
const MAX_NOTED_BYTES: usize = 64 << 10;

/// Metadata of a file.
#[derive(Debug, Clone)]
pub(crate) struct Notes {
    /// Origins of its batches.
    pub(crate) origins: TakenRanges,
    /// The last deletion that is applied.
    pub(crate) deletions: u64,
    /// The time at which its newest rows became a file.
    pub(crate) written_unix_nano: i64,
}

/// Writes the file of these generations atomically. Returns `None` if there are no rows.
///
/// # Errors
/// If the file cannot be written. Nothing of it remains then.
pub(crate) fn write(
    directory: &Path,
    generations: (u64, u64),
    rows: &[SpanRows],
    notes: &Notes,
) -> Result<Option<SpanFile>, StoreError> {
    let sorted = || -> Result<_, ArrowError> {
        let rows = Rows::new(rows)?;
        let places = order::by_trace(&rows.batches)?;
        Ok((rows, places))
    };
    let (mut rows, places) = sorted().map_err(fault::engine("cannot read rows in memory"))?;
    let plan = Plan::new(&rows, &places, None);
    rows.give_to_shapes(&plan);
    let has = |name: &str| match name {
        file_column::PARENT_ROW_OFFSET | file_column::ASSEMBLED_PARENT_ROW_OFFSET => true,
        name => rows.batches.iter().filter_map(|batch| batch.column_by_name(name)).any(|a| {
            // Attributes without their own column are in the map.
            name == column::ATTRIBUTES || has_values(a)
        }),
    };
    let layout = Layout::new(plan.own.clone(), plan.shaped.clone(), has);
    make(directory, generations, (layout, &plan.distinct), notes, |file| file.add(&rows, &places))
}

/// Merges files into one, like [`write`]. Only rows of small row groups are in memory, up to one
/// full row group.
///
/// # Errors
/// The errors of [`write`], and if a part cannot be read.
pub(crate) fn merge(
    directory: &Path,
    generations: (u64, u64),
    parts: &[Arc<SpanFile>],
    notes: &Notes,
) -> Result<Option<SpanFile>, StoreError> {
    let layout = Layout::union(parts.iter().map(|part| &part.layout));
    make(directory, generations, (layout, &[]), notes, |file| file.merge(parts))
}

fn make(
    directory: &Path,
    generations: (u64, u64),
    (layout, distinct): (Layout, &[Own]),
    notes: &Notes,
    fill: impl FnOnce(&mut FileWriter) -> Result<(), Failure>,
) -> Result<Option<SpanFile>, StoreError> {
    let path = directory.join(file_name(generations));
    let temporary = path.with_extension("parquet.tmp");
    let shapes = directory_of(directory);
    let shapes = shapes.join(shapes_name(generations));
    let written = || -> Result<bool, Failure> {
        let mut file = FileWriter::create(&temporary, &shapes, layout, distinct)?;
        fill(&mut file)?;
        if file.rows == 0 {
            fs::remove_file(&temporary)?;
            fs::remove_file(&shapes)?;
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
            let _ = fs::remove_file(&shapes);
            Err(fault::engine(format!("cannot write {}", path.display()))(error))
        }
    }
}

/// A unique name for a shapes file.
fn shapes_name(generations: (u64, u64)) -> String {
    let unique = RandomState::new().build_hasher().finish();
    let name = file_name(generations);
    format!("{}.{unique:016x}.parquet", name.trim_end_matches(".parquet"))
}

/// A row group of a file.
type Group<'a> = (&'a Arc<SpanFile>, usize);

/// Keys that a file says it has; `None` where they are too many to say.
struct NotedKeys(Option<BTreeSet<String>>);

impl Default for NotedKeys {
    fn default() -> Self {
        Self(Some(BTreeSet::new()))
    }
}

impl NotedKeys {
    /// Some rows have these, or any.
    fn add<K: AsRef<str>>(&mut self, keys: Option<impl IntoIterator<Item = K>>) {
        self.0 = match (self.0.take(), keys) {
            (Some(mut noted), Some(keys)) => {
                for key in keys {
                    if !noted.contains(key.as_ref()) {
                        noted.insert(key.as_ref().to_owned());
                    }
                }
                let bytes: usize = noted.iter().map(String::len).sum();
                (bytes <= MAX_NOTED_BYTES).then_some(noted)
            }
            _ => None,
        };
    }
}

struct FileWriter {
    path: PathBuf,
    shapes_path: PathBuf,
    layout: Layout,
    spans: ParquetWriter,
    shapes: ParquetWriter,
    index: IndexWriter,
    /// Keys of the attributes in its map.
    mapped: NotedKeys,
    /// Keys of which lists, events or links have values.
    scattered: NotedKeys,
    rows: usize,
    /// The earliest plausible start.
    oldest_unix_nano: Option<i64>,
}

impl FileWriter {
    fn create(
        path: &Path,
        shapes_path: &Path,
        layout: Layout,
        distinct: &[Own],
    ) -> Result<Self, Failure> {
        if let Some(directory) = shapes_path.parent() {
            private::create_directory(directory)?;
        }
        let spans =
            ParquetWriter::create(path, &layout.schema, encoding::of_spans(&layout, distinct))?;
        let shapes =
            ParquetWriter::create(shapes_path, &layout.shapes_schema, encoding::of_shapes())?;
        let (path, shapes_path) = (path.to_owned(), shapes_path.to_owned());
        Ok(Self {
            path,
            shapes_path,
            layout,
            spans,
            shapes,
            index: IndexWriter::default(),
            mapped: NotedKeys::default(),
            scattered: NotedKeys::default(),
            rows: 0,
            oldest_unix_nano: None,
        })
    }

    /// Encodes and adds rows in this order.
    fn add(&mut self, rows: &Rows<'_>, places: &[order::RowPlace]) -> Result<(), Failure> {
        self.scattered.add(Some(rows.scattered_keys()));
        for places in places.chunks(ROW_GROUP_ROWS) {
            self.add_group(rows, places)?;
        }
        Ok(())
    }

    fn add_group(&mut self, rows: &Rows<'_>, places: &[order::RowPlace]) -> Result<(), Failure> {
        let mut gathered = Gathered::new(&rows.batches, places);
        let Packed { columns: mut packed, follows } = layout::pack(&mut gathered, rows, places)?;
        let mut own = OwnEncoders {
            rows: self.spans.last_encoders(self.layout.own.len()),
            shapes: self.shapes.last_encoders(self.layout.shaped.len()),
        };
        let durations = gathered.column(column::DURATION_NANO)?;
        let durations = durations.as_primitive::<Int64Type>().values();
        let columns = rows.columns(&self.layout, places, &follows, durations, &mut own)?;
        packed.insert(file_column::SHAPE, columns.numbers);
        packed.insert(column::ATTRIBUTES, columns.rest);
        self.mapped.add(Some(columns.rest_keys.iter().map(String::as_str)));
        let offset = self.spans.writer.bytes_written() as u64;
        let ribbon = self.index.add(offset, &gathered.batch(&keys::COLUMNS)?, &columns.hashes);
        self.spans.writer.write_all(&ribbon)?;

        self.spans.add(own.rows, |_, field| match packed.remove(field.name().as_str()) {
            Some(column) => Ok(column),
            None => Ok(gathered.column(field.name())?),
        })?;
        self.shapes.add(own.shapes, |place, _| Ok(Arc::clone(&columns.shapes[place])))?;
        self.rows += places.len();
        let starts = gathered.column(column::START_UNIX_NANO)?;
        let starts = starts.as_primitive::<Int64Type>().values();
        self.reaches_back_to(keys::oldest(starts));
        Ok(())
    }

    fn reaches_back_to(&mut self, unix_nano: Option<i64>) {
        self.oldest_unix_nano = self.oldest_unix_nano.into_iter().chain(unix_nano).min();
    }

    fn merge(&mut self, parts: &[Arc<SpanFile>]) -> Result<(), Failure> {
        let mut small: Vec<Group<'_>> = Vec::new();
        let mut small_rows = 0;
        for part in parts {
            let traces = part.index.traces(&part.file)?;
            let rows = part.group_rows();
            let fits = self.layout.has_all_of(&part.layout);
            // For each copied row group, its first row in this file.
            let mut copied: Vec<Option<usize>> = vec![None; rows.len()];
            for (group, rows) in rows.windows(2).enumerate() {
                let count = rows[1] - rows[0];
                // If there is no index to copy, it is made from the rows.
                let deleted = part
                    .gone()
                    .is_some_and(|gone| gone.rows.slice(rows[0], count).count_set_bits() > 0);
                let is_copied = traces.is_some() && !deleted && fits && count >= SMALL_GROUP_ROWS;
                let ribbon = match is_copied {
                    true => part.index.ribbon(&part.file, group)?,
                    false => None,
                };
                if ribbon.is_none() {
                    small.push((part, group));
                    small_rows += count;
                    if small_rows < ROW_GROUP_ROWS {
                        continue;
                    }
                }
                self.add_groups(std::mem::take(&mut small))?;
                small_rows = 0;
                if let Some(ribbon) = ribbon {
                    copied[group] = Some(self.rows);
                    self.copy_group((part, group), &ribbon)?;
                }
            }
            self.index.copy_traces(traces.as_deref().unwrap_or_default(), |row| {
                let group = rows.partition_point(|first| *first <= row).checked_sub(1)?;
                Some(copied[group]? + row - rows[group])
            });
        }
        self.add_groups(small)
    }

    /// Encodes the rows of some row groups again and adds them.
    fn add_groups(&mut self, groups: Vec<Group<'_>>) -> Result<(), Failure> {
        let mut batches: Vec<SpanRows> = Vec::new();
        for (part, group) in groups {
            batches.extend(reader::read_group(part, group)?.into_iter().map(SpanRows::from));
        }
        let mut rows = Rows::new(&batches)?;
        let places = order::by_trace(&rows.batches)?;
        let plan = Plan::new(&rows, &places, Some(&self.layout));
        rows.give_to_shapes(&plan);
        self.add(&rows, &places)
    }

    /// Copies a row group without its traces.
    fn copy_group(&mut self, (part, group): Group<'_>, ribbon: &[u8]) -> Result<(), Failure> {
        self.index.copy(self.spans.writer.bytes_written() as u64, &part.index, group);
        self.spans.writer.write_all(ribbon)?;
        self.spans.copy(&Part { file: &part.file, metadata: &part.metadata, group })?;
        let shapes = &part.shapes;
        self.shapes.copy(&Part { file: &shapes.file, metadata: &shapes.metadata, group })?;
        self.mapped.add(part.mapped.as_deref());
        self.scattered.add(part.scattered.as_deref());
        let rows = part.group_rows();
        self.rows += rows[group + 1] - rows[group];
        self.reaches_back_to(part.oldest_unix_nano);
        Ok(())
    }

    fn finish(mut self, notes: &Notes) -> Result<(), Failure> {
        // The file that refers to the shapes must not exist before they are durable.
        self.shapes.writer.into_inner()?.sync_all()?;
        if let Some(directory) = self.shapes_path.parent() {
            File::open(directory)?.sync_all()?;
        }
        let name = self.shapes_path.file_name().and_then(|name| name.to_str());
        let writer = &mut self.spans.writer;
        let offset = writer.bytes_written() as u64;
        let (bytes, index) = self.index.finish(offset);
        writer.write_all(&bytes)?;
        for (name, NotedKeys(keys)) in [(MAPPED, &self.mapped), (SCATTERED, &self.scattered)] {
            if let Some(keys) = keys {
                let keys = serde_json::to_string(keys)?;
                writer.append_key_value_metadata(KeyValue::new(name.to_owned(), keys));
            }
        }
        if let Some(oldest) = self.oldest_unix_nano {
            writer.append_key_value_metadata(KeyValue::new(OLDEST.to_owned(), oldest.to_string()));
        }
        for (key, value) in [
            (ORIGINS, serde_json::to_string(&notes.origins)?),
            (DELETIONS, notes.deletions.to_string()),
            (WRITTEN, notes.written_unix_nano.to_string()),
            (INDEX, serde_json::to_string(&index)?),
            (SHAPES, name.unwrap_or_default().to_owned()),
        ] {
            writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
        }
        self.spans.writer.into_inner()?.sync_all()?;
        tracing::debug!(path = %self.path.display(), rows = self.rows, "a file is written");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Key, TimeRange};
    use crate::embedded::files::index::{BLOCK_ROWS, Block};
    use crate::embedded::keys::{KeySet, hash_attribute};
    use spanwise_model::{Capture, Kind, Span, SpanBatch, SpanBatchBuilder, SpanId, TraceId};

    const SECOND: i64 = 1_000_000_000;

    /// Ten spans in each trace. The fragment of each is its own number.
    fn span(n: u64) -> Span {
        let id = SpanId::from_u64(n + 1).expect("not zero");
        let start = n as i64 * SECOND;
        let mut span = Span::new(id, Capture::App, Kind::Internal, "service", "o", start, 1);
        span.assembled_trace_id = Some(trace(n / 10));
        span.trace_id = n.is_multiple_of(20).then(|| trace(n + (1 << 40)));
        span.fragment_id = n.is_multiple_of(2).then_some(n);
        // Only some files have a column for this attribute.
        span.attributes.extend((n > 40_000).then(|| ("m".to_owned(), (n as i64).into())));
        span.attributes.push(("n".to_owned(), n.to_string().into()));
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
        let file =
            write(directory, (generation, generation), &[batch.into()], &notes()).expect("written");
        Arc::new(file.expect("rows"))
    }

    fn found(file: &SpanFile, keys: &[Key], time: TimeRange) -> Vec<Span> {
        let batches = reader::find_by_keys(file, &KeySet::new(keys), time, None).expect("read");
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
        // The second to last file loses its first thousand rows.
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
            // The index rules out nearly all blocks for an attribute.
            let hash = hash_attribute("n", &n.to_string());
            let blocks_with =
                |block: &Block| merged.blocks_with_all(block.group, &[hash]).expect("read");
            let may = |block: &Block| blocks_with(block) >> block.number & 1 == 1;
            let left = blocks.iter().filter(|block| may(block)).count();
            assert!(left <= 4, "{left} of {} blocks", blocks.len());
            assert!(left > 0 || !there(&n));
        }
    }
}
