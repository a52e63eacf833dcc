//! Redis replies. Nested elements are skipped without a stack; a count of the remaining elements is
//! enough.

use super::queues::{Bulk, Watch};
use crate::bytes::{Input, Mark};

/// Maximum bytes kept of a line. Error replies are shown.
const MAX_LINE_BYTES: usize = 256;
/// Arrays within arrays of replies that are watched.
const MAX_DEPTH: usize = 8;
/// Maximum length of a word that identifies the message type.
const MAX_LABEL_BYTES: usize = 12;

/// Read position in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before an element.
    Start,
    /// In the first line of an element with this type byte.
    Line(u8),
    /// In the content of an element; `remaining` bytes are left.
    Content { remaining: u64, kept: Kept },
}

/// The part of an element's content that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    Nothing,
    /// Text of an error.
    Error,
    /// A word that may identify the message type.
    Label,
    /// A text that may be a message of a queue, up to so many bytes.
    Bulk {
        limit: usize,
    },
}

/// A complete message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// First byte of the message.
    pub(super) start: Mark,
    /// Type byte of the message.
    pub(super) kind: u8,
    /// The server sent the message without a request (RESP3 push).
    pub(super) is_push: bool,
    /// Error text, if the message is an error.
    pub(super) error: Option<Vec<u8>>,
    /// First word of the message, if any.
    pub(super) label: Label,
    /// Last integer in the message.
    pub(super) number: i64,
    /// Texts that may be messages of a queue.
    pub(super) bulks: Vec<Bulk>,
}

/// A short word; empty if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label {
    bytes: [u8; MAX_LABEL_BYTES],
    length: u8,
    /// The word was longer and was cut.
    cut: bool,
}

impl Label {
    const NONE: Self = Self { bytes: [0; MAX_LABEL_BYTES], length: 0, cut: false };

    fn add(&mut self, bytes: &[u8]) {
        let length = usize::from(self.length);
        let taken = bytes.len().min(MAX_LABEL_BYTES - length);
        self.bytes[length..length + taken].copy_from_slice(&bytes[..taken]);
        self.length += taken as u8;
        self.cut |= taken < bytes.len();
    }

    /// The word; empty if it was cut.
    pub(super) fn word(&self) -> &[u8] {
        if self.cut { b"" } else { &self.bytes[..usize::from(self.length)] }
    }
}

/// Result of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// More bytes are needed.
    More,
    /// A message is complete.
    Complete(Message),
    /// Bytes between element boundaries were missed.
    Unseen,
    /// The bytes are no reply.
    Malformed,
}

/// A reply that is being read.
#[derive(Debug)]
pub(super) struct Reply {
    state: State,
    line: Vec<u8>,
    /// Number of elements left until the reply is complete.
    pending: u64,
    /// Mark of the first byte; `None` between two replies.
    pub(super) start: Option<Mark>,
    /// Whether the message is a push and not a reply.
    pub(super) is_push: bool,
    error: Option<Vec<u8>>,
    /// Whether the reply has elements. An error in an element is not an error of the reply.
    nested: bool,
    kind: u8,
    /// Number of complete elements.
    elements: u64,
    label: Label,
    number: i64,
    /// Which texts of the reply may be messages of a queue.
    pub(super) watch: Watch,
    /// The elements left in each array around the next element, and its index there. Only if the
    /// reply is watched.
    path: Vec<(u64, u64)>,
    bulks: Vec<Bulk>,
    /// Whether the next byte must begin a reply.
    pub(super) in_step: bool,
}

