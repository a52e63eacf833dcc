//! Sets of known words of a protocol, such as its commands.

/// Sorted words. Most search steps compare only the first eight bytes, as integers.
pub(crate) struct WordSet<const WORDS: usize> {
    /// The first eight bytes of each word, padded with zeros.
    heads: [u64; WORDS],
    words: [&'static str; WORDS],
}

impl<const WORDS: usize> WordSet<WORDS> {
    /// Creates a set from words in byte order. If the set is a constant, unsorted words fail to
    /// compile.
    pub(crate) const fn new(words: [&'static str; WORDS]) -> Self {
        let mut heads = [0; WORDS];
        let mut index = 0;
        while index < WORDS {
            heads[index] = head(words[index].as_bytes());
            assert!(
                index == 0 || is_before(words[index - 1].as_bytes(), words[index].as_bytes()),
                "the words are in order"
            );
            index += 1;
        }
        Self { heads, words }
    }

    /// Whether the set contains this word.
    pub(crate) fn contains(&self, word: &str) -> bool {
        let head = head(word.as_bytes());
        let first = self.heads.partition_point(|known| *known < head);
        self.heads[first..]
            .iter()
            .zip(&self.words[first..])
            .take_while(|(known, _)| **known == head)
            .any(|(_, known)| *known == word)
    }
}

/// The word's first eight bytes as an integer that sorts in the same order.
const fn head(word: &[u8]) -> u64 {
    let mut head = 0;
    let mut index = 0;
    while index < 8 {
        let byte = if index < word.len() { word[index] } else { 0 };
        head = head << 8 | byte as u64;
        index += 1;
    }
    head
}

const fn is_before(left: &[u8], right: &[u8]) -> bool {
    let mut index = 0;
    while index < left.len() && index < right.len() {
        if left[index] != right[index] {
            return left[index] < right[index];
        }
        index += 1;
    }
    left.len() < right.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 7] = ["A", "COUNT", "COUNTKEY", "COUNTKEYS", "COUNTKEYSIN", "DEL", "Ä"];

    #[test]
    fn words_are_told_from_anything_else() {
        let set = WordSet::new(WORDS);
        for word in WORDS {
            assert!(set.contains(word), "{word}");
        }
        for word in ["", "a", "B", "COUN", "COUNTS", "COUNTKEYT", "COUNTKEYSI", "A\0", "Z", "ÄÄ"]
        {
            assert!(!set.contains(word), "{word}");
        }
    }

    #[test]
    #[should_panic = "in order"]
    fn words_out_of_order_are_refused() {
        WordSet::new(["B", "A"]);
    }

    #[test]
    #[should_panic = "in order"]
    fn a_word_twice_is_refused() {
        WordSet::new(["AAAAAAAAA", "AAAAAAAAA"]);
    }
}
