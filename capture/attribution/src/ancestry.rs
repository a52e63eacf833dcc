//! For whose request a task or a thread makes a call, by who made whom.

use ahash::AHashMap;
use spanwise_capture_protocols::attribution::{Caller, Fragment};
use spanwise_model::Evidence;

use super::lineage::{self, Ended, Root};
use super::lines::{Line, is_work, origin};
use super::open::Open;
use super::{LIKELY, PROVEN_AFTER, ProcessState, within};

/// The task that the program began with, where tasks are numbered (Go's).
const FIRST_TASK: u64 = 1;
/// It is said no more often of a process that the origin of its tasks is not known.
const SAY_ORPHANS_EVERY_NANO: u64 = 1_000_000_000;
/// How sure it is that a task works for whom it was last given something: work that waits in a
/// buffer changes hands unseen.
pub(crate) const GIVEN: f32 = 0.97;

/// Where a call comes from, by its task.
pub(crate) enum Origin {
    Request(Fragment),
    /// From no request, as far as its task tells.
    Elsewhere,
    /// It is not known by which task its task was made, or that one.
    Unknown,
}

/// Which request a task serves by itself, or its connection has.
enum Serves {
    Nothing,
    /// This one, which is open since then.
    Open {
        exchange: u64,
        fragment: u64,
        read_nano: u64,
    },
    Several(usize),
    /// None, after this one.
    Ended(Ended),
}

impl Serves {
    fn one_of<'a>(open: impl IntoIterator<Item = &'a Open>, ended: Option<Ended>) -> Self {
        let mut open = open.into_iter();
        match (open.next(), open.count()) {
            (None, _) => ended.map_or(Self::Nothing, Self::Ended),
            (Some(only), 0) => {
                let Open { exchange, fragment, read_nano, .. } = *only;
                Self::Open { exchange, fragment, read_nano }
            }
            (Some(_), others) => Self::Several(1 + others),
        }
    }

    const fn root(&self) -> Root {
        match self {
            Self::Nothing => Root::None,
            Self::Open { exchange, .. } => Root::Request(*exchange),
            Self::Several(candidates) => Root::Several(*candidates),
            Self::Ended(ended) => Root::Request(ended.exchange),
        }
    }
}

impl ProcessState {
    fn on_connection(&mut self, connection: u64, now_nano: u64) -> Serves {
        let ended = self.lineage.last_ended_on(connection, now_nano);
        Serves::one_of(self.open.on_connection(connection), ended)
    }

    /// What a task serves: what it has read itself, or what was read on the connection
    /// for which it was made.
    fn served_by(&mut self, task: u64, now_nano: u64) -> Serves {
        let ended = self.lineage.last_ended(task, now_nano);
        match Serves::one_of(self.open.on_line(Line::Task(task)), ended) {
            Serves::Nothing => match self.lineage.works_for(task) {
                Some(connection) => self.on_connection(connection, now_nano),
                None => Serves::Nothing,
            },
            serves => serves,
        }
    }

    /// As whose child a thread is made now by this one.
    pub(crate) fn root_of_thread(&self, thread: u32) -> Root {
        Serves::one_of(self.open.on_line(Line::Thread(thread)), None).root()
    }

    /// As whose child a task is made now by this one.
    pub(crate) fn root_by(&mut self, parent: u64, now_nano: u64) -> Root {
        let root = self.served_by(parent, now_nano).root();
        if root != Root::None {
            return root;
        }
        let Root::Request(exchange) = self.lineage.root(parent) else {
            return self.root_of_family(parent, now_nano);
        };
        // Who has just answered may begin with the next request, where that was read
        // before: servers handle one after the other of those that were pipelined.
        let Some(ended) = self.lineage.ended_exchange(exchange, now_nano) else {
            return Root::None;
        };
        let next = self.open.on_connection(ended.connection);
        match next.filter(|open| open.pipelined).count() {
            0 => Root::None,
            others => Root::Several(others + 1),
        }
    }

    /// As whose child a task is made by one that comes of no request: that of the
    /// connection for which those before it were made.
    fn root_of_family(&mut self, task: u64, now_nano: u64) -> Root {
        let mut child = task;
        for _ in 0..lineage::MAX_GENERATIONS {
            let (Root::None, Some(parent)) = (self.lineage.root(child), self.lineage.parent(child))
            else {
                return Root::None;
            };
            let root = self.family(parent, now_nano).root();
            if root != Root::None {
                return root;
            }
            child = parent;
        }
        Root::None
    }

    /// As whose child a task is made in a callback for what has just been read.
    pub(crate) fn root_on(&mut self, connection: u64, now_nano: u64) -> Root {
        match self.on_connection(connection, now_nano) {
            Serves::Ended(_) => Root::None,
            serves => serves.root(),
        }
    }

