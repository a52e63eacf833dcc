//! Text for people, such as error messages and client names. No format says which words are values.

use std::borrow::Cow;

use super::names::{Secrecy, secrecy};
use super::{REDACTED, Rewriter, shapes};

/// Words that can follow a name in a sentence and are not its value.
const NO_VALUES: [&str; 30] = [
    "yes",
    "no",
    "true",
    "false",
    "null",
    "none",
    "nil",
    "on",
    "off",
    "invalid",
    "expired",
    "missing",
    "required",
    "unexpected",
    "empty",
    "unknown",
    "not",
    "is",
    "must",
    "cannot",
    "failed",
    "failure",
    "error",
    "the",
    "a",
    "an",
    "wrong",
    "denied",
    "bad",
    "authentication",
];
/// Schemes that precede the credentials in a header.
const SCHEMES: [&str; 4] = ["bearer", "basic", "negotiate", "digest"];
/// URI schemes whose addresses belong to people.
const OF_PEOPLE: [&str; 4] = ["mailto", "sip", "acct", "xmpp"];

const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'[' | b']' | b'%')
}

const fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

const fn ends_value(byte: u8) -> bool {
    byte <= b' '
        || is_quote(byte)
        || matches!(byte, b',' | b';' | b'&' | b'#' | b')' | b']' | b'}' | b'<' | b'>' | b'|')
}

/// Removes from a text: values of secret names, credentials in addresses and headers, tokens, and
/// card numbers.
pub(crate) fn prose(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut kept = Rewriter::of(text);
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let next = match byte {
            b'=' | b':' => value_after(text, at),
            b'@' => before_host(text, at, kept.done()),
            _ if byte.is_ascii_alphanumeric() => {
                let end = run(bytes, at, |byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~' | b'+')
                });
                match of_run(text, at, end) {
                    Some(found) => Some(found),
                    None => {
                        at = end;
                        continue;
                    }
                }
            }
            _ => None,
        };
        match next {
            Some((from, to)) => {
                kept.replace(from, to, REDACTED);
                at = to.max(at + 1);
            }
            None => at += 1,
        }
    }
    kept.finish()
}

/// The role of a byte in a client name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    InWord,
    Special,
    Other,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Other; 256];
    let mut byte = 0;
    while byte < kinds.len() {
        kinds[byte] = match byte as u8 {
            b'=' | b'@' | b':' => Kind::Special,
            b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => Kind::InWord,
            _ => Kind::Other,
        };
        byte += 1;
    }
    kinds
};

/// Redacts a client name, which every request may have. A fast check suffices for most names.
pub(crate) fn client_name(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let (mut looks, mut run) = (false, 0u32);
    for (at, byte) in bytes.iter().enumerate() {
        let kind = KINDS[usize::from(*byte)];
        run = if kind == Kind::InWord { run + 1 } else { 0 };
        looks |= kind == Kind::Special || run >= 16;
        if *byte == b' ' {
            let before = &bytes[..at];
            looks |= before.ends_with(b"earer") || before.ends_with(b"asic");
        }
    }
    if looks { prose(text) } else { Cow::Borrowed(text) }
}

fn run(bytes: &[u8], from: usize, go_on: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|byte| !go_on(*byte)).map_or(bytes.len(), |found| from + found)
}

/// The value of a secret name before this `=` or `:`.
fn value_after(text: &str, at: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    // `a::b`, and the scheme of an address.
    if bytes[at] == b':' && matches!(bytes.get(at + 1), Some(b':' | b'/')) {
        return None;
    }
    let skip = |byte: u8| byte == b' ' || byte == b'\\' || is_quote(byte);
    let name_end = bytes[..at].iter().rposition(|byte| !skip(*byte))? + 1;
    let name_at = bytes[..name_end].iter().rposition(|byte| !is_name(*byte));
    let name_at = name_at.map_or(0, |before| before + 1);
    let secrecy = secrecy(&text[name_at..name_end]);
    if secrecy == Secrecy::No {
        return None;
    }
    let more = |byte: u8| matches!(byte, b' ' | b'\\' | b'=' | b'>');
    let mut from = run(bytes, at + 1, more);
    let mut to = match bytes.get(from) {
        Some(quote) if is_quote(*quote) => {
            let quote = *quote;
            from += 1;
            run(bytes, from, |byte| byte != quote && byte != b'\\')
        }
        _ => run(bytes, from, |byte| !ends_value(byte)),
    };
    // A scheme may precede the credentials in a header.
    if is_among(&SCHEMES, &text[from..to]) {
        to = run(bytes, (to + 1).min(bytes.len()), |byte| !ends_value(byte));
    }
    let value = &text[from..to];
    if value.starts_with(REDACTED) {
        return None;
    }
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let is_value = match secrecy {
        Secrecy::Yes => !value.is_empty() && !is_among(&NO_VALUES, value),
        // The words `code` and `key` may also be followed by an ordinary value.
        _ => value.len() >= 20 || (digits > 0 && value.len() > 3),
    };
    is_value.then_some((from, to))
}

