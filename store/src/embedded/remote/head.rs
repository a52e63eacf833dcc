//! The head of a remote file: everything that is needed to open the file and to verify what is read
//! from it.
//!
//! Of the file's three objects, the head is written last and removed first. A file is in the bucket
//! if its head is. The owner keeps a local copy of each head, so that a start needs no requests to
//! the bucket.
//!
//! ```text
//! "SWHEAD01" | length of the description u32 | description, JSON | end of the
//! spans' file | end of the shapes' file | CRC-32 of all before
//! ```

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::cache::BLOCK_BYTES;

const MAGIC: &[u8; 8] = b"SWHEAD01";
const MAX_BYTES: usize = 256 << 20;

/// A head. See the module's description.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The name of both files, without suffixes.
    pub(super) name: String,
    /// First and last generation.
    pub(super) generations: (u64, u64),
    /// The last deletion that is applied in the file.
    pub(super) deletions: u64,
    pub(super) spans: Part,
    pub(super) shapes: Part,
}

/// The description of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    pub(super) bytes: u64,
    /// The offset from which the head contains the object's bytes.
    pub(super) tail: u64,
    /// CRC-32 of each block.
    pub(super) blocks: Vec<u32>,
}

/// A head with the ends of both objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WithTails {
    pub(super) head: Head,
    pub(super) spans: Bytes,
    pub(super) shapes: Bytes,
}

impl Head {
    /// The objects of the file, in the order in which they are written.
    pub(super) fn keys(&self) -> [String; 3] {
        [shapes_key(&self.name), spans_key(&self.name), head_key(&self.name)]
    }
}

/// The key of a file's spans.
pub(super) fn spans_key(name: &str) -> String {
    format!("spans/{name}.parquet")
}

/// The key of a file's shapes.
pub(super) fn shapes_key(name: &str) -> String {
    format!("shapes/{name}.parquet")
}

/// The key of a file's head.
pub(super) fn head_key(name: &str) -> String {
    format!("heads/{name}.head")
}

/// The file's name, from the file name of an object or a head.
pub(super) fn name_of(file_name: &str) -> Option<&str> {
    let name = file_name.strip_suffix(".parquet").or_else(|| file_name.strip_suffix(".head"))?;
    let sound = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    (name.chars().all(sound) && name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
}

impl WithTails {
    pub(super) fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let json = serde_json::to_vec(&self.head)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend((json.len() as u32).to_le_bytes());
        bytes.extend([&json[..], &self.spans, &self.shapes].concat());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Ok(bytes)
    }

    /// Decodes a head.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn decode(bytes: &Bytes) -> Result<Self, String> {
        let damaged = || "the head is damaged".to_owned();
        if bytes.len() > MAX_BYTES {
            return Err("the head is too large to be one".to_owned());
        }
        let (content, crc32) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        if !content.starts_with(MAGIC) || crc32fast::hash(content) != u32::from_le_bytes(*crc32) {
            return Err(damaged());
        }
        let length =
            content.get(8..12).and_then(|bytes| bytes.first_chunk()).ok_or_else(damaged)?;
        let json_end = 12 + u32::from_le_bytes(*length) as usize;
        let json = content.get(12..json_end).ok_or_else(damaged)?;
        let head: Head = serde_json::from_slice(json)
            .map_err(|error| format!("the head is of another version ({error})"))?;
        let tail = |part: &Part| {
            let blocks = part.bytes.div_ceil(BLOCK_BYTES) == part.blocks.len() as u64;
            let length = part.bytes.checked_sub(part.tail).filter(|_| blocks);
            length.and_then(|length| usize::try_from(length).ok()).ok_or_else(damaged)
        };
        let spans_end = json_end.checked_add(tail(&head.spans)?).ok_or_else(damaged)?;
        let shapes_end = spans_end.checked_add(tail(&head.shapes)?).ok_or_else(damaged)?;
        if shapes_end != content.len() || name_of(&format!("{}.head", head.name)).is_none() {
            return Err(damaged());
        }
        let (spans, shapes) =
            (bytes.slice(json_end..spans_end), bytes.slice(spans_end..shapes_end));
        Ok(Self { head, spans, shapes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> WithTails {
        let part = |bytes: u64, tail| Part {
            bytes,
            tail,
            blocks: vec![7; bytes.div_ceil(BLOCK_BYTES) as usize],
        };
        WithTails {
            head: Head {
                name: "000000000001-000000000008.00ff".to_owned(),
                generations: (1, 8),
                deletions: 3,
                spans: part(3 * BLOCK_BYTES + 1, 3 * BLOCK_BYTES - 9),
                shapes: part(50, 45),
            },
            spans: vec![1; 10].into(),
            shapes: vec![2; 5].into(),
        }
    }

    #[test]
    fn a_head_says_what_it_said_and_damage_is_found() {
        let sample = sample();
        let bytes = sample.encode().expect("encodes");
        assert_eq!(WithTails::decode(&bytes.clone().into()), Ok(sample));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            assert!(WithTails::decode(&damaged.into()).is_err(), "byte {at}");
            assert!(WithTails::decode(&bytes[..at].to_vec().into()).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn names_are_those_of_files_only() {
        assert_eq!(
            name_of("000000000001-000000000008.00ff.head"),
            Some("000000000001-000000000008.00ff")
        );
        for foreign in ["x.head", "1-2.ff", "1/../2.head", ".head", "1 2.parquet"] {
            assert_eq!(name_of(foreign), None, "{foreign}");
        }
    }
}