    pub(crate) fn is_orphan_due(&mut self, now_nano: u64) -> bool {
        let due = now_nano.saturating_sub(self.orphan_nano) >= SAY_ORPHANS_EVERY_NANO;
        if due {
            self.orphan_nano = now_nano;
        }
        due
    }

    /// The request for which a task makes a call: its own, or that of the nearest task
    /// it comes from which has one.
    pub(crate) fn of_task(&mut self, sender: Caller, lost_nano: u64) -> Origin {
        if sender.task == 0 {
            return Origin::Elsewhere;
        }
        if is_work(sender.task) {
            return self.of_work(sender, lost_nano);
        }
        let sure = |read_nano: u64| if read_nano >= lost_nano { 1.0 } else { LIKELY };
        let now_nano = sender.time_nano;
        match self.served_by(sender.task, now_nano) {
            Serves::Open { fragment, read_nano, .. } => {
                return Origin::Request(within(fragment, Evidence::Task, sure(read_nano)));
            }
            Serves::Several(candidates) => {
                return Origin::Request(Fragment::Ambiguous { candidates });
            }
            // It does nothing after its request but what it has left to do for it.
            Serves::Ended(ended) => {
                let sure = sure(ended.end_nano);
                return Origin::Request(within(ended.fragment, Evidence::Task, sure));
            }
            Serves::Nothing => {}
        }
        if let Some(found) = self.of_giver(sender) {
            return found;
        }
        self.lineage.note(sender.task, sender.parent_task);
        let mut child = sender.task;
        let mut lasting = false;
        // The one before, which `child` has made.
        let mut below = None;
        for _ in 0..lineage::MAX_GENERATIONS {
            let root = self.lineage.root(child);
            let parent = self.lineage.parent(child);
            let begins = self.lineage.begins(child);
            lasting |= begins.is_some();
            // Who made it is not for whom it works, if it goes on with the work of others.
            let sure = |read_nano: u64| if lasting { LIKELY } else { sure(read_nano) };
            let serves = match (root, parent) {
                (Root::Request(exchange), _) => {
                    if begins == Some(false) && self.open.get(exchange).is_none() {
                        self.lineage.lasts(child);
                        return Origin::Elsewhere;
                    }
                    if lasting && !self.lineage.trusts_lasting() {
                        return Origin::Elsewhere;
                    }
                    let is_open = self.open.get(exchange).is_some();
                    // Who handles it is its own, and not what that has made.
                    let made_in_it =
                        if self.lineage.is_handler(child) { below } else { Some(child) };
                    if let Some(task) = made_in_it {
                        self.lineage.child_calls(task, exchange, !is_open, now_nano);
                        if !self.lineage.trusts_children() {
                            return Origin::Elsewhere;
                        }
                    }
                    if let Some(open) = self.open.get(exchange) {
                        let sure = sure(open.read_nano);
                        let sure = made_in_it.map_or(sure, |_| self.as_child(sure));
                        return Origin::Request(within(open.fragment, Evidence::Task, sure));
                    }
                    // What outlives its request may by now work for others, as who writes
                    // to a connection that all share.
                    let busy = parent.is_some_and(|parent| {
                        !self.lineage.was_seen_made(child)
                            && !self.open.on_line(Line::Task(parent)).is_empty()
                    });
                    if busy {
                        return Origin::Elsewhere;
                    }
                    return match self.lineage.ended_exchange(exchange, now_nano) {
                        Some(ended) => {
                            Origin::Request(within(ended.fragment, Evidence::Task, LIKELY))
                        }
                        None => Origin::Elsewhere,
                    };
                }
                (Root::Several(candidates), _) => {
                    return Origin::Request(Fragment::Ambiguous { candidates });
                }
                (_, None) if child == FIRST_TASK => return Origin::Elsewhere,
                (_, None) => return Origin::Unknown,
                // It may come from what was made for a connection, as did who reads that.
                (Root::None, Some(_)) if lasting && !self.lineage.trusts_lasting() => {
                    Serves::Nothing
                }
                (Root::None, Some(parent)) => self.family(parent, now_nano),
                (Root::Unknown, Some(parent)) => {
                    let serves = self.served_by(parent, now_nano);
                    if let Root::Request(exchange) = serves.root() {
                        self.lineage.bind(child, exchange);
                        let is_over = matches!(serves, Serves::Ended(_));
                        self.lineage.child_calls(child, exchange, is_over, now_nano);
                        if !self.lineage.trusts_children() {
                            return Origin::Elsewhere;
                        }
                    }
                    serves
                }
            };
            match serves {
                Serves::Open { fragment, read_nano, .. } => {
                    let sure = match root {
                        Root::Unknown => self.as_child(sure(read_nano)),
                        _ => sure(read_nano),
                    };
                    return Origin::Request(within(fragment, Evidence::Task, sure));
                }
                Serves::Several(candidates) => {
                    return Origin::Request(Fragment::Ambiguous { candidates });
                }
                Serves::Ended(ended) => {
                    return Origin::Request(within(ended.fragment, Evidence::Task, LIKELY));
                }
                Serves::Nothing => {}
            }
            let Some(parent) = parent else { break };
            below = Some(child);
            child = parent;
        }
        Origin::Elsewhere
    }

