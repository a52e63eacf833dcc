//! Traffic of a connection that a plugin parses (the example in `examples/plugin`). Each event is a
//! header of four bytes (direction and loss, captured length in two bytes, uncaptured length) and
//! the captured bytes. Usually the first four bytes are replaced by a valid start of a message,
//! because otherwise hardly any event would be recognised as one. `SPANWISE_PLUGIN` is the plugin's
//! file; run.sh builds it.
#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use spanwise_capture_protocols::plugins::Plugin;
use spanwise_capture_tracer::event::Direction;
use spanwise_capture_tracer::recording::{RecordedData, RecordedEvent};
use spanwise_capture_tracer::{Tracer, TracerConfig};
use spanwise_fuzz::processes::Directory;

/// Most bytes that the kernel side captures of a call.
const CAPTURED: usize = 1024;
/// Maximum memory of a connection.
const MOST_HELD_BYTES: usize = 3 << 20;

static PLUGIN: LazyLock<Plugin> = LazyLock::new(|| {
    let file = std::env::var("SPANWISE_PLUGIN").expect("SPANWISE_PLUGIN names the plugin");
    Plugin::load(Path::new(&file)).expect("the example is a plugin")
});

fuzz_target!(|bytes: &[u8]| {
    let config = TracerConfig { seed: Some(7), ..TracerConfig::default() };
    let mut tracer = Tracer::new(config, Box::new(Directory));
    tracer.use_plugins(vec![PLUGIN.clone()]);
    let (mut rest, mut time_nano, mut spans) = (bytes, 1_000_000_000, Vec::new());
    let mut seqs = [1000_u32; 2];
    while let Some(([how, low, high, more], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(CAPTURED).min(after.len());
        let (captured, after) = after.split_at(length);
        rest = after;
        time_nano += 1_000_000;
        let answers = how & 1 == 1;
        let mut captured = captured.to_vec();
        if how & 2 == 0
            && let Some(first) = captured.first_chunk_mut()
        {
            *first = [b'S', b'T', 1, if answers { 2 } else { 1 } + (how >> 2 & 1)];
        }
        let seq = &mut seqs[usize::from(answers)];
        let length = length as u32 + u32::from(*more) * 16;
        let event = RecordedEvent::Data(RecordedData {
            time_nano,
            connection: 1,
            process: 1,
            thread: 1,
            direction: if answers { Direction::Sent } else { Direction::Received },
            seq: *seq,
            length,
            srtt_micros: 100,
            retransmits: 0,
            plaintext: None,
            unread: None,
            task: 0,
            parent_task: 0,
            current_span: 0,
            sleeps: 0,
            bytes: captured,
        });
        *seq = seq.wrapping_add(length);
        // Some events are lost.
        if how >> 4 != 15 {
            tracer.tick(time_nano);
            tracer.event(&event.event());
        }
        assert!(tracer.held_bytes() < MOST_HELD_BYTES, "{} bytes", tracer.held_bytes());
    }
    tracer.tick(time_nano + 60_000_000_000);
    tracer.drain(&mut spans).expect("the tracer makes valid rows");
    assert_eq!(tracer.plugins()[0].failures, 0, "whatever it reads, the example does not fail");
});
