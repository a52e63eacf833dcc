//! Redis where replies are not one for one: subscriptions, pushes, long pipelines. Held to a
//! model of the server: each command gets its own reply, whatever comes in between.

mod support;

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use support::{Talk, render, spans, tracer};

fn words(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    bytes.into_bytes()
}

#[derive(Debug, Clone, Copy)]
enum Command {
    Get,
    Range,
    Fails,
    Ping,
    /// To so many channels.
    Subscribe(usize),
    /// From all of them.
    Unsubscribe,
    PatternSubscribe,
}

/// The server, in either version of the protocol.
struct Server {
    version: u8,
    channels: Vec<String>,
    patterns: usize,
}

impl Server {
    fn confirmed(&self, word: &str, channel: Option<&str>) -> String {
        let kind = if self.version == 3 { '>' } else { '*' };
        let channel = channel.map_or("$-1".to_owned(), |name| format!("${}\r\n{name}", name.len()));
        let count = self.channels.len() + self.patterns;
        format!("{kind}3\r\n${}\r\n{word}\r\n{channel}\r\n:{count}\r\n", word.len())
    }

    fn delivered(&self) -> String {
        let kind = if self.version == 3 { '>' } else { '*' };
        format!("{kind}3\r\n$7\r\nmessage\r\n$2\r\nc0\r\n$5\r\nhello\r\n")
    }

    fn subscribed(&self) -> bool {
        !self.channels.is_empty() || self.patterns > 0
    }

    /// What it is asked and what it answers; `None` where a client may not ask that now.
    fn take(&mut self, command: Command, number: usize) -> Option<(Vec<u8>, String)> {
        let limited = self.version == 2 && self.subscribed();
        let key = format!("k{number}");
        Some(match command {
            Command::Get | Command::Range | Command::Fails if limited => return None,
            Command::Get => {
                let value = "x".repeat(number + 1);
                (words(&["GET", &key]), format!("${}\r\n{value}\r\n", value.len()))
            }
            Command::Range => {
                let value = "x".repeat(number + 1);
                let length = value.len();
                let reply = format!("*2\r\n$8\r\nmessages\r\n${length}\r\n{value}\r\n");
                (words(&["LRANGE", &key, "0", "1"]), reply)
            }
            Command::Fails => {
                let text = "x".repeat(number);
                (words(&["HSET", &key, "a"]), format!("-ERR {text}\r\n"))
            }
            Command::Ping if limited => {
                (words(&["PING"]), "*2\r\n$4\r\npong\r\n$0\r\n\r\n".to_owned())
            }
            Command::Ping => (words(&["PING"]), "+PONG\r\n".to_owned()),
            Command::Subscribe(count) => {
                let names: Vec<String> = (0..count).map(|index| format!("c{index}")).collect();
                let mut asked = vec!["subscribe"];
                asked.extend(names.iter().map(String::as_str));
                let mut reply = String::new();
                for name in &names {
                    if !self.channels.contains(name) {
                        self.channels.push(name.clone());
                    }
                    reply += &self.confirmed("subscribe", Some(name));
                }
                (words(&asked), reply)
            }
            Command::Unsubscribe => {
                let mut reply = String::new();
                while let Some(name) = self.channels.pop() {
                    reply += &self.confirmed("unsubscribe", Some(&name));
                }
                if reply.is_empty() {
                    reply = self.confirmed("unsubscribe", None);
                }
                (words(&["UNSUBSCRIBE"]), reply)
            }
            Command::PatternSubscribe => {
                self.patterns = 1;
                (words(&["PSUBSCRIBE", "p*"]), self.confirmed("psubscribe", Some("p*")))
            }
        })
    }
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        8 => Just(Command::Get),
        2 => Just(Command::Range),
        2 => Just(Command::Fails),
        2 => Just(Command::Ping),
        1 => (1..4_usize).prop_map(Command::Subscribe),
        2 => Just(Command::Unsubscribe),
        1 => Just(Command::PatternSubscribe),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn each_command_has_its_own_reply(
        version in 2..=3_u8,
        batches in vec(vec((command(), proptest::bool::weighted(0.2)), 1..60), 1..6),
        piece in prop_oneof![2 => Just(100_000_usize), 1 => 7..90_usize],
    ) {
        let mut server = Server { version, channels: Vec::new(), patterns: 0 };
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        let mut talk = Talk::new().ask(&words(&["PING"])).answer(b"+PONG\r\n");
        let (mut number, mut sent) = (0, 1);
        for batch in batches {
            let (mut asked, mut answered) = (Vec::new(), String::new());
            for (command, interrupted) in batch {
                number += 1;
                let Some((ask, reply)) = server.take(command, number) else { continue };
                sent += 1;
                if matches!(command, Command::Get | Command::Range | Command::Fails) {
                    expected.insert(format!("k{number}"), reply.len() as u64);
                }
                asked.extend(ask);
                answered += &reply;
                if interrupted && server.subscribed() {
                    answered += &server.delivered();
                }
            }
            if asked.is_empty() {
                continue;
            }
            talk = talk.ask(&asked);
            for piece in answered.as_bytes().chunks(piece) {
                talk = talk.answer(piece);
            }
            // Messages come at other times, too.
            if server.subscribed() {
                talk = talk.answer(server.delivered().as_bytes());
            }
        }
        let found = spans(&mut tracer(), &talk.events);
        let shown = || format!("{}{:?}", render(&found), talk.counters());
        for counter in ["out_of_step", "orphan_responses", "requests_lost", "malformed_messages", "connections_switched"] {
            prop_assert!(!talk.counters().contains_key(counter), "{counter}: {}", shown());
        }
        prop_assert_eq!(found.len(), sent, "{}", shown());
        for span in &found {
            let text = span.attribute("db.query.text").and_then(|text| text.as_str()).unwrap();
            let key = text.split(' ').nth(1).unwrap_or_default();
            if let Some(bytes) = expected.get(key) {
                prop_assert_eq!(span.network.response_bytes, Some(*bytes), "{}: {}", text, shown());
                prop_assert_eq!(span.error.is_some(), text.starts_with("HSET"), "{}", text);
            }
        }
    }
}

