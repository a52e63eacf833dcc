//! Memcached, in its text protocol and in the binary one. Which of the two a
//! connection speaks, its first byte says.

mod binary;
mod command;
mod line;
mod text_protocol;

use spanwise_model::protocol;

use self::binary::Binary;
use self::text_protocol::Text;
use crate::bytes::{Input, Side};
use crate::framing::driver::drive;
use crate::parser::{Known, Likeness, Outcome, Protocol};
use crate::sessions::Conversation;

/// Memcached, to whoever tells protocols apart. Its commands are in lower case,
/// as those that drivers of Redis send are not.
pub(crate) const KNOWN: Known = Known {
    name: "memcached",
    recognise,
    parser: |_| Box::new(Memcached { spoken: Spoken::Unknown }),
};

/// Bytes in which a first line must end.
const MAX_FIRST_LINE_BYTES: usize = 512;

/// The parser of one connection.
struct Memcached {
    spoken: Spoken,
}

#[expect(clippy::large_enum_variant, reason = "a connection has one, and most speak text")]
enum Spoken {
    /// Nothing was said yet.
    Unknown,
    Text(Text),
    Binary(Binary),
}

/// Whether bytes look like the beginning of a message.
fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    let Some(first) = bytes.first() else { return partly };
    if matches!(first, 0x80 | 0x81) {
        return binary::recognise(side, bytes, whole);
    }
    match (side, memchr::memchr(b'\n', bytes)) {
        (Side::Request, Some(end)) => {
            if line::is_command(&bytes[..end]) {
                Likeness::Yes
            } else {
                Likeness::No
            }
        }
        (Side::Request, None) => {
            let end = memchr::memchr2(b' ', b'\r', bytes);
            let known = match end {
                Some(end) => command::named(&bytes[..end]).is_some(),
                None => command::begins(bytes),
            };
            let printable = bytes.iter().all(|byte| !byte.is_ascii_control() || *byte == b'\r');
            // So many keys that the line's end was not captured.
            let keys = bytes.starts_with(b"get ") || bytes.starts_with(b"gets ");
            match known && printable {
                true if keys && bytes.len() > MAX_FIRST_LINE_BYTES => Likeness::Yes,
                true if bytes.len() <= MAX_FIRST_LINE_BYTES => partly,
                _ => Likeness::No,
            }
        }
        (Side::Response, Some(end)) => {
            let line = &bytes[..end];
            let alone = end + 1 == bytes.len();
            let value = line.starts_with(b"VALUE ")
                && line.split(|byte| *byte == b' ').count() >= 4
                && matches!(line::reply(line.trim_ascii_end()), Some(line::Reply::Value(_)));
            let status: &[&[u8]] = &[
                b"STORED\r",
                b"NOT_STORED\r",
                b"DELETED\r",
                b"TOUCHED\r",
                b"NOT_FOUND\r",
                b"END\r",
            ];
            if value || (alone && status.contains(&line)) { Likeness::Yes } else { Likeness::No }
        }
        (Side::Response, None) => {
            let begins = |word: &[u8]| word.starts_with(bytes) || bytes.starts_with(word);
            let known =
                [&b"VALUE "[..], b"STORED\r", b"NOT_", b"DELETED\r", b"TOUCHED\r", b"END\r"];
            if bytes.len() <= MAX_FIRST_LINE_BYTES && known.into_iter().any(begins) {
                partly
            } else {
                Likeness::No
            }
        }
    }
}

impl Protocol for Memcached {
    fn name(&self) -> &'static str {
        protocol::MEMCACHED
    }

    fn read(
        &mut self,
        side: Side,
        mut input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        if let (Spoken::Unknown, Some(first)) = (&self.spoken, input.bytes.first()) {
            self.spoken = match first {
                0x80 | 0x81 => Spoken::Binary(Binary::new()),
                _ => Spoken::Text(Text::new()),
            };
        }
        match &mut self.spoken {
            Spoken::Unknown => Outcome::Read,
            Spoken::Binary(binary) => drive(binary, side, input, conversation),
            Spoken::Text(text) => {
                while !input.is_empty() {
                    let outcome = match side {
                        Side::Request => text.read_request(&mut input, conversation),
                        Side::Response => text.read_response(&mut input, conversation),
                    };
                    if outcome != Outcome::Read {
                        return outcome;
                    }
                }
                Outcome::Read
            }
        }
    }

    fn turn(&mut self, to: Side, conversation: &mut Conversation<'_>) {
        match &mut self.spoken {
            Spoken::Unknown => {}
            Spoken::Text(text) => text.turn(to, conversation),
            Spoken::Binary(binary) => binary.turn(to, conversation),
        }
    }

    fn quiet(&mut self, conversation: &mut Conversation<'_>) {
        match &mut self.spoken {
            Spoken::Unknown => {}
            Spoken::Text(text) => text.quiet(conversation),
            Spoken::Binary(binary) => binary.quiet(conversation),
        }
    }

    fn closed(&mut self, conversation: &mut Conversation<'_>) {
        self.quiet(conversation);
    }

    fn between_responses(&self) -> bool {
        match &self.spoken {
            Spoken::Unknown => true,
            Spoken::Text(text) => text.between_responses(),
            Spoken::Binary(binary) => binary.between_responses(),
        }
    }

    fn held_bytes(&self) -> usize {
        match &self.spoken {
            Spoken::Unknown => 0,
            Spoken::Text(text) => text.held_bytes(),
            Spoken::Binary(binary) => binary.held_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_recognised() {
        let yes: [(Side, &[u8]); 7] = [
            (Side::Request, b"get a\r\n"),
            (Side::Request, b"set a 0 0 3\r\nabc\r\n"),
            (Side::Request, b"mg a v\r\nmn\r\n"),
            (Side::Request, b"version\r\n"),
            (Side::Response, b"VALUE a 0 3\r\nabc\r\nEND\r\n"),
            (Side::Response, b"STORED\r\n"),
            (Side::Response, b"END\r\n"),
        ];
        for (side, bytes) in yes {
            assert_eq!(recognise(side, bytes, true), Likeness::Yes, "{}", bytes.escape_ascii());
            let line = bytes.iter().position(|byte| *byte == b'\n').unwrap();
            for end in 0..line {
                let found = recognise(side, &bytes[..end], true);
                assert_eq!(found, Likeness::Maybe, "{}", bytes[..end].escape_ascii());
            }
        }
        let keys = [&b"get"[..], &b" key".repeat(300)].concat();
        assert_eq!(recognise(Side::Request, &keys, false), Likeness::Yes);
    }

    #[test]
    fn others_are_not() {
        let foreign: [&[u8]; 9] = [
            b"GET key\r\n",
            b"PING\r\n",
            b"*1\r\n$4\r\nPING\r\n",
            b"+OK\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"get \x01\r\n",
            b"settle\r\n",
            b"\x80\xff\x01",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        ];
        for bytes in foreign {
            for side in [Side::Request, Side::Response] {
                let found = recognise(side, bytes, true);
                assert_eq!(found, Likeness::No, "{}", bytes.escape_ascii());
            }
        }
    }
}
