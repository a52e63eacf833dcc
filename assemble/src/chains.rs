//! A map from a key to the rows that have it.
//!
//! The map stores neither keys nor lists. It finds a key by its hash and asks the first row of the
//! chain whether it has that key. An array with one entry for each slot links the rows of a key. So
//! a row costs a few bytes, needs no allocation, and takes the same time however many rows share
//! its key.

use hashbrown::HashTable;

use crate::slot::Slot;

/// All rows of one key.
#[derive(Debug, Clone, Copy)]
struct Chain {
    /// Upper half of the key's hash.
    hash: u32,
    head: Slot,
    len: u32,
}

impl Chain {
    /// The hash that the table uses, computed from the stored half.
    const fn spread(hash: u32) -> u64 {
        // Fibonacci hashing, because the table looks at the highest and lowest bits.
        (hash as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20)
    }
}

/// A row's neighbours in its chain. The chain is a ring: the last row's next is the first.
#[derive(Debug, Clone, Copy, Default)]
struct Link {
    next: Slot,
    previous: Slot,
}

/// A map from keys to rows. See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Chains {
    table: HashTable<Chain>,
    links: Vec<Link>,
}

/// The slots of one key, in order of insertion.
#[derive(Clone, Copy)]
pub(crate) struct ChainIter<'a> {
    links: &'a [Link],
    at: Slot,
    left: u32,
}

impl Iterator for ChainIter<'_> {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        self.left = self.left.checked_sub(1)?;
        let slot = self.at;
        self.at = self.links[slot as usize].next;
        Some(slot)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for ChainIter<'_> {}

const fn upper(hash: u64) -> u32 {
    (hash >> 32) as u32
}

impl Chains {
    /// The slots of a key with this hash. `is_key` returns whether a slot has that key.
    pub(crate) fn get(&self, hash: u64, is_key: impl Fn(Slot) -> bool) -> ChainIter<'_> {
        let hash = upper(hash);
        let found = self
            .table
            .find(Chain::spread(hash), |chain| chain.hash == hash && is_key(chain.head))
            .copied();
        let Chain { head, len, .. } = found.unwrap_or(Chain { hash, head: 0, len: 0 });
        ChainIter { links: &self.links, at: head, left: len }
    }

    /// Adds a slot under a key.
    pub(crate) fn insert(&mut self, hash: u64, slot: Slot, is_key: impl Fn(Slot) -> bool) {
        let hash = upper(hash);
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Link::default());
        }
        let chain = self
            .table
            .find_mut(Chain::spread(hash), |chain| chain.hash == hash && is_key(chain.head));
        let Some(chain) = chain else {
            self.links[slot as usize] = Link { next: slot, previous: slot };
            let chain = Chain { hash, head: slot, len: 1 };
            self.table.insert_unique(Chain::spread(hash), chain, |chain| Chain::spread(chain.hash));
            return;
        };
        chain.len += 1;
        let head = chain.head;
        let last = std::mem::replace(&mut self.links[head as usize].previous, slot);
        self.links[last as usize].next = slot;
        self.links[slot as usize] = Link { next: head, previous: last };
    }

    /// Removes a slot from a key.
    pub(crate) fn remove(&mut self, hash: u64, slot: Slot, is_key: impl Fn(Slot) -> bool) {
        let hash = upper(hash);
        let Link { next, previous } = self.links[slot as usize];
        let is_it = |chain: &Chain| {
            chain.hash == hash && (chain.head == slot || (next != slot && is_key(chain.head)))
        };
        let Ok(mut entry) = self.table.find_entry(Chain::spread(hash), is_it) else { return };
        let chain = entry.get_mut();
        chain.len -= 1;
        if chain.len == 0 {
            entry.remove();
            return;
        }
        if chain.head == slot {
            chain.head = next;
        }
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
    }

    /// Number of keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The map behaves like lists in a hash map, also when hashes collide.
        #[test]
        fn like_lists_in_a_map(
            steps in prop::collection::vec((0..40u32, 0..6u64, any::<bool>()), 1..200),
        ) {
            let mut chains = Chains::default();
            let mut lists: BTreeMap<u64, Vec<Slot>> = BTreeMap::new();
            let mut keys: BTreeMap<Slot, u64> = BTreeMap::new();
            // Three keys share each hash.
            let hash = |key: u64| (key / 3) << 40;
            for (slot, key, add) in steps {
                if add && !keys.contains_key(&slot) {
                    chains.insert(hash(key), slot, |other| keys.get(&other) == Some(&key));
                    lists.entry(key).or_default().push(slot);
                    keys.insert(slot, key);
                } else if let Some(key) = keys.get(&slot).copied().filter(|_| !add) {
                    chains.remove(hash(key), slot, |other| keys.get(&other) == Some(&key));
                    lists.entry(key).or_default().retain(|other| *other != slot);
                    keys.remove(&slot);
                }
                lists.retain(|_, list| !list.is_empty());
                prop_assert_eq!(chains.len(), lists.len());
                for key in 0..6 {
                    let found = chains.get(hash(key), |other| keys.get(&other) == Some(&key));
                    prop_assert_eq!(found.len(), lists.get(&key).map_or(0, Vec::len));
                    let found: Vec<Slot> = found.collect();
                    prop_assert_eq!(found, lists.get(&key).cloned().unwrap_or_default());
                }
            }
        }
    }
}
