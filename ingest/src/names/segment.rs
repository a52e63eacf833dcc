//! What a part of a name looks like: a word, something numbered, or something random.

/// The class of a part. Parts of one class are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Letters that could be a word, also several words.
    Word,
    /// Has digits.
    Numbered,
    /// Letters that are no word.
    Random,
}

/// Stands for a value.
pub(super) const VALUE: &str = "{id}";

/// Shorter parts are words, whatever their letters.
const MIN_RANDOM_BYTES: usize = 8;

/// For each letter, the letters that follow it in at least one of 800 words of English texts and
/// programs.
const FOLLOWERS: [&str; 26] = [
    "abcdefghijklmnprstuvwxyz",
    "abcdeijlmoprstuy",
    "abcdefghiklmoprstuvy",
    "abcdefghijklmnoprstuvy",
    "abcdefghijklmnopqrstuvwxyz",
    "abcdefilmnoprstuy",
    "aceghilmnoprstu",
    "adeilmnorstuy",
    "abcdefgklmnoprstuvxz",
    "aeiosu",
    "aehilnorstu",
    "abcdefgiklmnoprstuvy",
    "abcdeiklmopstuy",
    "abcdefghijklmnoprstuvyz",
    "abcdefghijklmnoprstuvwxy",
    "acdefghiklmnoprstuy",
    "tu",
    "abcdefghiklmnoprstuvwy",
    "abcdefghiklmnopqrstuvwyz",
    "abcdefghiklmnoprstuvwyz",
    "abcdefgiklmnoprstxz",
    "aeimos",
    "acehilnors",
    "aceimopt",
    "acegilmnopstu",
    "aeio",
];

/// [`FOLLOWERS`] as bits.
const FOLLOWER_BITS: [u32; 26] = {
    let mut bits = [0; 26];
    let mut letter = 0;
    while letter < 26 {
        let followers = FOLLOWERS[letter].as_bytes();
        let mut at = 0;
        while at < followers.len() {
            bits[letter] |= 1 << (followers[at] - b'a');
            at += 1;
        }
        letter += 1;
    }
    bits
};

impl Class {
    pub(super) fn of(segment: &str) -> Self {
        let bytes = segment.as_bytes();
        if bytes.iter().any(u8::is_ascii_digit) {
            return if is_version(bytes) { Self::Word } else { Self::Numbered };
        }
        if is_random(bytes) { Self::Random } else { Self::Word }
    }
}

/// `v1`, `V2.1`.
fn is_version(bytes: &[u8]) -> bool {
    let [b'v' | b'V', number @ ..] = bytes else { return false };
    number.len() <= 6 && number.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
}

/// Whether letters follow each other as they do in no word, more than once.
fn is_random(bytes: &[u8]) -> bool {
    if bytes.len() < MIN_RANDOM_BYTES {
        return false;
    }
    let odd = bytes.windows(2).filter(|pair| {
        let [one, other] = [pair[0], pair[1]];
        if !one.is_ascii_alphabetic() || !other.is_ascii_alphabetic() {
            return false;
        }
        // A capital begins a word of `camelCase`, but not two in a row of letters.
        if one.is_ascii_lowercase() && other.is_ascii_uppercase() {
            return false;
        }
        let [one, other] = [one, other].map(|byte| byte.to_ascii_lowercase() - b'a');
        FOLLOWER_BITS[usize::from(one)] >> other & 1 == 0
    });
    let odd = odd.count();
    odd >= 2 && odd * 5 >= bytes.len()
}

/// The part with every number, and every mixture of letters and digits, as a value:
/// `events_2026_11` is `events_{id}`.
pub(super) fn skeleton(segment: &str) -> String {
    let mut skeleton = String::with_capacity(segment.len());
    let mut rest = segment;
    let mut separator = "";
    loop {
        let end = rest.bytes().position(|byte| matches!(byte, b'-' | b'_'));
        let token = &rest[..end.unwrap_or(rest.len())];
        let digits = token.bytes().position(|byte| byte.is_ascii_digit());
        let letters = match digits {
            None => token,
            // `shard12`; other mixtures are values as a whole.
            Some(at) if token[at..].bytes().all(|byte| byte.is_ascii_digit()) => &token[..at],
            Some(_) => "",
        };
        // Values in a row are one: a date.
        if !(digits.is_some() && letters.is_empty() && skeleton.ends_with(VALUE)) {
            skeleton.push_str(separator);
            skeleton.push_str(letters);
            if digits.is_some() && !skeleton.ends_with(VALUE) {
                skeleton.push_str(VALUE);
            }
        }
        let Some(end) = end else { return skeleton };
        separator = &rest[end..=end];
        rest = &rest[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_words_numbered_or_random() {
        for word in ["users", "order-items", "v1", "graphql", "me", "checkoutHistory", "ÄÖÜ", ""]
        {
            assert_eq!(Class::of(word), Class::Word, "{word}");
        }
        for numbered in ["acme17", "avatar-3.png", "2026", "v1beta", "a1b2"] {
            assert_eq!(Class::of(numbered), Class::Numbered, "{numbered}");
        }
        for random in ["xkqjzvbtrwpm", "qzxvwkjt", "bHqXzKvTw"] {
            assert_eq!(Class::of(random), Class::Random, "{random}");
        }
    }

    #[test]
    fn numbers_and_dates_are_values_in_skeletons() {
        let cases = [
            ("events_2026_11_27", "events_{id}"),
            ("events_2026_11_eu", "events_{id}_eu"),
            ("shard12", "shard{id}"),
            ("tmp-9f86d081-x", "tmp-{id}-x"),
            ("20261127", "{id}"),
            ("q-1-2-3-q", "q-{id}-q"),
            ("orders", "orders"),
            ("_", "_"),
        ];
        for (segment, expected) in cases {
            assert_eq!(skeleton(segment), expected);
        }
    }
}
