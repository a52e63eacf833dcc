//! A set of identities. Nearly all look-ups are for identities that are not in the set, and the
//! table is larger than any processor cache. So a look-up's cost is waiting for memory. Many rows
//! are prefetched together and then looked up.

use super::identity::NONE;

const LEAST_SLOTS: usize = 1 << 10;

/// A hash set with linear probing. Identities are random numbers (see [`super::identity`]), so they
/// serve as their own hashes.
pub(crate) struct IdentitySet {
    /// The table. Its size is a power of two. Empty slots contain `NONE`.
    slots: Box<[u64]>,
    len: usize,
}

impl IdentitySet {
    pub(crate) fn new() -> Self {
        Self { slots: Box::default(), len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn has(&self, identity: u64) -> bool {
        self.len > 0 && self.slots[self.find(identity)] != NONE
    }

    /// Adds an identity, which must not be `NONE`. Returns whether it is new.
    #[inline]
    pub(crate) fn add(&mut self, identity: u64) -> bool {
        // At most three quarters are full, so probe sequences are short.
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        let slot = self.find(identity);
        let is_new = self.slots[slot] == NONE;
        self.slots[slot] = identity;
        self.len += usize::from(is_new);
        is_new
    }

    pub(crate) fn remove(&mut self, identity: u64) {
        if !self.has(identity) {
            return;
        }
        let mut gap = self.find(identity);
        self.slots[gap] = NONE;
        self.len -= 1;
        // Entries after the gap move up if they were displaced past it.
        let mut slot = self.after(gap);
        while self.slots[slot] != NONE {
            let moved_by = |to: usize| to.wrapping_sub(self.home(self.slots[slot])) & self.mask();
            if moved_by(gap) < moved_by(slot) {
                self.slots.swap(gap, slot);
                gap = slot;
            }
            slot = self.after(slot);
        }
    }

    /// Removes all entries and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(NONE);
        self.len = 0;
    }

    /// Prefetches the slots of these identities into the cache together.
    pub(crate) fn fetch(&self, identities: &[u64]) {
        if self.len > 0 {
            let seen = identities.iter().fold(0, |seen, id| seen ^ self.slots[self.home(*id)]);
            std::hint::black_box(seen);
        }
    }

    /// The slot with the identity, or else the first free slot of its probe sequence.
    #[inline]
    fn find(&self, identity: u64) -> usize {
        let mut slot = self.home(identity);
        while self.slots[slot] != identity && self.slots[slot] != NONE {
            slot = self.after(slot);
        }
        slot
    }

    fn grow(&mut self) {
        let slots = vec![NONE; (self.slots.len() * 2).max(LEAST_SLOTS)].into_boxed_slice();
        let before = std::mem::replace(&mut self.slots, slots);
        for identity in before.iter().filter(|identity| **identity != NONE) {
            let slot = self.find(*identity);
            self.slots[slot] = *identity;
        }
    }

    #[inline]
    fn home(&self, identity: u64) -> usize {
        identity as usize & self.mask()
    }

    #[inline]
    fn after(&self, slot: usize) -> usize {
        (slot + 1) & self.mask()
    }

    #[inline]
    fn mask(&self) -> usize {
        self.slots.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few distinct home slots, so that probing, growing and removal interact.
        #[test]
        fn it_is_a_set(steps in proptest::collection::vec((0u8..10, 1u64..400), 0..3_000)) {
            let (mut set, mut model) = (IdentitySet::new(), HashSet::new());
            for (step, number) in steps {
                // Includes the last slot, so that probing wraps around.
                let identity = number % 7 + (number << 40) + if number % 2 == 0 { 1020 } else { 0 };
                match step {
                    0..6 => prop_assert_eq!(set.add(identity), model.insert(identity)),
                    6..9 => {
                        set.remove(identity);
                        model.remove(&identity);
                    }
                    _ if number == 399 => {
                        set.clear();
                        model.clear();
                    }
                    _ => set.fetch(&[identity, NONE]),
                }
                prop_assert_eq!(set.has(identity), model.contains(&identity));
                prop_assert_eq!(set.len(), model.len());
            }
            for number in 1u64..400 {
                let identity = number % 7 + (number << 40) + if number % 2 == 0 { 1020 } else { 0 };
                prop_assert_eq!(set.has(identity), model.contains(&identity));
            }
        }
    }
}