fn is_among(list: &[&str], word: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// The user information before this `@`, if it may contain a password.
fn before_host(text: &str, at: usize, done: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let goes_on =
        |byte: u8| byte > b' ' && !matches!(byte, b'"' | b'\'' | b'`' | b'<' | b'>' | b'(');
    let from = bytes[done..at].iter().rposition(|byte| !goes_on(*byte));
    let from = from.map_or(done, |before| done + before + 1);
    let before = &text[from..at];
    if let Some(slashes) = before.find("//") {
        let user = &before[slashes + 2..];
        // A path may also contain an `@`: `//host:80/@scope`.
        let host = user.find('/').is_some_and(|slash| {
            let port = user[..slash].split_once(':').map_or("", |(_, port)| port);
            port.bytes().all(|byte| byte.is_ascii_digit())
        });
        return (!host && !user.is_empty()).then_some((from + slashes + 2, at));
    }
    let (user, password) = before.split_once(':')?;
    let people = user.is_empty() || is_among(&OF_PEOPLE, user) || password.is_empty();
    (!people).then_some((at - password.len(), at))
}

/// Checks the run of letters and digits that begins here. Credentials may follow it.
fn of_run(text: &str, at: usize, end: usize) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let found = &text[at..end];
    if is_among(&SCHEMES, found) && bytes.get(end) == Some(&b' ') {
        let to = run(bytes, end + 1, |byte| !ends_value(byte));
        // `Basic authentication` has no credentials.
        return (to > end + 8 && !shapes::is_plain(&bytes[end + 1..to])).then_some((end + 1, to));
    }
    if shapes::is_token(found.as_bytes()) {
        return Some((at, end));
    }
    if bytes[at].is_ascii_digit() {
        let card = run(bytes, at, |byte| byte.is_ascii_digit() || matches!(byte, b' ' | b'-'));
        let card =
            bytes[at..card].iter().rposition(u8::is_ascii_digit).map_or(at, |last| at + last + 1);
        let ends = bytes.get(card).is_none_or(|byte| !byte.is_ascii_alphanumeric());
        if ends && shapes::is_card_number(&bytes[at..card]) {
            return Some((at, card));
        }
    }
    None
}

/// Quotation marks of the languages in which servers write messages.
const QUOTES: [char; 15] =
    ['`', '\'', '"', '«', '»', '„', '“', '”', '‘', '’', '‚', '‹', '›', '「', '」'];

/// Removes from a server's message everything between the first and the last quote or brace,
/// because values may contain quotes or braces themselves.
pub(crate) fn without_quoted(message: &str) -> Cow<'_, str> {
    without(message, &QUOTES)
}

/// Like [`without_quoted`], for servers that put only names in backticks.
pub(crate) fn without_values(message: &str) -> Cow<'_, str> {
    without(message, &QUOTES[1..])
}

fn without<'a>(message: &'a str, quotes: &[char]) -> Cow<'a, str> {
    // Most messages have no quotes or braces.
    if !message.bytes().any(may_mark) {
        return Cow::Borrowed(message);
    }
    let braces = between(message, &['{', '}'], "{?}");
    match between(&braces, quotes, "'?'") {
        Cow::Owned(changed) => Cow::Owned(changed),
        Cow::Borrowed(_) => braces,
    }
}

/// Whether this byte is or begins a quote or a brace.
const fn may_mark(byte: u8) -> bool {
    is_quote(byte) || matches!(byte, b'{' | b'}') || !byte.is_ascii()
}

