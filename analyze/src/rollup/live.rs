//! Counts traces as they settle, so that minutes need not be read from spans.
//!
//! Rows are held until nothing of their trace has changed for a while. Then the trace is counted in
//! its minute. If something of it comes later, the trace is read again and replaces what it had
//! added; if its minute is already stored, that minute is named, to be made again. Whatever does
//! not fit into the bounds costs a minute, which is then made from spans: nothing is counted twice
//! or lost.

use std::collections::VecDeque;

use ahash::{AHashMap, AHashSet};
use arrow::array::RecordBatch;
use spanwise_assemble::{Prior, Row, Trace};
use spanwise_model::{Assembled, ModelError, RowRef, SpanRows, TraceId};

use super::{MINUTE_NANO, Minute, Rollup, RollupConfig, minute_of};
use crate::chains::whole_calls;
use crate::labels::Labels;

/// A trace that changed is read again so long afterwards, when the store has its new places.
const CHANGED_NANO: u64 = 2_000_000_000;
/// A trace is counted after so long, also if it goes on.
const LONGEST_NANO: u64 = 60_000_000_000;
/// How long it is known of which trace a row is. Longer than rows are held.
const REMEMBERED_NANO: u64 = 2 * LONGEST_NANO;

/// Bounds of the live stage.
#[derive(Debug, Clone, Copy)]
pub struct LiveConfig {
    /// Rows that are held at once, at about 400 bytes each.
    pub rows: usize,
    /// Traces of which it is known in which minute they were counted, at about 60 bytes each.
    pub known_traces: usize,
    /// Traces that wait to be read again.
    pub changed_traces: usize,
    /// How long nothing of a trace must have changed.
    pub settle_nano: u64,
    /// Bounds of what was counted.
    pub rollup: RollupConfig,
}

impl Default for LiveConfig {
    fn default() -> Self {
        Self {
            rows: 400_000,
            known_traces: 500_000,
            changed_traces: 10_000,
            settle_nano: 8_000_000_000,
            rollup: RollupConfig {
                kept_calls: 500_000,
                // The live stage knows them itself.
                known_traces: 0,
                ..RollupConfig::default()
            },
        }
    }
}

/// What became of rows and minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LiveCounters {
    /// Traces that were counted.
    pub traces: u64,
    /// Traces of which something came after they were counted.
    pub changed: u64,
    /// Times that something came to a minute that was already stored.
    pub late: u64,
    /// Rows that were let go because too many were held.
    pub rows_let_go: u64,
    /// Minutes that are made from spans because not all of them was held.
    pub minutes_given_up: u64,
}

/// The rows of a batch.
#[derive(Debug)]
struct Held {
    /// Rows that are not counted yet; empty if there are none any more.
    rows: Box<[Option<Row>]>,
    /// The trace of each row.
    traces: Box<[Option<TraceId>]>,
    left: usize,
    came_nano: u64,
}

impl Held {
    fn take(&mut self, row: u32) -> Option<Row> {
        let taken = self.rows.get_mut(row as usize)?.take()?;
        self.left -= 1;
        if self.left == 0 {
            self.rows = Box::default();
        }
        Some(taken)
    }
}

/// A trace of which rows are held.
#[derive(Debug, Default)]
struct Open {
    rows: Vec<RowRef>,
    opened_nano: u64,
    changed_nano: u64,
}

/// Where a trace was counted.
#[derive(Debug, Clone, Copy)]
struct Known {
    minute: i64,
    /// Whether it was counted as left out.
    is_left_out: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct LiveRollup {
    config: LiveConfig,
    batches: AHashMap<u64, Held>,
    /// The columns of labels of batches with rows that are held.
    labels: AHashMap<u64, RecordBatch>,
    order: VecDeque<u64>,
    held_rows: usize,
    traces: AHashMap<TraceId, Open>,
    /// When to look at a trace again.
    due: VecDeque<(u64, TraceId)>,
    rollup: Rollup,
    known: AHashMap<TraceId, Known>,
    known_order: VecDeque<TraceId>,
    /// Traces that are to be read again, and since when.
    changed: AHashMap<TraceId, u64>,
    /// Minutes from this one on are counted whole.
    whole_from: i64,
    /// Minutes before this one were taken.
    taken_before: i64,
    given_up: AHashSet<i64>,
    /// What became of rows and minutes.
    pub counters: LiveCounters,
}

impl LiveRollup {
    /// Counts minutes that begin after this time. Minutes before `stored_unix_nano` are stored.
    pub fn new(config: LiveConfig, now_unix_nano: i64, stored_unix_nano: i64) -> Self {
        Self {
            config,
            rollup: Rollup::new(config.rollup),
            whole_from: now_unix_nano.div_euclid(MINUTE_NANO) + 1,
            taken_before: stored_unix_nano.div_euclid(MINUTE_NANO),
            ..Self::default()
        }
    }

