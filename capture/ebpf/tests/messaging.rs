//! Brokers' protocols where it gets difficult: answers out of order, loss,
//! connections older than the agent, garbage. Each conversation is seen from the
//! broker's side.

mod support;

use spanwise_capture_ebpf::event::Direction;
use spanwise_capture_ebpf::recording::RecordedEvent;
use spanwise_model::Span;
use support::{data, spans, tracer};

use Direction::{Received, Sent};

/// A conversation, each text a transfer. Those not seen were lost.
fn conversation(turns: &[(Direction, Vec<u8>, bool)]) -> Vec<RecordedEvent> {
    let (mut received, mut sent, mut time) = (1000, 9000, 1_000_000_000);
    let mut events = Vec::new();
    for (direction, bytes, seen) in turns {
        let seq = if *direction == Received { &mut received } else { &mut sent };
        time += 1_000_000;
        if let (RecordedEvent::Data(mut event), true) = (data(1, *direction, *seq, bytes), *seen) {
            event.time_nano = time;
            events.push(RecordedEvent::Data(event));
        }
        *seq += bytes.len() as u32;
    }
    events
}

fn seen(direction: Direction, bytes: impl Into<Vec<u8>>) -> (Direction, Vec<u8>, bool) {
    (direction, bytes.into(), true)
}

fn lost(direction: Direction, bytes: impl Into<Vec<u8>>) -> (Direction, Vec<u8>, bool) {
    (direction, bytes.into(), false)
}

/// Each span's operation, body size, milliseconds and error.
fn told(turns: &[(Direction, Vec<u8>, bool)]) -> Vec<String> {
    let describe = |span: &Span| {
        let size = span.attribute("messaging.message.body.size").and_then(|size| size.as_int());
        let size = size.map_or(String::new(), |size| format!(" of {size}"));
        let error = span.error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
        format!("{}{size} {} ms{error}", span.operation, span.duration_nano / 1_000_000)
    };
    spans(&mut tracer(), &conversation(turns)).iter().map(describe).collect()
}

mod amqp {
    use super::*;

    fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![kind];
        frame.extend_from_slice(&channel.to_be_bytes());
        frame.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        frame.extend_from_slice(payload);
        frame.push(0xce);
        frame
    }

    fn method(channel: u16, class: u16, method: u16, arguments: &[u8]) -> Vec<u8> {
        let payload = [&class.to_be_bytes()[..], &method.to_be_bytes(), arguments].concat();
        frame(1, channel, &payload)
    }

    fn content(channel: u16, bytes: usize) -> Vec<u8> {
        let mut header = b"\0\x3c\0\0".to_vec();
        header.extend_from_slice(&(bytes as u64).to_be_bytes());
        header.extend_from_slice(&[0, 0]);
        [frame(2, channel, &header), frame(3, channel, &vec![b'b'; bytes])].concat()
    }

    fn publish(channel: u16, bytes: usize) -> Vec<u8> {
        [method(channel, 60, 40, b"\0\0\0\x01q\0"), content(channel, bytes)].concat()
    }

    fn ack(channel: u16, tag: u64, multiple: bool) -> Vec<u8> {
        method(channel, 60, 80, &[&tag.to_be_bytes()[..], &[u8::from(multiple)]].concat())
    }

    fn consume() -> Vec<u8> {
        method(1, 60, 20, b"\0\0\x01q\x01c\0\0\0\0\0")
    }

    fn deliver(tag: u64, bytes: usize) -> Vec<u8> {
        let arguments = [b"\x01c".as_slice(), &tag.to_be_bytes(), b"\0\0\x01q"].concat();
        [method(1, 60, 60, &arguments), content(1, bytes)].concat()
    }

    fn confirming() -> [(Direction, Vec<u8>, bool); 2] {
        [seen(Received, method(1, 85, 10, b"\0")), seen(Sent, method(1, 85, 11, b""))]
    }

    #[test]
    fn confirmations_in_any_order_find_their_messages() {
        let mut turns = confirming().to_vec();
        for bytes in 1..=4 {
            turns.push(seen(Received, publish(1, bytes)));
        }
        turns.push(seen(Sent, ack(1, 3, false)));
        turns.push(seen(Sent, ack(1, 2, true)));
        turns.push(seen(Sent, method(1, 60, 120, b"\0\0\0\0\0\0\0\x04\0")));
        // One that nobody waits for.
        turns.push(seen(Sent, ack(1, 9, false)));
        assert_eq!(
            told(&turns),
            [
                "publish q of 3 2 ms",
                "publish q of 1 5 ms",
                "publish q of 2 4 ms",
                "publish q of 4 3 ms (basic.nack)"
            ]
        );
    }

    #[test]
    fn frames_of_several_channels_may_lie_between_each_other() {
        let mut turns = confirming().to_vec();
        let (first, second) = (publish(1, 30), publish(2, 20));
        let head = first.len() - 38;
        turns.push(seen(Received, &first[..head]));
        turns.push(seen(Received, second));
        turns.push(seen(Received, &first[head..]));
        turns.push(seen(Sent, ack(1, 1, false)));
        assert_eq!(told(&turns), ["publish q of 20 0 ms", "publish q of 30 3 ms"]);
    }

    #[test]
    fn after_lost_publishing_no_message_is_taken_for_confirmed() {
        let mut turns = confirming().to_vec();
        turns.push(seen(Received, publish(1, 1)));
        turns.push(lost(Received, publish(1, 2)));
        turns.push(seen(Received, publish(1, 3)));
        turns.push(seen(Sent, ack(1, 2, false)));
        turns.push(seen(Sent, ack(1, 1, false)));
        assert_eq!(told(&turns), ["publish q of 3 0 ms", "publish q of 1 4 ms"]);
    }

    #[test]
    fn after_lost_answers_what_waited_for_the_server_is_given_up() {
        let mut turns = confirming().to_vec();
        turns.push(seen(Received, consume()));
        turns.push(seen(Sent, method(1, 60, 21, b"\x01c")));
        turns.push(seen(Sent, deliver(1, 5)));
        turns.push(seen(Received, publish(1, 1)));
        turns.push(lost(Sent, ack(1, 1, false)));
        turns.push(seen(Sent, deliver(2, 6)));
        turns.push(seen(Received, ack(1, 0, true)));
        turns.push(seen(Received, publish(1, 2)));
        turns.push(seen(Sent, ack(1, 2, true)));
        assert_eq!(
            told(&turns),
            [
                "basic.consume q 1 ms",
                "deliver q of 5 4 ms",
                "deliver q of 6 1 ms",
                "publish q of 2 1 ms"
            ]
        );
    }

    #[test]
    fn a_connection_older_than_the_agent_is_read_from_the_next_call() {
        let turns = [
            // Either side may send these two.
            seen(Received, b"\x08\0\0\0\0\0\0\xce"),
            seen(Received, ack(1, 70, false)),
            seen(Received, publish(1, 1)),
            // Neither whether it is confirmed is known, nor whether this will be
            // acknowledged.
            seen(Sent, ack(1, 31, false)),
            seen(Sent, deliver(71, 2)),
            seen(Received, ack(1, 71, false)),
            seen(Received, method(1, 50, 30, b"\0\0\x01q\0")),
            seen(Sent, method(1, 50, 31, b"\0\0\0\x01")),
        ];
        let expected = ["publish q of 1 0 ms", "deliver q of 2 0 ms", "queue.purge q 1 ms"];
        assert_eq!(told(&turns), expected);
        // Heard from the server first.
        let expected = ["deliver q of 2 0 ms", "queue.purge q 1 ms"];
        assert_eq!(told(&turns[4..]), expected);
    }

    #[test]
    fn garbage_is_passed_over_and_at_last_given_up() {
        let mut turns = confirming().to_vec();
        turns.push(seen(Received, b"\x05garbage"));
        turns.push(seen(Received, publish(1, 1)));
        assert_eq!(told(&turns), ["publish q of 1 0 ms"]);
        for _ in 0..3 {
            turns.push(seen(Received, b"\x08\0\0\0\0\0\0\xcegarbage"));
        }
        let mut tracer = tracer();
        spans(&mut tracer, &conversation(&turns));
        let counted = |name| tracer.counters().iter().find(|found| found.0 == name).unwrap().1;
        assert_eq!(counted("protocol_changes"), 1);
    }
}
