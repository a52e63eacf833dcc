//! Rows that are not in files yet: the batches of each generation of the log.
//!
//! There is no index over all of them. Each batch has a filter of its keys. Checking a few thousand
//! filters takes a fraction of a millisecond, while an index entry for each key would cost more
//! than all other work for the row.

pub(super) mod admission;
pub(super) mod chunk;
pub(super) mod filter;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ahash::AHashMap;
use arrow::array::{RecordBatch, UInt32Array};
use arrow::error::ArrowError;
use spanwise_model::Assembled;

use crate::contract::{Key, Selection, TimeRange, Unsettled};
use crate::embedded::duplicates::origins::{TakenRanges, ranges_of};
use crate::embedded::keys::{KeySet, hash_key, in_time, overlaps};
use crate::embedded::upkeep::deletions::{Deletion, each_selected, named_rows, ranges};
use chunk::{Chunk, View};

/// The rows of one log segment.
pub(super) struct Generation {
    chunks: Vec<Chunk>,
    /// Number of batches with rows that are not assembled yet.
    unsettled: usize,
    rows: u64,
    bytes: u64,
    /// Deletions that affect the generation.
    deletions: Vec<Arc<Deletion>>,
    /// Bytes in the log.
    pub(super) log_bytes: u64,
    pub(super) opened: Instant,
    pub(super) closed: Option<Instant>,
}

impl Generation {
    fn new() -> Self {
        Self {
            chunks: Vec::new(),
            unsettled: 0,
            rows: 0,
            bytes: 0,
            deletions: Vec::new(),
            log_bytes: 0,
            opened: Instant::now(),
            closed: None,
        }
    }

    /// Whether all rows are assembled.
    pub(super) const fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Memory of the generation.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    fn annotate(&mut self, position: usize, result: &Assembled) {
        let Some(chunk) = self.chunks.get_mut(position) else { return };
        let was_settled = chunk.is_settled();
        chunk.annotate(result);
        self.unsettled -= usize::from(!was_settled && chunk.is_settled());
        // The row's trace was deleted before the row was known to belong to it.
        let of_deleted = |deletion: &Arc<Deletion>| {
            deletion.selection() == Some(Selection::Trace(result.trace_id))
        };
        if self.deletions.iter().any(of_deleted) {
            chunk.remove(result.row.row as usize);
        }
    }
}

