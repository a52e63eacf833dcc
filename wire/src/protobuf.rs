//! The protobuf wire format, field by field, without copying.
//!
//! Source: protobuf "Encoding" guide. Groups (wire types 3 and 4) are long
//! abandoned and no message read here has them: they are an error.

use prost::Message;

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    /// Its number.
    pub(crate) number: u64,
    /// Its payload, where it is length-delimited; other payloads are skipped,
    /// since no field that the outer layer reads has them.
    pub(crate) bytes: Option<&'a [u8]>,
}

/// Iterates over a message's fields; ends after the first error.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

/// Why a message's fields could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FieldError {
    #[error("it ends in the middle of a number")]
    Truncated,
    #[error("a number is longer than 64 bits")]
    Overlong,
    #[error("field {number} claims {length} bytes, but only {left} are left")]
    Length { number: u64, length: u64, left: usize },
    #[error("field {number} has wire type {wire_type}, which nothing uses that is read here")]
    WireType { number: u64, wire_type: u64 },
    #[error("field number 0 is not allowed")]
    Zero,
}

impl<'a> Fields<'a> {
    pub(crate) const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Result<u64, FieldError> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(FieldError::Truncated)?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(FieldError::Overlong);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(FieldError::Overlong)
    }

    fn take(&mut self, number: u64, length: u64) -> Result<&'a [u8], FieldError> {
        let left = self.rest.len();
        let (taken, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| self.rest.split_at_checked(length))
            .ok_or(FieldError::Length { number, length, left })?;
        self.rest = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<Field<'a>, FieldError> {
        let tag = self.varint()?;
        let (number, wire_type) = (tag >> 3, tag & 7);
        if number == 0 {
            return Err(FieldError::Zero);
        }
        let bytes = match wire_type {
            0 => {
                self.varint()?;
                None
            }
            1 => {
                self.take(number, 8)?;
                None
            }
            2 => {
                let length = self.varint()?;
                Some(self.take(number, length)?)
            }
            5 => {
                self.take(number, 4)?;
                None
            }
            _ => return Err(FieldError::WireType { number, wire_type }),
        };
        Ok(Field { number, bytes })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, FieldError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// The payloads of the field `wanted`.
pub(crate) fn submessages(
    message: &[u8],
    wanted: u64,
) -> impl Iterator<Item = Result<&[u8], FieldError>> {
    Fields::new(message).filter_map(move |field| match field {
        Ok(field) if field.number == wanted => {
            // A field with the right number and a payload of another type is
            // unknown to us, and unknown fields are skipped.
            field.bytes.map(Ok)
        }
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

/// All pieces of the submessage `wanted`, merged as protobuf asks.
pub(crate) fn merged<M: Message + Default>(message: &[u8], wanted: u64) -> Result<M, String> {
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

    fn all(bytes: &[u8]) -> Result<Vec<Field<'_>>, FieldError> {
        Fields::new(bytes).collect()
    }

    #[test]
    fn every_wire_type_is_stepped_over() {
        let bytes = [
            0x08, 0x96, 0x01, // 1: varint 150
            0x11, 0, 0, 0, 0, 0, 0, 0, 0, // 2: fixed64
            0x1a, 2, b'h', b'i', // 3: bytes
            0x25, 0, 0, 0, 0, // 4: fixed32
        ];
        let fields = all(&bytes).unwrap();
        assert_eq!(fields.iter().map(|f| f.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(fields[2].bytes, Some(&b"hi"[..]));
    }

    #[test]
    fn lengths_are_not_believed() {
        assert_eq!(all(&[0x0a, 5, 1]), Err(FieldError::Length { number: 1, length: 5, left: 1 }));
        assert_eq!(all(&[0x0a]), Err(FieldError::Truncated));
        assert_eq!(all(&[0x0b]), Err(FieldError::WireType { number: 1, wire_type: 3 }));
        assert_eq!(all(&[0x02, 0]), Err(FieldError::Zero));
        assert_eq!(all(&[0xff; 11]), Err(FieldError::Overlong));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let _ = all(&bytes);
        }
    }
}
