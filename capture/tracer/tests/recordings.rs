//! Recorded conversations of real clients with real servers, and the spans
//! that must come of them.

mod support;

use std::collections::BTreeSet;

use spanwise_model::{Capture, Span};
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
    for (protocol, name, events) in recordings() {
        let whole = render(&spans(&mut tracer(), events));
        for sizes in [&[1][..], &[2], &[3, 1], &[7], &[64, 1, 200], &[511]] {
            let pieces = render(&spans(&mut tracer(), &split(events, sizes)));
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
