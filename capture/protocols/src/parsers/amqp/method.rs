//! Methods of AMQP 0-9-1 with RabbitMQ's extensions (amqp0-9-1.extended.xml):
//! who sends them, what answers them, and what of them is shown.

use super::fields::Fields;
use crate::formats::messaging::{self, Destination};
use crate::redaction;
use crate::sessions::{Manner, Request};

/// A class's and a method's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) class: u16,
    pub(super) method: u16,
}

/// Who sends a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    Client,
    Server,
    Either,
}

impl Method {
    /// Who sends it; `None` where there is no such method.
    pub(super) const fn sender(self) -> Option<Sender> {
        Some(match (self.class, self.method) {
            // connection
            (10, 10 | 20 | 30 | 41 | 60 | 61 | 71) => Sender::Server,
            (10, 11 | 21 | 31 | 40 | 70) => Sender::Client,
            (10, 50 | 51) => Sender::Either,
            // channel
            (20, 10) => Sender::Client,
            (20, 11) => Sender::Server,
            (20, 20 | 21 | 40 | 41) => Sender::Either,
            // access, which RabbitMQ takes and ignores
            (30, 10) => Sender::Client,
            (30, 11) => Sender::Server,
            // exchange
            (40, 10 | 20 | 30 | 40) => Sender::Client,
            (40, 11 | 21 | 31 | 51) => Sender::Server,
            // queue
            (50, 10 | 20 | 30 | 40 | 50) => Sender::Client,
            (50, 11 | 21 | 31 | 41 | 51) => Sender::Server,
            // basic; 30 and 31 go both ways: brokers cancel consumers, too
            (60, 10 | 20 | 40 | 70 | 90 | 100 | 110) => Sender::Client,
            (60, 11 | 21 | 50 | 60 | 71 | 72 | 111) => Sender::Server,
            (60, 30 | 31 | 80 | 120) => Sender::Either,
            // confirm, tx
            (85, 10) | (90, 10 | 20 | 30) => Sender::Client,
            (85, 11) | (90, 11 | 21 | 31) => Sender::Server,
            _ => return None,
        })
    }

    /// The method that this one answers, if it answers any.
    pub(super) const fn answers(self) -> Option<Self> {
        let method = match (self.class, self.method) {
            (40, 51) => 40,
            (60, 71 | 72) => 70,
            (10 | 20 | 30 | 40 | 50 | 60 | 85 | 90, method) if method % 10 == 1 => method - 1,
            _ => return None,
        };
        Some(Self { class: self.class, method })
    }
}

/// A request of a client that is not the publishing of a message.
pub(super) struct Call {
    pub(super) request: Request,
    /// Whether the client forgoes an answer.
    pub(super) no_wait: bool,
}

/// What a client asks for; `None` where it is no request. The arguments that
/// were not captured read as empty.
pub(super) fn call(method: Method, mut arguments: Fields<'_>) -> Option<Call> {
    let fields = &mut arguments;
    let (name, silent) = match (method.class, method.method) {
        (10, 50) => ("connection.close", true),
        (10, 70) => ("connection.update-secret", false),
        (20, 10) => ("channel.open", true),
        (20, 20) => ("channel.flow", true),
        (20, 40) => ("channel.close", true),
        (40, 10) => ("exchange.declare", false),
        (40, 20) => ("exchange.delete", false),
        (40, 30) => ("exchange.bind", false),
        (40, 40) => ("exchange.unbind", false),
        (50, 10) => ("queue.declare", false),
        (50, 20) => ("queue.bind", false),
        (50, 30) => ("queue.purge", false),
        (50, 40) => ("queue.delete", false),
        (50, 50) => ("queue.unbind", false),
        (60, 10) => ("basic.qos", true),
        (60, 20) => ("basic.consume", false),
        (60, 30) => ("basic.cancel", true),
        (60, 70) => ("get", false),
        (60, 110) => ("basic.recover", false),
        (85, 10) => ("confirm.select", true),
        (90, 10) => ("tx.select", true),
        (90, 20) => ("tx.commit", false),
        (90, 30) => ("tx.rollback", false),
        _ => return None,
    };
    let (destination, flags, no_wait_bit) = named(method, fields);
    let kind = (name == "get").then_some("receive");
    let mut request = messaging::request("rabbitmq", name, kind, &destination, Manner::Call);
    request.silent = silent;
    Some(Call { request, no_wait: flags & no_wait_bit != 0 })
}

