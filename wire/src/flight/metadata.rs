//! Metadata beside the Arrow data: the batch's origin, facts about the agent, and the server's
//! replies. Integers are little-endian.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::FlightError;

/// The origin of a batch. It is the same for every attempt to send the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// One run of one agent.
    pub source: [u8; 16],
    /// The batch's number in that run: from 1, increasing by one for each batch.
    pub sequence: u64,
}

/// A secret of one run of one agent, known only to the agent and its server. Batches with the
/// agent's name count as its own only with this secret. It is never displayed, not even for
/// debugging.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 32]);

impl Secret {
    /// A secret with these bytes.
    pub const fn of(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The first bytes of the source of a batch that comes from files.
const CONTENT: [u8; 4] = *b"file";

impl Origin {
    /// Whether the batch comes from files: it is named after its content, or has the number that
    /// stands beside them. Its source is not an agent.
    pub fn is_content(&self) -> bool {
        self.source.starts_with(&CONTENT)
    }

    /// The source of batches from files that grow. Their reader keeps the name, which is random, and
    /// the next batch's number beside them.
    pub fn growing_source(name: [u8; 12]) -> [u8; 16] {
        let mut source = [0; 16];
        source[..CONTENT.len()].copy_from_slice(&CONTENT);
        source[CONTENT.len()..].copy_from_slice(&name);
        source
    }
}

/// Derives a source from bytes. The same bytes give the same source on every host, so that a server
/// recognises what was sent before.
#[derive(Debug, Clone, Copy)]
pub struct ContentName(u128);

impl ContentName {
    /// Starts a name. A different `salt` gives different names for the same bytes.
    pub fn new(salt: u64) -> Self {
        // FNV-1a in 128 bits (draft-eastlake-fnv, section 5).
        let mut name = Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        name.add(&salt.to_le_bytes());
        name
    }

    /// Adds bytes and their length.
    pub fn add(&mut self, bytes: &[u8]) {
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        let length = (bytes.len() as u64).to_le_bytes();
        for byte in bytes.iter().chain(&length) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(PRIME);
        }
    }

    /// The source: 96 bits of the name.
    pub fn source(&self) -> [u8; 16] {
        // The upper bits are mixed best. The lower ones are folded into them.
        let folded = self.0 ^ (self.0 << 64);
        let mut source = folded.to_be_bytes();
        source.rotate_right(CONTENT.len());
        source[..CONTENT.len()].copy_from_slice(&CONTENT);
        source
    }
}

/// `app_metadata` of an agent's message: source (16 bytes), sequence (u64, 0 if the message
/// contains no batch), then optionally facts as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutMetadata {
    /// The batch's origin. With sequence 0, only the source counts.
    pub origin: Origin,
    /// A JSON object with facts about the agent.
    pub facts: Option<Bytes>,
}

/// Maximum bytes of facts.
const FACTS_BYTES: usize = 64 * 1024;

const HEADER_BYTES: usize = 24;

impl PutMetadata {
    /// Encodes the metadata.
    pub fn encode(&self) -> Bytes {
        let facts = self.facts.as_deref().unwrap_or_default();
        let mut bytes = BytesMut::with_capacity(HEADER_BYTES + facts.len());
        bytes.put_slice(&self.origin.source);
        bytes.put_u64_le(self.origin.sequence);
        bytes.put_slice(facts);
        bytes.freeze()
    }

    /// Decodes metadata.
    ///
    /// # Errors
    /// If the bytes are too short or too long.
    pub fn decode(bytes: &Bytes) -> Result<Self, FlightError> {
        let short = || {
            FlightError::malformed(format_args!(
                "app_metadata has {} bytes; {HEADER_BYTES} at least are needed",
                bytes.len()
            ))
        };
        let (source, rest) = bytes.split_first_chunk::<16>().ok_or_else(short)?;
        let (sequence, facts) = rest.split_first_chunk::<8>().ok_or_else(short)?;
        if facts.len() > FACTS_BYTES {
            return Err(FlightError::TooLarge { what: "bytes of facts", limit: FACTS_BYTES });
        }
        Ok(Self {
            origin: Origin { source: *source, sequence: u64::from_le_bytes(*sequence) },
            facts: (!facts.is_empty()).then(|| bytes.slice(HEADER_BYTES..)),
        })
    }

