//! The index of a file: where its traces are, and what its blocks may hold.
//!
//! A block is some thousand neighbouring rows. Of each, the index has the least
//! and the greatest start, and a filter of its rows' keys and attributes. Rows
//! of a trace lie together, so of each trace it has the first row and their
//! number, sorted by a hash of the id. All of it lies in the Parquet file itself,
//! between the last row group and the footer, where other readers see nothing:
//!
//! ```text
//! filters, one a block | traces: hash u32, first row u32, rows u32 | blocks:
//! rows u32, filter bytes u32, least start i64, greatest start i64
//! ```
//!
//! All integers little-endian. Only the blocks are kept in memory: a trace is
//! found by one or two small reads, whatever the number of spans.

use std::ops::Range;
use std::sync::OnceLock;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use super::handle::Handle;
use super::keys::{each_key, each_trace, starts};
use super::ribbon::{self, PROBE_BYTES};

/// Rows of a block. The last one of a row group has fewer.
pub(super) const BLOCK_ROWS: usize = 4096;
const TRACE_BYTES: usize = 12;
const ENTRY_BYTES: usize = 24;
/// Traces that are read at once to find one: by its hash it is known where the
/// entry is, give or take the square root of their number.
const PROBE_TRACES: usize = 512;
const VERSION: u32 = 3;

/// Where in the file the index is, as the footer says.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Note {
    version: u32,
    offset: u64,
    filter_bytes: u64,
    traces: u64,
    blocks: u64,
    /// Of the blocks.
    crc32: u32,
    /// Of the filters and the traces.
    parts_crc32: u32,
}

/// Neighbouring rows of one row group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// In the file.
    pub(super) first_row: usize,
    pub(super) rows: usize,
    /// Least and greatest.
    pub(super) starts: (i64, i64),
    filter_offset: u64,
    filter_bytes: usize,
}

/// Rows of one trace that lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TraceRun {
    hash: u32,
    pub(super) first_row: u32,
    pub(super) rows: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) blocks: Vec<Block>,
    /// `None` for a file that was written without an index.
    parts: Option<Parts>,
}

/// Where filters and traces are.
#[derive(Debug)]
struct Parts {
    filters: Range<u64>,
    traces: Range<u64>,
    crc32: u32,
    /// Whether they are what was written, once somebody has looked: damage must
    /// not read as absence.
    sound: OnceLock<bool>,
}

impl Parts {
    fn are_sound(&self, file: &Handle) -> bool {
        // What is fetched is checked as it comes; to fetch it all for a look at a
        // part of it would take long.
        if !file.is_local() {
            return true;
        }
        *self.sound.get_or_init(|| {
            let (mut hasher, mut buffer) = (crc32fast::Hasher::new(), vec![0; 1 << 20]);
            let (mut at, end) = (self.filters.start, self.traces.end);
            while at < end {
                let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(buffer.len());
                if file.read_at(&mut buffer[..count], at).is_err() {
                    return false;
                }
                hasher.update(&buffer[..count]);
                at += count as u64;
            }
            let sound = hasher.finalize() == self.crc32;
            if !sound {
                tracing::warn!("the index of a file is damaged; its rows are read without it");
            }
            sound
        })
    }
}

const fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Index {
    /// Reads the index that a note tells of. `None` where it is damaged or of
    /// another version; the file can be read without it.
    pub(super) fn open(file: &Handle, note: &str) -> Option<Self> {
        let note: Note = serde_json::from_str(note).ok()?;
        let end = note
            .offset
            .checked_add(note.filter_bytes)?
            .checked_add(note.traces.checked_mul(TRACE_BYTES as u64)?)?
            .checked_add(note.blocks.checked_mul(ENTRY_BYTES as u64)?)?;
        if note.version != VERSION || end > file.byte_len() {
            return None;
        }
        let traces = note.offset + note.filter_bytes;
        let entries = traces + note.traces * TRACE_BYTES as u64;
        let mut bytes = vec![0; usize::try_from(note.blocks).ok()? * ENTRY_BYTES];
        file.read_at(&mut bytes, entries).ok()?;
        if crc32fast::hash(&bytes) != note.crc32 {
            return None;
        }
        let mut blocks = Vec::with_capacity(bytes.len() / ENTRY_BYTES);
        let (mut first_row, mut filter_offset) = (0, note.offset);
        for entry in bytes.as_chunks::<ENTRY_BYTES>().0 {
            let (rows, filter_bytes) = (u32_at(entry, 0) as usize, u32_at(entry, 4) as usize);
            let starts = (i64_at(entry, 8), i64_at(entry, 16));
            blocks.push(Block { first_row, rows, starts, filter_offset, filter_bytes });
            first_row += rows;
            filter_offset += filter_bytes as u64;
        }
        let parts = Parts {
            filters: note.offset..traces,
            traces: traces..entries,
            crc32: note.parts_crc32,
            sound: OnceLock::new(),
        };
        (filter_offset == traces).then_some(Self { blocks, parts: Some(parts) })
    }

    /// That of a file without one: each row group is a block that may hold
    /// anything.
    pub(super) fn of_groups(groups: impl Iterator<Item = (usize, (i64, i64))>) -> Self {
        let mut first_row = 0;
        let blocks = groups.map(|(rows, starts)| {
            let block = Block { first_row, rows, starts, filter_offset: 0, filter_bytes: 0 };
            first_row += rows;
            block
        });
        Self { blocks: blocks.collect(), parts: None }
    }

    fn parts(&self, file: &Handle) -> Option<&Parts> {
        self.parts.as_ref().filter(|parts| parts.are_sound(file))
    }

    /// Rows of the traces of this hash; `None` where there is no telling.
    pub(super) fn trace(&self, file: &Handle, hash: u64) -> std::io::Result<Option<Vec<TraceRun>>> {
        let Some(Parts { traces: range, .. }) = self.parts(file) else { return Ok(None) };
        let count = ((range.end - range.start) / TRACE_BYTES as u64) as usize;
        let hash = short(hash);
        let mut found = Vec::new();
        // Hashes are spread evenly, so this is near.
        let guess = (u64::from(hash) * count as u64) >> 32;
        let mut from = (guess as usize).saturating_sub(PROBE_TRACES / 2);
        let mut runs = read_runs(file, range, from..count.min(from + PROBE_TRACES))?;
        while from > 0 && runs.first().is_none_or(|first| first.hash >= hash) {
            let before = from.saturating_sub(PROBE_TRACES);
            runs.splice(..0, read_runs(file, range, before..from)?);
            from = before;
        }
        let mut end = from + runs.len();
        while end < count && runs.last().is_none_or(|last| last.hash <= hash) {
            let more = read_runs(file, range, end..count.min(end + PROBE_TRACES))?;
            end += more.len();
            runs.extend(more);
        }
        let first = runs.partition_point(|run| run.hash < hash);
        found.extend(runs[first..].iter().take_while(|run| run.hash == hash));
        Ok(Some(found))
    }

    /// All traces, by their hashes.
    pub(super) fn traces(&self, file: &Handle) -> std::io::Result<Option<Vec<TraceRun>>> {
        let Some(Parts { traces: range, .. }) = self.parts(file) else { return Ok(None) };
        let count = ((range.end - range.start) / TRACE_BYTES as u64) as usize;
        read_runs(file, range, 0..count).map(Some)
    }

    /// Where the part begins that is read when a file is opened.
    pub(super) fn entries_offset(&self) -> Option<u64> {
        self.parts.as_ref().map(|parts| parts.traces.end)
    }

    /// Has the parts of some blocks' filters ready that tell of these hashes.
    pub(super) fn prepare<'a>(
        &self,
        file: &Handle,
        blocks: impl Iterator<Item = &'a Block>,
        hashes: &[u64],
    ) -> std::io::Result<()> {
        if file.is_local() || self.parts.is_none() {
            return Ok(());
        }
        let mut ranges = Vec::new();
        for block in blocks {
            ranges.extend(hashes.iter().map(|hash| {
                let probe = ribbon::probe(*hash, block.filter_bytes);
                let at = |byte: usize| block.filter_offset + byte as u64;
                at(probe.start)..at(probe.end)
            }));
        }
        ranges.retain(|range| !range.is_empty());
        file.prepare(&ranges)
    }

    /// The bytes of a block's filter.
    pub(super) fn filter(&self, file: &Handle, block: &Block) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; block.filter_bytes];
        file.read_at(&mut bytes, block.filter_offset)?;
        Ok(bytes)
    }

    /// Whether a block may hold something of this hash.
    pub(super) fn may_have(
        &self,
        file: &Handle,
        block: &Block,
        hash: u64,
    ) -> std::io::Result<bool> {
        if self.parts(file).is_none() {
            return Ok(true);
        }
        let probe = ribbon::probe(hash, block.filter_bytes);
        let mut bytes = [0; PROBE_BYTES];
        let bytes = &mut bytes[..probe.len()];
        file.read_at(bytes, block.filter_offset + probe.start as u64)?;
        Ok(ribbon::may_have(bytes, hash, block.filter_bytes))
    }

    /// Whether a block may hold something of any of these hashes.
    pub(super) fn may_have_any(
        &self,
        file: &Handle,
        block: &Block,
        hashes: &[u64],
    ) -> std::io::Result<bool> {
        // Many small reads take longer than a large one.
        const READ_WHOLE_FROM: usize = 4;
        if self.parts(file).is_none() {
            return Ok(!hashes.is_empty());
        }
        if hashes.len() < READ_WHOLE_FROM {
            for hash in hashes {
                if self.may_have(file, block, *hash)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let filter = self.filter(file, block)?;
        Ok(hashes.iter().any(|hash| {
            let probe = ribbon::probe(*hash, filter.len());
            ribbon::may_have(&filter[probe], *hash, filter.len())
        }))
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |n| u32::from_le_bytes(*n))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |n| i64::from_le_bytes(*n))
}