/// What a method is about, its flags, and which of them says that no answer is
/// wanted.
fn named(method: Method, fields: &mut Fields<'_>) -> (Destination, u8, u8) {
    // Strings before the flags, of which the first is the name; and the flag.
    let (strings, no_wait) = match (method.class, method.method) {
        (40, 10) => (2, 1 << 4),
        (40, 20) => (1, 1 << 1),
        (40, 30 | 40) => (3, 1),
        (50, 10) => (1, 1 << 4),
        (50, 20) => (3, 1),
        (50, 30) => (1, 1),
        (50, 40) => (1, 1 << 2),
        (50, 50) => (3, 0),
        (60, 20) => (2, 1 << 3),
        (60, 70) => (1, 0),
        (60, 30) => {
            let _consumer = fields.short_string();
            return (Destination::plain(b""), fields.octet().unwrap_or(0), 1);
        }
        (85, 10) => return (Destination::plain(b""), fields.octet().unwrap_or(0), 1),
        _ => return (Destination::plain(b""), 0, 0),
    };
    // Once the ticket of class access.
    let _reserved = fields.short();
    let name = fields.short_string().unwrap_or_default();
    for _ in 1..strings {
        let _further = fields.short_string();
    }
    let place = if method.class == 40 { Destination::plain(name) } else { queue(name) };
    (place, fields.octet().unwrap_or(0), no_wait)
}

/// A queue's name as spans show it. Brokers name queues that nobody named.
pub(super) fn queue(name: &[u8]) -> Destination {
    if name.starts_with(b"amq.gen-") {
        Destination::anonymous(name)
    } else {
        Destination::of_parts(name, '.')
    }
}

/// A routing key as spans show it.
fn routing_key(key: &[u8]) -> Destination {
    if key.starts_with(b"amq.gen-") || key.starts_with(b"amq.rabbitmq.reply-to") {
        Destination::anonymous(key)
    } else {
        Destination::of_parts(key, '.')
    }
}

/// Where a message goes, or came from (semantic conventions for RabbitMQ): the
/// exchange, the routing key, and the queue where it is known.
pub(super) fn message(
    operation: &str,
    kind: Option<&str>,
    (exchange, key, queue_name): (&[u8], &[u8], &[u8]),
    manner: Manner,
) -> Request {
    let mut destination = Destination::plain(exchange).then(routing_key(key));
    if queue_name != key {
        destination = destination.then(queue(queue_name));
    }
    if destination.is_empty() {
        destination = Destination::plain(b"amq.default");
    }
    let mut request = messaging::request("rabbitmq", operation, kind, &destination, manner);
    if !key.is_empty() {
        let key = redaction::owned(crate::bytes::text(key, 255), redaction::keyed_name);
        request.attributes.push(("messaging.rabbitmq.destination.routing_key", key.into()));
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(class: u16, method: u16, arguments: &[u8]) -> (String, bool) {
        let call = call(Method { class, method }, Fields(arguments)).unwrap();
        (call.request.operation, call.no_wait)
    }

    #[test]
    fn calls_are_named_and_say_whether_they_want_an_answer() {
        let declare = |flags: u8| called(50, 10, &[0, 0, 2, b'q', b'1', flags, 0, 0, 0, 0]);
        assert_eq!(declare(2), ("queue.declare q1".to_owned(), false));
        assert_eq!(declare(16), ("queue.declare q1".to_owned(), true));
        let consume = b"\0\0\x02q1\x02c1\x08\0\0\0\0";
        assert_eq!(called(60, 20, consume), ("basic.consume q1".to_owned(), true));
        let declare = b"\0\0\x02ex\x05topic\x02\0\0\0\0";
        assert_eq!(called(40, 10, declare), ("exchange.declare ex".to_owned(), false));
        assert_eq!(called(90, 20, b""), ("tx.commit".to_owned(), false));
        assert_eq!(called(50, 10, b"\0\0\x0aamq.gen-xy\0").0, "queue.declare (anonymous)");
    }

    #[test]
    fn every_answer_has_a_call() {
        for (class, method, answered) in
            [(50, 11, 10), (40, 51, 40), (60, 71, 70), (60, 72, 70), (10, 41, 40), (90, 21, 20)]
        {
            let found = Method { class, method }.answers();
            assert_eq!(found, Some(Method { class, method: answered }));
        }
        assert_eq!(Method { class: 60, method: 60 }.answers(), None);
        assert_eq!(Method { class: 60, method: 1 }.sender(), None);
    }

    #[test]
    fn destinations_follow_the_conventions_for_rabbitmq() {
        let named = |exchange: &str, key: &str, queue: &str| {
            let names = (exchange.as_bytes(), key.as_bytes(), queue.as_bytes());
            message("publish", Some("send"), names, Manner::Publish).operation
        };
        assert_eq!(named("ex", "orders.new", ""), "publish ex:orders.new");
        assert_eq!(named("", "q1", ""), "publish q1");
        assert_eq!(named("", "q1", "q1"), "publish q1");
        assert_eq!(named("ex", "k", "q1"), "publish ex:k:q1");
        assert_eq!(named("ex", "", ""), "publish ex");
        assert_eq!(named("", "", ""), "publish amq.default");
        assert_eq!(named("ex", "user.4711.new", ""), "publish ex:user.{id}.new");
        assert_eq!(named("", "amq.gen-Xw3", ""), "publish (anonymous)");
    }
}
