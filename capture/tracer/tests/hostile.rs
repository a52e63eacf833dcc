//! Input that nobody should send, and events that were lost: nothing panics,
//! memory stays bounded, and what is dropped is counted.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_capture_tracer::event::{
    Closed, Direction, Endpoint, Event, Opened, Plaintext, ProcessEvent, Role,
};
use spanwise_capture_tracer::recording::{RecordedData, RecordedEvent};
use spanwise_capture_tracer::{Assumed, Tracer, TracerConfig};
use spanwise_model::{Capture, Span, Status};
use support::{Everyone, data, recordings, render, spans, split, tracer};

use Direction::{Received, Sent};

/// What one connection may hold: two partial heads, open requests, and what
/// is held to tell the protocol.
const MAX_CONNECTION_BYTES: usize = (2 << 20) + (256 << 10);

fn counter(tracer: &Tracer, name: &str) -> u64 {
    tracer.counters().into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// What one side says.
type Turn<'a> = (Direction, &'a [u8]);

/// A conversation on a server's connection, each text a transfer.
fn conversation(turns: &[Turn<'_>]) -> Vec<RecordedEvent> {
    let (mut received, mut sent) = (1000, 9000);
    let mut time = 1_000_000_000;
    turns
        .iter()
        .map(|(direction, bytes)| {
            let seq = if *direction == Received { &mut received } else { &mut sent };
            let RecordedEvent::Data(mut event) = data(1, *direction, *seq, bytes) else {
                unreachable!("data makes data");
            };
            *seq += bytes.len() as u32;
            time += 1_000_000;
            event.time_nano = time;
            RecordedEvent::Data(event)
        })
        .collect()
}

fn operations(turns: &[Turn<'_>]) -> Vec<String> {
    let found = spans(&mut tracer(), &conversation(turns));
    found.iter().map(|span| format!("{} {:?}", span.operation, span.status_code)).collect()
}

fn closed(reset: bool) -> RecordedEvent {
    let time_nano = 5_000_000_000;
    RecordedEvent::Closed(Closed {
        time_nano,
        connection: 1,
        reset,
        retransmits: 3,
        received_up_to: None,
    })
}

const GET: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic_and_hold_little(
        transfers in vec((any::<bool>(), vec(any::<u8>(), 0..300), 0u32..3000), 1..60),
    ) {
        let mut tracer = tracer();
        let mut seqs = [0u32, 0];
        for (index, (sent, bytes, more)) in transfers.iter().enumerate() {
            let seq = &mut seqs[usize::from(*sent)];
            let event = RecordedEvent::Data(RecordedData {
                length: bytes.len() as u32 + more,
                time_nano: index as u64 * 30_000_000,
                ..plain(if *sent { Sent } else { Received }, *seq, bytes)
            });
            *seq = seq.wrapping_add(bytes.len() as u32 + more);
            tracer.event(&event.event());
            tracer.tick(index as u64 * 30_000_000);
            prop_assert!(tracer.held_bytes() < MAX_CONNECTION_BYTES);
        }
    }

    #[test]
    fn recordings_with_events_lost_and_bytes_changed_never_panic(
        which in 0usize..1000,
        lost in vec(0usize..400, 0..20),
        changed in vec((0usize..400, any::<prop::sample::Index>(), any::<u8>()), 0..20),
        size in 1usize..200,
    ) {
        let all = recordings();
        let (_, _, mut events) = all[which % all.len()].clone();
        for (event, at, byte) in changed {
            let count = events.len();
            if let RecordedEvent::Data(data) = &mut events[event % count]
                && !data.bytes.is_empty()
            {
                let at = at.index(data.bytes.len());
                data.bytes[at] = byte;
            }
        }
        for event in lost {
            let count = events.len();
            if count > 1 {
                events.remove(event % count);
            }
        }
        let mut tracer = tracer();
        for event in split(&events, &[size]) {
            tracer.event(&event.event());
            prop_assert!(tracer.held_bytes() < 4 * MAX_CONNECTION_BYTES);
        }
        tracer.tick(u64::MAX / 2);
    }

    #[test]
    fn after_loss_no_request_of_a_recording_has_a_response_of_another(
        which in any::<prop::sample::Index>(),
        sizes in prop::sample::select(vec![&[100_000][..], &[16, 400], &[4, 2000], &[8, 100]]),
        near in any::<prop::sample::Index>(),
        lost in vec((any::<bool>(), any::<prop::sample::Index>(), 0usize..12), 1..7),
    ) {
        let (protocol, name, events) = &recordings()[which.index(recordings().len())];
        let events = in_order(split(events, sizes));
        let may_go = leave_gaps(&events);
        let near = near.index(events.len());
        let gone: BTreeSet<usize> = lost
            .iter()
            .map(|(anywhere, at, away)| match anywhere {
                true => at.index(events.len()),
                false => (near + away) % events.len(),
            })
            .filter(|at| may_go[*at])
            .collect();
        let all = responses(&spans(&mut tracer(), &events));
        let left: Vec<RecordedEvent> = events
            .iter()
            .enumerate()
            .filter(|(at, _)| !gone.contains(at))
            .map(|(_, event)| event.clone())
            .collect();
        let crossed = crossed(protocol, &all, &responses(&spans(&mut tracer(), &left)));
        prop_assert!(crossed.is_none(), "{}/{} without {:?}: {:?}", protocol, name, gone, crossed);
    }

    #[test]
    fn what_is_seen_of_older_connections_is_right(
        which in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
    ) {
        let (protocol, name, events) = &recordings()[which.index(recordings().len())];
        let mut events = in_order(events.clone());
        events.retain(|event| !matches!(event, RecordedEvent::Opened(_)));
        let whole = spans(&mut tracer(), &events);
        let all = responses(&whole);
        let found = spans(&mut tracer(), &events[from.index(events.len())..]);
        let known: BTreeSet<_> = whole.iter().map(|span| span.protocol.as_deref()).collect();
        for span in &found {
            let spoken = span.protocol.as_deref();
            // Without its headers a call of gRPC is HTTP, and what is not
            // understood is a connection.
            let less = matches!(spoken, Some("http" | "tcp" | "tls"));
            prop_assert!(less || known.contains(&spoken), "{}/{}: {:?}", protocol, name, spoken);
        }
        let crossed = crossed(protocol, &all, &responses(&found));
        prop_assert!(crossed.is_none(), "{}/{}: {:?}", protocol, name, crossed);
    }

    #[test]
    fn after_loss_pairs_are_never_crossed(lost in vec(2usize..40, 1..8)) {
        // Each request's path is its number, and so is its response's length.
        let mut turns: Vec<(Direction, Vec<u8>)> = Vec::new();
        for number in 1..=20usize {
            let request = format!("GET /n{number} HTTP/1.1\r\nHost: x\r\n\r\n");
            let body = "b".repeat(number);
            let response =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {number}\r\n\r\n{body}");
            turns.push((Received, request.into_bytes()));
            turns.push((Sent, response.into_bytes()));
        }
        let borrowed: Vec<Turn<'_>> =
            turns.iter().map(|(direction, bytes)| (*direction, bytes.as_slice())).collect();
        let mut events = conversation(&borrowed);
        for event in &lost {
            if *event < events.len() {
                events.remove(*event);
            }
        }
        for span in spans(&mut tracer(), &events) {
            let Some(size) = span.attribute("http.response.body.size") else { continue };
            prop_assert_eq!(
                format!("GET /n{size}"),
                span.operation.clone(),
                "lost {:?}: {}",
                lost,
                render(std::slice::from_ref(&span))
            );
        }
    }
}

/// Each event of each recording lost, by itself and with the two of its side that
/// follow: here nothing is left to chance.
#[test]
fn no_loss_of_an_event_crosses_pairs() {
    for (protocol, name, events) in recordings() {
        for sizes in [&[100_000][..], &[16, 400], &[4, 2000], &[8, 100]] {
            let events = in_order(split(events, sizes));
            let all = responses(&spans(&mut tracer(), &events));
            let may_go = leave_gaps(&events);
            // A recording of a thousand pieces is mostly contents of messages.
            let step = events.len() / 700 + 1;
            for at in (0..events.len()).step_by(step) {
                for gone in [vec![at], vec![at, at + 2, at + 4]] {
                    let stays = |at: usize| !(may_go[at] && gone.contains(&at));
                    let left = (0..events.len()).filter(|at| stays(*at));
                    let left: Vec<RecordedEvent> = left.map(|at| events[at].clone()).collect();
                    let found = responses(&spans(&mut tracer(), &left));
                    let crossed = crossed(protocol, &all, &found);
                    assert!(crossed.is_none(), "{protocol}/{name} without {gone:?}: {crossed:?}");
                }
            }
        }
    }
}

/// Events a millisecond apart: the relay that recorded them lets some time pass
/// before it says that what it sent was received, when it has been answered.
fn in_order(mut events: Vec<RecordedEvent>) -> Vec<RecordedEvent> {
    for (index, event) in events.iter_mut().enumerate() {
        if let RecordedEvent::Data(data) = event {
            data.time_nano = 1_000_000_000 + index as u64 * 1_000_000;
        }
    }
    events
}

/// For each event whether its loss is to be seen: what is lost before the first of
/// a direction leaves no gap.
fn leave_gaps(events: &[RecordedEvent]) -> Vec<bool> {
    let mut begun = BTreeSet::new();
    let leaves_gap = |event: &RecordedEvent| match event {
        RecordedEvent::Data(data) => {
            !begun.insert((data.connection, data.direction == Direction::Sent))
        }
        _ => false,
    };
    events.iter().map(leaves_gap).collect()
}

/// The bytes of each request's response, by the request's first byte, its capture
/// point and port. Without a port several connections may have the same.
type Responses = BTreeMap<RequestKey, Vec<Range<u64>>>;
type RequestKey = (Capture, Option<u16>, u32);

fn responses(spans: &[Span]) -> Responses {
    let mut found = Responses::new();
    for span in spans {
        // What is only seen from outside is no request.
        if matches!(span.protocol.as_deref(), Some("tcp" | "tls")) {
            continue;
        }
        let (Some(request), Some(start)) = (span.request_tcp_seq, span.response_tcp_seq) else {
            continue;
        };
        let start = u64::from(start);
        let range = start..start + span.network.response_bytes.unwrap_or(0);
        found.entry((span.capture, span.flow.client_port, request)).or_default().push(range);
    }
    found
}

/// A request that is given what another one was answered. Bytes that answer
/// nobody, such as those between messages, may be taken for a response's first;
/// where responses pass frame by frame, between each other, only their first bytes
/// are surely their own.
fn crossed(protocol: &str, all: &Responses, found: &Responses) -> Option<String> {
    // Sequence numbers may have wrapped.
    let within = |range: &Range<u64>, start: u64| {
        range.contains(&start) || range.contains(&(start + (1 << 32)))
    };
    let wrong = |(request, ranges): (&RequestKey, &Vec<Range<u64>>)| {
        let right = all.get(request)?;
        let given =
            ranges.iter().find(|given| !right.iter().any(|range| within(range, given.start)))?;
        let (other, _) = all.iter().find(|(other, ranges)| {
            (other.0, other.1) == (request.0, request.1)
                && ranges.iter().any(|range| match protocol {
                    "http2" => range.start == given.start,
                    _ => within(range, given.start),
                })
        })?;
        Some(format!("{request:?} is given {given:?} of {other:?}, not {right:?}"))
    };
    found.iter().find_map(wrong)
}

fn plain(direction: Direction, seq: u32, bytes: &[u8]) -> RecordedData {
    match data(1, direction, seq, bytes) {
        RecordedEvent::Data(data) => data,
        _ => unreachable!("data makes data"),
    }
}

#[test]
fn a_header_line_of_ten_megabytes_is_cut_and_the_next_request_is_seen() {
    let mut tracer = tracer();
    let mut events = conversation(&[(Received, b"GET /long HTTP/1.1\r\nHost: x\r\nX: ")]);
    let mut seq = 1000 + 32;
    // As the kernel side reports them: whole at first, then only the beginnings.
    for index in 0..10_240u32 {
        let captured = if index < 16 { 1024 } else { 64 };
        let mut transfer = plain(Received, seq, &vec![b'a'; captured]);
        transfer.length = 1024;
        seq += 1024;
        events.push(RecordedEvent::Data(transfer));
    }
    for event in &events {
        tracer.event(&event.event());
        assert!(tracer.held_bytes() < 64 << 10, "{} bytes", tracer.held_bytes());
    }
    let refused = b"HTTP/1.1 431 Too Large\r\nContent-Length: 0\r\n\r\n";
    let end = 1_000_000_000_000;
    let mut rest = vec![plain(Sent, 9000, refused)];
    rest.push(plain(Received, seq, GET));
    rest.push(plain(Sent, 9000 + refused.len() as u32, OK));
    for (index, event) in rest.iter_mut().enumerate() {
        event.time_nano = end + index as u64;
        tracer.event(&RecordedEvent::Data(event.clone()).event());
    }
    let mut found = Vec::new();
    tracer.drain(&mut found).unwrap();
    let names: Vec<_> =
        found.iter().map(|span| format!("{} {:?}", span.operation, span.status_code)).collect();
    assert_eq!(names, ["GET /long Some(431)", "GET /a Some(200)"]);
    assert_eq!(counter(&tracer, "heads_cut"), 1);
}

#[test]
fn a_url_without_end_is_cut_too() {
    let url = [b"GET /".as_slice(), &[b'u'; 40_000]].concat();
    let too_long = b"HTTP/1.1 414 URI Too Long\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(operations(&[(Received, &url), (Sent, too_long)]), ["GET /{id} Some(414)"]);
}

#[test]
fn a_client_that_says_nothing_makes_no_span() {
    let endpoint = |port| Endpoint { address: [127, 0, 0, 1].into(), port };
    let opened = RecordedEvent::Opened(Opened {
        time_nano: 1,
        connection: 1,
        process: 1,
        thread: 1,
        sleeps: 0,
        role: Role::Server,
        local: endpoint(80),
        remote: endpoint(4000),
        network_namespace: 0,
        connect_nano: None,
        first_seqs: None,
        unix: None,
        command: Default::default(),
    });
    let mut tracer = tracer();
    assert!(spans(&mut tracer, &[opened, closed(false)]).is_empty());
    assert_eq!((tracer.connections(), tracer.held_bytes()), (0, 0));
}

#[test]
fn a_server_that_dies_is_told_from_one_that_is_slow() {
    let cases: [(&[Turn<'_>], bool, &str); 4] = [
        (&[(Received, GET)], false, "no_response"),
        (&[(Received, GET)], true, "connection_reset"),
        (
            &[(Received, GET), (Sent, b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")],
            true,
            "incomplete_response",
        ),
        (&[(Received, GET), (Sent, b"HTTP/1.1 20")], false, "incomplete_response"),
    ];
    for (turns, reset, expected) in cases {
        let mut events = conversation(turns);
        events.push(closed(reset));
        let mut tracer = tracer();
        let found = spans(&mut tracer, &events);
        assert_eq!(found.len(), 1, "{expected}");
        assert_eq!(found[0].error.as_deref(), Some(expected));
        assert_eq!(found[0].status, Status::Error);
        assert_eq!(found[0].attribute("error.type").unwrap().as_str(), Some(expected));
        assert_eq!(found[0].end_unix_nano(), 5_000_000_000);
    }
}

#[test]
fn a_request_without_response_times_out_once() {
    let mut tracer = tracer();
    let events = conversation(&[(Received, GET)]);
    tracer.event(&events[0].event());
    let mut found = Vec::new();
    tracer.tick(100_000_000_000);
    tracer.drain(&mut found).unwrap();
    assert!(found.is_empty());
    tracer.tick(130_000_000_000);
    tracer.drain(&mut found).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].error.as_deref(), Some("timeout_no_response"));
    // The response that comes after all belongs to it, and the next to the next.
    let mut seq = 9000;
    for (index, (direction, at, bytes)) in [
        (Sent, None, OK),
        (Received, Some(1000 + GET.len() as u32), b"GET /b HTTP/1.1\r\n\r\n".as_slice()),
        (Sent, None, b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut event = plain(direction, at.unwrap_or(seq), bytes);
        if direction == Sent {
            seq += bytes.len() as u32;
        }
        event.time_nano = 140_000_000_000 + index as u64;
        tracer.event(&RecordedEvent::Data(event).event());
    }
    found.clear();
    tracer.drain(&mut found).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].operation.as_str(), found[0].status_code), ("GET /b", Some(404)));
}

#[test]
fn a_response_reported_before_its_request_still_finds_it() {
    let mut events = conversation(&[(Sent, GET), (Received, OK)]);
    let later = conversation(&[(Sent, GET), (Received, OK), (Sent, GET), (Received, OK)]);
    // A first exchange in order tells the protocol; then two CPUs race.
    events.push(later[3].clone());
    events.push(later[2].clone());
    let found = spans(&mut tracer(), &events);
    assert_eq!(found.len(), 2, "{}", render(&found));
    assert_eq!(found[1].duration_nano, 1_000_000);
    assert_eq!(found[1].status_code, Some(200));
}

#[test]
fn a_body_that_was_promised_and_withheld_is_not_waited_for() {
    let post = b"POST /p HTTP/1.1\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n";
    let failed = b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n";
    let turns: [Turn<'_>; 4] = [(Received, post), (Sent, failed), (Received, GET), (Sent, OK)];
    assert_eq!(operations(&turns), ["POST /p Some(417)", "GET /a Some(200)"]);
}

#[test]
fn interim_responses_are_not_the_response() {
    let post = b"POST /p HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let events = conversation(&[
        (Received, post),
        (Sent, b"HTTP/1.1 100 Continue\r\n\r\n"),
        (Received, b"ab"),
        (Sent, b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
        (Sent, OK),
    ]);
    let found = spans(&mut tracer(), &events);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].status_code, Some(200));
    assert_eq!(found[0].response_tcp_seq, Some(9000 + 25 + 37));
    assert_eq!(found[0].network.request_bytes, Some(post.len() as u64 + 2));
}

