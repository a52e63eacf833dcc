//! CBOR (RFC 8949), the encoding of arrays and maps in attributes, as far as OpenTelemetry values
//! need it.
//!
//! Not supported: texts in chunks, tags, and simple values other than booleans and null. No OTAP
//! encoder writes them.

use crate::otlp::rows::Any;

/// Maximum depth of nested arrays and maps, as in OTLP.
const DEPTH: u32 = 100;

/// Approximate memory of an item besides its text: as a value, and then as JSON.
const ITEM_BYTES: usize = 24;

/// Why a value could not be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum CborError {
    #[error("the CBOR ends in the middle of a value")]
    Truncated,
    #[error("the CBOR goes on after its value")]
    Trailing,
    #[error("the CBOR has an item of type {0:#04x}, which no attribute is written with")]
    Unknown(u8),
    #[error("a number in the CBOR is outside 64 bits with a sign")]
    Range,
    #[error("a text in the CBOR is not UTF-8")]
    Text,
    #[error("a key in the CBOR is no text")]
    Key,
    #[error("the CBOR is nested too deeply")]
    Deep,
    #[error("the CBOR is larger than a span may be")]
    TooLarge,
}

/// Decodes a value. Its memory is subtracted from `room`.
pub(super) fn read<'a>(bytes: &'a [u8], room: &mut usize) -> Result<Any<'a>, CborError> {
    let mut reader = Reader { rest: bytes, room };
    let value = reader.value(DEPTH)?.ok_or(CborError::Unknown(BREAK))?;
    if reader.rest.is_empty() { Ok(value) } else { Err(CborError::Trailing) }
}

/// Ends an array or a map without a length.
const BREAK: u8 = 0xff;
/// Means that there is no length.
const INDEFINITE: u8 = 31;

struct Reader<'a, 'r> {
    rest: &'a [u8],
    room: &'r mut usize,
}

impl<'a> Reader<'a, '_> {
    /// The next value, or nothing if there is a break instead.
    fn value(&mut self, depth: u32) -> Result<Option<Any<'a>>, CborError> {
        let [initial] = self.array()?;
        self.spend(ITEM_BYTES)?;
        let (major, info) = (initial >> 5, initial & 31);
        Ok(Some(match major {
            0 => Any::Int(self.integer(initial)?),
            1 => Any::Int(-1 - self.integer(initial)?),
            2 => {
                let bytes = self.string(initial)?;
                self.spend(base64_bytes(bytes))?;
                Any::Bytes(bytes)
            }
            3 => Any::Text(self.text(initial)?),
            4 => Any::Array(self.items(initial, depth, |reader, depth| reader.value(depth))?),
            5 => Any::Map(self.items(initial, depth, Self::entry)?),
            7 => match info {
                20 => Any::Bool(false),
                21 => Any::Bool(true),
                // Null and undefined.
                22 | 23 => Any::Nothing,
                25 => Any::Double(half(u16::from_be_bytes(self.array()?))),
                26 => Any::Double(f64::from(f32::from_be_bytes(self.array()?))),
                27 => Any::Double(f64::from_be_bytes(self.array()?)),
                INDEFINITE => return Ok(None),
                _ => return Err(CborError::Unknown(initial)),
            },
            _ => return Err(CborError::Unknown(initial)),
        }))
    }

    /// Decodes the items of an array or a map one by one. The claimed number is not trusted.
    fn items<T>(
        &mut self,
        initial: u8,
        depth: u32,
        mut next: impl FnMut(&mut Self, u32) -> Result<Option<T>, CborError>,
    ) -> Result<Vec<T>, CborError> {
        let depth = depth.checked_sub(1).ok_or(CborError::Deep)?;
        let mut items = Vec::new();
        if initial & 31 == INDEFINITE {
            while let Some(item) = next(self, depth)? {
                items.push(item);
            }
            return Ok(items);
        }
        for _ in 0..self.argument(initial)? {
            items.push(next(self, depth)?.ok_or(CborError::Unknown(BREAK))?);
        }
        Ok(items)
    }

    /// Decodes a key and its value.
    fn entry(&mut self, depth: u32) -> Result<Option<(&'a str, Any<'a>)>, CborError> {
        let [initial] = self.array()?;
        if initial == BREAK {
            return Ok(None);
        }
        if initial >> 5 != 3 {
            return Err(CborError::Key);
        }
        let key = self.text(initial)?;
        let value = self.value(depth)?.ok_or(CborError::Unknown(BREAK))?;
        Ok(Some((key, value)))
    }

    fn integer(&mut self, initial: u8) -> Result<i64, CborError> {
        i64::try_from(self.argument(initial)?).map_err(|_| CborError::Range)
    }

    fn text(&mut self, initial: u8) -> Result<&'a str, CborError> {
        let text = std::str::from_utf8(self.string(initial)?).map_err(|_| CborError::Text)?;
        self.spend(escaped_bytes(text))?;
        Ok(text)
    }

    fn string(&mut self, initial: u8) -> Result<&'a [u8], CborError> {
        let length = self.argument(initial)?;
        let length = usize::try_from(length).map_err(|_| CborError::Truncated)?;
        let (string, rest) = self.rest.split_at_checked(length).ok_or(CborError::Truncated)?;
        self.rest = rest;
        Ok(string)
    }

    /// The number in the initial byte or after it.
    fn argument(&mut self, initial: u8) -> Result<u64, CborError> {
        Ok(match initial & 31 {
            small @ 0..=23 => small.into(),
            24 => u8::from_be_bytes(self.array()?).into(),
            25 => u16::from_be_bytes(self.array()?).into(),
            26 => u32::from_be_bytes(self.array()?).into(),
            27 => u64::from_be_bytes(self.array()?),
            _ => return Err(CborError::Unknown(initial)),
        })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CborError> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(CborError::Truncated)?;
        self.rest = rest;
        Ok(*array)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), CborError> {
        *self.room = self.room.checked_sub(bytes).ok_or(CborError::TooLarge)?;
        Ok(())
    }
}

