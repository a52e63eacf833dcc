//! Lines of Memcached's text protocol (doc/protocol.txt): commands and replies.

use super::command::{Form, MAX_KEY_BYTES, Shown, named};
use crate::bytes::text;
use crate::sessions::Failure;

/// A command's line, as far as it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) shown: Shown,
    pub(super) form: Form,
    /// Length of the value that follows the line.
    pub(super) data: Option<u64>,
    /// Whether it says that it wants no answer.
    pub(super) unanswered: bool,
    /// Whether only some answers are sent (the meta commands' flag `q`).
    pub(super) quiet: bool,
}

fn number(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn is_number(word: &[u8]) -> bool {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn is_key(word: &[u8]) -> bool {
    (1..=MAX_KEY_BYTES).contains(&word.len())
}

/// Flags of a meta command: a letter, and what belongs to it.
fn is_flag(word: &[u8]) -> bool {
    word.first().is_some_and(u8::is_ascii_alphabetic)
}

impl Command {
    /// Reads a line, of which `words` in all may not all be there. `None` where it
    /// is no command.
    pub(super) fn read(line: &[u8], words: u64) -> Option<Self> {
        if line.iter().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\r' | b'\n')) {
            return None;
        }
        let mut rest = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let (name, form) = named(rest.next()?)?;
        let arguments: Vec<&[u8]> = rest.collect();
        let argument = |at: usize| arguments.get(at).copied();
        let noreply = arguments.last().is_some_and(|last| *last == b"noreply");
        let meta = matches!(form, Form::MetaKey | Form::MetaStorage);
        let flags = &arguments[arguments.len().min(1)..];
        let (key, hidden) = match form {
            Form::Storage | Form::MetaStorage => (argument(0), 1),
            Form::Keys | Form::MetaKey => (argument(0), words.saturating_sub(2)),
            Form::TimeAndKeys => (argument(1), words.saturating_sub(2)),
            Form::Key => (argument(0), words.saturating_sub(2 + u64::from(noreply))),
            // A name of statistics, a subcommand: these are few.
            Form::Words => match argument(0).filter(|word| is_flag(word) && *word != b"noreply") {
                Some(word) => (Some(word), words.saturating_sub(2 + u64::from(noreply))),
                None => (None, words.saturating_sub(1 + u64::from(noreply))),
            },
            Form::Unanswered | Form::Stream => (None, 0),
        };
        let data = match form {
            Form::Storage => argument(3).and_then(number),
            Form::MetaStorage => argument(1).and_then(number),
            _ => None,
        };
        Some(Self {
            shown: Shown {
                name,
                key: key.map(|key| key[..key.len().min(MAX_KEY_BYTES)].to_vec()),
                hidden,
            },
            form,
            data,
            unanswered: form == Form::Unanswered || (noreply && !meta),
            quiet: meta && flags.contains(&&b"q"[..]),
        })
    }
}

/// Whether a complete line is a command, judged strictly.
pub(super) fn is_command(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.iter().any(u8::is_ascii_control) || line.ends_with(b" ") {
        return false;
    }
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let Some((name, form)) = words.next().and_then(named) else { return false };
    let words: Vec<&[u8]> = words.collect();
    match (form, words.as_slice()) {
        (Form::Keys, [_, ..]) => words.iter().all(|key| is_key(key)),
        (Form::TimeAndKeys, [time, keys @ ..]) => is_number(time) && !keys.is_empty(),
        (Form::Storage, [key, flags, time, length, rest @ ..]) => {
            is_key(key) && [flags, time, length].into_iter().all(|word| is_number(word)) && {
                match rest {
                    [] | [b"noreply"] => true,
                    [unique] | [unique, b"noreply"] => is_number(unique),
                    _ => false,
                }
            }
        }
        // What is added, or a time, which `delete` may have been given of old.
        (Form::Key, [key, rest @ ..]) => {
            let numbers = rest.strip_suffix(&[&b"noreply"[..]]).unwrap_or(rest);
            let right = if name == "delete" { 0..=1 } else { 1..=1 };
            is_key(key) && right.contains(&numbers.len()) && numbers.iter().all(|n| is_number(n))
        }
        (Form::MetaKey, [key, flags @ ..]) => is_key(key) && flags.iter().all(|flag| is_flag(flag)),
        (Form::MetaStorage, [key, length, flags @ ..]) => {
            is_key(key) && is_number(length) && flags.iter().all(|flag| is_flag(flag))
        }
        (Form::Words, words) => words.len() <= 4,
        (Form::Unanswered, []) => true,
        (Form::Stream, words) => words.len() <= 4,
        _ => false,
    }
}

/// What a line of a reply is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply {
    /// A value of this length follows, and more lines.
    Value(u64),
    /// A value of this length follows, and ends the reply.
    LastValue(u64),
    /// One of several.
    Part,
    /// The last line of values or statistics.
    End,
    /// The reply to `mn`, which ends what was asked quietly.
    Noop,
    /// The only line.
    Only,
    /// The only line: the command failed.
    Error(Failure),
}