#[test]
fn tls_after_an_accepted_request_ends_the_reading() {
    let request: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";
    let hello: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";
    let mut tracer = tracer();
    let events = conversation(&[(Received, request), (Sent, b"S"), (Received, hello)]);
    assert!(spans(&mut tracer, &events).is_empty());
    assert_eq!(counter(&tracer, "connections_encrypted"), 1);
}

#[test]
fn unknown_protocols_are_given_up_and_counted() {
    let mut tracer = tracer();
    let turns: Vec<Turn<'_>> =
        (0..20).map(|_| (Received, b"\xde\xad\xbe\xef".as_slice())).collect();
    assert!(spans(&mut tracer, &conversation(&turns)).is_empty());
    assert_eq!(counter(&tracer, "connections_of_unknown_protocol"), 1);
}

#[test]
fn a_connection_may_turn_out_to_speak_another_protocol() {
    // Three lines that begin as Redis's inline commands do, then HTTP.
    let mut turns: Vec<Turn<'_>> = vec![(Received, b"PING\r\n"), (Sent, b"+PONG\r\n")];
    for _ in 0..3 {
        turns.push((Received, b"\xff\xff\xff"));
        turns.push((Sent, b"\xff"));
    }
    turns.push((Received, GET));
    turns.push((Sent, OK));
    let mut tracer = tracer();
    let found = spans(&mut tracer, &conversation(&turns));
    assert!(found.iter().any(|span| span.operation == "GET /a"), "{}", render(&found));
}

