//! Sets of hashes in files, which may say yes by accident and never say no by
//! mistake: homogeneous ribbon filters (Dillinger and others, "Fast Succinct
//! Retrieval and Approximate Membership using Ribbon", 2021, section 4).
//!
//! Each hash stands for an equation over a band of 64 neighbouring unknowns: the
//! sum of those that its coefficients choose is zero. A solution of them all is
//! the filter; of other hashes' equations it fulfils one of two by accident. So
//! there are [`SOLUTIONS`] of them, chosen at random among the many that there
//! are, and a hash is there where all of them fulfil its equation.
//!
//! For 7.5 bits a hash, one of 127 others seems to be there; a Bloom filter as
//! large lets one of 30 pass.
//!
//! Its bytes: for every 64 unknowns, these of each solution as a u64,
//! little-endian.

use super::keys::fold;

/// Unknowns of one band.
const BAND: usize = 64;
/// Each halves the accidents.
const SOLUTIONS: usize = 7;
/// Bytes of the unknowns of one band.
const SEGMENT_BYTES: usize = SOLUTIONS * 8;
/// Bytes that are read for one hash, at most: its band begins in one segment and
/// may end in the next.
pub(super) const PROBE_BYTES: usize = 2 * SEGMENT_BYTES;

/// So many hashes have a hundred unknowns: with fewer, equations that depend on
/// one another let more pass.
const HASHES_FOR_100: usize = 94;
/// And these in any case.
const LEAST_UNKNOWNS: usize = 8;

// Part of the file format, as the hashes are.
const SECRET: [u64; 2] = [0x8bb8_4b93_962e_acc9, 0x4b33_a62e_d433_d4a3];

/// The band of a hash: its first unknown, of so many, and its coefficients, of
/// which the first is one.
const fn equation(hash: u64, unknowns: usize) -> (usize, u64) {
    let starts = (unknowns - BAND + 1) as u64;
    ((((hash >> 32) * starts) >> 32) as usize, fold(hash ^ SECRET[0], SECRET[1]) | 1)
}

/// Makes filters, in the same memory.
#[derive(Debug, Default)]
pub(super) struct Maker {
    /// Of each unknown the equation that begins with it, once others are taken out.
    band: Vec<u64>,
}

impl Maker {
    /// Adds the bytes of a filter of these hashes; how many bytes. It is quicker
    /// where they are in order.
    pub(super) fn write(&mut self, hashes: &[u64], bytes: &mut Vec<u8>) -> usize {
        let segments = (hashes.len() * 100 / HASHES_FOR_100 + LEAST_UNKNOWNS).div_ceil(BAND);
        let unknowns = segments * BAND;
        self.band.clear();
        self.band.resize(unknowns, 0);
        for hash in hashes {
            let (first, coefficients) = equation(*hash, unknowns);
            self.add(first, coefficients);
        }
        let from = bytes.len();
        bytes.resize(from + segments * SEGMENT_BYTES, 0);
        self.solve(&mut bytes[from..]);
        segments * SEGMENT_BYTES
    }

    /// Brings the equations into a form in which each begins with another unknown.
    fn add(&mut self, mut first: usize, mut coefficients: u64) {
        // One that follows from the others becomes zero.
        while coefficients != 0 {
            let zeros = coefficients.trailing_zeros();
            first += zeros as usize;
            coefficients >>= zeros;
            match &mut self.band[first] {
                free @ 0 => {
                    *free = coefficients;
                    return;
                }
                taken => coefficients ^= *taken,
            }
        }
    }

