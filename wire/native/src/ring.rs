//! A thread's ring: blocks of records to spans with ids and parents.
//!
//! Spans are in the order in which they ended. Read backwards, a span comes after those around it.
//! The spans that are open at a block's end are at the next block's start, or, for the last block,
//! in the ring's head. So each block is read with one that follows, and no other.

mod blocks;
mod live;
mod spans;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use self::blocks::Pending;
use crate::process::Process;
use crate::records::{Counts, Detached, LogRecord, MetricPoint, Span};
use crate::{u32_at, u64_at};

const DEPTH_MAX: usize = 64;
const HEADER_BYTES: usize = 8192;
const BLOCK_MAGIC: u64 = 0x314b_4c42_5753_0000 | 32;
const REMOTE: u8 = 1;
const PROBLEMS_MAX: usize = 100;

/// What a block holds, with ids.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    pub(crate) spans: Vec<Span>,
    pub(crate) logs: Vec<LogRecord>,
    pub(crate) metrics: Vec<MetricPoint>,
    pub(crate) detached: Vec<Detached>,
    pub(crate) extras: Vec<u64>,
}

/// What is needed to read a ring from a place on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) next: u64,
    pub(crate) at: u64,
    pub(crate) base: u64,
    pub(crate) expected_spans: u64,
    pub(crate) started: bool,
    pub(crate) last_span: Option<(u64, u64)>,
    /// Attributes, events and links of open spans, by depth.
    pub(crate) carried: Vec<Vec<u64>>,
}

