//! Messages whose header says how long they are, as those of nearly all binary
//! protocols. A protocol says what a header means ([`Framing`]); finding the
//! borders in bytes that come in pieces, partly captured or not at all, is done
//! here once.

pub(crate) mod driver;
pub(crate) mod strikes;

use std::borrow::Cow;

use crate::bytes::{Input, Mark};

/// Longest header of a known protocol.
pub(crate) const MAX_HEADER_BYTES: usize = 32;

/// What the bytes of a header, as far as they are there, say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    /// The header has at least this many bytes, and more than there are.
    Header(usize),
    /// The header is complete.
    Content {
        /// Bytes that follow it.
        bytes: u64,
        /// How many of the first of them are looked at.
        keep: usize,
    },
    /// This is no header.
    Malformed,
}

/// How a protocol frames the messages of one side.
pub(crate) trait Framing {
    /// What the first bytes of a message say of its length. Asked with none at
    /// first, and with more until the header is complete.
    fn measure(&self, header: &[u8]) -> Measure;

    /// Whether a message begins here, judged strictly: reading sets in again at
    /// these bytes after the borders were lost.
    fn begins(&self, bytes: &[u8]) -> bool;
}

/// The part of a message that is looked at.
#[derive(Debug)]
pub(crate) struct Head<'a> {
    /// All of its header.
    pub(crate) header: Header,
    /// The beginning of its content, as far as it was captured and is looked at.
    pub(crate) content: Cow<'a, [u8]>,
    /// Bytes of its content in all.
    pub(crate) length: u64,
    /// The first byte of its header.
    pub(crate) start: Mark,
    /// Past the content that is looked at.
    pub(crate) end: Mark,
}

impl Head<'_> {
    /// Whether all of the content is here.
    pub(crate) fn is_whole(&self) -> bool {
        self.content.len() as u64 == self.length
    }
}

/// The bytes of a header.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Header {
    bytes: [u8; MAX_HEADER_BYTES],
    count: usize,
}

impl std::ops::Deref for Header {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.count]
    }
}

/// What came of reading.
#[derive(Debug)]
pub(crate) enum Step<H> {
    /// All of the input is read; more is needed.
    More,
    /// What is looked at of a message is complete. Its end follows.
    Head(H),
    /// The message has passed, up to here.
    End(Mark),
    /// Bytes were not seen where a message begins: the borders are lost.
    Unseen,
    /// No message begins here: the borders are lost.
    Malformed,
    /// The borders are known again; the next step is a message's.
    Resumed,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// In a header, or before it.
    Header,
    /// In the content that is kept.
    Kept { length: u64, remaining: u64, keep: usize },
    /// In the content that is passed over.
    Rest { remaining: u64 },
    /// The borders are not known.
    Lost,
}

/// One side's messages.
#[derive(Debug)]
pub(crate) struct Frames<F> {
    framing: F,
    header: Header,
    content: Vec<u8>,
    start: Option<Mark>,
    state: State,
}

impl<F: Framing> Frames<F> {
    /// A reader that stands before a message.
    pub(crate) const fn new(framing: F) -> Self {
        Self {
            framing,
            header: Header { bytes: [0; MAX_HEADER_BYTES], count: 0 },
            content: Vec::new(),
            start: None,
            state: State::Header,
        }
    }

    /// The framing, for protocols whose framing changes with what is said.
    pub(crate) const fn framing(&mut self) -> &mut F {
        &mut self.framing
    }

    /// The framing, to look at.
    pub(crate) const fn framing_ref(&self) -> &F {
        &self.framing
    }

    /// Whether it is between two messages.
    pub(crate) const fn is_between(&self) -> bool {
        matches!(self.state, State::Header) && self.header.count == 0
    }

