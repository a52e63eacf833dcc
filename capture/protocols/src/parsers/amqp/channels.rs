//! What a connection's channels have agreed on, and the numbers by which
//! requests and answers find each other.

use std::ops::RangeInclusive;

use super::method::Method;

/// Channels known at once; RabbitMQ allows 2047.
const MAX_CHANNELS: usize = 2048;
/// Consumers known at once; messages to others are told without waiting for
/// their acknowledgement. The oldest are forgotten.
const MAX_CONSUMERS: usize = 512;

const KIND_SHIFT: u32 = 62;
const CHANNEL_SHIFT: u32 = 46;
const NUMBER_MASK: u64 = (1 << CHANNEL_SHIFT) - 1;

/// What a stream stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A method that the server answers.
    Call = 0,
    /// A published message that the server confirms.
    Publish = 1,
    /// A delivered message that the client acknowledges.
    Delivery = 2,
}

const fn stream(kind: Kind, channel: u16, number: u64) -> u64 {
    (kind as u64) << KIND_SHIFT | (channel as u64) << CHANNEL_SHIFT | number & NUMBER_MASK
}

/// The stream of a method that is answered.
pub(super) const fn call(channel: u16, method: Method) -> u64 {
    stream(Kind::Call, channel, (method.class as u64) << 16 | method.method as u64)
}

/// The stream of a published message.
pub(super) const fn publish(channel: u16, tag: u64) -> u64 {
    stream(Kind::Publish, channel, tag)
}

/// The stream of a delivered message.
pub(super) const fn delivery(channel: u16, tag: u64) -> u64 {
    stream(Kind::Delivery, channel, tag)
}

/// Whether a stream is of this kind.
pub(super) const fn is(stream: u64, kind: Kind) -> bool {
    stream >> KIND_SHIFT == kind as u64
}

/// Whether a stream is of this channel.
pub(super) const fn is_on(stream: u64, channel: u16) -> bool {
    (stream >> CHANNEL_SHIFT) as u16 == channel
}

/// The streams that an acknowledgement settles: of one tag or, where it is for
/// several, of all up to it, 0 standing for all there are.
pub(super) const fn settled(
    kind: Kind,
    channel: u16,
    tag: u64,
    multiple: bool,
) -> RangeInclusive<u64> {
    let lowest = if multiple { 0 } else { tag };
    let highest = if multiple && tag == 0 { NUMBER_MASK } else { tag };
    stream(kind, channel, lowest)..=stream(kind, channel, highest)
}

/// A consumer that the client asked for.
#[derive(Debug)]
struct Consumer {
    channel: u16,
    /// Its name; `None` until the server has chosen one.
    tag: Option<Vec<u8>>,
    queue: Vec<u8>,
    acknowledges: bool,
}

/// What the channels of a connection have agreed on.
#[derive(Debug, Default)]
pub(super) struct Channels {
    /// Channels whose opening was seen and on which nothing is confirmed yet.
    /// Asking for confirms a second time changes nothing, so whether it is the
    /// first time must be known.
    fresh: Vec<u16>,
    /// The number of the next message published, by channel.
    confirming: Vec<(u16, u64)>,
    consumers: Vec<Consumer>,
    held_bytes: usize,
}

impl Channels {
    /// From here on the server confirms what is published on a channel.
    pub(super) fn confirm(&mut self, channel: u16) {
        if let Some(at) = self.fresh.iter().position(|fresh| *fresh == channel) {
            self.fresh.swap_remove(at);
            self.confirming.push((channel, 1));
        }
    }

    /// The number of the message that is being published, if it will be confirmed
    /// and the number is known.
    pub(super) fn next_published(&mut self, channel: u16) -> Option<u64> {
        let (_, next) = self.confirming.iter_mut().find(|(known, _)| *known == channel)?;
        let tag = *next;
        *next += 1;
        Some(tag)
    }

    /// What was published has not been seen whole: no number is known any more.
    pub(super) fn lose_count(&mut self) {
        self.confirming.clear();
        self.fresh.clear();
    }

    /// The channel begins.
    pub(super) fn open(&mut self, channel: u16) {
        self.close(channel);
        if self.fresh.len() + self.confirming.len() < MAX_CHANNELS {
            self.fresh.push(channel);
        }
    }

    /// The channel ends.
    pub(super) fn close(&mut self, channel: u16) {
        self.fresh.retain(|known| *known != channel);
        self.confirming.retain(|(known, _)| *known != channel);
        self.consumers.retain(|consumer| consumer.channel != channel);
        self.weigh();
    }

