//! Protocols of the operator's own: the example of `examples/plugin`, and a
//! protocol of lines.
//!
//! One test loads BPF and so needs the right to; without it it fails.

mod support;

use std::sync::LazyLock;

use proptest::prelude::*;
use spanwise_capture_protocols::plugins::Plugin;
use spanwise_capture_tracer::event::Direction::{Received, Sent};
use spanwise_capture_tracer::recording::RecordedEvent;
use spanwise_model::{Kind, Span, Status};
use support::plugins::{built, example, loaded, of_tests, tracer_with};
use support::{Talk, render, split};

static STASH: LazyLock<Plugin> = LazyLock::new(|| loaded(&built(&example().join("stash.c"), &[])));
static LINES: LazyLock<Plugin> = LazyLock::new(|| loaded(&of_tests("lines.c", &[])));

const TRACE_PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn spans(plugin: &Plugin, events: &[RecordedEvent]) -> Vec<Span> {
    support::spans(&mut tracer_with(std::slice::from_ref(plugin)), events)
}

/// Operation, error, milliseconds.
fn short(spans: &[Span]) -> Vec<String> {
    spans
        .iter()
        .map(|span| {
            let error = span.error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
            format!("{}{error} {}", span.operation, span.duration_nano / 1_000_000)
        })
        .collect()
}

fn message(kind: u8, number: u32, body: &[u8]) -> Vec<u8> {
    let mut message = vec![b'S', b'T', 1, kind];
    message.extend_from_slice(&number.to_be_bytes());
    message.extend_from_slice(&(body.len() as u32).to_be_bytes());
    message.extend_from_slice(body);
    message
}

fn body(texts: &[&str], rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for text in texts {
        body.push(text.len() as u8);
        body.extend_from_slice(text.as_bytes());
    }
    body.extend_from_slice(rest);
    body
}

fn request(number: u32, operation: &str, bucket: &str) -> Vec<u8> {
    message(1, number, &body(&[operation, bucket, ""], b""))
}

fn answer(number: u32, status: u16, error: &str) -> Vec<u8> {
    message(2, number, &[&status.to_be_bytes()[..], &body(&[error], b"")].concat())
}

/// Everything that the example's protocol has.
fn conversation() -> Talk {
    let put = message(1, 1, &body(&["put", "apples", TRACE_PARENT], &[b'x'; 800]));
    Talk::new()
        .ask(&message(5, 0, b""))
        .answer(&message(5, 0, b""))
        .ask(&put)
        .answer(&answer(1, 0, ""))
        .ask(&[request(2, "get", "a"), request(3, "get", "b"), request(4, "scan", "")].concat())
        .answer(&answer(3, 404, "no_such_bucket"))
        .answer(&[message(3, 4, &[b'p'; 300]), answer(2, 0, ""), message(3, 4, b"p")].concat())
        .ask(&message(4, 0, &body(&["forget", "a", ""], b"")))
        .answer(&answer(4, 0, ""))
}

#[test]
fn a_plugins_messages_are_spans_like_others() {
    let found = spans(&STASH, &conversation().events);
    let expected = ["put 1", "get (no_such_bucket) 1", "get 2", "forget 0", "scan 4"];
    assert_eq!(short(&found), expected, "{}", render(&found));
    let put = &found[0];
    assert_eq!(put.protocol.as_deref(), Some("stash"));
    assert_eq!((put.kind, put.status, put.status_code), (Kind::Server, Status::Unset, Some(0)));
    assert_eq!(put.attribute("stash.bucket"), Some(&"apples".into()));
    assert_eq!(put.attribute("stash.value.size"), Some(&800.into()));
    assert_eq!(put.trace_id.map(|id| id.to_string()).as_deref(), TRACE_PARENT.get(3..35));
    let get = &found[1];
    assert_eq!((get.status, get.status_code), (Status::Error, Some(404)));
    assert_eq!(get.attribute("error.type"), Some(&"no_such_bucket".into()));
    assert_eq!(get.attribute("stash.bucket"), Some(&"b".into()));
    let [.., forget, scan] = found.as_slice() else { panic!("five") };
    assert_eq!((forget.kind, forget.network.response_bytes), (Kind::Server, Some(0)));
    // Three frames: others' between them are not counted.
    let frames = [312, 13, 15];
    assert_eq!(scan.network.response_bytes, Some(frames.iter().sum()));
    let counters = counters(&STASH, &conversation().events);
    assert_eq!(counters, [("spans", 5), ("connections_without_opening", 1)].map(owned));
}

