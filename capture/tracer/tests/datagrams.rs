//! DNS over UDP: queries and answers as single datagrams.

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_capture_tracer::Tracer;
use spanwise_capture_tracer::event::Direction::{self, Received, Sent};
use spanwise_capture_tracer::event::{Command, Endpoint, Event, ProcessEvent};
use spanwise_capture_tracer::recording::{RecordedData, RecordedDatagram, RecordedEvent};
use spanwise_model::{Capture, Evidence, Span};
use support::{render, tracer};

const SECOND_NANO: u64 = 1_000_000_000;
const CLIENT: u32 = 1;
const SERVER: u32 = 2;

/// A query for an address of this name, and its answer.
fn messages(id: u16, name: &str) -> (Vec<u8>, Vec<u8>) {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0, name.len() as u8]);
    query.extend(name.as_bytes());
    query.extend([0, 0, 1, 0, 1]);
    let mut answer = query.clone();
    answer[2] |= 0x80;
    (query, answer)
}

fn datagram(
    process: u32,
    direction: Direction,
    port: u16,
    bytes: &[u8],
    at: u64,
) -> RecordedDatagram {
    let end = |process| Endpoint {
        address: [10, 0, 0, process as u8].into(),
        port: if process == CLIENT { port } else { 53 },
    };
    RecordedDatagram {
        time_nano: at,
        process,
        thread: process,
        direction,
        local: end(process),
        remote: Some(end(CLIENT + SERVER - process)),
        network_namespace: 1,
        command: Command::default(),
        length: bytes.len() as u32,
        task: 0,
        parent_task: 0,
        current_span: 0,
        sleeps: 0,
        bytes: bytes.to_vec(),
    }
}

fn feed(tracer: &mut Tracer, datagram: RecordedDatagram) {
    tracer.event(&RecordedEvent::Datagram(datagram).event());
}

fn drained(tracer: &mut Tracer) -> Vec<Span> {
    let mut found = Vec::new();
    tracer.drain(&mut found).unwrap();
    found
}

fn counter(tracer: &Tracer, name: &str) -> u64 {
    tracer.counters().iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn a_query_sent_again_is_one_span() {
    let mut tracer = tracer();
    let (query, answer) = messages(7, "shop");
    for second in 1..=3 {
        feed(&mut tracer, datagram(CLIENT, Sent, 4000, &query, second * SECOND_NANO));
    }
    feed(&mut tracer, datagram(CLIENT, Received, 4000, &answer, 4 * SECOND_NANO));
    feed(&mut tracer, datagram(CLIENT, Received, 4000, &answer, 5 * SECOND_NANO));
    let found = drained(&mut tracer);
    assert_eq!(found.len(), 1, "{}", render(&found));
    assert_eq!(found[0].duration_nano as u64, 3 * SECOND_NANO);
    assert_eq!(found[0].network.retransmits, Some(2));
    assert_eq!(found[0].request_tcp_seq, Some(7 << 16 | 4000));
    assert_eq!(counter(&tracer, "orphan_responses"), 1, "the answer to the second query");
    assert_eq!(tracer.held_bytes(), 0);
}

/// A goroutine that a request's own has started asks for an address, while others are
/// served.
#[test]
fn look_ups_follow_tasks_like_any_call() {
    let mut tracer = tracer();
    for (connection, task) in [(1, 5), (2, 6)] {
        let request = b"GET /in HTTP/1.1\r\nHost: x\r\n\r\n";
        let RecordedEvent::Data(read) = support::data(connection, Received, 1, request) else {
            unreachable!("data makes data");
        };
        let read = RecordedData { process: CLIENT, task, ..read };
        tracer.event(&RecordedEvent::Data(read).event());
    }
    let (query, answer) = messages(7, "shop");
    let now = 2 * SECOND_NANO;
    let asked = datagram(CLIENT, Sent, 4000, &query, now);
    feed(&mut tracer, RecordedDatagram { task: 9, parent_task: 6, ..asked });
    feed(&mut tracer, datagram(CLIENT, Received, 4000, &answer, now + 1));
    let found = drained(&mut tracer);
    assert_eq!(found.len(), 1, "{}", render(&found));
    assert_eq!(found[0].evidence, Some(Evidence::Task));
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let RecordedEvent::Data(written) = support::data(2, Sent, 1, response) else {
        unreachable!("data makes data");
    };
    let written = RecordedData { time_nano: now + 2, process: CLIENT, task: 6, ..written };
    tracer.event(&RecordedEvent::Data(written).event());
    let served = drained(&mut tracer);
    assert_eq!(served[0].fragment_id, found[0].fragment_id);
}

#[test]
fn a_query_without_answer_fails_once() {
    let mut tracer = tracer();
    let (query, answer) = messages(7, "shop");
    feed(&mut tracer, datagram(CLIENT, Sent, 4000, &query, SECOND_NANO));
    tracer.tick(10 * SECOND_NANO);
    assert!(drained(&mut tracer).is_empty());
    tracer.tick(12 * SECOND_NANO);
    let found = drained(&mut tracer);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].error.as_deref(), Some("timeout_no_response"));
    tracer.tick(40 * SECOND_NANO);
    feed(&mut tracer, datagram(CLIENT, Received, 4000, &answer, 41 * SECOND_NANO));
    assert!(drained(&mut tracer).is_empty());
    assert_eq!(tracer.held_bytes(), 0);
}

