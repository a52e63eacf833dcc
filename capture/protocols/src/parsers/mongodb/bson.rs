//! BSON documents (bsonspec.org), possibly cut after any byte.

/// Maximum plausible length of an element name.
const MAX_NAME_BYTES: usize = 256;

/// The value of an element, as far as it is needed and captured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Text(&'a [u8]),
    /// Content of a document or an array, after its length.
    Document(&'a [u8]),
    /// A number of any type.
    Number(f64),
    Bool(bool),
    /// A value of any other type.
    Other,
}

/// The elements of a document, after its length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements<'a>(&'a [u8]);

/// The elements of the document at the start of these bytes; `None` if there is none.
pub(super) fn document(bytes: &[u8]) -> Option<Elements<'_>> {
    let length = u32::from_le_bytes(*bytes.first_chunk()?);
    (5..=1 << 26).contains(&length).then_some(())?;
    let end = bytes.len().min(length as usize);
    Some(Elements(&bytes[4..end]))
}

/// The elements of a document value.
pub(super) const fn elements(content: &[u8]) -> Elements<'_> {
    Elements(content)
}

fn length(bytes: &[u8]) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(*bytes.first_chunk()?)).ok()
}

fn past_zero(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(0, bytes).map(|end| end + 1)
}

/// Whether this element type exists.
pub(super) const fn is_type(kind: u8) -> bool {
    matches!(kind, 0x01..=0x13 | 0x7f | 0xff)
}

/// Size of a value of this type; `None` if unknown.
fn size(kind: u8, bytes: &[u8]) -> Option<usize> {
    Some(match kind {
        0x06 | 0x0a | 0x7f | 0xff => 0,
        0x08 => 1,
        0x10 => 4,
        0x01 | 0x09 | 0x11 | 0x12 => 8,
        0x07 => 12,
        0x13 => 16,
        0x02 | 0x0d | 0x0e => length(bytes)?.checked_add(4)?,
        0x03 | 0x04 | 0x0f => length(bytes)?,
        0x05 => length(bytes)?.checked_add(5)?,
        0x0b => {
            let first = past_zero(bytes)?;
            first + past_zero(&bytes[first..])?
        }
        0x0c => length(bytes)?.checked_add(16)?,
        _ => return None,
    })
}

fn value(kind: u8, bytes: &[u8]) -> Value<'_> {
    let number = match (kind, bytes.len()) {
        (0x01, 8..) => bytes.first_chunk().map(|bytes| f64::from_le_bytes(*bytes)),
        (0x10, 4..) => bytes.first_chunk().map(|bytes| f64::from(i32::from_le_bytes(*bytes))),
        (0x12, 8..) => bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes) as f64),
        _ => None,
    };
    if let Some(number) = number {
        return Value::Number(number);
    }
    match kind {
        0x02 => {
            let text = bytes.get(4..).unwrap_or_default();
            Value::Text(text.strip_suffix(b"\0").unwrap_or(text))
        }
        0x03 | 0x04 => Value::Document(bytes.get(4..).unwrap_or_default()),
        0x08 => Value::Bool(bytes.first() == Some(&1)),
        _ => Value::Other,
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (&'a [u8], Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, rest) = self.0.split_first()?;
        self.0 = &[];
        if !is_type(*kind) {
            return None;
        }
        let end = past_zero(&rest[..rest.len().min(MAX_NAME_BYTES)])?;
        let (name, rest) = (&rest[..end - 1], &rest[end..]);
        let size = size(*kind, rest)?;
        // The last captured value may be incomplete.
        let (bytes, rest) = rest.split_at(size.min(rest.len()));
        self.0 = rest;
        Some((name, value(*kind, bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &[u8] = b"\x2f\0\0\0\x02find\0\x06\0\0\0users\0\
        \x03filter\0\x05\0\0\0\0\x01ok\0\0\0\0\0\0\0\xf0\x3f\0";

    #[test]
    fn elements_are_read_in_order() {
        let found: Vec<_> = document(DOCUMENT).unwrap().collect();
        assert_eq!(
            found,
            [
                (&b"find"[..], Value::Text(b"users")),
                (&b"filter"[..], Value::Document(b"\0")),
                (&b"ok"[..], Value::Number(1.0)),
            ]
        );
    }

    #[test]
    fn documents_cut_anywhere_never_panic() {
        for end in 0..DOCUMENT.len() {
            let found = document(&DOCUMENT[..end]).map_or(0, Iterator::count);
            assert!(found <= 3);
        }
        assert!(document(b"\x04\0\0\0").is_none());
        let endless = b"\xff\xff\xff\x03\x02a\0\xff\xff\xff\xffx";
        assert_eq!(document(endless).unwrap().count(), 1);
        assert_eq!(document(b"\x20\0\0\0\x99a\0").unwrap().count(), 0);
    }
}
