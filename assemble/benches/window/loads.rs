//! Input of the window: batches as SDKs and agents send them.

use arrow::array::RecordBatch;
use spanwise_model::{Capture, Evidence, Kind, Span, SpanBatchBuilder, SpanId, TraceId, protocol};

/// Rows in a batch.
const BATCH_ROWS: usize = 256;
const SERVICES: u64 = 30;
/// Time between the starts of two requests.
const APART_NANO: i64 = 150_000;
const BEGIN_UNIX_NANO: i64 = 1_750_000_000_000_000_000;

/// Pseudo-random numbers that are the same in every run (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn span_id(&mut self) -> SpanId {
        SpanId::from_u64(self.next() | 1).unwrap_or(SpanId([1; 8]))
    }
}

/// Spans that are not sent yet. Each sender has its own batches.
struct Senders {
    waiting: Vec<SpanBatchBuilder>,
    batches: Vec<RecordBatch>,
}

impl Senders {
    fn new(count: u64) -> Self {
        let waiting = (0..count).map(|_| SpanBatchBuilder::default()).collect();
        Self { waiting, batches: Vec::new() }
    }

    fn send(&mut self, sender: u64, span: &Span) {
        let waiting = &mut self.waiting[sender as usize];
        waiting.push(span);
        if waiting.len() >= BATCH_ROWS {
            self.batches.extend(waiting.finish());
        }
    }

    fn finish(mut self) -> Vec<RecordBatch> {
        for waiting in &mut self.waiting {
            self.batches.extend(waiting.finish());
        }
        self.batches
    }
}

/// Traces of 12 to 40 spans over 30 services, as SDKs report them.
pub(crate) fn sdk(traces: u64) -> Vec<RecordBatch> {
    let mut random = Random(0x5eed);
    let mut senders = Senders::new(SERVICES);
    for number in 0..traces {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random.next().to_be_bytes());
        id[8..].copy_from_slice(&random.next().to_be_bytes());
        let trace = TraceId(id);
        let begin = BEGIN_UNIX_NANO + number as i64 * APART_NANO;
        let mut above: Vec<(SpanId, u64)> = Vec::new();
        for step in 0..12 + random.below(29) {
            let parent = match step {
                0 => None,
                _ => Some(above[random.below(above.len() as u64) as usize]),
            };
            let kind = [Kind::Server, Kind::Client, Kind::Internal][(step % 3) as usize];
            let service = match (kind, parent) {
                (Kind::Client | Kind::Internal, Some((_, service))) => service,
                _ => random.below(SERVICES),
            };
            let span_id = random.span_id();
            above.push((span_id, service));
            let start = begin + step as i64 * 100_000;
            let name = format!("service-{service}");
            let route = format!("GET /things/{}", random.below(20));
            let mut span =
                Span::new(span_id, Capture::App, kind, name, route, start, 50_000_000 - start % 7);
            span.trace_id = Some(trace);
            span.parent_span_id = parent.map(|(parent, _)| parent);
            span.host = Some(format!("host-{}", service % 8));
            span.process_id = Some(100 + service as u32);
            span.protocol = Some(protocol::HTTP.to_owned());
            span.attributes = vec![
                ("http.request.method".into(), "GET".into()),
                ("http.response.status_code".into(), 200.into()),
                ("url.scheme".into(), "http".into()),
                ("url.path".into(), format!("/things/{}", random.below(10_000)).into()),
                ("server.address".into(), "things".into()),
                ("server.port".into(), 8080.into()),
                ("user.id".into(), format!("u{}", random.below(5_000)).into()),
                ("network.protocol.version".into(), "1.1".into()),
                ("user_agent.original".into(), "python-requests/2.32".into()),
                ("thread.id".into(), 7.into()),
            ];
            senders.send(service, &span);
        }
    }
    senders.finish()
}

/// Requests through six services that make two calls each, as four agents report them. No SDK is
/// involved.
pub(crate) fn zero_code(requests: u64) -> Vec<RecordBatch> {
    let mut random = Random(0xa9e4);
    let mut senders = Senders::new(4);
    for number in 0..requests {
        let begin = BEGIN_UNIX_NANO + number as i64 * APART_NANO;
        // The incoming call. No agent runs on its caller's host.
        let mut incoming = (random.next() as u32, random.next() as u32);
        for service in 0..6u64 {
            let from = begin + service as i64 * 200_000;
            let length = 20_000_000 - service as i64 * 1_000_000;
            let fragment = random.next();
            let mut served = kernel(&mut random, Capture::ServerProcess, service, from, length);
            served.fragment_id = Some(fragment);
            (served.request_tcp_seq, served.response_tcp_seq) =
                (Some(incoming.0), Some(incoming.1));
            senders.send(service % 4, &served);
            for call in 0..2 {
                let sequences = (random.next() as u32, random.next() as u32);
                let (from, length) = (from + 50_000 + call * 40_000, length - 500_000);
                let mut client = kernel(&mut random, Capture::ClientProcess, service, from, length);
                client.fragment_id = Some(fragment);
                (client.evidence, client.confidence) = (Some(Evidence::Thread), Some(1.0));
                (client.request_tcp_seq, client.response_tcp_seq) =
                    (Some(sequences.0), Some(sequences.1));
                senders.send(service % 4, &client);
                incoming = sequences;
            }
        }
    }
    senders.finish()
}

fn kernel(random: &mut Random, capture: Capture, service: u64, from: i64, length: i64) -> Span {
    let kind = if capture == Capture::ClientProcess { Kind::Client } else { Kind::Server };
    let name = format!("service-{service}");
    let mut span = Span::new(random.span_id(), capture, kind, name, "GET /things", from, length);
    span.host = Some(format!("host-{}", service % 4));
    span.process_id = Some(200 + service as u32);
    span.protocol = Some(protocol::HTTP.to_owned());
    span.flow.client_port = Some(30_000 + (random.below(1_000) as u16));
    span.flow.server_port = Some(8080);
    span.attributes = vec![
        ("http.request.method".into(), "GET".into()),
        ("http.response.status_code".into(), 200.into()),
        ("url.path".into(), format!("/things/{}", random.below(10_000)).into()),
    ];
    span
}
