//! Control lines of the NATS client protocol
//! (docs.nats.io/reference/reference-protocols/nats-protocol).

use crate::bytes::{Side, text};
use crate::parser::Likeness;

/// Maximum length of a control line. By default, NATS has the same limit for lines from clients.
pub(super) const MAX_LINE_BYTES: usize = 4096;
/// Maximum plausible message length (NATS allows at most 64 MiB).
const MAX_PAYLOAD_BYTES: u64 = 1 << 26;
/// Maximum length of an error's reason.
const MAX_REASON_BYTES: usize = 256;

/// A message to or from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) subject: Vec<u8>,
    /// Id of the receiving subscription, in a message from the server.
    pub(super) subscription: Vec<u8>,
    /// Reply subject.
    pub(super) reply: Vec<u8>,
    /// Length of the headers, and of headers plus payload without the line end.
    pub(super) header_bytes: u64,
    pub(super) bytes: u64,
}

/// The content of a control line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operation {
    Connect { verbose: bool },
    Info,
    Ping,
    Pong,
    Ok,
    Err(String),
    Subscribe { queue: Vec<u8>, subscription: Vec<u8> },
    Unsubscribe { subscription: Vec<u8> },
    Message(Message),
}

fn number(word: &[u8]) -> Option<u64> {
    let plain = !word.is_empty() && word.len() <= 8 && word.iter().all(u8::is_ascii_digit);
    plain.then(|| std::str::from_utf8(word).ok()?.parse().ok()).flatten()
}

/// Whether this is a valid subject: no control characters, no empty levels.
fn is_subject(word: &[u8]) -> bool {
    !word.is_empty()
        && word.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
        && !word.starts_with(b".")
        && !word.ends_with(b".")
}

/// Parses a line without its line end. Returns `None` if the line is not valid for this side.
pub(super) fn parse(side: Side, line: &[u8]) -> Option<Operation> {
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let name = words.next()?.to_ascii_uppercase();
    let rest: &[u8] = line.get(name.len()..).unwrap_or_default().trim_ascii();
    let client = side == Side::Request;
    if let b"CONNECT" | b"INFO" | b"-ERR" = name.as_slice() {
        return match (name.as_slice(), rest.first()) {
            (b"CONNECT", Some(b'{')) if client => {
                let verbose = memchr::memmem::find(rest, b"\"verbose\":true").is_some();
                Some(Operation::Connect { verbose })
            }
            (b"INFO", Some(b'{')) if !client => Some(Operation::Info),
            (b"-ERR", _) if !client => {
                Some(Operation::Err(text(rest, MAX_REASON_BYTES).trim_matches('\'').to_owned()))
            }
            _ => None,
        };
    }
    let words: Vec<&[u8]> = words.take(6).collect();
    let headers = name.starts_with(b"H");
    let operation = match (name.as_slice(), words.as_slice()) {
        (b"PING", []) => Operation::Ping,
        (b"PONG", []) => Operation::Pong,
        (b"+OK", []) if !client => Operation::Ok,
        (b"SUB", [subject, rest @ .., id]) if client && rest.len() <= 1 && is_subject(subject) => {
            let queue = rest.first().copied().unwrap_or_default().to_vec();
            Operation::Subscribe { queue, subscription: id.to_vec() }
        }
        (b"UNSUB", [id] | [id, _]) if client => {
            let _most = words.get(1).map_or(Some(0), |word| number(word))?;
            Operation::Unsubscribe { subscription: id.to_vec() }
        }
        (b"PUB" | b"HPUB", [subject, rest @ ..]) if client => {
            Operation::Message(message(subject, b"", rest, headers)?)
        }
        (b"MSG" | b"HMSG", [subject, id, rest @ ..]) if !client => {
            Operation::Message(message(subject, id, rest, headers)?)
        }
        _ => return None,
    };
    Some(operation)
}

fn message(subject: &[u8], id: &[u8], rest: &[&[u8]], headers: bool) -> Option<Message> {
    let sizes = if headers { 2 } else { 1 };
    let (reply, sizes) = rest.split_at_checked(rest.len().checked_sub(sizes)?)?;
    let reply: &[u8] = match reply {
        [] => b"",
        [reply] if is_subject(reply) => reply,
        _ => return None,
    };
    let (first, bytes) = (number(sizes.first()?)?, number(sizes.last()?)?);
    let header_bytes = if headers { first } else { 0 };
    let possible = is_subject(subject) && header_bytes <= bytes && bytes <= MAX_PAYLOAD_BYTES;
    possible.then(|| Message {
        subject: subject.to_vec(),
        subscription: id.to_vec(),
        reply: reply.to_vec(),
        header_bytes,
        bytes,
    })
}

/// Lines by which a running connection is recognised, and lines that begin one.
const fn names(side: Side) -> &'static [&'static [u8]] {
    match side {
        Side::Request => &[b"CONNECT {", b"PUB ", b"HPUB ", b"SUB ", b"UNSUB "],
        Side::Response => &[b"INFO {", b"MSG ", b"HMSG "],
    }
}

