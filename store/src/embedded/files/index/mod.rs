//! The index of a file: where traces are, and what each block may contain.
//!
//! A block is a few thousand consecutive rows of a row group. For each block, the index has the
//! minimum and maximum start. For each row group, it has the blocks that contain each key and
//! attribute ([`block_sets`]). Rows of a trace are stored together, so for each trace it has the
//! first row and the number of rows, sorted by a hash of the trace id. The index is part of the
//! Parquet file, in gaps that other readers ignore: a ribbon before each row group, and the
//! following between the last row group and the footer:
//!
//! ```text
//! traces: hash u32, first row u32, rows u32 |
//! blocks: rows u32, least start i64, greatest start i64 |
//! row groups: offset of the ribbon u64, its crc32 u32, its segments u32,
//!             blocks u32, entries left out u32 |
//! entries left out of ribbons: hash u64, index u8, number u8
//! ```
//!
//! All integers are little-endian. Everything after the traces is kept in memory. A trace is found
//! by one or two small reads, whatever the number of spans. Any other key takes one read for each
//! row group.

pub(crate) mod block_sets;
mod ribbon;

use std::ops::Range;
use std::sync::OnceLock;

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use super::handle::Handle;
use crate::embedded::keys::{each_key, each_trace, starts};
use block_sets::MOST_BLOCKS;
use ribbon::{Entry, PROBE_BYTES, SEGMENT_BYTES};

/// Rows of a block. The last block of a row group may have fewer.
pub(crate) const BLOCK_ROWS: usize = 4096;
const TRACE_BYTES: usize = 12;
const BLOCK_BYTES: usize = 20;
const GROUP_BYTES: usize = 24;
const LEFT_OUT_BYTES: usize = 10;
/// Traces that one probe reads. Hashes are evenly distributed, so an entry's position can be
/// computed with an error of about the square root of the number of traces.
const PROBE_TRACES: usize = 512;
const VERSION: u32 = 6;

/// The location of the index, as recorded in the footer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Note {
    version: u32,
    offset: u64,
    traces: u64,
    blocks: u64,
    groups: u64,
    left_out: u64,
    /// Checksum of everything after the traces.
    crc32: u32,
    traces_crc32: u32,
}

/// A block: consecutive rows of one row group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// Index within the file.
    pub(crate) first_row: usize,
    pub(crate) rows: usize,
    /// Minimum and maximum.
    pub(crate) starts: (i64, i64),
    /// The row group, and the block's number within it.
    pub(crate) group: usize,
    pub(crate) number: u32,
}

/// The index of a row group.
#[derive(Debug)]
struct Group {
    ribbon: Part,
    segments: usize,
    /// Entries that are not in the ribbon, sorted by hash.
    left_out: Vec<Entry>,
}

/// Consecutive rows of one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TraceRun {
    /// See [`short`].
    pub(crate) hash: u32,
    pub(crate) first_row: u32,
    pub(crate) rows: u32,
}

/// The index of a file. See the module's description.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) blocks: Vec<Block>,
    /// `None` if the file was written without an index.
    parts: Option<Parts>,
}

/// Parts that are read on demand.
#[derive(Debug)]
struct Parts {
    groups: Vec<Group>,
    traces: Part,
}

/// A range of the file that is read in small pieces.
#[derive(Debug)]
struct Part {
    range: Range<u64>,
    crc32: u32,
    /// Whether the checksum matches; unset until it is first checked. Damage must not look like
    /// absence of a key.
    sound: OnceLock<bool>,
}

impl Part {
    const fn new(range: Range<u64>, crc32: u32) -> Self {
        Self { range, crc32, sound: OnceLock::new() }
    }

    fn is_sound(&self, file: &Handle) -> bool {
        // Data from object storage is verified as it is fetched. Fetching the whole range for a
        // small read would take too long.
        if !file.is_local() {
            return true;
        }
        *self.sound.get_or_init(|| {
            let mut bytes = vec![0; (self.range.end - self.range.start) as usize];
            let read = file.read_at(&mut bytes, self.range.start);
            let sound = read.is_ok() && crc32fast::hash(&bytes) == self.crc32;
            if !sound {
                tracing::warn!(
                    "a part of the index of a file is damaged; its rows are read without it"
                );
            }
            sound
        })
    }
}

