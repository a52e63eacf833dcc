//! The index of a file: where its traces are, and what its blocks may hold.
//!
//! A block is some thousand neighbouring rows of a row group. Of each, the index has
//! the least and the greatest start; of each row group, in which of its blocks
//! there are which keys and attributes ([`block_sets`]). Rows of a trace lie
//! together, so of each trace it has the first row and their number, sorted by a
//! hash of the id. All of it lies in the Parquet file itself, where other readers
//! see nothing: before each row group its ribbon, and between the last row group
//! and the footer
//!
//! ```text
//! traces: hash u32, first row u32, rows u32 |
//! blocks: rows u32, least start i64, greatest start i64 |
//! row groups: offset of the ribbon u64, its crc32 u32, its segments u32,
//!             blocks u32, entries left out u32 |
//! entries left out of ribbons: hash u64, index u8, number u8
//! ```
//!
//! All integers little-endian. What comes after the traces is kept in memory: a
//! trace is found by one or two small reads, whatever the number of spans, and
//! another key by one of each row group.

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

/// Rows of a block. The last one of a row group has fewer.
pub(crate) const BLOCK_ROWS: usize = 4096;
const TRACE_BYTES: usize = 12;
const BLOCK_BYTES: usize = 20;
const GROUP_BYTES: usize = 24;
const LEFT_OUT_BYTES: usize = 10;
/// Traces that are read at once to find one: by its hash it is known where the
/// entry is, give or take the square root of their number.
const PROBE_TRACES: usize = 512;
const VERSION: u32 = 6;

/// Where in the file the index is, as the footer says.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Note {
    version: u32,
    offset: u64,
    traces: u64,
    blocks: u64,
    groups: u64,
    left_out: u64,
    /// Of what comes after the traces.
    crc32: u32,
    traces_crc32: u32,
}

/// Neighbouring rows of one row group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block {
    /// In the file.
    pub(crate) first_row: usize,
    pub(crate) rows: usize,
    /// Least and greatest.
    pub(crate) starts: (i64, i64),
    /// Its row group, and its number among the blocks of that.
    pub(crate) group: usize,
    pub(crate) number: u32,
}

/// What is known of a row group.
#[derive(Debug)]
struct Group {
    ribbon: Part,
    segments: usize,
    /// Entries that are not in the ribbon, by their hashes.
    left_out: Vec<Entry>,
}

/// Rows of one trace that lie together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TraceRun {
    hash: u32,
    pub(crate) first_row: u32,
    pub(crate) rows: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) blocks: Vec<Block>,
    /// `None` for a file that was written without an index.
    parts: Option<Parts>,
}

/// What is read where it is asked for.
#[derive(Debug)]
struct Parts {
    groups: Vec<Group>,
    traces: Part,
}

/// Bytes of the file that are read a few at a time.
#[derive(Debug)]
struct Part {
    range: Range<u64>,
    crc32: u32,
    /// Whether they are what was written, once somebody has looked: damage must
    /// not read as absence.
    sound: OnceLock<bool>,
}

impl Part {
    const fn new(range: Range<u64>, crc32: u32) -> Self {
        Self { range, crc32, sound: OnceLock::new() }
    }

    fn is_sound(&self, file: &Handle) -> bool {
        // What is fetched is checked as it comes; to fetch it all for a look at a
        // part of it would take long.
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

const fn short(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Index {
    /// Reads the index that a note tells of. `None` where it is damaged or of
    /// another version; the file can be read without it.
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

    /// That of a file without one: each row group is a block that may hold
    /// anything.
    pub(crate) fn of_groups(groups: impl Iterator<Item = (usize, (i64, i64))>) -> Self {
        let mut first_row = 0;
        let blocks = groups.enumerate().map(|(group, (rows, starts))| {
            let block = Block { first_row, rows, starts, group, number: 0 };
            first_row += rows;
            block
        });
        Self { blocks: blocks.collect(), parts: None }
    }

    /// Whether blocks are parts of row groups, and not whole ones.
    pub(crate) const fn has_blocks(&self) -> bool {
        self.parts.is_some()
    }

    /// Where the traces are, where they are sound.
    fn range_of_traces(&self, file: &Handle) -> Option<&Range<u64>> {
        let traces = &self.parts.as_ref()?.traces;
        traces.is_sound(file).then_some(&traces.range)
    }

    /// Rows of the traces of this hash; `None` where there is no telling.
    pub(crate) fn trace(&self, file: &Handle, hash: u64) -> std::io::Result<Option<Vec<TraceRun>>> {
        let Some(range) = self.range_of_traces(file) else { return Ok(None) };
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
    pub(crate) fn traces(&self, file: &Handle) -> std::io::Result<Option<Vec<TraceRun>>> {
        let Some(range) = self.range_of_traces(file) else { return Ok(None) };
        let count = ((range.end - range.start) / TRACE_BYTES as u64) as usize;
        read_runs(file, range, 0..count).map(Some)
    }

    /// The ribbon of a row group, to be copied; `None` where it is damaged.
    pub(crate) fn ribbon(&self, file: &Handle, group: usize) -> std::io::Result<Option<Vec<u8>>> {
        let group = self.parts.as_ref().and_then(|parts| parts.groups.get(group));
        let Some(Group { ribbon, .. }) = group else { return Ok(None) };
        let mut bytes = vec![0; (ribbon.range.end - ribbon.range.start) as usize];
        file.read_at(&mut bytes, ribbon.range.start)?;
        Ok((crc32fast::hash(&bytes) == ribbon.crc32).then_some(bytes))
    }

    /// Where the part begins that is read when a file is opened.
    pub(crate) fn entries_offset(&self) -> Option<u64> {
        self.parts.as_ref().map(|parts| parts.traces.range.end)
    }

    /// Has ready what tells of these hashes in some row groups.
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

    /// In which blocks of a row group there may be something of this hash: one bit
    /// each, by its number.
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
    /// Where in the file it stands in which blocks a hash is.
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

/// Makes the index of a file that is being written: the ribbons at once, the rest
/// in the end.
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
    /// Adds the rows of a row group: their key columns, and for each block the
    /// hashes of their attributes. Gives the ribbon, to be written at this offset.
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

    /// Adds a row group of another file, whose [ribbon](Index::ribbon) is written at
    /// this offset; its traces are not added.
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

    /// Adds those traces of another file whose first row has a place in this one.
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
        // The same rows by the other id, which is nearly always equal.
        runs.sort_unstable();
        runs.dedup();
        self.traces.extend(runs);
    }

    fn add_block(&mut self, rows: usize, starts: (i64, i64)) {
        self.blocks.extend_from_slice(&(rows as u32).to_le_bytes());
        self.blocks.extend_from_slice(&starts.0.to_le_bytes());
        self.blocks.extend_from_slice(&starts.1.to_le_bytes());
    }

    /// Adds the row group of so many blocks that were added last, with what is
    /// [placed](block_sets::placed) in them. Gives the ribbon.
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

    /// What comes after the row groups, to be written at this offset, and the note
    /// that tells of it.
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
            // Of each group, some keys of single blocks, one of some and one of all.
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
                // Numbers of groups that may make sense.
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