    /// Rows that are held.
    pub const fn held_rows(&self) -> usize {
        self.held_rows
    }

    /// Takes the rows of a stored batch. `now_nano` is of a clock that only goes forward.
    ///
    /// # Errors
    /// If the batch does not have the span schema.
    pub fn push(&mut self, batch: u64, rows: &SpanRows, now_nano: u64) -> Result<(), ModelError> {
        let read = Row::read_received(batch, rows)?;
        let columns = rows.columns();
        let schema = columns.schema();
        let places: Vec<usize> =
            Labels::COLUMNS.iter().filter_map(|name| schema.index_of(name).ok()).collect();
        let labels = columns
            .project(&places)
            .map_err(|_| ModelError::Column { column: Labels::COLUMNS[0] })?;
        let left = read.iter().flatten().count();
        let traces = vec![None; if left > 0 { read.len() } else { 0 }].into();
        self.held_rows += left;
        self.order.push_back(batch);
        self.labels.insert(batch, labels);
        let held = Held { rows: read.into(), traces, left, came_nano: now_nano };
        self.batches.insert(batch, held);
        if self.held_rows > self.config.rows {
            self.let_go();
        }
        Ok(())
    }

    /// Takes places of rows in traces. Returns minutes, by their starts, that were taken before and
    /// that this changes.
    pub fn place(&mut self, results: &[Assembled], now_nano: u64) -> Vec<i64> {
        let mut late = AHashSet::new();
        for result in results {
            let id = result.trace_id;
            let held = self.batches.get_mut(&result.row.batch);
            let place = result.row.row as usize;
            let Some(held) = held.filter(|held| place < held.traces.len()) else {
                self.note_change(id, now_nano, &mut late);
                continue;
            };
            let before = held.traces[place].replace(id);
            if let Some(row) = held.rows.get_mut(place).and_then(Option::as_mut) {
                row.prior = Some(Prior { trace_id: id, parent: result.parent });
                (row.evidence, row.confidence) = (result.evidence, result.confidence);
                let open = self.traces.entry(id).or_insert_with(|| {
                    self.due.push_back((now_nano + self.config.settle_nano, id));
                    Open { opened_nano: now_nano, ..Open::default() }
                });
                open.changed_nano = now_nano;
                if before != Some(id) {
                    open.rows.push(result.row);
                }
                let minute = row.start_unix_nano.div_euclid(MINUTE_NANO);
                if minute < self.taken_before {
                    late.insert(minute);
                }
                // If it is already counted, it is read again when all of it is here.
                late.extend(self.known.get(&id).map(|known| known.minute));
            } else {
                self.note_change(id, now_nano, &mut late);
            }
            // The row may have been counted in its former trace.
            if let Some(before) = before.filter(|before| *before != id)
                && self.known.contains_key(&before)
            {
                self.note_change(before, now_nano, &mut late);
            }
        }
        late.retain(|minute| *minute < self.taken_before);
        self.counters.late += late.len() as u64;
        if self.changed.len() > self.config.changed_traces {
            self.give_up();
        }
        late.into_iter().map(|minute| minute.saturating_mul(MINUTE_NANO)).collect()
    }

    /// Notes that a trace is to be read again, and where it was counted.
    fn note_change(&mut self, id: TraceId, now_nano: u64, late: &mut AHashSet<i64>) {
        late.extend(self.known.get(&id).map(|known| known.minute));
        self.changed.insert(id, now_nano);
    }

    /// Counts traces of which nothing changed for long enough, at most so many. Returns minutes, by
    /// their starts, that were taken before some of them, and whether more wait.
    pub fn settle(&mut self, now_nano: u64, most: usize) -> (Vec<i64>, bool) {
        let mut ready: Vec<(TraceId, Vec<Row>)> = Vec::new();
        while ready.len() < most && self.due.front().is_some_and(|(due, _)| *due <= now_nano) {
            let Some((_, id)) = self.due.pop_front() else { break };
            let Some(open) = self.traces.get(&id) else { continue };
            let due = open.changed_nano + self.config.settle_nano;
            if due > now_nano && open.opened_nano + LONGEST_NANO > now_nano {
                self.due.push_back((due, id));
                continue;
            }
            if let Some(open) = self.traces.remove(&id) {
                ready.push((id, self.rows_of(id, &open, now_nano)));
            }
        }
        let more = ready.len() >= most;
        let late = self.count(ready, now_nano);
        self.counters.late += late.len() as u64;
        self.release(now_nano);
        (late.into_iter().map(|minute| minute.saturating_mul(MINUTE_NANO)).collect(), more)
    }