/// All rows in memory.
pub(super) struct Recent {
    generations: BTreeMap<u64, Generation>,
    /// The generation and index of each batch.
    places: AHashMap<u64, (u64, usize)>,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { generations: BTreeMap::new(), places: AHashMap::new() }
    }

    /// Adds a durable batch.
    pub(super) fn add(&mut self, chunk: Chunk, log_bytes: u64, generation: u64) {
        let target = self.generations.entry(generation).or_insert_with(Generation::new);
        self.places.insert(chunk.number, (generation, target.chunks.len()));
        target.rows += chunk.raw.num_rows() as u64;
        target.bytes += chunk.memory_bytes;
        target.log_bytes += log_bytes;
        target.unsettled += usize::from(!chunk.is_settled());
        target.chunks.push(chunk);
    }

    pub(super) fn annotate(&mut self, rows: &[Assembled]) {
        for result in rows {
            let Some(&(generation, position)) = self.places.get(&result.row.batch) else {
                continue;
            };
            if let Some(generation) = self.generations.get_mut(&generation) {
                generation.annotate(position, result);
            }
        }
    }

    /// The rows of a trace in generations up to this one, in the format of a deletion.
    pub(super) fn rows_of_trace(
        &self,
        trace: &Selection,
        through_generation: u64,
    ) -> Result<Vec<(u64, u32, u32)>, ArrowError> {
        let mut rows = Vec::new();
        let concerned = self.generations.range(..=through_generation).map(|(_, g)| g);
        for chunk in concerned.flat_map(|generation| &generation.chunks) {
            each_selected(&chunk.columns()?, std::slice::from_ref(trace), |row| {
                rows.push((chunk.number, row as u32));
            });
        }
        Ok(ranges(&rows))
    }

    /// Removes the rows that a deletion names or selects from all answers. Returns their number.
    /// Rows that are assigned to its trace later are removed then.
    pub(super) fn delete(&mut self, deletion: &Arc<Deletion>) -> Result<u64, ArrowError> {
        let named = named_rows(deletion);
        let selection: Vec<Selection> = deletion.selection().into_iter().collect();
        let mut deleted = 0;
        for (_, generation) in self.generations.range_mut(..=deletion.through_generation) {
            for chunk in &mut generation.chunks {
                let mut rows: Vec<usize> = Vec::new();
                each_selected(&chunk.columns()?, &selection, |row| rows.push(row));
                for &(first, count) in named.get(&chunk.number).into_iter().flatten() {
                    rows.extend((first..first.saturating_add(count)).map(|row| row as usize));
                }
                deleted += rows.into_iter().filter(|row| chunk.remove(*row)).count() as u64;
            }
            generation.deletions.push(Arc::clone(deletion));
        }
        Ok(deleted)
    }

    /// Marks every generation before `open` as closed.
    pub(super) fn close_before(&mut self, open: u64) {
        for generation in self.generations.range_mut(..open).map(|(_, generation)| generation) {
            generation.closed.get_or_insert_with(Instant::now);
        }
    }

    /// The newest generation, if it is not closed.
    pub(super) fn open_generation(&self) -> Option<&Generation> {
        self.generations.values().next_back().filter(|generation| generation.closed.is_none())
    }

    /// The numbers of all generations, in order.
    pub(super) fn generations(&self) -> impl Iterator<Item = u64> {
        self.generations.keys().copied()
    }

    /// The oldest generation. Files are written in this order only, so all generations in files
    /// precede those in the log.
    pub(super) fn oldest(&self) -> Option<(u64, &Generation)> {
        self.generations.first_key_value().map(|(number, generation)| (*number, generation))
    }

    /// The contents of the generation's file.
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

    /// The columns of all rows that are not deleted.
    pub(super) fn rows_there(&self) -> Vec<RecordBatch> {
        let chunks = self.generations.values().flat_map(|generation| &generation.chunks);
        chunks.filter_map(Chunk::there).collect()
    }

    pub(super) fn unsettled(&self) -> Vec<Unsettled> {
        let chunks = self.generations.values().flat_map(|generation| &generation.chunks);
        chunks
            .filter(|chunk| !chunk.is_settled())
            .map(|chunk| Unsettled { batch: chunk.number, rows: chunk.raw.clone() })
            .collect()
    }

    /// Rows with any of the keys and a start in the range.
    pub(super) fn find(
        &mut self,
        keys: &[Key],
        set: &KeySet,
        time: TimeRange,
    ) -> Result<Vec<RecordBatch>, ArrowError> {
        let hashes: Vec<u64> = keys.iter().map(hash_key).collect();
        let mut found = Vec::new();
        let chunks = self.generations.values_mut().flat_map(|generation| &mut generation.chunks);
        for chunk in chunks.filter(|chunk| overlaps(chunk.starts, time)) {
            if chunk.may_have(&hashes) {
                let view = chunk.view()?;
                let columns = view.rows.columns();
                let wanted = &set.mask(columns) & &in_time(columns, time);
                let rows: UInt32Array = wanted.set_indices().map(|row| Some(row as u32)).collect();
                if !rows.is_empty() {
                    found.push(view.rows.take(&rows)?.whole()?);
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

    /// The earliest plausible start.
    pub(super) fn oldest_start(&self) -> Option<i64> {
        let chunks = self.generations.values().flat_map(|generation| &generation.chunks);
        chunks.filter_map(|chunk| chunk.oldest_unix_nano).min().filter(|start| *start < i64::MAX)
    }
}
