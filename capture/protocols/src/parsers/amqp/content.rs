//! Messages that pass: a method that announces one, its header, its body.

use spanwise_model::AttributeValue;

use super::fields::Properties;
use crate::bytes::Mark;
use crate::sessions::{Failure, Request};

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
}

impl Partial {
    pub(super) const fn new(
        channel: u16,
        purpose: Purpose,
        request: Option<Request>,
        start: Mark,
        end: Mark,
    ) -> Self {
        Self { channel, purpose, request, start, end, remaining: None }
    }

    /// Takes note of its header.
    pub(super) fn describe(&mut self, properties: Properties) {
        self.remaining = Some(properties.body_bytes);
        let Some(request) = &mut self.request else { return };
        request.headers = properties.headers;
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
    }

    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.request.as_ref().map_or(0, Request::held_bytes)
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
