//! Figures of minutes, made as traces settle, and corrected when late spans change a trace.
//! `docs/analysis.md` says how they are kept and merged. Nothing here reads or writes files.

mod bytes;
mod live;
mod minute;
mod parts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use ahash::{AHashMap, AHashSet};
use spanwise_assemble::Trace;
use spanwise_model::TraceId;

use crate::chains::{ChainCall, whole_calls};
use crate::labels::Labels;
use crate::names::{Name, Names};
pub use bytes::RollupError;
pub(crate) use bytes::{Reader, Writer};
pub use live::{LiveConfig, LiveCounters, LiveRollup};
pub use minute::{Minute, Timed};
pub use parts::{RollupHead, RollupPart};

const MINUTE_NANO: i64 = 60_000_000_000;

/// What is kept for corrections.
#[derive(Debug, Clone, Copy)]
pub struct RollupConfig {
    /// Calls of settled traces that are kept, at about 50 bytes each, so that a trace can change.
    pub kept_calls: usize,
    /// Ids of older traces that are known to be counted, at about 40 bytes each.
    pub known_traces: usize,
    /// Minutes that are open at once. Beyond them, the oldest are handed out.
    pub minutes: usize,
    /// Texts that are kept. With more, what is kept of traces is forgotten.
    pub names: usize,
}

impl Default for RollupConfig {
    fn default() -> Self {
        Self { kept_calls: 1_000_000, known_traces: 1_000_000, minutes: 16, names: 500_000 }
    }
}

/// What happened to traces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RollupCounters {
    /// Traces that were counted.
    pub traces: u64,
    /// Traces that changed after they were counted, and whose figures were corrected.
    pub corrected: u64,
    /// Traces that changed so late that what they had added was no longer known. Their figures are
    /// those from before.
    pub changed_too_late: u64,
    /// Times that a trace with missing or doubtful links came. What it had added stays.
    pub left_out: u64,
}

/// Figures of one minute that are ready to be stored. A minute has a part for each time that it was
/// handed out: its figures are the sum of all that was added, less the sum of all that was removed.
#[derive(Debug, Default)]
pub struct Part {
    /// What is to be added.
    pub added: Minute,
    /// What other parts of the minute contain and that is no longer true.
    pub removed: Option<Minute>,
}

/// A call of a settled trace, with names.
#[derive(Debug, Clone, Copy)]
struct Kept {
    service: Name,
    operation: Name,
    /// Place of the caller, or the call's own place.
    parent: u32,
    failed: bool,
    asynchronous: bool,
    start_unix_nano: i64,
    end_unix_nano: i64,
    self_nano: i64,
}

/// Figures of open minutes.
#[derive(Debug, Default)]
pub struct Rollup {
    config: RollupConfig,
    names: Names,
    /// Open minutes, by number since 1970.
    parts: BTreeMap<i64, Part>,
    /// The last minute that was handed out.
    handed_out: Option<i64>,
    kept: AHashMap<TraceId, Box<[Kept]>>,
    /// Traces in the order in which they were kept.
    order: VecDeque<TraceId>,
    kept_calls: usize,
    known: AHashSet<TraceId>,
    known_order: VecDeque<TraceId>,
    scratch: minute::Scratch,
    /// What happened to traces.
    pub counters: RollupCounters,
}