/// The part of a trace's hash that the index has.
pub(crate) const fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Index {
    /// Reads the index that a note refers to. Returns nothing if it is damaged or has another
    /// version. The file can be read without it.
    pub(crate) fn open(file: &Handle, note: &str) -> Option<Self> {
        let note: Note = serde_json::from_str(note).ok()?;
        let tail = note.offset.checked_add(note.traces.checked_mul(TRACE_BYTES as u64)?)?;
        let lengths = [
            (note.blocks, BLOCK_BYTES),
            (note.groups, GROUP_BYTES),
            (note.left_out, LEFT_OUT_BYTES),
        ];
        let mut bytes_of = lengths.into_iter().map(|(count, each)| {
            usize::try_from(count).ok().and_then(|count| count.checked_mul(each))
        });
        let (blocks, groups, left_out) = (bytes_of.next()??, bytes_of.next()??, bytes_of.next()??);
        let length = blocks.checked_add(groups)?.checked_add(left_out)?;
        let end = tail.checked_add(length as u64)?;
        if note.version != VERSION || end > file.byte_len() {
            return None;
        }
        let mut bytes = vec![0; length];
        file.read_at(&mut bytes, tail).ok()?;
        if crc32fast::hash(&bytes) != note.crc32 {
            return None;
        }
        let (mut blocks, rest) = bytes.split_at(blocks);
        let (groups, mut left_out) = rest.split_at(groups);
        let mut all = Self { blocks: Vec::new(), parts: None };
        let mut first_row = 0;
        let mut known = Vec::with_capacity(groups.len() / GROUP_BYTES);
        for group in groups.as_chunks::<GROUP_BYTES>().0 {
            let [segments, count, not_in_it] = [12, 16, 20].map(|at| u32_at(group, at) as usize);
            let from = u64_at(group, 0);
            let ribbon = from..from.checked_add((segments * SEGMENT_BYTES) as u64)?;
            if ribbon.end > note.offset {
                return None;
            }
            let own;
            (own, blocks) = blocks.split_at_checked(count.checked_mul(BLOCK_BYTES)?)?;
            for (number, block) in (0..).zip(own.as_chunks::<BLOCK_BYTES>().0) {
                let rows = u32_at(block, 0) as usize;
                let (starts, group) = ((i64_at(block, 4), i64_at(block, 12)), known.len());
                all.blocks.push(Block { first_row, rows, starts, group, number });
                first_row += rows;
            }
            let own;
            (own, left_out) = left_out.split_at_checked(not_in_it.checked_mul(LEFT_OUT_BYTES)?)?;
            let own = own.as_chunks::<LEFT_OUT_BYTES>().0.iter();
            let left_out = own.map(entry_of).collect();
            let ribbon = Part::new(ribbon, u32_at(group, 8));
            known.push(Group { ribbon, segments, left_out });
        }
        let traces = Part::new(note.offset..tail, note.traces_crc32);
        all.parts = Some(Parts { groups: known, traces });
        (blocks.is_empty() && left_out.is_empty()).then_some(all)
    }

    /// The index of a file without one: each row group is one block that may contain anything.
    pub(crate) fn of_groups(groups: impl Iterator<Item = (usize, (i64, i64))>) -> Self {
        let mut first_row = 0;
        let blocks = groups.enumerate().map(|(group, (rows, starts))| {
            let block = Block { first_row, rows, starts, group, number: 0 };
            first_row += rows;
            block
        });
        Self { blocks: blocks.collect(), parts: None }
    }

    /// Whether blocks are smaller than row groups.
    pub(crate) const fn has_blocks(&self) -> bool {
        self.parts.is_some()
    }

    /// The range of the traces, if it is intact.
    fn range_of_traces(&self, file: &Handle) -> Option<&Range<u64>> {
        let traces = &self.parts.as_ref()?.traces;
        traces.is_sound(file).then_some(&traces.range)
    }

    /// The rows of the traces with this hash, or `None` if the index cannot tell.
    pub(crate) fn trace(&self, file: &Handle, hash: u64) -> std::io::Result<Option<Vec<TraceRun>>> {
        let Some(range) = self.range_of_traces(file) else { return Ok(None) };
        let count = ((range.end - range.start) / TRACE_BYTES as u64) as usize;
        let hash = short(hash);
        let mut found = Vec::new();
        // Hashes are evenly distributed, so the guess is close.
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

    /// Number of runs of traces.
    pub(crate) fn trace_count(&self) -> usize {
        let range = self.parts.as_ref().map(|parts| &parts.traces.range);
        range.map_or(0, |range| ((range.end - range.start) / TRACE_BYTES as u64) as usize)
    }

    /// All traces, sorted by hash.
    pub(crate) fn traces(&self, file: &Handle) -> std::io::Result<Option<Vec<TraceRun>>> {
        let Some(range) = self.range_of_traces(file) else { return Ok(None) };
        let count = ((range.end - range.start) / TRACE_BYTES as u64) as usize;
        read_runs(file, range, 0..count).map(Some)
    }

    /// A copy of a row group's ribbon, or `None` if it is damaged.
    pub(crate) fn ribbon(&self, file: &Handle, group: usize) -> std::io::Result<Option<Vec<u8>>> {
        let group = self.parts.as_ref().and_then(|parts| parts.groups.get(group));
        let Some(Group { ribbon, .. }) = group else { return Ok(None) };
        let mut bytes = vec![0; (ribbon.range.end - ribbon.range.start) as usize];
        file.read_at(&mut bytes, ribbon.range.start)?;
        Ok((crc32fast::hash(&bytes) == ribbon.crc32).then_some(bytes))
    }

    /// The offset of the part that is read when a file is opened.
    pub(crate) fn entries_offset(&self) -> Option<u64> {
        self.parts.as_ref().map(|parts| parts.traces.range.end)
    }

    /// Fetches the data for these hashes in some row groups.
    pub(crate) fn prepare(
        &self,
        file: &Handle,
        groups: impl Iterator<Item = usize>,
        hashes: &[u64],
    ) -> std::io::Result<()> {
        let Some(parts) = self.parts.as_ref().filter(|_| !file.is_local()) else { return Ok(()) };
        let mut ranges = Vec::new();
        for group in groups.filter_map(|group| parts.groups.get(group)) {
            ranges.extend(hashes.iter().map(|hash| group.probe(*hash)));
        }
        ranges.retain(|range| !range.is_empty());
        file.prepare(&ranges)
    }

    /// The blocks of a row group that may contain this hash, as a bit mask.
    pub(crate) fn blocks_with(
        &self,
        file: &Handle,
        group: usize,
        hash: u64,
    ) -> std::io::Result<u32> {
        let group = self.parts.as_ref().and_then(|parts| parts.groups.get(group));
        let group = group.filter(|group| group.ribbon.is_sound(file));
        let Some(group) = group else { return Ok(u32::MAX) };
        let hash = block_sets::key(hash);
        let mut bytes = [0; PROBE_BYTES];
        let probe = group.probe(hash);
        let bytes = &mut bytes[..(probe.end - probe.start) as usize];
        file.read_at(bytes, probe.start)?;
        let from = group.left_out.partition_point(|entry| entry.hash < hash);
        let left_out = &group.left_out[from..];
        let left_out = &left_out[..left_out.partition_point(|entry| entry.hash == hash)];
        Ok(block_sets::blocks(|index| {
            let entry = left_out.iter().find(|entry| entry.index == index);
            entry.map_or_else(
                || ribbon::number(bytes, group.segments, hash, index),
                |entry| entry.number,
            )
        }))
    }
}

impl Group {
    /// The file range that contains the hash's blocks.
    fn probe(&self, hash: u64) -> Range<u64> {
        let probe = ribbon::probe(hash, self.segments);
        let at = |byte: usize| self.ribbon.range.start + byte as u64;
        at(probe.start)..at(probe.end)
    }
}

fn entry_of(bytes: &[u8; LEFT_OUT_BYTES]) -> Entry {
    let hash = bytes.first_chunk().map_or(0, |hash| u64::from_le_bytes(*hash));
    Entry { hash, index: bytes[8], number: bytes[9] }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |n| u32::from_le_bytes(*n))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |n| u64::from_le_bytes(*n))
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

