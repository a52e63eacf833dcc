//! A thread's ring: blocks of records to spans with ids and parents.
//!
//! Spans are in the order in which they ended. Read backwards, a span comes after those around it.
//! The spans that are open at a block's end are at the next block's start, or, for the last block,
//! in the ring's head. So each block is read with one that follows, and no other.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::process::Process;
use crate::{u32_at, u64_at};

const DEPTH_MAX: usize = 64;
const HEADER_BYTES: usize = 8192;
const BLOCK_MAGIC: u64 = 0x314b_4c42_5753_0000 | 32;
const REMOTE: u8 = 1;
/// Attributes, events and links of one open span that are kept.
const EXTRAS_MAX_WORDS: usize = 1 << 17;
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

/// A ring that is read block by block.
pub struct Ring {
    /// Its file's name.
    pub name: String,
    /// Thread id.
    pub tid: u32,
    /// The thread's name.
    pub thread: String,
    /// What became of its spans. Complete at the end.
    pub counts: Counts,
    file: File,
    header: Vec<u8>,
    segments: Vec<(u64, PathBuf)>,
    opened: Option<(u64, File)>,
    salt: u64,
    block_bytes: u64,
    capacity: u64,
    segment_bytes: u64,
    head: u64,
    next: u64,
    expected_spans: u64,
    started: bool,
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
        let count = |n: usize| u64_at(&header, 144 + 8 * n);
        let counts = Counts {
            dropped_full: count(0),
            dropped_depth: count(1),
            dropped_signal: count(2),
            dropped_extras: count(3),
            dropped_ends: count(4),
            misused: count(5),
            ..Counts::default()
        };
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
            counts,
            file,
            segments,
            opened: None,
            salt: u64_at(&header, 32),
            block_bytes,
            capacity,
            segment_bytes,
            head,
            next: first,
            expected_spans: 0,
            started: false,
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
            None => self.next,
        }
    }

    /// Number of bytes to read.
    pub(crate) const fn bytes(&self) -> u64 {
        self.head.saturating_sub(self.next * self.block_bytes)
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
        if u64_at(&block, 0) != BLOCK_MAGIC || u64_at(&block, 8) != number {
            return Err(format!("block {number} is damaged, or was overwritten while it was read"));
        }
        Ok(block)
    }

    /// The next block's spans; `None` at the end.
    pub(crate) fn step(&mut self, process: &Process) -> Option<Decoded> {
        loop {
            if self.ended {
                return None;
            }
            if self.next * self.block_bytes >= self.head {
                self.ended = true;
                return Some(self.finish(process));
            }
            let number = self.next;
            self.next += 1;
            let block = match self.read_block(number) {
                Ok(block) => block,
                Err(problem) => {
                    if self.problems.len() < 100 {
                        self.problems.push(problem);
                    }
                    // Without the block after it, the pending block's open spans are not known.
                    let decoded = self.resolve(process, &[]);
                    self.carried.iter_mut().for_each(Vec::clear);
                    if let Some(decoded) = decoded {
                        return Some(decoded);
                    }
                    continue;
                }
            };
            let before = u64_at(&block, 24);
            if self.started {
                self.counts.damaged += before.saturating_sub(self.expected_spans);
            } else {
                self.counts.overwritten = before;
                self.started = true;
            }
            let stack = self.stack(&block);
            let decoded = self.resolve(process, &stack);
            let pending = self.parse(&block, number, process);
            self.expected_spans = before + pending.1;
            self.pending = Some(pending.0);
            if decoded.is_some() {
                return decoded;
            }
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
        (0..depth)
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
            .collect()
    }

    /// Records of a block, and its number of complete spans.
    fn parse(&mut self, block: &[u8], number: u64, process: &Process) -> (Pending, u64) {
        let mut base = u64_at(block, 16);
        let mut pending = Pending { number, last_tick: base, ..Pending::default() };
        pending.items.reserve(block.len() / 16);
        let mut spans = 0;
        let mut at = 32;
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
                pending.last_tick = end;
                pending.items.push(Item::Span(Ended {
                    start: end.wrapping_sub(second & 0xffff_ffff_ffff),
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
                            process.clock.unix_ns(get(2), &mut self.hint)
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
        (pending, spans)
    }

    fn damaged_record(&mut self, number: u64, at: usize) {
        if self.problems.len() < 100 {
            self.problems.push(format!("block {number} is damaged at byte {at}"));
        }
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
                    let end_ns = process.clock.unix_ns(ended.end, &mut self.hint);
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

    /// The last block, and the spans that were open.
    fn finish(&mut self, process: &Process) -> Decoded {
        let mut slots = self.slots();
        let last_tick = self.pending.as_ref().map_or(0, |pending| pending.last_tick);
        // A span that was killed between its record and its slot is in both.
        if let (Some(pending), Some(slot)) = (&self.pending, slots.last()) {
            let last = pending.items.iter().rev().find_map(|item| match item {
                Item::Span(ended) => Some((usize::from(ended.depth), ended.start)),
                Item::Log { .. } => None,
            });
            if last == Some((slots.len() - 1, slot.start)) {
                slots.pop();
            }
        }
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