#[test]
fn many_open_requests_on_one_connection_are_bounded() {
    let mut tracer = tracer();
    let mut seq = 1000;
    for number in 0..20_000 {
        let request = format!("GET /{}{number} HTTP/1.1\r\nHost: x\r\n\r\n", "p".repeat(500));
        tracer.event(&RecordedEvent::Data(plain(Received, seq, request.as_bytes())).event());
        seq = seq.wrapping_add(request.len() as u32);
        assert!(tracer.held_bytes() < MAX_CONNECTION_BYTES, "{}", tracer.held_bytes());
    }
    assert!(counter(&tracer, "requests_lost") > 0);
    assert!(counter(&tracer, "requests_over_limit") > 0);
}

#[test]
fn answers_to_requests_that_were_given_up_are_nobody_elses() {
    const STATUSES: [u32; 7] = [200, 201, 202, 203, 204, 205, 206];
    let mut tracer = tracer();
    let (mut asked, mut answered, mut time_nano) = (1000, 5000, 0);
    let mut pass = |requests: std::ops::Range<usize>| {
        time_nano += 1_000_000_000;
        for number in requests.clone() {
            let text = format!("GET /{number}/{} HTTP/1.1\r\n\r\n", STATUSES[number % 7]);
            let data = RecordedData { time_nano, ..plain(Received, asked, text.as_bytes()) };
            tracer.event(&RecordedEvent::Data(data).event());
            asked += text.len() as u32;
        }
        for number in requests {
            let text = format!("HTTP/1.1 {} X\r\nContent-Length: 0\r\n\r\n", STATUSES[number % 7]);
            let data = RecordedData { time_nano, ..plain(Sent, answered, text.as_bytes()) };
            tracer.event(&RecordedEvent::Data(data).event());
            answered += text.len() as u32;
        }
    };
    // At once, more than are kept; then, after a silence, one.
    pass(0..5000);
    pass(5000..5001);
    assert_eq!(counter(&tracer, "requests_over_limit"), 1);
    let mut found = Vec::new();
    tracer.drain(&mut found).expect("valid rows");
    let status = |span: &Span| span.status_code.map(|status| format!("/{status}"));
    let path = |span: &Span| span.attribute("url.path").map(ToString::to_string);
    for span in &found {
        assert!(path(span).unwrap().ends_with(&status(span).unwrap()), "{span:#?}");
    }
    assert_eq!(found.last().and_then(path).as_deref(), Some("/5000/202"));
}

