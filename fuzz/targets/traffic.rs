//! What traced processes say to each other: system calls on two connections, or
//! datagrams, each of a header of four bytes (connection and direction, captured
//! length in two, uncaptured length) and the bytes. Every protocol's parser is behind it,
//! and the guess which one is spoken.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use spanwise_capture_ebpf::event::{Command, Direction, Endpoint};
use spanwise_capture_ebpf::process::{Naming, Process, ProcessDirectory, Runtime};
use spanwise_capture_ebpf::recording::{RecordedData, RecordedDatagram, RecordedEvent};
use spanwise_capture_ebpf::tracer::{Tracer, TracerConfig};
use spanwise_model::ResourceJson;

/// Longest that the kernel side captures of a call.
const CAPTURED: usize = 1024;
/// What two connections may hold.
const MOST_HELD_BYTES: usize = 5 << 20;

struct Directory;

impl ProcessDirectory for Directory {
    fn describe(&mut self, process: u32) -> Arc<Process> {
        let executable = "p".to_owned();
        Arc::new(Process {
            process,
            host: "h".to_owned(),
            instance: "h/1".to_owned(),
            runtime: Runtime::Other(executable.clone()),
            resource: ResourceJson::default(),
            default_service: executable.clone(),
            naming: Naming::ByPort { executable, rules: Arc::new([]) },
        })
    }

    fn forget(&mut self, _process: u32) {}
}

fuzz_target!(|bytes: &[u8]| {
    let config = TracerConfig { seed: Some(7), ..TracerConfig::default() };
    let mut tracer = Tracer::new(config, Box::new(Directory));
    let (mut rest, mut time_nano, mut spans) = (bytes, 1_000_000_000, Vec::new());
    let mut seqs = [[1000_u32; 2]; 2];
    while let Some(([who, low, high, more], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(CAPTURED).min(after.len());
        let (captured, after) = after.split_at(length);
        rest = after;
        time_nano += 1_000_000;
        let connection = who >> 1 & 1;
        let direction = if who & 1 == 0 { Direction::Received } else { Direction::Sent };
        if who >> 4 == 14 {
            let end = |port| Endpoint { address: [127, 0, 0, 1].into(), port };
            let event = RecordedEvent::Datagram(RecordedDatagram {
                time_nano,
                process: u32::from(connection) + 1,
                thread: u32::from(connection) + 1,
                direction,
                local: end(53),
                remote: (who & 4 == 0).then(|| end(u16::from(*more))),
                network_namespace: 1,
                command: Command::default(),
                length: length as u32,
                bytes: captured.to_vec(),
            });
            tracer.event(&event.event());
            continue;
        }
        let seq = &mut seqs[usize::from(connection)][usize::from(who & 1)];
        let length = length as u32 + u32::from(*more) * 64;
        let event = RecordedEvent::Data(RecordedData {
            time_nano,
            connection: u64::from(connection) + 1,
            process: u32::from(connection) + 1,
            thread: u32::from(who >> 2 & 3) + 1,
            direction,
            seq: *seq,
            length,
            srtt_micros: 100,
            retransmits: 0,
            plaintext: None,
            unread: None,
            bytes: captured.to_vec(),
        });
        // Now and then an event is lost.
        *seq = seq.wrapping_add(length);
        if who >> 4 != 15 {
            tracer.tick(time_nano);
            tracer.event(&event.event());
        }
        assert!(tracer.held_bytes() < MOST_HELD_BYTES, "{} bytes", tracer.held_bytes());
    }
    tracer.tick(time_nano + 60_000_000_000);
    tracer.drain(&mut spans).expect("the tracer makes valid rows");
});