    /// From the last unknown to the first: each follows from those after it, or may
    /// be anything.
    fn solve(&self, bytes: &mut [u8]) {
        let mut last = [0u64; SOLUTIONS];
        let mut chance = SECRET[0];
        let segments = bytes.as_chunks_mut::<SEGMENT_BYTES>().0.iter_mut();
        for (segment, bands) in segments.zip(self.band.chunks(BAND)).rev() {
            for coefficients in bands.iter().rev() {
                if *coefficients == 0 {
                    chance = fold(chance ^ SECRET[1], SECRET[0]);
                    for (number, last) in last.iter_mut().enumerate() {
                        *last = *last << 1 | chance >> number & 1;
                    }
                } else {
                    // Written out for several solutions at once: few processors that
                    // this is built for count bits in one instruction.
                    for last in &mut last {
                        *last <<= 1;
                        let mut sum = *last & coefficients;
                        for half in [32, 16, 8, 4, 2, 1] {
                            sum ^= sum >> half;
                        }
                        *last |= sum & 1;
                    }
                }
            }
            for (word, last) in segment.as_chunks_mut::<8>().0.iter_mut().zip(last) {
                *word = last.to_le_bytes();
            }
        }
    }
}

/// Which bytes of a filter of so many tell of a hash; none where it is none.
pub(super) const fn probe(hash: u64, filter_bytes: usize) -> std::ops::Range<usize> {
    let segments = filter_bytes / SEGMENT_BYTES;
    if segments == 0 {
        return 0..0;
    }
    let first = equation(hash, segments * BAND).0 / BAND;
    let end = if first + 2 < segments { first + 2 } else { segments };
    first * SEGMENT_BYTES..end * SEGMENT_BYTES
}

/// Whether the filter of so many bytes may have a hash of which these
/// [tell](probe).
pub(super) fn may_have(probed: &[u8], hash: u64, filter_bytes: usize) -> bool {
    let segments = filter_bytes / SEGMENT_BYTES;
    if segments == 0 {
        return true;
    }
    let (first, coefficients) = equation(hash, segments * BAND);
    let shift = first % BAND;
    let words = probed.as_chunks::<8>().0;
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    (0..SOLUTIONS).all(|number| {
        let pair = u128::from(word(SOLUTIONS + number)) << BAND | u128::from(word(number));
        ((pair >> shift) as u64 & coefficients).count_ones() % 2 == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::keys::hash_text;

    fn hashes(numbers: std::ops::Range<u64>) -> Vec<u64> {
        let mut hashes: Vec<u64> = numbers.map(|n| hash_text(&n.to_string())).collect();
        hashes.sort_unstable();
        hashes
    }

    fn has(filter: &[u8], hash: u64) -> bool {
        may_have(&filter[probe(hash, filter.len())], hash, filter.len())
    }

    #[test]
    fn what_was_added_is_there_and_little_else() {
        let mut maker = Maker::default();
        for count in [0, 1, 40, 300, 2_000, 10_000] {
            let mut filter = vec![7];
            let own = hashes(0..count);
            let length = maker.write(&own, &mut filter);
            let filter = &filter[1..];
            assert_eq!(filter.len(), length);
            assert!(filter.len() * 8 <= count as usize * 15 / 2 + 8 * PROBE_BYTES, "{count}");
            assert!(own.iter().all(|hash| has(filter, *hash)), "{count}");
            let others = hashes(1_000_000..1_050_000);
            let wrong = others.iter().filter(|hash| has(filter, **hash)).count();
            // 390, give or take 20.
            assert!((290..490).contains(&wrong), "{wrong} of 50000 with {count}");
        }
    }

    #[test]
    fn the_order_does_not_matter_and_what_is_damaged_is_only_wrong() {
        let mut maker = Maker::default();
        let mut own = hashes(0..500);
        own.reverse();
        let mut filter = Vec::new();
        maker.write(&own, &mut filter);
        assert!(own.iter().all(|hash| has(&filter, *hash)));
        for length in 0..filter.len() {
            has(&filter[..length], own[0]);
        }
        assert!(has(&[], own[0]), "what is not there excludes nothing");
    }

    #[test]
    fn a_filter_stays_what_it_was_written_as() {
        let mut filter = Vec::new();
        Maker::default().write(&hashes(0..100), &mut filter);
        assert_eq!(crc32fast::hash(&filter), 3_273_669_752, "files that were written would say no");
    }
}
