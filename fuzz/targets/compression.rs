//! Compressed bodies. The first byte selects the encoding. The size limit must hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanwise_wire::compression::{Encoding, decompress};

const LIMIT_BYTES: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Some((form, bytes)) = bytes.split_first() else { return };
    let encoding = if form % 2 == 0 { Encoding::Gzip } else { Encoding::Zstd };
    if let Ok(plain) = decompress(encoding, bytes, LIMIT_BYTES, |_| true) {
        assert!(plain.len() <= LIMIT_BYTES);
    }
});