/// A ring that is read block by block.
pub struct Ring {
    /// Its file's name.
    pub name: String,
    /// Thread id.
    pub tid: u32,
    /// The thread's name.
    pub thread: String,
    /// What was counted while it was read.
    pub(crate) counts: Counts,
    file: File,
    header: Vec<u8>,
    dir: PathBuf,
    segments: Vec<(u64, PathBuf)>,
    opened: Option<(u64, File)>,
    salt: u64,
    block_bytes: u64,
    capacity: u64,
    segment_bytes: u64,
    head: u64,
    /// The block that is read, and how much of it was read.
    next: u64,
    at: usize,
    base: u64,
    expected_spans: u64,
    started: bool,
    /// Blocks were left out because they were gone.
    jumped: bool,
    /// Depth and start of the last span that was read.
    last_span: Option<(usize, u64)>,
    /// Where `pending` begins.
    mark: Mark,
    pending: Option<Pending>,
    carried: Vec<Vec<u64>>,
    ended: bool,
    hint: usize,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl Ring {
    /// Opens a ring. `segments` are its files with their numbers, in order.
    ///
    /// # Errors
    /// What is wrong with its head.
    pub(crate) fn open(
        dir: &Path,
        name: String,
        file: File,
        segments: Vec<(u64, PathBuf)>,
    ) -> Result<Self, String> {
        let mut header = vec![0; HEADER_BYTES];
        let length = read_some(&file, &mut header, 0).map_err(|error| error.to_string())?;
        if length < HEADER_BYTES || header.get(..8) != Some(b"SPWNRING") {
            return Err("is not a ring, or was cut in its head".to_owned());
        }
        let version = u32_at(&header, 8);
        if version != 1 {
            return Err(format!(
                "has version {version} of the format; this program reads version 1"
            ));
        }
        let block_bytes = u64::from(u32_at(&header, 44));
        let (capacity, segment_bytes) = (u64_at(&header, 48), u64_at(&header, 56));
        let size = capacity.max(segment_bytes);
        if !(4096..=1 << 24).contains(&block_bytes)
            || !block_bytes.is_multiple_of(64)
            || size < block_bytes
            || !size.is_multiple_of(block_bytes)
        {
            return Err("has impossible sizes in its head".to_owned());
        }
        let head = u64_at(&header, 128);
        let text = header[72..88].split(|byte| *byte == 0).next().unwrap_or_default();
        let last = head.div_ceil(block_bytes);
        let first = if capacity > 0 {
            last.saturating_sub(capacity / block_bytes)
        } else {
            segments.first().map_or(last, |(number, _)| {
                number.saturating_mul(segment_bytes / block_bytes).min(last)
            })
        };
        Ok(Self {
            name,
            tid: u32_at(&header, 20),
            thread: String::from_utf8_lossy(text).into_owned(),
            counts: Counts::default(),
            file,
            dir: dir.to_owned(),
            segments,
            opened: None,
            salt: u64_at(&header, 32),
            block_bytes,
            capacity,
            segment_bytes,
            head,
            next: first,
            at: 0,
            base: 0,
            expected_spans: 0,
            started: false,
            jumped: false,
            last_span: None,
            mark: Mark { next: first, carried: vec![Vec::new(); DEPTH_MAX], ..Mark::default() },
            pending: None,
            carried: vec![Vec::new(); DEPTH_MAX],
            ended: false,
            hint: 0,
            problems: Vec::new(),
            header,
        })
    }

    /// Number of the block whose spans come next. At the end of a ring that may still grow, its
    /// last block if it is not full.
    pub(crate) fn position(&self, complete: bool) -> u64 {
        match &self.pending {
            Some(pending) => pending.number,
            None if self.ended && !complete => self.head / self.block_bytes,
            None if self.ended => self.head.div_ceil(self.block_bytes),
            None => self.next,
        }
    }

    /// Number of bytes to read.
    pub(crate) const fn bytes(&self) -> u64 {
        self.head.saturating_sub(self.place())
    }

    const fn place(&self) -> u64 {
        self.next.saturating_mul(self.block_bytes).saturating_add(self.at as u64)
    }

    /// What became of its spans, with what its program counted.
    pub fn counts(&self) -> Counts {
        let count = |n: usize| u64_at(&self.header, 144 + 8 * n);
        Counts {
            dropped_full: count(0),
            dropped_depth: count(1),
            dropped_signal: count(2),
            dropped_extras: self.counts.dropped_extras.saturating_add(count(3)),
            dropped_ends: count(4),
            misused: count(5),
            ..self.counts
        }
    }

    fn read_block(&mut self, number: u64) -> Result<Vec<u8>, String> {
        let position = number * self.block_bytes;
        let used = self.head.saturating_sub(position).min(self.block_bytes);
        let mut block = vec![0; usize::try_from(used).unwrap_or(0)];
        let length = if self.capacity > 0 {
            let at = HEADER_BYTES as u64 + position % self.capacity;
            read_some(&self.file, &mut block, at)
        } else {
            let segment = position / self.segment_bytes;
            if self.opened.as_ref().is_none_or(|(number, _)| *number != segment) {
                if self.segments.last().is_none_or(|(last, _)| *last < segment) {
                    self.segments = segments_of(&self.dir, &self.name);
                }
                let found = self.segments.binary_search_by_key(&segment, |(number, _)| *number);
                let Ok(found) = found else { return Err(format!("segment {segment} is missing")) };
                let file = File::open(&self.segments[found].1)
                    .map_err(|error| format!("segment {segment}: {error}"))?;
                self.opened = Some((segment, file));
            }
            let Some((_, file)) = &self.opened else { return Err("is not open".to_owned()) };
            read_some(file, &mut block, position % self.segment_bytes)
        };
        let length = length.map_err(|error| format!("block {number}: {error}"))?;
        if length < block.len() && length < 32 {
            return Err(format!("block {number} is cut off"));
        }
        if length < block.len() {
            self.problems.push(format!("block {number} is cut off after {length} bytes"));
            block.truncate(length);
        }
        let mut head = [0; 16];
        if self.capacity > 0 {
            // A program that still runs may have begun to overwrite what was just read.
            let at = HEADER_BYTES as u64 + position % self.capacity;
            let again = read_some(&self.file, &mut head, at);
            again.map_err(|error| format!("block {number}: {error}"))?;
        } else {
            head.copy_from_slice(&block[..16]);
        }
        let is_it = |bytes: &[u8]| u64_at(bytes, 0) == BLOCK_MAGIC && u64_at(bytes, 8) == number;
        if !is_it(&block) || !is_it(&head) {
            return Err(format!("block {number} is damaged, or was overwritten while it was read"));
        }
        Ok(block)
    }

    /// Reads on in the block at hand. Returns the spans of the block before, whose open spans are
    /// known now.
    fn read_on(&mut self, process: &Process) -> Result<Option<Decoded>, String> {
        let number = self.next;
        let block = self.read_block(number)?;
        let mut decoded = None;
        if self.at == 0 {
            let before = u64_at(&block, 24);
            if !self.started || self.jumped {
                let known = if self.started { self.expected_spans } else { 0 };
                self.counts.overwritten += before.saturating_sub(known);
            } else {
                self.counts.damaged += before.saturating_sub(self.expected_spans);
            }
            (self.started, self.jumped) = (true, false);
            let stack = self.stack(&block);
            decoded = self.resolve(process, &stack);
            self.expected_spans = before;
            self.base = u64_at(&block, 16);
            self.set_mark();
            self.at = 32;
        } else if self.pending.is_none() {
            self.set_mark();
        }
        let mut pending = self.pending.take().unwrap_or_else(|| Pending {
            number,
            last_tick: self.base,
            ..Pending::default()
        });
        self.parse(&block, number, process, &mut pending);
        self.pending = Some(pending);
        let used = self.head.saturating_sub(number * self.block_bytes).min(self.block_bytes);
        self.at = usize::try_from(used).unwrap_or(usize::MAX);
        if used == self.block_bytes {
            (self.next, self.at) = (number + 1, 0);
        }
        Ok(decoded)
    }

    fn set_mark(&mut self) {
        self.mark = Mark {
            next: self.next,
            at: self.at as u64,
            base: self.base,
            expected_spans: self.expected_spans,
            started: self.started,
            last_span: self.last_span.map(|(depth, start)| (depth as u64, start)),
            carried: self.carried.clone(),
        };
    }

    /// Spans before what cannot be read. Without what is after them, the spans that were open
    /// around them are not known.
    fn cut(&mut self, process: &Process) -> Option<Decoded> {
        let decoded = self.resolve(process, &[]);
        self.carried.iter_mut().for_each(Vec::clear);
        decoded
    }

    /// The next block's spans; `None` at the end.
    pub(crate) fn step(&mut self, process: &Process) -> Option<Decoded> {
        loop {
            if self.ended {
                return None;
            }
            if self.place() >= self.head {
                self.ended = true;
                return Some(self.finish(process));
            }
            let decoded = match self.read_on(process) {
                Ok(decoded) => decoded,
                Err(problem) => {
                    self.note(problem);
                    (self.next, self.at) = (self.behind().0, 0);
                    self.cut(process)
                }
            };
            if decoded.is_some() {
                return decoded;
            }
        }
    }

    /// The block to go on with behind one that cannot be read, and whether its segment is gone. A
    /// damaged head may claim more blocks than any disk has, so what is not there is passed over
    /// at once.
    fn behind(&mut self) -> (u64, bool) {
        let last = self.head.div_ceil(self.block_bytes);
        let (mut to, mut is_deleted) = (self.next + 1, false);
        if self.capacity > 0 {
            let lap = self.capacity / self.block_bytes;
            to = to.max(last.saturating_sub(lap));
            let bytes = self.file.metadata().map_or(0, |file| file.len());
            let there = bytes.saturating_sub(HEADER_BYTES as u64).div_ceil(self.block_bytes);
            if to % lap >= there {
                to = (to / lap + 1).saturating_mul(lap);
            }
        } else {
            let blocks = (self.segment_bytes / self.block_bytes).max(1);
            self.segments = segments_of(&self.dir, &self.name);
            let segment = self.next / blocks;
            match self.segments.iter().find(|(number, _)| *number >= segment) {
                Some((number, path)) if *number == segment => {
                    let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
                    if to % blocks >= bytes.div_ceil(self.block_bytes) {
                        to = (segment + 1).saturating_mul(blocks);
                    }
                }
                Some((number, _)) => (to, is_deleted) = (number.saturating_mul(blocks), true),
                None => (to, is_deleted) = (last, true),
            }
        }
        (to.min(last).max(self.next + 1), is_deleted)
    }

    fn note(&mut self, problem: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// The segments of a ring, in order.
pub(crate) fn segments_of(dir: &Path, ring: &str) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut segments: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".segment")?;
            let number = name.strip_prefix(ring)?.strip_prefix('.')?.parse().ok()?;
            Some((number, path))
        })
        .collect();
    segments.sort();
    segments
}

/// Reads until the buffer is full or the file ends.
fn read_some(file: &File, into: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut length = 0;
    while length < into.len() {
        match file.read_at(&mut into[length..], at + length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