#[test]
fn many_prepared_statements_on_one_connection_are_bounded() {
    let mut tracer = tracer();
    let mut seq = 1000;
    for number in 0..5_000 {
        let content = format!("s{number}\0SELECT {} FROM t\0\0\0", "c, ".repeat(1000));
        let mut message = vec![b'P'];
        message.extend_from_slice(&(content.len() as u32 + 4).to_be_bytes());
        message.extend_from_slice(content.as_bytes());
        message.extend_from_slice(b"S\0\0\0\x04");
        let response = b"1\0\0\0\x04Z\0\0\0\x05I";
        tracer.event(&RecordedEvent::Data(plain(Received, seq, &message)).event());
        tracer.event(&RecordedEvent::Data(plain(Sent, 9000 + number * 11, response)).event());
        seq = seq.wrapping_add(message.len() as u32);
        assert!(tracer.held_bytes() < MAX_CONNECTION_BYTES, "{}", tracer.held_bytes());
    }
    let mut found = Vec::new();
    tracer.drain(&mut found).unwrap();
    assert_eq!(found.len(), 5_000);
}

/// Mail and FTP: the server speaks first, and some words are also Redis's.
#[test]
fn what_goes_on_after_a_greeting_is_not_redis() {
    let ftp = [
        (Sent, &b"220 FTP server ready\r\n"[..]),
        (Received, b"USER anonymous\r\n"),
        (Sent, b"331 Password?\r\n"),
        (Received, b"QUIT\r\n"),
        (Sent, b"221 Bye\r\n"),
    ];
    let pop3 = [
        (Sent, &b"+OK POP3 server ready\r\n"[..]),
        (Received, b"AUTH PLAIN\r\n"),
        (Sent, b"+OK\r\n"),
        (Received, b"QUIT\r\n"),
        (Sent, b"+OK\r\n"),
    ];
    assert_eq!(operations(&ftp), [""; 0]);
    assert_eq!(operations(&pop3), [""; 0]);
    assert_eq!(operations(&[(Received, b"PING\r\n"), (Sent, b"+PONG\r\n")]), ["PING None"]);
}

