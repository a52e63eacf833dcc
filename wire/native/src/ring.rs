//! A thread's ring: blocks of records to spans with ids and parents.
//!
//! Spans are in the order in which they ended. Read backwards, a span comes after those around it.
//! The spans that are open at a block's end are at the next block's start, or, for the last block,
//! in the ring's head. So each block is read with one that follows, and no other.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::process::Process;
use crate::{u32_at, u64_at};

const DEPTH_MAX: usize = 64;
const HEADER_BYTES: usize = 8192;
const BLOCK_MAGIC: u64 = 0x314b_4c42_5753_0000 | 32;
const REMOTE: u8 = 1;
/// Attributes, events and links of one open span that are kept.
const EXTRAS_MAX_WORDS: usize = 1 << 17;
const PROBLEMS_MAX: usize = 100;
/// Attempts to see a running thread between two records.
const SNAPSHOTS_MAX: usize = 4;
const POLICY_DROP: u32 = 1;
const THREAD_ENDED: u32 = 2;
const PAD: u8 = 0;
const SPAN: u8 = 1;
const SPAN_LONG: u8 = 2;
const CLOCK: u8 = 3;
const ATTRS: u8 = 4;
const EVENT: u8 = 5;
const LINK: u8 = 6;
const DETACHED_BEGIN: u8 = 7;
const DETACHED_END: u8 = 8;
const LOG: u8 = 9;
const METRIC: u8 = 10;
const STACK: u8 = 11;
const DETACHED: usize = 255;

/// A span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Trace id.
    pub trace_id: u128,
    /// Span id.
    pub span_id: u64,
    /// The parent's id, or zero.
    pub parent_id: u64,
    /// Call site.
    pub site: u16,
    /// Kind, if it is not the site's.
    pub kind: u8,
    /// Status code.
    pub status: u8,
    /// W3C trace flags.
    pub trace_flags: u8,
    /// Whether the parent is in another process or thread.
    pub remote_parent: bool,
    /// Whether it had not ended.
    pub open: bool,
    /// Unix time in nanoseconds.
    pub start_ns: u64,
    /// Unix time in nanoseconds; of an open span, the last time that is known of its thread.
    pub end_ns: u64,
    /// Where its attributes, events and links are in `Piece::extras`.
    pub extras: (u32, u32),
}

/// A log record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// Unix time in nanoseconds.
    pub time_ns: u64,
    /// OpenTelemetry's severity number.
    pub severity: u8,
    /// Trace id, or zero.
    pub trace_id: u128,
    /// Span id, or zero.
    pub span_id: u64,
    /// Attributes in the ring's form.
    pub attributes: Vec<u64>,
}

/// A point of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricPoint {
    /// Instrument.
    pub instrument: u16,
    /// Unix time in nanoseconds.
    pub time_ns: u64,
    /// Start of the sum.
    pub start_ns: u64,
    /// What follows in the record.
    pub words: Vec<u64>,
}

/// A record of a detached span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detached {
    /// Begin or end.
    Span(Span),
    /// Attributes of a span.
    Attributes(u64, Vec<u64>),
}

/// What became of a ring's spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Complete spans that were read.
    pub read: u64,
    /// Spans that had not ended.
    pub open: u64,
    /// Overwritten, or in segments that were deleted.
    pub overwritten: u64,
    /// In blocks that are damaged or missing.
    pub damaged: u64,
    /// Not started, because the ring was full.
    pub dropped_full: u64,
    /// Not started, because 64 were open.
    pub dropped_depth: u64,
    /// Made by a signal handler in the middle of a record.
    pub dropped_signal: u64,
    /// Ends without room.
    pub dropped_ends: u64,
    /// Attributes, events, links, logs and metrics without room.
    pub dropped_extras: u64,
    /// Spans ended twice, or by another thread.
    pub misused: u64,
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// An open span.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    start: u64,
    site: u16,
    remote: bool,
    trace_flags: u8,
    trace_id: u128,
    span_id: u64,
    parent_id: u64,
    status: u8,
    kind: u8,
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    start: u64,
    end: u64,
    depth: u8,
    status: u8,
    kind: u8,
    remote: bool,
    trace_flags: u8,
    site: u16,
    extras: (u32, u32),
    trace_id: u128,
    parent_id: u64,
}

enum Item {
    Span(Ended),
    Log { depth: u8, severity: u8, tick: u64, attributes: Vec<u64> },
}