    /// The client asks to be given messages.
    pub(super) fn consume(&mut self, channel: u16, queue: &[u8], tag: &[u8], acknowledges: bool) {
        let tag = (!tag.is_empty()).then(|| tag.to_vec());
        if tag.is_some() {
            self.cancel(channel, tag.as_deref().unwrap_or_default());
        }
        if self.consumers.len() >= MAX_CONSUMERS {
            self.consumers.remove(0);
        }
        self.consumers.push(Consumer { channel, tag, queue: queue.to_vec(), acknowledges });
        self.weigh();
    }

    /// The server has taken note of a consumer, and may have named it.
    pub(super) fn consuming(&mut self, channel: u16, tag: &[u8]) {
        let mut here = self.consumers.iter_mut().filter(|consumer| consumer.channel == channel);
        // The server answers in order.
        if !here.any(|consumer| consumer.tag.as_deref() == Some(tag))
            && let Some(unnamed) = self
                .consumers
                .iter_mut()
                .find(|consumer| consumer.channel == channel && consumer.tag.is_none())
        {
            unnamed.tag = Some(tag.to_vec());
        }
        self.weigh();
    }

    /// A consumer ends.
    pub(super) fn cancel(&mut self, channel: u16, tag: &[u8]) {
        self.consumers
            .retain(|other| other.channel != channel || other.tag.as_deref() != Some(tag));
        self.weigh();
    }

    /// A consumer's queue, and whether it acknowledges messages.
    pub(super) fn consumer(&self, channel: u16, tag: &[u8]) -> Option<(&[u8], bool)> {
        let mut here = self.consumers.iter().filter(|consumer| consumer.channel == channel);
        let consumer = here.find(|consumer| consumer.tag.as_deref() == Some(tag))?;
        Some((&consumer.queue, consumer.acknowledges))
    }

    fn weigh(&mut self) {
        let names =
            |consumer: &Consumer| consumer.queue.len() + consumer.tag.as_ref().map_or(0, Vec::len);
        self.held_bytes = self
            .consumers
            .iter()
            .map(|consumer| size_of::<Consumer>() + names(consumer))
            .sum::<usize>();
    }

    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
            + self.confirming.capacity() * size_of::<(u16, u64)>()
            + self.fresh.capacity() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_settle_their_own_channel_and_kind() {
        let settles =
            |tag, multiple, found| settled(Kind::Delivery, 1, tag, multiple).contains(&found);
        assert!(settles(3, false, delivery(1, 3)));
        assert!(!settles(3, false, delivery(1, 2)));
        assert!(settles(3, true, delivery(1, 2)));
        assert!(!settles(3, true, delivery(1, 4)));
        assert!(settles(0, true, delivery(1, 4)));
        assert!(!settles(3, true, delivery(2, 2)));
        assert!(!settles(3, true, publish(1, 2)));
    }

    #[test]
    fn consumers_that_the_server_names_are_found() {
        let mut channels = Channels::default();
        channels.consume(1, b"q1", b"", true);
        channels.consume(1, b"q2", b"mine", false);
        assert_eq!(channels.consumer(1, b"amq.ctag-1"), None);
        channels.consuming(1, b"mine");
        channels.consuming(1, b"amq.ctag-1");
        assert_eq!(channels.consumer(1, b"amq.ctag-1"), Some((b"q1".as_slice(), true)));
        assert_eq!(channels.consumer(1, b"mine"), Some((b"q2".as_slice(), false)));
        assert_eq!(channels.consumer(2, b"mine"), None);
        channels.close(1);
        assert_eq!(channels.consumer(1, b"mine"), None);
    }

    #[test]
    fn confirms_are_counted_from_the_first_wish_for_them() {
        let mut channels = Channels::default();
        // Perhaps not the first.
        channels.confirm(1);
        assert_eq!(channels.next_published(1), None);
        channels.open(1);
        assert_eq!(channels.next_published(1), None);
        channels.confirm(1);
        assert_eq!(channels.next_published(1), Some(1));
        channels.confirm(1);
        assert_eq!(channels.next_published(1), Some(2));
        channels.lose_count();
        channels.confirm(1);
        assert_eq!(channels.next_published(1), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut channels = Channels::default();
        for number in 0..10_000_u16 {
            channels.consume(number, &[b'q'; 255], number.to_string().as_bytes(), true);
            channels.open(number);
            channels.confirm(number);
        }
        assert!(channels.held_bytes() < 256 << 10, "{}", channels.held_bytes());
    }
}
