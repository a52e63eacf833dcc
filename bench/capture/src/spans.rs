//! The tracer alone: from events to encoded batches. The events are those of nginx and its clients,
//! or an agent's recording.

use std::fs::File;
use std::io::BufReader;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spanwise_capture_host::processes::Processes;
use spanwise_capture_protocols::process::{Process, ProcessDirectory};
use spanwise_capture_tracer::event::{Command, Data, Direction, Endpoint, Event, Opened, Role};
use spanwise_capture_tracer::recording::{self, RecordedEvent};
use spanwise_capture_tracer::{Tracer, TracerConfig};
use spanwise_wire::flight::{Encoder, Origin};

const CONNECTIONS: usize = 50;
/// Spans in a batch, as in the agent.
const BATCH_SPANS: usize = 4096;
const REQUEST: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const RESPONSE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.26.3\r\n\
    Date: Mon, 23 Nov 2026 10:00:00 GMT\r\nContent-Type: application/octet-stream\r\n\
    Content-Length: 640\r\nLast-Modified: Mon, 23 Nov 2026 09:00:00 GMT\r\n\
    Connection: keep-alive\r\nETag: \"6742f0e0-280\"\r\nAccept-Ranges: bytes\r\n\r\n";
const BODY_BYTES: usize = 640;
/// Minimum events to replay, unless the recording is very short.
const REPLAYED_EVENTS: usize = 2_000_000;
const MOST_REPLAYS: usize = 1000;

/// One connection, with its position in each direction.
struct ConnectionOffsets {
    sent: u32,
    received: u32,
}

/// Examines each process once for all users.
#[derive(Clone)]
struct SharedProcesses(Arc<Mutex<Processes>>);

impl ProcessDirectory for SharedProcesses {
    fn describe(&mut self, process: u32) -> Arc<Process> {
        self.0.lock().describe(process)
    }

    fn forget(&mut self, _process: u32) {}
}

/// Converts events to encoded batches, and measures the time.
struct Line {
    processes: SharedProcesses,
    tracer: Tracer,
    encoder: Encoder,
    batches: u64,
    spans: usize,
    bytes: usize,
    encoding: Duration,
}

fn tracer(processes: SharedProcesses) -> Tracer {
    let config = TracerConfig { seed: Some(1), ..TracerConfig::default() };
    Tracer::new(config, Box::new(processes))
}

impl Line {
    fn new() -> Self {
        let processes = Processes::new("bench".to_owned(), Vec::new());
        let processes = SharedProcesses(Arc::new(Mutex::new(processes)));
        Self {
            tracer: tracer(processes.clone()),
            processes,
            encoder: Encoder::new().unwrap_or_else(|error| super::fail(&error)),
            batches: 0,
            spans: 0,
            bytes: 0,
            encoding: Duration::ZERO,
        }
    }

    fn take(&mut self, event: &Event<'_>, time_nano: u64) {
        self.tracer.event(event);
        if self.tracer.finished() >= BATCH_SPANS {
            self.tracer.tick(time_nano);
            self.send();
        }
    }

    fn send(&mut self) {
        let rows = self.tracer.take().unwrap_or_else(|error| super::fail(&error));
        self.spans += rows.num_rows();
        let encoding = Instant::now();
        let origin = Origin { source: [1; 16], sequence: self.batches };
        let encoded = self.encoder.encode(&rows, origin);
        self.bytes += encoded.unwrap_or_else(|error| super::fail(&error)).bytes;
        self.encoding += encoding.elapsed();
        self.batches += 1;
    }
}

/// Prints the cost of each of `count` things with this `name`.
fn report(line: &Line, name: &str, count: usize, took: Duration) {
    let each = |duration: Duration| duration.as_nanos() as f64 / count as f64;
    let bytes_per_span = line.bytes as f64 / line.spans as f64;
    println!("{:<34}{:>8}", format!("nanoseconds a {name}"), "");
    println!("{:<34}{:>8.0}", "events to columns", each(took - line.encoding));
    println!("{:<34}{:>8.0}", "columns to compressed messages", each(line.encoding));
    println!("{:<34}{bytes_per_span:>8.1}", "bytes a span, to be sent");
    println!("\nfigure spans.nano_per_{name} {:.0} ns", each(took));
    println!("figure spans.sent_bytes_per_span {bytes_per_span:.1} B");
}

