//! Reads the numbers and texts of a batch.

/// The bytes that are left of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    whole: usize,
}

/// Why a batch cannot be read further.
pub(super) type Broken = &'static str;

const SHORT: Broken = "it ends too early";

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, whole: bytes.len() }
    }

    /// Number of bytes that were read.
    pub(super) const fn position(&self) -> usize {
        self.whole - self.bytes.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Broken> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or(SHORT)?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Broken> {
        let (first, rest) = self.bytes.split_first().ok_or(SHORT)?;
        self.bytes = rest;
        Ok(*first)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Broken> {
        let (taken, rest) = self.bytes.split_first_chunk::<N>().ok_or(SHORT)?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// An unsigned number of at most 64 bits, in groups of 7 bits, the lowest first.
    pub(super) fn number(&mut self) -> Result<u64, Broken> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 127);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits")
    }

    /// A signed number: 0, -1, 1, -2 are 0, 1, 2, 3.
    pub(super) fn signed(&mut self) -> Result<i64, Broken> {
        let value = self.number()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A number of things that take at least `least` bytes each, so that a batch cannot claim
    /// more than it has.
    pub(super) fn count(&mut self, least: usize) -> Result<usize, Broken> {
        let count = usize::try_from(self.number()?).map_err(|_| SHORT)?;
        if count.checked_mul(least).is_none_or(|bytes| bytes > self.bytes.len()) {
            return Err(SHORT);
        }
        Ok(count)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Broken> {
        let length = self.count(1)?;
        str::from_utf8(self.take(length)?).map_err(|_| "a text is not UTF-8")
    }
}
