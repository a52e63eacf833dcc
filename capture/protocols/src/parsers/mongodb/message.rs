//! Messages of MongoDB's wire protocol (MongoDB Manual, "MongoDB Wire Protocol"): a header of four
//! numbers, and content that depends on the opcode.

use super::bson::{self, Elements};
use crate::bytes::Side;
use crate::framing::{Framing, Measure};
use crate::parser::Likeness;

pub(super) const HEADER_BYTES: usize = 16;
/// Maximum bytes of a message's content that are read.
const MAX_CONTENT_BYTES: usize = 2048;
/// Maximum message length (MongoDB's `maxMessageSizeBytes` is 48 000 000).
const MAX_MESSAGE_BYTES: u32 = 64 << 20;

pub(super) const REPLY: u32 = 1;
pub(super) const UPDATE: u32 = 2001;
pub(super) const INSERT: u32 = 2002;
pub(super) const QUERY: u32 = 2004;
pub(super) const GET_MORE: u32 = 2005;
pub(super) const DELETE: u32 = 2006;
pub(super) const KILL_CURSORS: u32 = 2007;
pub(super) const COMPRESSED: u32 = 2012;
pub(super) const MESSAGE: u32 = 2013;

/// Flags of an OP_MSG.
const CHECKSUM_PRESENT: u32 = 1;
const MORE_TO_COME: u32 = 1 << 1;

/// The fields of a header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) length: u32,
    pub(super) id: u32,
    pub(super) response_to: u32,
    pub(super) opcode: u32,
}

impl Header {
    /// Reads a header; `None` if it is not valid for this side.
    pub(super) fn read(side: Side, bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let header = Self {
            length: number(0)?,
            id: number(4)?,
            response_to: number(8)?,
            opcode: number(12)?,
        };
        let right = match (side, header.opcode) {
            (_, MESSAGE | COMPRESSED) => (side == Side::Response) == (header.response_to != 0),
            (Side::Request, QUERY | GET_MORE | INSERT | UPDATE | DELETE | KILL_CURSORS) => {
                header.response_to == 0
            }
            (Side::Response, REPLY) => true,
            _ => false,
        };
        let fits = (HEADER_BYTES as u32 + 5..=MAX_MESSAGE_BYTES).contains(&header.length);
        (right && fits).then_some(header)
    }
}

/// The captured part of an OP_MSG.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    flags: u32,
    /// The command or the response.
    pub(super) body: Option<Elements<'a>>,
    /// Name of the first document sequence, besides the body.
    pub(super) sequence: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Reads the content of an OP_MSG; `None` if it is invalid.
    pub(super) fn read(content: &'a [u8]) -> Option<Self> {
        let flags = u32::from_le_bytes(*content.first_chunk()?);
        // Unknown flags in the lower half are not allowed.
        if flags & 0xffff & !(CHECKSUM_PRESENT | MORE_TO_COME) != 0 {
            return None;
        }
        let mut message = Self { flags, body: None, sequence: None };
        let mut rest = &content[4..];
        while let Some((kind, section)) = rest.split_first() {
            match kind {
                0 => {
                    message.body = Some(bson::document(section)?);
                    break;
                }
                1 => {
                    let Some(size) = section.first_chunk() else { break };
                    let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
                    let name = section.get(4..).unwrap_or_default();
                    let end = memchr::memchr(0, name).unwrap_or(name.len());
                    message.sequence.get_or_insert(&name[..end]);
                    rest = section.get(size..).unwrap_or_default();
                }
                _ => return None,
            }
        }
        Some(message)
    }

    /// In a request: there is no response. In a response: another one follows.
    pub(super) const fn more_to_come(&self) -> bool {
        self.flags & MORE_TO_COME != 0
    }
}

/// Framing of one side's messages.
#[derive(Debug)]
pub(super) struct Messages(pub(super) Side);

impl Framing for Messages {
    fn measure(&self, header: &[u8]) -> Measure {
        if header.len() < HEADER_BYTES {
            return Measure::Header(HEADER_BYTES);
        }
        match Header::read(self.0, header) {
            Some(header) => Measure::Content {
                bytes: u64::from(header.length) - HEADER_BYTES as u64,
                keep: MAX_CONTENT_BYTES,
            },
            None => Measure::Malformed,
        }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        recognise(self.0, bytes, true) == Likeness::Yes
    }
}

