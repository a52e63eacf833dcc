//! Subscriptions (redis.io/docs/latest/develop/pubsub). A subscribe command gets one reply per
//! channel, and published messages may come in between.

use std::collections::VecDeque;

use super::command::Command;
use super::reply::Message;

/// Maximum number of subscription commands that await replies.
const MAX_WAITING: usize = 4096;
/// Maximum plausible number of subscriptions.
const MAX_SUBSCRIPTIONS: i64 = 1 << 32;

/// What a server message refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// The reply to a command.
    Reply,
    /// Part of the reply to the oldest waiting subscription command.
    Confirmation {
        /// Whether this is the last part.
        last: bool,
    },
    /// A message that no command asked for.
    Nothing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Channels,
    Patterns,
    Shards,
}

#[derive(Debug)]
struct Waiting {
    /// Id of the exchange.
    id: u64,
    kind: Kind,
    /// Number of replies left; `None` if the command ends all subscriptions of its kind.
    answers: Option<u64>,
}

/// Waiting commands and subscriptions of one connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    waiting: VecDeque<Waiting>,
    channels: i64,
    patterns: i64,
    shards: i64,
}

/// The kind of subscription that a word starts or ends, if any.
fn kind(word: &[u8]) -> Option<Kind> {
    let is = |words: [&[u8]; 2]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    // Nearly all words are shorter and have another meaning.
    if word.len() < 9 {
        None
    } else if is([b"subscribe", b"unsubscribe"]) {
        Some(Kind::Channels)
    } else if is([b"psubscribe", b"punsubscribe"]) {
        Some(Kind::Patterns)
    } else if is([b"ssubscribe", b"sunsubscribe"]) {
        Some(Kind::Shards)
    } else {
        None
    }
}

impl Subscriptions {
    /// Records that a command was sent as the exchange with this id.
    pub(super) fn sent(&mut self, command: &Command, id: u64) {
        let Some(kind) = kind(&command.name) else { return };
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        let answers = Some(command.words.saturating_sub(1)).filter(|answers| *answers > 0);
        self.waiting.push_back(Waiting { id, kind, answers });
    }

    /// What a message refers to, if the oldest waiting exchange has this id.
    pub(super) fn about(&mut self, message: &Message, first: Option<u64>) -> About {
        if !message.is_push && message.kind != b'*' && message.error.is_none() {
            return About::Reply;
        }
        while self.waiting.front().is_some_and(|waiting| first.is_none_or(|id| waiting.id < id)) {
            self.waiting.pop_front();
        }
        let waits = self.waiting.front().is_some_and(|waiting| Some(waiting.id) == first);
        if message.error.is_some() {
            if waits {
                self.waiting.pop_front();
            }
            return About::Reply;
        }
        let word = message.label.word();
        let Some(kind) = kind(word) else {
            let delivery = matches!(word, b"message" | b"pmessage" | b"smessage");
            let nobodys = message.is_push || (delivery && self.any());
            return if nobodys { About::Nothing } else { About::Reply };
        };
        if !message.is_push && !waits && !self.any() {
            // An array that happens to begin with the same word.
            return About::Reply;
        }
        let before = match kind {
            Kind::Channels => self.channels,
            Kind::Patterns => self.patterns,
            Kind::Shards => self.shards,
        };
        // Redis counts channels and patterns together.
        let count = message.number.clamp(0, MAX_SUBSCRIPTIONS);
        match kind {
            Kind::Channels => self.channels = (count - self.patterns).max(0),
            Kind::Patterns => self.patterns = (count - self.channels).max(0),
            Kind::Shards => self.shards = count,
        }
        let Some(waiting) =
            self.waiting.front_mut().filter(|waiting| waits && waiting.kind == kind)
        else {
            return About::Nothing;
        };
        let answers = waiting.answers.unwrap_or(before.max(1).unsigned_abs());
        waiting.answers = Some(answers - 1);
        let last = answers <= 1;
        if last {
            self.waiting.pop_front();
        }
        About::Confirmation { last }
    }

    /// Whether there are subscriptions, so that messages may come.
    pub(super) const fn any(&self) -> bool {
        self.channels + self.patterns + self.shards > 0
    }

    /// Forgets the waiting commands, because replies can no longer be paired.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<Waiting>()
    }
}
