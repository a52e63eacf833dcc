//! Numbers and texts as bytes, read with bounds.

use std::collections::BTreeMap;
use std::fmt;

use ahash::AHashMap;

/// Why bytes are no figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollupError {
    /// They were written by a later program.
    Version(u8),
    /// They are cut off or damaged.
    Damaged,
}

impl fmt::Display for RollupError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(
                out,
                "the figures have form {version}, which a later Spanwise wrote; use that version to read them"
            ),
            Self::Damaged => write!(out, "the figures are cut off or damaged"),
        }
    }
}

impl std::error::Error for RollupError {}

/// Writes numbers in as few bytes as they need.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    texts: Vec<String>,
    places: AHashMap<String, u64>,
}

impl Writer {
    pub(crate) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub(crate) fn large(&mut self, mut number: u128) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    pub(crate) fn length(&mut self, length: usize) {
        self.number(length as u64);
    }

    pub(crate) fn signed(&mut self, number: i64) {
        self.number(((number << 1) ^ (number >> 63)) as u64);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A text, as its place in the table of texts.
    pub(crate) fn text(&mut self, text: &str) {
        let place = match self.places.get(text) {
            Some(place) => *place,
            None => {
                let place = self.texts.len() as u64;
                self.texts.push(text.to_owned());
                self.places.insert(text.to_owned(), place);
                place
            }
        };
        self.number(place);
    }

    /// All bytes: the version, the table of texts, and what was written.
    pub(crate) fn finish(self, version: u8) -> Vec<u8> {
        let mut head = Self { bytes: vec![version], ..Self::default() };
        head.length(self.texts.len());
        for text in &self.texts {
            head.length(text.len());
            head.raw(text.as_bytes());
        }
        head.raw(&self.bytes);
        head.bytes
    }
}

/// Reads what [`Writer`] wrote.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    texts: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], version: u8) -> Result<Self, RollupError> {
        let (written, bytes) = bytes.split_first().ok_or(RollupError::Damaged)?;
        if *written != version {
            return Err(RollupError::Version(*written));
        }
        let mut reader = Self { bytes, texts: Vec::new() };
        for _ in 0..reader.length()? {
            let length = reader.length()?;
            let text = std::str::from_utf8(reader.raw(length)?);
            reader.texts.push(text.map_err(|_| RollupError::Damaged)?);
        }
        Ok(reader)
    }

    pub(crate) fn large(&mut self) -> Result<u128, RollupError> {
        let mut number = 0_u128;
        for shift in (0..128).step_by(7) {
            let byte = self.raw(1)?[0];
            let part = u128::from(byte & 0x7f);
            if part << shift >> shift != part {
                break;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(RollupError::Damaged)
    }

    pub(crate) fn number(&mut self) -> Result<u64, RollupError> {
        // Most are small.
        if let [byte @ 0..0x80, rest @ ..] = self.bytes {
            self.bytes = rest;
            return Ok((*byte).into());
        }
        u64::try_from(self.large()?).map_err(|_| RollupError::Damaged)
    }

    /// A count. It is far below what cannot be added.
    pub(crate) fn count(&mut self) -> Result<u64, RollupError> {
        let number = self.number()?;
        if number >> 48 == 0 { Ok(number) } else { Err(RollupError::Damaged) }
    }

    /// A sum of times.
    pub(crate) fn sum(&mut self) -> Result<u128, RollupError> {
        let number = self.large()?;
        if number >> 112 == 0 { Ok(number) } else { Err(RollupError::Damaged) }
    }

    /// A number of things that follow. Each takes at least a byte, so that damaged bytes cannot
    /// claim much memory.
    pub(crate) fn length(&mut self) -> Result<usize, RollupError> {
        let length = usize::try_from(self.number()?).map_err(|_| RollupError::Damaged)?;
        if length > self.bytes.len() { Err(RollupError::Damaged) } else { Ok(length) }
    }

    /// A place in something of this length.
    pub(crate) fn place(&mut self, length: usize) -> Result<usize, RollupError> {
        let place = usize::try_from(self.number()?).map_err(|_| RollupError::Damaged)?;
        if place < length { Ok(place) } else { Err(RollupError::Damaged) }
    }

    pub(crate) fn signed(&mut self) -> Result<i64, RollupError> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8], RollupError> {
        let (raw, rest) = self.bytes.split_at_checked(length).ok_or(RollupError::Damaged)?;
        self.bytes = rest;
        Ok(raw)
    }

    pub(crate) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], RollupError> {
        self.raw(LENGTH)?.try_into().map_err(|_| RollupError::Damaged)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, RollupError> {
        let place = self.place(self.texts.len())?;
        Ok(self.texts[place])
    }

    /// An error if anything is left.
    pub(crate) fn end(&self) -> Result<(), RollupError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(RollupError::Damaged) }
    }
}

impl Writer {
    /// Buckets with counts, as distances and counts.
    pub(crate) fn counts(&mut self, counts: &BTreeMap<u16, u64>) {
        self.length(counts.len());
        let mut before = 0;
        for (bucket, count) in counts {
            self.number(u64::from(bucket - before));
            self.number(*count);
            before = *bucket;
        }
    }
}

impl Reader<'_> {
    pub(crate) fn counts(&mut self) -> Result<BTreeMap<u16, u64>, RollupError> {
        let mut counts = BTreeMap::new();
        let mut bucket = 0_u16;
        for _ in 0..self.length()? {
            let step = u16::try_from(self.number()?).map_err(|_| RollupError::Damaged)?;
            bucket = bucket.checked_add(step).ok_or(RollupError::Damaged)?;
            if bucket > crate::chains::LAST_BUCKET || counts.insert(bucket, self.count()?).is_some()
            {
                return Err(RollupError::Damaged);
            }
        }
        Ok(counts)
    }
}
