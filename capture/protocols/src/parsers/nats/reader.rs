//! Borders of NATS messages: a line, and after some a payload of the size that it
//! says, with a line's end after it.

use super::operation::{self, MAX_LINE_BYTES, Message, Operation};
use crate::bytes::{Input, Mark, Side};
use crate::framing::Step;
use crate::parser::Likeness;

/// Bytes of a message's headers that are looked at.
const MAX_HEADER_BYTES: u64 = 2048;
/// Bytes of a payload that are looked at where it may be the broker's own word.
const MAX_PEEKED_BYTES: u64 = 256;
/// The end of a payload.
const END: &[u8; 2] = b"\r\n";

/// The part of a message that is looked at.
#[derive(Debug)]
pub(crate) struct Head {
    pub(super) operation: Operation,
    /// Its headers, then the beginning of what follows, as far as that is looked
    /// at and was captured.
    pub(super) content: Vec<u8>,
    pub(super) start: Mark,
    /// Past what is looked at.
    pub(super) end: Mark,
}

#[derive(Debug)]
enum State {
    /// In a line, or before one.
    Line,
    /// In what is looked at of a payload.
    Kept { message: Message, remaining: u64, wanted: u64 },
    /// In the rest of a payload.
    Rest { remaining: u64 },
    /// In its end, of which this much has passed.
    End(usize),
    /// Behind a line without payload.
    Ended,
    /// The borders are not known.
    Lost,
}

/// One side's messages.
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

    /// Whether it is between two messages.
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

    /// Reads up to the next step, to be called until there is [`Step::More`]. Where there is
    /// no head, the connection is encrypted from here on.
    /// `peeks` says whether what a message holds is looked at.
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
        // The first byte of a TLS record of the handshake.
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