fn owned((name, value): (&str, u64)) -> (String, u64) {
    (name.to_owned(), value)
}

/// The counters that are not 0.
fn counters(plugin: &Plugin, events: &[RecordedEvent]) -> Vec<(String, u64)> {
    let mut tracer = tracer_with(std::slice::from_ref(plugin));
    support::spans(&mut tracer, events);
    let found = tracer.counters().into_iter();
    found
        .filter(|(name, value)| *value > 0 && !matches!(*name, "events" | "bytes_seen"))
        .map(owned)
        .collect()
}

#[test]
fn without_the_plugin_the_connection_is_of_an_unknown_protocol() {
    let found = support::spans(&mut support::tracer(), &conversation().events);
    assert!(found.is_empty(), "{}", render(&found));
}

#[test]
fn the_same_bytes_in_other_pieces_give_the_same_spans() {
    let lines = Talk::new()
        .ask(b"ASK one\nASK two\nTELL it\nASK three\n")
        .answer(b"OK one\nNO two\nTELL you\nOK three\n")
        .ask(b"ASK four\n")
        .answer(b"OK four\n");
    for (plugin, events) in [(&*STASH, conversation().events), (&*LINES, lines.events)] {
        let whole = render(&spans(plugin, &events));
        assert!(!whole.is_empty());
        for sizes in [&[1][..], &[2], &[3, 1], &[7], &[12], &[64, 1, 200], &[511]] {
            let pieces = render(&spans(plugin, &split(&events, sizes)));
            assert_eq!(pieces, whole, "{} in pieces of {sizes:?}", plugin.name());
        }
    }
}

#[test]
fn without_numbers_pairs_go_by_order() {
    let talk = Talk::new()
        .ask(b"ASK one\nASK two\n")
        .answer(b"OK one\n")
        .answer(b"TELL all\n")
        .ask(b"TELL it\n")
        .answer(b"NO two\n");
    let found = spans(&LINES, &talk.events);
    assert_eq!(short(&found), ["one 1", "all 0", "it 0", "two (two) 4"], "{}", render(&found));
    let kinds: Vec<Kind> = found.iter().map(|span| span.kind).collect();
    assert_eq!(kinds, [Kind::Server, Kind::Client, Kind::Server, Kind::Server]);
}

#[test]
fn large_messages_are_measured_and_not_read() {
    let large = |kind, number, head: &[u8], bytes: u32| {
        let mut message = message(kind, number, head);
        message[8..12].copy_from_slice(&bytes.to_be_bytes());
        let unseen = 12 + bytes - message.len() as u32;
        (message, unseen)
    };
    let (put, more) = large(1, 1, &body(&["put", "apples", ""], b""), 5_000_000);
    let (got, rest) = large(2, 2, &body(&[], &[0, 0, 0, b'v']), 3_000_000);
    let talk = Talk::new()
        .cut(Received, &put, more)
        .answer(&answer(1, 0, ""))
        .ask(&request(2, "get", "apples"))
        .cut(Sent, &got, rest)
        .ask(&request(3, "get", "pears"))
        .answer(&answer(3, 0, ""));
    let found = spans(&STASH, &talk.events);
    assert_eq!(short(&found), ["put 1", "get 1", "get 1"]);
    assert_eq!(found[0].network.request_bytes, Some(5_000_012));
    assert_eq!(found[0].attribute("stash.value.size"), Some(&(5_000_000 - 12).into()));
    assert_eq!(found[1].network.response_bytes, Some(3_000_012));
}

#[test]
fn reading_sets_in_again_after_a_loss() {
    let talk = |cut: bool| {
        let begun = Talk::new().ask(&request(1, "get", "a")).answer(&answer(1, 0, ""));
        let lost = begun.ask(&request(2, "get", "b")).lost(Sent, 15);
        let lost = if cut { lost.lost(Received, 100) } else { lost };
        lost.ask(&request(3, "get", "c"))
            .answer(&answer(3, 0, ""))
            .ask(&request(4, "get", "d"))
            .answer(&answer(4, 0, ""))
    };
    for cut in [false, true] {
        let talk = talk(cut);
        let found = spans(&STASH, &talk.events);
        let buckets: Vec<String> = found
            .iter()
            .filter_map(|span| Some(span.attribute("stash.bucket")?.as_str()?.to_owned()))
            .collect();
        assert!(buckets.contains(&"a".to_owned()) && buckets.contains(&"d".to_owned()));
        assert!(!buckets.contains(&"b".to_owned()), "its answer was lost: {buckets:?}");
    }
}