/// A block whose spans wait for the next block.
#[derive(Default)]
pub(crate) struct Pending {
    items: Vec<Item>,
    pub(crate) extras: Vec<u64>,
    metrics: Vec<MetricPoint>,
    detached: Vec<Detached>,
    number: u64,
    last_tick: u64,
}

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
                    (self.next, self.at) = (self.next + 1, 0);
                    self.cut(process)
                }
            };
            if decoded.is_some() {
                return decoded;
            }
        }
    }

    fn note(&mut self, problem: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    /// The spans that were open when the block began.
    fn stack(&self, block: &[u8]) -> Vec<Open> {
        let first = u64_at(block, 32);
        if first as u8 != STACK {
            return Vec::new();
        }
        let depth = (first >> 8 & 255) as usize;
        let mut open = Vec::new();
        for n in 0..depth.min(DEPTH_MAX) {
            let at = 40 + n * 48;
            let meta = u64_at(block, at + 8);
            open.push(Open {
                start: u64_at(block, at),
                site: meta as u16,
                remote: (meta >> 16) as u8 & REMOTE != 0,
                trace_flags: (meta >> 24) as u8,
                trace_id: u128::from(u64_at(block, at + 16)) << 64
                    | u128::from(u64_at(block, at + 24)),
                parent_id: u64_at(block, at + 32),
                ..Open::default()
            });
        }
        open
    }

    /// The spans that are open in the ring's head.
    fn slots(&self) -> Vec<Open> {
        let depth = (u32_at(&self.header, 136) as usize).min(DEPTH_MAX);
        let mut slots: Vec<Open> = (0..depth)
            .map(|n| {
                let at = 4096 + 64 * n;
                let meta = u64_at(&self.header, at + 8);
                Open {
                    start: u64_at(&self.header, at),
                    site: meta as u16,
                    status: (meta >> 16) as u8,
                    kind: (meta >> 24) as u8,
                    remote: (meta >> 32) as u8 & REMOTE != 0,
                    trace_flags: (meta >> 40) as u8,
                    trace_id: u128::from(u64_at(&self.header, at + 16)) << 64
                        | u128::from(u64_at(&self.header, at + 24)),
                    parent_id: u64_at(&self.header, at + 32),
                    ..Open::default()
                }
            })
            .collect();
        // A span between its record and its slot is in both.
        if let Some(slot) = slots.last()
            && self.last_span == Some((slots.len() - 1, slot.start))
        {
            slots.pop();
        }
        slots
    }

    /// Records of a block from `at` on.
    fn parse(&mut self, block: &[u8], number: u64, process: &Process, pending: &mut Pending) {
        let mut base = self.base;
        pending.items.reserve(block.len().saturating_sub(self.at) / 16);
        let mut spans = 0;
        let mut at = self.at;
        while at + 8 <= block.len() {
            let first = u64_at(block, at);
            let kind = first as u8;
            let depth = (first >> 8 & 255) as usize;
            let id = (first >> 16) as u16;
            if kind == SPAN {
                if at + 16 > block.len() || depth >= DEPTH_MAX {
                    break;
                }
                let second = u64_at(block, at + 8);
                let end = base.wrapping_add(first >> 32);
                let extras = self.take_extras(depth, &mut pending.extras);
                let start = end.wrapping_sub(second & 0xffff_ffff_ffff);
                pending.last_tick = end;
                self.last_span = Some((depth, start));
                pending.items.push(Item::Span(Ended {
                    start,
                    end,
                    depth: depth as u8,
                    status: (second >> 48) as u8 & 3,
                    kind: (second >> 50) as u8 & 7,
                    remote: false,
                    trace_flags: 1,
                    site: id,
                    extras,
                    trace_id: 0,
                    parent_id: 0,
                }));
                spans += 1;
                at += 16;
                continue;
            }
            if kind == PAD {
                break;
            }
            let words = (first >> 32 & 0xffff) as usize;
            let Some(record) = words.checked_mul(8).and_then(|bytes| block.get(at..at + bytes))
            else {
                self.damaged_record(number, at);
                break;
            };
            if words == 0 {
                self.damaged_record(number, at);
                break;
            }
            at += record.len();
            let get = |n: usize| u64_at(record, 8 * n);
            let copy = || (0..words).map(|n| u64_at(record, 8 * n));
            match kind {
                SPAN_LONG if depth < DEPTH_MAX && words >= 4 => {
                    let remote = first >> 48 & 1 != 0 && words >= 7;
                    let extras = self.take_extras(depth, &mut pending.extras);
                    pending.last_tick = get(2);
                    self.last_span = Some((depth, get(1)));
                    pending.items.push(Item::Span(Ended {
                        start: get(1),
                        end: get(2),
                        depth: depth as u8,
                        status: get(3) as u8 & 3,
                        kind: (get(3) >> 2) as u8 & 7,
                        remote,
                        trace_flags: if remote { (get(3) >> 8) as u8 } else { 1 },
                        site: id,
                        extras,
                        trace_id: u128::from(get(4)) << 64 | u128::from(get(5)),
                        parent_id: get(6),
                    }));
                    spans += 1;
                }
                CLOCK => base = get(1),
                ATTRS if depth == DETACHED => {
                    pending.detached.push(Detached::Attributes(get(1), copy().collect()));
                }
                ATTRS | EVENT | LINK if depth < DEPTH_MAX => {
                    let kept = &mut self.carried[depth];
                    if kept.len() + words <= EXTRAS_MAX_WORDS {
                        kept.extend(copy());
                    } else {
                        self.counts.dropped_extras += 1;
                    }
                }
                DETACHED_BEGIN | DETACHED_END if words >= 8 => {
                    let open = kind == DETACHED_BEGIN;
                    spans += u64::from(!open);
                    let start_ns = process.clock.unix_ns(get(1), &mut self.hint);
                    pending.detached.push(Detached::Span(Span {
                        trace_id: u128::from(get(3)) << 64 | u128::from(get(4)),
                        span_id: get(5),
                        parent_id: get(6),
                        site: id,
                        kind: 0,
                        status: get(7) as u8 & 3,
                        trace_flags: (get(7) >> 8) as u8,
                        remote_parent: false,
                        open,
                        start_ns,
                        end_ns: if open {
                            start_ns
                        } else {
                            process.clock.unix_ns(get(2), &mut self.hint).max(start_ns)
                        },
                        extras: (0, 0),
                    }));
                }
                LOG if words >= 2 => pending.items.push(Item::Log {
                    depth: depth as u8,
                    severity: id as u8,
                    tick: get(1),
                    attributes: copy().skip(2).collect(),
                }),
                METRIC if words >= 4 => pending.metrics.push(MetricPoint {
                    instrument: id,
                    time_ns: process.clock.unix_ns(get(1), &mut self.hint),
                    start_ns: process.clock.unix_ns(get(2), &mut self.hint),
                    words: copy().skip(3).collect(),
                }),
                STACK => {}
                _ => {
                    self.damaged_record(number, at - record.len());
                    break;
                }
            }
        }
        self.base = base;
        self.expected_spans += spans;
    }

    fn damaged_record(&mut self, number: u64, at: usize) {
        self.note(format!("block {number} is damaged at byte {at}"));
    }

    fn take_extras(&mut self, depth: usize, to: &mut Vec<u64>) -> (u32, u32) {
        let Some(kept) = self.carried.get_mut(depth) else { return (0, 0) };
        if kept.is_empty() {
            return (0, 0);
        }
        let from = to.len() as u32;
        to.append(kept);
        (from, to.len() as u32)
    }

    /// Ids and parents of the pending block, given the spans that were open at its end.
    fn resolve(&mut self, process: &Process, open: &[Open]) -> Option<Decoded> {
        let mut pending = self.pending.take()?;
        // The enclosing span at each depth, with its ids.
        let mut around = [None::<Open>; DEPTH_MAX];
        for (depth, span) in open.iter().enumerate() {
            let above = if depth > 0 { around[depth - 1] } else { None };
            around[depth] = Some(self.identify(*span, above.as_ref()));
        }
        let mut decoded = Decoded {
            spans: Vec::with_capacity(pending.items.len()),
            metrics: std::mem::take(&mut pending.metrics),
            detached: std::mem::take(&mut pending.detached),
            ..Decoded::default()
        };
        for item in pending.items.iter_mut().rev() {
            match item {
                Item::Span(ended) => {
                    let depth = usize::from(ended.depth);
                    let above = if depth > 0 { around[depth - 1] } else { None };
                    let span = self.identify(
                        Open {
                            start: ended.start,
                            site: ended.site,
                            remote: ended.remote,
                            trace_flags: ended.trace_flags,
                            trace_id: ended.trace_id,
                            parent_id: ended.parent_id,
                            ..Open::default()
                        },
                        above.as_ref(),
                    );
                    around[depth] = Some(span);
                    let start_ns = process.clock.unix_ns(ended.start, &mut self.hint);
                    // The wall clock may go back between two anchors.
                    let end_ns = process.clock.unix_ns(ended.end, &mut self.hint).max(start_ns);
                    decoded.spans.push(Span {
                        trace_id: span.trace_id,
                        span_id: span.span_id,
                        parent_id: span.parent_id,
                        site: ended.site,
                        kind: ended.kind,
                        status: ended.status,
                        trace_flags: span.trace_flags,
                        remote_parent: ended.remote,
                        open: false,
                        start_ns,
                        end_ns,
                        extras: ended.extras,
                    });
                }
                Item::Log { depth, severity, tick, attributes } => {
                    let span = around.get(usize::from(*depth)).copied().flatten();
                    decoded.logs.push(LogRecord {
                        time_ns: process.clock.unix_ns(*tick, &mut self.hint),
                        severity: *severity,
                        trace_id: span.map_or(0, |span| span.trace_id),
                        span_id: span.map_or(0, |span| span.span_id),
                        attributes: std::mem::take(attributes),
                    });
                }
            }
        }
        decoded.spans.reverse();
        decoded.logs.reverse();
        decoded.extras = pending.extras;
        self.counts.read += decoded.spans.len() as u64;
        Some(decoded)
    }

    fn identify(&self, mut span: Open, above: Option<&Open>) -> Open {
        span.span_id = mix(self.salt.wrapping_add(span.start)).max(1);
        if span.remote {
            return span;
        }
        // What began later is not around it: the end of its parent was lost.
        if let Some(above) = above.filter(|above| above.start <= span.start) {
            span.trace_id = above.trace_id;
            span.parent_id = above.span_id;
            span.trace_flags = above.trace_flags;
        } else {
            let high = mix(self.salt ^ 0x9e37_79b9_7f4a_7c15) | 1;
            let low = mix((!self.salt).wrapping_add(span.start));
            span.trace_id = u128::from(high) << 64 | u128::from(low);
            span.parent_id = 0;
            span.trace_flags = 1;
        }
        span
    }

    /// Reads where the program's thread is.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn refresh(&mut self) -> std::io::Result<()> {
        // First the state: after a thread's end, its head no longer moves.
        let (mut state, mut rest) = ([0; 4], [0; 72]);
        self.file.read_exact_at(&mut state, 68)?;
        self.file.read_exact_at(&mut rest, 128)?;
        self.header[68..72].copy_from_slice(&state);
        self.header[128..200].copy_from_slice(&rest);
        self.head = self.head.max(u64_at(&rest, 0));
        Ok(())
    }

    /// Whether its thread has ended.
    pub(crate) fn thread_ended(&self) -> bool {
        u32_at(&self.header, 68) == THREAD_ENDED
    }

    pub(crate) const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Bytes that the program has committed, as of the last `refresh`.
    pub(crate) const fn committed(&self) -> u64 {
        self.head
    }

    /// Up to where everything has been given out.
    pub(crate) fn given_out(&self) -> u64 {
        match self.pending {
            Some(_) => self.mark.next.saturating_mul(self.block_bytes) + self.mark.at,
            None => self.place(),
        }
    }

    /// What is needed to go on behind what has been given out.
    pub(crate) fn mark(&mut self) -> &Mark {
        if self.pending.is_none() {
            self.set_mark();
        }
        &self.mark
    }

    /// Goes on from a mark.
    pub(crate) fn go_on(&mut self, mut mark: Mark) {
        mark.carried.resize(DEPTH_MAX, Vec::new());
        let first = self.next;
        self.next = mark.next;
        self.at = usize::try_from(mark.at.min(self.block_bytes)).unwrap_or(0);
        self.base = mark.base;
        self.expected_spans = mark.expected_spans;
        self.started = mark.started;
        self.last_span = mark.last_span.map(|(depth, start)| (depth as usize, start));
        self.carried.clone_from(&mark.carried);
        if self.next < first {
            (self.next, self.at, self.jumped) = (first, 0, true);
            self.carried.iter_mut().for_each(Vec::clear);
        }
        self.set_mark();
    }

    /// Spans that came to their end since the last call, of at most so many blocks. `true` if
    /// there is more to read.
    pub(crate) fn follow(&mut self, process: &Process, blocks_max: usize) -> (Vec<Decoded>, bool) {
        let mut found = Vec::new();
        for _ in 0..blocks_max {
            if self.place() >= self.head {
                found.extend(self.settle(process));
                return (found, false);
            }
            match self.read_on(process) {
                Ok(decoded) => found.extend(decoded),
                Err(problem) => {
                    self.jump(problem);
                    found.extend(self.cut(process));
                    self.set_mark();
                }
            }
        }
        (found, self.place() < self.head)
    }

    /// The rest, and the spans that are open: nothing writes to the ring any more.
    pub(crate) fn end(&mut self, process: &Process) -> Decoded {
        let mut header = vec![0; HEADER_BYTES];
        if self.file.read_exact_at(&mut header, 0).is_ok() {
            self.header = header;
        }
        let decoded = self.finish(process);
        self.set_mark();
        decoded
    }

    /// Behind a block that is gone.
    fn jump(&mut self, problem: String) {
        let last = self.head.div_ceil(self.block_bytes);
        let mut to = self.next + 1;
        if self.capacity > 0 {
            to = to.max(last.saturating_sub(self.capacity / self.block_bytes));
        } else {
            let blocks = self.segment_bytes / self.block_bytes;
            self.segments = segments_of(&self.dir, &self.name);
            let segment = self.next / blocks;
            match self.segments.iter().find(|(number, _)| *number >= segment) {
                Some((number, _)) if *number == segment => self.note(problem),
                Some((number, _)) => to = number.saturating_mul(blocks),
                None => to = last,
            }
        }
        (self.next, self.at, self.jumped) = (to.min(last).max(self.next + 1), 0, true);
    }

    /// Gives out the spans behind the last full block, if the thread can be seen between two
    /// records. A thread that cannot soon fills a block.
    fn settle(&mut self, process: &Process) -> Option<Decoded> {
        self.pending.as_ref()?;
        for _ in 0..SNAPSHOTS_MAX {
            let (mut before, mut after) = ([0; 72], [0; 72]);
            let mut slots = vec![0; DEPTH_MAX * 64];
            let read = (self.file.read_exact_at(&mut before, 128))
                .and_then(|()| self.file.read_exact_at(&mut slots, 4096))
                .and_then(|()| self.file.read_exact_at(&mut after, 128));
            if read.is_err() || u64_at(&before, 0) != self.head {
                return None;
            }
            // The ends that were dropped changed slots and not the head.
            if u64_at(&after, 0) == self.head && u64_at(&before, 48) == u64_at(&after, 48) {
                self.header[128..200].copy_from_slice(&before);
                self.header[4096..].copy_from_slice(&slots);
                let open = self.slots();
                return self.resolve(process, &open);
            }
        }
        None
    }

    /// With the policy drop: gives the program room up to what has been given out.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn give_room(&self, mark: &Mark) -> std::io::Result<()> {
        if u32_at(&self.header, 40) != POLICY_DROP {
            return Ok(());
        }
        let room = mark.next.saturating_mul(self.block_bytes);
        let mut known = [0; 8];
        self.file.read_exact_at(&mut known, 256)?;
        if u64::from_le_bytes(known) < room {
            self.file.write_all_at(&room.to_le_bytes(), 256)?;
        }
        Ok(())
    }

    /// The last block, and the spans that were open.
    pub(crate) fn finish(&mut self, process: &Process) -> Decoded {
        let slots = self.slots();
        let last_tick = self.pending.as_ref().map_or(self.base, |pending| pending.last_tick);
        let mut decoded = self.resolve(process, &slots).unwrap_or_default();
        let mut above: Option<Open> = None;
        for (depth, slot) in slots.iter().enumerate() {
            let span = self.identify(*slot, above.as_ref());
            let extras = self.take_extras(depth, &mut decoded.extras);
            let start_ns = process.clock.unix_ns(slot.start, &mut self.hint);
            let end_ns = process.clock.unix_ns(last_tick, &mut self.hint).max(start_ns);
            decoded.spans.push(Span {
                trace_id: span.trace_id,
                span_id: span.span_id,
                parent_id: span.parent_id,
                site: slot.site,
                kind: slot.kind & 7,
                status: slot.status & 3,
                trace_flags: span.trace_flags,
                remote_parent: slot.remote,
                open: true,
                start_ns,
                end_ns,
                extras,
            });
            self.counts.open += 1;
            above = Some(span);
        }
        decoded
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
