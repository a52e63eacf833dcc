//! A map from a key to the few rows that have it.

use std::hash::Hash;

use ahash::AHashMap;

use crate::index::Slot;

/// Nearly every key has one or two rows; only those with more cost a list.
#[derive(Debug)]
enum Few {
    One([Slot; 1]),
    Two([Slot; 2]),
    Many(Vec<Slot>),
}

impl Few {
    fn as_slice(&self) -> &[Slot] {
        match self {
            Self::One(slots) => slots,
            Self::Two(slots) => slots,
            Self::Many(slots) => slots,
        }
    }
}

/// Key to slots, in the order in which they were inserted.
#[derive(Debug)]
pub(crate) struct Multi<K>(AHashMap<K, Few>);

impl<K> Default for Multi<K> {
    fn default() -> Self {
        Self(AHashMap::new())
    }
}

impl<K: Eq + Hash> Multi<K> {
    /// The slots under a key.
    pub(crate) fn get(&self, key: &K) -> &[Slot] {
        self.0.get(key).map_or(&[], Few::as_slice)
    }

    /// Adds a slot under a key.
    pub(crate) fn insert(&mut self, key: K, slot: Slot) {
        self.0
            .entry(key)
            .and_modify(|few| match few {
                Few::One([first]) => *few = Few::Two([*first, slot]),
                Few::Two([first, second]) => *few = Few::Many(vec![*first, *second, slot]),
                Few::Many(slots) => slots.push(slot),
            })
            .or_insert(Few::One([slot]));
    }

    /// Removes a slot from under a key.
    pub(crate) fn remove(&mut self, key: &K, slot: Slot) {
        let Some(few) = self.0.get_mut(key) else { return };
        match few {
            Few::One(_) => {}
            Few::Two([first, second]) => {
                *few = Few::One([if *first == slot { *second } else { *first }]);
                return;
            }
            Few::Many(slots) => {
                slots.retain(|other| *other != slot);
                if !slots.is_empty() {
                    return;
                }
            }
        }
        self.0.remove(key);
    }

    /// Number of keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_and_go() {
        let mut multi = Multi::default();
        for slot in 0..4 {
            multi.insert("k", slot);
        }
        assert_eq!(multi.get(&"k"), [0, 1, 2, 3]);
        for slot in [1, 3, 0] {
            multi.remove(&"k", slot);
        }
        assert_eq!(multi.get(&"k"), [2]);
        multi.insert("k", 5);
        multi.remove(&"k", 2);
        assert_eq!(multi.get(&"k"), [5]);
        multi.remove(&"k", 5);
        assert_eq!(multi.len(), 0);
    }
}
