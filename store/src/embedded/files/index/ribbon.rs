//! A compact map from hashes to small numbers. A look-up of a stored hash returns its number. A
//! look-up of any other hash returns a random number. The map does not store which hashes it
//! contains.
//!
//! This is a ribbon (Dillinger, Hübschle-Schneider, Sanders, Walzer, "Fast Succinct Retrieval and
//! Approximate Membership using Ribbon", 2021, section 2). A hash defines an equation over a band
//! of 64 consecutive unknowns: the sum of the unknowns that its coefficients select equals its
//! number, mixed with bits of the hash. (Without mixing, most sums would be zero, also for hashes
//! that were not stored.) The file contains a solution of all equations. With 5 % spare unknowns,
//! one equation in 10,000 contradicts others. Such entries are returned and stored elsewhere.
//!
//! One hash can have several numbers with different indexes. They share a band, so one read returns
//! them all.
//!
//! Format: for every 64 unknowns, one u64 (little-endian) for each of their bits.

use std::ops::Range;

use crate::embedded::keys::fold;

/// Unknowns in one band.
const BAND: usize = 64;
/// Bits of a number.
const BITS: usize = 8;
/// Bytes of the unknowns of one band.
pub(crate) const SEGMENT_BYTES: usize = BITS * 8;
/// Maximum bytes that are read for one hash. Its band begins in one segment and may end in the
/// next.
pub(crate) const PROBE_BYTES: usize = 2 * SEGMENT_BYTES;

/// Percentage of unknowns that are used for hashes.
const USED_OF_100: usize = 95;
/// Minimum spare unknowns.
const LEAST_UNKNOWNS: usize = 8;

// Part of the file format, as the hashes are.
const SECRET: [u64; 2] = [0x8bb8_4b93_962e_acc9, 0x4b33_a62e_d433_d4a3];

/// A hash with one of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hash: u64,
    pub(crate) index: u8,
    pub(crate) number: u8,
}

/// The first unknown of the hash's band.
const fn band(hash: u64, segments: usize) -> usize {
    let starts = (segments * BAND - BAND + 1) as u64;
    (((hash >> 32) * starts) >> 32) as usize
}

/// The coefficients of an equation (the first is always 1), and the value that is mixed into the
/// number.
const fn equation(hash: u64, index: u8) -> (u64, u8) {
    let coefficients = fold(hash ^ SECRET[0] ^ (index as u64) << 8, SECRET[1]);
    (coefficients | 1, fold(coefficients ^ SECRET[1], SECRET[0]) as u8)
}

/// Makes ribbons and reuses its memory.
#[derive(Debug, Default)]
pub(crate) struct Maker {
    /// For each unknown, the reduced equation that begins with it: its coefficients (zero if there
    /// is none) and its number.
    equations: Vec<(u64, u8)>,
}

impl Maker {
    /// The bytes of a ribbon with these entries, and the entries that did not fit. Faster if
    /// entries are sorted by hash.
    pub(crate) fn ribbon(&mut self, entries: &[Entry]) -> (Vec<u8>, Vec<Entry>) {
        let segments = (entries.len() * 100 / USED_OF_100 + LEAST_UNKNOWNS).div_ceil(BAND);
        self.equations.clear();
        self.equations.resize(segments * BAND, (0, 0));
        let left_out = entries.iter().filter(|entry| !self.add(entry, segments)).copied().collect();
        let mut bytes = vec![0; segments * SEGMENT_BYTES];
        self.solve(&mut bytes);
        (bytes, left_out)
    }

    /// Reduces an equation until it begins with an unknown of its own. Returns false if it
    /// contradicts the others.
    fn add(&mut self, entry: &Entry, segments: usize) -> bool {
        let mut first = band(entry.hash, segments);
        let (mut own, mixed_in) = equation(entry.hash, entry.index);
        let mut number = entry.number ^ mixed_in;
        while own != 0 {
            let zeros = own.trailing_zeros();
            first += zeros as usize;
            own >>= zeros;
            let (taken, its) = &mut self.equations[first];
            if *taken == 0 {
                (*taken, *its) = (own, number);
                return true;
            }
            own ^= *taken;
            number ^= *its;
        }
        // The equation follows from the others, or contradicts them.
        number == 0
    }

    /// Back substitution from the last unknown to the first. A free unknown becomes zero.
    fn solve(&self, bytes: &mut [u8]) {
        let mut last = [0u64; BITS];
        let segments = bytes.as_chunks_mut::<SEGMENT_BYTES>().0.iter_mut();
        for (segment, equations) in segments.zip(self.equations.chunks(BAND)).rev() {
            for (own, number) in equations.iter().rev() {
                // Parity is computed for all bits at once. The processors that the program is built
                // for need not have a popcount instruction.
                for (bit, last) in last.iter_mut().enumerate() {
                    *last <<= 1;
                    let mut sum = *last & own;
                    for half in [32, 16, 8, 4, 2, 1] {
                        sum ^= sum >> half;
                    }
                    *last |= (sum ^ u64::from(*number) >> bit) & 1;
                }
            }
            for (word, last) in segment.as_chunks_mut::<8>().0.iter_mut().zip(last) {
                *word = last.to_le_bytes();
            }
        }
    }
}

