//! Work of which the program itself tells: who has handed it over, and when. A thread
//! that works on such does nothing else meanwhile; so what it calls was asked for by what
//! the one who handed the work over had read before, in the course of his own work, or of
//! the work in whose course that was handed over to him, and so on.
//!
//! Work has a number, which is never used again. What a thread does by itself is work, too,
//! that nobody has handed over: its calls are the thread's, as elsewhere.

use std::collections::VecDeque;

use ahash::AHashMap;
use spanwise_model::Evidence;

use super::lineage::Recent;
use super::{Caller, ENDED_NANO, Fragment, LIKELY, Line, Origin, ProcessContext, within};

/// This bit of a task's number says that it is work (`bpf/task_told.h`).
const WORK_BITS: u32 = 62;
/// Of such a number: it is what a thread does by itself.
const OWN: u64 = 1 << 61;
/// And this: a thread that was started for it, which may live on for others.
const STARTED: u64 = 1 << 60;
/// How often work is followed to whom it was handed over by.
const MAX_HOPS: usize = 32;
/// Lines of which it is remembered what they have read, at least; at most twice as many.
const LINES: usize = 8192;
/// Requests remembered of a line.
const READS: usize = 256;
/// As many before the last are looked at, whether they were still worked on.
const COMPARED: usize = 64;
/// Whoever reads requests of several connections hands each over this soon, or it is not
/// told which it was.
const HANDED_SOON_NANO: u64 = 1_000_000;

/// Whether a task is work that was handed over.
pub(super) const fn is_work(task: u64) -> bool {
    // Higher is the bit of a name.
    task >> WORK_BITS == 1
}

/// By whom, and when, `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy)]
struct Handed {
    origin: u64,
    nano: u64,
}

/// A request that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Read {
    pub(super) exchange: u64,
    pub(super) fragment: u64,
    pub(super) connection: u64,
    pub(super) nano: u64,
}

/// What a line has read, the last at the end.
#[derive(Debug, Default)]
struct Reads {
    last: VecDeque<Read>,
    /// Of more than one connection: as loops do, which serve many at once.
    of_several: bool,
}

#[derive(Debug, Default)]
pub(super) struct Told {
    handed: Recent<u64, Handed>,
    /// Whose own work is whose.
    own: Recent<u64, Line>,
    young: AHashMap<Line, Reads>,
    old: AHashMap<Line, Reads>,
    /// Something was told.
    begun: bool,
}

impl Told {
    /// A request was read on this line.
    pub(super) fn read(&mut self, line: Line, read: Read) {
        if !self.begun || line == Line::None {
            return;
        }
        if self.young.len() >= LINES {
            self.old = std::mem::take(&mut self.young);
        }
        let known = self.old.remove(&line);
        let reads = self.young.entry(line).or_insert_with(|| known.unwrap_or_default());
        let connection = reads.last.back().map(|last| last.connection);
        reads.of_several |= connection.is_some_and(|connection| connection != read.connection);
        if reads.last.len() >= READS {
            reads.last.pop_front();
        }
        reads.last.push_back(read);
    }

    fn reads(&self, line: Line) -> Option<&Reads> {
        self.young.get(&line).or_else(|| self.old.get(&line))
    }

    /// On which line the calls of some work are made.
    fn line(&mut self, work: u64) -> Option<Line> {
        match work & OWN {
            0 => Some(Line::Task(work)),
            _ => self.own.get(&work),
        }
    }
}

impl ProcessContext {
    /// Work was handed over at this time in the course of that of `origin`; or a thread's
    /// own is told of.
    pub(super) fn told(&mut self, work: u64, origin: u64, teller: u32, nano: u64) {
        self.told.begun = true;
        if work & OWN == 0 {
            self.told.handed.insert(work, Handed { origin, nano });
            return;
        }
        let line = if origin == 0 { Line::Thread(teller) } else { Line::Task(origin) };
        self.told.own.insert(work, line);
    }

    /// The request for which work makes a call.
    pub(super) fn of_work(&mut self, sender: Caller, lost_nano: u64) -> Origin {
        let now_nano = sender.time_nano;
        let (mut work, mut before_nano, mut likely) = (sender.task, now_nano, false);
        for hop in 0..MAX_HOPS {
            if let Some(line) = self.told.line(work)
                && let Some(found) = self.last_read(line, hop == 0, before_nano, now_nano)
            {
                return match found {
                    Found::Request { fragment, read_nano, sure } => {
                        let sure = sure && !likely && read_nano >= lost_nano;
                        let confidence = if sure { 1.0 } else { LIKELY };
                        Origin::Request(within(fragment, Evidence::Task, confidence))
                    }
                    Found::Several(candidates) => {
                        Origin::Request(Fragment::Ambiguous { candidates })
                    }
                    Found::Nothing => Origin::Elsewhere,
                };
            }
            likely |= work & STARTED != 0;
            let Some(handed) = self.told.handed.get(&work) else { break };
            (work, before_nano) = (handed.origin, handed.nano);
        }
        Origin::Elsewhere
    }

    /// What a line had read before a time, and is still worked on; `None` where it had read
    /// nothing. `itself` where it makes the call, and has not handed it over.
    fn last_read(
        &mut self,
        line: Line,
        itself: bool,
        before_nano: u64,
        now_nano: u64,
    ) -> Option<Found> {
        let reads = self.told.reads(line)?;
        let of_several = reads.of_several;
        let mut before = reads.last.iter().rev().filter(|read| read.nano <= before_nano);
        let last = *before.next()?;
        let others: Vec<Read> = before.take(COMPARED).copied().collect();
        // A loop's own calls are those of whatever it goes on with.
        if itself && of_several {
            return Some(Found::Nothing);
        }
        let mut at_once = 1;
        for other in &others {
            let ended = self.lineage.ended_exchange(other.exchange, now_nano);
            let was_open = ended.is_some_and(|ended| ended.end_nano > before_nano);
            at_once += usize::from(was_open || self.open(other.exchange).is_some());
        }
        let soon = before_nano.saturating_sub(last.nano) < HANDED_SOON_NANO;
        // Those that came in one piece are handed over one after the other.
        let alone = others.first().is_none_or(|other| other.nano < last.nano);
        if at_once > 1 && (itself || !soon || !alone) {
            return Some(Found::Several(at_once));
        }
        if self.open(last.exchange).is_none() {
            let ended = self.lineage.ended_exchange(last.exchange, now_nano);
            let recent = ended.is_some_and(|ended| now_nano - ended.end_nano.min(now_nano) <= ENDED_NANO);
            return Some(match recent {
                // It does nothing after its request but what it has left to do for it.
                true => Found::Request { fragment: last.fragment, read_nano: last.nano, sure: itself },
                false => Found::Nothing,
            });
        }
        let sure = at_once == 1 && !of_several;
        Some(Found::Request { fragment: last.fragment, read_nano: last.nano, sure })
    }
}

/// What a line had read.
enum Found {
    Request {
        fragment: u64,
        read_nano: u64,
        /// There was no other that it could be.
        sure: bool,
    },
    Several(usize),
    /// Nothing that is still worked on, or that tells something.
    Nothing,
}
