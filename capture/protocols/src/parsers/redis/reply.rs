//! Redis replies: passed over element by element, whatever they nest, without
//! a stack: a count of the elements still to come is enough.

use crate::bytes::{Input, Mark};

/// Bytes of a line that are kept: error replies are shown.
const MAX_LINE_BYTES: usize = 256;

/// Where a reply is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before an element.
    Start,
    /// In an element's first line, whose type is this byte.
    Line(u8),
    /// In an element's content, of which this many bytes are left.
    Content { remaining: u64, error: bool },
}

/// What came of reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// More is needed.
    More,
    /// A reply is complete.
    Complete {
        /// Its first byte.
        start: Mark,
        /// Its text, where it is an error.
        error: Option<Vec<u8>>,
    },
    /// A message that is no reply is complete (RESP3 push).
    Pushed,
    /// Bytes were missed between the borders of elements.
    Unseen,
    /// No reply.
    Malformed,
}

/// A reply that is being read.
#[derive(Debug)]
pub(super) struct Reply {
    state: State,
    line: Vec<u8>,
    /// Elements to come, until the reply is complete.
    pending: u64,
    /// Of the first byte; `None` between two replies.
    pub(super) start: Option<Mark>,
    /// Whether it is no reply, but sent by the server of its own accord.
    pub(super) is_push: bool,
    error: Option<Vec<u8>>,
    /// Whether the reply has elements: an error among them is not its own.
    nested: bool,
    /// Whether the first byte must be a reply's.
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
            in_step: false,
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.line.capacity() + self.error.as_ref().map_or(0, Vec::capacity)
    }

    fn is_whole(&self) -> bool {
        self.pending == 1 && !self.nested
    }

    /// Reads to the end of a reply, or of the input.
    pub(super) fn read(&mut self, input: &mut Input<'_>) -> Step {
        while !input.is_empty() {
            match self.state {
                State::Content { remaining, error } => {
                    if error {
                        let content = usize::try_from(remaining.saturating_sub(2));
                        let seen = content.unwrap_or(usize::MAX).min(input.bytes.len());
                        keep(self.error.get_or_insert_default(), &input.bytes[..seen]);
                    }
                    match remaining - input.skip(remaining) {
                        0 => {
                            if let Some(step) = self.element_complete() {
                                return step;
                            }
                        }
                        remaining => self.state = State::Content { remaining, error },
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
                    // -1 is a null of RESP2.
                    (b'$' | b'*', Some(-1)) => self.element_complete(),
                    (b'$' | b'!' | b'=', Some(length @ 0..)) => {
                        // The content is followed by a line end.
                        let remaining = length.unsigned_abs().saturating_add(2);
                        let error = kind == b'!' && self.is_whole();
                        self.state = State::Content { remaining, error };
                        None
                    }
                    (b'*' | b'~' | b'>', Some(count @ 0..)) => self.aggregate(count.unsigned_abs()),
                    (b'%', Some(pairs @ 0..)) => {
                        self.aggregate(pairs.unsigned_abs().saturating_mul(2))
                    }
                    // Attributes stand before the element that they are about.
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
        self.element_complete()
    }

    fn element_complete(&mut self) -> Option<Step> {
        self.state = State::Start;
        self.pending -= 1;
        if self.pending > 0 {
            return None;
        }
        let done = std::mem::replace(self, Self::new());
        self.in_step = true;
        match done.start {
            Some(start) if !done.is_push => Some(Step::Complete { start, error: done.error }),
            _ => Some(Step::Pushed),
        }
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

    /// The lengths of the replies in a stream, errors and pushes marked, read
    /// in pieces of `size` bytes.
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
                    Step::Complete { start, error } => {
                        let length = input.mark.offset - start.offset;
                        let error = error.map(|error| error.escape_ascii().to_string());
                        found.push(format!("{length}{}", error.unwrap_or_default()));
                    }
                    Step::Pushed => found.push("push".to_owned()),
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
            "5", "9ERR no", "4", "9", "5", "5", "4", "19", "3", "4", "6", "12", "push", "16",
            "11ERR x", "11",
        ];
        for size in 1..=stream.len() {
            assert_eq!(replies(stream, size), expected, "pieces of {size}");
        }
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
