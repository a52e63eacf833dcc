//! A cache with a maximum number of bytes.

use std::collections::VecDeque;
use std::hash::Hash;
use std::sync::Arc;

use ahash::AHashMap;

/// A cache that evicts the least recently used values.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    entries: AHashMap<K, Entry<V>>,
    /// Uses in order. Only the last use of each key counts.
    uses: VecDeque<(K, u64)>,
    next: u64,
    bytes: usize,
    most_bytes: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: Arc<V>,
    bytes: usize,
    used: u64,
}

impl<K: Clone + Eq + Hash, V> Cache<K, V> {
    /// An empty cache for this many bytes.
    pub(crate) fn new(most_bytes: usize) -> Self {
        let (entries, uses) = (AHashMap::new(), VecDeque::new());
        Self { entries, uses, next: 0, bytes: 0, most_bytes }
    }

    /// The value of this key, if it is cached.
    pub(crate) fn get(&mut self, key: &K) -> Option<Arc<V>> {
        let entry = self.entries.get_mut(key)?;
        entry.used = self.next;
        let value = Arc::clone(&entry.value);
        self.uses.push_back((key.clone(), self.next));
        self.next += 1;
        self.forget_old_uses();
        Some(value)
    }

    /// Adds a value of this size and evicts others if necessary.
    pub(crate) fn put(&mut self, key: K, value: Arc<V>, bytes: usize) {
        self.bytes += bytes;
        let entry = Entry { value, bytes, used: self.next };
        if let Some(before) = self.entries.insert(key.clone(), entry) {
            self.bytes -= before.bytes;
        }
        self.uses.push_back((key, self.next));
        self.next += 1;
        while self.bytes > self.most_bytes
            && let Some((key, used)) = self.uses.pop_front()
        {
            if self.entries.get(&key).is_some_and(|entry| entry.used == used)
                && let Some(entry) = self.entries.remove(&key)
            {
                self.bytes -= entry.bytes;
            }
        }
        self.forget_old_uses();
    }

    /// Keeps the list of uses about as long as the list of values.
    fn forget_old_uses(&mut self) {
        if self.uses.len() > 4 * self.entries.len() + 64 {
            let entries = &self.entries;
            self.uses
                .retain(|(key, used)| entries.get(key).is_some_and(|entry| entry.used == *used));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut cache = Cache::new(10);
        for key in 0..4 {
            cache.put(key, Arc::new(key), 3);
            assert_eq!(cache.get(&0).as_deref(), Some(&0), "it is used again and again");
        }
        assert_eq!([1, 2, 3].map(|key| cache.get(&key).is_some()), [false, true, true]);
        // A replaced value, and one that is larger than the cache.
        cache.put(0, Arc::new(7), 4);
        assert_eq!((cache.get(&0).as_deref(), cache.bytes), (Some(&7), 10));
        cache.put(9, Arc::new(9), 11);
        assert_eq!((cache.get(&9), cache.bytes), (None, 0));
        for _ in 0..1000 {
            cache.put(1, Arc::new(1), 1);
            cache.get(&1);
        }
        assert!(cache.uses.len() < 100, "{}", cache.uses.len());
    }
}