/// Writes the index of a file: ribbons with each row group, everything else at the end.
#[derive(Debug, Default)]
pub(crate) struct IndexWriter {
    maker: ribbon::Maker,
    traces: Vec<TraceRun>,
    blocks: Vec<u8>,
    groups: Vec<u8>,
    left_out: Vec<u8>,
    rows: usize,
}

impl IndexWriter {
    /// Adds the rows of a row group: their key columns, and the hashes of the attributes in each
    /// block. Returns the ribbon, which must be written at this offset.
    #[must_use]
    pub(crate) fn add(
        &mut self,
        offset: u64,
        keys: &RecordBatch,
        attributes: &[Vec<u64>],
    ) -> Vec<u8> {
        let rows = keys.num_rows();
        self.add_traces(keys);
        let mut placed: Vec<u64> = Vec::new();
        let firsts = (0..rows).step_by(BLOCK_ROWS);
        let count = firsts.len();
        for (number, first) in (0..MOST_BLOCKS).zip(firsts) {
            let block = keys.slice(first, BLOCK_ROWS.min(rows - first));
            each_key(&block, |_, hash| placed.push(block_sets::placed(hash, number)));
            let attributes = attributes.get(number).into_iter().flatten();
            placed.extend(attributes.map(|hash| block_sets::placed(*hash, number)));
            let starts = starts(&block).map_or(&[] as &[i64], |starts| starts.values());
            let least = starts.iter().copied().min().unwrap_or(i64::MAX);
            let most = starts.iter().copied().max().unwrap_or(i64::MIN);
            self.add_block(block.num_rows(), (least, most));
        }
        self.rows += rows;
        self.add_placed(offset, count, placed)
    }