    /// A task that waited was given something by another one, which has this parent: its work;
    /// or what it has waited for in the course of its work.
    pub(crate) fn given(&mut self, task: u64, giver: u64, parent: u64, nano: u64) {
        let found = match self.served_by(giver, nano).root() {
            Root::Request(exchange) => Some(exchange),
            Root::Several(_) => None,
            // Who connects, reads and writes for it gives it no work.
            _ if parent == task || self.lineage.is_connections(giver, parent) => return,
            _ => match self.lineage.last_given(giver, nano) {
                Some(passed_on) => passed_on,
                None if self.lineage.last_given(parent, nano).is_some() => return,
                None => self.begun_for(giver, parent, nano),
            },
        };
        self.lineage.given(task, found, nano);
    }

    /// The request in which a task was made that works for nobody else.
    fn begun_for(&mut self, task: u64, parent: u64, nano: u64) -> Option<u64> {
        match self.lineage.root(task) {
            Root::Request(exchange) => return Some(exchange),
            Root::None | Root::Several(_) => return None,
            Root::Unknown => {}
        }
        match self.served_by(parent, nano).root() {
            Root::Request(exchange) => Some(exchange),
            Root::Unknown | Root::None | Root::Several(_) => None,
        }
    }

    /// The request for which those were at work that gave a task its work, where tasks were seen
    /// to go on with the work of others.
    fn of_giver(&mut self, sender: Caller) -> Option<Origin> {
        if !self.lineage.has_workers() {
            return None;
        }
        let Some(exchange) = self.lineage.last_given(sender.task, sender.time_nano)? else {
            return Some(Origin::Elsewhere);
        };
        if let Some(open) = self.open.get(exchange) {
            return Some(Origin::Request(within(open.fragment, Evidence::Task, GIVEN)));
        }
        // It goes on for nobody who waits, or was given other work since that was not seen.
        let ended = self.lineage.ended_exchange(exchange, sender.time_nano)?;
        Some(Origin::Request(within(ended.fragment, Evidence::Task, LIKELY)))
    }

    /// How sure a link is of a task that was made in a request: it may serve others later,
    /// until those of the process were seen not to.
    fn as_child(&self, sure: f32) -> f32 {
        if self.lineage.is_certain_of_children() { sure } else { sure.min(LIKELY) }
    }

    /// Whether a task of which no request is known works for none, as tasks have told of
    /// calls that were made for one. It may still serve a connection that is open, if it
    /// was made since that was established, or before anybody looked.
    pub(crate) fn is_of_others(&mut self, task: u64, established: &AHashMap<u64, u64>) -> bool {
        if task == 0 || self.told_by_task < PROVEN_AFTER {
            return false;
        }
        let Some(only) = self.open.any() else { return true };
        let Some(since) = established.get(&only.connection) else { return false };
        let mut first = task;
        for _ in 0..lineage::MAX_GENERATIONS {
            let Some(parent) = self.lineage.parent(first) else { break };
            first = parent;
        }
        !self.lineage.was_seen_made_after(first, *since)
    }

    /// The request for which a thread makes a call that serves none itself: that of the
    /// thread by which it was made.
    pub(crate) fn of_thread(&mut self, sender: Caller, lost_nano: u64) -> Option<Fragment> {
        let task = origin(&sender);
        // There may have been another one of that number since.
        if !self.lineage.was_seen_made_after(task, lost_nano) {
            return None;
        }
        match self.of_task(Caller { task, ..sender }, lost_nano) {
            Origin::Request(Fragment::Within { fragment, confidence, .. }) => {
                Some(within(fragment, Evidence::Thread, confidence))
            }
            Origin::Request(found) => Some(found),
            Origin::Elsewhere | Origin::Unknown => None,
        }
    }

    fn family(&mut self, task: u64, now_nano: u64) -> Serves {
        match self.lineage.works_for(task) {
            Some(connection) => self.on_connection(connection, now_nano),
            None => Serves::Nothing,
        }
    }
}
