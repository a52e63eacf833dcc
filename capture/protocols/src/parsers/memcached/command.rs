//! What clients ask of Memcached, in either protocol, and what of it is shown.

use spanwise_model::AttributeValue;

use std::borrow::Cow;

use crate::bytes::text;
use crate::redaction::{Hidden, keyed_name};
use crate::sessions::{Attributes, Conversation, Request};

/// Longest key that Memcached takes.
pub(super) const MAX_KEY_BYTES: usize = 250;
/// Question marks shown for arguments.
const MAX_ARGUMENTS_SHOWN: u64 = 8;

/// What a command's words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `set key flags time length`, and the value on the next line.
    Storage,
    /// `ms key length flag*`, and the value on the next line.
    MetaStorage,
    /// Keys.
    Keys,
    /// A time, then keys.
    TimeAndKeys,
    /// A key, and more.
    Key,
    /// A key, and flags.
    MetaKey,
    /// Words that are no keys.
    Words,
    /// Nobody answers.
    Unanswered,
    /// What follows is no longer answers to commands, one by one.
    Stream,
}

/// Commands of the text protocol (Memcached, doc/protocol.txt).
static COMMANDS: [(&str, Form); 33] = [
    ("get", Form::Keys),
    ("gets", Form::Keys),
    ("gat", Form::TimeAndKeys),
    ("gats", Form::TimeAndKeys),
    ("set", Form::Storage),
    ("add", Form::Storage),
    ("replace", Form::Storage),
    ("append", Form::Storage),
    ("prepend", Form::Storage),
    ("cas", Form::Storage),
    ("delete", Form::Key),
    ("incr", Form::Key),
    ("decr", Form::Key),
    ("touch", Form::Key),
    ("mg", Form::MetaKey),
    ("ms", Form::MetaStorage),
    ("md", Form::MetaKey),
    ("ma", Form::MetaKey),
    ("me", Form::MetaKey),
    ("mn", Form::Words),
    ("version", Form::Words),
    ("stats", Form::Words),
    ("flush_all", Form::Words),
    ("verbosity", Form::Words),
    ("cache_memlimit", Form::Words),
    ("slabs", Form::Words),
    ("lru", Form::Words),
    ("lru_crawler", Form::Words),
    ("refresh_certs", Form::Words),
    ("extstore", Form::Words),
    ("quit", Form::Unanswered),
    ("shutdown", Form::Unanswered),
    ("watch", Form::Stream),
];

/// The command of this name.
pub(super) fn named(word: &[u8]) -> Option<(&'static str, Form)> {
    COMMANDS.iter().copied().find(|(name, _)| name.as_bytes() == word)
}

/// Whether a command's name begins so.
pub(super) fn begins(part: &[u8]) -> bool {
    COMMANDS.iter().any(|(name, _)| name.as_bytes().starts_with(part))
}

/// What is shown of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) name: &'static str,
    pub(super) key: Option<Vec<u8>>,
    /// Words that are not shown.
    pub(super) hidden: u64,
}

/// Whether keys are to be left out.
pub(super) fn hide_keys(conversation: &mut Conversation<'_>) -> bool {
    conversation.memory.of::<Hidden>().keys
}

/// Commands that are one request: one, or several of which only the last is
/// surely answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    first: Shown,
    mixed: bool,
    count: u64,
}

impl Batch {
    pub(super) const fn of(first: Shown) -> Self {
        Self { first, mixed: false, count: 1 }
    }

    /// One more.
    pub(super) fn add(&mut self, command: &Shown) {
        self.count += 1;
        self.mixed |= command.name != self.first.name;
        self.first.hidden += 1 + command.hidden;
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.first.key.as_ref().map_or(0, Vec::capacity)
    }

    /// The request that they are.
    pub(super) fn request(&self, hide_keys: bool) -> Request {
        // OpenTelemetry: BATCH, and the operation where all are the same.
        let operation = match (self.count, self.mixed) {
            (..=1, _) => self.first.name.to_owned(),
            (_, false) => format!("BATCH {}", self.first.name),
            (_, true) => "BATCH".to_owned(),
        };
        let mut shown = self.first.name.to_owned();
        if let Some(key) = &self.first.key {
            shown.push(' ');
            let key = if hide_keys { Cow::Borrowed("?") } else { text(key, MAX_KEY_BYTES).into() };
            shown.push_str(&keyed_name(&key));
        }
        for _ in 0..self.first.hidden.min(MAX_ARGUMENTS_SHOWN) {
            shown.push_str(" ?");
        }
        if self.first.hidden > MAX_ARGUMENTS_SHOWN {
            shown.push_str(" ...");
        }
        let mut attributes = Attributes::with_capacity(5);
        let mut add = |key: &'static str, value: AttributeValue| attributes.push((key, value));
        add("db.system.name", "memcached".into());
        if self.count > 1 {
            let count = i64::try_from(self.count).unwrap_or(i64::MAX);
            add("db.operation.batch.size", count.into());
        }
        add("db.operation.name", operation.as_str().into());
        add("db.query.text", shown.into());
        Request { attributes, ..Request::new(operation) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_commands_are_named_by_what_they_have_in_common() {
        let get = |key: &str| Shown { name: "get", key: Some(key.into()), hidden: 0 };
        let mut batch = Batch::of(get("a"));
        let shown = |batch: &Batch| {
            let request = batch.request(false);
            format!("{} | {}", request.operation, request.attributes.last().unwrap().1)
        };
        assert_eq!(shown(&batch), "get | get a");
        batch.add(&get("b"));
        assert_eq!(shown(&batch), "BATCH get | get a ?");
        batch.add(&Shown { name: "set", key: None, hidden: 1 });
        assert_eq!(shown(&batch), "BATCH | get a ? ? ?");
    }
}
