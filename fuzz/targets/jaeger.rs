//! Jaeger. The first byte selects the format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanwise_wire::jaeger::{Datagrams, Protocol, decode_protobuf, decode_thrift};
use spanwise_wire::otlp::Limits;

fuzz_target!(|bytes: &[u8]| {
    let Some((form, bytes)) = bytes.split_first() else { return };
    let limits = Limits::default();
    let datagram = |protocol| {
        let mut datagrams = Datagrams::new(&limits, 1);
        datagrams.add(protocol, bytes)?;
        datagrams.finish()
    };
    let decoded = match form % 4 {
        0 => decode_protobuf(bytes, &limits),
        1 => decode_thrift(bytes, &limits),
        2 => datagram(Protocol::Binary),
        _ => datagram(Protocol::Compact),
    };
    if let Ok(decoded) = decoded {
        spanwise_fuzz::rows(decoded);
    }
});
