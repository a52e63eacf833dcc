//! Rows that are not yet in files: batches in memory, with the assembled
//! columns beside them and an index by key.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use ahash::{AHashMap, RandomState};
use arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeBinaryBuilder,
    Float32Builder, RecordBatch, StringArray, StringDictionaryBuilder, UInt32Array,
};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{Float32Type, Int32Type};
use arrow::error::ArrowError;
use spanwise_model::Assembled;
use spanwise_model::schema::column;

use super::keys::{KeySet, each_key, hash_key, overlaps, starts};
use super::origins::{TakenRanges, ranges_of};
use super::record::Record;
use crate::contract::{Key, Origin, TimeRange, Unsettled};

/// Batches of fewer rows are copied to memory of their own.
const LARGE_BATCH_ROWS: usize = 1024;

/// Keys that a row may have: one of each kind.
const KEYS_PER_ROW: u64 = 6;
/// Memory of one key in the index, with the room that its tables keep to grow.
const INDEX_ENTRY_BYTES: u64 = 64;

/// A batch as a reader sees it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) rows: RecordBatch,
    /// Least and greatest start; the wrong way round where there are no rows.
    pub(super) starts: (i64, i64),
}

/// A batch in memory.
struct Chunk {
    number: u64,
    origin: Option<Origin>,
    /// As it came.
    raw: RecordBatch,
    starts: (i64, i64),
    assembled: Vec<Option<Assembled>>,
    assembled_rows: usize,
    /// With the assembled columns; made anew after they change.
    view: Option<Arc<View>>,
}

impl Chunk {
    fn new(record: Record) -> Self {
        let rows = record.rows.num_rows();
        let starts = starts(&record.rows).map_or(&[] as &[i64], |starts| starts.values());
        let least = starts.iter().copied().min().unwrap_or(i64::MAX);
        let most = starts.iter().copied().max().unwrap_or(i64::MIN);
        Self {
            number: record.batch,
            origin: record.origin,
            starts: (least, most),
            assembled: vec![None; rows],
            assembled_rows: 0,
            view: None,
            raw: record.rows,
        }
    }

    fn is_settled(&self) -> bool {
        self.assembled_rows == self.assembled.len()
    }

    fn view(&mut self) -> Result<Arc<View>, ArrowError> {
        if let Some(view) = &self.view {
            return Ok(Arc::clone(view));
        }
        let rows = with_assembled(&self.raw, &self.assembled)?;
        let view = Arc::new(View { rows, starts: self.starts });
        self.view = Some(Arc::clone(&view));
        Ok(view)
    }
}

/// Rows by the hash of a key: a list through `entries` for each hash.
#[derive(Default)]
struct Index {
    heads: AHashMap<u64, u32>,
    entries: Vec<Entry>,
}

struct Entry {
    chunk: u32,
    row: u32,
    next: u32,
}

const END: u32 = u32::MAX;

impl Index {
    fn add(&mut self, hash: u64, chunk: u32, row: u32) {
        // Four thousand million keys would need far more memory than is given.
        let Ok(at) = u32::try_from(self.entries.len()) else { return };
        let next = self.heads.insert(hash, at).unwrap_or(END);
        self.entries.push(Entry { chunk, row, next });
    }

    fn get(&self, hash: u64) -> impl Iterator<Item = (u32, u32)> {
        let mut at = self.heads.get(&hash).copied().unwrap_or(END);
        std::iter::from_fn(move || {
            let entry = self.entries.get(at as usize)?;
            at = entry.next;
            Some((entry.chunk, entry.row))
        })
    }
}

/// The rows of one segment of the log.
pub(super) struct Generation {
    chunks: Vec<Chunk>,
    index: Index,
    rows: u64,
    chunk_bytes: u64,
    /// Bytes in the log.
    pub(super) log_bytes: u64,
    pub(super) opened: Instant,
    pub(super) closed: Option<Instant>,
}

impl Generation {
    fn new() -> Self {
        Self {
            chunks: Vec::new(),
            index: Index::default(),
            rows: 0,
            chunk_bytes: 0,
            log_bytes: 0,
            opened: Instant::now(),
            closed: None,
        }
    }

    /// Whether every row has been assembled.
    pub(super) fn is_settled(&self) -> bool {
        self.chunks.iter().all(Chunk::is_settled)
    }

    /// Memory that it takes.
    pub(super) fn bytes(&self) -> u64 {
        let expected = self.rows.saturating_mul(KEYS_PER_ROW);
        let further = (self.index.entries.len() as u64).saturating_sub(expected);
        self.chunk_bytes + further * INDEX_ENTRY_BYTES
    }
}

