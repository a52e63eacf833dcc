//! Framing of NATS messages: a line and, for some lines, a payload of the stated length with a line
//! end.

use super::operation::{self, MAX_LINE_BYTES, Message, Operation};
use crate::bytes::{Input, Mark, Side};
use crate::framing::Step;
use crate::parser::Likeness;

/// Maximum bytes of a message's headers that are read.
const MAX_HEADER_BYTES: u64 = 2048;
/// Maximum bytes of a payload that are read if the payload may come from the broker itself.
const MAX_PEEKED_BYTES: u64 = 256;
/// The end of a payload.
const END: &[u8; 2] = b"\r\n";

/// The part of a message that is read.
#[derive(Debug)]
pub(crate) struct Head {
    pub(super) operation: Operation,
    /// The headers, then the start of the payload, as far as it is read and captured.
    pub(super) content: Vec<u8>,
    pub(super) start: Mark,
    /// End of the part that is read.
    pub(super) end: Mark,
}

#[derive(Debug)]
enum State {
    /// In a line, or before one.
    Line,
    /// In the part of a payload that is read.
    Kept { message: Message, remaining: u64, wanted: u64 },
    /// In the rest of a payload.
    Rest { remaining: u64 },
    /// In the line end after a payload; this many bytes of it have passed.
    End(usize),
    /// After a line without payload.
    Ended,
    /// Message boundaries are lost.
    Lost,
}

/// Messages of one side.
#[derive(Debug)]
pub(super) struct Reader {
    side: Side,
    state: State,
    line: Vec<u8>,
    content: Vec<u8>,
    start: Option<Mark>,
}

impl Reader {
    pub(super) const fn new(side: Side) -> Self {
        Self { side, state: State::Line, line: Vec::new(), content: Vec::new(), start: None }
    }

    /// Whether the reader stands between two messages.
    pub(super) const fn is_between(&self) -> bool {
        self.start.is_none() && matches!(self.state, State::Line)
    }

    pub(super) fn held_bytes(&self) -> usize {
        let message = match &self.state {
            State::Kept { message, .. } => message.subject.len() + message.reply.len(),
            _ => 0,
        };
        self.line.capacity() + self.content.capacity() + message
    }

    fn lose(&mut self, input: &mut Input<'_>) {
        *self = Self { state: State::Lost, ..Self::new(self.side) };
        input.skip_all();
    }

    /// Reads up to the next step. Call until the result is [`Step::More`]. If there is no head, the
    /// connection is encrypted from here on. `peeks` says whether the payload of a message is read.
    pub(super) fn read(
        &mut self,
        input: &mut Input<'_>,
        peeks: impl Fn(&Message) -> bool,
    ) -> Step<Option<Head>> {
        loop {
            match &mut self.state {
                State::Lost => {
                    let begins = operation::recognise(self.side, input.bytes, false);
                    let alone = matches!(input.bytes, b"PING\r\n" | b"PONG\r\n");
                    if begins != Likeness::Yes && !(alone && input.unseen == 0) {
                        input.skip_all();
                        return Step::More;
                    }
                    self.state = State::Line;
                    return Step::Resumed;
                }
                State::Line => {
                    if input.is_empty() {
                        return Step::More;
                    }
                    if let Some(step) = self.read_line(input, &peeks) {
                        return step;
                    }
                }
                State::Kept { message, remaining, wanted } => {
                    let here =
                        usize::try_from(*wanted).unwrap_or(usize::MAX).min(input.bytes.len());
                    self.content.extend_from_slice(input.take(here));
                    *remaining -= here as u64;
                    *wanted -= here as u64;
                    if *wanted > 0 && input.unseen == 0 {
                        return Step::More;
                    }
                    let operation = Operation::Message(message.clone());
                    let content = std::mem::take(&mut self.content);
                    let start = self.start.unwrap_or(input.mark);
                    self.state = State::Rest { remaining: *remaining };
                    return Step::Head(Some(Head { operation, content, start, end: input.mark }));
                }
                State::Rest { remaining } => {
                    *remaining -= input.skip(*remaining);
                    if *remaining > 0 {
                        return Step::More;
                    }
                    self.state = State::End(0);
                }
                State::End(passed) => {
                    if *passed == END.len() {
                        self.state = State::Ended;
                        continue;
                    }
                    if input.is_empty() {
                        return Step::More;
                    }
                    if input.bytes.first().is_some_and(|byte| *byte != END[*passed]) {
                        self.lose(input);
                        return Step::Malformed;
                    }
                    input.skip(1);
                    *passed += 1;
                }
                State::Ended => {
                    self.state = State::Line;
                    self.start = None;
                    return Step::End(input.mark);
                }
            }
        }
    }

    fn read_line(
        &mut self,
        input: &mut Input<'_>,
        peeks: impl Fn(&Message) -> bool,
    ) -> Option<Step<Option<Head>>> {
        if input.bytes.is_empty() {
            self.lose(input);
            return Some(Step::Unseen);
        }
        // First byte of a TLS handshake record.
        if self.start.is_none() && self.side == Side::Request && input.bytes[0] == 0x16 {
            return Some(Step::Head(None));
        }
        let start = *self.start.get_or_insert(input.mark);
        let (count, complete) = match memchr::memchr(b'\n', input.bytes) {
            Some(end) => (end + 1, true),
            None => (input.bytes.len(), false),
        };
        let bytes = input.take(count);
        let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if !complete {
            return None;
        }
        let line = std::mem::take(&mut self.line);
        match operation::parse(self.side, line.trim_ascii_end()) {
            Some(Operation::Message(message)) => {
                let peeked = if peeks(&message) { MAX_PEEKED_BYTES } else { 0 };
                let wanted = message.header_bytes.min(MAX_HEADER_BYTES) + peeked;
                let (remaining, wanted) = (message.bytes, wanted.min(message.bytes));
                self.state = State::Kept { message, remaining, wanted };
                None
            }
            Some(operation) => {
                self.state = State::Ended;
                let content = Vec::new();
                Some(Step::Head(Some(Head { operation, content, start, end: input.mark })))
            }
            None => {
                self.lose(input);
                Some(Step::Malformed)
            }
        }
    }
}
