//! Subscriptions (redis.io/docs/latest/develop/pubsub): one command is answered once for each
//! channel, and messages come in between.

use std::collections::VecDeque;

use super::command::Command;
use super::reply::Message;

/// Commands that wait for such answers at once.
const MAX_WAITING: usize = 4096;
/// More subscriptions than that are not believed.
const MAX_SUBSCRIPTIONS: i64 = 1 << 32;

/// What a message of the server's is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// It is the reply to a command.
    Reply,
    /// Part of the answer to the command about subscriptions that waits first, or the last part.
    Confirmation {
        /// Nothing else comes for it.
        last: bool,
    },
    /// Nobody asked for it.
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
    /// The exchange.
    id: u64,
    kind: Kind,
    /// Answers to come; none where all subscriptions of the kind end.
    answers: Option<u64>,
}

/// Those of one connection.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    waiting: VecDeque<Waiting>,
    channels: i64,
    patterns: i64,
    shards: i64,
}

/// Whether a word says that a subscription begins or ends, and of which kind.
fn kind(word: &[u8]) -> Option<Kind> {
    let is = |words: [&[u8]; 2]| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    // Nearly all are others, and shorter.
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
    /// A command was sent as the exchange of this number.
    pub(super) fn sent(&mut self, command: &Command, id: u64) {
        let Some(kind) = kind(&command.name) else { return };
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        let answers = Some(command.words.saturating_sub(1)).filter(|answers| *answers > 0);
        self.waiting.push_back(Waiting { id, kind, answers });
    }

    /// What a message is about, where the exchange of this number waits first.
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
            // An array that happens to begin so.
            return About::Reply;
        }
        let before = match kind {
            Kind::Channels => self.channels,
            Kind::Patterns => self.patterns,
            Kind::Shards => self.shards,
        };
        // Channels and patterns are counted together.
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

    /// Whether there are any, so that messages may come.
    pub(super) const fn any(&self) -> bool {
        self.channels + self.patterns + self.shards > 0
    }

    /// Nobody can tell any more what is answered.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<Waiting>()
    }
}