fn read_runs(
    file: &Handle,
    range: &Range<u64>,
    traces: Range<usize>,
) -> std::io::Result<Vec<TraceRun>> {
    let mut bytes = vec![0; traces.len() * TRACE_BYTES];
    file.read_at(&mut bytes, range.start + (traces.start * TRACE_BYTES) as u64)?;
    let run = |entry: &[u8; TRACE_BYTES]| TraceRun {
        hash: u32_at(entry, 0),
        first_row: u32_at(entry, 4),
        rows: u32_at(entry, 8),
    };
    Ok(bytes.as_chunks::<TRACE_BYTES>().0.iter().map(run).collect())
}

/// Collects the index of a file that is being written.
#[derive(Debug, Default)]
pub(super) struct IndexWriter {
    filters: Vec<u8>,
    maker: ribbon::Maker,
    traces: Vec<TraceRun>,
    blocks: Vec<u8>,
    rows: usize,
}

impl IndexWriter {
    /// Adds the rows of a row group: their key columns, and for each block the
    /// hashes of their attributes.
    pub(super) fn add(&mut self, keys: &RecordBatch, attributes: &[Vec<u64>]) {
        let rows = keys.num_rows();
        self.add_traces(keys);
        let mut hashes = Vec::new();
        for first in (0..rows).step_by(BLOCK_ROWS) {
            let count = BLOCK_ROWS.min(rows - first);
            let block = keys.slice(first, count);
            hashes.clear();
            each_key(&block, |_, hash| hashes.push(hash));
            hashes.extend(attributes.get(first / BLOCK_ROWS).into_iter().flatten());
            hashes.sort_unstable();
            hashes.dedup();
            let filter_bytes = self.maker.write(&hashes, &mut self.filters);
            let starts = starts(&block).map_or(&[] as &[i64], |starts| starts.values());
            let least = starts.iter().copied().min().unwrap_or(i64::MAX);
            let most = starts.iter().copied().max().unwrap_or(i64::MIN);
            self.add_block(count, filter_bytes, (least, most));
        }
        self.rows += rows;
    }

    /// Adds a row group of another file as it is.
    pub(super) fn copy(
        &mut self,
        file: &Handle,
        index: &Index,
        traces: &[TraceRun],
        rows: Range<usize>,
    ) -> std::io::Result<()> {
        for block in index.blocks.iter().filter(|block| rows.contains(&block.first_row)) {
            self.filters.extend(index.filter(file, block)?);
            self.add_block(block.rows, block.filter_bytes, block.starts);
        }
        for run in traces.iter().filter(|run| rows.contains(&(run.first_row as usize))) {
            let first_row = run.first_row as usize - rows.start + self.rows;
            self.traces.push(TraceRun { first_row: first_row as u32, ..*run });
        }
        self.rows += rows.len();
        Ok(())
    }

    fn add_traces(&mut self, keys: &RecordBatch) {
        let mut runs: Vec<TraceRun> = Vec::new();
        each_trace(keys, false, |row, hash| {
            let row = (self.rows + row) as u32;
            match runs.last_mut() {
                Some(last) if last.hash == short(hash) && last.first_row + last.rows == row => {
                    last.rows += 1;
                }
                _ => runs.push(TraceRun { hash: short(hash), first_row: row, rows: 1 }),
            }
        });
        // The same rows by the other id, which is nearly always equal.
        runs.sort_unstable();
        runs.dedup();
        self.traces.extend(runs);
    }

    fn add_block(&mut self, rows: usize, filter_bytes: usize, starts: (i64, i64)) {
        self.blocks.extend_from_slice(&(rows as u32).to_le_bytes());
        self.blocks.extend_from_slice(&(filter_bytes as u32).to_le_bytes());
        self.blocks.extend_from_slice(&starts.0.to_le_bytes());
        self.blocks.extend_from_slice(&starts.1.to_le_bytes());
    }

    /// Its bytes, to be written at this offset, and the note that tells of them.
    pub(super) fn finish(mut self, offset: u64) -> (Vec<u8>, Note) {
        self.traces.sort_unstable();
        let mut note = Note {
            version: VERSION,
            offset,
            filter_bytes: self.filters.len() as u64,
            traces: self.traces.len() as u64,
            blocks: (self.blocks.len() / ENTRY_BYTES) as u64,
            crc32: crc32fast::hash(&self.blocks),
            parts_crc32: 0,
        };
        let mut bytes = self.filters;
        for run in &self.traces {
            for number in [run.hash, run.first_row, run.rows] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        note.parts_crc32 = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&self.blocks);
        (bytes, note)
    }
}