/// Plaintext that waits for its TLS record comes before what was missed after it.
#[test]
fn what_waits_to_be_sent_keeps_its_place_before_a_loss() {
    let mut tracer = tracer();
    let mut send = |time_nano: u64, offset: u32, placed: bool, bytes: &[u8]| {
        let RecordedEvent::Data(mut event) = data(1, Sent, offset, bytes) else {
            unreachable!("data makes data");
        };
        event.time_nano = time_nano;
        event.plaintext = Some(Plaintext { offset, placed });
        tracer.event(&RecordedEvent::Data(event).event());
    };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let no_frame = b"what is no frame";
    send(1_000_000_000, 0, true, preface);
    send(1_001_000_000, 24, false, no_frame);
    send(1_002_000_000, 1000, false, no_frame);
    tracer.tick(2_000_000_000);
    assert_eq!(counter(&tracer, "gap_bytes"), 1000 - 24 - no_frame.len() as u64);
}

/// Fuzz targets reach a parser in this way.
#[test]
fn a_parser_reads_what_it_is_given_whatever_it_is() {
    let names: BTreeSet<&str> = recordings().iter().map(|(name, _, _)| name.as_str()).collect();
    let known: Vec<_> =
        names.into_iter().filter_map(|name| Some((name, Assumed::named(name)?))).collect();
    assert!(known.len() >= 15, "{known:?}");
    for (assumed_name, assumed) in known {
        let mut same = 0;
        for (name, _, events) in recordings() {
            let config =
                TracerConfig { seed: Some(7), assumed: Some(assumed), ..TracerConfig::default() };
            let mut tracer = Tracer::new(config, Box::new(Everyone));
            let found = spans(&mut tracer, events);
            assert!(tracer.held_bytes() < MAX_CONNECTION_BYTES * tracer.connections().max(1));
            if name == assumed_name {
                let told = spans(&mut support::tracer(), events);
                same += usize::from(render(&found) == render(&told));
            }
        }
        assert!(same > 0, "{assumed_name}: what is told from the bytes was read otherwise");
    }
}

