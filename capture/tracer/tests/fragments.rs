//! Which server request a client request belongs to, from events alone.

mod support;

use spanwise_capture_tracer::Tracer;
use spanwise_capture_tracer::event::{Direction, ProcessEvent};
use spanwise_capture_tracer::recording::{RecordedData, RecordedEvent};
use spanwise_model::{Capture, Evidence, Span};
use support::{data, tracer};

use Direction::{Received, Sent};

const REQUEST: &[u8] = b"GET /in HTTP/1.1\r\nHost: x\r\n\r\n";
const CALL: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
const REPLY: &[u8] = b"$1\r\nv\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// One process whose sockets are driven by hand.
struct Process {
    tracer: Tracer,
    time_nano: u64,
    seqs: std::collections::HashMap<(u64, Direction), u32>,
}

impl Process {
    fn new() -> Self {
        Self { tracer: tracer(), time_nano: 1_000_000_000, seqs: Default::default() }
    }

    fn transfer(&mut self, thread: u32, connection: u64, direction: Direction, bytes: &[u8]) {
        self.time_nano += 1_000_000;
        let seq = self.seqs.entry((connection, direction)).or_insert(1);
        let RecordedEvent::Data(event) = data(connection, direction, *seq, bytes) else {
            unreachable!("data makes data");
        };
        *seq += bytes.len() as u32;
        let event = RecordedData { time_nano: self.time_nano, thread, ..event };
        self.tracer.event(&RecordedEvent::Data(event).event());
    }

    /// Handles a request on a thread, with one call, all in order.
    fn handle(&mut self, thread: u32, served: u64, called: u64) {
        self.transfer(thread, served, Received, REQUEST);
        self.transfer(thread, called, Sent, CALL);
        self.transfer(thread, called, Received, REPLY);
        self.transfer(thread, served, Sent, RESPONSE);
    }

    fn spans(&mut self) -> Vec<Span> {
        let mut found = Vec::new();
        self.tracer.tick(self.time_nano);
        self.tracer.drain(&mut found).unwrap();
        found
    }
}

fn call(spans: &[Span]) -> &Span {
    spans.iter().find(|span| span.capture == Capture::ClientProcess).unwrap()
}

fn served(spans: &[Span]) -> &Span {
    spans.iter().find(|span| span.capture == Capture::ServerProcess).unwrap()
}

#[test]
fn calls_of_a_thread_belong_to_the_request_that_it_handles() {
    let mut process = Process::new();
    for round in 0..25 {
        process.handle(1, 1, 2);
        let spans = process.spans();
        let call = call(&spans);
        assert_eq!(call.fragment_id, served(&spans).fragment_id);
        assert!(call.fragment_id.is_some());
        assert_eq!(call.evidence, Some(Evidence::Thread));
        assert_eq!(call.confidence, Some(if round < 20 { 0.95 } else { 1.0 }), "round {round}");
    }
}

#[test]
fn threads_side_by_side_are_told_apart() {
    let mut process = Process::new();
    process.transfer(9, 9, Received, REQUEST);
    for _ in 0..20 {
        process.handle(1, 1, 2);
    }
    process.spans();
    for (thread, served, called) in [(1, 1, 2), (2, 3, 4), (3, 5, 6)] {
        process.transfer(thread, served, Received, REQUEST);
        process.transfer(thread, called, Sent, CALL);
    }
    for (thread, served, called) in [(2, 3, 4), (3, 5, 6), (1, 1, 2)] {
        process.transfer(thread, called, Received, REPLY);
        process.transfer(thread, served, Sent, RESPONSE);
    }
    let spans = process.spans();
    assert_eq!(spans.len(), 6);
    for pair in spans.chunks(2) {
        assert_eq!(pair[0].fragment_id, pair[1].fragment_id);
        assert_eq!(pair[0].confidence, Some(1.0));
    }
    assert_ne!(spans[0].fragment_id, spans[2].fragment_id);
    assert_ne!(spans[2].fragment_id, spans[4].fragment_id);
}

#[test]
fn an_event_loop_is_found_out_and_never_guessed_for() {
    let mut process = Process::new();
    process.transfer(1, 1, Received, REQUEST);
    process.transfer(1, 3, Received, REQUEST);
    process.transfer(1, 2, Sent, CALL);
    process.transfer(1, 2, Received, REPLY);
    let spans = process.spans();
    let call = call(&spans);
    assert_eq!((call.fragment_id, call.evidence), (None, Some(Evidence::Ambiguous)));
    assert_eq!(call.attribute("spanwise.candidate_fragments").unwrap().as_int(), Some(2));
    process.transfer(1, 1, Sent, RESPONSE);
    process.transfer(1, 3, Sent, RESPONSE);
    process.spans();
    // Then only a sole request counts, until it does one thing at a time nearly always; and
    // nothing is certain.
    for _ in 0..30 {
        process.handle(1, 1, 2);
    }
    let spans = process.spans();
    let calls = spans.iter().filter(|span| span.capture == Capture::ClientProcess);
    for (round, call) in calls.enumerate() {
        let evidence = if round < 9 { Evidence::SoleRequest } else { Evidence::Thread };
        assert_eq!(call.evidence, Some(evidence), "round {round}");
        assert_eq!(call.confidence, Some(0.95));
    }
    // Its next life begins with a clean slate.
    let exec = ProcessEvent { time_nano: process.time_nano, process: 1 };
    process.tracer.event(&RecordedEvent::Exec(exec).event());
    process.handle(1, 1, 2);
    assert_eq!(call_evidence(&process.spans()), Some(Evidence::Thread));
}

fn call_evidence(spans: &[Span]) -> Option<Evidence> {
    call(spans).evidence
}

#[test]
fn calls_while_nothing_is_served_are_roots() {
    let mut process = Process::new();
    process.transfer(1, 2, Sent, CALL);
    process.transfer(1, 2, Received, REPLY);
    let spans = process.spans();
    assert_eq!((call(&spans).fragment_id, call(&spans).evidence), (None, None));
}

#[test]
fn a_response_with_no_visible_end_does_not_make_an_event_loop() {
    // Chunks whose borders were not captured: the end can only be guessed.
    let mut process = Process::new();
    for _ in 0..25 {
        process.transfer(1, 1, Received, REQUEST);
        process.transfer(1, 2, Sent, CALL);
        process.transfer(1, 2, Received, REPLY);
        process.transfer(1, 1, Sent, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n?\r\n");
        process.handle(1, 3, 2);
    }
    let spans = process.spans();
    assert!(spans.len() >= 99);
    for call in spans.iter().filter(|span| span.capture == Capture::ClientProcess) {
        assert_eq!(call.evidence, Some(Evidence::Thread));
    }
}
