//! Protocols whose answers name their requests (Dubbo, DNS over TCP): order,
//! loss, what nobody asked for, and garbage.

mod support;

use spanwise_capture_tracer::Tracer;
use spanwise_capture_tracer::event::Direction::{self, Received, Sent};
use spanwise_capture_tracer::recording::{RecordedData, RecordedEvent};
use spanwise_model::Span;
use support::{data, render, spans, tracer};

fn dubbo(flags: u8, status: u8, id: u8, content: &[u8]) -> Vec<u8> {
    let head = [0xda, 0xbb, flags, status, 0, 0, 0, 0, 0, 0, 0, id, 0, 0, 0, content.len() as u8];
    [&head, content].concat()
}

fn call(id: u8) -> Vec<u8> {
    let method =
        format!("\u{5}2.0.2\u{9}shop.Cart\u{5}0.0.0\u{3}m{id:02}\0H\u{6}secret\u{7}hunter2Z");
    dubbo(0xc2, 0, id, method.as_bytes())
}

/// An answer as long as its number says.
fn answer(id: u8) -> Vec<u8> {
    dubbo(0x02, 20, id, &[&[0x91][..], &vec![b'x'; usize::from(id)]].concat())
}

fn lookup(id: u8, response: bool) -> Vec<u8> {
    let flags = if response { [0x81, 0x80] } else { [1, 0] };
    let mut message = vec![0, id, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, 0, 3];
    message.extend(format!("m{id:02}").as_bytes());
    message.extend([0, 0, 1, 0, 1]);
    [&[0, message.len() as u8], &message[..]].concat()
}

/// The events of a conversation, a millisecond apart.
fn conversation(turns: &[(Direction, Vec<u8>)]) -> Vec<RecordedEvent> {
    let mut seqs = [1000, 9000];
    let mut events = Vec::new();
    for (index, (direction, bytes)) in turns.iter().enumerate() {
        let seq = &mut seqs[usize::from(*direction == Sent)];
        let RecordedEvent::Data(event) = data(1, *direction, *seq, bytes) else {
            unreachable!("data makes data")
        };
        *seq += bytes.len() as u32;
        let time_nano = 1_000_000_000 + index as u64 * 1_000_000;
        events.push(RecordedEvent::Data(RecordedData { time_nano, ..event }));
    }
    events
}

fn told(found: &[Span]) -> Vec<(String, Option<u64>)> {
    found.iter().map(|span| (span.operation.clone(), span.network.response_bytes)).collect()
}

fn counter(tracer: &Tracer, name: &str) -> u64 {
    tracer.counters().iter().find(|(known, _)| *known == name).unwrap().1
}

fn expected(ids: &[u8]) -> Vec<(String, Option<u64>)> {
    ids.iter().map(|id| (format!("shop.Cart/m{id:02}"), Some(17 + u64::from(*id)))).collect()
}

#[test]
fn answers_in_any_order_find_their_calls() {
    let turns = [
        (Received, [call(1), call(2), call(3)].concat()),
        (Sent, answer(3)),
        (Sent, [answer(1), answer(2)].concat()),
    ];
    let found = spans(&mut tracer(), &conversation(&turns));
    assert_eq!(told(&found), expected(&[3, 1, 2]), "{}", render(&found));

    let turns = [
        (Received, [lookup(1, false), lookup(2, false)].concat()),
        (Sent, lookup(2, true)),
        (Sent, lookup(1, true)),
    ];
    let found = spans(&mut tracer(), &conversation(&turns));
    let names: Vec<_> = found.iter().filter_map(|s| s.attribute("dns.question.name")).collect();
    assert_eq!(names, [&"m02".into(), &"m01".into()]);
}

