//! Identifiers in hexadecimal digits, stored as bytes: half the size.

/// Maximum digits of a text that is stored as bytes.
const MOST_DIGITS: usize = 128;
/// Shorter texts are rarely identifiers, and are small anyway.
const LEAST_DIGITS: usize = 8;
/// Bytes of a UUID, and the byte indexes before which its text has a dash.
pub(super) const UUID_BYTES: usize = 16;
const DASHES: [usize; 4] = [4, 6, 8, 10];

/// Bytes of a text, without an allocation.
pub(super) struct Bytes {
    bytes: [u8; MOST_DIGITS / 2],
    len: usize,
}

impl Bytes {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Marks a byte that is no digit.
const NONE: u8 = 0xff;

/// The value of each byte as a digit. Capital letters are excluded, so that every byte sequence has
/// exactly one text.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut digit = 0;
    while digit < 16 {
        values[DIGITS[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The bytes of a text with an even number of digits and nothing else.
#[inline]
pub(super) fn hex(text: &str) -> Option<Bytes> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !(LEAST_DIGITS..=MOST_DIGITS).contains(&digits.len()) {
        return None;
    }
    let mut bytes = Bytes { bytes: [0; MOST_DIGITS / 2], len: digits.len() / 2 };
    put(digits, &mut bytes.bytes).then_some(bytes)
}

/// The bytes of a UUID's text.
#[inline]
pub(super) fn uuid(text: &str) -> Option<[u8; UUID_BYTES]> {
    let text: &[u8; UUID_BYTES * 2 + DASHES.len()] = text.as_bytes().try_into().ok()?;
    let mut digits = [0; UUID_BYTES * 2];
    let (mut from, mut to) = (0, 0);
    for dash in DASHES {
        let end = dash * 2;
        digits[to..end].copy_from_slice(&text[from..from + end - to]);
        from += end - to;
        to = end;
        if text[from] != b'-' {
            return None;
        }
        from += 1;
    }
    digits[to..].copy_from_slice(&text[from..]);
    let mut bytes = [0; UUID_BYTES];
    put(&digits, &mut bytes).then_some(bytes)
}

/// Parses pairs of digits into bytes. Returns whether all are digits.
fn put(digits: &[u8], bytes: &mut [u8]) -> bool {
    let mut all = 0;
    for (byte, [high, low]) in bytes.iter_mut().zip(digits.as_chunks().0) {
        let (high, low) = (VALUES[*high as usize], VALUES[*low as usize]);
        all |= high | low;
        *byte = high << 4 | low & 0xf;
    }
    all != NONE
}

/// Replaces `text` with the digits of these bytes.
pub(super) fn put_hex(bytes: &[u8], text: &mut String) {
    text.clear();
    push(bytes, text);
}

/// Replaces `text` with the text of this UUID.
pub(super) fn put_uuid(bytes: &[u8], text: &mut String) {
    text.clear();
    let mut from = 0;
    for dash in DASHES {
        push(bytes.get(from..dash).unwrap_or_default(), text);
        text.push('-');
        from = dash;
    }
    push(bytes.get(from..).unwrap_or_default(), text);
}

fn push(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)] as char);
        text.push(DIGITS[usize::from(byte & 0xf)] as char);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_are_what_they_were(
            text in prop_oneof![
                "[0-9a-f]{0,140}",
                "[0-9a-fA-F]{8,12}",
                "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
                "[0-9a-f-]{36}",
                "[0-9a-g]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
                ".{0,40}",
            ],
        ) {
            let mut again = String::from("before");
            if let Some(bytes) = hex(&text) {
                put_hex(bytes.as_slice(), &mut again);
                prop_assert_eq!(&again, &text);
            } else {
                let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
                let fits = text.len() % 2 == 0 && (8..=128).contains(&text.len());
                prop_assert!(!fits || !text.chars().all(is_digit), "{}", text);
            }
            if let Some(bytes) = uuid(&text) {
                put_uuid(&bytes, &mut again);
                prop_assert_eq!(&again, &text);
            }
        }
    }

    #[test]
    fn only_one_text_is_a_value() {
        assert_eq!(hex("00ff10aB00ff10ab").map(|bytes| bytes.len), None);
        assert_eq!(hex("00ff10ab").unwrap().as_slice(), [0, 0xff, 0x10, 0xab]);
        let text = "0123cdef-0000-4000-8000-ffffffffffff";
        assert_eq!(uuid(text).unwrap()[..4], [1, 0x23, 0xcd, 0xef]);
        for other in [&text[1..], &text.to_uppercase(), &text.replace('-', "0"), ""] {
            assert_eq!(uuid(other), None, "{other}");
        }
    }
}
