//! Connections that are only seen from outside: one span each, in parts while
//! they last.

mod support;

use spanwise_capture_tracer::Tracer;
use spanwise_capture_tracer::event::Direction::{self, Received, Sent};
use spanwise_capture_tracer::event::{Closed, Endpoint, Event, Opened, Role};
use spanwise_capture_tracer::recording::{RecordedData, RecordedEvent};
use spanwise_model::{Kind, Span, Status};
use support::{data, render, tracer};

const SECOND_NANO: u64 = 1_000_000_000;

fn opened(connection: u64, role: Role, local: u16, remote: u16) -> RecordedEvent {
    let endpoint = |port| Endpoint { address: [127, 0, 0, 1].into(), port };
    RecordedEvent::Opened(Opened {
        time_nano: SECOND_NANO,
        connection,
        process: 1,
        thread: 1,
        sleeps: 0,
        role,
        local: endpoint(local),
        remote: endpoint(remote),
        network_namespace: 0,
        connect_nano: None,
        first_seqs: None,
        unix: None,
        command: Default::default(),
    })
}

fn transfer(
    connection: u64,
    direction: Direction,
    seq: u32,
    length: u32,
    at: u64,
) -> RecordedEvent {
    let RecordedEvent::Data(event) = data(connection, direction, seq, b"\xde\xad\xbe\xef") else {
        unreachable!("data makes data")
    };
    RecordedEvent::Data(RecordedData { length, time_nano: at, ..event })
}

fn close(tracer: &mut Tracer, connection: u64, at: u64, reset: bool) {
    let closed = Closed { time_nano: at, connection, reset, retransmits: 4, received_up_to: None };
    tracer.event(&Event::Closed(closed));
}

fn drained(tracer: &mut Tracer) -> Vec<Span> {
    let mut found = Vec::new();
    tracer.drain(&mut found).unwrap();
    found
}

#[test]
fn one_span_tells_what_passed() {
    let mut tracer = tracer();
    for event in [
        opened(1, Role::Client, 40_000, 9999),
        transfer(1, Sent, 100, 2000, 2 * SECOND_NANO),
        transfer(1, Received, 900, 50, 3 * SECOND_NANO),
        transfer(1, Sent, 2100, 1, 4 * SECOND_NANO),
    ] {
        tracer.event(&event.event());
    }
    assert!(drained(&mut tracer).is_empty());
    close(&mut tracer, 1, 5 * SECOND_NANO, false);
    let found = drained(&mut tracer);
    let [span] = found.as_slice() else { panic!("{}", render(&found)) };
    assert_eq!((span.operation.as_str(), span.kind), ("TCP 9999", Kind::Client));
    assert_eq!((span.request_tcp_seq, span.response_tcp_seq), (Some(100), Some(900)));
    assert_eq!(span.network.request_bytes, Some(2001));
    assert_eq!(span.network.response_bytes, Some(50));
    assert_eq!(span.network.retransmits, Some(4));
    assert_eq!(span.start_unix_nano as u64, SECOND_NANO);
    assert_eq!(span.duration_nano as u64, 4 * SECOND_NANO);
    assert_eq!(span.attribute("spanwise.first_byte_nano"), Some(&1_000_000_000.into()));
    assert_eq!(span.attribute("spanwise.connection.part"), None);
    assert_eq!(span.status, Status::Unset);
}

#[test]
fn a_reset_is_a_failure() {
    let mut tracer = tracer();
    tracer.event(&opened(1, Role::Server, 9999, 40_000).event());
    tracer.event(&transfer(1, Received, 1, 4, SECOND_NANO).event());
    close(&mut tracer, 1, 2 * SECOND_NANO, true);
    let found = drained(&mut tracer);
    assert_eq!(found[0].error.as_deref(), Some("connection_reset"));
    assert_eq!((found[0].kind, found[0].network.resets), (Kind::Server, Some(1)));
}