#[test]
fn a_process_that_ends_without_answer_has_failed() {
    let mut tracer = tracer();
    let (query, _) = messages(7, "shop");
    feed(&mut tracer, datagram(CLIENT, Sent, 4000, &query, SECOND_NANO));
    let end = ProcessEvent { time_nano: 3 * SECOND_NANO, process: CLIENT };
    tracer.event(&Event::Exit(end));
    let found = drained(&mut tracer);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].error.as_deref(), Some("no_response"));
    assert_eq!(found[0].duration_nano as u64, 2 * SECOND_NANO);
}

#[test]
fn a_server_learns_of_its_client_by_the_answer() {
    let mut tracer = tracer();
    // Two clients with the same number at the same time, asking different things.
    let (one, to_one) = messages(7, "one");
    let (two, to_two) = messages(7, "two");
    for (number, bytes) in [&one, &two].into_iter().enumerate() {
        let mut query = datagram(SERVER, Received, 0, bytes, SECOND_NANO + number as u64);
        query.remote = None;
        feed(&mut tracer, query);
    }
    feed(&mut tracer, datagram(SERVER, Sent, 4002, &to_two, 2 * SECOND_NANO));
    feed(&mut tracer, datagram(SERVER, Sent, 4001, &to_one, 2 * SECOND_NANO));
    let found = drained(&mut tracer);
    let told: Vec<_> = found
        .iter()
        .map(|span| {
            let name = span.attribute("dns.question.name").unwrap().as_str().unwrap();
            (name, span.flow.client_port, span.request_tcp_seq, span.capture)
        })
        .collect();
    let expected = [("two", 4002), ("one", 4001)].map(|(name, port)| {
        (name, Some(port), Some(7 << 16 | u32::from(port)), Capture::ServerProcess)
    });
    assert_eq!(told, expected);
}

#[test]
fn what_is_asked_of_everybody_and_what_is_no_dns_makes_no_span() {
    let mut tracer = tracer();
    let (query, _) = messages(0, "printer");
    let mut to_all = datagram(CLIENT, Sent, 5353, &query, SECOND_NANO);
    to_all.remote = Some(Endpoint { address: [224, 0, 0, 251].into(), port: 5353 });
    feed(&mut tracer, to_all);
    for garbage in [&b""[..], b"x", &[0; 12], &[0xff; 200]] {
        feed(&mut tracer, datagram(CLIENT, Sent, 4000, garbage, SECOND_NANO));
    }
    tracer.tick(100 * SECOND_NANO);
    assert!(drained(&mut tracer).is_empty());
    assert_eq!(tracer.held_bytes(), 0);
}

#[test]
fn a_flood_of_queries_holds_little() {
    let mut tracer = tracer();
    for number in 0..60_000u32 {
        let (query, _) = messages(number as u16, "shop");
        // One asks from ever new ports, the other serves whoever asks.
        let port = number as u16;
        feed(&mut tracer, datagram(CLIENT, Sent, port, &query, u64::from(number)));
        feed(&mut tracer, datagram(SERVER, Received, port, &query, u64::from(number)));
        assert!(tracer.held_bytes() < 3 << 20, "{}", tracer.held_bytes());
    }
    assert!(counter(&tracer, "requests_over_limit") > 0);
    tracer.tick(1000 * SECOND_NANO);
    assert_eq!(tracer.held_bytes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_messages_never_panic(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        end in any::<prop::sample::Index>(),
        sent in any::<bool>(),
    ) {
        let (query, answer) = messages(7, "shop");
        let mut tracer = tracer();
        for mut bytes in [query, answer] {
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            bytes.truncate(end.index(bytes.len() + 1));
            let direction = if sent { Sent } else { Received };
            feed(&mut tracer, datagram(CLIENT, direction, 4000, &bytes, SECOND_NANO));
        }
        tracer.tick(100 * SECOND_NANO);
        prop_assert_eq!(tracer.held_bytes(), 0);
    }
}
