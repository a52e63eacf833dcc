//! Legal conversations of protocols whose answers are told from what was asked, made up at random
//! and held to a model of the server: each request has its own answer, whatever comes in between.

mod support;

#[path = "conversations/amqp.rs"]
mod amqp;
#[path = "conversations/kafka.rs"]
mod kafka;
#[path = "conversations/mongodb.rs"]
mod mongodb;
#[path = "conversations/mysql.rs"]
mod mysql;

use spanwise_model::Span;
use support::{Talk, render, spans, tracer};

/// Counters that say that something was lost, or taken for what it is not.
const LOSSES: [&str; 7] = [
    "out_of_step",
    "orphan_responses",
    "requests_lost",
    "malformed_messages",
    "framing_lost",
    "connections_switched",
    "protocol_changes",
];

/// What is right of a request: how its operation begins, the bytes of its answer, whether it
/// failed.
type Right = (String, u64, bool);

/// What a span says of that.
fn said(span: &Span) -> Right {
    let bytes = span.network.response_bytes.unwrap_or(0);
    (span.operation.clone(), bytes, span.error.is_some())
}

/// That each request has its own answer: in the order of the requests, or `by_name` where answers
/// come in another.
fn assert_right(talk: &Talk, mut right: Vec<Right>, by_name: bool) {
    let found = spans(&mut tracer(), &talk.events);
    let counters = talk.counters();
    let lost: Vec<_> = LOSSES.iter().filter(|name| counters.contains_key(*name)).collect();
    let mut all: Vec<Right> = found.iter().map(said).collect();
    if by_name {
        all.sort();
        right.sort();
    }
    assert!(lost.is_empty(), "{lost:?} {}", render(&found));
    assert_eq!(all, right, "{}", render(&found));
}

/// A name that no other number has, and in which nothing looks like an identifier.
fn word(number: usize) -> String {
    let letter = |digit: usize| char::from(b'a' + (digit % 26) as u8);
    ['q', letter(number / 676), letter(number / 26), letter(number)].iter().collect()
}