/// Length of bytes as base64.
pub(super) const fn base64_bytes(bytes: &[u8]) -> usize {
    bytes.len().div_ceil(3) * 4
}

/// Maximum length of a text in JSON. An escape takes up to six bytes.
fn escaped_bytes(text: &str) -> usize {
    let escaped = |byte: &&u8| **byte < 0x20 || matches!(**byte, b'"' | b'\\');
    text.len() + 5 * text.as_bytes().iter().filter(escaped).count()
}

/// A half-precision number (IEEE 754, 16 bits).
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (fraction + 1024.0) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_whole(bytes: &[u8]) -> Result<Any<'_>, CborError> {
        read(bytes, &mut (1 << 20))
    }

    #[test]
    fn what_an_attribute_can_be_is_read() {
        // {_ "a": [_ 1, -2, 1.5], "b": h'00ff', "c": null, "d": {"e": true}}
        let bytes = [
            0xbf, 0x61, b'a', 0x9f, 0x01, 0x21, 0xfb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 0xff, 0x61,
            b'b', 0x42, 0x00, 0xff, 0x61, b'c', 0xf6, 0x61, b'd', 0xa1, 0x61, b'e', 0xf5, 0xff,
        ];
        assert_eq!(
            read_whole(&bytes),
            Ok(Any::Map(vec![
                ("a", Any::Array(vec![Any::Int(1), Any::Int(-2), Any::Double(1.5)])),
                ("b", Any::Bytes(&[0, 255])),
                ("c", Any::Nothing),
                ("d", Any::Map(vec![("e", Any::Bool(true))])),
            ]))
        );
    }

    #[test]
    fn numbers_keep_their_values() {
        // RFC 8949, appendix A.
        for (bytes, value) in [
            (&[0x18, 0x64][..], 100),
            (&[0x19, 0x03, 0xe8], 1000),
            (&[0x1a, 0, 0x0f, 0x42, 0x40], 1_000_000),
            (&[0x1b, 0, 0, 0, 0xe8, 0xd4, 0xa5, 0x10, 0], 1_000_000_000_000),
            (&[0x3b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], i64::MIN),
            (&[0x38, 0x63], -100),
        ] {
            assert_eq!(read_whole(bytes), Ok(Any::Int(value)));
        }
        for (bytes, value) in [
            (&[0xf9, 0x3c, 0x00][..], 1.0),
            (&[0xf9, 0x7b, 0xff], 65504.0),
            (&[0xf9, 0x00, 0x01], 5.960_464_477_539_063e-8),
            (&[0xf9, 0xc4, 0x00], -4.0),
            (&[0xf9, 0x7c, 0x00], f64::INFINITY),
            (&[0xfa, 0x47, 0xc3, 0x50, 0x00], 100_000.0),
        ] {
            assert_eq!(read_whole(bytes), Ok(Any::Double(value)));
        }
    }

    #[test]
    fn what_is_wrong_is_an_error() {
        for (bytes, error) in [
            (&[][..], CborError::Truncated),
            (&[0xff], CborError::Unknown(BREAK)),
            (&[0x81], CborError::Truncated),
            (&[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], CborError::Truncated),
            (&[0x81, 0xff], CborError::Unknown(BREAK)),
            (&[0x01, 0x01], CborError::Trailing),
            (&[0xa1, 0x01, 0x01], CborError::Key),
            (&[0x61, 0xff], CborError::Text),
            (&[0x1b, 0x80, 0, 0, 0, 0, 0, 0, 0], CborError::Range),
            (&[0x5f], CborError::Unknown(0x5f)),
            (&[0xc0], CborError::Unknown(0xc0)),
            (&[0x81; 200], CborError::Deep),
        ] {
            assert_eq!(read_whole(bytes), Err(error), "{bytes:?}");
        }
        assert_eq!(read(&[0x83, 1, 2, 3], &mut 60), Err(CborError::TooLarge));
        assert_eq!(read(&[0x62, 1, b'a'], &mut 30), Err(CborError::TooLarge));
        assert_eq!(read(&[0x62, b'b', b'a'], &mut 30), Ok(Any::Text("ba")));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let _ = read_whole(&bytes);
        }
    }
}
