//! `BatchArrowRecords` (`arrow_service.proto`), without copying its tables.
//!
//! The field `headers` is not decoded. It contains the metadata of a normal gRPC call
//! (authorisation, the trace context of the sender's own pipeline), which no receiver here uses.

use bytes::Bytes;

use super::OtapError;
use super::payload::Payload;
use crate::protobuf::{self, ReadError, Reader};

/// Maximum length of a schema id. The Rust producer's ids spell out the schema.
const SCHEMA_ID_BYTES: usize = 16 << 10;

/// One message of a stream.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) batch_id: i64,
    pub(super) payloads: Vec<ArrowPayload>,
}

/// One table of a message.
#[derive(Debug)]
pub(super) struct ArrowPayload {
    pub(super) schema_id: String,
    pub(super) payload: Payload,
    /// Arrow IPC messages.
    pub(super) record: Bytes,
}

impl Message {
    /// Decodes a message. Sets `batch_id` as soon as it is known.
    pub(super) fn read(bytes: &Bytes, batch_id: &mut Option<i64>) -> Result<Self, OtapError> {
        const PLACE: &str = "the message";
        let malformed = |error: ReadError| OtapError::malformed(PLACE, error);
        let mut message = Self::default();
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.next().map_err(malformed)? {
            match (field.number, field.payload) {
                (1, protobuf::Payload::Varint(id)) => {
                    message.batch_id = id.cast_signed();
                    *batch_id = Some(message.batch_id);
                }
                (2, protobuf::Payload::Bytes(part)) => {
                    let payload = ArrowPayload::read(bytes, part)?;
                    if message.payloads.iter().any(|other| other.payload == payload.payload) {
                        return Err(OtapError::malformed(
                            payload.payload.name(),
                            "it is there more than once",
                        ));
                    }
                    message.payloads.push(payload);
                }
                (number @ 1..=2, _) => {
                    return Err(malformed(ReadError::Type {
                        message: "BatchArrowRecords",
                        number,
                    }));
                }
                _ => {}
            }
        }
        Ok(message)
    }
}

impl ArrowPayload {
    fn read(whole: &Bytes, bytes: &[u8]) -> Result<Self, OtapError> {
        const ARROW_PAYLOAD: &str = "ArrowPayload";
        let malformed = |error: ReadError| OtapError::malformed(ARROW_PAYLOAD, error);
        let (mut schema_id, mut number, mut record) = ("", 0, Bytes::new());
        let mut reader = Reader::new(bytes);
        while let Some(field) = reader.next().map_err(malformed)? {
            match (field.number, field.payload) {
                (1, protobuf::Payload::Bytes(bytes)) => {
                    schema_id = std::str::from_utf8(bytes).map_err(|_| {
                        malformed(ReadError::Text { message: ARROW_PAYLOAD, number: 1 })
                    })?;
                }
                (2, protobuf::Payload::Varint(value)) => number = value,
                (3, protobuf::Payload::Bytes(bytes)) => record = whole.slice_ref(bytes),
                (number @ 1..=3, _) => {
                    return Err(malformed(ReadError::Type { message: ARROW_PAYLOAD, number }));
                }
                _ => {}
            }
        }
        if schema_id.len() > SCHEMA_ID_BYTES {
            return Err(OtapError::TooLarge {
                what: "bytes of a schema_id",
                limit: SCHEMA_ID_BYTES,
            });
        }
        let payload = Payload::from_number(number).ok_or_else(|| {
            OtapError::malformed(
                ARROW_PAYLOAD,
                format!("type {number} is none of a stream of traces"),
            )
        })?;
        Ok(Self { schema_id: schema_id.to_owned(), payload, record })
    }
}
