//! Redis commands: which parts are shown, and which commands end pairing.

use spanwise_model::AttributeValue;

use super::names::{is_command, is_subcommand};
use crate::bytes::text;
use crate::redaction::{self, Hidden};
use crate::sessions::{Attributes, PassedMessage, Request};

/// Maximum length of a command name. A name of this length was cut, so it is not a command.
pub(super) const MAX_NAME_BYTES: usize = 32;
/// Maximum bytes of a key that are shown.
pub(super) const MAX_KEY_BYTES: usize = 256;
/// Maximum number of question marks shown for arguments.
const MAX_ARGUMENTS_SHOWN: u64 = 8;

/// Container commands: the first argument names the actual operation.
const CONTAINERS: [&str; 14] = [
    "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "DEBUG", "FUNCTION", "LATENCY", "MEMORY",
    "MODULE", "OBJECT", "SCRIPT", "SLOWLOG", "XINFO",
];

/// Commands whose first argument is not a key. It is not shown.
const WITHOUT_KEY: [&str; 15] = [
    "AUTH",
    "ECHO",
    "EVAL",
    "EVALSHA",
    "EVALSHA_RO",
    "EVAL_RO",
    "FCALL",
    "FCALL_RO",
    "HELLO",
    "MIGRATE",
    "PING",
    "SCAN",
    "SWAPDB",
    "XREAD",
    "XREADGROUP",
];

/// Commands after which replies no longer match commands one by one.
const ENDING: [&str; 4] = ["MONITOR", "PSYNC", "SYNC", "REPLCONF"];

/// Commands by which an inline command (without RESP framing) is recognised.
pub(super) const INLINE: [&str; 22] = [
    "PING", "GET", "SET", "DEL", "INFO", "AUTH", "ECHO", "EXISTS", "INCR", "DECR", "SELECT",
    "KEYS", "DBSIZE", "QUIT", "COMMAND", "CONFIG", "CLIENT", "MGET", "TTL", "HGET", "LPUSH",
    "FLUSHALL",
];

/// Shown instead of an unknown command name, which may be any data.
const NO_NAME: &str = "REDIS";

/// The parts of a command that are needed.
#[derive(Debug, Default)]
pub(super) struct Command {
    /// Command name, as sent.
    pub(super) name: Vec<u8>,
    /// First argument, cut to [`MAX_KEY_BYTES`].
    pub(super) first: Option<Vec<u8>>,
    /// Number of words, including the name.
    pub(super) words: u64,
    /// The messages that it pushes.
    pub(super) messages: Vec<PassedMessage>,
}

impl Command {
    fn upper_name(&self) -> String {
        text(&self.name, MAX_NAME_BYTES).to_ascii_uppercase()
    }

    fn first_text(&self) -> Option<String> {
        self.first.as_deref().map(|first| text(first, MAX_KEY_BYTES))
    }

    /// Whether replies can no longer be paired after this command.
    pub(super) fn ends_pairing(&self) -> bool {
        let is = |known: &str| self.name.eq_ignore_ascii_case(known.as_bytes());
        // CLIENT REPLY suppresses replies.
        let reply =
            || self.first.as_ref().is_some_and(|first| first.eq_ignore_ascii_case(b"reply"));
        ENDING.into_iter().any(is) || (is("CLIENT") && reply())
    }

    /// The database that the command selects.
    pub(super) fn selects(&self) -> Option<u32> {
        let selects = self.name.eq_ignore_ascii_case(b"SELECT");
        if selects { self.first_text()?.parse().ok() } else { None }
    }

