//! Streams of the reference producer (`tests/recorded/otap`).

use bytes::{Buf, Bytes};
use prost::Message;

/// With uncompressed buffers.
pub const PLAIN: &str = "plain.otap.zst";

/// Both streams; the second has buffers compressed by Arrow.
pub const NAMES: [&str; 2] = [PLAIN, "compressed.otap.zst"];

/// One batch in both protocols.
pub struct Recorded {
    /// An `ExportTraceServiceRequest`.
    pub otlp: Bytes,
    /// A `BatchArrowRecords`.
    pub otap: Bytes,
}

/// `BatchArrowRecords` of `arrow_service.proto`.
#[derive(Clone, PartialEq, Message)]
pub struct BatchArrowRecords {
    #[prost(int64, tag = "1")]
    pub batch_id: i64,
    #[prost(message, repeated, tag = "2")]
    pub arrow_payloads: Vec<ArrowPayload>,
    #[prost(bytes = "vec", tag = "3")]
    pub headers: Vec<u8>,
}

/// One table of a batch.
#[derive(Clone, PartialEq, Message)]
pub struct ArrowPayload {
    #[prost(string, tag = "1")]
    pub schema_id: String,
    #[prost(int32, tag = "2")]
    pub r#type: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub record: Vec<u8>,
}

/// The batches of a stream.
pub fn recorded(name: &str) -> Vec<Recorded> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/recorded/otap/").to_owned() + name;
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut rest = Bytes::from(zstd::decode_all(file).unwrap());
    let mut take = || {
        let length = usize::try_from(rest.get_u32_le()).unwrap();
        (rest.split_to(length), rest.is_empty())
    };
    let mut batches = Vec::new();
    loop {
        let (otlp, _) = take();
        let (otap, end) = take();
        batches.push(Recorded { otlp, otap });
        if end {
            return batches;
        }
    }
}
