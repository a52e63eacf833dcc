//! Texts that are only compared.

use std::num::NonZeroU64;
use std::sync::LazyLock;

use ahash::RandomState;

/// A 64-bit hash in place of a text that joins compare but never show. The hash key is new in every
/// process, so nobody can construct two texts with the same hash. By chance, two texts collide once
/// in 2^64 pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text(NonZeroU64);

impl Text {
    /// The hash of this text.
    pub fn of(text: &str) -> Self {
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(NonZeroU64::new(KEYS.hash_one(text)).unwrap_or(NonZeroU64::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stands_for_its_text() {
        assert_eq!(Text::of("cart"), Text::of("cart"));
        assert_ne!(Text::of("cart"), Text::of("card"));
        assert_ne!(Text::of(""), Text::of("\0"));
    }
}