    /// Adds a row group of another file, whose [ribbon](Index::ribbon) is written at this offset.
    /// Its traces are not added.
    pub(crate) fn copy(&mut self, offset: u64, index: &Index, number: usize) {
        let Some(group) = index.parts.as_ref().and_then(|parts| parts.groups.get(number)) else {
            return;
        };
        let mut count = 0;
        for block in index.blocks.iter().filter(|block| block.group == number) {
            self.add_block(block.rows, block.starts);
            self.rows += block.rows;
            count += 1;
        }
        let ribbon = &group.ribbon;
        self.add_group(offset, ribbon.crc32, (group.segments, count), &group.left_out);
    }

    /// Adds the traces of another file whose first row has a position in this file.
    pub(crate) fn copy_traces(
        &mut self,
        traces: &[TraceRun],
        place: impl Fn(usize) -> Option<usize>,
    ) {
        self.traces.extend(traces.iter().filter_map(|run| {
            let first_row = place(run.first_row as usize)? as u32;
            Some(TraceRun { first_row, ..*run })
        }));
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
        // Sent and assembled trace ids are nearly always equal and give the same run twice.
        runs.sort_unstable();
        runs.dedup();
        self.traces.extend(runs);
    }

    fn add_block(&mut self, rows: usize, starts: (i64, i64)) {
        self.blocks.extend_from_slice(&(rows as u32).to_le_bytes());
        self.blocks.extend_from_slice(&starts.0.to_le_bytes());
        self.blocks.extend_from_slice(&starts.1.to_le_bytes());
    }

    /// Completes the row group whose blocks were added last. `placed` are the combined hashes of
    /// [`block_sets::placed`]. Returns the ribbon.
    fn add_placed(&mut self, offset: u64, blocks: usize, placed: Vec<u64>) -> Vec<u8> {
        let mut placed = block_sets::sorted(placed);
        placed.dedup();
        let (ribbon, left_out) = self.maker.ribbon(&block_sets::entries(&placed));
        let segments = ribbon.len() / SEGMENT_BYTES;
        self.add_group(offset, crc32fast::hash(&ribbon), (segments, blocks), &left_out);
        ribbon
    }

    fn add_group(
        &mut self,
        offset: u64,
        crc32: u32,
        (segments, blocks): (usize, usize),
        left_out: &[Entry],
    ) {
        self.groups.extend_from_slice(&offset.to_le_bytes());
        for number in [crc32, segments as u32, blocks as u32, left_out.len() as u32] {
            self.groups.extend_from_slice(&number.to_le_bytes());
        }
        for entry in left_out {
            self.left_out.extend_from_slice(&entry.hash.to_le_bytes());
            self.left_out.extend_from_slice(&[entry.index, entry.number]);
        }
    }