/// All rows in memory.
pub(super) struct Recent {
    generations: BTreeMap<u64, Generation>,
    /// Which generation and position a batch has.
    places: HashMap<u64, (u64, usize)>,
    hasher: RandomState,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { generations: BTreeMap::new(), places: HashMap::new(), hasher: RandomState::new() }
    }

    /// Adds a durable record.
    pub(super) fn add(&mut self, record: Record, log_bytes: u64, generation: u64) {
        let target = self.generations.entry(generation).or_insert_with(Generation::new);
        let position = target.chunks.len();
        self.places.insert(record.batch, (generation, position));
        let index = &mut target.index;
        each_key(&self.hasher, &record.rows, |hash, row| index.add(hash, position as u32, row));
        target.rows += record.rows.num_rows() as u64;
        target.chunk_bytes += batch_bytes(&record.rows);
        target.log_bytes += log_bytes;
        target.chunks.push(Chunk::new(record));
    }

    pub(super) fn annotate(&mut self, rows: &[Assembled]) {
        for result in rows {
            let Some(&(generation, position)) = self.places.get(&result.row.batch) else {
                continue;
            };
            let Some(generation) = self.generations.get_mut(&generation) else { continue };
            let chunk = &mut generation.chunks[position];
            let Some(slot) = chunk.assembled.get_mut(result.row.row as usize) else { continue };
            chunk.assembled_rows += usize::from(slot.is_none());
            if slot.is_none_or(|before| before.trace_id != result.trace_id) {
                let hash = hash_key(&self.hasher, &Key::AssembledTrace(result.trace_id));
                generation.index.add(hash, position as u32, result.row.row);
            }
            *slot = Some(*result);
            chunk.view = None;
        }
    }

    /// Marks every generation before `open` as closed.
    pub(super) fn close_before(&mut self, open: u64) {
        for generation in self.generations.range_mut(..open).map(|(_, generation)| generation) {
            generation.closed.get_or_insert_with(Instant::now);
        }
    }

    /// The newest generation, where it is not closed.
    pub(super) fn open_generation(&self) -> Option<&Generation> {
        self.generations.values().next_back().filter(|generation| generation.closed.is_none())
    }

    /// The numbers of all generations, in order.
    pub(super) fn generations(&self) -> impl Iterator<Item = u64> {
        self.generations.keys().copied()
    }

    /// The oldest generation. Files are written in this order only, so that
    /// the generations of all files come before those of the log.
    pub(super) fn oldest(&self) -> Option<(u64, &Generation)> {
        self.generations.first_key_value().map(|(number, generation)| (*number, generation))
    }

    /// Everything that a file of the generation is to hold.
    pub(super) fn contents(
        &mut self,
        generation: u64,
    ) -> Result<(Vec<Arc<View>>, TakenRanges), ArrowError> {
        let Some(generation) = self.generations.get_mut(&generation) else {
            return Ok((Vec::new(), TakenRanges::new()));
        };
        let origins = ranges_of(generation.chunks.iter().filter_map(|chunk| chunk.origin));
        let views = generation.chunks.iter_mut().map(Chunk::view).collect::<Result<_, _>>()?;
        Ok((views, origins))
    }

    pub(super) fn remove(&mut self, generation: u64) {
        let Some(gone) = self.generations.remove(&generation) else { return };
        for chunk in &gone.chunks {
            self.places.remove(&chunk.number);
        }
    }

    /// All batches that may have rows in the range.
    pub(super) fn snapshot(&mut self, time: TimeRange) -> Result<Vec<Arc<View>>, ArrowError> {
        let chunks = self.generations.values_mut().flat_map(|generation| &mut generation.chunks);
        chunks.filter(|chunk| overlaps(chunk.starts, time)).map(Chunk::view).collect()
    }

    pub(super) fn unsettled(&self) -> Vec<Unsettled> {
        let chunks = self.generations.values().flat_map(|generation| &generation.chunks);
        chunks
            .filter(|chunk| !chunk.is_settled())
            .map(|chunk| Unsettled { batch: chunk.number, rows: chunk.raw.clone() })
            .collect()
    }

    /// Rows that have any of the keys and start in the range.
    pub(super) fn find(
        &mut self,
        keys: &[Key],
        set: &KeySet,
        time: TimeRange,
    ) -> Result<Vec<RecordBatch>, ArrowError> {
        let hashes: Vec<u64> = keys.iter().map(|key| hash_key(&self.hasher, key)).collect();
        let mut found = Vec::new();
        for generation in self.generations.values_mut() {
            let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for (chunk, row) in hashes.iter().flat_map(|&hash| generation.index.get(hash)) {
                rows.entry(chunk).or_default().push(row);
            }
            for (position, mut rows) in rows {
                rows.sort_unstable();
                rows.dedup();
                let view = generation.chunks[position as usize].view()?;
                let taken = take_record_batch(&view.rows, &UInt32Array::from(rows))?;
                // Hashes collide, and a former trace id is still in the index.
                let taken = filter_record_batch(&taken, &set.mask(&taken, time))?;
                if taken.num_rows() > 0 {
                    found.push(taken);
                }
            }
        }
        Ok(found)
    }

    pub(super) fn rows(&self) -> u64 {
        self.generations.values().map(|generation| generation.rows).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.generations.values().map(Generation::bytes).sum()
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.generations.values().map(|generation| generation.log_bytes).sum()
    }

    pub(super) fn oldest_start(&self) -> Option<i64> {
        let chunks = self.generations.values().flat_map(|generation| &generation.chunks);
        chunks.map(|chunk| chunk.starts.0).min().filter(|start| *start < i64::MAX)
    }
}

