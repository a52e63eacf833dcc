//! OTLP in both encodings. Requests as clients send them are written to the directory FUZZ_SEEDS.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use spanwise_fuzz::otap::{PLAIN, recorded};
use spanwise_wire::otlp::{Limits, decode_json, decode_protobuf};

fn write_seeds(to: &Path) {
    for (index, both) in recorded(PLAIN).enumerate() {
        assert!(decode_protobuf(&both.otlp, &Limits::default()).is_ok(), "it is recorded");
        std::fs::write(to.join(index.to_string()), both.otlp).expect("a seed is written");
    }
}

fuzz_target!(
    init: {
        if let Some(seeds) = std::env::var_os("FUZZ_SEEDS") {
            write_seeds(Path::new(&seeds));
        }
    },
    |bytes: &[u8]| {
        let limits = Limits::default();
        if let Ok(decoded) = decode_protobuf(bytes, &limits) {
            spanwise_fuzz::rows(decoded);
        }
        if let Ok(decoded) = decode_json(bytes, &limits) {
            spanwise_fuzz::rows(decoded);
        }
    }
);