/// Makes the spans of this many requests, and prints the cost of each.
pub(crate) fn run(requests: usize) {
    let response = [RESPONSE_HEAD, &[b'x'; BODY_BYTES]].concat();
    // The port identifies the server, so it is not examined again.
    let _listener = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|error| super::fail(&error));
    let process = std::process::id();
    let mut line = Line::new();
    let mut offsets: Vec<ConnectionOffsets> =
        (0..CONNECTIONS).map(|_| ConnectionOffsets { sent: 1, received: 1 }).collect();
    for connection in 0..CONNECTIONS {
        line.tracer.event(&Event::Opened(opened(process, connection)));
    }
    let begun = Instant::now();
    for request in 0..requests {
        let connection = request % CONNECTIONS;
        let offset = &mut offsets[connection];
        let time_nano = 1_000_000_000 + request as u64 * 10_000;
        // nginx reads everything that has arrived, then answers.
        let asked =
            data(process, connection, time_nano, Direction::Received, offset.received, REQUEST);
        line.take(&Event::Data(asked), time_nano);
        let answered =
            data(process, connection, time_nano + 4000, Direction::Sent, offset.sent, &response);
        line.take(&Event::Data(answered), time_nano);
        offset.received = offset.received.wrapping_add(asked.length);
        offset.sent = offset.sent.wrapping_add(answered.length);
    }
    let took = begun.elapsed();
    assert!(line.spans + BATCH_SPANS > requests, "{} spans of {requests} requests", line.spans);
    report(&line, "request", requests, took);
}

/// Replays an agent's recording repeatedly, and prints the cost of each span. A short recording
/// stays in the processor's caches, as do events that the kernel has just written.
pub(crate) fn replay(path: &Path) {
    let file = File::open(path)
        .unwrap_or_else(|error| super::fail(&format!("{}: {error}", path.display())));
    let events = recording::read(BufReader::new(file)).unwrap_or_else(|error| super::fail(&error));
    let events: Vec<Event<'_>> = events.iter().map(RecordedEvent::event).collect();
    let times = REPLAYED_EVENTS.div_ceil(events.len().max(1)).min(MOST_REPLAYS);
    let mut line = Line::new();
    let mut took = Duration::ZERO;
    for _ in 0..times {
        // A tracer sees the connections and times of a recording only once.
        line.tracer = tracer(line.processes.clone());
        let begun = Instant::now();
        let mut time_nano = 0;
        for event in &events {
            if let Event::Data(data) = event {
                time_nano = data.time_nano;
            }
            line.take(event, time_nano);
        }
        line.send();
        took += begun.elapsed();
    }
    if line.spans == 0 {
        super::fail(&format!("{}: no spans come of these {} events", path.display(), events.len()));
    }
    println!("{} events, {} spans", events.len(), line.spans / times);
    report(&line, "span", line.spans, took);
}

fn opened(process: u32, connection: usize) -> Opened {
    let endpoint = |port| Endpoint { address: [127, 0, 0, 1].into(), port };
    Opened {
        time_nano: 1,
        connection: connection as u64 + 1,
        process,
        thread: process,
        sleeps: 1,
        role: Role::Server,
        local: endpoint(8080),
        remote: endpoint(40_000 + connection as u16),
        network_namespace: 4_026_531_840,
        connect_nano: None,
        command: Command::default(),
        first_seqs: Some([1, 1]),
        unix: None,
    }
}

fn data(
    process: u32,
    connection: usize,
    time_nano: u64,
    direction: Direction,
    seq: u32,
    bytes: &[u8],
) -> Data<'_> {
    Data {
        time_nano,
        connection: connection as u64 + 1,
        process,
        thread: process,
        direction,
        seq,
        length: bytes.len() as u32,
        bytes,
        srtt_micros: 40,
        retransmits: 0,
        plaintext: None,
        unread: None,
        task: 0,
        parent_task: 0,
        current_span: 0,
        // nginx waits once for many requests.
        sleeps: 1 + (time_nano / 500_000) as u32,
    }
}
