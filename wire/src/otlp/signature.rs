//! A hash of the bytes that spans have in common.
//!
//! The hash has 128 bits and a key that is new in every process. Two different signatures collide
//! once in 2^128 pairs, so the signatures themselves are not compared. That would read memory that
//! is in none of the processor's caches. The algorithm is wyhash (Wang Yi, "wyhash", 2019) with two
//! lanes.

use std::hash::{BuildHasher as _, RandomState};

/// A signature's hash. See the module's description.
pub(super) type Hash = [u64; 2];

/// The initial state of all hashes of a table.
pub(super) struct Secrets([u64; 4]);

impl Default for Secrets {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RandomState::new().hash_one(())))
    }
}

/// Computes the signature of a span, piece by piece.
pub(super) struct Signature<'s> {
    secrets: &'s [u64; 4],
    hash: Hash,
}

impl Secrets {
    /// A signature without pieces.
    pub(super) fn begin(&self) -> Signature<'_> {
        let [.., one, other] = self.0;
        Signature { secrets: &self.0, hash: [one, other] }
    }
}

impl Signature<'_> {
    /// Adds a piece. The result depends on where pieces begin and end.
    #[inline]
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.mix(bytes.len() as u64, !(bytes.len() as u64));
        let (pairs, rest) = bytes.as_chunks::<16>();
        for pair in pairs {
            self.mix(first(pair), last(pair));
        }
        if rest.is_empty() {
            return;
        }
        // Overlaps with earlier bytes, if there are enough.
        match (bytes.last_chunk::<16>(), bytes.len()) {
            (Some(end), _) => self.mix(first(end), last(end)),
            (None, 8..) => self.mix(first(bytes), last(bytes)),
            (None, _) => {
                self.mix(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), 0);
            }
        }
    }

    #[inline]
    fn mix(&mut self, low: u64, high: u64) {
        let [secret, another, ..] = *self.secrets;
        let [one, other] = self.hash;
        self.hash = [fold(low ^ secret, high ^ one), fold(low ^ other, high ^ another)];
    }

    pub(super) fn end(self) -> Hash {
        let [secret, another, ..] = *self.secrets;
        let [one, other] = self.hash;
        [fold(one ^ secret, other ^ another), fold(other ^ secret, one ^ another)]
    }
}

/// The first eight bytes.
#[inline]
fn first(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The last eight bytes.
#[inline]
fn last(bytes: &[u8]) -> u64 {
    bytes.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The two halves of the product, combined.
#[inline]
const fn fold(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;

    fn hash(secrets: &Secrets, pieces: &[Vec<u8>]) -> Hash {
        let mut signature = secrets.begin();
        pieces.iter().for_each(|piece| signature.add(piece));
        signature.end()
    }

    proptest! {
        #[test]
        fn what_differs_anywhere_has_another_hash(
            pieces in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..60), 1..4),
            piece in any::<prop::sample::Index>(),
            at in any::<prop::sample::Index>(),
            bit in 0u32..8,
        ) {
            let secrets = Secrets::default();
            let own = hash(&secrets, &pieces);
            prop_assert_eq!(own, hash(&secrets, &pieces));
            prop_assert_ne!(own, hash(&Secrets::default(), &pieces));
            let mut longer = pieces.clone();
            longer.push(Vec::new());
            prop_assert_ne!(own, hash(&secrets, &longer));
            let mut other = pieces.clone();
            let piece = piece.get(&pieces).clone();
            let place = pieces.iter().position(|one| *one == piece).unwrap_or(0);
            if piece.is_empty() {
                other[place].push(0);
            } else {
                other[place][at.index(piece.len())] ^= 1 << bit;
            }
            let changed = hash(&secrets, &other);
            prop_assert!(own[0] != changed[0] && own[1] != changed[1]);
        }
    }

    #[test]
    fn short_pieces_and_zeros_are_told_apart() {
        let secrets = Secrets::default();
        let mut seen = HashMap::new();
        for length in 0..40usize {
            for text in [vec![0; length], vec![1; length]] {
                let pieces = [text.clone()];
                let before = seen.insert(hash(&secrets, &pieces), text.clone());
                assert_eq!(before.filter(|before| *before != text), None);
            }
        }
        for byte in 0..=255u8 {
            for other in 0..=255u8 {
                let text = vec![byte, other];
                let pieces = [text.clone()];
                let before = seen.insert(hash(&secrets, &pieces), text.clone());
                assert_eq!(before.filter(|before| *before != text), None);
            }
        }
    }
}