    /// Whether the borders are lost.
    pub(crate) const fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost)
    }

    /// Bytes that it holds.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.content.capacity()
    }

    /// Forgets the message being read, and looks for the next one where a later
    /// system call begins.
    pub(crate) fn lose(&mut self) {
        self.header.count = 0;
        self.content = Vec::new();
        self.start = None;
        self.state = State::Lost;
    }

    /// Reads up to the next step. To be called until there is [`Step::More`];
    /// at [`Step::Unseen`] and [`Step::Malformed`] the rest of the input is
    /// passed over.
    pub(crate) fn read<'a>(&mut self, input: &mut Input<'a>) -> Step<Head<'a>> {
        loop {
            match self.state {
                State::Lost => {
                    if !self.framing.begins(input.bytes) {
                        input.skip_all();
                        return Step::More;
                    }
                    self.state = State::Header;
                    return Step::Resumed;
                }
                State::Header => match self.framing.measure(&self.header) {
                    Measure::Content { bytes, keep } => {
                        self.state = State::Kept { length: bytes, remaining: bytes, keep };
                    }
                    Measure::Header(wanted)
                        if wanted > self.header.count && wanted <= MAX_HEADER_BYTES =>
                    {
                        if input.is_empty() {
                            return Step::More;
                        }
                        if input.bytes.is_empty() {
                            self.lose();
                            input.skip_all();
                            return Step::Unseen;
                        }
                        self.start.get_or_insert(input.mark);
                        let taken = input.take(wanted - self.header.count);
                        let count = self.header.count + taken.len();
                        self.header.bytes[self.header.count..count].copy_from_slice(taken);
                        self.header.count = count;
                    }
                    Measure::Header(_) | Measure::Malformed => {
                        self.lose();
                        input.skip_all();
                        return Step::Malformed;
                    }
                },
                // What was missed of what is looked at may have been all of the
                // message's meaning.
                State::Kept { .. } if input.missed => {
                    self.lose();
                    input.skip_all();
                    return Step::Unseen;
                }
                State::Kept { length, remaining, keep } => {
                    let wanted = (keep - self.content.len()).min(cut(remaining));
                    let here = &input.bytes[..wanted.min(input.bytes.len())];
                    let complete = here.len() == wanted || input.unseen > 0;
                    if !complete {
                        self.content.extend_from_slice(here);
                        let remaining = remaining - here.len() as u64;
                        input.take(here.len());
                        self.state = State::Kept { length, remaining, keep };
                        return Step::More;
                    }
                    // Nearly always all of it lies in the input, and is not copied.
                    let content = if self.content.is_empty() {
                        Cow::Borrowed(here)
                    } else {
                        self.content.extend_from_slice(here);
                        Cow::Owned(std::mem::take(&mut self.content))
                    };
                    input.take(here.len());
                    let start = self.start.unwrap_or(input.mark);
                    let header = self.header;
                    self.state = State::Rest { remaining: remaining - here.len() as u64 };
                    return Step::Head(Head { header, content, length, start, end: input.mark });
                }
                State::Rest { remaining } => {
                    let remaining = remaining - input.skip(remaining);
                    if remaining > 0 {
                        self.state = State::Rest { remaining };
                        return Step::More;
                    }
                    self.header.count = 0;
                    self.start = None;
                    self.state = State::Header;
                    return Step::End(input.mark);
                }
            }
        }
    }
}

fn cut(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zero byte, the length in one, content.
    struct Short;

    impl Framing for Short {
        fn measure(&self, header: &[u8]) -> Measure {
            match header {
                [0, bytes] => Measure::Content { bytes: u64::from(*bytes), keep: 4 },
                [] | [0] => Measure::Header(2),
                _ => Measure::Malformed,
            }
        }

        fn begins(&self, bytes: &[u8]) -> bool {
            bytes.first() == Some(&0)
        }
    }

    fn mark(offset: u64) -> Mark {
        Mark {
            offset,
            seq: Some(offset as u32),
            time_nano: 1,
            process: 1,
            thread: 1,
            retransmits: 0,
            srtt_micros: 0,
            missed: false,
            ..Mark::NOWHERE
        }
    }

    /// What is told of pieces, each with a number of uncaptured bytes after it.
    fn told(pieces: &[(&[u8], u64)]) -> Vec<String> {
        let mut frames = Frames::new(Short);
        let mut told = Vec::new();
        let mut offset = 0;
        for (bytes, unseen) in pieces {
            let mut input = Input { bytes, unseen: *unseen, missed: false, mark: mark(offset) };
            offset += bytes.len() as u64 + unseen;
            loop {
                told.push(match frames.read(&mut input) {
                    Step::More => break,
                    Step::Head(head) => format!(
                        "head at {} {} of {}",
                        head.start.offset,
                        head.content.escape_ascii(),
                        head.length
                    ),
                    Step::End(at) => format!("end at {}", at.offset),
                    Step::Unseen => "unseen".to_owned(),
                    Step::Malformed => "malformed".to_owned(),
                    Step::Resumed => "resumed".to_owned(),
                });
            }
            assert!(input.is_empty());
        }
        told
    }

    #[test]
    fn messages_are_found_however_they_are_cut() {
        let bytes = b"\0\x03abc\0\0\0\x06abcdef";
        let whole = told(&[(bytes, 0)]);
        assert_eq!(
            whole,
            [
                "head at 0 abc of 3",
                "end at 5",
                "head at 5  of 0",
                "end at 7",
                "head at 7 abcd of 6",
                "end at 15"
            ]
        );
        for size in 1..bytes.len() {
            let pieces: Vec<(&[u8], u64)> = bytes.chunks(size).map(|piece| (piece, 0)).collect();
            assert_eq!(told(&pieces), whole, "in pieces of {size}");
        }
    }

    #[test]
    fn what_was_not_captured_of_content_is_passed_over() {
        let found = told(&[(b"\0\x09ab", 7), (b"\0\x01x", 0)]);
        assert_eq!(found, ["head at 0 ab of 9", "end at 11", "head at 11 x of 1", "end at 14"]);
    }

    #[test]
    fn after_losing_the_borders_reading_sets_in_with_a_call_that_begins_a_message() {
        let found = told(&[(b"\0\x01x", 5), (b"xx", 0), (b"\0\x01y", 0)]);
        assert_eq!(
            found,
            ["head at 0 x of 1", "end at 3", "unseen", "resumed", "head at 10 y of 1", "end at 13"]
        );
        assert_eq!(told(&[(b"\x01", 0)]), ["malformed"]);
    }
}