#[test]
fn what_is_not_the_plugins_after_all_is_told_anew() {
    let talk = Talk::new()
        .ask(&request(1, "get", "a"))
        .answer(&answer(1, 0, ""))
        .ask(b"GET / HTTP/1.1\r\n\r\n")
        .answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .ask(b"GET /a HTTP/1.1\r\n\r\n")
        .answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .ask(b"GET /b HTTP/1.1\r\n\r\n")
        .answer(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let found = spans(&STASH, &talk.events);
    let last = found.last().map(|span| (span.protocol.as_deref(), span.operation.as_str()));
    assert!(matches!(last, Some((Some("http" | "stash"), _))), "{}", render(&found));
    let malformed = counters(&STASH, &talk.events);
    assert!(malformed.iter().any(|(name, _)| name == "malformed_messages"), "{malformed:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each request's bucket is its number, and so is its answer's status.
    #[test]
    fn after_loss_pairs_are_never_crossed(
        lost in prop::collection::vec(2usize..60, 1..10),
        pipelined in 1u32..4,
        size in prop::sample::select(vec![3usize, 12, 40, 2000]),
    ) {
        let mut talk = Talk::new();
        for group in 0..12 {
            let numbers: Vec<u32> = (group * pipelined + 1..).take(pipelined as usize).collect();
            for number in &numbers {
                talk = talk.ask(&request(*number, "get", &number.to_string()));
            }
            // The last asked is answered first.
            for number in numbers.iter().rev() {
                talk = talk.answer(&answer(*number, *number as u16, "no"));
            }
        }
        let mut events = split(&talk.events, &[size]);
        for event in &lost {
            if *event < events.len() {
                events.remove(*event);
            }
        }
        for span in spans(&STASH, &events) {
            let Some(status) = span.status_code else { continue };
            let bucket = span.attribute("stash.bucket").map(ToString::to_string);
            prop_assert_eq!(bucket, Some(status.to_string()), "lost {:?}", lost);
        }
    }

    /// The same where order alone pairs: each answer repeats its request's word.
    #[test]
    fn after_loss_pairs_by_order_are_never_crossed(
        // What is lost of the first pair leaves no gap.
        lost in prop::collection::vec(6usize..90, 1..10),
        size in prop::sample::select(vec![2usize, 5, 2000]),
    ) {
        let mut talk = Talk::new();
        for number in 0..20 {
            talk = talk.ask(format!("ASK {number}\n").as_bytes());
            talk = talk.answer(format!("NO {number}\n").as_bytes());
        }
        let mut events = split(&talk.events, &[size]);
        for event in &lost {
            if *event < events.len() {
                events.remove(*event);
            }
        }
        for span in spans(&LINES, &events) {
            let Some(error) = &span.error else { continue };
            prop_assert_eq!(error, &span.operation, "lost {:?}", lost);
        }
    }

    #[test]
    fn random_bytes_in_its_messages_never_harm(
        pieces in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any::<u8>(), 0..200), 0u32..2000),
            1..60,
        ),
    ) {
        let mut talk = Talk::new().ask(&request(1, "get", "a")).answer(&answer(1, 0, ""));
        for (sent, bytes, unseen) in &pieces {
            let (direction, kind) = if *sent { (Sent, 2) } else { (Received, 1) };
            // Half of them look right.
            let bytes = if unseen % 2 == 0 { message(kind, 7, bytes) } else { bytes.clone() };
            talk = talk.cut(direction, &bytes, unseen / 2);
        }
        let mut tracer = tracer_with(std::slice::from_ref(&*STASH));
        support::spans(&mut tracer, &talk.events);
        prop_assert!(tracer.held_bytes() < 1 << 20);
        prop_assert_eq!(tracer.plugins()[0].failures, 0);
    }
}
