//! Message framing of PostgreSQL protocol 3 (PostgreSQL documentation, "Message Flow" and "Message
//! Formats"): a type byte, a length that includes itself, and content. The first message of a
//! connection has no type byte.

use std::borrow::Cow;

use crate::bytes::{Input, Mark, Side};
use crate::parser::Likeness;

/// Maximum bytes kept of a message's content. SQL texts are the longest.
pub(super) const MAX_CONTENT_BYTES: usize = 4096;
/// Maximum message length: PostgreSQL's own limit on values.
const MAX_LENGTH: u32 = 1 << 30;
/// Maximum length of a startup message that PostgreSQL accepts.
const MAX_STARTUP_BYTES: u32 = 10_000;

/// Code of the startup message in version 3.0; the minor version may differ.
const VERSION_3: u32 = 196_608;
const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSSAPI: u32 = 80_877_104;

/// Type used for messages without a type byte.
pub(super) const UNTYPED: u8 = 0;

const FRONTEND: Kinds = Kinds::of(b"QPBEDCSHFXpdcf");
const BACKEND: Kinds = Kinds::of(b"RSKZTDC123nNEAIstGHWVdcv");

/// A set of message types, one bit for each. Types are ASCII letters and digits.
struct Kinds(u128);

impl Kinds {
    const fn of(letters: &[u8]) -> Self {
        let (mut kinds, mut at) = (0, 0);
        while at < letters.len() {
            kinds |= 1 << letters[at];
            at += 1;
        }
        Self(kinds)
    }

    const fn contains(&self, kind: u8) -> bool {
        kind < 128 && self.0 >> kind & 1 == 1
    }
}

/// The purpose of a message without a type byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Starts a session.
    Startup,
    /// Requests encryption by TLS or GSSAPI.
    Encryption,
    /// Cancels a query of another connection.
    Cancel,
}

/// The purpose for the code of a message without a type byte.
pub(super) fn opening(code: u32) -> Option<Opening> {
    match code {
        TLS | GSSAPI => Some(Opening::Encryption),
        CANCEL => Some(Opening::Cancel),
        code if code & 0xffff_0000 == VERSION_3 => Some(Opening::Startup),
        _ => None,
    }
}

fn length_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Whether this can be a message header of this side.
fn is_header(side: Side, kind: u8, length: u32) -> bool {
    match (side, kind) {
        (Side::Request, UNTYPED) => (8..=MAX_STARTUP_BYTES).contains(&length),
        (Side::Request, _) => FRONTEND.contains(kind) && (4..MAX_LENGTH).contains(&length),
        (Side::Response, _) => BACKEND.contains(kind) && (4..MAX_LENGTH).contains(&length),
    }
}

/// Whether bytes look like the start of a message.
pub(crate) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    let Some(kind) = bytes.first() else { return partly };
    if (side, *kind) == (Side::Request, UNTYPED) {
        return match (length_at(bytes, 0), length_at(bytes, 4)) {
            (Some(length), Some(code)) => {
                if is_header(side, UNTYPED, length) && opening(code).is_some() {
                    Likeness::Yes
                } else {
                    Likeness::No
                }
            }
            _ if bytes.iter().take(2).all(|byte| *byte == 0) => partly,
            _ => Likeness::No,
        };
    }
    // Message types that may be the first ones seen of a connection.
    let may_begin: &[u8] = match side {
        Side::Request => b"QPBS",
        Side::Response => b"RSKZTDC123nNEIstGHWv",
    };
    if !may_begin.contains(kind) || bytes.get(1).is_some_and(|high| *high != 0) {
        return Likeness::No;
    }
    if bytes.len() < 5 {
        return partly;
    }
    // The captured messages must follow each other without gaps.
    let mut at = 0;
    while let (Some(kind), Some(length)) = (bytes.get(at), length_at(bytes, at + 1)) {
        let content = bytes.get(at + 5..).unwrap_or_default();
        let plausible = match (side, kind) {
            (Side::Request, b'S') => length == 4,
            (Side::Request, b'Q') => {
                let text = &content[..content.len().min(length.saturating_sub(5) as usize)];
                length > 4 && text.iter().all(|byte| *byte >= b' ' || byte.is_ascii_whitespace())
            }
            (Side::Response, b'Z') => length == 5,
            (Side::Response, b'1' | b'2' | b'3' | b'n' | b's' | b'I') => length == 4,
            // Authentication types are numbered from 0.
            (Side::Response, b'R') => {
                length >= 8 && length_at(content, 0).is_none_or(|kind| kind < 32)
            }
            (Side::Response, b'K') => length == 12,
            (Side::Response, b'C' | b'S') => {
                length > 5 && content.first().is_none_or(u8::is_ascii_alphabetic)
            }
            (Side::Response, b'G' | b'H' | b'W') => {
                length >= 7 && content.first().is_none_or(|format| *format <= 1)
            }
            // The number of values or columns; each takes some bytes.
            (Side::Response, b'D' | b'T') => {
                let each = if *kind == b'D' { 4 } else { 19 };
                let count = content.first_chunk().map_or(0, |count| u16::from_be_bytes(*count));
                length >= 6 + each * u32::from(count)
            }
            // A severity field, identified by its letter.
            (Side::Response, b'E' | b'N') => {
                length > 4 && content.first().is_none_or(|field| matches!(field, b'S' | b'V'))
            }
            _ => is_header(side, *kind, length),
        };
        if !plausible {
            return Likeness::No;
        }
        at += 1 + length as usize;
    }
    Likeness::Yes
}

