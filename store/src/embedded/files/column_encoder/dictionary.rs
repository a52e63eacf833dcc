//! The dictionary of a column: its distinct values, which pages refer to by number.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// A dictionary. See the module's description.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    /// Numbers of values, by the values' hashes.
    numbers: HashTable<(u64, u32)>,
    /// The end of each value in `bytes`.
    ends: Vec<usize>,
    /// The values, encoded as in a page.
    pub(super) bytes: Vec<u8>,
}

impl Dictionary {
    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of a value with this hash. A new value is added.
    pub(super) fn number(&mut self, hash: u64, value: &[u8]) -> u32 {
        let Self { numbers, ends, bytes } = self;
        let of = |number: u32| {
            let number = number as usize;
            let start = number.checked_sub(1).map_or(0, |before| ends[before]);
            &bytes[start..ends[number]]
        };
        let is_it = |known: &(u64, u32)| known.0 == hash && of(known.1) == value;
        match numbers.entry(hash, is_it, |known| known.0) {
            Entry::Occupied(known) => known.get().1,
            Entry::Vacant(place) => {
                // At most the number of rows in a row group.
                let number = ends.len() as u32;
                place.insert((hash, number));
                bytes.extend_from_slice(value);
                ends.push(bytes.len());
                number
            }
        }
    }

    /// Removes all but the first values.
    pub(super) fn truncate(&mut self, len: usize) {
        self.numbers.retain(|known| (known.1 as usize) < len);
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Bits for the numbers of its values.
    pub(super) fn width(&self) -> u32 {
        let greatest = self.len().saturating_sub(1);
        usize::BITS - greatest.leading_zeros()
    }
}
