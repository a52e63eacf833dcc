//! Memcached's text protocol (doc/protocol.txt): commands are answered in
//! order. Those that want no answer are spans by themselves; those of which only
//! some are answered are one request with the one that ends them.

use super::command::{Batch, Form, hide_keys};
use super::line::{Command, Reply, reply};
use crate::bytes::{Input, Mark, Side};
use crate::framing::strikes::Strikes;
use crate::parser::Outcome;
use crate::sessions::{Conversation, Request, Tag};

/// Bytes of a line that are looked at.
const MAX_LINE_BYTES: usize = 512;
/// The line that ends values.
const END: &[u8] = b"END\r\n";

/// A reply that ends with the one to `mn`.
const ENDS_WITH_NOOP: u64 = 0;
/// A reply whose end cannot be told from what is before it.
const ENDS_WITH_SILENCE: u64 = 1;

/// Where a side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a line, or before one.
    Line,
    /// In a value of which this many bytes are left, its line end counted.
    Data { remaining: u64 },
    /// In bytes whose borders are not known.
    Lost,
}

/// One side.
#[derive(Debug)]
struct Half {
    state: State,
    line: Vec<u8>,
    /// Blanks in the line, all of it.
    blanks: u64,
    /// The line's first byte.
    start: Option<Mark>,
}

impl Half {
    const fn new() -> Self {
        Self { state: State::Line, line: Vec::new(), blanks: 0, start: None }
    }

    /// Reads a line; `true` when it is complete. What is longer than the bound
    /// is passed over.
    fn read_line(&mut self, input: &mut Input<'_>) -> bool {
        if self.start.is_none() {
            self.line.clear();
            self.blanks = 0;
            self.start = Some(input.mark);
        }
        let (taken, complete) = match memchr::memchr(b'\n', input.bytes) {
            Some(end) => (end + 1, true),
            None => (input.bytes.len(), false),
        };
        let bytes = input.take(taken);
        self.blanks += memchr::memchr_iter(b' ', bytes).count() as u64;
        let room = MAX_LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        complete
    }

    fn lose(&mut self) {
        *self = Self { state: State::Lost, ..Self::new() };
    }
}

/// The text protocol of one connection.
pub(super) struct Text {
    request: Half,
    response: Half,
    /// Commands asked quietly, whose end has not come.
    batch: Option<Batch>,
    /// What nobody will answer, while its value passes.
    told: Option<(Mark, Request)>,
    /// Whether the borders were lost in a command that is shown.
    lost_in_command: bool,
    /// Values of the reply so far; `None` where it has none.
    values: Option<i64>,
    strikes: Strikes,
}

impl Text {
    pub(super) const fn new() -> Self {
        Self {
            request: Half::new(),
            response: Half::new(),
            batch: None,
            told: None,
            lost_in_command: false,
            values: None,
            strikes: Strikes::NONE,
        }
    }

    fn strike(&mut self, conversation: &mut Conversation<'_>) -> Outcome {
        self.strikes.strike(conversation.counters)
    }

    pub(super) fn read_request(
        &mut self,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        match self.request.state {
            State::Lost => {
                input.skip_all();
                if self.lost_in_command {
                    conversation.request_reached(input.mark);
                }
                Outcome::Read
            }
            State::Data { remaining } => {
                match remaining - input.skip(remaining) {
                    0 => self.request.state = State::Line,
                    remaining => self.request.state = State::Data { remaining },
                }
                match self.told.take() {
                    Some((start, request)) if self.request.state == State::Line => {
                        conversation.tell(start, input.mark, request);
                    }
                    Some(told) => self.told = Some(told),
                    None => conversation.request_reached(input.mark),
                }
                Outcome::Read
            }
            State::Line if input.bytes.is_empty() => {
                conversation.counters.framing_lost += 1;
                self.lose_request(input, conversation);
                Outcome::Read
            }
            State::Line => {
                if !self.request.read_line(input) {
                    return Outcome::Read;
                }
                self.line_complete(input.mark, conversation)
            }
        }
    }