fn with_assembled(
    raw: &RecordBatch,
    assembled: &[Option<Assembled>],
) -> Result<RecordBatch, ArrowError> {
    if assembled.iter().all(Option::is_none) {
        return Ok(raw.clone());
    }
    let mut trace = FixedSizeBinaryBuilder::with_capacity(assembled.len(), 16);
    let mut parent = FixedSizeBinaryBuilder::with_capacity(assembled.len(), 8);
    let mut evidence = StringDictionaryBuilder::<Int32Type>::new();
    let mut confidence = Float32Builder::with_capacity(assembled.len());
    let raw_trace = raw.column_by_name(column::ASSEMBLED_TRACE_ID);
    let raw_trace = raw_trace.and_then(|array| array.as_fixed_size_binary_opt());
    let raw_parent = raw.column_by_name(column::ASSEMBLED_PARENT);
    let raw_parent = raw_parent.and_then(|array| array.as_fixed_size_binary_opt());
    let raw_evidence = raw.column_by_name(column::EVIDENCE);
    let raw_evidence = raw_evidence
        .and_then(|array| array.as_dictionary_opt::<Int32Type>())
        .and_then(|array| array.downcast_dict::<StringArray>());
    let raw_confidence = raw.column_by_name(column::CONFIDENCE);
    let raw_confidence = raw_confidence.and_then(|array| array.as_primitive_opt::<Float32Type>());
    for (row, result) in assembled.iter().enumerate() {
        if let Some(result) = result {
            trace.append_value(result.trace_id.0)?;
            match result.parent {
                Some(id) => parent.append_value(id.0)?,
                None => parent.append_null(),
            }
            evidence.append_option(result.evidence.map(|evidence| evidence.as_str()));
            confidence.append_option(result.confidence);
        } else {
            // What the sender said holds until assembly has spoken.
            append_id(&mut trace, raw_trace, row)?;
            append_id(&mut parent, raw_parent, row)?;
            let words = raw_evidence.filter(|array| array.is_valid(row));
            evidence.append_option(words.map(|array| array.value(row)));
            let numbers = raw_confidence.filter(|array| array.is_valid(row));
            confidence.append_option(numbers.map(|array| array.value(row)));
        }
    }
    let mut columns = raw.columns().to_vec();
    let mut replace = |name: &str, array: ArrayRef| -> Result<(), ArrowError> {
        columns[raw.schema_ref().index_of(name)?] = array;
        Ok(())
    };
    replace(column::ASSEMBLED_TRACE_ID, Arc::new(trace.finish()))?;
    replace(column::ASSEMBLED_PARENT, Arc::new(parent.finish()))?;
    replace(column::EVIDENCE, Arc::new(evidence.finish()))?;
    replace(column::CONFIDENCE, Arc::new(confidence.finish()))?;
    RecordBatch::try_new(raw.schema(), columns)
}

fn append_id(
    builder: &mut FixedSizeBinaryBuilder,
    raw: Option<&FixedSizeBinaryArray>,
    row: usize,
) -> Result<(), ArrowError> {
    match raw.filter(|array| array.is_valid(row)) {
        Some(array) => builder.append_value(array.value(row)),
        None => {
            builder.append_null();
            Ok(())
        }
    }
}

/// Memory that a batch takes, with the assembled columns to come and its part
/// of the index. Columns that were read from one buffer share it, so only their
/// own part of it counts.
pub(super) fn batch_bytes(batch: &RecordBatch) -> u64 {
    let columns = batch.columns().iter();
    let bytes: usize =
        columns.map(|array| array.to_data().get_slice_memory_size().unwrap_or(0)).sum();
    let assembled = batch.num_rows() * (size_of::<Option<Assembled>>() + 32);
    // A batch of one row still has all its columns' arrays.
    let arrays = batch.num_columns() * 256;
    (bytes + assembled + arrays) as u64 + batch.num_rows() as u64 * KEYS_PER_ROW * INDEX_ENTRY_BYTES
}

/// A small batch on memory of its own size. What it came on is shared with much
/// else, or was made for many more rows, and would be kept for a few of them.
pub(super) fn compact(batch: RecordBatch) -> RecordBatch {
    let rows = batch.num_rows();
    if rows >= LARGE_BATCH_ROWS {
        return batch;
    }
    let all = UInt32Array::from_iter_values(0..rows as u32);
    take_record_batch(&batch, &all).unwrap_or(batch)
}
