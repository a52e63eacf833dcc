//! Batches of the JVM agent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spanwise_wire::jvm::decode;
use spanwise_wire::otlp::Limits;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(batch) = decode(bytes, &Limits::default()) {
        spanwise_fuzz::rows(batch.decoded);
    }
});
