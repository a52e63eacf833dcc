//! Slots that can be used again.
//!
//! They are used in ascending order, round robin. Rows leave roughly in order of arrival, so rows
//! that arrive together lie together in every table. The most recently freed slots, by contrast,
//! are scattered.

use crate::slot::Slot;

/// A set of slots.
#[derive(Debug, Default)]
pub(super) struct FreeSlots {
    /// One bit for each slot.
    words: Vec<u64>,
    len: usize,
    /// The word from which the last slot was taken.
    at: usize,
}

impl FreeSlots {
    /// Number of slots.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds a slot.
    pub(super) fn put(&mut self, slot: Slot) {
        let (word, bit) = (slot as usize / 64, slot % 64);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << bit;
        self.len += 1;
    }

    /// Takes the next slot in round-robin order.
    pub(super) fn take(&mut self) -> Option<Slot> {
        self.len = self.len.checked_sub(1)?;
        while self.words[self.at] == 0 {
            self.at = (self.at + 1) % self.words.len();
        }
        let word = &mut self.words[self.at];
        let bit = word.trailing_zeros();
        *word &= *word - 1;
        // Slots have 32 bits.
        Some(self.at as Slot * 64 + bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_in_order_and_once() {
        let mut slots = FreeSlots::default();
        assert_eq!(slots.take(), None);
        [200, 3, 64, 5].into_iter().for_each(|slot| slots.put(slot));
        assert_eq!((slots.take(), slots.take(), slots.len()), (Some(3), Some(5), 2));
        slots.put(1_000);
        slots.put(70);
        let rest: Vec<_> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(rest, [64, 70, 200, 1_000]);
        slots.put(1);
        assert_eq!((slots.take(), slots.take()), (Some(1), None));
    }
}
