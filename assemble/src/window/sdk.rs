//! The window while it holds only SDK spans. SDK spans name their traces and parents, so the only
//! question is whether the parent has arrived. Nothing else of the rows is read. This costs a tenth
//! of asking the rules.
//!
//! The most recent batches are kept unchanged. When a row arrives that may be related in other
//! ways, the full window takes them over ([`Sdk::take`]).

use std::collections::VecDeque;

use ahash::AHashMap;
use spanwise_model::{Assembled, Evidence, RowRef, SpanId, SpanRows, TraceId};

use super::{Outcome, WindowConfig, WindowCounters};
use crate::parents::MAX_CANDIDATES;
use crate::read::Columns;
use crate::resolve::{TreePosition, cut_cycles};
use crate::row::{Named, Row, Side};

/// One row in this many of the window's maximum is kept in its original batch. Original batches
/// take more memory than ids, and are needed only once.
const KEPT_PART: usize = 4;

/// Up to this many rows, scanning a trace is faster than sorting it.
const SMALL_TRACE: usize = 64;
const _: () = assert!(SMALL_TRACE <= MAX_CANDIDATES);

/// Rows in the form in which they arrived.
#[derive(Debug)]
pub(super) enum Came<'a> {
    Batch(u64, &'a SpanRows),
    Rows(&'a [Row]),
}

#[derive(Debug)]
enum KeptRows {
    Batch(u64, SpanRows),
    Rows(Vec<Row>),
}

#[derive(Debug)]
struct Member {
    at: RowRef,
    span_id: SpanId,
    parent_span_id: Option<SpanId>,
    side: Side,
    result: Option<SdkResult>,
}

/// The reported result of a row: a root, a child of the span that it names, a child of the calling
/// side with the same id, or part of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SdkResult {
    Root,
    Child,
    Twin,
    Ambiguous,
}

#[derive(Debug, Default)]
struct Trace {
    members: Vec<Member>,
    last_row_nano: u64,
    /// The time of the first unreported change.
    unreported_since_nano: Option<u64>,
}

/// The contents that the full window takes over.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Rows in order of arrival, with the reported result and the time of arrival.
    pub(super) rows: Vec<(Row, Option<Outcome>, u64)>,
    pub(super) ready: Vec<Assembled>,
    pub(super) counters: WindowCounters,
}

/// The window for SDK spans. See the module's description.
#[derive(Debug, Default)]
pub(super) struct Sdk {
    traces: AHashMap<TraceId, Trace>,
    rows: usize,
    /// Traces with unreported changes.
    unreported: Vec<TraceId>,
    /// Traces, roughly in the order in which they expire.
    ages: VecDeque<(u64, TraceId)>,
    /// Time of arrival, number of rows, and the rows.
    kept: VecDeque<(u64, usize, KeptRows)>,
    kept_rows: usize,
    /// Results for the next poll.
    ready: Vec<Assembled>,
    counters: WindowCounters,
    /// Indexes by span id of the trace being reported. Kept to reuse the memory.
    by_span: Vec<(SpanId, u32)>,
}

impl Sdk {
    /// Rows held now.
    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    pub(super) const fn counters(&self) -> WindowCounters {
        self.counters
    }

    /// Adds rows with these ids.
    pub(super) fn push(
        &mut self,
        names: &[Named],
        came: &Came<'_>,
        now_nano: u64,
        config: &WindowConfig,
    ) {
        // Spans of one trace mostly arrive one after the other.
        for names in names.chunk_by(|one, other| one.trace_id == other.trace_id) {
            for names in names.chunks(config.max_group_rows.max(1)) {
                self.add(names, now_nano, config);
            }
        }
        let kept = match came {
            Came::Batch(number, rows) => KeptRows::Batch(*number, SpanRows::clone(rows)),
            Came::Rows(rows) => KeptRows::Rows(rows.to_vec()),
        };
        self.kept.push_back((now_nano, names.len(), kept));
        self.kept_rows += names.len();
        self.make_room(config);
    }

    /// Adds rows of one trace.
    fn add(&mut self, names: &[Named], now_nano: u64, config: &WindowConfig) {
        let Some(id) = names.first().map(|name| name.trace_id) else { return };
        let Self { traces, unreported, ages, .. } = self;
        let trace = traces.entry(id).or_insert_with(|| {
            ages.push_back((now_nano, id));
            Trace::default()
        });
        trace.last_row_nano = trace.last_row_nano.max(now_nano);
        if trace.unreported_since_nano.is_none() {
            trace.unreported_since_nano = Some(now_nano);
            unreported.push(id);
        }
        trace.members.extend(names.iter().map(|name| {
            let Named { at, trace_id: _, span_id, parent_span_id, side } = *name;
            Member { at, span_id, parent_span_id, side, result: None }
        }));
        self.rows += names.len();
        self.counters.rows += names.len() as u64;
        if trace.members.len() >= config.max_group_rows {
            self.counters.groups_too_large += 1;
            self.report_and_remove(id);
        }
    }