/// Whether bytes look like the start of a message.
pub(crate) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    if bytes.len() < HEADER_BYTES {
        // With too few bytes to decide, the length must at least be plausible.
        let plausible = bytes.get(2).is_none_or(|high| *high < 0x10)
            && bytes
                .get(3)
                .is_none_or(|highest| *highest == 0 && (bytes[0] > 20 || bytes[1..3] != [0, 0]))
            && bytes.get(12).is_none_or(|low| matches!(low, 1 | 0xd1..=0xdd))
            && bytes.get(13).is_none_or(|high| matches!(high, 0 | 7))
            && bytes.get(14).is_none_or(|zero| *zero == 0);
        return if plausible { partly } else { Likeness::No };
    }
    let Some(header) = Header::read(side, bytes) else { return Likeness::No };
    let content = &bytes[HEADER_BYTES..];
    let known = match header.opcode {
        MESSAGE => match content {
            // Flags, section kind, document length, first element.
            [_, _, _, _, 0, _, _, _, _, kind, first, ..] => {
                Message::read(content).is_some()
                    && bson::is_type(*kind)
                    && (first.is_ascii_alphabetic() || *first == b'$')
            }
            [_, _, _, _, 1, rest @ ..] if rest.len() > 4 => {
                Message::read(content).is_some() && rest[4].is_ascii_alphabetic()
            }
            [_, _, flags_high, 0, 0 | 1, ..] | [_, _, flags_high, 0] if *flags_high <= 1 => {
                return partly;
            }
            _ if content.len() < 4 => return partly,
            _ => false,
        },
        // Flags, `database.collection`.
        QUERY => match content.get(4..) {
            Some(name) => match memchr::memchr(0, name) {
                Some(end) => name[..end].iter().all(u8::is_ascii_graphic) && end > 2,
                None if name.len() < 128 && name.iter().all(u8::is_ascii_graphic) => return partly,
                None => false,
            },
            None => return partly,
        },
        // Flags, cursor id, start position, document count, a document.
        REPLY => match content {
            [_, 0, 0, 0, rest @ ..] if rest.len() >= 21 => {
                bson::document(&rest[16..]).is_some() && bson::is_type(rest[20])
            }
            [_, 0, 0, 0, ..] => return partly,
            _ if content.len() < 4 => return partly,
            _ => false,
        },
        COMPRESSED => match content {
            [opcode @ .., _, _, _, _, compressor] if content.len() == 9 => {
                opcode == MESSAGE.to_le_bytes() && *compressor <= 3
            }
            [a, b, c, d, _, _, _, _, compressor, ..] => {
                [*a, *b, *c, *d] == MESSAGE.to_le_bytes() && *compressor <= 3
            }
            _ => return partly,
        },
        // Older messages are not recognised in the middle of a connection.
        _ => false,
    };
    if known { Likeness::Yes } else { Likeness::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: &[u8] = b"\x2a\0\0\0\x07\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\
        \0\x15\0\0\0\x10ping\0\x01\0\0\0\x02$d\0";

    #[test]
    fn messages_are_recognised() {
        assert_eq!(recognise(Side::Request, PING, true), Likeness::Yes);
        assert_eq!(recognise(Side::Response, PING, true), Likeness::No);
        for end in 0..27 {
            assert_eq!(recognise(Side::Request, &PING[..end], true), Likeness::Maybe, "{end}");
        }
        let mut response = PING.to_vec();
        response[8] = 7;
        assert_eq!(recognise(Side::Response, &response, true), Likeness::Yes);
        let legacy = b"\x3a\0\0\0\x01\0\0\0\0\0\0\0\xd4\x07\0\0\0\0\0\0admin.$cmd\0";
        assert_eq!(recognise(Side::Request, legacy, true), Likeness::Yes);
    }

    #[test]
    fn others_are_not() {
        for (at, byte) in [(3, 9), (12, 0xd0), (13, 8), (16, 4), (20, 2), (25, 0x44), (26, 7)] {
            let mut changed = PING.to_vec();
            changed[at] = byte;
            assert_eq!(recognise(Side::Request, &changed, true), Likeness::No, "{at}");
        }
        let foreign: [&[u8]; 4] = [
            b"GET / HTTP/1.1\r\n",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            b"\0\0\0\x22\0\x03\0\0user\0x\0",
            b"\xff\xff\xff",
        ];
        for bytes in foreign {
            assert_eq!(recognise(Side::Request, bytes, true), Likeness::No);
        }
    }

    #[test]
    fn documents_may_come_before_the_command() {
        let content = b"\x02\0\0\0\x01\x13\0\0\0documents\0\x05\0\0\0\0\0\x05\0\0\0\0";
        let message = Message::read(content).unwrap();
        assert_eq!(message.sequence, Some(&b"documents"[..]));
        assert!(message.body.is_some() && message.more_to_come());
        assert!(Message::read(b"\x04\0\0\0").is_none());
        for end in 4..content.len() {
            let _ = Message::read(&content[..end]);
        }
    }
}