    /// Whether facts of this length can be sent.
    pub(super) const fn facts_fit(bytes: usize) -> bool {
        bytes <= FACTS_BYTES
    }
}

/// `app_metadata` of a server's message: kind (1 byte), sequence (u64), then for a refusal the
/// delay in milliseconds (u64) and the reason in UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutReply {
    /// Every batch up to this sequence is durable.
    Durable {
        /// The sequence.
        sequence: u64,
    },
    /// The server is full. It accepts no further batch on this stream. The sender must open a new
    /// stream after the delay and start with this batch.
    Refused {
        /// The first batch that was not accepted.
        sequence: u64,
        /// When to try again.
        retry_after: Duration,
        /// What is full.
        reason: String,
    },
}

const DURABLE: u8 = 1;
const REFUSED: u8 = 2;

/// Maximum delay that a reply may request.
const LONGEST_DELAY_MILLIS: u64 = 60_000;

impl PutReply {
    /// Encodes the reply.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(32);
        match self {
            Self::Durable { sequence } => {
                bytes.put_u8(DURABLE);
                bytes.put_u64_le(*sequence);
            }
            Self::Refused { sequence, retry_after, reason } => {
                bytes.put_u8(REFUSED);
                bytes.put_u64_le(*sequence);
                let millis = u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX);
                bytes.put_u64_le(millis.min(LONGEST_DELAY_MILLIS));
                bytes.put_slice(reason.as_bytes());
            }
        }
        bytes.freeze()
    }

    /// Decodes a reply.
    ///
    /// # Errors
    /// If the bytes are too short or of an unknown kind.
    pub fn decode(bytes: &[u8]) -> Result<Self, FlightError> {
        let malformed = || FlightError::malformed("a reply that this version does not know");
        let (&kind, rest) = bytes.split_first().ok_or_else(malformed)?;
        let (sequence, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
        let sequence = u64::from_le_bytes(*sequence);
        match kind {
            DURABLE => Ok(Self::Durable { sequence }),
            REFUSED => {
                let (millis, reason) = rest.split_first_chunk().ok_or_else(malformed)?;
                let millis = u64::from_le_bytes(*millis).min(LONGEST_DELAY_MILLIS);
                Ok(Self::Refused {
                    sequence,
                    retry_after: Duration::from_millis(millis),
                    reason: String::from_utf8_lossy(reason).into_owned(),
                })
            }
            _ => Err(malformed()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn metadata_survives(source: [u8; 16], sequence: u64, facts in proptest::option::of("[a-z]{1,9}")) {
            let metadata = PutMetadata {
                origin: Origin { source, sequence },
                facts: facts.map(Bytes::from),
            };
            prop_assert_eq!(PutMetadata::decode(&metadata.encode()).unwrap(), metadata);
        }

        #[test]
        fn replies_survive(sequence: u64, millis in 0..LONGEST_DELAY_MILLIS, reason: String) {
            for reply in [
                PutReply::Durable { sequence },
                PutReply::Refused { sequence, retry_after: Duration::from_millis(millis), reason },
            ] {
                prop_assert_eq!(PutReply::decode(&reply.encode()).unwrap(), reply);
            }
        }

        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let _ = PutReply::decode(&bytes);
            let _ = PutMetadata::decode(&Bytes::from(bytes));
        }
    }

    #[test]
    fn content_is_named_by_all_of_its_bytes_and_their_division() {
        let name = |salt, parts: &[&str]| {
            let mut name = ContentName::new(salt);
            parts.iter().for_each(|part| name.add(part.as_bytes()));
            name.source()
        };
        let names = [
            name(0, &[]),
            name(0, &["ab", "c"]),
            name(0, &["a", "bc"]),
            name(0, &["abc"]),
            name(1, &["abc"]),
            name(0, &["abd"]),
        ];
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert_eq!(name(0, &["abc"]), name(0, &["abc"]));
        for source in names {
            assert!(Origin { source, sequence: 1 }.is_content());
        }
    }

    #[test]
    fn short_metadata_is_an_error_that_says_so() {
        let error = PutMetadata::decode(&Bytes::from_static(&[0; 23])).unwrap_err();
        assert!(error.to_string().contains("23 bytes"), "{error}");
    }
}