#[test]
fn a_connection_that_has_lost_step_says_so_and_recovers() {
    let talk = Talk::new().ask(&words(&["GET", "a"])).answer(b"$1\r\nx\r\n");
    let asked = [words(&["GET", "b"]), words(&["INCR", "c"])].concat();
    let talk = talk.ask(&asked).answer(b":1\r\n$1\r\nx\r\n");
    let talk = talk.ask(&words(&["GET", "d"])).answer(b"$2\r\nxy\r\n");
    let found = spans(&mut tracer(), &talk.events);
    let told: Vec<_> = found
        .iter()
        .map(|span| (span.operation.as_str(), span.attribute("spanwise.pairing").is_some()))
        .collect();
    assert_eq!(told, [("GET", false), ("GET", true), ("INCR", true), ("GET", false)]);
    assert_eq!(found[3].network.response_bytes, Some(8));
    assert_eq!(talk.counters()["out_of_step"], 1);
}

#[test]
fn what_a_server_is_too_old_for_is_no_failure() {
    for (asked, reply) in [
        (&["HELLO", "3"][..], "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n"),
        (&["HELLO", "4"], "-NOPROTO unsupported protocol version\r\n"),
        (&["CLIENT", "SETINFO", "LIB-NAME", "x"], "-ERR unknown subcommand 'SETINFO'.\r\n"),
        (&["CLIENT", "SETINFO", "LIB-NAME", "x"], "-ERR Unknown subcommand or wrong number\r\n"),
    ] {
        let talk = Talk::new().ask(&words(&["PING"])).answer(b"+PONG\r\n");
        let talk = talk.ask(&words(asked)).answer(reply.as_bytes());
        let found = spans(&mut tracer(), &talk.events);
        assert_eq!(found[1].error, None, "{reply}");
        assert_eq!(found[1].attribute("spanwise.refused"), Some(&"optional".into()), "{reply}");
    }
    // Others do fail by that, and these by something else.
    for (asked, reply) in [
        (&["FT.SEARCH", "a"][..], "-ERR unknown command `FT.SEARCH`\r\n"),
        (&["HELLO", "3"], "-NOAUTH HELLO must be called with the client already authenticated\r\n"),
    ] {
        let talk = Talk::new().ask(&words(&["PING"])).answer(b"+PONG\r\n");
        let talk = talk.ask(&words(asked)).answer(reply.as_bytes());
        assert!(spans(&mut tracer(), &talk.events)[1].error.is_some(), "{reply}");
    }
}
