//! The little of Hessian 2.0 (hessian.caucho.com/doc/hessian-serialization.html)
//! that the beginning of a Dubbo message needs: strings, and an exception's
//! class.

/// Longest text that is kept.
const MAX_TEXT_BYTES: usize = 256;

/// Reads values one after the other; nothing where the bytes end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Values<'a>(pub(super) &'a [u8]);

impl<'a> Values<'a> {
    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        Some(usize::from(u16::from_be_bytes(*first)))
    }

    /// A string, or nothing where the value is null or the string is cut, of
    /// several chunks, or longer than the bound.
    pub(super) fn string(&mut self) -> Option<&'a str> {
        let characters = match self.u8()? {
            length @ 0..=0x1f => usize::from(length),
            high @ 0x30..=0x33 => usize::from(high - 0x30) << 8 | usize::from(self.u8()?),
            b'S' => self.u16()?,
            _ => return None,
        };
        let bytes = characters_bytes(self.0, characters)?;
        if bytes > MAX_TEXT_BYTES {
            return None;
        }
        let (text, rest) = self.0.split_at(bytes);
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    /// An integer of one byte.
    pub(super) fn small(&mut self) -> Option<i32> {
        let byte = self.u8()?;
        (0x80..=0xbf).contains(&byte).then(|| i32::from(byte) - 0x90)
    }

    /// The class of an object whose class is defined here: `C`, its name.
    pub(super) fn class(&mut self) -> Option<&'a str> {
        if self.u8()? == b'C' { self.string() } else { None }
    }
}

/// How many bytes so many UTF-16 units take in UTF-8.
fn characters_bytes(bytes: &[u8], characters: usize) -> Option<usize> {
    let mut at = 0;
    for _ in 0..characters {
        at += match bytes.get(at)? {
            0..=0x7f => 1,
            0xc0..=0xdf => 2,
            // Beyond these, each half of a pair is written by itself.
            0xe0..=0xef => 3,
            _ => return None,
        };
    }
    (at <= bytes.len()).then_some(at)
}

/// The value of a key in a map of strings that stands somewhere in these bytes.
pub(super) fn find<'a>(bytes: &'a [u8], key: &str) -> Option<&'a str> {
    let length = u8::try_from(key.len()).ok().filter(|length| *length < 0x20)?;
    let mut wanted = Vec::with_capacity(key.len() + 1);
    wanted.push(length);
    wanted.extend_from_slice(key.as_bytes());
    let at = memchr::memmem::find(bytes, &wanted)?;
    Values(&bytes[at + wanted.len()..]).string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_all_forms_are_read() {
        let cases: [(&[u8], Option<&str>); 9] = [
            (b"\x05hello", Some("hello")),
            (b"\0", Some("")),
            (b"\x30\x05hello", Some("hello")),
            (b"S\0\x05hello", Some("hello")),
            ("\u{2}äö".as_bytes(), Some("äö")),
            (b"\x05hell", None),
            (b"N", None),
            (b"R\0\x02he\x03llo", None),
            (b"\x01\xff", None),
        ];
        for (bytes, text) in cases {
            assert_eq!(Values(bytes).string(), text, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_key_is_found_with_its_value() {
        let map = b"H\x04path\x05a.B.c\x0btraceparent\x3007Z";
        assert_eq!(find(map, "path"), Some("a.B.c"));
        assert_eq!(find(map, "traceparent"), None, "cut");
        assert_eq!(find(b"\x06xpath\x01a", "path"), None);
    }
}
