//! Brokers' protocols where it gets difficult: answers out of order, loss,
//! connections older than the agent, garbage. Each conversation is seen from the
//! broker's side.

mod support;

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_capture_tracer::event::Direction;
use spanwise_capture_tracer::recording::RecordedEvent;
use spanwise_model::Span;
use support::{data, recordings, render, spans, tracer};

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

    pub(super) fn publish(channel: u16, bytes: usize) -> Vec<u8> {
        [method(channel, 60, 40, b"\0\0\0\x01q\0"), content(channel, bytes)].concat()
    }

    pub(super) fn ack(channel: u16, tag: u64, multiple: bool) -> Vec<u8> {
        method(channel, 60, 80, &[&tag.to_be_bytes()[..], &[u8::from(multiple)]].concat())
    }

    fn consume() -> Vec<u8> {
        method(1, 60, 20, b"\0\0\x01q\x01c\0\0\0\0\0")
    }

    fn deliver(tag: u64, bytes: usize) -> Vec<u8> {
        let arguments = [b"\x01c".as_slice(), &tag.to_be_bytes(), b"\0\0\x01q"].concat();
        [method(1, 60, 60, &arguments), content(1, bytes)].concat()
    }

    pub(super) fn confirming() -> [(Direction, Vec<u8>, bool); 4] {
        [
            seen(Received, method(1, 20, 10, b"\0")),
            seen(Sent, method(1, 20, 11, b"\0\0\0\0")),
            seen(Received, method(1, 85, 10, b"\0")),
            seen(Sent, method(1, 85, 11, b"")),
        ]
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

mod kafka {
    use super::*;

    fn message(parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        [&(content.len() as u32).to_be_bytes()[..], &content].concat()
    }

    fn request(key: u16, version: u16, id: u32, body: &[u8]) -> Vec<u8> {
        message(&[&key.to_be_bytes(), &version.to_be_bytes(), &id.to_be_bytes(), b"\0\x01c", body])
    }

    fn response(id: u32, body: &[u8]) -> Vec<u8> {
        message(&[&id.to_be_bytes(), body])
    }

    /// To a topic, with this many bytes that are no records.
    fn produce(id: u32, acks: i16, topic: &str, bytes: usize) -> Vec<u8> {
        let body = [
            b"\xff\xff".as_slice(),
            &acks.to_be_bytes(),
            b"\0\0\0\x64\0\0\0\x01",
            &(topic.len() as u16).to_be_bytes(),
            topic.as_bytes(),
            b"\0\0\0\x01\0\0\0\0",
            &(bytes as u32).to_be_bytes(),
            &vec![b'b'; bytes],
        ];
        request(0, 7, id, &body.concat())
    }

    fn produced(id: u32, topic: &str, error: u16) -> Vec<u8> {
        let body = [
            b"\0\0\0\x01".as_slice(),
            &(topic.len() as u16).to_be_bytes(),
            topic.as_bytes(),
            b"\0\0\0\x01\0\0\0\0",
            &error.to_be_bytes(),
            &[0; 28],
        ];
        response(id, &body.concat())
    }

    fn heartbeat(id: u32) -> Vec<u8> {
        request(12, 1, id, b"\0\x01g\0\0\0\x01\0\x01m")
    }

    #[test]
    fn pipelined_requests_find_their_answers_and_heartbeats_are_silent() {
        let turns = [
            seen(Received, produce(1, -1, "a", 10)),
            seen(Received, heartbeat(2)),
            seen(Received, produce(3, 1, "b", 10)),
            seen(Received, produce(4, 0, "nobody", 10)),
            seen(Sent, produced(1, "a", 0)),
            seen(Sent, response(2, b"\0\0\0\0\0\x1b")),
            seen(Sent, produced(3, "b", 3)),
            seen(Received, heartbeat(5)),
            seen(Sent, response(5, b"\0\0\0\0\0\x19")),
        ];
        let expected = [
            "produce nobody 0 ms",
            "produce a 4 ms",
            "produce b 4 ms (UNKNOWN_TOPIC_OR_PARTITION)",
            "Heartbeat 1 ms (UNKNOWN_MEMBER_ID)",
        ];
        assert_eq!(told(&turns), expected);
    }

    #[test]
    fn an_answer_gives_up_the_requests_before_it() {
        let turns = [
            seen(Received, produce(1, -1, "a", 10)),
            seen(Received, produce(2, -1, "b", 10)),
            seen(Sent, produced(2, "b", 0)),
            seen(Sent, produced(1, "a", 0)),
        ];
        assert_eq!(told(&turns), ["produce b 1 ms"]);
    }

    #[test]
    fn after_lost_answers_what_is_open_is_given_up() {
        let turns = [
            seen(Received, heartbeat(0)),
            seen(Sent, response(0, b"\0\0\0\0\0\0")),
            seen(Received, produce(1, -1, "a", 10)),
            lost(Sent, produced(1, "a", 0)),
            seen(Received, produce(2, -1, "b", 10)),
            lost(Received, produce(3, -1, "c", 10)),
            seen(Received, produce(4, -1, "d", 10)),
            seen(Sent, produced(2, "b", 0)),
            // Reading sets in again at an answer that is due.
            seen(Received, produce(5, -1, "e", 10)),
            seen(Sent, produced(3, "c", 0)),
            seen(Sent, produced(5, "e", 0)),
        ];
        assert_eq!(told(&turns), ["produce e 2 ms"]);
    }

    #[test]
    fn a_connection_older_than_the_agent_is_read_from_the_next_request() {
        let turns = [
            seen(Sent, produced(70, "a", 0)),
            // Its key and version are those of PostgreSQL's version 3.4.
            seen(Received, request(3, 4, 7, b"\xff\xff\xff\xff\x01")),
            seen(Sent, response(7, &[0; 20])),
            seen(Received, produce(71, -1, "b", 2000)),
            seen(Sent, produced(71, "b", 0)),
        ];
        assert_eq!(told(&turns), ["produce b 1 ms"]);
    }

    #[test]
    fn a_fetch_is_told_only_if_it_brings_messages() {
        let fetch = |id| request(1, 4, id, b"\xff\xff\xff\xff\0\0\x01\xf4\0\0\0\x01\0\0\0\x01\0");
        let fetched = |id, records: &[u8]| {
            let bytes = (records.len() as u32).to_be_bytes();
            let before = b"\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x05\0\0";
            response(id, &[before.as_slice(), &[0; 16], &[0; 4], &bytes, records].concat())
        };
        let turns = [
            seen(Received, fetch(1)),
            seen(Sent, fetched(1, b"")),
            seen(Received, fetch(2)),
            seen(Sent, fetched(2, b"records")),
            // One that waits when the connection ends is nothing either.
            seen(Received, fetch(3)),
        ];
        assert_eq!(told(&turns), ["fetch t 1 ms"]);
    }

    #[test]
    fn garbage_is_given_up() {
        let mut turns = vec![seen(Received, heartbeat(1))];
        for id in 2..5 {
            turns.push(seen(Received, [heartbeat(id).as_slice(), b"\0\0\0\x01garbage!"].concat()));
            turns.push(seen(Received, b"\xffmore"));
        }
        assert_eq!(told(&turns), Vec::<String>::new());
    }
}

mod mqtt {
    use super::*;

    const CONNECT: &[u8] = b"\x10\x10\0\x04MQTT\x05\x02\0\x3c\0\0\x03abc";
    const CONNACK: &[u8] = b"\x20\x03\0\0\0";

    fn packet(first: u8, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        assert!(content.len() < 128);
        [&[first, content.len() as u8], content.as_slice()].concat()
    }

    /// With quality of service 1 or 2.
    pub(super) fn publish(flags: u8, id: u16, bytes: usize) -> Vec<u8> {
        packet(0x30 | flags, &[b"\0\x01t", &id.to_be_bytes(), b"\0", &vec![b'b'; bytes]])
    }

    pub(super) fn ack(kind: u8, id: u16) -> Vec<u8> {
        packet(kind, &[&id.to_be_bytes()])
    }

    pub(super) fn connected() -> Vec<(Direction, Vec<u8>, bool)> {
        vec![seen(Received, CONNECT), seen(Sent, CONNACK)]
    }

    #[test]
    fn each_side_has_its_own_numbers() {
        let mut turns = connected();
        turns.push(seen(Received, publish(2, 1, 10)));
        turns.push(seen(Sent, publish(4, 1, 20)));
        turns.push(seen(Received, ack(0x50, 1)));
        turns.push(seen(Sent, [ack(0x62, 1), ack(0x40, 1)].concat()));
        turns.push(seen(Received, ack(0x70, 1)));
        assert_eq!(told(&turns), ["publish t of 10 3 ms", "deliver t of 20 3 ms"]);
    }

    #[test]
    fn a_number_that_is_used_again_is_of_the_new_message() {
        let mut turns = connected();
        turns.push(seen(Received, publish(2, 1, 10)));
        // Sent again, then its acknowledgement lost, then another message.
        turns.push(seen(Received, publish(2 | 8, 1, 10)));
        turns.push(seen(Received, publish(2, 1, 20)));
        turns.push(seen(Sent, ack(0x40, 1)));
        assert_eq!(told(&turns), ["publish t of 20 1 ms"]);
    }

    #[test]
    fn after_loss_what_the_lost_side_may_have_answered_is_given_up() {
        let mut turns = connected();
        turns.push(seen(Received, publish(2, 1, 10)));
        turns.push(seen(Sent, publish(2, 1, 20)));
        turns.push(lost(Sent, ack(0x40, 1)));
        turns.push(seen(Sent, publish(2, 2, 30)));
        turns.push(seen(Received, ack(0x40, 1)));
        turns.push(lost(Received, ack(0x40, 2)));
        turns.push(seen(Received, publish(2, 2, 40)));
        turns.push(seen(Sent, ack(0x40, 2)));
        assert_eq!(told(&turns), ["deliver t of 20 3 ms", "publish t of 40 1 ms"]);
    }

    #[test]
    fn a_server_that_hangs_up_fails_what_is_open_or_says_so_itself() {
        let mut turns = connected();
        turns.push(seen(Received, publish(2, 1, 10)));
        turns.push(seen(Sent, b"\xe0\x02\x97\0"));
        assert_eq!(told(&turns), ["publish t of 10 1 ms (quota_exceeded)"]);
        turns.remove(2);
        assert_eq!(told(&turns), ["disconnect 0 ms (quota_exceeded)"]);
    }

    #[test]
    fn a_connection_older_than_the_agent_is_not_read() {
        let turns = [
            seen(Received, publish(2, 1, 10)),
            seen(Sent, ack(0x40, 1)),
            seen(Received, b"\xc0\0"),
            seen(Sent, b"\xd0\0"),
        ];
        assert_eq!(told(&turns), Vec::<String>::new());
    }

    #[test]
    fn garbage_is_passed_over() {
        let mut turns = connected();
        turns.push(seen(Received, b"\xff\xffgarbage"));
        turns.push(seen(Received, publish(2, 1, 10)));
        turns.push(seen(Sent, ack(0x40, 1)));
        assert_eq!(told(&turns), ["publish t of 10 1 ms"]);
    }
}

mod nats {
    use super::*;

    const INFO: &[u8] = b"INFO {\"server_id\":\"x\",\"max_payload\":1048576} \r\n";
    const CONNECT: &[u8] = b"CONNECT {\"verbose\":false,\"pass\":\"geheim\"}\r\n";

    pub(super) fn message(line: &str, bytes: usize) -> Vec<u8> {
        format!("{line} {bytes}\r\n{}\r\n", "b".repeat(bytes)).into_bytes()
    }

    pub(super) fn connected() -> Vec<(Direction, Vec<u8>, bool)> {
        vec![seen(Sent, INFO), seen(Received, CONNECT)]
    }

    #[test]
    fn answers_find_their_requests_in_any_order() {
        let mut turns = connected();
        turns.push(seen(Received, message("PUB a _INBOX.x.1", 10)));
        turns.push(seen(Received, message("PUB b _INBOX.x.2", 20)));
        turns.push(seen(Received, message("PUB c elsewhere", 30)));
        turns.push(seen(Sent, message("MSG _INBOX.x.2 1", 5)));
        turns
            .push(seen(Sent, b"HMSG _INBOX.x.1 1 30 30\r\nNATS/1.0 503 No Responders\r\n\r\n\r\n"));
        let expected = [
            "publish c of 30 0 ms",
            "request b of 20 2 ms",
            "request a of 10 4 ms (503: No Responders)",
        ];
        assert_eq!(told(&turns), expected);
    }

    #[test]
    fn a_subscription_that_answers_is_waited_for_and_another_is_not() {
        let mut turns = connected();
        turns.push(seen(Received, b"SUB s workers 1\r\nSUB > 2\r\n"));
        for number in 1..=3 {
            let delivery = |id| message(&format!("MSG s {id} _INBOX.y.{number}"), number);
            turns.push(seen(Sent, [delivery(1), delivery(2)].concat()));
            turns.push(seen(Received, message(&format!("PUB _INBOX.y.{number}"), 1)));
        }
        let expected: Vec<String> = (1..=3)
            .flat_map(|number| [0, 1].map(|millis| format!("deliver s of {number} {millis} ms")))
            .collect();
        assert_eq!(told(&turns), expected);
    }

    #[test]
    fn acknowledgements_for_jetstream_end_deliveries() {
        let mut turns = connected();
        for number in 1..=3 {
            turns.push(seen(Sent, message(&format!("MSG e 1 $JS.ACK.S.c.{number}"), number)));
        }
        let ack = |number, word: &str| {
            let line = format!("PUB $JS.ACK.S.c.{number} {}\r\n{word}\r\n", word.len());
            seen(Received, line)
        };
        turns.push(ack(1, "+WPI"));
        turns.push(ack(2, "-NAK"));
        turns.push(ack(1, "+ACK"));
        turns.push(ack(9, "+ACK"));
        // The third is answered by nobody, which is no failure of a subscription
        // that never did.
        assert_eq!(told(&turns), ["deliver e of 2 3 ms (nak)", "deliver e of 1 5 ms"]);
    }

    #[test]
    fn after_loss_what_the_lost_side_may_have_answered_is_given_up() {
        let mut turns = connected();
        turns.push(seen(Received, message("PUB a _INBOX.x.1", 10)));
        turns.push(seen(Sent, message("MSG s 1 _INBOX.y.1", 20)));
        turns.push(lost(Sent, message("MSG _INBOX.x.1 1", 5)));
        turns.push(seen(Sent, message("MSG t 1", 30)));
        turns.push(seen(Received, message("PUB _INBOX.y.1", 1)));
        turns.push(seen(Received, message("PUB a _INBOX.x.2", 40)));
        turns.push(seen(Sent, message("MSG _INBOX.x.2 1", 5)));
        let expected = ["deliver t of 30 0 ms", "deliver s of 20 3 ms", "request a of 40 1 ms"];
        assert_eq!(told(&turns), expected);
    }

    #[test]
    fn a_connection_older_than_the_agent_is_read_from_the_next_message() {
        let turns = [seen(Received, message("PUB a", 10)), seen(Sent, message("MSG b 1", 20))];
        assert_eq!(told(&turns), ["publish a of 10 0 ms", "deliver b of 20 0 ms"]);
        assert_eq!(told(&turns[1..]), ["deliver b of 20 0 ms"]);
    }

    #[test]
    fn encryption_ends_the_reading() {
        let mut turns = vec![seen(Sent, INFO)];
        turns.push(seen(Received, b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"));
        let mut tracer = tracer();
        spans(&mut tracer, &conversation(&turns));
        let counted = |name| tracer.counters().iter().find(|found| found.0 == name).unwrap().1;
        assert_eq!(counted("connections_encrypted"), 1);
    }

    #[test]
    fn garbage_is_passed_over() {
        let mut turns = connected();
        turns.push(seen(Received, b"\xff\xffgarbage\r\n"));
        turns.push(seen(Received, message("PUB a", 10)));
        turns.push(seen(Received, b"PUB a 3\r\nlonger\r\n"));
        turns.push(seen(Received, message("PUB b", 20)));
        assert_eq!(told(&turns), ["publish a of 10 0 ms", "publish b of 20 0 ms"]);
    }
}

/// A client's connection: what it sent is reported only after the answer that it
/// received, though it moved before.
fn told_late(
    before: &[(Direction, Vec<u8>, bool)],
    sent: Vec<u8>,
    received: Vec<u8>,
) -> Vec<String> {
    let swapped = |direction| if direction == Sent { Received } else { Sent };
    let mut turns: Vec<_> = before
        .iter()
        .map(|(direction, bytes, seen)| (swapped(*direction), bytes.clone(), *seen))
        .collect();
    turns.push(seen(Sent, sent));
    turns.push(seen(Received, received));
    let mut events = conversation(&turns);
    let last = events.len() - 1;
    events.swap(last - 1, last);
    let found = spans(&mut tracer(), &events);
    let describe = |span: &Span| {
        let answered = if span.response_tcp_seq.is_some() { "answered" } else { "open" };
        format!("{} {answered} {} ms", span.operation, span.duration_nano / 1_000_000)
    };
    found.iter().map(describe).collect()
}

#[test]
fn an_answer_reported_before_its_request_still_finds_it() {
    let found = told_late(&amqp::confirming(), amqp::publish(1, 5), amqp::ack(1, 1, false));
    assert_eq!(found, ["publish q answered 1 ms"]);
    let found = told_late(&amqp::confirming(), amqp::publish(1, 5), amqp::ack(1, 0, true));
    assert_eq!(found, ["publish q answered 1 ms"]);
    let found = told_late(&mqtt::connected(), mqtt::publish(2, 1, 5), mqtt::ack(0x40, 1));
    assert_eq!(found, ["publish t answered 1 ms"]);
    let (asked, answer) = (nats::message("PUB a _INBOX.x", 5), nats::message("MSG _INBOX.x 1", 1));
    let found = told_late(&nats::connected(), asked, answer);
    assert_eq!(found, ["deliver (anonymous) open 0 ms", "request a answered 1 ms"]);
}

/// What one connection may hold, as in the tests of hostile input.
const MAX_CONNECTION_BYTES: usize = (2 << 20) + (256 << 10);

#[test]
fn what_is_remembered_of_a_connection_is_bounded() {
    // What is never answered, named as long as it goes, and different each time.
    let name = "n".repeat(250);
    let openings: [&[u8]; 4] = [
        b"AMQP\0\0\x09\x01",
        b"\x10\x10\0\x04MQTT\x05\x02\0\x3c\0\0\x03abc",
        b"CONNECT {\"verbose\":true}\r\n",
        b"\0\0\0\x12\0\x12\0\0\0\0\0\x01\0\x08consumer",
    ];
    for (which, opening) in openings.into_iter().enumerate() {
        let mut tracer = tracer();
        let mut turns = vec![seen(Received, opening)];
        for number in 0..3000u32 {
            let id = (number as u16).to_be_bytes();
            let (sent, received) = match which {
                0 => {
                    let consume = [
                        b"\0\0\xfa",
                        name.as_bytes(),
                        b"\x04",
                        &number.to_be_bytes(),
                        b"\0\0\0\0\0",
                    ];
                    let consume = [b"\0\x3c\0\x14".as_slice(), &consume.concat()].concat();
                    let size = (consume.len() as u32).to_be_bytes();
                    let frame = |kind: u8, size: &[u8], payload: &[u8]| {
                        [&[kind], &id[..], size, payload, b"\xce"].concat()
                    };
                    let publish = [b"\0\x3c\0\x28\0\0\xfa", name.as_bytes(), b"\0\0"].concat();
                    let length = (publish.len() as u32).to_be_bytes();
                    let open = frame(1, b"\0\0\0\x05", b"\0\x14\0\x0a\0");
                    let confirm = frame(1, b"\0\0\0\x05", b"\0\x55\0\x0a\0");
                    let confirm = [open, confirm].concat();
                    let received =
                        [frame(1, &size, &consume), confirm, frame(1, &length, &publish)].concat();
                    (frame(1, b"\0\0\0\x04", b"\0\x3c\0\x15"), received)
                }
                1 => {
                    let alias = [0x23, id[0], id[1]];
                    let publish =
                        [b"\0\xfa", name.as_bytes(), &id, b"\x03", alias.as_slice()].concat();
                    let packet = [b"\x32\x82\x02".as_slice(), &publish].concat();
                    (packet.clone(), packet)
                }
                2 => {
                    let subscribe = format!("SUB {name} {number}\r\n");
                    let publish = format!("PUB {name} _INBOX.{number} 0\r\n\r\n");
                    let deliver = format!("MSG {name} {number} _INBOX.{number}x 0\r\n\r\n");
                    (deliver.into_bytes(), (subscribe + &publish).into_bytes())
                }
                _ => {
                    let body =
                        [b"\0\x0e\0\0\0\0", &id[..], b"\0\x01c\0\xfa", name.as_bytes()].concat();
                    let size = (body.len() as u32).to_be_bytes();
                    (Vec::new(), [&size[..], &body].concat())
                }
            };
            turns.push(seen(Received, received));
            if !sent.is_empty() {
                turns.push(seen(Sent, sent));
            }
        }
        let mut most = 0;
        for event in conversation(&turns) {
            tracer.event(&event.event());
            most = most.max(tracer.held_bytes());
        }
        assert!((256 << 10..MAX_CONNECTION_BYTES).contains(&most), "{which}: {most} bytes");
    }
}

type Pair = (String, Option<u32>, Option<u16>, Option<u32>);

/// Which answer belongs to which request, of all that were answered.
fn pairs(spans: &[Span]) -> BTreeSet<Pair> {
    // What is only seen from outside is no request.
    let read = |span: &&Span| !matches!(span.protocol.as_deref(), Some("tcp" | "tls"));
    let answered = spans.iter().filter(read).filter(|span| span.response_tcp_seq.is_some());
    let ends = |span: &Span| {
        let capture = span.capture.to_string();
        (capture, span.request_tcp_seq, span.flow.client_port, span.response_tcp_seq)
    };
    answered.map(ends).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_lost_no_answer_is_another_requests_and_no_message_is_shown(
        which in 0usize..1000,
        lost in vec(any::<prop::sample::Index>(), 1..12),
    ) {
        let mine = |protocol: &str| matches!(protocol, "amqp" | "kafka" | "mqtt" | "nats");
        let all: Vec<_> = recordings().iter().filter(|(name, _, _)| mine(name)).collect();
        let (protocol, name, events) = all[which % all.len()];
        let right = pairs(&spans(&mut tracer(), events));
        let mut events = events.clone();
        for index in lost {
            let at = index.index(events.len());
            if matches!(events[at], RecordedEvent::Data(_)) {
                events.remove(at);
            }
        }
        let found = spans(&mut tracer(), &events);
        // Of an answer in several parts the first may be lost, and the others are
        // nobody else's.
        let answer = |pair: &Pair| (pair.0.clone(), pair.2, pair.3);
        let answers: BTreeSet<_> = right.iter().map(answer).collect();
        let mut wrong = pairs(&found);
        wrong.retain(|pair| !right.contains(pair) && answers.contains(&answer(pair)));
        let text = render(&found);
        prop_assert!(wrong.is_empty(), "{}/{}: {:?}\n{}", protocol, name, wrong, text);
        // Nor is a message taken for anything else.
        let shown = text.to_ascii_lowercase();
        for secret in ["geheim", "hunter2"] {
            prop_assert!(!shown.contains(secret), "{}/{} shows {}:\n{}", protocol, name, secret, text);
        }
    }
}