#[test]
fn heartbeats_and_calls_back_make_no_spans() {
    let heartbeat = dubbo(0xe2, 0, 9, b"N");
    let alive = dubbo(0x22, 20, 9, b"N");
    let turns = [
        (Received, heartbeat.clone()),
        (Sent, alive.clone()),
        (Received, call(1)),
        (Sent, heartbeat),
        (Received, alive),
        // The served calls a listener that it was given, and is answered.
        (Sent, call(1)),
        (Received, answer(1)),
        (Sent, answer(1)),
    ];
    let mut tracer = tracer();
    let found = spans(&mut tracer, &conversation(&turns));
    assert_eq!(told(&found), expected(&[1]), "{}", render(&found));
    assert_eq!(counter(&tracer, "malformed_messages") + counter(&tracer, "orphan_responses"), 0);
}

#[test]
fn who_asks_on_a_connection_older_than_the_agent_is_told_by_the_first_call() {
    // First something that either side could have sent.
    let turns = [
        (Sent, dubbo(0xe2, 0, 9, b"N")),
        (Received, dubbo(0x22, 20, 9, b"N")),
        (Received, call(1)),
        (Sent, answer(1)),
    ];
    let found = spans(&mut tracer(), &conversation(&turns));
    assert_eq!(told(&found), expected(&[1]));
    assert_eq!(found[0].kind, spanwise_model::Kind::Server);
}

#[test]
fn whatever_is_lost_nothing_is_crossed_nor_said_to_have_failed() {
    let mut turns = Vec::new();
    for id in (1..=30).step_by(3) {
        turns.push((Received, [call(id), call(id + 1), call(id + 2)].concat()));
        turns.push((Sent, answer(id + 2)));
        turns.push((Sent, [answer(id), answer(id + 1)].concat()));
    }
    let all = conversation(&turns);
    // That the first or the last is missing cannot be seen.
    for lost in 2..all.len() - 1 {
        let mut events = all.clone();
        events.remove(lost);
        let mut tracer = tracer();
        let mut found = spans(&mut tracer, &events);
        tracer.tick(500_000_000_000);
        tracer.drain(&mut found).unwrap();
        // What was open when the gap was seen is given up: two rounds at most.
        assert!(found.len() >= 24, "lost {lost}: {}", found.len());
        for span in &found {
            let id: u64 = span.operation.rsplit('m').next().unwrap().parse().unwrap();
            assert_eq!(span.network.response_bytes, Some(17 + id), "lost {lost}");
            assert_eq!(span.error, None, "lost {lost}");
        }
    }
}

#[test]
fn answers_that_were_not_captured_are_given_up() {
    let mut events = conversation(&[
        (Received, [call(1), call(2), call(3)].concat()),
        (Sent, answer(1)),
        (Received, call(4)),
        (Sent, answer(4)),
    ]);
    // The second call of the served moved two more answers than were captured.
    let more = (answer(2).len() + answer(3).len()) as u32;
    if let RecordedEvent::Data(data) = &mut events[1] {
        data.length += more;
    }
    if let RecordedEvent::Data(data) = &mut events[3] {
        data.seq += more;
    }
    let mut tracer = tracer();
    let mut found = spans(&mut tracer, &events);
    tracer.tick(500_000_000_000);
    tracer.drain(&mut found).unwrap();
    assert_eq!(told(&found), expected(&[1, 4]), "{}", render(&found));
    assert_eq!(counter(&tracer, "requests_lost"), 2);
}

#[test]
fn garbage_is_passed_over_and_too_much_of_it_ends_the_protocol() {
    let garbage = vec![0xff; 40];
    let mut turns = vec![
        (Received, call(1)),
        (Sent, answer(1)),
        (Received, garbage.clone()),
        (Received, call(2)),
        (Sent, answer(2)),
    ];
    let mut first = tracer();
    assert_eq!(told(&spans(&mut first, &conversation(&turns))), expected(&[1, 2]));
    assert_eq!(counter(&first, "malformed_messages"), 1);
    assert_eq!(counter(&first, "resynchronised"), 1);
    // Set in again each time, and wrong again: each time the border is expected.
    for _ in 0..40 {
        turns.push((Received, [&call(3)[..], &garbage].concat()));
        turns.push((Sent, garbage.clone()));
    }
    let mut second = tracer();
    spans(&mut second, &conversation(&turns));
    assert!(second.held_bytes() < 2_250_000);
    assert!(counter(&second, "malformed_messages") > 3);
}
