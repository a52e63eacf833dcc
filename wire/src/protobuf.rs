//! Reads the protobuf wire format field by field, without copying.
//!
//! Source: protobuf "Encoding" guide. Groups (wire types 3 and 4) are obsolete and do not occur in
//! the supported messages, so they are an error.

use prost::Message;

/// The payload of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    /// A variable-length integer.
    Varint(u64),
    /// Eight bytes.
    Fixed64(u64),
    /// Bytes, a text, or a message.
    Bytes(&'a [u8]),
    /// Four bytes.
    Fixed32(u32),
}

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) payload: Payload<'a>,
}

/// Reads a message's fields. Must not be used after an error.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

/// Why a message could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("it ends in the middle of a number")]
    Truncated,
    #[error("a number is longer than 64 bits")]
    Overlong,
    #[error("field {number} claims {length} bytes, but only {left} are left")]
    Length { number: u32, length: u64, left: usize },
    #[error("field {number} has wire type {wire_type}, which nothing uses that is read here")]
    WireType { number: u32, wire_type: u32 },
    #[error("field {number} of {message} has another type than it should")]
    Type { message: &'static str, number: u32 },
    #[error("field number {0} is not allowed")]
    Number(u64),
    #[error("field {number} of {message} is no UTF-8 text")]
    Text { message: &'static str, number: u32 },
    #[error("messages are nested too deeply")]
    Deep,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field, or nothing at the end of the message.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Field<'a>>, ReadError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = match u32::try_from(tag >> 3) {
            Ok(number @ 1..0x2000_0000) => number,
            _ => return Err(ReadError::Number(tag >> 3)),
        };
        let payload = match tag & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => Payload::Fixed64(u64::from_le_bytes(self.array(number)?)),
            2 => {
                let length = self.varint()?;
                Payload::Bytes(self.take(number, length)?)
            }
            5 => Payload::Fixed32(u32::from_le_bytes(self.array(number)?)),
            wire_type => {
                return Err(ReadError::WireType { number, wire_type: wire_type as u32 });
            }
        };
        Ok(Some(Field { number, payload }))
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, ReadError> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, ReadError> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(ReadError::Truncated)?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(ReadError::Overlong);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ReadError::Overlong)
    }

    #[inline]
    fn take(&mut self, number: u32, length: u64) -> Result<&'a [u8], ReadError> {
        let split = usize::try_from(length).ok().and_then(|at| self.rest.split_at_checked(at));
        let Some((taken, rest)) = split else {
            return Err(ReadError::Length { number, length, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self, number: u32) -> Result<[u8; N], ReadError> {
        let Some((array, rest)) = self.rest.split_first_chunk() else {
            return Err(ReadError::Length { number, length: N as u64, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(*array)
    }
}

/// The payloads of the field `wanted`. Ends after the first error.
pub(crate) fn submessages(
    message: &[u8],
    wanted: u32,
) -> impl Iterator<Item = Result<&[u8], ReadError>> {
    let mut reader = Some(Reader::new(message));
    std::iter::from_fn(move || {
        loop {
            match reader.as_mut()?.next() {
                Ok(Some(field)) => match field.payload {
                    // A known field with another payload type counts as unknown and is skipped.
                    Payload::Bytes(bytes) if field.number == wanted => return Some(Ok(bytes)),
                    _ => {}
                },
                Ok(None) => return None,
                Err(error) => {
                    reader = None;
                    return Some(Err(error));
                }
            }
        }
    })
}

/// All pieces of the submessage `wanted`, merged as protobuf requires.
pub(crate) fn merged<M: Message + Default>(message: &[u8], wanted: u32) -> Result<M, String> {
    let mut whole = M::default();
    for bytes in submessages(message, wanted) {
        let bytes = bytes.map_err(|error| error.to_string())?;
        whole.merge(bytes).map_err(|error| error.to_string())?;
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Field<'_>>, ReadError> {
        let mut reader = Reader::new(bytes);
        std::iter::from_fn(|| reader.next().transpose()).collect()
    }

    #[test]
    fn every_wire_type_is_read() {
        let bytes = [
            0x08, 0x96, 0x01, // 1: varint 150
            0x11, 2, 0, 0, 0, 0, 0, 0, 0, // 2: fixed64
            0x1a, 2, b'h', b'i', // 3: bytes
            0x25, 0, 1, 0, 0, // 4: fixed32
        ];
        let payloads: Vec<_> = all(&bytes).unwrap().iter().map(|f| (f.number, f.payload)).collect();
        assert_eq!(
            payloads,
            [
                (1, Payload::Varint(150)),
                (2, Payload::Fixed64(2)),
                (3, Payload::Bytes(b"hi")),
                (4, Payload::Fixed32(256)),
            ]
        );
    }

    #[test]
    fn lengths_are_not_believed() {
        assert_eq!(all(&[0x0a, 5, 1]), Err(ReadError::Length { number: 1, length: 5, left: 1 }));
        assert_eq!(all(&[0x0a]), Err(ReadError::Truncated));
        assert_eq!(all(&[0x09, 1]), Err(ReadError::Length { number: 1, length: 8, left: 1 }));
        assert_eq!(all(&[0x0b]), Err(ReadError::WireType { number: 1, wire_type: 3 }));
        assert_eq!(all(&[0x02, 0]), Err(ReadError::Number(0)));
        assert_eq!(all(&[0xff; 11]), Err(ReadError::Overlong));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let _ = all(&bytes);
        }
    }
}
