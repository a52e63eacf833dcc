//! Zipkin. The first byte selects the format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanwise_wire::otlp::Limits;
use spanwise_wire::zipkin::{Format, decode};

fuzz_target!(|bytes: &[u8]| {
    let Some((form, bytes)) = bytes.split_first() else { return };
    let format = match form % 4 {
        0 => Format::V1Json,
        1 => Format::V1Thrift,
        2 => Format::V2Json,
        _ => Format::V2Protobuf,
    };
    if let Ok(decoded) = decode(format, bytes, &Limits::default(), 1) {
        spanwise_fuzz::rows(decoded);
    }
});
