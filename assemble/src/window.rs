//! The streaming join. Stored rows come in. They go out with trace and parent as soon as their
//! group has been quiet for a moment.
//!
//! Rows that certainly belong together form a group. When a group is due, the rules examine it. If
//! a rule links two groups, they are merged. A row is reported again only if its result has
//! changed. Groups are remembered for a while, so that late rows find them. A late row may change
//! earlier results.

mod config;
mod groups;
mod outcome;
mod sdk;

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::hash_map::Entry;
use spanwise_model::{Assembled, Capture, Evidence, Kind, ModelError, SpanRows, TraceId};

pub use self::config::{WindowConfig, WindowCounters};
use self::groups::{Group, GroupId, Groups};
use self::outcome::Outcome;
use self::sdk::{Came, Sdk, Taken};
use crate::clocks::{ClockDifference, Clocks};
use crate::index::Index;
use crate::parents::{MAX_CANDIDATES, Parent, Verdict, few, same_hop, verdict};
use crate::read::{Columns, names};
use crate::resolve::resolve;
use crate::row::{Named, Row};
use crate::slot::Slot;
use crate::timeline::Sort;
use crate::timing::{self, Timing};

/// The state of a slot besides its row.
#[derive(Debug, Clone, Copy)]
struct SlotState {
    group: GroupId,
    /// The rules' result when the group was last examined.
    verdict: Verdict,
    told: Option<Outcome>,
    by_timing: ByTiming,
}

/// The result of links by time for a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ByTiming {
    NotAsked,
    /// Requested, not decided yet.
    Awaited,
    /// The parent, or no parent.
    Answered(Option<Parent>),
}

/// The streaming join. See the module's description.
pub struct Window {
    config: WindowConfig,
    /// Holds everything while there are only SDK spans. Afterwards it is empty, and the other
    /// fields hold everything.
    sdk: Sdk,
    only_sdk: bool,
    index: Index,
    /// By slot.
    known: Vec<SlotState>,
    groups: Groups,
    /// One row of each trace id and of each fragment. All rows of a trace or fragment are in one
    /// group.
    by_trace: HashMap<TraceId, Slot>,
    by_fragment: HashMap<u64, Slot>,
    /// Groups with unreported changes.
    untold: Vec<GroupId>,
    /// Groups, roughly in the order in which they expire.
    ages: VecDeque<(u64, GroupId)>,
    /// Results for the next poll.
    ready: Vec<Assembled>,
    /// Scratch space for the row being added: rows of its trace, and rows whose parent may change.
    /// Kept to reuse the memory.
    joined: Vec<Slot>,
    touched: Vec<Slot>,
    /// `None` if links by time are disabled.
    timing: Option<Timing>,
    clocks: Clocks,
    counters: WindowCounters,
}

type HashMap<K, V> = hashbrown::HashMap<K, V, ahash::RandomState>;

/// Rows within this time of each other may be related inside a process.
const NEAR_NANO: i64 = 50_000_000;