    /// The rows of a trace, which are held no longer. If some were let go, it is read again.
    fn rows_of(&mut self, id: TraceId, open: &Open, now_nano: u64) -> Vec<Row> {
        let mut rows = Vec::with_capacity(open.rows.len());
        for at in &open.rows {
            let held = self.batches.get_mut(&at.batch);
            let of = held.as_ref().and_then(|held| *held.traces.get(at.row as usize)?);
            if of.is_some_and(|of| of != id) {
                continue;
            }
            match held.and_then(|held| held.take(at.row)) {
                Some(row) => rows.push(row),
                None => drop(self.changed.insert(id, now_nano)),
            }
        }
        self.held_rows -= rows.len();
        rows
    }

    fn count(&mut self, ready: Vec<(TraceId, Vec<Row>)>, now_nano: u64) -> AHashSet<i64> {
        let mut late = AHashSet::new();
        if ready.is_empty() {
            return late;
        }
        // The batches that are needed, in the order in which rows name them.
        let mut places: AHashMap<u64, u64> = AHashMap::new();
        let mut batches: Vec<RecordBatch> = Vec::new();
        let mut trees: Vec<(TraceId, Trace)> = Vec::with_capacity(ready.len());
        for (id, mut rows) in ready {
            // Of what was counted before or let go, not all rows are here.
            let is_counted = self.known.contains_key(&id) || self.rollup.kept.contains_key(&id);
            if rows.is_empty() || is_counted || self.changed.contains_key(&id) {
                self.changed.extend((!rows.is_empty()).then_some((id, now_nano)));
                continue;
            }
            for row in &mut rows {
                let place = places.entry(row.at.batch).or_insert_with(|| {
                    batches.extend(self.labels.get(&row.at.batch).cloned());
                    batches.len().saturating_sub(1) as u64
                });
                row.at.batch = *place;
            }
            trees.push((id, Trace::of(rows)));
        }
        let Ok(labels) = Labels::of(&batches) else {
            self.give_up();
            return late;
        };
        for (id, tree) in trees {
            late.extend(self.count_trace(id, &tree, &labels));
        }
        late
    }

