//! For each hash of a row group, the blocks that contain it, as entries of a
//! [ribbon](super::ribbon).
//!
//! A hash in few blocks has one number for each block. Five bits of a number are the block; the
//! other bits are zero. If they are not zero, the ribbon does not contain an entry with this index.
//! A hash in many blocks has two numbers with the indexes [`MANY`], both zero. It may be in all
//! blocks.
//!
//! For a hash that is in no block, a look-up returns a wrong block in one of eight row groups, and
//! hardly ever all blocks.

use super::ribbon::Entry;

/// Maximum blocks of a row group.
pub(crate) const MOST_BLOCKS: usize = 1 << BLOCK_BITS;
const BLOCK_BITS: u32 = 5;
/// A hash in more blocks than these counts as being in all.
const FEW: usize = 8;
const MANY: [u8; 2] = [254, 255];

/// A hash as it is stored in entries: its lowest bits make room for the block's number.
pub(crate) const fn key(hash: u64) -> u64 {
    hash & !(MOST_BLOCKS as u64 - 1)
}

/// A hash combined with the number of a block that contains it.
pub(crate) const fn placed(hash: u64, block: usize) -> u64 {
    key(hash) | block as u64
}

/// Sorts. Hashes are evenly distributed, so one pass puts each nearly in place. Then parts of a few
/// hundred are sorted within the processor's cache.
pub(crate) fn sorted(all: Vec<u64>) -> Vec<u64> {
    const BITS: u32 = 10;
    let part = |hash: u64| (hash >> (u64::BITS - BITS)) as usize;
    let mut ends = [0; 1 << BITS];
    all.iter().for_each(|hash| ends[part(*hash)] += 1);
    // Converts counts to the start of each part. The starts then move to the ends.
    let mut begin = 0;
    for end in &mut ends {
        begin += std::mem::replace(end, begin);
    }
    let mut sorted = vec![0; all.len()];
    for hash in all {
        let place = &mut ends[part(hash)];
        sorted[*place] = hash;
        *place += 1;
    }
    let mut begin = 0;
    for end in ends {
        sorted[begin..end].sort_unstable();
        begin = end;
    }
    sorted
}

/// The entries of hashes with block numbers, which must be sorted and distinct.
pub(crate) fn entries(all: &[u64]) -> Vec<Entry> {
    let mut entries = Vec::with_capacity(all.len());
    for of_hash in all.chunk_by(|one, other| key(*one) == key(*other)) {
        let hash = key(of_hash[0]);
        if of_hash.len() > FEW {
            entries.extend(MANY.map(|index| Entry { hash, index, number: 0 }));
        } else {
            let blocks = (0u8..).zip(of_hash);
            entries.extend(blocks.map(|(index, placed)| Entry {
                hash,
                index,
                number: (placed ^ hash) as u8,
            }));
        }
    }
    entries
}

/// The blocks that may contain a hash with these numbers, as a bit mask. The lowest bit is the
/// first block.
pub(crate) fn blocks(number: impl Fn(u8) -> u8) -> u32 {
    if MANY.iter().all(|index| number(*index) == 0) {
        return u32::MAX;
    }
    let numbers = (0..FEW as u8).map(number);
    let named = numbers.take_while(|number| *number < 1 << BLOCK_BITS);
    named.fold(0, |blocks, number| blocks | 1 << number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hashes_are_sorted_also_where_they_are_not_spread(
            all in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..9], 0..400),
        ) {
            let mut expected = all.clone();
            expected.sort_unstable();
            prop_assert_eq!(sorted(all), expected);
        }

        #[test]
        fn blocks_are_those_that_were_said(mut wanted in any::<u32>(), few in any::<bool>()) {
            if few {
                wanted &= 0x0101_0811;
            }
            let placed: Vec<u64> = (0..32)
                .filter(|block| wanted >> block & 1 == 1)
                .map(|block| placed(u64::MAX, block))
                .collect();
            let entries = entries(&placed);
            let number = |index| {
                entries.iter().find(|entry| entry.index == index).map_or(0xff, |entry| entry.number)
            };
            let found = blocks(number);
            if placed.len() > FEW {
                prop_assert_eq!(entries.len(), 2);
                prop_assert_eq!(found, u32::MAX);
            } else {
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