impl Window {
    /// An empty window.
    pub fn new(config: WindowConfig) -> Self {
        // Growing tables step by step would copy them and make the kernel clear pages again and
        // again. Memory that is reserved at once costs nothing until used.
        let rows = config.max_rows.saturating_add(config.max_rows / 8);
        Self {
            config,
            sdk: Sdk::default(),
            only_sdk: true,
            index: Index::with_capacity(rows),
            known: Vec::with_capacity(rows),
            groups: Groups::default(),
            by_trace: HashMap::default(),
            by_fragment: HashMap::default(),
            untold: Vec::new(),
            ages: VecDeque::new(),
            ready: Vec::new(),
            joined: Vec::new(),
            touched: Vec::new(),
            timing: config.links_by_timing.then(Timing::default),
            clocks: Clocks::default(),
            counters: WindowCounters::default(),
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> WindowCounters {
        let timing = self.timing.as_ref().map(Timing::counters).unwrap_or_default();
        WindowCounters { timing, ..self.counters.and(self.sdk.counters()) }
    }

    /// Clock differences between hosts, by the calls of the last one or two minutes of which both
    /// ends were captured.
    pub fn clock_differences(&self) -> Vec<ClockDifference<Arc<str>>> {
        self.clocks.differences()
    }

    /// Rows held now.
    pub fn rows(&self) -> usize {
        self.index.len() + self.sdk.rows()
    }

    /// Adds the rows of a stored batch. Returns the number of unreadable rows: rows with a value
    /// outside its vocabulary, or without a span id.
    ///
    /// # Errors
    /// If the batch does not have the span schema. No row is added then.
    pub fn push(&mut self, batch: u64, rows: &SpanRows, now_nano: u64) -> Result<u64, ModelError> {
        if self.only_sdk {
            if let Some(names) = names(batch, rows) {
                self.sdk.push(&names, &Came::Batch(batch, rows), now_nano, &self.config);
                return Ok(0);
            }
            self.take_over();
        }
        let columns = Columns::of(batch, rows)?;
        for (host, name) in columns.hosts() {
            self.clocks.name(host, name);
        }
        let mut unreadable = 0;
        for row in 0..columns.len() {
            match columns.row(row) {
                Ok(row) => self.push_new(row, now_nano),
                Err(_) => unreadable += 1,
            }
        }
        self.make_room();
        Ok(unreadable)
    }

    /// Adds rows, such as those that [`Row::read`] returns.
    pub fn push_rows(&mut self, rows: impl IntoIterator<Item = Row>, now_nano: u64) {
        let rows: Vec<Row> = rows.into_iter().collect();
        if self.only_sdk {
            if let Some(names) = rows.iter().map(Named::of).collect::<Option<Vec<_>>>() {
                self.sdk.push(&names, &Came::Rows(&rows), now_nano, &self.config);
                return;
            }
            self.take_over();
        }
        for row in rows {
            self.push_new(row, now_nano);
        }
        self.make_room();
    }

    /// Moves everything from the SDK path into the full window, until the window is empty.
    fn take_over(&mut self) {
        self.only_sdk = false;
        let Taken { rows, ready, counters } = self.sdk.take();
        self.ready.extend(ready);
        self.counters = self.counters.and(counters);
        for (row, told, came_nano) in rows {
            self.push_row(row, told, came_nano);
        }
    }

    fn push_new(&mut self, row: Row, now_nano: u64) {
        self.counters.rows += 1;
        self.push_row(row, None, now_nano);
    }

    fn push_row(&mut self, mut row: Row, told: Option<Outcome>, now_nano: u64) {
        // Results of an earlier run are computed again.
        row.prior = None;
        let slot = self.index.insert(row);
        self.find_neighbours(slot, &row);
        let joined = std::mem::take(&mut self.joined);
        let mut groups = joined.iter().map(|other| self.known[*other as usize].group);
        let group = match groups.next() {
            Some(first) => {
                let rest: Vec<GroupId> = groups.filter(|group| *group != first).collect();
                rest.into_iter().fold(first, |one, other| self.merge(one, other))
            }
            None => {
                let group = self.groups.add();
                self.ages.push_back((now_nano, group));
                group
            }
        };
        self.joined = joined;
        let known =
            SlotState { group, verdict: Verdict::Nothing, told, by_timing: ByTiming::NotAsked };
        if slot as usize == self.known.len() {
            self.known.push(known);
        } else {
            self.known[slot as usize] = known;
        }
        if let Some(timing) = &mut self.timing {
            timing.note(&row, self.index.stamped(slot), now_nano);
        }
        let mut rows_in_group = 0;
        if let Some(group) = self.groups.get_mut(group) {
            group.slots.push(slot);
            group.last_row_nano = group.last_row_nano.max(now_nano);
            rows_in_group = group.slots.len();
        }
        self.mark(group, now_nano);
        let touched = std::mem::take(&mut self.touched);
        for other in &touched {
            self.mark(self.known[*other as usize].group, now_nano);
        }
        self.touched = touched;
        if rows_in_group >= self.config.max_group_rows {
            self.counters.groups_too_large += 1;
            self.let_go(group);
        }
    }

    /// Finds rows that belong to the same trace as the new one, and rows whose parent it may
    /// change.
    fn find_neighbours(&mut self, slot: Slot, row: &Row) {
        let Self { index, known, joined, touched, by_trace, by_fragment, clocks, .. } = self;
        joined.clear();
        touched.clear();
        if let Some(trace) = row.trace_id {
            join_or_lead(by_trace, trace, slot, joined);
        }
        if !row.capture.is_reported() {
            if let Some(fragment) = row.fragment_id {
                join_or_lead(by_fragment, fragment, slot, joined);
            }
            if let Some(seq) = row.request_tcp_seq {
                joined.extend(few(index.with_request_seq(seq)).filter(|other| {
                    let other = index.row(*other);
                    let ends =
                        if other.capture < row.capture { (other, row) } else { (row, other) };
                    let is_hop = same_hop(ends.0, ends.1);
                    if is_hop {
                        clocks.note(ends.0, ends.1);
                    }
                    is_hop
                }));
            }
            if let Some(id) = row.x_request_id {
                let others = index.with_x_request_id(id);
                // With more rows than this, the key proves nothing, with or without this row.
                if others.len() <= MAX_CANDIDATES + 1 {
                    let own =
                        |other: &Slot| *other != slot && index.row(*other).surely_same_process(row);
                    touched.extend(others.filter(own));
                }
            }
        }
        match row.capture {
            Capture::ServerProcess => {
                let apps = index.during(Sort::App, slot, NEAR_NANO).into_iter();
                touched.extend(apps.filter(|app| !known[*app as usize].is_named()));
            }
            Capture::App | Capture::Jvm if row.kind == Kind::Client => {
                touched.extend(index.during(Sort::Client, slot, NEAR_NANO));
            }
            Capture::Jvm => {
                let calls = index.during(Sort::Client, slot, NEAR_NANO).into_iter();
                let is_current = |call: &Slot| index.row(*call).parent_span_id == Some(row.span_id);
                touched.extend(calls.filter(is_current));
            }
            _ => {}
        }
    }

    fn mark(&mut self, id: GroupId, now_nano: u64) {
        if let Some(group) = self.groups.get_mut(id)
            && group.untold_since_nano.is_none()
        {
            group.untold_since_nano = Some(now_nano);
            self.untold.push(id);
        }
    }

    /// Merges two groups into the larger one and returns it.
    fn merge(&mut self, one: GroupId, other: GroupId) -> GroupId {
        let size = |id| self.groups.get(id).map(|group: &Group| group.slots.len());
        let (into, from) = match (size(one), size(other)) {
            (None, _) => return other,
            (_, None) => return one,
            _ if one == other => return one,
            (Some(a), Some(b)) if a >= b => (one, other),
            _ => (other, one),
        };
        let Some(gone) = self.groups.remove(from) else { return into };
        for slot in &gone.slots {
            self.known[*slot as usize].group = into;
        }
        if let Some(group) = self.groups.get_mut(into) {
            group.slots.extend_from_slice(&gone.slots);
            group.last_row_nano = group.last_row_nano.max(gone.last_row_nano);
        }
        self.groups.give_back(gone.slots);
        // Marks the group as changed since the earlier time. If neither had changed, the merge
        // itself is a change.
        if let Some(since) = gone.untold_since_nano {
            self.mark(into, since);
            if let Some(group) = self.groups.get_mut(into) {
                group.untold_since_nano = group.untold_since_nano.map(|other| other.min(since));
            }
        }
        into
    }

    /// The results that are due: every new or changed result of groups that have become quiet.
    pub fn poll(&mut self, now_nano: u64) -> Vec<Assembled> {
        self.clocks.tick(now_nano);
        if self.only_sdk {
            return self.sdk.poll(now_nano, false, &self.config);
        }
        let (quiet, longest) = (self.config.quiet_nano, self.config.longest_wait_nano);
        self.decide(now_nano, false);
        self.tell(Some(now_nano), |group| {
            let waited = group.untold_since_nano.map_or(0, |since| now_nano.saturating_sub(since));
            let quiet = now_nano.saturating_sub(group.last_row_nano) >= quiet;
            (quiet && now_nano >= group.held_until_nano) || waited >= longest
        });
        self.forget(now_nano);
        std::mem::take(&mut self.ready)
    }

    /// All outstanding results, due or not.
    pub fn flush(&mut self, now_nano: u64) -> Vec<Assembled> {
        if self.only_sdk {
            return self.sdk.poll(now_nano, true, &self.config);
        }
        // Asks the rules first, to find the calls without a parent.
        for id in self.untold.clone() {
            self.join(id);
        }
        self.decide(now_nano, true);
        self.tell(None, |_| true);
        self.forget(now_nano);
        std::mem::take(&mut self.ready)
    }

    /// Assigns calls by time that no other evidence assigns.
    fn decide(&mut self, now_nano: u64, all: bool) {
        let Self { timing: Some(timing), known, index, .. } = self else { return };
        let decided = timing.decide(now_nano, all, |at| match known[at.slot as usize].verdict {
            _ if !index.has(at) => timing::CallLink::Gone,
            Verdict::Child(parent) if parent.evidence != Evidence::Timing => {
                timing::CallLink::Of(parent.slot)
            }
            _ if index.row(at.slot).evidence == Some(Evidence::Ambiguous) => {
                timing::CallLink::Orphan
            }
            // The rules may not have been asked yet.
            Verdict::Nothing => {
                let fragment = index.row(at.slot).fragment_id;
                let request = fragment.and_then(|found| index.servers_of_fragment(found).next());
                request.map_or(timing::CallLink::OfNone, timing::CallLink::Of)
            }
            _ => timing::CallLink::OfNone,
        });
        for (call, parent) in decided {
            let known = &mut self.known[call.slot as usize];
            known.by_timing = ByTiming::Answered(parent);
            let group = known.group;
            if parent.is_some() {
                self.mark(group, now_nano);
            }
            if let Some(group) = self.groups.get_mut(group) {
                group.held_until_nano = 0;
            }
        }
    }

    /// Whether a group has calls whose parents are still undecided and may wait for them. If so,
    /// the group is examined again later.
    fn hold(&mut self, id: GroupId, now_nano: u64) -> bool {
        let Some(group) = self.groups.get_mut(id) else { return false };
        let waited = group.untold_since_nano.map_or(0, |since| now_nano.saturating_sub(since));
        let awaited = |slot: &Slot| self.known[*slot as usize].by_timing == ByTiming::Awaited;
        let waits = group.slots.iter().any(awaited);
        if !waits || waited >= self.config.longest_wait_nano {
            return false;
        }
        group.held_until_nano = now_nano.saturating_add(self.config.quiet_nano);
        self.untold.push(id);
        true
    }

    /// Reports the groups that are due. If `now_nano` is given, groups that wait for a decision are
    /// postponed.
    fn tell(&mut self, now_nano: Option<u64>, due: impl Fn(&Group) -> bool) {
        let mut due_now = Vec::new();
        let groups = &self.groups;
        self.untold.retain(|id| match groups.get(*id) {
            Some(group) if group.untold_since_nano.is_some() => {
                let is_due = due(group);
                due_now.extend(is_due.then_some(*id));
                !is_due
            }
            _ => false,
        });
        // Merges all linked groups first, so that no row is reported twice.
        let mut joined: Vec<GroupId> = due_now.into_iter().map(|id| self.join(id)).collect();
        joined.sort_unstable();
        joined.dedup();
        for id in joined {
            if now_nano.is_none_or(|now_nano| !self.hold(id, now_nano)) {
                self.tell_group(id);
            }
        }
    }

    /// The rules' result for a row, or the parent by time if the rules are ambiguous.
    fn verdict(&mut self, slot: Slot) -> Verdict {
        let verdict = verdict(&self.index, slot);
        let row = self.index.row(slot);
        // If the agent knows of no request, a guess is not allowed.
        if verdict != Verdict::Several || row.capture != Capture::ClientProcess {
            return verdict;
        }
        let known = &mut self.known[slot as usize];
        if let Some(timing) = &mut self.timing
            && known.by_timing == ByTiming::NotAsked
            && timing.waits(row)
        {
            known.by_timing = ByTiming::Awaited;
        }
        match known.by_timing {
            ByTiming::Answered(Some(parent)) => Verdict::Child(parent),
            _ => verdict,
        }
    }

    /// Asks the rules about every row of a group, merges the groups they link, and returns the
    /// resulting group.
    fn join(&mut self, mut id: GroupId) -> GroupId {
        let mut outside = Vec::new();
        let mut fresh = self.groups.get(id).map_or_else(Vec::new, |group| group.slots.clone());
        while !fresh.is_empty() {
            for slot in fresh.drain(..) {
                let verdict = self.verdict(slot);
                self.known[slot as usize].verdict = verdict;
                if let Verdict::Child(parent) = verdict
                    && self.known[parent.slot as usize].group != id
                {
                    outside.push(parent.slot);
                }
            }
            for slot in outside.drain(..) {
                let other = self.known[slot as usize].group;
                if other != id {
                    fresh.extend(self.groups.get(other).into_iter().flat_map(|g| &g.slots));
                    id = self.merge(id, other);
                }
            }
        }
        id
    }

    /// Reports new and changed results of a group whose links are up to date.
    fn tell_group(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(id) else { return };
        group.untold_since_nano = None;
        group.slots.sort_unstable();
        let known = &self.known;
        let results = resolve(
            &self.index,
            &group.slots,
            |slot| known[slot as usize].verdict,
            |slot| known[slot as usize].told.map(|told| told.trace_id),
        );
        for (slot, result) in group.slots.iter().zip(results) {
            let before = &mut self.known[*slot as usize].told;
            let now = Some(Outcome::of(&result));
            if *before != now {
                self.counters.told += 1;
                self.counters.changed += u64::from(before.is_some());
                *before = now;
                self.ready.push(result);
            }
        }
    }

    /// Removes groups without recent rows.
    fn forget(&mut self, now_nano: u64) {
        while let Some(&(heard, id)) = self.ages.front() {
            if now_nano.saturating_sub(heard) < self.config.remember_nano {
                break;
            }
            self.ages.pop_front();
            match self.groups.get(id).map(|group| (group.last_row_nano, group.untold_since_nano)) {
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
        self.only_sdk = self.index.is_empty();
    }

    /// Enforces the maximum number of rows.
    fn make_room(&mut self) {
        // Each group is skipped at most once, for being younger than its queue entry says.
        let mut passes = self.ages.len();
        while self.index.len() > self.config.max_rows {
            let Some((heard, id)) = self.ages.pop_front() else { break };
            match self.groups.get(id) {
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

    /// Reports a group's results and removes it.
    fn let_go(&mut self, id: GroupId) {
        let id = match self.groups.get(id) {
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
        let Some(group) = self.groups.remove(id) else { return };
        let mut last_trace = None;
        for slot in &group.slots {
            let row = self.index.row(*slot);
            if row.trace_id != last_trace {
                last_trace = row.trace_id;
                row.trace_id.and_then(|trace| self.by_trace.remove(&trace));
            }
            if !row.capture.is_reported() {
                row.fragment_id.and_then(|fragment| self.by_fragment.remove(&fragment));
            }
            self.index.remove(*slot);
        }
        self.groups.give_back(group.slots);
    }
}

impl SlotState {
    /// Whether the row itself names its parent. Then no other row can change it.
    fn is_named(&self) -> bool {
        let by = [Evidence::SpanContext, Evidence::TraceHeader, Evidence::CurrentSpan];
        self.told.and_then(|told| told.evidence).is_some_and(|evidence| by.contains(&evidence))
    }
}

/// Adds the row that represents the key to `joined`. If there is none, `slot` represents the key
/// from now on.
fn join_or_lead<K: Eq + std::hash::Hash>(
    leaders: &mut HashMap<K, Slot>,
    key: K,
    slot: Slot,
    joined: &mut Vec<Slot>,
) {
    match leaders.entry(key) {
        Entry::Occupied(leader) => joined.push(*leader.get()),
        Entry::Vacant(vacant) => {
            vacant.insert(slot);
        }
    }
}

#[cfg(test)]
mod tests;
