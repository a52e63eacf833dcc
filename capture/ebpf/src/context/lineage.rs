//! Where the tasks of a process come from, and what they have served. As much is
//! remembered as is likely to be asked for: what was not asked for the longest goes.

use std::hash::Hash;

use ahash::AHashMap;

use super::ENDED_NANO;

/// Tasks remembered of a process, and requests that are over, at least; at most twice
/// as many.
const REMEMBERED: usize = 8192;
/// How far back a task is followed.
pub(super) const MAX_GENERATIONS: usize = 8;

/// The request of its parent as whose child a task was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    /// It is not known when it was made.
    Unknown,
    /// Its parent served none.
    None,
    /// This one, by the number of its exchange.
    Request(u64),
}

/// A request that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) exchange: u64,
    pub(super) fragment: u64,
    pub(super) end_nano: u64,
}

#[derive(Debug, Clone, Copy)]
struct Born {
    parent: u64,
    root: Root,
}

#[derive(Debug, Default)]
pub(super) struct Lineage {
    tasks: Recent<u64, Born>,
    /// The last request of each task, where it serves none.
    ended: Recent<u64, Ended>,
}

impl Lineage {
    /// A task is made now.
    pub(super) fn born(&mut self, task: u64, parent: u64, root: Root) {
        self.ended.remove(&task);
        self.tasks.insert(task, Born { parent, root });
    }

    /// It is heard now that a task has this parent (0: it is not).
    pub(super) fn note(&mut self, task: u64, parent: u64) {
        if parent != 0 && self.tasks.get(&task).is_none_or(|born| born.parent != parent) {
            self.tasks.insert(task, Born { parent, root: Root::Unknown });
        }
    }

    pub(super) fn parent(&mut self, task: u64) -> Option<u64> {
        self.tasks.get(&task).map(|born| born.parent).filter(|parent| *parent != 0)
    }

    pub(super) fn root(&mut self, task: u64) -> Root {
        self.tasks.get(&task).map_or(Root::Unknown, |born| born.root)
    }

    /// From its first call on, a task belongs to the request that its parent served then.
    pub(super) fn bind(&mut self, task: u64, exchange: u64) {
        if let Some(born) = self.tasks.get(&task)
            && born.root == Root::Unknown
        {
            self.tasks.insert(task, Born { root: Root::Request(exchange), ..born });
        }
    }

    /// A task begins to serve a request.
    pub(super) fn serves(&mut self, task: u64) {
        self.ended.remove(&task);
    }

    pub(super) fn ended(&mut self, task: u64, ended: Ended) {
        self.ended.insert(task, ended);
    }

    /// The request that a task served last, if it is over for no longer than
    /// [`ENDED_NANO`] and the task has begun no other.
    pub(super) fn last_ended(&mut self, task: u64, now_nano: u64) -> Option<Ended> {
        let recent = |ended: &Ended| now_nano.saturating_sub(ended.end_nano) <= ENDED_NANO;
        self.ended.get(&task).filter(recent)
    }
}

/// A table that forgets what was not asked for the longest, some thousands at once.
#[derive(Debug)]
struct Recent<K, V> {
    young: AHashMap<K, V>,
    old: AHashMap<K, V>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { young: AHashMap::new(), old: AHashMap::new() }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Recent<K, V> {
    fn get(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(*value);
        }
        let value = self.old.remove(key)?;
        self.insert(*key, value);
        Some(value)
    }

    fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= REMEMBERED {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, value);
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
        assert!(table.young.len() + table.old.len() <= 2 * REMEMBERED);
    }
}
