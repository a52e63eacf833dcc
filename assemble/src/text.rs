//! Texts that are only ever compared.

use std::num::NonZeroU64;
use std::sync::LazyLock;

use ahash::RandomState;

/// What stands for a text that joins compare and never show: 64 bits of a hash
/// that is keyed anew in every process, so that nobody can choose two texts
/// that look the same. Two others do by chance once in 2^64 pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text(NonZeroU64);

impl Text {
    /// Stands for this text.
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
