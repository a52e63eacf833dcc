//! Values of Kafka's protocol (kafka.apache.org/protocol, "Protocol Primitive
//! Types"; records: "Record Batch"). What was not captured reads as absent.

/// Longest variable-length number of 64 bits.
const MAX_VARINT_BYTES: usize = 10;

/// A message that is read from its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// Compact lengths and tagged fields.
    flexible: bool,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8], flexible: bool) -> Self {
        Self { bytes, flexible }
    }

    /// The rest, read with or without compact lengths.
    pub(super) const fn with_flexible(self, flexible: bool) -> Self {
        Self { flexible, ..self }
    }

    pub(super) const fn remaining(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn int8(&mut self) -> Option<i8> {
        self.array().map(i8::from_be_bytes)
    }

    pub(super) fn int16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn int32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn int64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn uuid(&mut self) -> Option<[u8; 16]> {
        self.array()
    }

    /// UNSIGNED_VARINT.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for index in 0..MAX_VARINT_BYTES {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f).checked_shl(7 * index as u32).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// VARINT or VARLONG: signed, in zigzag.
    pub(super) fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A length; inner `None` where it says that there is nothing.
    fn length(&mut self, short: bool) -> Option<Option<usize>> {
        let length = if self.flexible {
            i64::try_from(self.varint()?).ok()? - 1
        } else if short {
            i64::from(self.int16()?)
        } else {
            i64::from(self.int32()?)
        };
        Some(usize::try_from(length).ok())
    }

    /// STRING or NULLABLE_STRING, compact or not; null is empty.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.length(true)?;
        self.take(length.unwrap_or(0))
    }

    /// The count of an ARRAY, compact or not; null is empty.
    pub(super) fn count(&mut self) -> Option<usize> {
        Some(self.length(false)?.unwrap_or(0))
    }

    /// The length of BYTES or of RECORDS; null is empty.
    pub(super) fn bytes(&mut self) -> Option<usize> {
        self.count()
    }

    /// Past tagged fields, where there are such.
    pub(super) fn tags(&mut self) -> Option<()> {
        if self.flexible {
            for _ in 0..self.varint()? {
                let (_tag, size) = (self.varint()?, self.varint()?);
                self.take(usize::try_from(size).ok()?)?;
            }
        }
        Some(())
    }

    /// Past an array of elements of this many bytes, without tagged fields.
    pub(super) fn skip_array(&mut self, width: usize) -> Option<()> {
        let bytes = self.count()?.checked_mul(width)?;
        self.take(bytes).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_variable_length_are_read() {
        let read = |bytes: &[u8]| Reader::new(bytes, true).varint();
        assert_eq!(read(&[0x05]), Some(5));
        assert_eq!(read(&[0xac, 0x02]), Some(300));
        assert_eq!(read(&[0xff; 20]), None);
        assert_eq!(read(&[0x80]), None);
        let signed = |bytes: &[u8]| Reader::new(bytes, true).zigzag();
        assert_eq!(signed(&[0x01]), Some(-1));
        assert_eq!(signed(&[0x04]), Some(2));
    }

    #[test]
    fn lengths_are_compact_where_the_version_is_flexible() {
        assert_eq!(Reader::new(b"\0\x02abc", false).string(), Some(b"ab".as_slice()));
        assert_eq!(Reader::new(b"\x03abc", true).string(), Some(b"ab".as_slice()));
        assert_eq!(Reader::new(b"\xff\xffab", false).string(), Some(b"".as_slice()));
        assert_eq!(Reader::new(b"\0ab", true).string(), Some(b"".as_slice()));
        assert_eq!(Reader::new(b"\x05ab", true).string(), None);
        let mut tagged = Reader::new(b"\x02\x00\x01a\x01\x02bcd", true);
        assert_eq!((tagged.tags(), tagged.remaining()), (Some(()), 1));
    }
}
