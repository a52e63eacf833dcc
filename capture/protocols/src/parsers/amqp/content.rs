//! Messages that pass: a method that announces one, its header, its body.

use spanwise_model::AttributeValue;

use super::fields::Properties;
use crate::bytes::Mark;
use crate::sessions::{Failure, Identity, Passage, PassedMessage, Request};

/// Messages of one side that may be under way at once, on as many channels.
/// Nearly always it is one.
const MAX_PARTIAL: usize = 32;

/// What is done with a message.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A span of its own once it has passed, for nobody answers it.
    Tell {
        /// Set where its coming is a failure.
        failure: Option<Failure>,
    },
    /// A request with this stream, open from its header on.
    Ask { stream: u64 },
    /// It is part of the answer to this stream's request.
    Answer { stream: u64 },
}

/// A message that has not passed to its end.
#[derive(Debug)]
pub(super) struct Partial {
    channel: u16,
    pub(super) purpose: Purpose,
    /// Until it is opened or told.
    pub(super) request: Option<Request>,
    /// First byte of the method that announced it.
    pub(super) start: Mark,
    /// Past its last byte so far.
    pub(super) end: Mark,
    /// Bytes of the body to come; `None` before the header.
    pub(super) remaining: Option<u64>,
    /// Where it goes: its exchange and its routing key. Empty where it comes back.
    pub(super) destination: Vec<u8>,
    /// It has no identity but its content, which has not passed.
    pub(super) unidentified: bool,
}

impl Partial {
    pub(super) const fn new(
        channel: u16,
        purpose: Purpose,
        request: Option<Request>,
        start: Mark,
        end: Mark,
    ) -> Self {
        Self {
            channel,
            purpose,
            request,
            start,
            end,
            remaining: None,
            destination: Vec::new(),
            unidentified: false,
        }
    }

    /// The same on its way to an exchange with a routing key.
    pub(super) fn to(self, exchange: &[u8], key: &[u8]) -> Self {
        Self { destination: [exchange, b"\0", key].concat(), ..self }
    }

    /// Takes note of its header. Returns what identifies it.
    pub(super) fn describe(
        &mut self,
        passage: Passage,
        properties: Properties,
    ) -> Option<PassedMessage> {
        self.remaining = Some(properties.body_bytes);
        let identified = properties.identity.filter(|_| !self.destination.is_empty());
        let message = identified.map(|(identity, id)| match identity {
            Identity::Message => PassedMessage::of_id(passage, &id, &self.destination),
            Identity::Correlation => {
                PassedMessage::new(passage, identity, [&id[..], &self.destination])
            }
            _ => PassedMessage::new(passage, identity, [&id[..]]),
        });
        self.unidentified = message.is_none() && !self.destination.is_empty();
        let Some(request) = &mut self.request else { return message };
        request.messages.extend(message);
        request.headers = properties.headers;
        request.keys = properties.keys;
        let mut add = |key: &'static str, value: AttributeValue| {
            request.attributes.push((key, value));
        };
        if let Some(id) = properties.message_id {
            add("messaging.message.id", id.into());
        }
        if let Some(id) = properties.correlation_id {
            add("messaging.message.conversation_id", id.into());
        }
        if let Ok(bytes) = i64::try_from(properties.body_bytes) {
            add("messaging.message.body.size", bytes.into());
        }
        message
    }

    fn held_bytes(&self) -> usize {
        let request = self.request.as_ref().map_or(0, Request::held_bytes);
        size_of::<Self>() + self.destination.capacity() + request
    }
}

/// The messages of one side that have not passed to their end.
#[derive(Debug, Default)]
pub(super) struct Contents {
    partial: Vec<Partial>,
}

impl Contents {
    /// A message is announced. One before it on the channel that did not come
    /// to its end never will.
    pub(super) fn begin(&mut self, partial: Partial) {
        self.partial.retain(|other| other.channel != partial.channel);
        if self.partial.len() < MAX_PARTIAL {
            self.partial.push(partial);
        }
    }

    /// The one on this channel, taken out.
    pub(super) fn take(&mut self, channel: u16) -> Option<Partial> {
        let at = self.partial.iter().position(|partial| partial.channel == channel)?;
        Some(self.partial.swap_remove(at))
    }

    /// All of them, taken out.
    pub(super) fn take_all(&mut self) -> Vec<Partial> {
        std::mem::take(&mut self.partial)
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.partial.iter().map(Partial::held_bytes).sum()
    }
}