    /// The results that are due: of traces that have become quiet, or of all.
    pub(super) fn poll(
        &mut self,
        now_nano: u64,
        all: bool,
        config: &WindowConfig,
    ) -> Vec<Assembled> {
        let mut unreported = std::mem::take(&mut self.unreported);
        unreported.retain(|id| {
            let Some(trace) = self.traces.get(id) else { return false };
            let Some(since) = trace.unreported_since_nano else { return false };
            let quiet = now_nano.saturating_sub(trace.last_row_nano) >= config.quiet_nano;
            let waited = now_nano.saturating_sub(since) >= config.longest_wait_nano;
            let due = all || quiet || waited;
            if due {
                self.report(*id);
            }
            !due
        });
        self.unreported = unreported;
        self.forget(now_nano, config);
        // The next poll will return about as many results.
        let room = Vec::with_capacity(self.ready.len());
        std::mem::replace(&mut self.ready, room)
    }

    /// Reports new and changed results of a trace.
    fn report(&mut self, id: TraceId) {
        let Self { traces, by_span, ready, counters, .. } = self;
        let Some(trace) = traces.get_mut(&id) else { return };
        trace.unreported_since_nano = None;
        by_span.clear();
        by_span.extend(trace.members.iter().map(|member| member.span_id).zip(0..));
        let is_small = by_span.len() <= SMALL_TRACE;
        if !is_small {
            by_span.sort_unstable();
        }
        let members = &trace.members;
        let twin_of = |member: &Member| calling_twin(member, members, by_span, is_small);
        let parent_of = |at, member: &Member| {
            twin_of(member).or_else(|| parent_of(at, member, by_span, is_small))
        };
        let place = |(at, member): (u32, &Member)| match parent_of(at, member) {
            Some(parent) => TreePosition::Child {
                parent: parent as usize,
                evidence: Evidence::SpanContext,
                confidence: 1.0,
            },
            None => TreePosition::Root,
        };
        let mut places: Vec<TreePosition> = (0..).zip(&trace.members).map(place).collect();
        cut_cycles(&mut places, |at| trace.members[at].span_id);
        let results: Vec<SdkResult> = (trace.members.iter().zip(places))
            .map(|(member, place)| match place {
                TreePosition::Root => SdkResult::Root,
                TreePosition::Ambiguous => SdkResult::Ambiguous,
                TreePosition::Child { .. } if twin_of(member).is_some() => SdkResult::Twin,
                TreePosition::Child { .. } => SdkResult::Child,
            })
            .collect();
        for (member, result) in trace.members.iter_mut().zip(results) {
            let before = member.result.replace(result);
            if before != Some(result) {
                counters.told += 1;
                counters.changed += u64::from(before.is_some());
                let Outcome { trace_id, parent, evidence, confidence } = member.outcome(id, result);
                ready.push(Assembled { row: member.at, trace_id, parent, evidence, confidence });
            }
        }
    }

    /// Removes traces without recent rows.
    fn forget(&mut self, now_nano: u64, config: &WindowConfig) {
        let is_old = |heard| now_nano.saturating_sub(heard) >= config.remember_nano;
        while let Some((heard, id)) = self.ages.pop_front_if(|(heard, _)| is_old(*heard)) {
            let Some(trace) = self.traces.get(&id) else { continue };
            if trace.unreported_since_nano.is_some() || !is_old(trace.last_row_nano) {
                self.ages.push_back((trace.last_row_nano.max(heard + 1), id));
                if trace.last_row_nano <= heard {
                    break;
                }
            } else {
                self.drop_trace(id);
            }
        }
        while let Some((_, rows, _)) = self.kept.pop_front_if(|(came, _, _)| is_old(*came)) {
            self.kept_rows -= rows;
        }
    }

