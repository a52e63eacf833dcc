//! OTAP: a recorded stream with changes. Five bytes of input describe a change and its position.
//! Random bytes would never pass the check of Arrow's header.
#![no_main]

use std::sync::{LazyLock, Once};

use libfuzzer_sys::fuzz_target;
use spanwise_fuzz::otap::{COMPRESSED, PLAIN, recorded};
use spanwise_wire::otap::{OtapLimits, StreamDecoder};

/// The decoder catches panics of Arrow's reader, so they are not findings. Other panics still end
/// the program.
static CAUGHT_PANICS_PASS: Once = Once::new();

/// The smaller batches of both recorded streams.
static STREAMS: LazyLock<[Vec<Vec<u8>>; 2]> = LazyLock::new(|| {
    [PLAIN, COMPRESSED].map(|file| recorded(file).map(|both| both.otap).collect())
});

fuzz_target!(|bytes: &[u8]| {
    CAUGHT_PANICS_PASS.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let Some((form, mut rest)) = bytes.split_first() else { return };
    let mut stream = STREAMS[usize::from(*form) % 2].clone();
    if form & 2 == 2 {
        stream = vec![rest.to_vec()];
        rest = &[];
    }
    while let Some(([which, low, high, what, byte], after)) = rest.split_first_chunk() {
        rest = after;
        let count = stream.len();
        let batch = &mut stream[usize::from(*which) % count];
        if batch.is_empty() {
            continue;
        }
        let place = usize::from(u16::from_le_bytes([*low, *high])) % batch.len();
        match what % 5 {
            0 => batch[place] = *byte,
            1 => batch[place] ^= *byte,
            2 => batch[place] = batch[place].wrapping_add(*byte),
            3 => batch.truncate(place),
            _ => stream.swap(usize::from(*which) % count, usize::from(*byte) % count),
        }
    }
    let limits = OtapLimits { batch_bytes: 8 << 20, table_rows: 100_000, ..OtapLimits::default() };
    let mut decoder = StreamDecoder::new(limits);
    for batch in stream {
        match decoder.decode(&batch.into()) {
            Ok(batch) => {
                if let Ok(decoded) = batch.decoded {
                    spanwise_fuzz::rows(decoded);
                }
            }
            Err(_) => return,
        }
    }
});