/// The byte range of a ribbon that contains a hash's band. Empty for an empty ribbon.
pub(crate) const fn probe(hash: u64, segments: usize) -> Range<usize> {
    if segments == 0 {
        return 0..0;
    }
    let first = band(hash, segments) / BAND;
    let end = if first + 2 < segments { first + 2 } else { segments };
    first * SEGMENT_BYTES..end * SEGMENT_BYTES
}

/// The number of this index for the hash. `probed` is the [range](probe) of the ribbon.
pub(crate) fn number(probed: &[u8], segments: usize, hash: u64, index: u8) -> u8 {
    if segments == 0 {
        return 0;
    }
    let shift = band(hash, segments) % BAND;
    let (own, mixed_in) = equation(hash, index);
    let words = probed.as_chunks::<8>().0;
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
    (0..BITS).fold(mixed_in, |number, bit| {
        let pair = u128::from(word(BITS + bit)) << BAND | u128::from(word(bit));
        let sum = ((pair >> shift) as u64 & own).count_ones() % 2;
        number ^ (sum as u8) << bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::keys::hash_text;

    fn entries(count: u64) -> Vec<Entry> {
        let entry = |n: u64| Entry {
            hash: hash_text(&(n / 2).to_string()),
            index: (n % 2) as u8,
            number: (n * 7) as u8,
        };
        let mut entries: Vec<Entry> = (0..count).map(entry).collect();
        entries.sort_unstable_by_key(|entry| entry.hash);
        entries
    }

    fn number_of(ribbon: &[u8], hash: u64, index: u8) -> u8 {
        let segments = ribbon.len() / SEGMENT_BYTES;
        number(&ribbon[probe(hash, segments)], segments, hash, index)
    }

    #[test]
    fn numbers_are_found_and_those_of_others_are_random() {
        let mut maker = Maker::default();
        for count in [0u64, 1, 2, 60, 64, 300, 2_000, 100_000] {
            let entries = entries(count);
            let (ribbon, left_out) = maker.ribbon(&entries);
            assert_eq!(ribbon.len() % SEGMENT_BYTES, 0);
            assert!(ribbon.len() as u64 <= count * 107 / 100 + 3 * SEGMENT_BYTES as u64);
            assert!(left_out.len() as u64 <= 3 + count / 200, "{} of {count}", left_out.len());
            for entry in entries.iter().filter(|entry| !left_out.contains(entry)) {
                assert_eq!(number_of(&ribbon, entry.hash, entry.index), entry.number, "{count}");
            }
            if count >= 300 {
                let others = (0..25_600).map(|n| hash_text(&format!("other {n}")));
                let zero = others.filter(|hash| number_of(&ribbon, *hash, 3) == 0).count();
                // About a hundred are expected.
                assert!((50..150).contains(&zero), "{zero} of 25600 with {count}");
            }
        }
    }

    #[test]
    fn where_all_numbers_are_zero_those_of_others_are_not() {
        let hashes = (0..5_000).map(|n| hash_text(&n.to_string()));
        let entries: Vec<Entry> = hashes.map(|hash| Entry { hash, index: 0, number: 0 }).collect();
        let (ribbon, left_out) = Maker::default().ribbon(&entries);
        assert!(left_out.len() < 5, "{}", left_out.len());
        for entry in entries.iter().filter(|entry| !left_out.contains(entry)) {
            assert_eq!(number_of(&ribbon, entry.hash, 0), 0);
        }
        let others = (5_000..30_600).map(|n| hash_text(&n.to_string()));
        let zero = others.filter(|hash| number_of(&ribbon, *hash, 0) == 0).count();
        assert!((50..150).contains(&zero), "{zero} of 25600");
    }

    #[test]
    fn the_order_does_not_matter_and_damage_is_only_wrong() {
        let mut entries = entries(500);
        entries.reverse();
        let (ribbon, left_out) = Maker::default().ribbon(&entries);
        let segments = ribbon.len() / SEGMENT_BYTES;
        for entry in entries.iter().filter(|entry| !left_out.contains(entry)) {
            assert_eq!(number_of(&ribbon, entry.hash, entry.index), entry.number);
        }
        for length in 0..PROBE_BYTES {
            number(&ribbon[..length], segments, entries[0].hash, 0);
        }
        assert_eq!(number_of(&[], entries[0].hash, 0), 0);
    }

    #[test]
    fn a_ribbon_is_read_as_it_was_written_by_earlier_builds() {
        let (ribbon, _) = Maker::default().ribbon(&entries(200));
        assert_eq!(crc32fast::hash(&ribbon), 661_646_106, "the format has changed");
    }
}
