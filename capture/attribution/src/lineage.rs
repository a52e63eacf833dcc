//! Where the tasks of a process come from, and what they have served. As much is
//! remembered as is likely to be asked for: what was not asked for the longest goes.

use std::collections::VecDeque;
use std::hash::Hash;

use ahash::AHashMap;

use super::share::Share;
use super::{ENDED_NANO, PROVEN_AFTER};

/// Tasks remembered of a process, and requests that are over, at least; at most twice
/// as many.
pub(crate) const REMEMBERED: usize = 8192;
/// How far back a task is followed.
pub(crate) const MAX_GENERATIONS: usize = 8;
/// Tasks made in requests that are watched, whether they go on with the work of others.
const MAX_WATCHED: usize = 1024;
/// Tasks that went on may be as few by chance.
const FEW_WORKERS: f32 = 3.0;
/// How long after their request.
const WATCHED_NANO: u64 = 300_000_000;
/// How far above the task that reads a connection's bytes those are that were made for
/// it: asyncio accepts in one task, and adds the reader in a callback of its.
const CLAIMED_GENERATIONS: usize = 2;

/// The request of its parent as whose child a task was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// It is not known when it was made.
    Unknown,
    /// Its parent served none.
    None,
    /// One of so many.
    Several(usize),
    /// This one, by the number of its exchange.
    Request(u64),
}

/// A request that is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ended {
    pub(crate) exchange: u64,
    pub(crate) connection: u64,
    pub(crate) fragment: u64,
    pub(crate) end_nano: u64,
}

impl Ended {
    const fn is_recent(&self, now_nano: u64) -> bool {
        now_nano.saturating_sub(self.end_nano) <= ENDED_NANO
    }
}

#[derive(Debug, Clone, Copy)]
struct Born {
    parent: u64,
    root: Root,
    /// When it was made, `CLOCK_MONOTONIC`; 0 where that was not seen.
    nano: u64,
    /// It may go on with what others than its parent give it, as a pool's worker does.
    lasting: bool,
    /// It was made to handle what had just been read.
    handler: bool,
    /// Its own, and those of what comes of it; of lasting ones, and of those whose request is
    /// known.
    calls: Calls,
}

/// When a task has made calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Calls {
    None,
    Some,
    /// Not for the first time, when the request was over as whose child it was made.
    Late,
}

/// For which connections a task and those that come from it work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Connection(u64),
    Several,
}

#[derive(Debug, Default)]
pub(crate) struct Lineage {
    tasks: Recent<u64, Born>,
    /// The last request of each task, where it serves none; that of each connection;
    /// and all by their numbers.
    ended: Recent<u64, Ended>,
    ended_on: Recent<u64, Ended>,
    ended_exchanges: Recent<u64, Ended>,
    claims: Recent<u64, Claim>,
    /// The connections of tasks that have answered, where these may be theirs.
    answered: Recent<u64, u64>,
    /// How many lasting tasks have gone on after their request, and how many have ended
    /// before they did.
    lasted: u32,
    not_lasted: u32,
    /// Tasks that were made in a request and have called, with that; looked at again when it
    /// has been over for a while.
    watched: VecDeque<(u64, u64)>,
    /// Those that did no more than what they were made for, and those that went on.
    children: Share,
    /// For which request those were at work that last gave tasks theirs, if for any; and when.
    gifts: Recent<u64, (Option<u64>, u64)>,
    /// Tasks that have made others which read a connection for all.
    connectors: Recent<u64, ()>,
}

impl Lineage {
    /// A task is made now.
    pub(crate) fn born(&mut self, task: u64, parent: u64, root: Root, lasting: bool, nano: u64) {
        let (handler, calls) = (false, Calls::None);
        self.tasks.insert(task, Born { parent, root, nano, lasting, handler, calls });
    }

    /// The task is made to handle what has just been read.
    pub(crate) fn handles(&mut self, task: u64) {
        if let Some(born) = self.tasks.get(&task) {
            self.tasks.insert(task, Born { handler: true, ..born });
        }
    }

    /// Whether it was.
    pub(crate) fn is_handler(&mut self, task: u64) -> bool {
        self.tasks.get(&task).is_some_and(|born| born.handler)
    }

    /// A task that was made in a request, or what comes of it, makes a call. One that has
    /// called before, and does so when the request is over, may be a worker that serves
    /// others by now.
    pub(crate) fn child_calls(&mut self, task: u64, exchange: u64, is_over: bool, now_nano: u64) {
        let Some(born) = self.tasks.get(&task).filter(|born| !born.lasting) else { return };
        let calls = match born.calls {
            Calls::None => {
                if self.watched.len() >= MAX_WATCHED {
                    self.watched.pop_front();
                }
                self.watched.push_back((task, exchange));
                Calls::Some
            }
            Calls::Some if is_over => {
                self.children.count(false);
                Calls::Late
            }
            Calls::Some | Calls::Late => return self.look_again(now_nano),
        };
        self.tasks.insert(task, Born { calls, ..born });
        self.look_again(now_nano);
    }