    /// The data after the row groups, which must be written at this offset, and the note for the
    /// footer.
    pub(crate) fn finish(mut self, offset: u64) -> (Vec<u8>, Note) {
        self.traces.sort_unstable();
        let tail = [&self.blocks[..], &self.groups, &self.left_out].concat();
        let mut bytes = Vec::with_capacity(self.traces.len() * TRACE_BYTES + tail.len());
        for run in &self.traces {
            for number in [run.hash, run.first_row, run.rows] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        let note = Note {
            version: VERSION,
            offset,
            traces: self.traces.len() as u64,
            blocks: (self.blocks.len() / BLOCK_BYTES) as u64,
            groups: (self.groups.len() / GROUP_BYTES) as u64,
            left_out: (self.left_out.len() / LEFT_OUT_BYTES) as u64,
            crc32: crc32fast::hash(&tail),
            traces_crc32: crc32fast::hash(&bytes),
        };
        bytes.extend_from_slice(&tail);
        (bytes, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn handle(bytes: &[u8]) -> (tempfile::TempDir, Handle) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, bytes).expect("written");
        let handle = Handle::open(&path).expect("opened");
        (directory, handle)
    }

    proptest! {
        #[test]
        fn keys_are_found_in_their_blocks(
            groups in proptest::collection::vec((1usize..=32, 1u64..3000), 1..4),
        ) {
            // For each group: keys in single blocks, one key in some and one in all blocks.
            let keys_of = |group: usize, block: usize, count: u64| {
                let group = (group as u64) << 40;
                let own = (0..count)
                    .filter(move |key| *key as usize % 32 == block)
                    .map(move |key| (group | key).wrapping_mul(0x9e37_79b9_7f4a_7c15));
                own.chain(block.is_multiple_of(5).then_some(77 << 32)).chain([88 << 32])
            };
            let mut writer = IndexWriter::default();
            let mut bytes = vec![9; 3];
            for (group, (blocks, count)) in groups.iter().enumerate() {
                let mut placed: Vec<u64> = Vec::new();
                for block in 0..*blocks {
                    let keys = keys_of(group, block, *count);
                    placed.extend(keys.map(|key| block_sets::placed(key, block)));
                    writer.add_block(10, (0, 1));
                }
                bytes.extend(writer.add_placed(bytes.len() as u64, *blocks, placed));
            }
            let (rest, note) = writer.finish(bytes.len() as u64);
            bytes.extend(rest);
            let (_directory, file) = handle(&bytes);
            let note = serde_json::to_string(&note).expect("a note");
            let index = Index::open(&file, &note).expect("an index");
            let mut at = index.blocks.iter();
            for (group, (blocks, count)) in groups.iter().enumerate() {
                for block in 0..*blocks {
                    let known = at.next().expect("a block");
                    prop_assert_eq!((known.group, known.number as usize), (group, block));
                    for key in keys_of(group, block, *count) {
                        let found = index.blocks_with(&file, group, key).expect("read");
                        prop_assert!(found >> block & 1 == 1, "{}: {} {}", key, group, block);
                    }
                }
            }
        }

        #[test]
        fn damage_is_found_or_does_no_harm(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            offset in 0u64..200,
            traces in 0u64..3,
            counts in (0u64..6, 0u64..6, 0u64..6),
            small in any::<bool>(),
            hash in any::<u64>(),
        ) {
            let (blocks, groups, left_out) = counts;
            let tail = (offset + traces * TRACE_BYTES as u64) as usize;
            let length = blocks as usize * BLOCK_BYTES
                + groups as usize * GROUP_BYTES
                + left_out as usize * LEFT_OUT_BYTES;
            let mut bytes = bytes;
            if small {
                // Plausible numbers of groups.
                bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte > 250));
            }
            let crc = |range: Range<usize>| bytes.get(range).map_or(0, crc32fast::hash);
            let note = Note {
                version: VERSION,
                offset,
                traces,
                blocks,
                groups,
                left_out,
                crc32: crc(tail..tail + length),
                traces_crc32: crc(offset as usize..tail),
            };
            let (_directory, file) = handle(&bytes);
            let note = serde_json::to_string(&note).expect("a note");
            if let Some(index) = Index::open(&file, &note) {
                for group in 0..groups as usize + 1 {
                    let _ = index.blocks_with(&file, group, hash);
                }
                let _ = index.trace(&file, hash);
            }
        }
    }
}