#[test]
fn a_day_of_traffic_makes_thirty_spans_that_both_sides_name_alike() {
    let mut tracer = tracer();
    tracer.event(&opened(1, Role::Client, 40_000, 9999).event());
    tracer.event(&opened(2, Role::Server, 9999, 40_000).event());
    let mut found = Vec::new();
    let mut seq = 1000;
    for second in 1..=86_400 {
        let at = second * SECOND_NANO;
        // What was sent comes a little later, often after a part's end.
        let mut events = [
            (transfer(1, Sent, seq, 4, at), at),
            (transfer(2, Received, seq, 4, at + 400_000), at + 400_000),
        ];
        if second % 120 == 0 {
            events.swap(0, 1);
        }
        for (event, at) in events {
            tracer.tick(at);
            tracer.event(&event.event());
        }
        seq += 4;
        tracer.drain(&mut found).unwrap();
    }
    assert!(tracer.held_bytes() < 4096, "{}", tracer.held_bytes());
    close(&mut tracer, 1, 86_401 * SECOND_NANO, false);
    close(&mut tracer, 2, 86_401 * SECOND_NANO, false);
    tracer.drain(&mut found).unwrap();
    assert!(found.len() < 70, "{}", found.len());
    let names = |kind| -> Vec<_> {
        let mine = found.iter().filter(|span| span.kind == kind);
        mine.map(|span| (span.request_tcp_seq, span.response_tcp_seq)).collect()
    };
    let (client, server) = (names(Kind::Client), names(Kind::Server));
    assert_eq!(client, server);
    let distinct: std::collections::BTreeSet<_> = client.iter().collect();
    assert_eq!(distinct.len(), client.len(), "each part has a number of its own");
    let bytes: u64 = found.iter().filter_map(|span| span.network.request_bytes).sum();
    assert_eq!(bytes, 2 * 4 * 86_400, "every byte once a side");
    let open = found.iter().filter(|span| span.attribute("spanwise.connection.open").is_some());
    assert_eq!(open.count(), found.len() - 2);
}

#[test]
fn a_silent_connection_says_nothing_and_goes_on_where_it_stands() {
    let mut tracer = tracer();
    tracer.event(&opened(1, Role::Client, 40_000, 9999).event());
    tracer.event(&transfer(1, Sent, 1, 4, SECOND_NANO).event());
    for minute in 1..600 {
        tracer.tick(minute * 60 * SECOND_NANO);
    }
    assert_eq!(drained(&mut tracer).len(), 1);
    tracer.event(&transfer(1, Sent, 5, 4, 40_000 * SECOND_NANO).event());
    close(&mut tracer, 1, 40_001 * SECOND_NANO, false);
    let found = drained(&mut tracer);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].network.request_bytes, Some(4));
}

#[test]
fn what_is_open_is_reported_when_the_tracer_ends_or_looks_away() {
    let mut tracer = tracer();
    tracer.event(&opened(1, Role::Client, 40_000, 9999).event());
    tracer.event(&transfer(1, Sent, 1, 4, SECOND_NANO).event());
    tracer.report_open();
    let found = drained(&mut tracer);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].attribute("spanwise.connection.open"), Some(&true.into()));
    tracer.report_open();
    assert!(drained(&mut tracer).is_empty(), "nothing is said twice");
}

#[test]
fn who_serves_a_connection_older_than_the_agent_is_told_by_the_ports() {
    let cases = [
        (9999, 40_000, Sent, Kind::Server, "TCP 9999"),
        (40_000, 9999, Received, Kind::Client, "TCP 9999"),
        (40_000, 50_000, Received, Kind::Server, "TCP"),
        (40_000, 50_000, Sent, Kind::Client, "TCP"),
    ];
    for (local, remote, first, kind, operation) in cases {
        let mut tracer = tracer();
        tracer.event(&opened(1, Role::Unknown, local, remote).event());
        tracer.event(&transfer(1, first, 1, 4, SECOND_NANO).event());
        close(&mut tracer, 1, 2 * SECOND_NANO, false);
        let found = drained(&mut tracer);
        assert_eq!((found[0].kind, found[0].operation.as_str()), (kind, operation));
    }
}

#[test]
fn a_gigabyte_is_only_counted() {
    let mut tracer = tracer();
    tracer.event(&opened(1, Role::Server, 9999, 40_000).event());
    let mut seq = 0u32;
    for call in 0..16_384u64 {
        tracer.event(&transfer(1, Received, seq, 65_536, SECOND_NANO + call).event());
        seq = seq.wrapping_add(65_536);
        assert!(tracer.held_bytes() < 4096, "{}", tracer.held_bytes());
    }
    close(&mut tracer, 1, 2 * SECOND_NANO, false);
    assert_eq!(drained(&mut tracer)[0].network.request_bytes, Some(1 << 30));
}