    /// A command of which not all was seen is shown as far as it was.
    fn lose_request(&mut self, input: &Input<'_>, conversation: &mut Conversation<'_>) {
        let (line, words) = (&self.request.line, self.request.blanks + 1);
        self.lost_in_command = false;
        if let (Some(start), Some(command)) = (self.request.start, Command::read(line, words))
            && !input.missed
            && matches!(command.form, Form::Keys | Form::TimeAndKeys)
        {
            let request = Batch::of(command.shown).request(hide_keys(conversation));
            conversation.open(start, input.mark, request);
            self.lost_in_command = true;
        }
        self.batch = None;
        self.told = None;
        self.request.lose();
    }

    fn line_complete(&mut self, end: Mark, conversation: &mut Conversation<'_>) -> Outcome {
        let start = self.request.start.take().unwrap_or(end);
        let Some(command) = Command::read(&self.request.line, self.request.blanks + 1) else {
            if self.request.line.trim_ascii().is_empty() {
                return Outcome::Read;
            }
            self.batch = None;
            self.lost_in_command = false;
            self.request.lose();
            return self.strike(conversation);
        };
        if command.form == Form::Stream {
            return Outcome::Switched;
        }
        self.strikes.clear();
        // The value is followed by a line end.
        let remaining = command.data.map_or(0, |length| length.saturating_add(2));
        if remaining > 0 {
            self.request.state = State::Data { remaining };
        }
        if command.unanswered {
            if command.form == Form::Unanswered {
                return Outcome::Read;
            }
            let request = Batch::of(command.shown).request(hide_keys(conversation));
            if remaining > 0 {
                self.told = Some((start, request));
            } else {
                conversation.tell(start, end, request);
            }
            return Outcome::Read;
        }
        let noop = command.shown.name == "mn";
        match self.batch.take() {
            Some(mut batch) => {
                if !noop {
                    batch.add(&command.shown);
                }
                let stream = if noop || command.quiet { ENDS_WITH_NOOP } else { ENDS_WITH_SILENCE };
                let hide_keys = hide_keys(conversation);
                conversation.change_request(|request| {
                    *request = Request { tag: Tag::Batch, stream, ..batch.request(hide_keys) };
                });
                conversation.request_reached(end);
                self.batch = Some(batch).filter(|_| command.quiet);
            }
            None => {
                let batch = Batch::of(command.shown);
                let tag = if command.quiet { Tag::Batch } else { Tag::Plain };
                let request = Request { tag, ..batch.request(hide_keys(conversation)) };
                conversation.open(start, end, request);
                self.batch = Some(batch).filter(|_| command.quiet);
            }
        }
        Outcome::Read
    }

    pub(super) fn read_response(
        &mut self,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        match self.response.state {
            State::Lost => {
                input.skip_all();
                conversation.response_reached(input.mark);
                Outcome::Read
            }
            State::Data { remaining } => {
                match remaining - input.skip(remaining) {
                    0 => {
                        self.response.state = State::Line;
                        conversation.response_reached(input.mark);
                        if self.values.is_none() {
                            self.reply_over(false, conversation);
                        }
                    }
                    remaining => {
                        self.response.state = State::Data { remaining };
                        conversation.response_reached(input.mark);
                    }
                }
                Outcome::Read
            }
            State::Line if input.bytes.is_empty() => {
                self.unseen_response(input, conversation);
                Outcome::Read
            }
            State::Line => {
                let complete = self.response.read_line(input);
                let start = self.response.start.unwrap_or(input.mark);
                let asked = conversation.begin_response(start);
                conversation.response_reached(input.mark);
                if !complete {
                    return Outcome::Read;
                }
                self.response.start = None;
                let Some(reply) = reply(self.response.line.trim_ascii_end()) else {
                    conversation.abandon();
                    self.lose_response();
                    return self.strike(conversation);
                };
                if !asked {
                    conversation.counters.orphan_responses += 1;
                }
                self.reply_line(reply, conversation);
                Outcome::Read
            }
        }
    }

