//! Traces in the Common Trace Format, with metadata in TSDL (CTF 1.8) and in JSON (CTF 2). An input
//! is the length of the metadata, the metadata, and a stream. Recorded traces are written to the
//! directory FUZZ_SEEDS.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use spanwise_ctf::{Spans, Trace, parse_metadata};
use spanwise_fuzz::directory;
use spanwise_wire::otlp::{Limits, decode_protobuf};

const OLD: &[u8] = include_bytes!("../../wire/ctf/tests/recorded/lttng/metadata");
const NEW: &[u8] = include_bytes!("../../wire/ctf/tests/recorded/ctf2/metadata");
const STREAM: &[u8] = include_bytes!("../../wire/ctf/tests/recorded/lttng/ch_0");
const KERNEL: &[u8] = include_bytes!("../../wire/ctf/tests/recorded/kernel/metadata");
const KERNEL_STREAM: &[u8] = include_bytes!("../../wire/ctf/tests/recorded/kernel/channel0_0");
/// No event takes less than a bit, so an input has at most so many.
const STEPS: usize = 8 * 65_536;

static DIR: LazyLock<PathBuf> = LazyLock::new(|| directory("ctf"));

fn parts(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    Some(rest.split_at(rest.len().min(usize::from(u16::from_le_bytes(*length)))))
}

fn write(metadata: &[u8], stream: &[u8]) {
    for (name, bytes) in [("metadata", metadata), ("stream", stream)] {
        std::fs::write(DIR.join(name), bytes).expect("a file in the directory can be written");
    }
}

fn events() -> usize {
    let Ok(mut trace) = Trace::open(&DIR) else { return 0 };
    let (mut events, mut steps) = (0, 0);
    while let Some(step) = trace.step() {
        steps += 1;
        assert!(steps <= STEPS, "a stream has an end");
        events += usize::from(step.is_some());
    }
    events
}

fn spans() {
    let Ok(trace) = Trace::open(&DIR) else { return };
    let mut spans = Spans::new(trace, None);
    while let Some(batch) = spans.next_batch() {
        let decoded = decode_protobuf(&batch.messages[0], &Limits::default()).expect("it is OTLP");
        let rows = decoded.batch.num_rows() as u64 + decoded.rejections.total();
        assert_eq!(rows, batch.items[0]);
        assert!(batch.items[2] == 0 || !batch.messages[2].is_empty(), "points are in a message");
    }
}

fn write_seeds(to: &Path) {
    for (name, metadata, stream, count) in [
        ("ctf-1.8", OLD, STREAM, 11),
        ("ctf-2", NEW, STREAM, 11),
        ("kernel", KERNEL, KERNEL_STREAM, 13),
    ] {
        write(metadata, stream);
        assert_eq!(events(), count, "{name}: the recorded events are found");
        let mut seed = (metadata.len() as u16).to_le_bytes().to_vec();
        seed.extend(metadata);
        seed.extend(stream);
        std::fs::write(to.join(name), seed).expect("a seed is written");
    }
}

fuzz_target!(
    init: {
        if let Some(seeds) = std::env::var_os("FUZZ_SEEDS") {
            write_seeds(Path::new(&seeds));
        }
    },
    |bytes: &[u8]| {
        let Some((metadata, stream)) = parts(bytes) else { return };
        if parse_metadata(metadata).is_err() {
            return;
        }
        write(metadata, stream);
        events();
        spans();
    }
);