    /// Counts the tasks that were made in requests which are over for a while.
    fn look_again(&mut self, now_nano: u64) {
        while let Some((task, exchange)) = self.watched.front().copied() {
            let Some(ended) = self.ended_exchanges.get(&exchange) else {
                // It is open, or over for so long that it is forgotten; this one is asked for
                // in its turn.
                self.watched.rotate_left(1);
                return;
            };
            if now_nano.saturating_sub(ended.end_nano) < WATCHED_NANO {
                return;
            }
            self.watched.pop_front();
            if self.tasks.get(&task).is_some_and(|born| born.calls == Calls::Some) {
                self.children.count(true);
            }
        }
    }

    /// Whether tasks that are made in a request work for that.
    pub(crate) fn trusts_children(&self) -> bool {
        self.children.wrong() < FEW_WORKERS || self.children.is_believed()
    }

    /// Whether tasks were seen that go on with the work of others.
    pub(crate) const fn has_workers(&self) -> bool {
        !self.children.is_clean()
    }

    /// A task was given work by one that was at work for this request, or for none.
    pub(crate) fn given(&mut self, task: u64, exchange: Option<u64>, nano: u64) {
        self.gifts.insert(task, (exchange, nano));
    }

    /// For which request, if for any, it was last given work; not later than this.
    pub(crate) fn last_given(&mut self, task: u64, now_nano: u64) -> Option<Option<u64>> {
        let (exchange, nano) = self.gifts.get(&task)?;
        (nano <= now_nano).then_some(exchange)
    }

    /// A task has read the answer to another one's call: it was made for a connection, as was
    /// all that its maker makes.
    pub(crate) fn reads_for_others(&mut self, parent: u64) {
        if self.connectors.get(&parent).is_none() {
            self.connectors.insert(parent, ());
        }
    }

    /// Whether a task of that parent gives others what has come on a connection.
    pub(crate) fn is_connections(&mut self, task: u64, parent: u64) -> bool {
        self.connectors.get(&task).is_some() || self.connectors.get(&parent).is_some()
    }

    /// Whether they do as far as was seen, and enough were.
    pub(crate) fn is_certain_of_children(&self) -> bool {
        self.children.is_clean() && self.children.total() >= PROVEN_AFTER as f32
    }

    /// Of a task that is lasting, whether it makes its first call now.
    pub(crate) fn begins(&mut self, task: u64) -> Option<bool> {
        let born = self.tasks.get(&task).filter(|born| born.lasting)?;
        let calls = born.calls.max(Calls::Some);
        self.tasks.insert(task, Born { calls, ..born });
        Some(born.calls == Calls::None)
    }

    /// A lasting task goes on, and the request is over as whose child it was made.
    pub(crate) fn lasts(&mut self, task: u64) {
        if let Some(born) = self.tasks.get(&task).filter(|born| born.calls != Calls::Late) {
            self.tasks.insert(task, Born { calls: Calls::Late, ..born });
            self.lasted = self.lasted.saturating_add(1);
        }
    }

    /// A task has ended. Those that are lasting and have done no more than what they were
    /// made for prove what such are made for.
    pub(crate) fn task_ended(&mut self, task: u64) {
        if let Some(born) = self.tasks.get(&task)
            && let (Root::Request(_), Calls::Some, true) = (born.root, born.calls, born.lasting)
        {
            self.not_lasted = self.not_lasted.saturating_add(1);
        }
    }

    /// Whether lasting tasks work for whom they are made, as far as was seen.
    pub(crate) const fn trusts_lasting(&self) -> bool {
        self.not_lasted >= PROVEN_AFTER && self.not_lasted / PROVEN_AFTER >= self.lasted
    }

    /// A task has read a request on a connection that was established at that time. What
    /// has made the task since then was made for that connection, and so is all that
    /// comes of it.
    pub(crate) fn read_by(&mut self, task: u64, connection: u64, established_nano: u64) {
        let mut at = task;
        for _ in 0..CLAIMED_GENERATIONS {
            let Some(parent) = self.parent(at) else { return };
            let after = |born: Born| born.nano > established_nano;
            if !self.tasks.get(&parent).is_some_and(after) {
                return;
            }
            self.claim(parent, connection);
            at = parent;
        }
    }

    /// A task has answered a request of a connection that was established at that time,
    /// and comes of no request. Where it was made since, and answers a second one, it was
    /// made for the connection, and not for the one request.
    pub(crate) fn answered_by(&mut self, task: u64, connection: u64, established_nano: u64) {
        let made_since = |born: Born| born.nano > established_nano && born.root == Root::None;
        if !self.tasks.get(&task).is_some_and(made_since) {
            return;
        }
        match self.answered.get(&task) {
            None => self.answered.insert(task, connection),
            Some(first) => {
                self.claim(task, first);
                self.claim(task, connection);
            }
        }
    }

    fn claim(&mut self, task: u64, connection: u64) {
        let claim = match self.claims.get(&task) {
            None => Claim::Connection(connection),
            Some(Claim::Connection(known)) if known == connection => return,
            Some(_) => Claim::Several,
        };
        self.claims.insert(task, claim);
    }

