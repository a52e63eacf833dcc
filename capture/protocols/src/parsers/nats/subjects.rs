//! The purpose of subjects, judged by their names, and the stream numbers that pair requests with
//! responses.

use std::hash::{DefaultHasher, Hasher};

use crate::formats::messaging::Destination;

/// Maximum subscriptions remembered per connection.
const MAX_SUBSCRIPTIONS: usize = 512;
/// Maximum length of a subscription id or queue name that is remembered.
const MAX_NAME_BYTES: usize = 64;
/// After this many consecutive messages without a response, a subscription is assumed never to
/// respond.
const MAX_UNANSWERED: u8 = 16;

const KIND_SHIFT: u32 = 60;
const NUMBER_MASK: u64 = (1 << KIND_SHIFT) - 1;

/// Kinds of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The client's CONNECT.
    Connect = 0,
    /// A message to whose reply subject the server sends a response.
    Request = 1,
    /// A message to whose reply subject the client sends a response.
    Delivery = 2,
    /// A message that the server confirms, because the client asked for confirmations.
    Confirmed = 3,
}

pub(super) const fn stream(kind: Kind, number: u64) -> u64 {
    (kind as u64) << KIND_SHIFT | number & NUMBER_MASK
}

/// The stream of a message with this reply subject. Reply subjects are random and used for one
/// message only.
pub(super) fn by_reply(kind: Kind, reply: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(reply);
    stream(kind, hasher.finish())
}

/// Whether a stream is of this kind.
pub(super) const fn is(stream: u64, kind: Kind) -> bool {
    stream >> KIND_SHIFT == kind as u64
}

/// Whether this is a subject that a client created to receive responses.
pub(super) fn is_inbox(subject: &[u8]) -> bool {
    subject.starts_with(b"_INBOX.")
}

/// Whether this subject acknowledges a JetStream message.
pub(super) fn is_acknowledgement(subject: &[u8]) -> bool {
    subject.starts_with(b"$JS.ACK.")
}

/// The stream and the number of a JetStream message, of the subject that acknowledges it:
/// `$JS.ACK.[DOMAIN.ACCOUNT.]STREAM.CONSUMER.DELIVERED.NUMBER.….…`.
pub(super) fn place(subject: &[u8]) -> Option<(&[u8], u64)> {
    let rest = subject.strip_prefix(b"$JS.ACK.")?;
    let tokens: Vec<&[u8]> = rest.split(|byte| *byte == b'.').take(16).collect();
    let skipped = if tokens.len() > 8 { 2 } else { 0 };
    let number = std::str::from_utf8(tokens.get(skipped + 3)?).ok()?.parse().ok()?;
    Some((tokens.get(skipped)?, number))
}

/// Whether this subject requests further messages for a client.
pub(super) fn is_pull(subject: &[u8]) -> bool {
    subject.starts_with(b"$JS.API.CONSUMER.MSG.NEXT.") || subject.starts_with(b"$JS.FC.")
}

/// The subject as spans show it.
pub(super) fn destination(subject: &[u8]) -> Destination {
    if is_inbox(subject) || is_acknowledgement(subject) {
        Destination::anonymous(subject)
    } else {
        Destination::of_levels(subject, '.')
    }
}

#[derive(Debug)]
struct Subscription {
    id: Vec<u8>,
    queue: Vec<u8>,
    /// Whether the subscription has ever responded.
    answers: bool,
    /// Number of messages since the last response that it could have answered.
    unanswered: u8,
}

/// Subscriptions of a connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    known: Vec<Subscription>,
}

/// Whether the receiver of a message with a reply subject is expected to respond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expectation {
    /// A response is expected.
    Answer,
    /// A response is possible.
    Perhaps,
    /// No response is expected.
    Nothing,
}

impl Subscriptions {
    /// The client subscribes.
    pub(super) fn subscribe(&mut self, id: &[u8], queue: &[u8]) {
        self.unsubscribe(id);
        let short = id.len() <= MAX_NAME_BYTES && queue.len() <= MAX_NAME_BYTES;
        if short && self.known.len() < MAX_SUBSCRIPTIONS {
            let (id, queue) = (id.to_vec(), queue.to_vec());
            self.known.push(Subscription { id, queue, answers: false, unanswered: 0 });
        }
    }

    /// A subscription ends.
    pub(super) fn unsubscribe(&mut self, id: &[u8]) {
        self.known.retain(|known| known.id != id);
    }

    /// The queue group of a subscription, if any.
    pub(super) fn queue(&self, id: &[u8]) -> Option<&[u8]> {
        let found = self.known.iter().find(|known| known.id == id)?;
        Some(found.queue.as_slice()).filter(|queue| !queue.is_empty())
    }

    /// A message that can be answered is delivered to this subscription.
    pub(super) fn expect(&mut self, id: &[u8]) -> Expectation {
        if !self.known.iter().any(|known| known.id == id) {
            // The connection is older than the agent.
            self.subscribe(id, b"");
        }
        let Some(found) = self.known.iter_mut().find(|known| known.id == id) else {
            return Expectation::Nothing;
        };
        found.unanswered = found.unanswered.saturating_add(1);
        match (found.answers, found.unanswered > MAX_UNANSWERED) {
            (true, _) => Expectation::Answer,
            (false, false) => Expectation::Perhaps,
            (false, true) => Expectation::Nothing,
        }
    }

    /// The subscription has responded.
    pub(super) fn answered(&mut self, id: &[u8]) {
        if let Some(found) = self.known.iter_mut().find(|known| known.id == id) {
            found.answers = true;
            found.unanswered = 0;
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.known.len() * (size_of::<Subscription>() + 2 * MAX_NAME_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_answers_is_not_waited_for() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.subscribe(b"1", b"workers");
        for _ in 0..MAX_UNANSWERED {
            assert_eq!(subscriptions.expect(b"1"), Expectation::Perhaps);
        }
        assert_eq!(subscriptions.expect(b"1"), Expectation::Nothing);
        subscriptions.answered(b"1");
        assert_eq!(subscriptions.expect(b"1"), Expectation::Answer);
        assert_eq!(subscriptions.queue(b"1"), Some(b"workers".as_slice()));
        for id in 0..10_000 {
            subscriptions.expect(id.to_string().as_bytes());
        }
        assert!(subscriptions.held_bytes() < 128 << 10);
    }
}
