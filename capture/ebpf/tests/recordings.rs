//! Recorded conversations of real clients with real servers, and the spans
//! that must come of them.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use spanwise_capture_ebpf::event::Direction;
use spanwise_capture_ebpf::recording::RecordedEvent;
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

#[test]
fn what_was_lost_gives_no_request_a_response_of_another() {
    type Key = (Capture, Option<u16>, u32);
    for (protocol, name, events) in recordings() {
        // The relay lets some time pass before it says that what it sent was
        // received, when it has been answered already.
        let mut events = events.clone();
        for (index, event) in events.iter_mut().enumerate() {
            if let RecordedEvent::Data(data) = event {
                data.time_nano = 1_000_000_000 + index as u64 * 1_000_000;
            }
        }
        let mut responses: BTreeMap<Key, (String, Range<u64>)> = BTreeMap::new();
        for span in spans(&mut tracer(), &events) {
            let (Some(request), Some(response)) = (span.request_tcp_seq, span.response_tcp_seq)
            else {
                continue;
            };
            let start = u64::from(response);
            let range = start..start + span.network.response_bytes.unwrap_or(0);
            let key = (span.capture, span.flow.client_port, request);
            responses.insert(key, (span.operation, range));
        }
        // What is lost before the first of a direction leaves no gap to be seen.
        let mut begun = BTreeSet::new();
        let may_go: Vec<bool> = events
            .iter()
            .map(|event| match event {
                RecordedEvent::Data(data) => {
                    !begun.insert((data.connection, data.direction == Direction::Sent))
                }
                _ => false,
            })
            .collect();
        for lost in 0..events.len() {
            // One event, or this one and some near it.
            for further in [0, 1, 4] {
                let mut left = events.clone();
                for at in [lost + further, lost] {
                    if may_go.get(at) == Some(&true) && left.len() > at {
                        left.remove(at);
                    }
                }
                for span in spans(&mut tracer(), &left) {
                    // Datagrams have numbers of another kind.
                    if span.attribute("network.transport").is_some() {
                        continue;
                    }
                    let (Some(request), Some(response)) =
                        (span.request_tcp_seq, span.response_tcp_seq)
                    else {
                        continue;
                    };
                    let key = (span.capture, span.flow.client_port, request);
                    let Some((operation, range)) = responses.get(&key) else { continue };
                    // Numbers may have wrapped.
                    let response = u64::from(response);
                    let within =
                        range.contains(&response) || range.contains(&(response + (1 << 32)));
                    assert!(
                        within,
                        "{protocol}/{name} without {lost} and {further} further on: {operation} at \
                         {request} is given {response}, not {range:?}: {}",
                        render(&[span])
                    );
                }
            }
        }
    }
}