impl Rollup {
    /// An empty one.
    pub fn new(config: RollupConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Counts a settled trace; one with missing or doubtful links is only counted as left out.
    pub fn add(&mut self, trace: &Trace, labels: &Labels<'_>) {
        match whole_calls(trace, labels) {
            Some(calls) => self.settle(trace.trace_id, &calls),
            None => self.counters.left_out += 1,
        }
    }

    /// Counts the calls of a settled trace, callers before the called. If it was counted before, its
    /// earlier figures are replaced.
    pub fn settle(&mut self, trace_id: TraceId, calls: &[ChainCall<'_>]) {
        if self.known.contains(&trace_id) {
            self.counters.changed_too_late += 1;
            return;
        }
        match self.forget(trace_id) {
            Some(before) => {
                self.counters.corrected += 1;
                self.take_away(trace_id, &before);
            }
            None => self.counters.traces += 1,
        }
        let Some(number) = minute_of(calls) else { return };
        let part = self.parts.entry(number).or_default();
        part.added.add(trace_id, calls, &mut self.scratch);
        self.keep(trace_id, calls);
    }

    /// Whether more minutes are open than should be.
    pub fn is_full(&self) -> bool {
        self.parts.len() > self.config.minutes
    }

    /// Minutes before this time, by number since 1970, to be stored. Call it now and then; while
    /// [`Self::is_full`], the oldest minutes are handed out too.
    pub fn take_before(&mut self, unix_nano: i64) -> Vec<(i64, Part)> {
        let end = unix_nano.div_euclid(MINUTE_NANO);
        let mut taken = Vec::new();
        while let Some(oldest) = self.parts.first_entry() {
            let number = *oldest.key();
            if number >= end && self.parts.len() <= self.config.minutes {
                break;
            }
            if let Some(part) = self.parts.remove(&number) {
                self.handed_out = self.handed_out.max(Some(number));
                taken.push((number, part));
            }
        }
        taken
    }

    /// Open minutes, the oldest first.
    pub fn open(&self) -> impl Iterator<Item = (i64, &Part)> {
        self.parts.iter().map(|(number, part)| (*number, part))
    }

    fn take_away(&mut self, trace_id: TraceId, before: &[Kept]) {
        let calls: Vec<ChainCall<'_>> = (before.iter().enumerate())
            .map(|(place, call)| ChainCall {
                service: self.names.text(call.service),
                operation: self.names.text(call.operation),
                parent: Some(call.parent as usize).filter(|parent| *parent < place),
                start_unix_nano: call.start_unix_nano,
                end_unix_nano: call.end_unix_nano,
                // No figure of a minute is of it.
                served_unix_nano: (call.start_unix_nano, call.end_unix_nano),
                self_nano: call.self_nano,
                failed: call.failed,
                asynchronous: call.asynchronous,
            })
            .collect();
        let Some(number) = minute_of(&calls) else { return };
        let part = self.parts.entry(number).or_default();
        if self.handed_out.is_some_and(|last| number <= last) {
            // It may be in a part that was handed out or in this one; the sum is the same.
            let removed = part.removed.get_or_insert_default();
            removed.add(trace_id, &calls, &mut self.scratch);
        } else {
            let mut old = Minute::default();
            old.add(trace_id, &calls, &mut self.scratch);
            part.added.subtract(&old);
        }
    }

    fn keep(&mut self, trace_id: TraceId, calls: &[ChainCall<'_>]) {
        if self.names.len() > self.config.names {
            self.names = Names::default();
            for id in std::mem::take(&mut self.order) {
                if self.kept.remove(&id).is_some() {
                    self.know(id);
                }
            }
            self.kept_calls = 0;
        }
        let kept: Box<[Kept]> = (calls.iter().enumerate())
            .map(|(place, call)| Kept {
                service: self.names.name(call.service),
                operation: self.names.name(call.operation),
                parent: call.parent.unwrap_or(place) as u32,
                failed: call.failed,
                asynchronous: call.asynchronous,
                start_unix_nano: call.start_unix_nano,
                end_unix_nano: call.end_unix_nano,
                self_nano: call.self_nano,
            })
            .collect();
        self.kept_calls += kept.len();
        self.kept.insert(trace_id, kept);
        self.order.push_back(trace_id);
        while self.kept_calls > self.config.kept_calls {
            let Some(oldest) = self.order.pop_front() else { break };
            if self.forget(oldest).is_some() {
                self.know(oldest);
            }
        }
    }

    fn forget(&mut self, trace_id: TraceId) -> Option<Box<[Kept]>> {
        let kept = self.kept.remove(&trace_id)?;
        self.kept_calls -= kept.len();
        Some(kept)
    }

    fn know(&mut self, trace_id: TraceId) {
        if self.known.insert(trace_id) {
            self.known_order.push_back(trace_id);
        }
        while self.known_order.len() > self.config.known_traces {
            if let Some(oldest) = self.known_order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

/// The minute of a trace: that of its first call.
fn minute_of(calls: &[ChainCall<'_>]) -> Option<i64> {
    calls.first().map(|call| call.start_unix_nano.div_euclid(MINUTE_NANO))
}