    /// Enforces the maximum numbers of rows.
    fn make_room(&mut self, config: &WindowConfig) {
        // Each trace is skipped at most once, for being younger than its queue entry says.
        let mut passes = self.ages.len();
        while self.rows > config.max_rows {
            let Some((heard, id)) = self.ages.pop_front() else { break };
            let Some(trace) = self.traces.get(&id) else { continue };
            if trace.last_row_nano > heard && passes > 0 {
                passes -= 1;
                self.ages.push_back((trace.last_row_nano, id));
            } else {
                self.counters.groups_evicted += 1;
                self.report_and_remove(id);
            }
        }
        while self.kept_rows > config.max_rows / KEPT_PART
            && let Some((_, rows, _)) = self.kept.pop_front()
        {
            self.kept_rows -= rows;
        }
    }

    /// Reports a trace's results and removes it.
    fn report_and_remove(&mut self, id: TraceId) {
        if self.traces.get(&id).is_some_and(|trace| trace.unreported_since_nano.is_some()) {
            self.report(id);
        }
        self.drop_trace(id);
    }

    fn drop_trace(&mut self, id: TraceId) {
        if let Some(trace) = self.traces.remove(&id) {
            self.rows -= trace.members.len();
        }
    }

    /// Returns the contents and leaves the window empty. Rows whose batches were not kept are
    /// forgotten. Rows that belong to them are joined when the trace is requested.
    pub(super) fn take(&mut self) -> Taken {
        // Rows that are not kept are reported with what is known.
        for id in std::mem::take(&mut self.unreported) {
            self.report(id);
        }
        let Self { traces, kept, ready, counters, .. } = std::mem::take(self);
        let mut outcomes: AHashMap<RowRef, Option<Outcome>> = AHashMap::new();
        for (id, trace) in &traces {
            let members = trace.members.iter();
            outcomes
                .extend(members.map(|it| (it.at, it.result.map(|result| it.outcome(*id, result)))));
        }
        let mut rows = Vec::with_capacity(outcomes.len());
        for (came_nano, _, kept) in kept {
            let mut take = |row: Row| {
                // Rows of removed traces are not reported again.
                let outcome = outcomes.get(&row.at)?;
                rows.push((row, *outcome, came_nano));
                Some(())
            };
            match kept {
                KeptRows::Rows(rows) => rows.into_iter().for_each(|row| _ = take(row)),
                KeptRows::Batch(number, batch) => {
                    // The batch's ids were read when it arrived, so its columns are readable.
                    let Ok(columns) = Columns::of(number, &batch) else { continue };
                    let rows = (0..columns.len()).filter_map(|row| columns.row(row).ok());
                    rows.for_each(|row| _ = take(row));
                }
            }
        }
        Taken { rows, ready, counters }
    }
}

impl Member {
    fn outcome(&self, trace_id: TraceId, result: SdkResult) -> Outcome {
        let (parent, evidence) = match result {
            SdkResult::Root => (None, None),
            SdkResult::Child => (self.parent_span_id, Some(Evidence::SpanContext)),
            SdkResult::Twin => (Some(self.span_id), Some(Evidence::SpanContext)),
            SdkResult::Ambiguous => (None, Some(Evidence::Ambiguous)),
        };
        Outcome { trace_id, parent, evidence, confidence: parent.map(|_| 1.0) }
    }
}

/// The index of the calling side of a span, if `member` is the called side and has the same id.
fn calling_twin(
    member: &Member,
    members: &[Member],
    by_span: &[(SpanId, u32)],
    is_small: bool,
) -> Option<u32> {
    if member.side != Side::Called {
        return None;
    }
    let is_it = |(id, at): &&(SpanId, u32)| {
        *id == member.span_id && members[*at as usize].side == Side::Calling
    };
    let found = if is_small {
        by_span.iter().find(is_it)
    } else {
        let from = by_span.partition_point(|(other, _)| *other < member.span_id);
        let all = by_span[from..].iter().take_while(|(id, _)| *id == member.span_id);
        if all.clone().nth(MAX_CANDIDATES).is_some() { None } else { all.clone().find(is_it) }
    };
    found.map(|(_, at)| *at)
}

/// The index of the span that a row names as its parent. If several spans have that id, the first
/// counts; if too many have it, none. `by_span` is sorted by id, or short and sorted by index.
fn parent_of(at: u32, member: &Member, by_span: &[(SpanId, u32)], is_small: bool) -> Option<u32> {
    let id = member.parent_span_id?;
    if is_small {
        let (_, parent) = by_span.iter().find(|(other, _)| *other == id)?;
        return (*parent != at).then_some(*parent);
    }
    let named = &by_span[by_span.partition_point(|(other, _)| *other < id)..];
    let (_, parent) = named.first().filter(|(other, _)| *other == id)?;
    let too_many = named.get(MAX_CANDIDATES).is_some_and(|(other, _)| *other == id);
    (*parent != at && !too_many).then_some(*parent)
}
