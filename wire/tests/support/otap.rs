//! Streams of the reference producer (`tests/recorded/otap`).

use bytes::{Buf, Bytes};

/// With plain buffers.
pub const PLAIN: &str = "plain.otap.zst";

/// The same with buffers that Arrow compresses.
pub const NAMES: [&str; 2] = [PLAIN, "compressed.otap.zst"];

/// One batch in both protocols.
pub struct Recorded {
    /// An `ExportTraceServiceRequest`.
    pub otlp: Bytes,
    /// A `BatchArrowRecords`.
    pub otap: Bytes,
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