/// Whether bytes look like the start of a message. Lines that other protocols also use are not
/// sufficient.
pub(super) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    let mut rest = bytes;
    loop {
        // These lines may be long, and no other protocol begins like this.
        if rest.starts_with(b"CONNECT {") && side == Side::Request
            || rest.starts_with(b"INFO {") && side == Side::Response
        {
            return Likeness::Yes;
        }
        let Some(end) = memchr::memchr(b'\n', rest) else {
            let common = |name: &&&[u8]| {
                rest[..rest.len().min(name.len())] == name[..rest.len().min(name.len())]
            };
            let shared: [&[u8]; 4] = [b"PING\r\n", b"PONG\r\n", b"+OK\r\n", b"-ERR "];
            let begun = names(side).iter().chain(&shared).any(|name| common(&name));
            let plain = rest.iter().all(|byte| *byte >= b' ' || matches!(byte, b'\t' | b'\r'));
            return if begun && plain && rest.len() < MAX_LINE_BYTES {
                partly
            } else {
                Likeness::No
            };
        };
        let Some(line) = rest[..end].strip_suffix(b"\r") else { return Likeness::No };
        match parse(side, line) {
            Some(Operation::Ping | Operation::Pong | Operation::Ok | Operation::Err(_)) => {
                rest = &rest[end + 1..];
            }
            Some(Operation::Message(message)) => {
                let tail = rest.get(end + 1 + message.bytes as usize..).unwrap_or_default();
                let ended = tail.iter().zip(b"\r\n").all(|(found, wanted)| found == wanted);
                return if ended { Likeness::Yes } else { Likeness::No };
            }
            Some(_) => return Likeness::Yes,
            None => return Likeness::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(side: Side, line: &str) -> Option<Operation> {
        parse(side, line.as_bytes())
    }

    #[test]
    fn lines_are_read() {
        let found = operation(Side::Request, "PUB a.b _INBOX.x 12").unwrap();
        let message = Message {
            subject: b"a.b".to_vec(),
            subscription: Vec::new(),
            reply: b"_INBOX.x".to_vec(),
            header_bytes: 0,
            bytes: 12,
        };
        assert_eq!(found, Operation::Message(message.clone()));
        let message = Message { header_bytes: 10, subscription: b"7".to_vec(), ..message };
        let found = operation(Side::Response, "HMSG a.b 7 _INBOX.x 10 12");
        assert_eq!(found, Some(Operation::Message(message)));
        let found = operation(Side::Request, "SUB a.* workers 7");
        let (queue, subscription) = (b"workers".to_vec(), b"7".to_vec());
        assert_eq!(found, Some(Operation::Subscribe { queue, subscription }));
        let found = operation(Side::Request, "connect {\"verbose\":true}");
        assert_eq!(found, Some(Operation::Connect { verbose: true }));
        let found = operation(Side::Response, "-ERR 'Unknown Protocol Operation'");
        assert_eq!(found, Some(Operation::Err("Unknown Protocol Operation".to_owned())));
    }

    #[test]
    fn what_a_side_may_not_say_is_nothing() {
        for line in [
            "MSG a 1 5",
            "PUB a",
            "PUB a b c 5",
            "PUB .a 5",
            "PUB a 999999999",
            "PUB a -1",
            "HPUB a 9 5",
            "INFO {}",
            "CONNECT x:80",
            "GET a",
            "+OK",
            "UNSUB 1 x",
            "",
        ] {
            assert_eq!(operation(Side::Request, line), None, "{line}");
        }
        for line in ["PUB a 5", "MSG a 5", "INFO x", "CONNECT {}", "SUB a 1"] {
            assert_eq!(operation(Side::Response, line), None, "{line}");
        }
    }

    #[test]
    fn connections_are_recognised_from_the_beginning_and_under_way() {
        use Likeness::{Maybe, No, Yes};
        let request = |bytes: &[u8]| recognise(Side::Request, bytes, true);
        let response = |bytes: &[u8]| recognise(Side::Response, bytes, true);
        assert_eq!(response(b"INFO {\"server_id\":"), Yes);
        assert_eq!(request(b"CONNECT {\"verbose\":"), Yes);
        assert_eq!(request(b"PUB a.b 5\r\nhello\r\nPUB"), Yes);
        assert_eq!(request(b"PUB a.b 5\r\nhello, you\r\n"), No);
        assert_eq!(response(b"PONG\r\nMSG a 1 2\r\nhe"), Yes);
        assert_eq!(response(b"PONG\r\n"), Maybe);
        assert_eq!(request(b"PING\r\n"), Maybe);
        let line = b"HPUB a.b 5 7\r\n";
        for end in 0..line.len() {
            assert_eq!(request(&line[..end]), Maybe, "{end}");
        }
        for foreign in [
            b"CONNECT example.com:443 HTTP/1.1\r\n".as_slice(),
            b"INFO\r\n",
            b"GET / HTTP/1.1\r\n",
            b"SUBSCRIBE a\r\n",
            b"PUB a 5\nhello",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        ] {
            assert_eq!((request(foreign), response(foreign)), (No, No));
        }
    }
}
