//! Sets of hashes that may say yes by accident and never say no by mistake:
//! split block Bloom filters, of any number of blocks.

/// Lanes of one block, in each of which a hash sets a bit: the best number for
/// so few bits a hash, and a probe reads one block only.
const LANES: usize = 4;
/// Bytes of one block.
pub(super) const BLOCK_BYTES: usize = LANES * 8;

/// Odd numbers that spread a hash over the lanes, one each.
const SALTS: [u32; LANES] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f];

type Block = [u64; LANES];

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    blocks: Vec<Block>,
}

impl Filter {
    /// Room for this many hashes at so many bits each. With 5 bits about 10 of
    /// 100 foreign hashes seem to be there, with 8 about 3.
    pub(super) fn new(hashes: usize, bits_each: usize) -> Self {
        let blocks = hashes.saturating_mul(bits_each).div_ceil(BLOCK_BYTES * 8).max(1);
        Self { blocks: vec![[0; LANES]; blocks] }
    }

    pub(super) fn add(&mut self, hash: u64) {
        let at = block_of(hash, self.blocks.len());
        for (lane, bit) in self.blocks[at].iter_mut().zip(bits(hash)) {
            *lane |= bit;
        }
    }

    pub(super) fn may_have(&self, hash: u64) -> bool {
        let block = &self.blocks[block_of(hash, self.blocks.len())];
        block.iter().zip(bits(hash)).all(|(lane, bit)| lane & bit != 0)
    }

    /// Its blocks, as bytes: lanes little-endian.
    pub(super) fn write(&self, bytes: &mut Vec<u8>) {
        for lane in self.blocks.iter().flatten() {
            bytes.extend_from_slice(&lane.to_le_bytes());
        }
    }

    pub(super) fn byte_len(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }
}

/// Where in the bytes of a filter the block of a hash begins.
pub(super) fn block_offset(hash: u64, filter_bytes: usize) -> usize {
    block_of(hash, filter_bytes / BLOCK_BYTES) * BLOCK_BYTES
}

/// Whether the block of a hash, as bytes, may hold it.
pub(super) fn block_may_have(block: &[u8], hash: u64) -> bool {
    let lanes = block.as_chunks::<8>().0;
    lanes.len() == LANES
        && lanes.iter().zip(bits(hash)).all(|(lane, bit)| u64::from_le_bytes(*lane) & bit != 0)
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
            let mut bytes = Vec::new();
            filter.write(&mut bytes);
            assert_eq!(bytes.len(), filter.byte_len());
            let in_bytes = |hash| {
                let at = block_offset(hash, bytes.len());
                block_may_have(&bytes[at..at + BLOCK_BYTES], hash)
            };
            assert!((0..5_000).all(|n| filter.may_have(hash(n)) && in_bytes(hash(n))));
            let wrong = (5_000..15_000).filter(|n| filter.may_have(hash(*n))).count();
            assert!(wrong < most, "{wrong} of 10000 at {bits_each} bits");
            assert!((5_000..15_000).all(|n| filter.may_have(hash(n)) == in_bytes(hash(n))));
        }
    }
}
