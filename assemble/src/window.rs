//! The streaming join: rows come in as they are stored, and go out as soon as
//! what they belong to has been quiet for a moment, with their trace and parent.
//!
//! Rows that surely belong together form a group; a group is looked at when it
//! is due, and where a rule then links two groups, they become one. A row of
//! which nothing new is known is not told again. Groups are remembered for a
//! while, so that late rows find them; a late row may change what was told of
//! earlier ones.

use std::collections::VecDeque;

use ahash::AHashMap;
use spanwise_model::{Assembled, Capture, Evidence, Kind, RowRef, Span, TraceId};

use crate::index::{Index, Slot};
use crate::parents::same_hop;
use crate::resolve::{parents_outside, resolve};
use crate::row::Row;

/// Times and bounds of the window. All times are of one monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct WindowConfig {
    /// A group that got no row for this long is told.
    pub quiet_nano: u64,
    /// A group is told at the latest this long after its first untold row.
    pub longest_wait_nano: u64,
    /// A group is remembered for this long after its last row.
    pub remember_nano: u64,
    /// Rows held at once; beyond, the groups longest unheard of are let go.
    pub max_rows: usize,
    /// Rows of one group; a larger one is told and let go, so that one trace
    /// id that everything carries does not bind everything together.
    pub max_group_rows: usize,
}

impl Default for WindowConfig {
    fn default() -> Self {
        Self {
            quiet_nano: 400_000_000,
            longest_wait_nano: 2_000_000_000,
            remember_nano: 45_000_000_000,
            max_rows: 200_000,
            max_group_rows: 20_000,
        }
    }
}

/// What the window did and could not do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WindowCounters {
    /// Rows taken.
    pub rows: u64,
    /// Results told.
    pub told: u64,
    /// Of them, results that changed an earlier one.
    pub changed: u64,
    /// Groups let go before their time, for want of room.
    pub groups_evicted: u64,
    /// Groups let go before their time, because they had grown too large.
    pub groups_too_large: u64,
}

type GroupId = u64;

#[derive(Debug, Default)]
struct Group {
    slots: Vec<Slot>,
    last_row_nano: u64,
    /// Since when there is something to look at.
    untold_since_nano: Option<u64>,
}

/// What is known of a slot besides its row.
#[derive(Debug, Clone, Copy)]
struct Known {
    group: GroupId,
    told: Option<Assembled>,
}

/// See the module.
pub struct Window {
    config: WindowConfig,
    index: Index,
    known: AHashMap<Slot, Known>,
    groups: AHashMap<GroupId, Group>,
    group_of_trace: AHashMap<TraceId, Slot>,
    /// Groups with something to look at.
    untold: Vec<GroupId>,
    /// Groups in the order in which they may be forgotten, roughly.
    ages: VecDeque<(u64, GroupId)>,
    /// Told of groups that were let go; handed out with the next poll.
    ready: Vec<Assembled>,
    next_group: GroupId,
    counters: WindowCounters,
}

/// Rows this near in time may have to do with each other inside a process.
const NEAR_NANO: i64 = 50_000_000;
/// The most rows with one X-Request-ID that a further one has looked at again.
const MAX_TOUCHED: usize = 256;

impl Window {
    /// An empty window.
    pub fn new(config: WindowConfig) -> Self {
        Self {
            config,
            index: Index::default(),
            known: AHashMap::new(),
            groups: AHashMap::new(),
            group_of_trace: AHashMap::new(),
            untold: Vec::new(),
            ages: VecDeque::new(),
            ready: Vec::new(),
            next_group: 1,
            counters: WindowCounters::default(),
        }
    }

    /// What the window did so far.
    pub const fn counters(&self) -> WindowCounters {
        self.counters
    }

    /// Rows held now.
    pub fn rows(&self) -> usize {
        self.index.len()
    }

    /// Takes the rows of one stored batch.
    pub fn push(
        &mut self,
        batch: u64,
        spans: impl IntoIterator<Item = (u32, Span)>,
        now_nano: u64,
    ) {
        let rows =
            spans.into_iter().map(|(row, span)| Row::from_span(RowRef { batch, row }, &span));
        self.push_rows(rows, now_nano);
    }

    /// Takes rows, for example those that [`Row::read`] reads of a batch.
    pub fn push_rows(&mut self, rows: impl IntoIterator<Item = Row>, now_nano: u64) {
        for mut row in rows {
            // What an earlier run found is found again.
            row.prior = None;
            self.push_row(row, now_nano);
        }
        self.make_room();
    }

