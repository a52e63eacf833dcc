//! Recorded conversations of real clients with real servers, and the spans
//! that must come of them.

mod support;

use std::collections::BTreeSet;

use spanwise_capture_protocols::bytes::Side;
use spanwise_capture_protocols::registry::{infer, known};
use spanwise_capture_tracer::event::{Direction, Role};
use spanwise_capture_tracer::recording::RecordedEvent;
use spanwise_model::{Capture, Kind, Span};
use support::{folder, recordings, render, spans, split, tracer};

#[test]
fn recordings_give_the_spans_beside_them() {
    for (protocol, name, events) in recordings() {
        let mut tracer = tracer();
        let found = spans(&mut tracer, events);
        let counters: Vec<String> = tracer
            .counters()
            .iter()
            .filter(|(name, value)| *value > 0 && !matches!(*name, "events" | "bytes_seen"))
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        insta::with_settings!({
            snapshot_path => folder().join(protocol),
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            let text = format!("{}\ncounters: {}\n", render(&found), counters.join(", "));
            insta::assert_snapshot!(name.as_str(), text);
        });
    }
}

#[test]
fn the_same_bytes_in_other_pieces_give_the_same_spans() {
    // How sure a call's link is depends on how many events were seen.
    fn spans_alone(events: &[RecordedEvent]) -> String {
        let mut spans = spans(&mut tracer(), events);
        for span in spans.iter_mut().filter(|span| span.kind == Kind::Client) {
            (span.fragment_id, span.evidence, span.confidence) = (None, None, None);
            span.attributes.retain(|(key, _)| key != "spanwise.candidate_fragments");
        }
        render(&spans)
    }
    for (protocol, name, events) in recordings() {
        let whole = spans_alone(events);
        for sizes in [&[1][..], &[2], &[3, 1], &[7], &[64, 1, 200], &[511]] {
            let pieces = spans_alone(&split(events, sizes));
            assert_eq!(pieces, whole, "{protocol}/{name} in pieces of {sizes:?}");
        }
    }
}

#[test]
fn both_ends_of_a_connection_name_the_same_bytes() {
    fn hops(spans: &[Span], capture: Capture) -> BTreeSet<(u32, Option<u32>, String)> {
        spans
            .iter()
            .filter(|span| span.capture == capture)
            .filter_map(|span| {
                let seq = span.request_tcp_seq?;
                Some((seq, span.response_tcp_seq, format!("{:?} {}", span.flow, span.operation)))
            })
            .collect()
    }
    for (protocol, name, events) in recordings() {
        let found = spans(&mut tracer(), events);
        let client = hops(&found, Capture::ClientProcess);
        assert!(!client.is_empty(), "{protocol}/{name}");
        assert_eq!(client, hops(&found, Capture::ServerProcess), "{protocol}/{name}");
    }
}

#[test]
fn secrets_in_the_recordings_are_in_no_span() {
    for (protocol, name, events) in recordings() {
        let text = render(&spans(&mut tracer(), events));
        for secret in ["hunter2", "geheim", "O''Brien", "secret argument"] {
            assert!(!text.contains(secret), "{protocol}/{name} shows {secret}");
        }
    }
}

/// Whether bytes on a connection of this protocol may be found to be another's:
/// because it goes over to that or comes from it, or because nothing tells
/// the two apart until more is seen.
fn may_be(protocol: &str, found: &str) -> bool {
    match (protocol, found) {
        (_, "tls") | ("http2", "http1") | ("tls", "http1" | "postgresql") => true,
        // What Memcached refuses Redis may still take from people; PING and
        // +OK are the same in both.
        ("memcached" | "nats", "redis") => true,
        _ => false,
    }
}

/// A connection may be older than the agent: whatever comes first of it must
/// not be taken for another protocol's.
#[test]
fn nothing_recorded_is_taken_for_another_protocol() {
    let mut wrong = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for (protocol, _, events) in recordings() {
        if !known().iter().any(|known| known.name == protocol) {
            continue;
        }
        seen.insert(protocol.as_str());
        let mut serving = BTreeSet::new();
        for event in events {
            match event {
                RecordedEvent::Opened(opened) if opened.role == Role::Server => {
                    serving.insert(opened.connection);
                }
                RecordedEvent::Data(data) => {
                    let received = data.direction == Direction::Received;
                    let asks = serving.contains(&data.connection) == received;
                    let right = if asks { Side::Request } else { Side::Response };
                    let whole = data.bytes.len() == data.length as usize;
                    let both = [Side::Request, Side::Response];
                    let Ok(Some((found, side))) = infer(&data.bytes, &both, whole, true) else {
                        continue;
                    };
                    if found.name != protocol && !may_be(protocol, found.name) {
                        let bytes = data.bytes[..data.bytes.len().min(24)].escape_ascii();
                        wrong.insert(format!(
                            "{protocol}: {right:?} taken for {} {side:?}: {bytes}",
                            found.name
                        ));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(seen.len(), known().len(), "each protocol has recordings, not only {seen:?}");
}