fn between<'a>(text: &'a str, marks: &[char], instead: &str) -> Cow<'a, str> {
    let Some(first) = text.find(marks) else { return Cow::Borrowed(text) };
    let rest = match text.rmatch_indices(marks).next() {
        Some((last, mark)) if last > first => &text[last + mark.len()..],
        // The message was cut off.
        _ => "",
    };
    Cow::Owned([&text[..first], instead, rest].concat())
}

/// Redacts a message that a program has composed and that may contain any value: removes quoted
/// text, text after a colon or an equals sign, and words with digits.
pub(crate) fn own_words(message: &str) -> String {
    let message = without_quoted(message);
    let mut shown = String::with_capacity(message.len());
    for (index, word) in message.split(' ').enumerate() {
        if index > 0 {
            shown.push(' ');
        }
        let value = word.bytes().any(|byte| byte.is_ascii_digit() || byte == b'@' || byte == b'/');
        shown.push_str(if value { "?" } else { word });
        if word.ends_with([':', '=']) {
            shown.push_str(" ?");
            break;
        }
        if let Some(at) = word.find([':', '=']).filter(|_| !value) {
            shown.truncate(shown.len() - word.len() + at + 1);
            shown.push('?');
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_messages_go() {
        let cases = [
            (
                "login failed: password=hunter2, user=bob",
                "login failed: password=REDACTED, user=bob",
            ),
            ("invalid password: hunter2", "invalid password: REDACTED"),
            ("{\"password\": \"hun ter2\", \"a\": 1}", "{\"password\": \"REDACTED\", \"a\": 1}"),
            ("{\\\"token\\\":\\\"abc\\\"}", "{\\\"token\\\":\\\"REDACTED\\\"}"),
            ("Authorization: Bearer abc.def", "Authorization: REDACTED"),
            ("sent Bearer abcdefgh1 to it", "sent Bearer REDACTED to it"),
            ("cannot reach http://bob:pw@host:80/a", "cannot reach http://REDACTED@host:80/a"),
            ("dsn //bob:p/w@host/a", "dsn //REDACTED@host/a"),
            ("dsn bob:pw@tcp(h:3306)/db", "dsn bob:REDACTED@tcp(h:3306)/db"),
            ("card 4111 1111 1111 1111 refused", "card REDACTED refused"),
            ("no eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "no REDACTED"),
            ("GET /x?access_token=abc HTTP", "GET /x?access_token=REDACTED HTTP"),
            ("code=SplxlOBeZQQYbYS6", "code=REDACTED"),
            ("token => abc", "token => REDACTED"),
        ];
        for (text, expected) in cases {
            assert_eq!(prose(text), expected, "{text}");
        }
    }

    #[test]
    fn what_messages_say_otherwise_stays() {
        for text in [
            "Access denied for user 'bob'@'localhost' (using password: YES)",
            "rpc error: code = Unauthenticated desc = token expired",
            "dial tcp 10.0.0.1:443: connect: connection refused",
            "exit code: 137",
            "password authentication failed for user \"bob\"",
            "mailto:bob@example.com",
            "see https://cdn:443/npm/@scope/a@1.0",
            "Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0",
            "keyboard: missing, monkey=1, tokenizer: bpe",
            "std::auth::login failed",
            "Basic authentication is required",
            "order 4711 of 2026-11-21 not found",
            "",
            "größer: 5 °C",
        ] {
            let kept = prose(text);
            assert!(matches!(kept, Cow::Borrowed(_)), "{text} became {kept}");
        }
    }

    #[test]
    fn what_is_quoted_goes_from_the_first_quote_to_the_last() {
        let cases = [
            ("near 'a 'b' at line 1", "near '?' at line 1"),
            ("ungültig: »geheim«", "ungültig: '?'"),
            ("cut \"gehe", "cut '?'"),
            ("dup key: { email: \"gehe}im\" } of it", "dup key: {?} of it"),
            ("plain", "plain"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_quoted(text), expected);
        }
    }

    #[test]
    fn own_words_keep_words() {
        let cases = [
            ("wrong password hunter2 of bob", "wrong password ? of bob"),
            ("not enough: geheim is left", "not enough: ?"),
            ("a=geheim b", "a=? b"),
            ("stock of 'geheim' is empty", "stock of '?' is empty"),
        ];
        for (text, expected) in cases {
            assert_eq!(own_words(text), expected);
        }
    }
}
