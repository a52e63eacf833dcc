//! AMQP: several channels at once, messages that are confirmed one by one or together, calls that
//! are answered in order on their channel, and messages that a consumer takes, refuses or gives
//! back.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Right, assert_right, word};
use crate::support::Talk;

const CHANNELS: usize = 3;

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

fn text(text: &str) -> Vec<u8> {
    [&[text.len() as u8], text.as_bytes()].concat()
}

fn content(channel: u16, bytes: usize) -> Vec<u8> {
    let mut header = b"\0\x3c\0\0".to_vec();
    header.extend_from_slice(&(bytes as u64).to_be_bytes());
    header.extend_from_slice(&[0, 0]);
    let mut frames = frame(2, channel, &header);
    // In bodies of some bytes each.
    for body in vec![b'b'; bytes].chunks(40) {
        frames.extend(frame(3, channel, body));
    }
    frames
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Publish {
        bytes: usize,
    },
    /// Confirms what was published: so many of the oldest, at once or one by one; or refuses it.
    Confirm {
        count: usize,
        multiple: bool,
        refused: bool,
    },
    Declare,
    /// With a message, or with none.
    Get {
        bytes: Option<usize>,
    },
    Deliver {
        bytes: usize,
    },
    /// The client takes the oldest messages, or refuses one.
    Settle {
        count: usize,
        refused: bool,
    },
}

fn command() -> impl Strategy<Value = Command> {
    let bytes = 1..100_usize;
    prop_oneof![
        4 => bytes.clone().prop_map(|bytes| Command::Publish { bytes }),
        3 => (1..4_usize, any::<bool>(), proptest::bool::weighted(0.2))
            .prop_map(|(count, multiple, refused)| Command::Confirm { count, multiple, refused }),
        2 => Just(Command::Declare),
        2 => proptest::option::of(bytes.clone()).prop_map(|bytes| Command::Get { bytes }),
        2 => bytes.prop_map(|bytes| Command::Deliver { bytes }),
        2 => (1..4_usize, proptest::bool::weighted(0.2))
            .prop_map(|(count, refused)| Command::Settle { count, refused }),
    ]
}

/// What is open on a channel.
#[derive(Default)]
struct Channel {
    published: u64,
    unconfirmed: VecDeque<(u64, String)>,
    delivered: u64,
    unsettled: VecDeque<(u64, String)>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_message_has_its_own_confirmation_and_each_call_its_own_answer(
        commands in vec((0..CHANNELS, command()), 1..60),
        piece in prop_oneof![2 => Just(100_000_usize), 1 => 5..90_usize],
    ) {
        let mut talk = Talk::new();
        let mut right: Vec<Right> = Vec::new();
        let mut channels: [Channel; CHANNELS] = Default::default();
        // What is silent where it succeeds is not: opening a channel and the like.
        let name = |channel: usize| channel as u16 + 1;
        for channel in 0..CHANNELS {
            let channel = name(channel);
            talk = talk.ask(&method(channel, 20, 10, b"\0")).answer(&method(channel, 20, 11, b"\0\0\0\0"));
            talk = talk.ask(&method(channel, 85, 10, b"\0")).answer(&method(channel, 85, 11, b""));
            let consume = [b"\0\0".to_vec(), text("q"), text("c"), vec![0; 5]].concat();
            talk = talk.ask(&method(channel, 60, 20, &consume));
            talk = talk.answer(&method(channel, 60, 21, &text("c")));
        }
        let before = talk.spans().len();
        for (number, (at, command)) in commands.into_iter().enumerate() {
            let (channel, word) = (name(at), word(number));
            let state = &mut channels[at];
            let (mut asked, mut answered) = (Vec::new(), Vec::new());
            let ack = |id: u16, tag: u64, flag: bool| {
                method(channel, 60, id, &[&tag.to_be_bytes()[..], &[u8::from(flag)]].concat())
            };
            match command {
                Command::Publish { bytes } => {
                    state.published += 1;
                    state.unconfirmed.push_back((state.published, word.clone()));
                    let arguments = [b"\0\0\0".to_vec(), text(&word), vec![0]].concat();
                    asked.extend(method(channel, 60, 40, &arguments));
                    asked.extend(content(channel, bytes));
                }
                Command::Confirm { count, multiple, refused } => {
                    let count = count.min(state.unconfirmed.len());
                    let id = if refused { 120 } else { 80 };
                    let confirmed: Vec<_> = state.unconfirmed.drain(..count).collect();
                    for (index, (tag, word)) in confirmed.iter().enumerate() {
                        let one = ack(id, *tag, multiple);
                        right.push((format!("publish {word}"), one.len() as u64, refused));
                        if !multiple || index + 1 == count {
                            answered.extend(one);
                        }
                    }
                }
                Command::Declare => {
                    let arguments = [b"\0\0".to_vec(), text(&word), vec![0; 5]].concat();
                    asked.extend(method(channel, 50, 10, &arguments));
                    answered.extend(method(channel, 50, 11, &[text(&word), vec![0; 8]].concat()));
                    right.push((format!("queue.declare {word}"), answered.len() as u64, false));
                }
                Command::Get { bytes } => {
                    asked.extend(method(channel, 60, 70, &[b"\0\0".to_vec(), text(&word), vec![1]].concat()));
                    match bytes {
                        None => answered.extend(method(channel, 60, 72, b"\0")),
                        Some(bytes) => {
                            let arguments = [vec![0; 9], text(""), text(&word), vec![0; 4]].concat();
                            answered.extend(method(channel, 60, 71, &arguments));
                            answered.extend(content(channel, bytes));
                            state.delivered += 1;
                        }
                    }
                    right.push((format!("get {word}"), answered.len() as u64, false));
                }
                Command::Deliver { bytes } => {
                    state.delivered += 1;
                    state.unsettled.push_back((state.delivered, word.clone()));
                    let tag = state.delivered.to_be_bytes();
                    let arguments = [text("c"), tag.to_vec(), vec![0], text(""), text(&word)].concat();
                    answered.extend(method(channel, 60, 60, &arguments));
                    answered.extend(content(channel, bytes));
                }
                Command::Settle { count, refused } => {
                    let count = if refused { 1 } else { count }.min(state.unsettled.len());
                    let settled: Vec<_> = state.unsettled.drain(..count).collect();
                    for (index, (tag, word)) in settled.iter().enumerate() {
                        let one = ack(if refused { 90 } else { 80 }, *tag, !refused && count > 1);
                        right.push((format!("deliver {word}:q"), one.len() as u64, refused));
                        if index + 1 == count {
                            asked.extend(one);
                        }
                    }
                }
            }
            for piece in asked.chunks(piece) {
                talk = talk.ask(piece);
            }
            for piece in answered.chunks(piece) {
                talk = talk.answer(piece);
            }
        }
        // What is still open when nobody looks any more has no span.
        let setup: Vec<Right> = crate::support::spans(&mut crate::support::tracer(), &talk.events)
            .iter()
            .take(before)
            .map(super::said)
            .collect();
        right.extend(setup);
        assert_right(&talk, right, true);
    }
}