impl Reply {
    pub(super) const fn new() -> Self {
        Self {
            state: State::Start,
            line: Vec::new(),
            pending: 1,
            start: None,
            is_push: false,
            error: None,
            nested: false,
            kind: 0,
            elements: 0,
            label: Label::NONE,
            number: 0,
            watch: Watch::Nothing,
            path: Vec::new(),
            bulks: Vec::new(),
            in_step: false,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        let bulks = self.bulks.iter().map(|bulk| size_of::<Bulk>() + bulk.begin.capacity());
        self.line.capacity()
            + self.error.as_ref().map_or(0, Vec::capacity)
            + self.path.capacity() * size_of::<(u64, u64)>()
            + bulks.sum::<usize>()
    }

    /// Type of the message being read.
    pub(super) const fn kind(&self) -> u8 {
        self.kind
    }

    fn is_whole(&self) -> bool {
        self.pending == 1 && !self.nested
    }

    /// Reads to the end of a reply or of the input.
    pub(super) fn read(&mut self, input: &mut Input<'_>) -> Step {
        while !input.is_empty() {
            match self.state {
                State::Content { remaining, kept } => {
                    if kept != Kept::Nothing {
                        let content = usize::try_from(remaining.saturating_sub(2));
                        let seen = content.unwrap_or(usize::MAX).min(input.bytes.len());
                        let seen = &input.bytes[..seen];
                        match kept {
                            Kept::Error => keep(self.error.get_or_insert_default(), seen),
                            Kept::Bulk { limit } => {
                                if let Some(bulk) = self.bulks.last_mut() {
                                    bulk.add(seen, limit);
                                }
                            }
                            _ => self.label.add(seen),
                        }
                    }
                    match remaining - input.skip(remaining) {
                        0 => {
                            if let Some(step) = self.element_complete() {
                                return step;
                            }
                        }
                        remaining => self.state = State::Content { remaining, kept },
                    }
                }
                _ if input.bytes.is_empty() => return Step::Unseen,
                State::Start => {
                    let mark = input.mark;
                    let kind = input.take(1)[0];
                    if !b"+-:$*_#,(!=%~>|".contains(&kind) {
                        return Step::Malformed;
                    }
                    if self.start.is_none() {
                        self.start = Some(mark);
                        self.kind = kind;
                        self.is_push = kind == b'>';
                    }
                    self.line.clear();
                    self.state = State::Line(kind);
                }
                State::Line(kind) => {
                    let (taken, complete) = match memchr::memchr(b'\n', input.bytes) {
                        Some(end) => (end + 1, true),
                        None => (input.bytes.len(), false),
                    };
                    keep(&mut self.line, input.take(taken));
                    if complete && let Some(step) = self.line_complete(kind) {
                        return step;
                    }
                }
            }
        }
        Step::More
    }

    fn line_complete(&mut self, kind: u8) -> Option<Step> {
        let line = self.line.trim_ascii_end();
        let is_first = self.elements == u64::from(self.nested);
        match kind {
            b'+' if is_first => self.label.add(line),
            b':' => {
                let number = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
                self.number = number.unwrap_or(0);
            }
            _ => {}
        }
        match kind {
            b'-' => {
                if self.is_whole() {
                    self.error = Some(line.to_vec());
                }
                self.element_complete()
            }
            b'+' | b':' | b'_' | b'#' | b',' | b'(' => self.element_complete(),
            _ => {
                let number: Option<i64> =
                    std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
                match (kind, number) {
                    // -1 is a RESP2 null.
                    (b'$' | b'*', Some(-1)) => self.element_complete(),
                    (b'$' | b'!' | b'=', Some(length @ 0..)) => {
                        // A line end follows the content.
                        let remaining = length.unsigned_abs().saturating_add(2);
                        let wanted = self.wanted(length.unsigned_abs());
                        let kept = match kind {
                            _ if wanted > 0 => Kept::Bulk { limit: wanted },
                            b'!' if self.is_whole() => Kept::Error,
                            b'$' if is_first && self.nested => Kept::Label,
                            _ => Kept::Nothing,
                        };
                        self.state = State::Content { remaining, kept };
                        None
                    }
                    (b'*' | b'~' | b'>', Some(count @ 0..)) => self.aggregate(count.unsigned_abs()),
                    (b'%', Some(pairs @ 0..)) => {
                        self.aggregate(pairs.unsigned_abs().saturating_mul(2))
                    }
                    // Attributes precede the element that they describe.
                    (b'|', Some(pairs @ 0..)) => {
                        let more = pairs.unsigned_abs().saturating_mul(2);
                        self.pending = self.pending.saturating_add(more);
                        self.state = State::Start;
                        None
                    }
                    _ => Some(Step::Malformed),
                }
            }
        }
    }

    fn aggregate(&mut self, elements: u64) -> Option<Step> {
        self.pending = self.pending.saturating_add(elements);
        self.nested = true;
        match elements {
            0 => self.advance(),
            _ => self.descend(elements),
        }
        self.counted()
    }

    /// Begins a text of this length, if it may be a message. Returns how many of its bytes are
    /// kept.
    fn wanted(&mut self, length: u64) -> usize {
        if self.watch == Watch::Nothing {
            return 0;
        }
        let depth = self.path.len();
        let index = self.path.last().map_or(0, |(_, index)| *index);
        let limit = self.watch.bytes_at(depth, index, self.bulks.len());
        if limit > 0 {
            self.bulks.push(Bulk { depth, length, begin: Vec::new() });
        }
        limit
    }

    /// The next element is the first one of an array.
    fn descend(&mut self, elements: u64) {
        if self.watch == Watch::Nothing {
            return;
        }
        if self.path.len() >= MAX_DEPTH {
            self.watch = Watch::Nothing;
        }
        self.path.push((elements, 0));
    }

    /// An element has passed.
    fn advance(&mut self) {
        while let Some((left, index)) = self.path.last_mut() {
            *left -= 1;
            *index += 1;
            if *left > 0 {
                return;
            }
            // The array itself is an element.
            self.path.pop();
        }
    }

    fn element_complete(&mut self) -> Option<Step> {
        self.advance();
        self.counted()
    }

    fn counted(&mut self) -> Option<Step> {
        self.state = State::Start;
        self.elements += 1;
        self.pending -= 1;
        if self.pending > 0 {
            return None;
        }
        let done = std::mem::replace(self, Self::new());
        self.in_step = true;
        Some(Step::Complete(Message {
            start: done.start?,
            kind: done.kind,
            is_push: done.is_push,
            error: done.error,
            label: done.label,
            number: done.number,
            bulks: done.bulks,
        }))
    }
}

fn keep(to: &mut Vec<u8>, bytes: &[u8]) {
    let room = MAX_LINE_BYTES.saturating_sub(to.len());
    to.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark {
        offset: 0,
        seq: Some(0),
        time_nano: 0,
        process: 0,
        thread: 0,
        retransmits: 0,
        srtt_micros: 0,
        missed: false,
        ..Mark::NOWHERE
    };

    /// Lengths of the replies in a stream that is read in pieces of `size` bytes. Errors and pushes
    /// are marked.
    fn replies(stream: &[u8], size: usize) -> Vec<String> {
        let mut reply = Reply::new();
        let mut found = Vec::new();
        let mut offset = 0;
        for piece in stream.chunks(size) {
            let mut input =
                Input { bytes: piece, unseen: 0, missed: false, mark: MARK.after(offset) };
            offset += piece.len() as u64;
            while !input.is_empty() {
                match reply.read(&mut input) {
                    Step::More => {}
                    Step::Complete(message) if message.is_push => {
                        found.push(format!("push {}", message.label.word().escape_ascii()));
                    }
                    Step::Complete(message) => {
                        let length = input.mark.offset - message.start.offset;
                        let error = message.error.map(|error| error.escape_ascii().to_string());
                        found.push(format!("{length}{}", error.unwrap_or_default()));
                    }
                    step => {
                        found.push(format!("{step:?}"));
                        return found;
                    }
                }
            }
        }
        found
    }

    #[test]
    fn replies_of_every_type_are_passed_over_whole() {
        let stream: &[u8] = b"+OK\r\n-ERR no\r\n:1\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*0\r\n\
            *2\r\n*1\r\n$1\r\nx\r\n:2\r\n_\r\n#t\r\n,1.5\r\n%1\r\n+a\r\n:1\r\n\
            >2\r\n+message\r\n+x\r\n|1\r\n+k\r\n+v\r\n:7\r\n!5\r\nERR x\r\n=5\r\ntxt:a\r\n";
        let expected = [
            "5",
            "9ERR no",
            "4",
            "9",
            "5",
            "5",
            "4",
            "19",
            "3",
            "4",
            "6",
            "12",
            "push message",
            "16",
            "11ERR x",
            "11",
        ];
        for size in 1..=stream.len() {
            assert_eq!(replies(stream, size), expected, "pieces of {size}");
        }
    }

    #[test]
    fn messages_say_what_they_are() {
        let label = |stream: &[u8]| {
            let mut reply = Reply::new();
            let mut found = String::new();
            for piece in stream.chunks(1) {
                let mut input = Input { bytes: piece, unseen: 0, missed: false, mark: MARK };
                if let Step::Complete(message) = reply.read(&mut input) {
                    found = format!("{} {}", message.label.word().escape_ascii(), message.number);
                }
            }
            found
        };
        assert_eq!(label(b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:2\r\n"), "subscribe 2");
        assert_eq!(label(b">3\r\n+message\r\n+a\r\n+b\r\n"), "message 0");
        assert_eq!(label(b"*2\r\n:1\r\n$1\r\na\r\n"), " 1");
        assert_eq!(label(b"*1\r\n$15\r\nlonger than all\r\n"), " 0");
        assert_eq!(label(b"+QUEUED\r\n"), "QUEUED 0");
    }

    #[test]
    fn an_error_inside_a_reply_is_no_failure_of_it() {
        assert_eq!(replies(b"*1\r\n-ERR x\r\n", 64), ["12"]);
    }

    #[test]
    fn others_are_refused() {
        assert_eq!(replies(b"hello\r\n", 64), ["Malformed"]);
        assert_eq!(replies(b"$-5\r\n", 64), ["Malformed"]);
        assert_eq!(replies(b"*99999999999999999999\r\n", 64), ["Malformed"]);
    }
}