/// A complete message.
#[derive(Debug)]
pub(super) struct Message<'a> {
    /// Message type.
    pub(super) kind: u8,
    /// The start of the content, as far as it is captured and kept.
    pub(super) content: Cow<'a, [u8]>,
    /// Mark of the first byte.
    pub(super) start: Mark,
}

/// Result of reading.
#[derive(Debug)]
pub(super) enum Step<'a> {
    /// More bytes are needed.
    More,
    /// A message has begun and is incomplete: its type, and the mark of its first byte.
    Begun(u8, Mark),
    /// A message is complete.
    Complete(Message<'a>),
    /// Bytes were missed where a message begins.
    Unseen,
    /// The bytes are no message.
    Malformed,
}

/// Messages of one side.
#[derive(Debug)]
pub(super) struct Reader {
    side: Side,
    header: Vec<u8>,
    content: Vec<u8>,
    /// Type and start of the message being read.
    message: Option<(u8, Mark)>,
    start: Option<Mark>,
    /// Number of content bytes left.
    remaining: u64,
    /// Whether the next byte must begin a message.
    pub(super) in_step: bool,
}

impl Reader {
    pub(super) const fn new(side: Side) -> Self {
        Self {
            side,
            header: Vec::new(),
            content: Vec::new(),
            message: None,
            start: None,
            remaining: 0,
            in_step: false,
        }
    }

    /// Whether the reader stands between two messages.
    pub(super) const fn is_between(&self) -> bool {
        self.start.is_none()
    }

    /// Mark of the first byte of the message being read.
    pub(super) const fn start(&self) -> Option<Mark> {
        self.start
    }

    /// Whether a message without content is due to be completed.
    pub(super) const fn is_due(&self) -> bool {
        self.message.is_some() && self.remaining == 0
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.header.capacity() + self.content.capacity()
    }

    /// Drops the message being read.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.side);
    }

    /// Reads up to the next step.
    pub(super) fn read<'a>(&mut self, input: &mut Input<'a>) -> Step<'a> {
        if self.is_between()
            && let Some(message) = self.whole(input)
        {
            self.in_step = true;
            return Step::Complete(message);
        }
        self.read_part(input)
    }

    /// Fast path: returns the next message if the input contains all of it, which is nearly always
    /// the case.
    fn whole<'a>(&self, input: &mut Input<'a>) -> Option<Message<'a>> {
        let (kind, length) = (*input.bytes.first()?, length_at(input.bytes, 1)?);
        let untyped = (self.side, kind) == (Side::Request, UNTYPED);
        if untyped || !is_header(self.side, kind, length) || input.bytes.len() <= length as usize {
            return None;
        }
        let start = input.mark;
        let message = &input.take(1 + length as usize)[5..];
        let kept = if keeps_content(self.side, kind) { MAX_CONTENT_BYTES } else { 0 };
        let content = Cow::Borrowed(&message[..message.len().min(kept)]);
        Some(Message { kind, content, start })
    }

    fn read_part<'a>(&mut self, input: &mut Input<'a>) -> Step<'a> {
        if let Some((kind, start)) = self.message {
            let wanted = MAX_CONTENT_BYTES.saturating_sub(self.content.len());
            let seen = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(input.bytes.len());
            if keeps_content(self.side, kind) {
                self.content.extend_from_slice(&input.bytes[..seen.min(wanted)]);
            }
            self.remaining -= input.skip(self.remaining);
            if self.remaining > 0 {
                return Step::More;
            }
            let content = Cow::Owned(std::mem::take(&mut self.content));
            self.message = None;
            self.start = None;
            self.in_step = true;
            return Step::Complete(Message { kind, content, start });
        }
        if input.bytes.is_empty() {
            return Step::Unseen;
        }
        let start = *self.start.get_or_insert(input.mark);
        let untyped = *self.header.first().unwrap_or(&input.bytes[0]) == UNTYPED;
        let untyped = untyped && self.side == Side::Request;
        let wanted = if untyped { 4 } else { 5 } - self.header.len();
        self.header.extend_from_slice(input.take(wanted));
        let kind = if untyped { UNTYPED } else { self.header[0] };
        let Some(length) = length_at(&self.header, usize::from(!untyped)) else {
            let known = match self.side {
                Side::Request => untyped || FRONTEND.contains(kind),
                Side::Response => BACKEND.contains(kind),
            };
            return if known { Step::More } else { Step::Malformed };
        };
        self.header.clear();
        if !is_header(self.side, kind, length) {
            return Step::Malformed;
        }
        self.remaining = u64::from(length) - 4;
        self.message = Some((kind, start));
        Step::Begun(kind, start)
    }
}

/// Whether the content of such messages is read. Other messages are skipped.
fn keeps_content(side: Side, kind: u8) -> bool {
    match side {
        Side::Request => matches!(kind, UNTYPED | b'Q' | b'P' | b'B' | b'E' | b'C'),
        Side::Response => matches!(kind, b'E' | b'C'),
    }
}

/// Reads the next text in a message, up to a zero byte or to the end of the captured bytes.
pub(super) fn text<'a>(content: &mut &'a [u8]) -> &'a [u8] {
    match memchr::memchr(0, content) {
        Some(end) => {
            let text = &content[..end];
            *content = &content[end + 1..];
            text
        }
        None => std::mem::take(content),
    }
}