    /// Bytes that were not seen where a line begins, or in one.
    fn unseen_response(&mut self, input: &mut Input<'_>, conversation: &mut Conversation<'_>) {
        // After a value, this many are the line that ends values.
        let is_end = self.values.is_some()
            && self.response.start.is_none()
            && input.unseen == END.len() as u64
            && !input.missed;
        if is_end {
            input.skip_all();
            conversation.response_reached(input.mark);
            self.reply_over(false, conversation);
            return;
        }
        if input.missed {
            conversation.abandon();
        } else {
            conversation.begin_response(self.response.start.unwrap_or(input.mark));
        }
        conversation.counters.framing_lost += 1;
        self.lose_response();
        conversation.weaken();
    }

    fn lose_response(&mut self) {
        self.response.lose();
        self.values = None;
    }

    fn reply_line(&mut self, reply: Reply, conversation: &mut Conversation<'_>) {
        self.strikes.clear();
        match reply {
            Reply::Value(length) => {
                self.values = Some(self.values.unwrap_or(0) + 1);
                self.response.state = State::Data { remaining: length.saturating_add(2) };
            }
            Reply::LastValue(length) => {
                self.values = None;
                self.response.state = State::Data { remaining: length.saturating_add(2) };
            }
            Reply::Part => {}
            Reply::Error(failure) => {
                if let Some(exchange) = conversation.answering() {
                    let kind = failure.kind.as_str().into();
                    let attributes = &mut exchange.answer.attributes;
                    attributes.push(("db.response.status_code", kind));
                    exchange.answer.failure = Some(failure);
                }
                self.reply_over(false, conversation);
            }
            Reply::End => {
                let retrieves =
                    |operation: &str| matches!(operation, "get" | "gets" | "gat" | "gats");
                if conversation.answering().is_some_and(|e| retrieves(&e.request.operation)) {
                    self.values.get_or_insert(0);
                }
                self.reply_over(false, conversation);
            }
            Reply::Only => self.reply_over(false, conversation),
            Reply::Noop => self.reply_over(true, conversation),
        }
    }

    /// A command's reply is over, and with it perhaps the response.
    fn reply_over(&mut self, noop: bool, conversation: &mut Conversation<'_>) {
        let values = self.values.take();
        let Some(exchange) = conversation.answering() else { return };
        if exchange.request.tag == Tag::Batch && !noop {
            if exchange.request.stream == ENDS_WITH_SILENCE {
                conversation.counters.framing_lost += 1;
                self.lose_response();
                conversation.weaken();
            }
            return;
        }
        if let Some(values) = values {
            let attribute = ("db.response.returned_rows", values.into());
            exchange.answer.attributes.push(attribute);
        }
        conversation.end_response();
    }

    pub(super) fn turn(&mut self, to: Side, conversation: &mut Conversation<'_>) {
        match to {
            Side::Request => {
                self.end_lost(conversation);
                if self.request.state == State::Lost {
                    // Commands were missed: whose the next reply is, is not known.
                    conversation.abandon();
                    conversation.counters.resynchronised += 1;
                    self.request = Half::new();
                }
            }
            Side::Response => {
                if self.response.state == State::Lost {
                    conversation.counters.resynchronised += 1;
                    self.response = Half::new();
                }
            }
        }
    }

    pub(super) fn quiet(&mut self, conversation: &mut Conversation<'_>) {
        self.end_lost(conversation);
        // Where nothing asked quietly had an answer, none is due.
        if self.batch.is_some() && conversation.end_unanswered() {
            self.batch = None;
        }
    }

    fn end_lost(&self, conversation: &mut Conversation<'_>) {
        if self.response.state == State::Lost {
            conversation.end_lost_response();
        }
    }

    pub(super) fn between_responses(&self) -> bool {
        self.response.state == State::Line && self.response.start.is_none() && self.values.is_none()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let told = self.told.as_ref().map_or(0, |_| 1024);
        let batch = self.batch.as_ref().map_or(0, Batch::held_bytes);
        self.request.line.capacity() + self.response.line.capacity() + told + batch
    }
}
