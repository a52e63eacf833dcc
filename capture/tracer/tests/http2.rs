//! HTTP/2 and gRPC beyond what recordings show: connections older than the
//! agent, lost events, streams that cross, frames that nobody should send.

mod support;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use spanwise_capture_tracer::Tracer;
use spanwise_capture_tracer::event::Direction;
use spanwise_capture_tracer::recording::{RecordedEvent, RecordedStreamName};
use spanwise_model::{Capture, Span};
use support::{data, render, spans, split, tracer};

use Direction::{Received, Sent};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;
const WHOLE: u8 = END_STREAM | END_HEADERS;

fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(content);
    bytes
}

/// A field that is added to the table, by the number of a name in the static one.
fn field(name: u8, value: &str) -> Vec<u8> {
    [&[0x40 | name, value.len() as u8], value.as_bytes()].concat()
}

/// A field that is not, with its name.
fn named(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

const METHOD_GET: &[u8] = b"\x82";
const METHOD_POST: &[u8] = b"\x83";
const SCHEME_HTTP: &[u8] = b"\x86";
const STATUS_200: &[u8] = b"\x88";
const PATH: u8 = 4;
const CONTENT_LENGTH: u8 = 28;
const CONTENT_TYPE: u8 = 31;

fn get(stream: u32, path: &str) -> Vec<u8> {
    let block = [METHOD_GET, SCHEME_HTTP, &field(PATH, path)].concat();
    frame(HEADERS, WHOLE, stream, &block)
}

fn ok(stream: u32) -> Vec<u8> {
    frame(HEADERS, WHOLE, stream, STATUS_200)
}

/// A call's head and its one message.
fn call(stream: u32, path: &str) -> Vec<u8> {
    let kind = field(CONTENT_TYPE, "application/grpc");
    let block = [METHOD_POST, SCHEME_HTTP, &field(PATH, path), &kind].concat();
    [
        frame(HEADERS, END_HEADERS, stream, &block),
        frame(DATA, END_STREAM, stream, b"\0\0\0\0\x02hi"),
    ]
    .concat()
}

/// What one side says in one system call.
type Turn = (Direction, Vec<u8>);

/// A server's side of a connection, each turn a millisecond after the other.
fn conversation(turns: &[Turn]) -> Vec<RecordedEvent> {
    let mut seqs = [1000, 9000];
    let mut events = Vec::new();
    for (number, (direction, bytes)) in turns.iter().enumerate() {
        let seq = &mut seqs[usize::from(*direction == Sent)];
        let RecordedEvent::Data(mut event) = data(1, *direction, *seq, bytes) else {
            unreachable!("data makes data");
        };
        *seq += bytes.len() as u32;
        event.time_nano = 1_000_000_000 + number as u64 * 1_000_000;
        events.push(RecordedEvent::Data(event));
    }
    events
}

/// With what both sides say first.
fn opened(turns: Vec<Turn>) -> Vec<Turn> {
    let hello = [PREFACE, &frame(SETTINGS, 0, 0, b"")].concat();
    let mut all = vec![(Received, hello), (Sent, frame(SETTINGS, 0, 0, b""))];
    all.extend(turns);
    all
}

fn found(turns: &[Turn]) -> (Vec<Span>, Tracer) {
    let mut tracer = tracer();
    let found = spans(&mut tracer, &conversation(turns));
    (found, tracer)
}

fn summaries(turns: &[Turn]) -> Vec<String> {
    found(turns).0.iter().map(summary).collect()
}

fn summary(span: &Span) -> String {
    let code = span.status_code.map_or(String::new(), |code| format!(" {code}"));
    let error = span.error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
    let partial = span.attribute("spanwise.hpack").map_or("", |_| " partial");
    format!("{} {}{code}{error}{partial}", span.protocol.as_deref().unwrap(), span.operation)
}

fn counter(tracer: &Tracer, name: &str) -> u64 {
    tracer.counters().into_iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn streams_are_answered_in_any_order() {
    let requests = [get(1, "/a"), get(3, "/b"), get(5, "/c")].concat();
    let not_found = frame(HEADERS, WHOLE, 1, b"\x8d");
    let answers = [ok(5), not_found, ok(3)].concat();
    assert_eq!(
        summaries(&opened(vec![(Received, requests), (Sent, answers)])),
        ["http GET /c 200", "http GET /a 404", "http GET /b 200"]
    );
}

#[test]
fn frames_in_parts_with_padding_and_priority_are_read() {
    let block = [METHOD_GET, SCHEME_HTTP, &field(PATH, "/long")].concat();
    let (first, rest) = block.split_at(3);
    let head = [&[3], [0, 0, 0, 0, 16].as_slice(), first, &[0; 3]].concat();
    let request = [
        frame(HEADERS, END_STREAM | PADDED | PRIORITY, 1, &head),
        frame(CONTINUATION, 0, 1, &rest[..4]),
        frame(CONTINUATION, END_HEADERS, 1, &rest[4..]),
    ]
    .concat();
    let data = frame(DATA, END_STREAM | PADDED, 1, b"\x02ok\0\0");
    let answer = [frame(HEADERS, END_HEADERS, 1, STATUS_200), data].concat();
    let turns = opened(vec![(Received, request.clone()), (Sent, answer.clone())]);
    let (spans, _) = found(&turns);
    assert_eq!(spans.iter().map(summary).collect::<Vec<_>>(), ["http GET /long 200"]);
    assert_eq!(spans[0].network.request_bytes, Some(request.len() as u64));
    assert_eq!(spans[0].network.response_bytes, Some(answer.len() as u64));
}

#[test]
fn bytes_of_other_streams_are_not_counted() {
    let (first, second) = (get(1, "/a"), get(3, "/bbbbbb"));
    let part = frame(DATA, 0, 1, b"half");
    let end = frame(DATA, END_STREAM, 1, b"half");
    let head = frame(HEADERS, END_HEADERS, 1, STATUS_200);
    let turns = opened(vec![
        (Received, [first.clone(), second].concat()),
        (Sent, [head.clone(), part.clone(), ok(3), end.clone()].concat()),
    ]);
    let (spans, _) = found(&turns);
    let span = spans.iter().find(|span| span.operation == "GET /a").unwrap();
    assert_eq!(span.network.request_bytes, Some(first.len() as u64));
    let answered = head.len() + part.len() + end.len();
    assert_eq!(span.network.response_bytes, Some(answered as u64));
}

#[test]
fn of_an_older_connection_only_what_is_known_is_said() {
    // The path and the rest were said before; a later path is said anew.
    let old = |stream| {
        let block = [METHOD_POST, SCHEME_HTTP, b"\xc1\xc0\xbf"].concat();
        frame(HEADERS, WHOLE, stream, &block)
    };
    let answers = |stream| frame(HEADERS, WHOLE, stream, b"\x88\xbe");
    let turns = [
        (Received, old(101)),
        (Sent, answers(101)),
        (Received, get(103, "/new")),
        (Sent, ok(103)),
        // The new path is the table's first entry.
        (Received, frame(HEADERS, WHOLE, 105, b"\x82\x86\xbe")),
        (Sent, ok(105)),
    ];
    assert_eq!(
        summaries(&turns),
        ["http POST 200 partial", "http GET /new 200", "http GET /new 200"]
    );
}

#[test]
fn calls_on_an_older_connection_are_told_by_their_messages() {
    let old = |stream, message: &[u8]| {
        let head = [METHOD_POST, SCHEME_HTTP, b"\xc1\xc0\xbf"].concat();
        let head = frame(HEADERS, END_HEADERS, stream, &head);
        [head, frame(DATA, END_STREAM, stream, message)].concat()
    };
    let answer = |stream, trailers: &[u8]| {
        let head = frame(HEADERS, END_HEADERS, stream, b"\x88\xbe");
        let message = frame(DATA, 0, stream, b"\0\0\0\0\0");
        [head, message, frame(HEADERS, WHOLE, stream, trailers)].concat()
    };
    let turns = [
        (Received, old(101, b"\0\0\0\0\x02hi")),
        (Sent, answer(101, b"\xc1\xc0")),
        // A code that was not said before.
        (Received, old(103, b"\0\0\0\0\x02hi")),
        (Sent, answer(103, b"\x7f\x05\x015\xc0")),
        (Received, old(105, b"\0\0\0\0\x02hi")),
        (Sent, answer(105, b"\x7f\x05\x015\x7f\x05\x03why")),
        // One that is over with its head.
        (Received, old(109, b"\0\0\0\0\x02hi")),
        (Sent, frame(HEADERS, WHOLE, 109, b"\x88\xc1\xc0")),
        // Other content.
        (Received, old(111, b"{\"a\":1}")),
        (Sent, answer(111, b"\xc1\xc0")),
    ];
    assert_eq!(
        summaries(&turns),
        [
            "grpc grpc partial",
            "grpc grpc partial",
            "grpc grpc 5 partial",
            "grpc grpc partial",
            "http POST 200 partial"
        ]
    );
}

#[test]
fn a_method_may_be_unknown_too() {
    let turns = [
        (Received, frame(HEADERS, WHOLE, 101, b"\x86\xc1\xc0\xbf")),
        (Sent, frame(HEADERS, WHOLE, 101, b"\x88\xbe")),
    ];
    assert_eq!(summaries(&turns), ["http HTTP 200 partial"]);
}

#[test]
fn calls_may_end_in_the_head_of_the_response() {
    let failed =
        [STATUS_200, &named("grpc-status", "5"), &named("grpc-message", "no%20a")].concat();
    let turns = opened(vec![
        (Received, call(1, "/a.B/C")),
        (Sent, frame(HEADERS, WHOLE, 1, &failed)),
        (Received, call(3, "/a.B/D")),
        (Sent, frame(RESET, 0, 3, &[0, 0, 0, 7])),
    ]);
    let (spans, _) = found(&turns);
    assert_eq!(
        spans.iter().map(summary).collect::<Vec<_>>(),
        ["grpc a.B/C 5", "grpc a.B/D 14 (UNAVAILABLE: stream reset: REFUSED_STREAM)"]
    );
    assert_eq!(spans[0].attribute("spanwise.request.messages").unwrap().as_int(), Some(1));
}

#[test]
fn a_proxys_answer_to_a_call_is_what_clients_take_it_for() {
    let gateway = [field(8, "502"), named("content-type", "text/html")].concat();
    let turns =
        opened(vec![(Received, call(1, "/a.B/C")), (Sent, frame(HEADERS, WHOLE, 1, &gateway))]);
    assert_eq!(summaries(&turns), ["grpc a.B/C 14 (UNAVAILABLE: HTTP 502)"]);
}

#[test]
fn what_a_server_going_away_has_not_begun_has_failed() {
    let requests = [get(1, "/a"), get(3, "/b"), call(5, "/c.D/E")].concat();
    let going = frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
    let turns = opened(vec![(Received, requests), (Sent, going), (Sent, ok(1))]);
    assert_eq!(
        summaries(&turns),
        [
            "http GET /b (connection going away: NO_ERROR)",
            "grpc c.D/E 14 (UNAVAILABLE: connection going away: NO_ERROR)",
            "http GET /a 200"
        ]
    );
}

#[test]
fn what_keeps_a_connection_alive_makes_no_spans() {
    let turns = opened(vec![
        (Received, frame(PING, 0, 0, &[0; 8])),
        (Sent, frame(PING, 1, 0, &[0; 8])),
        (Received, frame(SETTINGS, 1, 0, b"")),
        (Received, frame(8, 0, 0, &[0, 0, 1, 0])),
        // An extension.
        (Sent, frame(0xa, 0, 0, b"alt")),
    ]);
    let (spans, tracer) = found(&turns);
    assert!(spans.is_empty());
    assert_eq!(counter(&tracer, "malformed_messages"), 0);
}

#[test]
fn an_early_response_waits_for_its_own_request() {
    // As a client sees it; the second request is reported after its response.
    let mirrored = |turns: Vec<Turn>| -> Vec<Turn> {
        let other = |direction| if direction == Sent { Received } else { Sent };
        turns.into_iter().map(|(direction, bytes)| (other(direction), bytes)).collect()
    };
    let mut events = conversation(&mirrored(opened(vec![
        (Received, get(1, "/slow")),
        (Received, get(3, "/b")),
        (Sent, ok(3)),
        (Sent, ok(1)),
    ])));
    events.swap(3, 4);
    let found = spans(&mut tracer(), &events);
    assert_eq!(
        found.iter().map(summary).collect::<Vec<_>>(),
        ["http GET /b 200", "http GET /slow 200"],
        "{}",
        render(&found)
    );
    assert!(found.iter().all(|span| span.capture == Capture::ClientProcess));
    assert_eq!(found[0].duration_nano, 1_000_000);
}

#[test]
fn a_response_whose_end_was_not_captured_ends_by_silence() {
    let head = [STATUS_200, &field(CONTENT_TYPE, "application/grpc")].concat();
    let answer = [
        frame(HEADERS, END_HEADERS, 1, &head),
        frame(DATA, 0, 1, &[0; 500]),
        frame(DATA, 0, 1, &[0; 600]),
        frame(HEADERS, WHOLE, 1, &named("grpc-status", "0")),
    ]
    .concat();
    let mut events = conversation(&opened(vec![
        (Received, call(1, "/a.B/C")),
        (Sent, answer.clone()),
        (Received, call(3, "/a.B/D")),
        (Sent, frame(HEADERS, WHOLE, 3, &[STATUS_200, &named("grpc-status", "0")].concat())),
    ]));
    for event in &mut events {
        if let RecordedEvent::Data(data) = event {
            data.bytes.truncate(1024);
        }
    }
    let found = spans(&mut tracer(), &events);
    assert_eq!(
        found.iter().map(summary).collect::<Vec<_>>(),
        ["grpc a.B/D 0", "grpc a.B/C partial"],
        "{}",
        render(&found)
    );
    let cut = found.iter().find(|span| span.operation == "a.B/C").unwrap();
    assert_eq!(cut.network.response_bytes, Some(answer.len() as u64));
    assert_eq!(cut.duration_nano, 1_000_000);
}

#[test]
fn three_malformed_frames_and_it_is_another_protocol() {
    let mut turns = opened(vec![(Received, get(1, "/a")), (Sent, ok(1))]);
    for _ in 0..3 {
        turns.push((Received, frame(HEADERS, WHOLE, 0, b"")));
    }
    turns.push((Received, b"GET /old HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()));
    turns.push((Sent, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()));
    let (spans, tracer) = found(&turns);
    assert!(spans.iter().any(|span| span.operation == "GET /a"), "{}", render(&spans));
    assert!(counter(&tracer, "malformed_messages") > 0);
}

#[test]
fn streams_that_are_never_answered_are_bounded() {
    let mut tracer = tracer();
    let hello = opened(vec![]).remove(0).1;
    tracer.event(&data(1, Received, 0, &hello).event());
    let mut seq = hello.len() as u32;
    for number in 0..20_000 {
        let path = format!("/{}{number}", "p".repeat(90));
        let request = get(number * 2 + 1, &path);
        tracer.event(&data(1, Received, seq, &request).event());
        seq += request.len() as u32;
        assert!(tracer.held_bytes() < (2 << 20) + (256 << 10), "{}", tracer.held_bytes());
    }
    assert!(counter(&tracer, "requests_lost") > 0);
}

/// Forty requests whose paths and lengths of responses are their numbers, each
/// said once in full and then by its place in the table. Two at a time, answered
/// in the other order.
fn numbered() -> Vec<Turn> {
    // The last of the twenty is the table's first.
    let place = |nth: usize| vec![0x80 | (62 + 19 - nth as u8)];
    let request = |index: usize| {
        let number = index % 20;
        let said = index >= 20;
        let path = if said { place(number) } else { field(PATH, &format!("/n{number}")) };
        let block = [METHOD_GET, SCHEME_HTTP, &path].concat();
        (Received, frame(HEADERS, WHOLE, index as u32 * 2 + 1, &block))
    };
    let answer = |index: usize| {
        let (number, stream) = (index % 20, index as u32 * 2 + 1);
        let said = index >= 20;
        let length =
            if said { place(number ^ 1) } else { field(CONTENT_LENGTH, &number.to_string()) };
        let head = frame(HEADERS, END_HEADERS, stream, &[STATUS_200, &length].concat());
        (Sent, [head, frame(DATA, END_STREAM, stream, &vec![b'b'; number])].concat())
    };
    let pairs = (0..40).step_by(2);
    opened(pairs.flat_map(|n| [request(n), request(n + 1), answer(n + 1), answer(n)]).collect())
}

#[test]
fn references_to_the_table_are_followed() {
    let (spans, _) = found(&numbered());
    assert_eq!(spans.len(), 40);
    for span in spans {
        let size = span.attribute("http.response.body.size").unwrap();
        assert_eq!(span.operation, format!("GET /n{size}"));
    }
}

/// One direction's table, of `limit` bytes, as encoders keep it.
struct Encoder {
    /// The newest first.
    table: Vec<(String, String)>,
    limit: usize,
}

impl Encoder {
    fn new(limit: usize) -> Self {
        Self { table: Vec::new(), limit }
    }

    /// A field: by its place, by its name's place, or in full.
    fn say(&mut self, name: &str, value: &str) -> Vec<u8> {
        let is = |entry: &(String, String)| entry.0 == name && entry.1 == value;
        if let Some(at) = self.table.iter().position(is) {
            return vec![0x80 | (62 + at as u8)];
        }
        let known = self.table.iter().position(|entry| entry.0 == name);
        self.table.insert(0, (name.to_owned(), value.to_owned()));
        let size = |entry: &(String, String)| entry.0.len() + entry.1.len() + 32;
        while self.table.iter().map(size).sum::<usize>() > self.limit {
            self.table.pop();
        }
        let mut field = match known {
            Some(0) => vec![0x40 | 62],
            Some(at) => vec![0x7f, (62 + at - 63) as u8],
            None => [&[0x40, name.len() as u8], name.as_bytes()].concat(),
        };
        field.push(value.len() as u8);
        field.extend(value.as_bytes());
        field
    }
}

/// How client and server of [`numbered_calls`] speak.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manners {
    Plain,
    /// Each request also has a field that no other has.
    Churn,
    /// As Node.js does: responses have a date, and an error is all of one.
    Node,
    /// The same, and errors tell much that no other does.
    Verbose,
}

/// Calls on one connection of ten methods by turns, each with a code that follows
/// from its method.
fn numbered_calls(count: u32, manners: Manners) -> Vec<Turn> {
    let mut turns = opened(vec![]);
    let (mut asking, mut answering) = (Encoder::new(4096), Encoder::new(4096));
    for number in 0..count {
        let stream = number * 2 + 1;
        let method = number * 7 % 10;
        let mut block = [METHOD_POST, SCHEME_HTTP].concat();
        block.extend(asking.say(":path", &format!("/s/{method}")));
        for (name, value) in
            [(":authority", "shop"), ("content-type", "application/grpc"), ("te", "trailers")]
        {
            block.extend(asking.say(name, value));
        }
        if manners == Manners::Churn {
            block.extend(asking.say("traceparent", &format!("00-{number:032}-{number:016}-01")));
        }
        turns.push((Received, frame(HEADERS, WHOLE, stream, &block)));
        let mut head = STATUS_200.to_vec();
        if matches!(manners, Manners::Node | Manners::Verbose) {
            head.extend(
                answering.say("date", &format!("Fri, 27 Nov 2026 08:00:{:02} GMT", number / 7)),
            );
        }
        head.extend(answering.say("content-type", "application/grpc"));
        let message = match manners {
            Manners::Verbose => format!("{number}{}", "why".repeat(number as usize % 38)),
            _ => format!("m{}", number % 3),
        };
        let mut trailers = answering.say("grpc-status", &(method % 5).to_string());
        trailers.extend(answering.say("grpc-message", &message));
        if matches!(manners, Manners::Node | Manners::Verbose) && method % 5 > 0 {
            turns.push((Sent, frame(HEADERS, WHOLE, stream, &[head, trailers].concat())));
            continue;
        }
        turns.push((Sent, frame(HEADERS, END_HEADERS, stream, &head)));
        turns.push((Sent, frame(HEADERS, WHOLE, stream, &trailers)));
    }
    turns
}

#[test]
fn names_and_codes_are_known_without_loss() {
    for manners in [Manners::Plain, Manners::Churn, Manners::Node, Manners::Verbose] {
        let (spans, _) = found(&numbered_calls(60, manners));
        assert_eq!(spans.len(), 60);
        for (number, span) in spans.iter().enumerate() {
            let method = number * 7 % 10;
            let right = format!("grpc s/{method} {}", method % 5);
            assert!(summary(span).starts_with(&right), "{}", summary(span));
        }
    }
}

#[test]
fn names_are_inferred_after_loss() {
    let mut events = conversation(&numbered_calls(40, Manners::Plain));
    // Requests are every third, after what both sides say first.
    events.drain(2 + 20 * 3..2 + 22 * 3);
    let found = spans(&mut tracer(), &events);
    assert_eq!(found.len(), 38);
    for span in &found[20..] {
        assert_eq!(span.attribute("spanwise.hpack").unwrap().as_str(), Some("inferred"));
    }
    assert_eq!(summary(&found[37]), "grpc s/3 3 partial");
}

#[test]
fn codes_are_inferred_after_loss() {
    let mut events = conversation(&numbered_calls(30, Manners::Plain));
    // Trailers of the twentieth call, and the head of another response.
    events.remove(2 + 19 * 3 + 2);
    events.remove(2 + 24 * 3);
    let found = spans(&mut tracer(), &events);
    let last = found.iter().max_by_key(|span| span.start_unix_nano).unwrap();
    assert_eq!(summary(last), "grpc s/3 3 partial", "{}", render(std::slice::from_ref(last)));
    assert_eq!(last.attribute("spanwise.hpack").unwrap().as_str(), Some("inferred"));
}

/// What a burst costs: a header block of one response is not captured, and from the next on all is
/// known again.
#[test]
fn a_block_that_was_not_captured_costs_its_own_answer_only() {
    for manners in [Manners::Plain, Manners::Node] {
        let mut events = conversation(&numbered_calls(60, manners));
        let mut cut: Vec<_> = events
            .iter_mut()
            .filter_map(|event| match event {
                RecordedEvent::Data(data) if data.direction == Sent => Some(data),
                _ => None,
            })
            .collect();
        cut[31].bytes.truncate(9);
        let found = spans(&mut tracer(), &events);
        assert_eq!(found.len(), 60, "{manners:?}");
        let unknown = |span: &&Span| span.attribute("spanwise.status").is_some();
        assert!(found.iter().filter(unknown).count() <= 1, "{manners:?}: {}", render(&found));
        for span in &found[45..] {
            let method: i32 = span.operation.strip_prefix("s/").unwrap().parse().unwrap();
            assert_eq!(span.status_code, Some(method % 5), "{manners:?}: {}", render(&found));
        }
    }
}

#[test]
fn what_is_not_known_is_said_and_counted() {
    let old = |stream, message: &[u8]| {
        let head = [METHOD_POST, SCHEME_HTTP, b"\xc1\xc0\xbf"].concat();
        let head = frame(HEADERS, END_HEADERS, stream, &head);
        [head, frame(DATA, END_STREAM, stream, message)].concat()
    };
    let answer = |stream, trailers: &[u8]| {
        let head = frame(HEADERS, END_HEADERS, stream, b"\x88\xbe");
        let message = frame(DATA, 0, stream, b"\0\0\0\0\0");
        [head, message, frame(HEADERS, WHOLE, stream, trailers)].concat()
    };
    let turns = [
        (Received, old(101, b"\0\0\0\0\x02hi")),
        (Sent, answer(101, b"\xc1\xc0")),
        (Received, old(103, b"\0\0\0\0\x02hi")),
        (Sent, answer(103, b"\x7f\x05\x0213\x7f\x05\x03why")),
        (Received, old(105, b"\0\0\0\0\x02hi")),
        (Sent, frame(RESET, 0, 105, &[0, 0, 0, 7])),
        // All of it is known.
        (Received, call(107, "/a.B/C")),
        (Sent, frame(HEADERS, WHOLE, 107, &[STATUS_200, &named("grpc-status", "0")].concat())),
    ];
    let (spans, tracer) = found(&turns);
    let says = |span: &Span| {
        let key = |key| {
            span.attribute(key).and_then(|value| value.as_str()).unwrap_or("known").to_owned()
        };
        (key("spanwise.operation"), key("spanwise.status"), span.error.is_some())
    };
    let (unknown, known) = ("unknown".to_owned(), "known".to_owned());
    assert_eq!(
        spans.iter().map(says).collect::<Vec<_>>(),
        [
            (unknown.clone(), unknown.clone(), false),
            (unknown.clone(), known.clone(), true),
            (unknown.clone(), known.clone(), true),
            (known.clone(), known, false),
        ],
        "{}",
        render(&spans)
    );
    assert_eq!(
        (counter(&tracer, "operations_unknown"), counter(&tracer, "statuses_unknown")),
        (3, 1)
    );
    let unknown = tracer.unknown();
    let counts: Vec<_> = unknown
        .iter()
        .map(|one| (one.spans, one.operations_unknown, one.statuses_unknown))
        .collect();
    assert_eq!(counts, [(4, 3, 1)]);
}

/// The head of an old connection's call, all of whose fields are in HPACK's table.
fn old_head(stream: u32) -> Vec<u8> {
    let head = [METHOD_POST, SCHEME_HTTP, b"\xc1\xc0\xbf"].concat();
    let head = frame(HEADERS, END_HEADERS, stream, &head);
    [head, frame(DATA, END_STREAM, stream, b"\0\0\0\0\x02hi")].concat()
}

#[test]
fn a_program_names_what_its_old_connections_ask_for() {
    let answer = |stream, code: &str| {
        let end = [STATUS_200, &named("grpc-status", code)].concat();
        frame(HEADERS, WHOLE, stream, &end)
    };
    let turns = [
        (Received, old_head(101)),
        (Sent, answer(101, "0")),
        (Received, old_head(103)),
        (Sent, answer(103, "13")),
        (Received, frame(HEADERS, WHOLE, 105, &[SCHEME_HTTP, b"\xc1\xc0\xbf"].concat())),
        (Sent, frame(HEADERS, WHOLE, 105, STATUS_200)),
        (Received, old_head(107)),
        (Sent, answer(107, "0")),
        (Received, call(109, "/a.B/Known")),
        (Sent, answer(109, "0")),
    ];
    let name = |stream, method: &str, path: &str| {
        RecordedEvent::StreamName(RecordedStreamName {
            time_nano: 0,
            connection: 1,
            stream,
            method: method.to_owned(),
            path: path.to_owned(),
        })
    };
    let mut events = conversation(&turns);
    let at = |events: &[RecordedEvent], turn: usize| {
        let data = events.iter().enumerate().filter(|(_, e)| matches!(e, RecordedEvent::Data(_)));
        data.map(|(at, _)| at).nth(turn).unwrap()
    };
    // Told after the head was read, and before; twice; of a call that says more itself.
    for (turn, before, told) in [
        (1, true, name(101, "", "/a.B/C")),
        (2, true, name(103, "", "/a.B/D")),
        (5, true, name(105, "GET", "/shop?token=secret")),
        (8, true, name(109, "", "/a.B/Other")),
    ] {
        let place = at(&events, turn) + usize::from(!before);
        events.insert(place, told);
    }
    let spans = spans(&mut tracer(), &events);
    let says = |span: &Span| {
        let unknown = span.attribute("spanwise.operation").is_some();
        (
            span.operation.clone(),
            span.protocol.clone().unwrap_or_default(),
            unknown,
            span.error.is_some(),
        )
    };
    let told: Vec<_> = spans.iter().map(says).collect();
    let is = |operation: &str, protocol: &str, unknown, failed| {
        (operation.to_owned(), protocol.to_owned(), unknown, failed)
    };
    assert_eq!(
        told,
        [
            is("a.B/C", "grpc", false, false),
            is("a.B/D", "grpc", false, true),
            is("GET /shop", "http", false, false),
            is("grpc", "grpc", true, false),
            is("a.B/Known", "grpc", false, false),
        ],
        "{}",
        render(&spans)
    );
    assert!(!render(&spans).contains("secret"));
}

#[test]
fn a_number_alone_in_trailers_is_the_code() {
    let head = [STATUS_200, &field(CONTENT_TYPE, "application/grpc")].concat();
    let turns = [
        (Received, call(101, "/a.B/C")),
        (Sent, frame(HEADERS, END_HEADERS, 101, &head)),
        // Names that were said before, with new values.
        (Sent, frame(HEADERS, WHOLE, 101, b"\x7f\x05\x019\x7f\x05\x03why")),
    ];
    let (spans, _) = found(&turns);
    assert_eq!(summary(&spans[0]), "grpc a.B/C 9 partial");
    assert_eq!(spans[0].attribute("spanwise.hpack").unwrap().as_str(), Some("inferred"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_loss_neither_pairs_nor_names_are_crossed(
        lost in vec(0usize..80, 1..8),
        cut in vec((0usize..80, 0usize..40), 0..8),
        size in 1usize..60,
    ) {
        let mut events = conversation(&numbered());
        for (event, left) in &cut {
            let count = events.len();
            if let RecordedEvent::Data(data) = &mut events[event % count] {
                data.bytes.truncate(*left);
            }
        }
        for event in &lost {
            if *event < events.len() {
                events.remove(*event);
            }
        }
        for span in spans(&mut tracer(), &split(&events, &[size])) {
            let Some(size) = span.attribute("http.response.body.size") else { continue };
            let named = span.operation.strip_prefix("GET ").unwrap_or_default();
            prop_assert!(
                named.is_empty() || named == format!("/n{size}"),
                "lost {:?}: {}",
                lost,
                render(std::slice::from_ref(&span))
            );
        }
    }

    #[test]
    fn after_loss_names_and_codes_are_right_or_unknown(
        lost in vec(0usize..300, 1..40),
        together in 1usize..30,
        manners in select(vec![Manners::Plain, Manners::Churn, Manners::Node, Manners::Verbose]),
        size in 1usize..200,
    ) {
        let mut events = conversation(&numbered_calls(100, manners));
        for event in &lost {
            let first = (*event).min(events.len());
            events.drain(first..(first + together).min(events.len()));
        }
        for span in spans(&mut tracer(), &split(&events, &[size])) {
            let Some(code) = span.status_code.filter(|_| span.protocol.as_deref() == Some("grpc"))
            else {
                continue;
            };
            let Some(method) = span.operation.strip_prefix("s/") else { continue };
            let right = method.parse::<i32>().unwrap() % 5;
            prop_assert_eq!(code, right, "{}", render(&[span]));
        }
    }
}
