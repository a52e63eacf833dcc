//! Records of one side during a handshake (RFC 8446, section 5.1).

use crate::bytes::{Input, Mark};

/// Type, version and length. The first two bytes of the content are read as well.
const HEADER_BYTES: usize = 5;
const LOOK_BYTES: usize = HEADER_BYTES + 2;
/// Maximum bytes kept of a hello.
const MAX_HELLO_BYTES: usize = 4096;
/// Maximum record length (RFC 5246, section 6.2.3).
const MAX_RECORD_BYTES: u16 = 0x4000 + 2048;

/// Record types.
pub(super) struct Kind;

impl Kind {
    pub(super) const CHANGE_CIPHER: u8 = 20;
    pub(super) const ALERT: u8 = 21;
    pub(super) const HANDSHAKE: u8 = 22;
    pub(super) const DATA: u8 = 23;
}

/// What the reader found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The first handshake message, as far as captured.
    Hello(Vec<u8>),
    /// The start of a record.
    Record {
        kind: u8,
        length: u16,
        /// Second byte of the content: the description of an alert.
        first: u8,
    },
}

/// The record reader. If a record's start was not captured, the reader looks for one at the start
/// of a later call.
#[derive(Debug, Default)]
pub(super) struct Records {
    header: [u8; LOOK_BYTES],
    count: usize,
    /// Number of bytes left of the record.
    remaining: u64,
    /// The first handshake message; `None` once it was returned.
    hello: Option<Vec<u8>>,
    said_hello: bool,
    hello_start: Option<Mark>,
    start: Option<Mark>,
    /// Whether bytes were missed.
    lost: bool,
}

impl Records {
    /// Whether bytes were missed.
    pub(super) const fn is_lost(&self) -> bool {
        self.lost
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.hello.as_ref().map_or(0, Vec::capacity)
    }

    /// Expects another hello.
    pub(super) fn expect_hello(&mut self) {
        self.said_hello = false;
        self.hello_start = None;
    }

    fn lose(&mut self, input: &mut Input<'_>) {
        self.count = 0;
        self.lost = true;
        input.skip_all();
    }

    /// Whether the bytes so far can begin a header.
    fn is_plausible(&self) -> bool {
        let seen = &self.header[..self.count];
        let fits = |at: usize, byte: u8| match at {
            0 => (Kind::CHANGE_CIPHER..=Kind::DATA).contains(&byte),
            1 => byte == 3,
            2 => byte <= 4,
            _ => true,
        };
        let length = u16::from_be_bytes([self.header[3], self.header[4]]);
        let fits_length = match self.header[0] {
            Kind::CHANGE_CIPHER => length == 1,
            Kind::ALERT => length == 2 || (16..128).contains(&length),
            _ => (1..=MAX_RECORD_BYTES).contains(&length),
        };
        seen.iter().enumerate().all(|(at, byte)| fits(at, *byte))
            && (self.count < HEADER_BYTES || fits_length)
    }

    /// Number of bytes to read of the record, including the header.
    fn looked_at(&self) -> usize {
        let length = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
        if self.count < HEADER_BYTES { HEADER_BYTES } else { LOOK_BYTES.min(HEADER_BYTES + length) }
    }

    /// Reads up to the next finding and returns it with its position.
    pub(super) fn read(&mut self, input: &mut Input<'_>) -> Option<(Found, Mark)> {
        loop {
            if self.remaining > 0 {
                if let Some(found) = self.content(input) {
                    return Some(found);
                }
                if self.remaining > 0 {
                    return None;
                }
            }
            if input.is_empty() {
                return None;
            }
            if input.bytes.is_empty() || input.missed {
                self.lose(input);
                return self.cut_hello();
            }
            if self.count == 0 {
                self.start = Some(input.mark);
            }
            let taken = input.take(self.looked_at() - self.count);
            self.header[self.count..self.count + taken.len()].copy_from_slice(taken);
            self.count += taken.len();
            if !self.is_plausible() {
                self.lose(input);
                return None;
            }
            if self.count < HEADER_BYTES || self.count < self.looked_at() {
                continue;
            }
            let found = self.begun();
            self.count = 0;
            if found.is_some() {
                return found;
            }
        }
    }

    /// Handles a complete record header.
    fn begun(&mut self) -> Option<(Found, Mark)> {
        let start = self.start?;
        let kind = self.header[0];
        let length = u16::from_be_bytes([self.header[3], self.header[4]]);
        let seen = &self.header[HEADER_BYTES..self.count];
        self.remaining = u64::from(length) - seen.len() as u64;
        if kind == Kind::HANDSHAKE && !self.said_hello {
            self.hello_start.get_or_insert(start);
            self.hello.get_or_insert_default().extend_from_slice(seen);
            return None;
        }
        let first = seen.get(1).copied().unwrap_or_default();
        Some((Found::Record { kind, length, first }, start))
    }

    /// Reads more of a record's content.
    fn content(&mut self, input: &mut Input<'_>) -> Option<(Found, Mark)> {
        if let Some(hello) = &mut self.hello {
            let here = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(input.bytes.len());
            let room = MAX_HELLO_BYTES.saturating_sub(hello.len());
            hello.extend_from_slice(&input.bytes[..here.min(room)]);
            self.remaining -= input.skip(here as u64);
            let cut = self.remaining > 0 && input.bytes.is_empty() && input.unseen > 0;
            let full = hello.len() >= MAX_HELLO_BYTES;
            if is_whole(hello) || cut || full {
                return self.cut_hello();
            }
            return None;
        }
        self.remaining -= input.skip(self.remaining);
        None
    }

    /// Returns the hello as far as it was received.
    fn cut_hello(&mut self) -> Option<(Found, Mark)> {
        let hello = self.hello.take()?;
        self.said_hello = true;
        Some((Found::Hello(hello), self.hello_start?))
    }
}

/// Whether a handshake message (type, three-byte length) is complete.
fn is_whole(message: &[u8]) -> bool {
    let [_, high, middle, low, content @ ..] = message else { return false };
    content.len() >= u32::from_be_bytes([0, *high, *middle, *low]) as usize
}