/// Reads a line of a reply, without its end; `None` where it is none.
pub(super) fn reply(line: &[u8]) -> Option<Reply> {
    let mut words = line.split(|byte| *byte == b' ');
    let word = words.next()?;
    Some(match word {
        b"VALUE" => Reply::Value(number(words.nth(2)?)?),
        b"VA" => Reply::LastValue(number(words.next()?)?),
        b"STAT" | b"ITEM" => Reply::Part,
        b"END" => Reply::End,
        b"MN" => Reply::Noop,
        b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => {
            let kind = text(word, 16);
            Reply::Error(Failure { kind, message: text(line, 256) })
        }
        b"STORED" | b"NOT_STORED" | b"EXISTS" | b"NOT_FOUND" | b"DELETED" | b"TOUCHED" | b"OK"
        | b"RESET" | b"VERSION" | b"BUSY" | b"BADCLASS" | b"NOSPARE" | b"NOTFULL" | b"UNSAFE"
        | b"SAME" | b"HD" | b"EN" | b"NF" | b"NS" | b"EX" | b"ME" => Reply::Only,
        _ if word.starts_with(b"key=") => Reply::Part,
        // The result of `incr`; shorter numbers may be followed by blanks.
        _ if is_number(word) && word.len() <= 20 => Reply::Only,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Command {
        let words = line.split_ascii_whitespace().count() as u64;
        Command::read(line.as_bytes(), words).unwrap()
    }

    #[test]
    fn keys_are_shown_and_values_counted() {
        let set = read("set user:1 0 60 5 noreply");
        assert_eq!((set.shown.key.as_deref(), set.data), (Some(&b"user:1"[..]), Some(5)));
        assert!(set.unanswered && !set.quiet);
        let get = read("get a b c");
        assert_eq!((get.shown.name, get.shown.hidden), ("get", 2));
        assert_eq!(read("gat 10 a").shown.key.as_deref(), Some(&b"a"[..]));
        let meta = read("ms a 2 T0 q");
        assert_eq!((meta.data, meta.quiet), (Some(2), true));
        assert!(!read("mg q v").quiet, "a key called q");
        assert_eq!(Command::read(b"GET a", 2), None);
        assert_eq!(Command::read(b"get \x01", 2), None);
    }

    #[test]
    fn commands_are_told_from_other_lines() {
        for line in [
            "get a",
            "set a 0 -1 10",
            "cas a 0 0 1 77 noreply",
            "delete a noreply",
            "incr a 1",
            "gats 0 a b",
            "mg a v t",
            "ms a 3 c",
            "mn",
            "stats items",
            "flush_all 0 noreply",
            "quit",
        ] {
            assert!(is_command(line.as_bytes()), "{line}");
        }
        for line in [
            "GET a",
            "get",
            "set a b c d",
            "quit now",
            "mg a 1",
            "hello",
            "delete a b",
            "touch 1",
            "",
        ] {
            assert!(!is_command(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn lines_of_replies_are_told_apart() {
        assert_eq!(reply(b"VALUE a 0 5"), Some(Reply::Value(5)));
        assert_eq!(reply(b"VALUE a 0 5 77"), Some(Reply::Value(5)));
        assert_eq!(reply(b"VA 2 t0"), Some(Reply::LastValue(2)));
        assert_eq!(reply(b"42"), Some(Reply::Only));
        assert!(matches!(reply(b"SERVER_ERROR out of memory"), Some(Reply::Error(_))));
        assert_eq!(reply(b"HTTP/1.1 200 OK"), None);
        assert_eq!(reply(b""), None);
    }
}
