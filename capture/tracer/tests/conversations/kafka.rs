//! Kafka: requests one after the other without waiting, of which some want no answer; fetches that
//! bring messages of several topics, of one, or of none.

use proptest::collection::vec;
use proptest::prelude::*;
use spanwise_capture_tracer::event::Direction;

use super::{Right, assert_right, word};
use crate::support::{Talk, render, spans, tracer};

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

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [&(items.len() as u32).to_be_bytes()[..], &items.concat()].concat()
}

fn bytes(count: usize) -> Vec<u8> {
    [&(count as u32).to_be_bytes()[..], &vec![b'b'; count]].concat()
}

fn produce(id: u32, acks: i16, topics: &[String], count: usize) -> Vec<u8> {
    let partition = [&[0; 4][..], &bytes(count)].concat();
    let topics: Vec<_> = topics
        .iter()
        .map(|name| [text(name), array(std::slice::from_ref(&partition))].concat())
        .collect();
    let body = [&b"\xff\xff"[..], &acks.to_be_bytes(), b"\0\0\0\x64", &array(&topics)].concat();
    request(0, 7, id, &body)
}

fn produced(id: u32, topics: &[String], error: u16) -> Vec<u8> {
    let partition = [&[0; 4][..], &error.to_be_bytes(), &[0; 24]].concat();
    let topics: Vec<_> = topics
        .iter()
        .map(|name| [text(name), array(std::slice::from_ref(&partition))].concat())
        .collect();
    response(id, &[array(&topics), vec![0; 4]].concat())
}

fn fetch(id: u32) -> Vec<u8> {
    request(1, 4, id, &[0; 30])
}

/// For each topic, the bytes of its messages.
fn fetched(id: u32, topics: &[(String, usize)]) -> Vec<u8> {
    let topics: Vec<_> = topics
        .iter()
        .map(|(name, count)| {
            let partition = [&[0; 4][..], &[0; 2], &[0; 16], &[0; 4], &bytes(*count)].concat();
            [text(name), array(&[partition])].concat()
        })
        .collect();
    response(id, &[vec![0; 4], array(&topics)].concat())
}

#[derive(Debug, Clone)]
enum Command {
    Produce {
        acks: i16,
        topics: usize,
        count: usize,
        fails: bool,
    },
    /// What each topic brings.
    Fetch(Vec<usize>),
    Heartbeat,
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => (-1..=1_i16, 1..4_usize, 0..300_usize, proptest::bool::weighted(0.2))
            .prop_map(|(acks, topics, count, fails)| Command::Produce { acks, topics, count, fails }),
        3 => vec(0..300_usize, 0..4).prop_map(Command::Fetch),
        1 => Just(Command::Heartbeat),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_request_has_its_own_answer(
        batches in vec(vec(command(), 1..12), 1..8),
        piece in prop_oneof![2 => Just(100_000_usize), 1 => 5..90_usize],
    ) {
        let (mut talk, mut right): (_, Vec<Right>) = (Talk::new(), Vec::new());
        let mut number = 0;
        for batch in batches {
            let (mut asked, mut answered) = (Vec::new(), Vec::new());
            for command in batch {
                number += 1;
                let (id, names) = (number as u32, |count| {
                    (0..count).map(|index| word(number * 4 + index)).collect::<Vec<_>>()
                });
                match command {
                    Command::Produce { acks, topics, count, fails } => {
                        let topics = names(topics);
                        asked.extend(produce(id, acks, &topics, count));
                        let answer = produced(id, &topics, if fails { 3 } else { 0 });
                        let name = match topics.as_slice() {
                            [only] => format!("produce {only}"),
                            _ => "produce".to_owned(),
                        };
                        right.push(match acks {
                            0 => (name, 0, false),
                            _ => (name, answer.len() as u64, fails),
                        });
                        if acks != 0 {
                            answered.extend(answer);
                        }
                    }
                    Command::Fetch(counts) => {
                        asked.extend(fetch(id));
                        let topics: Vec<_> = names(counts.len()).into_iter().zip(counts).collect();
                        let answer = fetched(id, &topics);
                        let bring: Vec<_> = topics.iter().filter(|(_, count)| *count > 0).collect();
                        match bring.as_slice() {
                            [] => {}
                            [(only, _)] => right.push((format!("fetch {only}"), answer.len() as u64, false)),
                            _ => right.push(("fetch".to_owned(), answer.len() as u64, false)),
                        }
                        answered.extend(answer);
                    }
                    Command::Heartbeat => {
                        asked.extend(request(12, 1, id, b"\0\x01g\0\0\0\x01\0\x01m"));
                        answered.extend(response(id, &[0; 6]));
                    }
                }
            }
            talk = talk.ask(&asked);
            for piece in answered.chunks(piece) {
                talk = talk.answer(piece);
            }
        }
        assert_right(&talk, right, true);
    }
}

#[test]
fn all_topics_are_told_or_that_there_are_several() {
    let names: Vec<String> = ["orders", "payments", "mails"].map(str::to_owned).to_vec();
    let brings: Vec<_> = names.iter().map(|name| (name.clone(), 200)).collect();
    let list = "[\"orders\",\"payments\",\"mails\"]";
    let asked = produce(1, 1, &names, 200);
    let answer = fetched(2, &brings);
    // All of it, what ends in the first topic, and what ends in the second.
    for (seen, told) in [(usize::MAX, list), (300, "several"), (460, "several")] {
        let (ask, unasked) = asked.split_at(seen.min(asked.len()));
        let (answered, unanswered) = answer.split_at(seen.min(answer.len()));
        let talk = Talk::new()
            .cut(Direction::Received, ask, unasked.len() as u32)
            .answer(&produced(1, &names, 0))
            .ask(&fetch(2))
            .cut(Direction::Sent, answered, unanswered.len() as u32);
        let found = spans(&mut tracer(), &talk.events);
        assert_eq!(found.len(), 2, "{}", render(&found));
        for (span, operation) in found.iter().zip(["produce", "fetch"]) {
            assert_eq!(span.operation, operation);
            assert_eq!(span.attribute("messaging.destination.name"), None);
            let destinations = span.attribute("spanwise.destinations").map(ToString::to_string);
            assert_eq!(destinations.as_deref(), Some(told), "{seen}: {operation}");
        }
    }
    // One that brings nothing is none of them.
    let one = [("orders".to_owned(), 0), ("mails".to_owned(), 20)];
    let talk = Talk::new().ask(&fetch(1)).answer(&fetched(1, &one));
    assert_eq!(talk.spans(), ["fetch mails"]);
}
