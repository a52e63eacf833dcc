//! Rows that are not yet in files: batches in memory, with the assembled
//! columns beside them and an index by key.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use ahash::{AHashMap, RandomState};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryBuilder, Float32Builder, RecordBatch,
    StringDictionaryBuilder, UInt32Array,
};
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow::error::ArrowError;
use spanwise_model::Assembled;
use spanwise_model::schema::column;

use super::record::Record;
use crate::contract::{Key, TimeRange, Unsettled};

/// A batch in memory.
struct Chunk {
    number: u64,
    /// As it came.
    raw: RecordBatch,
    assembled: Vec<Option<Assembled>>,
    assembled_rows: usize,
    /// With the assembled columns; made anew after they change.
    current: Option<RecordBatch>,
}

/// The rows of one segment of the log.
pub(super) struct Generation {
    chunks: Vec<Chunk>,
    bytes: u64,
    pub(super) log_bytes: u64,
    pub(super) opened: Instant,
    pub(super) closed: Option<Instant>,
    index: AHashMap<u64, Vec<(u32, u32)>>,
}

impl Generation {
    fn new() -> Self {
        Self {
            chunks: Vec::new(),
            bytes: 0,
            log_bytes: 0,
            opened: Instant::now(),
            closed: None,
            index: AHashMap::new(),
        }
    }

    /// Whether every row has been assembled.
    pub(super) fn settled(&self) -> bool {
        self.chunks.iter().all(|chunk| chunk.assembled_rows == chunk.raw.num_rows())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

/// All rows in memory.
pub(super) struct Recent {
    generations: BTreeMap<u64, Generation>,
    /// Which generation and position a batch has.
    places: HashMap<u64, (u64, usize)>,
    hasher: RandomState,
    pub(super) bytes: u64,
    pub(super) rows: u64,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self {
            generations: BTreeMap::new(),
            places: HashMap::new(),
            hasher: RandomState::new(),
            bytes: 0,
            rows: 0,
        }
    }

    pub(super) fn add(&mut self, record: Record, log_bytes: u64, generation: u64) {
        let bytes = batch_bytes(&record.rows);
        let rows = record.rows.num_rows();
        let target = self.generations.entry(generation).or_insert_with(Generation::new);
        let position = target.chunks.len();
        self.places.insert(record.batch, (generation, position));
        target.chunks.push(Chunk {
            number: record.batch,
            current: None,
            assembled: vec![None; rows],
            assembled_rows: 0,
            raw: record.rows,
        });
        index_chunk(&self.hasher, target, position);
        target.bytes += bytes;
        target.log_bytes += log_bytes;
        self.bytes += bytes;
        self.rows += rows as u64;
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
                let place = (position as u32, result.row.row);
                generation.index.entry(hash).or_default().push(place);
            }
            *slot = Some(*result);
            chunk.current = None;
        }
    }

    /// Marks a generation as closed.
    pub(super) fn close(&mut self, generation: u64) {
        self.generations
            .entry(generation)
            .or_insert_with(Generation::new)
            .closed
            .get_or_insert_with(Instant::now);
    }

    /// The generation that is being written, where it has rows.
    pub(super) fn open_generation(&self) -> Option<&Generation> {
        self.generations.values().next_back().filter(|g| g.closed.is_none() && !g.is_empty())
    }

    /// The oldest closed generation for which `ready` holds.
    pub(super) fn ready(&self, ready: impl Fn(&Generation) -> bool) -> Option<u64> {
        let mut closed = self.generations.iter().filter(|(_, g)| g.closed.is_some());
        closed.find(|(_, generation)| ready(generation)).map(|(number, _)| *number)
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.generations.values().map(|generation| generation.log_bytes).sum()
    }

    /// All rows of a generation.
    pub(super) fn rows_of(&mut self, generation: u64) -> Result<Vec<RecordBatch>, ArrowError> {
        let Some(generation) = self.generations.get_mut(&generation) else { return Ok(Vec::new()) };
        generation.chunks.iter_mut().map(Chunk::current).collect()
    }

    pub(super) fn remove(&mut self, generation: u64) {
        let Some(gone) = self.generations.remove(&generation) else { return };
        self.bytes -= gone.bytes;
        for chunk in &gone.chunks {
            self.rows -= chunk.raw.num_rows() as u64;
            self.places.remove(&chunk.number);
        }
    }

    /// All rows.
    pub(super) fn snapshot(&mut self) -> Result<Vec<RecordBatch>, ArrowError> {
        let chunks = self.generations.values_mut().flat_map(|generation| &mut generation.chunks);
        chunks.map(Chunk::current).collect()
    }

    pub(super) fn unsettled(&self) -> Vec<Unsettled> {
        let chunks = self.generations.values().flat_map(|generation| &generation.chunks);
        chunks
            .filter(|chunk| chunk.assembled_rows < chunk.raw.num_rows())
            .map(|chunk| Unsettled { batch: chunk.number, rows: chunk.raw.clone() })
            .collect()
    }

    /// Rows that have any of the keys and start in the range.
    pub(super) fn find(
        &mut self,
        keys: &[Key],
        time: TimeRange,
    ) -> Result<Vec<RecordBatch>, ArrowError> {
        let mut found = Vec::new();
        for generation in self.generations.values_mut() {
            let mut rows: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for key in keys {
                let places = generation.index.get(&hash_key(&self.hasher, key));
                for &(chunk, row) in places.into_iter().flatten() {
                    rows.entry(chunk).or_default().push(row);
                }
            }
            for (position, mut rows) in rows {
                rows.sort_unstable();
                rows.dedup();
                let batch = generation.chunks[position as usize].current()?;
                let taken = take_record_batch(&batch, &UInt32Array::from(rows))?;
                // Hashes collide, and an older trace id may still be indexed.
                let fits: BooleanArray = (0..taken.num_rows())
                    .map(|row| {
                        Some(
                            in_range(&taken, row, time) && keys.iter().any(|k| has(&taken, row, k)),
                        )
                    })
                    .collect();
                let taken = filter_record_batch(&taken, &fits)?;
                if taken.num_rows() > 0 {
                    found.push(taken);
                }
            }
        }
        Ok(found)
    }
}

