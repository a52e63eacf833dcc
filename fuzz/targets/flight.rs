//! An agent's stream: messages, each preceded by its length in two bytes. The first byte of a
//! message selects its parts.
#![no_main]

use std::sync::Once;

use arrow_flight::FlightData;
use libfuzzer_sys::fuzz_target;
use spanwise_wire::flight::{FlightLimits, PutDecoder, schema_message};

/// The decoder catches panics of Arrow's reader, so they are not findings. Other panics still end
/// the program.
static CAUGHT_PANICS_PASS: Once = Once::new();

fuzz_target!(|bytes: &[u8]| {
    CAUGHT_PANICS_PASS.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let mut decoder = PutDecoder::new(FlightLimits::default(), Default::default());
    let started = decoder.push(schema_message());
    assert!(started.is_ok(), "the schema is our own");
    let mut rest = bytes;
    while let Some(([form, header, low, high], after)) = rest.split_first_chunk() {
        let header = usize::from(*header).min(after.len());
        let (header, after) = after.split_at(header);
        let body = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (body, after) = after.split_at(body);
        rest = after;
        let message = FlightData {
            flight_descriptor: None,
            data_header: header.to_vec().into(),
            app_metadata: if form & 1 == 1 { body.to_vec().into() } else { Default::default() },
            data_body: if form & 2 == 2 { body.to_vec().into() } else { Default::default() },
        };
        if decoder.push(message).is_err() {
            return;
        }
    }
});