    /// The connection for which alone a task was made.
    pub(crate) fn works_for(&mut self, task: u64) -> Option<u64> {
        match self.claims.get(&task)? {
            Claim::Connection(connection) => Some(connection),
            Claim::Several => None,
        }
    }

    /// It is heard now that a task has this parent (0: it is not).
    pub(crate) fn note(&mut self, task: u64, parent: u64) {
        if parent != 0 && self.tasks.get(&task).is_none_or(|born| born.parent != parent) {
            let root = Root::Unknown;
            let (lasting, handler, calls) = (false, false, Calls::None);
            self.tasks.insert(task, Born { parent, root, nano: 0, lasting, handler, calls });
        }
    }

    pub(crate) fn parent(&mut self, task: u64) -> Option<u64> {
        self.tasks.get(&task).map(|born| born.parent).filter(|parent| *parent != 0)
    }

    /// By whom a task was made and when, where that was seen, and it works for no others.
    pub(crate) fn made_by(&mut self, task: u64) -> Option<(u64, u64)> {
        let was_seen = |born: &Born| born.parent != 0 && born.nano != 0;
        let born = self.tasks.get(&task).filter(|born| was_seen(born) && !born.lasting)?;
        Some((born.parent, born.nano))
    }

    /// Whether it is known what its parent served when it was made.
    pub(crate) fn was_seen_made(&mut self, task: u64) -> bool {
        self.tasks.get(&task).is_some_and(|born| born.nano != 0)
    }

    /// Whether that was seen, and after this time.
    pub(crate) fn was_seen_made_after(&mut self, task: u64, nano: u64) -> bool {
        self.tasks.get(&task).is_some_and(|born| born.nano > nano)
    }

    pub(crate) fn root(&mut self, task: u64) -> Root {
        self.tasks.get(&task).map_or(Root::Unknown, |born| born.root)
    }

    /// From its first call on, a task belongs to the request that its parent served then.
    pub(crate) fn bind(&mut self, task: u64, exchange: u64) {
        if let Some(born) = self.tasks.get(&task)
            && born.root == Root::Unknown
        {
            self.tasks.insert(task, Born { root: Root::Request(exchange), ..born });
        }
    }

    /// A task begins to serve a request.
    pub(crate) fn serves(&mut self, task: u64) {
        self.ended.remove(&task);
    }

    /// Whether any task is known, or a thread that was seen to be made.
    pub(crate) fn has_tasks(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// A request is over; `task` has read it, where one has.
    pub(crate) fn ended(&mut self, task: Option<u64>, ended: Ended) {
        if let Some(task) = task {
            self.ended.insert(task, ended);
        }
        self.ended_on.insert(ended.connection, ended);
        self.ended_exchanges.insert(ended.exchange, ended);
    }

    /// A request by its number, if it is over for no longer than [`ENDED_NANO`].
    pub(crate) fn ended_exchange(&mut self, exchange: u64, now_nano: u64) -> Option<Ended> {
        self.ended_exchanges.get(&exchange).filter(|ended| ended.is_recent(now_nano))
    }

    /// The last request of a connection, likewise.
    pub(crate) fn last_ended_on(&mut self, connection: u64, now_nano: u64) -> Option<Ended> {
        self.ended_on.get(&connection).filter(|ended| ended.is_recent(now_nano))
    }

    /// The request that a task served last, if it is over for no longer than
    /// [`ENDED_NANO`] and the task has begun no other.
    pub(crate) fn last_ended(&mut self, task: u64, now_nano: u64) -> Option<Ended> {
        self.ended.get(&task).filter(|ended| ended.is_recent(now_nano))
    }
}

/// A table that forgets what was not asked for the longest, some thousands at once.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    young: AHashMap<K, V>,
    old: AHashMap<K, V>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { young: AHashMap::new(), old: AHashMap::new() }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Recent<K, V> {
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(*value);
        }
        let value = self.old.remove(key)?;
        self.insert(*key, value);
        Some(value)
    }
}

impl<K: Copy + Eq + Hash, V> Recent<K, V> {
    /// What is known, without asking for it again.
    pub(crate) fn peek(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    /// What is known, to be added to.
    pub(crate) fn entry(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        if !self.young.contains_key(&key) {
            let known = self.old.remove(&key);
            self.insert(key, known.unwrap_or_default());
        }
        self.young.entry(key).or_default()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= REMEMBERED {
            // With the memory that it has.
            std::mem::swap(&mut self.old, &mut self.young);
            self.young.clear();
        }
        self.young.insert(key, value);
    }

    fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_remembered_and_the_table_stays_small() {
        let mut table = Recent::default();
        for key in 0..10 * REMEMBERED {
            table.insert(key, key);
            assert_eq!(table.get(&0), Some(0));
        }
        assert_eq!(table.get(&1), None);
        assert!(table.len() <= 2 * REMEMBERED);
    }
}