#[test]
fn connections_and_bytes_held_are_bounded_over_all() {
    let config = TracerConfig {
        max_connections: 1000,
        max_held_bytes: 1 << 20,
        seed: Some(1),
        ..TracerConfig::default()
    };
    let mut tracer = Tracer::new(config, Box::new(Everyone));
    let partial = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 8000]].concat();
    for connection in 0..5_000 {
        tracer.event(&data(connection, Received, 1, &partial).event());
        assert!(tracer.connections() <= 1000);
        assert!(tracer.held_bytes() <= 1 << 20);
    }
    assert_eq!(counter(&tracer, "connections_evicted") as usize, 5_000 - tracer.connections());
}

#[test]
fn everything_is_let_go_when_connections_close() {
    for (protocol, name, events) in recordings() {
        let mut tracer = tracer();
        for event in events {
            if !matches!(event, RecordedEvent::Closed(_)) {
                tracer.event(&event.event());
            }
        }
        for connection in 0..100 {
            let closed = Closed {
                time_nano: u64::MAX / 2,
                connection,
                reset: false,
                retransmits: 0,
                received_up_to: None,
            };
            tracer.event(&Event::Closed(closed));
        }
        // Datagrams have no connection that could be closed.
        for process in [100, 200] {
            tracer.event(&Event::Exit(ProcessEvent { time_nano: u64::MAX / 2, process }));
        }
        assert_eq!((tracer.connections(), tracer.held_bytes()), (0, 0), "{protocol}/{name}");
    }
}
