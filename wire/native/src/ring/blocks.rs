//! The records in a block.

use super::{DEPTH_MAX, REMOTE, Ring};
use crate::process::Process;
use crate::records::{Detached, MetricPoint, Span};
use crate::u64_at;

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

/// An open span.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Open {
    pub(super) start: u64,
    pub(super) site: u16,
    pub(super) remote: bool,
    pub(super) trace_flags: u8,
    pub(super) trace_id: u128,
    pub(super) span_id: u64,
    pub(super) parent_id: u64,
    pub(super) status: u8,
    pub(super) kind: u8,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) depth: u8,
    pub(super) status: u8,
    pub(super) kind: u8,
    pub(super) remote: bool,
    pub(super) trace_flags: u8,
    pub(super) site: u16,
    pub(super) extras: (u32, u32),
    pub(super) trace_id: u128,
    pub(super) parent_id: u64,
}

pub(super) enum Item {
    Span(Ended),
    Log { depth: u8, severity: u8, tick: u64, attributes: Vec<u64> },
}

/// A block whose spans wait for the next block.
#[derive(Default)]
pub(crate) struct Pending {
    pub(super) items: Vec<Item>,
    pub(crate) extras: Vec<u64>,
    pub(super) metrics: Vec<MetricPoint>,
    pub(super) detached: Vec<Detached>,
    pub(super) number: u64,
    pub(super) last_tick: u64,
}

impl Ring {
    /// The spans that were open when the block began.
    pub(super) fn stack(&self, block: &[u8]) -> Vec<Open> {
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

    /// Records of a block from `at` on.
    pub(super) fn parse(
        &mut self,
        block: &[u8],
        number: u64,
        process: &Process,
        pending: &mut Pending,
    ) {
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

    pub(super) fn take_extras(&mut self, depth: usize, to: &mut Vec<u64>) -> (u32, u32) {
        let Some(kept) = self.carried.get_mut(depth) else { return (0, 0) };
        if kept.is_empty() {
            return (0, 0);
        }
        let from = to.len() as u32;
        to.append(kept);
        (from, to.len() as u32)
    }
}