    /// The request for this command in the given database.
    pub(super) fn request(&self, database: Option<u32>, hide: Hidden) -> Request {
        let mut operation = Some(self.upper_name())
            .filter(|name| is_command(name))
            .unwrap_or_else(|| NO_NAME.to_owned());
        let mut shown = operation.clone();
        let mut hidden = self.words.saturating_sub(1);
        if let Some(first) = self.first_text().filter(|_| operation != NO_NAME) {
            if CONTAINERS.contains(&operation.as_str()) {
                let first = first.to_ascii_uppercase();
                if is_subcommand(&first) {
                    operation = format!("{operation} {first}");
                    shown.clone_from(&operation);
                    hidden = hidden.saturating_sub(1);
                }
            } else if !hide.keys && !WITHOUT_KEY.contains(&operation.as_str()) {
                shown.push(' ');
                shown.push_str(&redaction::keyed_name(&first));
                hidden = hidden.saturating_sub(1);
            }
        }
        for _ in 0..hidden.min(MAX_ARGUMENTS_SHOWN) {
            shown.push_str(" ?");
        }
        if hidden > MAX_ARGUMENTS_SHOWN {
            shown.push_str(" ...");
        }
        let mut attributes = Attributes::with_capacity(4);
        let mut add = |key: &'static str, value: String| {
            attributes.push((key, AttributeValue::String(value)));
        };
        add("db.system.name", "redis".to_owned());
        add("db.operation.name", operation.clone());
        add("db.query.text", shown);
        if let Some(database) = database {
            add("db.namespace", database.to_string());
        }
        let mut request = Request::new(operation);
        request.attributes = attributes;
        request.messages.clone_from(&self.messages);
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Command {
        Command {
            name: words[0].into(),
            first: words.get(1).map(|first| first.as_bytes().to_vec()),
            words: words.len() as u64,
            messages: Vec::new(),
        }
    }

    fn shown(words: &[&str]) -> String {
        let request = command(words).request(None, Hidden::default());
        let query = request.attributes.iter().find(|(key, _)| *key == "db.query.text").unwrap();
        format!("{} | {}", request.operation, query.1)
    }

    #[test]
    fn the_key_is_shown_and_values_are_not() {
        assert_eq!(shown(&["set", "user:1", "secret"]), "SET | SET user:1 ?");
        assert_eq!(shown(&["AUTH", "user", "secret"]), "AUTH | AUTH ? ?");
        assert_eq!(shown(&["EVAL", "return 'secret'", "0"]), "EVAL | EVAL ? ?");
        assert_eq!(shown(&["PING"]), "PING | PING");
        assert_eq!(shown(&["config", "get", "maxmemory"]), "CONFIG GET | CONFIG GET ?");
        let many: Vec<&str> = std::iter::once("DEL").chain(std::iter::repeat_n("k", 20)).collect();
        assert_eq!(shown(&many), "DEL | DEL k ? ? ? ? ? ? ? ? ...");
    }

    #[test]
    fn what_can_be_no_name_is_not_shown() {
        let long = "x".repeat(MAX_NAME_BYTES);
        for name in ["", "pass word", "\u{1}\u{2}", "{\"a\":1}", "-1", &long] {
            assert_eq!(shown(&[name, "secret"]), "REDIS | REDIS ?", "{name}");
        }
        assert_eq!(shown(&["hunter2", "a"]), "REDIS | REDIS ?", "no command at all");
        assert_eq!(shown(&["json.set", "a"]), "JSON.SET | JSON.SET a");
        assert_eq!(shown(&["ACL", "hunter2"]), "ACL | ACL ?");
        assert_eq!(shown(&["GET", "session:hunter2"]), "GET | GET session:REDACTED");
        let hidden = Hidden { keys: true, ..Hidden::default() };
        let request = command(&["GET", "user:1"]).request(None, hidden);
        assert_eq!(request.attributes[2], ("db.query.text", "GET ?".into()));
    }

    #[test]
    fn pairing_ends_where_no_replies_come() {
        for words in [&["PSYNC", "c"][..], &["MONITOR"], &["CLIENT", "REPLY", "OFF"]] {
            assert!(command(words).ends_pairing());
        }
        for words in [&["SUBSCRIBE", "c"][..], &["CLIENT", "LIST"], &["QUIT"]] {
            assert!(!command(words).ends_pairing());
        }
    }
}