    fn push_row(&mut self, row: Row, now_nano: u64) {
        self.counters.rows += 1;
        let slot = self.index.insert(row);
        let group = self.next_group;
        self.next_group += 1;
        self.groups.insert(
            group,
            Group { slots: vec![slot], last_row_nano: now_nano, untold_since_nano: None },
        );
        self.known.insert(slot, Known { group, told: None });
        self.ages.push_back((now_nano, group));
        self.mark(group, now_nano);
        let (joined, touched) = self.neighbours(slot);
        let mut group = group;
        for other in joined {
            group = self.merge(group, self.group_of(other));
        }
        for other in touched {
            let other = self.group_of(other);
            self.mark(other, now_nano);
        }
        if let Some(trace) = self.index.row(slot).trace_id {
            self.group_of_trace.entry(trace).or_insert(slot);
        }
        if self.groups.get(&group).is_some_and(|g| g.slots.len() >= self.config.max_group_rows) {
            self.counters.groups_too_large += 1;
            self.let_go(group);
        }
    }

    /// Rows that belong to one trace with this one, and rows whose parent it
    /// may change.
    fn neighbours(&self, slot: Slot) -> (Vec<Slot>, Vec<Slot>) {
        let row = self.index.row(slot);
        let mut joined = Vec::new();
        let mut touched = Vec::new();
        joined.extend(row.trace_id.and_then(|trace| self.group_of_trace.get(&trace)));
        if row.capture != Capture::App {
            if let Some(fragment) = row.fragment_id {
                // All of a fragment are in one group: any other row will do.
                let others = self.index.in_fragment(fragment).iter();
                joined.extend(others.filter(|other| **other != slot).take(1));
            }
            if let Some(seq) = row.request_tcp_seq {
                let others = self.index.with_request_seq(seq).iter().filter(|other| {
                    let other = self.index.row(**other);
                    same_hop(other, row) || same_hop(row, other)
                });
                joined.extend(others);
            }
            if let Some(id) = &row.x_request_id {
                let others = self.index.with_x_request_id(id).iter();
                let own = others.filter(|other| self.index.row(**other).surely_same_process(row));
                touched.extend(own.rev().take(MAX_TOUCHED));
            }
        }
        match row.capture {
            Capture::ServerProcess => {
                let apps = self.index.apps_during(row, NEAR_NANO);
                touched.extend(apps.into_iter().filter(|app| !self.is_named(*app)));
            }
            Capture::App if row.kind == Kind::Client => {
                touched.extend(self.index.clients_during(row, NEAR_NANO));
            }
            _ => {}
        }
        joined.retain(|other| *other != slot);
        touched.retain(|other| *other != slot);
        (joined, touched)
    }

    /// Whether the row's parent was named by the row itself: no other row's
    /// coming can change that.
    fn is_named(&self, slot: Slot) -> bool {
        let told = self.known.get(&slot).and_then(|known| known.told);
        let by = [Evidence::SpanContext, Evidence::TraceHeader];
        told.and_then(|told| told.evidence).is_some_and(|evidence| by.contains(&evidence))
    }

    fn group_of(&self, slot: Slot) -> GroupId {
        self.known.get(&slot).map_or(0, |known| known.group)
    }

    fn mark(&mut self, group: GroupId, now_nano: u64) {
        if let Some(entry) = self.groups.get_mut(&group)
            && entry.untold_since_nano.is_none()
        {
            entry.untold_since_nano = Some(now_nano);
            self.untold.push(group);
        }
    }

    /// Makes one group of two and returns it: the one that had more rows.
    fn merge(&mut self, one: GroupId, other: GroupId) -> GroupId {
        let size = |id| self.groups.get(&id).map(|group: &Group| group.slots.len());
        let (into, from) = match (size(one), size(other)) {
            (None, _) => return other,
            (_, None) => return one,
            _ if one == other => return one,
            (Some(a), Some(b)) if a >= b => (one, other),
            _ => (other, one),
        };
        let Some(gone) = self.groups.remove(&from) else { return into };
        for slot in &gone.slots {
            if let Some(known) = self.known.get_mut(slot) {
                known.group = into;
            }
        }
        if let Some(group) = self.groups.get_mut(&into) {
            group.slots.extend(gone.slots);
            group.last_row_nano = group.last_row_nano.max(gone.last_row_nano);
        }
        // Something to look at since the earlier of the two, and at once where
        // neither had anything: they are one now.
        if let Some(since) = gone.untold_since_nano {
            self.mark(into, since);
            if let Some(group) = self.groups.get_mut(&into) {
                group.untold_since_nano = group.untold_since_nano.map(|other| other.min(since));
            }
        }
        into
    }

    /// The results that are due: of groups that have become quiet, every row
    /// whose result is new or has changed.
    pub fn poll(&mut self, now_nano: u64) -> Vec<Assembled> {
        let (quiet, longest) = (self.config.quiet_nano, self.config.longest_wait_nano);
        self.tell(|group| {
            let waited = group.untold_since_nano.map_or(0, |since| now_nano.saturating_sub(since));
            now_nano.saturating_sub(group.last_row_nano) >= quiet || waited >= longest
        });
        self.forget(now_nano);
        std::mem::take(&mut self.ready)
    }