impl Chunk {
    fn current(&mut self) -> Result<RecordBatch, ArrowError> {
        if let Some(current) = &self.current {
            return Ok(current.clone());
        }
        let current = with_assembled(&self.raw, &self.assembled)?;
        self.current = Some(current.clone());
        Ok(current)
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
    for result in assembled {
        match result {
            Some(result) => {
                trace.append_value(result.trace_id.0)?;
                match result.parent {
                    Some(id) => parent.append_value(id.0)?,
                    None => parent.append_null(),
                }
                evidence.append_option(result.evidence.map(|evidence| evidence.as_str()));
                confidence.append_option(result.confidence);
            }
            None => {
                trace.append_null();
                parent.append_null();
                evidence.append_null();
                confidence.append_null();
            }
        }
    }
    let mut columns = raw.columns().to_vec();
    let mut replace = |name: &str, array: ArrayRef| -> Result<(), ArrowError> {
        columns[raw.schema().index_of(name)?] = array;
        Ok(())
    };
    replace(column::ASSEMBLED_TRACE_ID, Arc::new(trace.finish()))?;
    replace(column::ASSEMBLED_PARENT, Arc::new(parent.finish()))?;
    replace(column::EVIDENCE, Arc::new(evidence.finish()))?;
    replace(column::CONFIDENCE, Arc::new(confidence.finish()))?;
    RecordBatch::try_new(raw.schema(), columns)
}

/// Memory that a batch takes.
pub(super) fn batch_bytes(batch: &RecordBatch) -> u64 {
    batch.get_array_memory_size() as u64
}

fn hash_key(hasher: &RandomState, key: &Key) -> u64 {
    hasher.hash_one(key)
}

fn in_range(batch: &RecordBatch, row: usize, time: TimeRange) -> bool {
    batch
        .column_by_name(column::START_UNIX_NANO)
        .and_then(|starts| starts.as_primitive_opt::<Int64Type>())
        .is_some_and(|starts| (time.from_unix_nano..time.to_unix_nano).contains(&starts.value(row)))
}

/// Every key of a row, as the batch has them.
fn keys_of(batch: &RecordBatch, row: usize) -> Vec<Key> {
    let binary = |name: &str| {
        let array = batch.column_by_name(name)?.as_fixed_size_binary_opt()?;
        array.is_valid(row).then(|| array.value(row))
    };
    let number = |name: &str| {
        let array = batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>()?;
        array.is_valid(row).then(|| array.value(row))
    };
    let trace = |bytes: &[u8]| bytes.try_into().ok().map(spanwise_model::TraceId);
    let span = |bytes: &[u8]| bytes.try_into().ok().map(spanwise_model::SpanId);
    let fragment = || {
        let array = batch.column_by_name(column::FRAGMENT_ID)?.as_primitive_opt::<UInt64Type>()?;
        array.is_valid(row).then(|| array.value(row))
    };
    let request_id = || {
        let array = batch.column_by_name(column::X_REQUEST_ID)?.as_string_opt::<i32>()?;
        array.is_valid(row).then(|| array.value(row).to_owned())
    };
    let hop = number(column::REQUEST_TCP_SEQ).zip(number(column::RESPONSE_TCP_SEQ));
    [
        binary(column::ASSEMBLED_TRACE_ID).and_then(trace).map(Key::AssembledTrace),
        binary(column::TRACE_ID).and_then(trace).map(Key::Trace),
        binary(column::SPAN_ID).and_then(span).map(Key::Span),
        fragment().map(Key::Fragment),
        hop.map(|(request, response)| Key::TcpSequences(request, response)),
        request_id().map(Key::XRequestId),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn has(batch: &RecordBatch, row: usize, key: &Key) -> bool {
    keys_of(batch, row).contains(key)
}

fn index_chunk(hasher: &RandomState, generation: &mut Generation, position: usize) {
    let raw = generation.chunks[position].raw.clone();
    for row in 0..raw.num_rows() {
        for key in keys_of(&raw, row) {
            let place = (position as u32, row as u32);
            generation.index.entry(hash_key(hasher, &key)).or_default().push(place);
        }
    }
}