    /// Counts a whole trace that changed, in place of what it had added; `None` if there is no such
    /// trace any more. Returns minutes, by their starts, that were taken before and are to be made
    /// again.
    pub fn recount(
        &mut self,
        id: TraceId,
        found: Option<(&Trace, &Labels<'_>)>,
        now_nano: u64,
    ) -> Vec<i64> {
        self.counters.changed += 1;
        let mut late = AHashSet::new();
        if let Some(known) = self.known.remove(&id) {
            if known.minute < self.taken_before {
                late.insert(known.minute);
            } else if known.is_left_out {
                if let Some(part) = self.rollup.parts.get_mut(&known.minute) {
                    part.added.chains_mut().take_back_left_out();
                }
            } else if let Some(kept) = self.rollup.forget(id) {
                self.rollup.take_away(id, &kept);
            } else {
                // What it had added is not known any more.
                self.give_up_minute(known.minute);
            }
        }
        match found {
            Some((tree, labels)) if tree.trace_id == id => {
                late.extend(self.count_trace(id, tree, labels));
            }
            // It is part of another one now.
            Some((tree, _)) => drop(self.changed.insert(tree.trace_id, now_nano)),
            None => {}
        }
        late.into_iter().map(|minute| minute.saturating_mul(MINUTE_NANO)).collect()
    }

    /// Returns the trace's minute if it was taken before. Then it is not counted here.
    fn count_trace(&mut self, id: TraceId, tree: &Trace, labels: &Labels<'_>) -> Option<i64> {
        let calls = whole_calls(tree, labels);
        let of_calls = calls.as_deref().and_then(minute_of);
        let minute =
            of_calls.unwrap_or_else(|| tree.first_root_unix_nano().div_euclid(MINUTE_NANO));
        let late = (minute < self.taken_before).then_some(minute);
        if late.is_none() {
            self.counters.traces += 1;
            match &calls {
                Some(calls) => self.rollup.settle(id, calls),
                None => self.rollup.parts.entry(minute).or_default().added.leave_out(),
            }
        }
        let is_left_out = calls.is_none();
        if self.known.insert(id, Known { minute, is_left_out }).is_none() {
            self.known_order.push_back(id);
        }
        while self.known_order.len() > self.config.known_traces {
            let Some(oldest) = self.known_order.pop_front() else { break };
            // What came for it now would be counted twice.
            if let Some(known) = self.known.remove(&oldest)
                && known.minute >= self.taken_before
            {
                self.give_up_minute(known.minute);
            }
        }
        late
    }

    /// Traces that changed after they were counted, or of which rows came that are not held: they
    /// are to be read and given to [`Self::recount`].
    pub fn take_changed(&mut self, now_nano: u64, most: usize) -> Vec<TraceId> {
        let changed = self.changed.iter().filter(|(_, since)| **since + CHANGED_NANO <= now_nano);
        let taken: Vec<TraceId> = changed.map(|(id, _)| *id).take(most).collect();
        for id in &taken {
            self.changed.remove(id);
        }
        taken
    }

    /// The figures of a minute, by its start, if all of it was counted; once, and the minutes in
    /// their order. What comes for it later is late.
    pub fn take(&mut self, minute_unix_nano: i64, now_nano: u64) -> Option<Minute> {
        let minute = minute_unix_nano.div_euclid(MINUTE_NANO);
        if minute < self.taken_before {
            return None;
        }
        self.count_open(minute, now_nano);
        // What these have added is not what they are now.
        let is_changing = self
            .changed
            .keys()
            .any(|id| self.known.get(id).is_none_or(|known| known.minute == minute));
        self.taken_before = minute + 1;
        let part = self.rollup.parts.remove(&minute);
        let is_given_up = self.given_up.remove(&minute) || minute < self.whole_from;
        // Older ones can no longer be taken.
        self.rollup.parts = self.rollup.parts.split_off(&minute);
        self.given_up.retain(|given_up| *given_up > minute);
        if is_given_up || is_changing {
            self.counters.minutes_given_up += u64::from(!is_given_up);
            return None;
        }
        Some(part.unwrap_or_default().added)
    }

    /// Counts open traces with a row in this minute or before, as far as they are here.
    fn count_open(&mut self, minute: i64, now_nano: u64) {
        let batches = &self.batches;
        let is_in = |at: &RowRef| {
            let row = batches.get(&at.batch)?.rows.get(at.row as usize)?.as_ref()?;
            Some(row.start_unix_nano.div_euclid(MINUTE_NANO) <= minute)
        };
        let ids: Vec<TraceId> = (self.traces.iter())
            .filter(|(_, open)| open.rows.iter().any(|at| is_in(at).unwrap_or(false)))
            .map(|(id, _)| *id)
            .collect();
        let mut ready = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(open) = self.traces.remove(&id) {
                ready.push((id, self.rows_of(id, &open, now_nano)));
            }
        }
        self.count(ready, now_nano);
    }

    fn give_up_minute(&mut self, minute: i64) {
        if self.given_up.insert(minute) {
            self.counters.minutes_given_up += 1;
        }
    }

    /// Gives up all minutes up to the newest that is counted.
    fn give_up(&mut self) {
        self.changed.clear();
        let open: Vec<i64> = self.rollup.parts.keys().copied().collect();
        for minute in open {
            self.give_up_minute(minute);
        }
        // A minute without counts yet, in which what was let go may be.
        if let Some(newest) = self.rollup.parts.keys().next_back().copied() {
            self.give_up_minute(newest + 1);
        }
    }

    /// Lets the oldest rows go. Their traces are read again.
    fn let_go(&mut self) {
        for batch in &self.order {
            if self.held_rows <= self.config.rows / 4 * 3 {
                break;
            }
            let Some(held) = self.batches.get_mut(batch).filter(|held| held.left > 0) else {
                continue;
            };
            self.labels.remove(batch);
            self.held_rows -= held.left;
            self.counters.rows_let_go += held.left as u64;
            let minutes: AHashSet<i64> = (held.rows.iter().flatten())
                .map(|row| row.start_unix_nano.div_euclid(MINUTE_NANO))
                .collect();
            (held.rows, held.left) = (Box::default(), 0);
            for minute in minutes {
                // Traces began then or before, if assembly never says to which one a row belongs.
                for minute in [minute, minute - 1] {
                    self.counters.minutes_given_up += u64::from(self.given_up.insert(minute));
                }
            }
        }
    }

    /// Forgets batches of which nothing is held any more.
    fn release(&mut self, now_nano: u64) {
        let batches = &self.batches;
        self.labels.retain(|batch, _| batches.get(batch).is_some_and(|held| held.left > 0));
        while let Some(batch) = self.order.front() {
            let held = self.batches.get(batch);
            if held.is_some_and(|held| held.came_nano + REMEMBERED_NANO > now_nano) {
                break;
            }
            if let Some(held) = self.order.pop_front().and_then(|batch| self.batches.remove(&batch))
            {
                // Assembly said nothing about these.
                self.held_rows -= held.left;
                self.counters.rows_let_go += held.left as u64;
            }
        }
    }
}
