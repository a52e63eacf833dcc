//! MongoDB: commands with one answer, with none, and with many of which only the first was asked
//! for (exhaust); answers in the order in which they come.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Right, assert_right, word};
use crate::support::Talk;

const MORE_TO_COME: u32 = 2;
const EXHAUST_ALLOWED: u32 = 1 << 16;

/// A document: texts and numbers.
fn document(elements: &[(&str, Result<&str, f64>)]) -> Vec<u8> {
    let mut content = Vec::new();
    for (name, value) in elements {
        content.push(if value.is_ok() { 2 } else { 1 });
        content.extend_from_slice(name.as_bytes());
        content.push(0);
        match value {
            Ok(text) => {
                content.extend_from_slice(&(text.len() as u32 + 1).to_le_bytes());
                content.extend_from_slice(text.as_bytes());
                content.push(0);
            }
            Err(number) => content.extend_from_slice(&number.to_le_bytes()),
        }
    }
    content.push(0);
    [&(content.len() as u32 + 4).to_le_bytes()[..], &content].concat()
}

fn message(id: u32, response_to: u32, flags: u32, body: &[u8]) -> Vec<u8> {
    let content = [&flags.to_le_bytes()[..], &[0], body].concat();
    let header = [16 + content.len() as u32, id, response_to, 2013].map(u32::to_le_bytes).concat();
    [header, content].concat()
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Find {
        padding: usize,
        fails: bool,
    },
    /// Of which nobody wants to know.
    Insert,
    /// So many answers follow the first.
    Exhaust {
        more: usize,
        fails: bool,
    },
    Ping,
}

fn command() -> impl Strategy<Value = Command> {
    let fails = proptest::bool::weighted(0.2);
    prop_oneof![
        4 => (0..200_usize, fails).prop_map(|(padding, fails)| Command::Find { padding, fails }),
        1 => Just(Command::Insert),
        2 => (0..6_usize, fails).prop_map(|(more, fails)| Command::Exhaust { more, fails }),
        1 => Just(Command::Ping),
    ]
}

fn answer(fails: bool, padding: &str) -> Vec<u8> {
    match fails {
        false => document(&[("pad", Ok(padding)), ("ok", Err(1.0))]),
        true => document(&[
            ("ok", Err(0.0)),
            ("errmsg", Ok("no such cursor")),
            ("code", Err(43.0)),
            ("codeName", Ok("CursorNotFound")),
        ]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_command_has_its_own_answers(
        commands in vec((command(), any::<bool>()), 1..40),
        backwards in any::<bool>(),
        piece in prop_oneof![2 => Just(100_000_usize), 1 => 7..90_usize],
    ) {
        let (mut talk, mut right): (_, Vec<Right>) = (Talk::new(), Vec::new());
        let (mut asked, mut answers, mut last) = (Vec::new(), Vec::<Vec<u8>>::new(), 0);
        let count = commands.len();
        for (number, (command, waits)) in commands.into_iter().enumerate() {
            last += 1;
            let (id, name) = (last, word(number));
            let collection = [("$db", Ok("shop"))];
            let body = |command: &[(&str, Result<&str, f64>)]| document(&[command, &collection].concat());
            match command {
                Command::Find { padding, fails } => {
                    asked.extend(message(id, 0, 0, &body(&[("find", Ok(&name))])));
                    last += 1;
                    let answer = message(last, id, 0, &answer(fails, &"x".repeat(padding)));
                    right.push((format!("find {name}"), answer.len() as u64, fails));
                    answers.push(answer);
                }
                Command::Insert => {
                    asked.extend(message(id, 0, MORE_TO_COME, &body(&[("insert", Ok(&name))])));
                    right.push((format!("insert {name}"), 0, false));
                }
                Command::Exhaust { more, fails } => {
                    let command = [("getMore", Err(7.0)), ("collection", Ok(name.as_str()))];
                    asked.extend(message(id, 0, EXHAUST_ALLOWED, &body(&command)));
                    let (mut all, mut before) = (Vec::new(), id);
                    for _ in 0..more {
                        last += 1;
                        all.extend(message(last, before, MORE_TO_COME, &answer(false, "")));
                        before = last;
                    }
                    last += 1;
                    all.extend(message(last, before, 0, &answer(fails, "")));
                    right.push((format!("getMore {name}"), all.len() as u64, fails));
                    answers.push(all);
                }
                Command::Ping => {
                    asked.extend(message(id, 0, 0, &document(&[("ping", Err(1.0)), ("$db", Ok("admin"))])));
                    last += 1;
                    answers.push(message(last, id, 0, &answer(false, "")));
                }
            }
            if waits || number + 1 == count {
                if backwards {
                    answers.reverse();
                }
                talk = talk.ask(&std::mem::take(&mut asked));
                for piece in std::mem::take(&mut answers).concat().chunks(piece) {
                    talk = talk.answer(piece);
                }
            }
        }
        assert_right(&talk, right, true);
    }
}