    /// All results that are outstanding, due or not.
    pub fn flush(&mut self, now_nano: u64) -> Vec<Assembled> {
        self.tell(|_| true);
        self.forget(now_nano);
        std::mem::take(&mut self.ready)
    }

    fn tell(&mut self, due: impl Fn(&Group) -> bool) {
        let mut due_now = Vec::new();
        for id in std::mem::take(&mut self.untold) {
            match self.groups.get(&id) {
                Some(group) if group.untold_since_nano.is_none() => {}
                Some(group) if due(group) => due_now.push(id),
                Some(_) => self.untold.push(id),
                None => {}
            }
        }
        // First all that are linked become one, so that no row is told twice.
        let mut joined: Vec<GroupId> = due_now.into_iter().map(|id| self.join(id)).collect();
        joined.sort_unstable();
        joined.dedup();
        for id in joined {
            self.tell_group(id);
        }
    }

    /// Joins to a group what the rules link it to, and returns the group that
    /// it has become.
    fn join(&mut self, id: GroupId) -> GroupId {
        let mut id = id;
        let mut fresh = self.sorted_slots(id);
        while !fresh.is_empty() {
            let outside = parents_outside(&self.index, &fresh);
            fresh.clear();
            for slot in outside {
                let other = self.group_of(slot);
                if other != id {
                    fresh.extend(self.sorted_slots(other));
                    id = self.merge(id, other);
                }
            }
            fresh.sort_unstable();
        }
        id
    }

    /// Notes what is new about a group's rows.
    fn tell_group(&mut self, id: GroupId) {
        let slots = self.sorted_slots(id);
        if let Some(group) = self.groups.get_mut(&id) {
            group.untold_since_nano = None;
        }
        let told =
            |slot| self.known.get(&slot).and_then(|known| known.told).map(|told| told.trace_id);
        let results = resolve(&self.index, &slots, told);
        for (slot, result) in slots.into_iter().zip(results) {
            let Some(known) = self.known.get_mut(&slot) else { continue };
            if known.told != Some(result) {
                self.counters.told += 1;
                self.counters.changed += u64::from(known.told.is_some());
                known.told = Some(result);
                self.ready.push(result);
            }
        }
    }

    fn sorted_slots(&self, id: GroupId) -> Vec<Slot> {
        let mut slots = self.groups.get(&id).map_or_else(Vec::new, |group| group.slots.clone());
        slots.sort_unstable();
        slots
    }

    /// Lets go of groups unheard of for long.
    fn forget(&mut self, now_nano: u64) {
        while let Some(&(heard, id)) = self.ages.front() {
            if now_nano.saturating_sub(heard) < self.config.remember_nano {
                break;
            }
            self.ages.pop_front();
            match self.groups.get(&id).map(|group| (group.last_row_nano, group.untold_since_nano)) {
                Some((last, since)) if last > heard || since.is_some() => {
                    self.ages.push_back((last.max(since.unwrap_or(0)).max(heard + 1), id));
                    if last <= heard {
                        break;
                    }
                }
                Some(_) => self.drop_group(id),
                None => {}
            }
        }
    }

    /// Keeps the bound on rows.
    fn make_room(&mut self) {
        // Each group is passed over once at most, for being younger than its
        // entry says.
        let mut passes = self.ages.len();
        while self.index.len() > self.config.max_rows {
            let Some((heard, id)) = self.ages.pop_front() else { break };
            match self.groups.get(&id) {
                Some(group) if group.last_row_nano > heard && passes > 0 => {
                    passes -= 1;
                    self.ages.push_back((group.last_row_nano, id));
                }
                Some(_) => {
                    self.counters.groups_evicted += 1;
                    self.let_go(id);
                }
                None => {}
            }
        }
    }

    /// Tells what is to be told of a group, and drops it.
    fn let_go(&mut self, id: GroupId) {
        let id = match self.groups.get(&id) {
            Some(group) if group.untold_since_nano.is_some() => {
                let id = self.join(id);
                self.tell_group(id);
                id
            }
            _ => id,
        };
        self.drop_group(id);
    }

    fn drop_group(&mut self, id: GroupId) {
        let Some(group) = self.groups.remove(&id) else { return };
        for slot in group.slots {
            if let Some(trace) = self.index.row(slot).trace_id {
                // All rows of a trace id are in one group, so this one's entry
                // leads here.
                self.group_of_trace.remove(&trace);
            }
            self.known.remove(&slot);
            self.index.remove(slot);
        }
    }
}

#[cfg(test)]
mod tests;
