//! Split block Bloom filters with any number of blocks, for sets of hashes in memory. They may
//! return false positives but no false negatives, and hashes can be added at any time. Files use
//! [ribbons](crate::embedded::files::index::ribbon) instead.

/// Lanes of a block. A hash sets one bit in each. Four is the best number for so few bits per hash,
/// and a probe reads only one block.
const LANES: usize = 4;
/// Bytes of one block.
const BLOCK_BYTES: usize = LANES * 8;

/// Odd multipliers that spread a hash, one for each lane.
const SALTS: [u32; LANES] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f];

type Block = [u64; LANES];

/// A Bloom filter. See the module's description.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    blocks: Vec<Block>,
}

impl Filter {
    /// A filter for this many hashes with `bits_each` bits for each. The rate of false positives is
    /// about 10 % with 5 bits, and 3 % with 8.
    pub(crate) fn new(hashes: usize, bits_each: usize) -> Self {
        let blocks = hashes.saturating_mul(bits_each).div_ceil(BLOCK_BYTES * 8).max(1);
        Self { blocks: vec![[0; LANES]; blocks] }
    }

    pub(crate) fn add(&mut self, hash: u64) {
        let at = block_of(hash, self.blocks.len());
        for (lane, bit) in self.blocks[at].iter_mut().zip(bits(hash)) {
            *lane |= bit;
        }
    }

    pub(crate) fn may_have(&self, hash: u64) -> bool {
        let block = &self.blocks[block_of(hash, self.blocks.len())];
        block.iter().zip(bits(hash)).all(|(lane, bit)| lane & bit != 0)
    }
}

fn block_of(hash: u64, blocks: usize) -> usize {
    // The upper half, scaled; `blocks` is far below 2^32.
    (((hash >> 32) * blocks as u64) >> 32) as usize
}

fn bits(hash: u64) -> impl Iterator<Item = u64> {
    let low = hash as u32;
    SALTS.into_iter().map(move |salt| 1 << (low.wrapping_mul(salt) >> 26))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::keys::hash_text;

    fn hash(n: u64) -> u64 {
        hash_text(&n.to_string())
    }

    #[test]
    fn what_was_added_is_there_and_little_else() {
        for (bits_each, most) in [(5, 1200), (8, 400), (12, 150)] {
            let mut filter = Filter::new(5_000, bits_each);
            (0..5_000).for_each(|n| filter.add(hash(n)));
            assert!((0..5_000).all(|n| filter.may_have(hash(n))));
            let wrong = (5_000..15_000).filter(|n| filter.may_have(hash(*n))).count();
            assert!(wrong < most, "{wrong} of 10000 at {bits_each} bits");
        }
    }
}
