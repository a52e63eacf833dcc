//! Recorded OTAP streams, each batch with the same spans as OTLP.

use spanwise_wire::compression::{Encoding, decompress};

/// With uncompressed Arrow buffers.
pub const PLAIN: &[u8] = include_bytes!("../../tests/recorded/otap/plain.otap.zst");
/// With compressed Arrow buffers.
pub const COMPRESSED: &[u8] = include_bytes!("../../tests/recorded/otap/compressed.otap.zst");

/// Larger batches are left out, because changing them would take too long.
const MOST_BATCH_BYTES: usize = 40_000;

/// The same spans in two formats.
pub struct Both {
    /// As OTLP in Protobuf.
    pub otlp: Vec<u8>,
    /// As OTAP.
    pub otap: Vec<u8>,
}

/// The smaller batches of a recorded stream.
pub fn recorded(file: &[u8]) -> impl Iterator<Item = Both> {
    let file = decompress(Encoding::Zstd, file, 64 << 20, |_| true).expect("it is recorded");
    let (mut rest, mut parts) = (file.as_slice(), Vec::new());
    while let Some((length, after)) = rest.split_first_chunk() {
        let (part, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        parts.push(part.to_vec());
        rest = after;
    }
    let mut parts = parts.into_iter();
    let both = std::iter::from_fn(move || Some(Both { otlp: parts.next()?, otap: parts.next()? }));
    both.filter(|both| both.otap.len() < MOST_BATCH_BYTES)
}
