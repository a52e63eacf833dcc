//! The span side alone: events of nginx and its clients in, encoded batches out.

use std::net::TcpListener;
use std::time::Instant;

use spanwise_capture_ebpf::event::{Command, Data, Direction, Endpoint, Event, Opened, Role};
use spanwise_capture_ebpf::processes::Processes;
use spanwise_capture_ebpf::tracer::{Tracer, TracerConfig};
use spanwise_wire::flight::{Encoder, Origin};

const CONNECTIONS: usize = 50;
/// Spans in a batch, as the agent sends them.
const BATCH_SPANS: usize = 4096;
const REQUEST: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
const RESPONSE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.26.3\r\n\
    Date: Mon, 23 Nov 2026 10:00:00 GMT\r\nContent-Type: application/octet-stream\r\n\
    Content-Length: 640\r\nLast-Modified: Mon, 23 Nov 2026 09:00:00 GMT\r\n\
    Connection: keep-alive\r\nETag: \"6742f0e0-280\"\r\nAccept-Ranges: bytes\r\n\r\n";
const BODY_BYTES: usize = 640;

/// One connection: how far each way has come.
struct Way {
    sent: u32,
    received: u32,
}

/// Makes the spans of so many requests, and prints what each cost.
pub(crate) fn run(requests: usize) {
    let response = [RESPONSE_HEAD, &[b'x'; BODY_BYTES]].concat();
    // A server is known by its port, and not looked at again.
    let _listener = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|error| super::fail(&error));
    let process = std::process::id();
    let processes = Processes::new("bench".to_owned(), Vec::new());
    let config = TracerConfig { seed: Some(1), ..TracerConfig::default() };
    let mut tracer = Tracer::new(config, Box::new(processes));
    let mut encoder = Encoder::new().unwrap_or_else(|error| super::fail(&error));
    let mut ways: Vec<Way> = (0..CONNECTIONS).map(|_| Way { sent: 1, received: 1 }).collect();
    for connection in 0..CONNECTIONS {
        tracer.event(&Event::Opened(opened(process, connection)));
    }
    let (mut spans, mut bytes, mut encode_nano) = (0, 0, 0);
    let begun = Instant::now();
    for request in 0..requests {
        let connection = request % CONNECTIONS;
        let way = &mut ways[connection];
        let time_nano = 1_000_000_000 + request as u64 * 10_000;
        // nginx reads all that has come, then answers.
        let asked =
            data(process, connection, time_nano, Direction::Received, way.received, REQUEST);
        tracer.event(&Event::Data(asked));
        let answered =
            data(process, connection, time_nano + 4000, Direction::Sent, way.sent, &response);
        tracer.event(&Event::Data(answered));
        way.received = way.received.wrapping_add(asked.length);
        way.sent = way.sent.wrapping_add(answered.length);
        if tracer.finished() >= BATCH_SPANS {
            tracer.tick(time_nano);
            let batch = tracer.take().unwrap_or_else(|error| super::fail(&error));
            spans += batch.num_rows();
            let encoding = Instant::now();
            let origin = Origin { source: [1; 16], sequence: request as u64 };
            let encoded = encoder.encode(&batch, origin);
            bytes += encoded.unwrap_or_else(|error| super::fail(&error)).bytes;
            encode_nano += encoding.elapsed().as_nanos();
        }
    }
    let nano = begun.elapsed().as_nanos() as f64 / requests as f64;
    let encode_nano = encode_nano as f64 / requests as f64;
    assert!(spans + BATCH_SPANS > requests, "{spans} spans of {requests} requests");
    println!("{:<34}{:>8}", "nanoseconds a request", "");
    println!("{:<34}{:>8.0}", "events to columns", nano - encode_nano);
    println!("{:<34}{:>8.0}", "columns to compressed messages", encode_nano);
    println!("{:<34}{:>8.1}", "bytes a span, to be sent", bytes as f64 / spans as f64);
    println!("\nfigure spans.nano_per_request {nano:.0} ns");
    println!("figure spans.sent_bytes_per_span {:.1} B", bytes as f64 / spans as f64);
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
        // nginx waits once for many requests.
        sleeps: 1 + (time_nano / 500_000) as u32,
    }
}
