//! OTLP in both encodings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanwise_wire::otlp::{Limits, decode_json, decode_protobuf};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits::default();
    if let Ok(decoded) = decode_protobuf(bytes, &limits) {
        spanwise_fuzz::rows(decoded);
    }
    if let Ok(decoded) = decode_json(bytes, &limits) {
        spanwise_fuzz::rows(decoded);
    }
});
