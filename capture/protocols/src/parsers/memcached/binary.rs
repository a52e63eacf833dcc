//! Memcached's binary protocol (Memcached wiki, "BinaryProtocolRevamped"):
//! a header of 24 bytes, extras, key, value. Commands that are answered only
//! where there is something to say are one request with the one that ends them.

use super::command::{Batch, MAX_KEY_BYTES, Shown, hide_keys};
use crate::bytes::{Input, Mark, Side, text};
use crate::framing::driver::{Framed, Verdict};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Framing, Head, Measure, Step};
use crate::parser::{Likeness, Outcome};
use crate::sessions::{Conversation, Failure, Request, Tag};

const HEADER_BYTES: usize = 24;
const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;
/// Bytes of an error's text that are kept.
const MAX_ERROR_BYTES: usize = 256;
/// Longest message: Memcached's own bound on values is 1 GiB.
const MAX_BODY_BYTES: u32 = 1 << 30;

const NOOP: u8 = 0x0a;
const STAT: u8 = 0x10;

/// What an opcode means: its name, whether it is quiet, and the extras that its
/// requests must have.
struct Opcode {
    name: &'static str,
    quiet: bool,
    extras: &'static [u8],
}

fn opcode(code: u8) -> Option<Opcode> {
    let (name, quiet, extras): (_, _, &[u8]) = match code {
        0x00 | 0x0c => ("get", false, &[0]),
        0x09 | 0x0d => ("get", true, &[0]),
        0x01 => ("set", false, &[8]),
        0x11 => ("set", true, &[8]),
        0x02 => ("add", false, &[8]),
        0x12 => ("add", true, &[8]),
        0x03 => ("replace", false, &[8]),
        0x13 => ("replace", true, &[8]),
        0x04 => ("delete", false, &[0]),
        0x14 => ("delete", true, &[0]),
        0x05 => ("incr", false, &[20]),
        0x15 => ("incr", true, &[20]),
        0x06 => ("decr", false, &[20]),
        0x16 => ("decr", true, &[20]),
        0x07 => ("quit", false, &[0]),
        0x17 => ("quit", true, &[0]),
        0x08 => ("flush_all", false, &[0, 4]),
        0x18 => ("flush_all", true, &[0, 4]),
        NOOP => ("noop", false, &[0]),
        0x0b => ("version", false, &[0]),
        0x0e => ("append", false, &[0]),
        0x19 => ("append", true, &[0]),
        0x0f => ("prepend", false, &[0]),
        0x1a => ("prepend", true, &[0]),
        STAT => ("stats", false, &[0]),
        0x1b => ("verbosity", false, &[4]),
        0x1c => ("touch", false, &[4]),
        0x1d | 0x23 => ("gat", false, &[4]),
        0x1e | 0x24 => ("gat", true, &[4]),
        0x20 => ("auth list", false, &[0]),
        0x21 | 0x22 => ("auth", false, &[0]),
        _ => return None,
    };
    Some(Opcode { name, quiet, extras })
}

/// A header's fields.
#[derive(Debug, Clone, Copy)]
struct Fields {
    opcode: u8,
    key: u16,
    extras: u8,
    status: u16,
    body: u32,
    opaque: u32,
}

/// Reads a header; `None` where it is none of this side.
fn fields(side: Side, header: &[u8]) -> Option<Fields> {
    let header: &[u8; HEADER_BYTES] = header.first_chunk()?;
    let [magic, code, key_high, key_low, extras, data_type, status_high, status_low, ..] = *header;
    let number = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let found = Fields {
        opcode: code,
        key: u16::from_be_bytes([key_high, key_low]),
        extras,
        status: u16::from_be_bytes([status_high, status_low]),
        body: number(8),
        opaque: number(12),
    };
    let opcode = opcode(code)?;
    let parts = u32::from(found.key) + u32::from(extras);
    let fits = data_type == 0
        && usize::from(found.key) <= MAX_KEY_BYTES
        && parts <= found.body
        && found.body <= MAX_BODY_BYTES;
    let right = match side {
        Side::Request => magic == REQUEST && opcode.extras.contains(&extras),
        Side::Response => magic == RESPONSE && matches!(extras, 0 | 4) && is_status(found.status),
    };
    (fits && right).then_some(found)
}

const fn is_status(status: u16) -> bool {
    matches!(status, 0..=9 | 0x20 | 0x21 | 0x81..=0x86)
}

/// The kind of failure that a status stands for; `None` where the command just
/// found nothing, or something else.
fn failure_kind(status: u16) -> Option<&'static str> {
    Some(match status {
        // Not found, exists, not stored, and authentication that goes on.
        0 | 1 | 2 | 5 | 0x21 => return None,
        3 => "too_large",
        4 => "invalid_arguments",
        6 => "non_numeric",
        7 => "wrong_server",
        8 | 0x20 => "auth_error",
        0x81 => "unknown_command",
        0x82 => "out_of_memory",
        0x83 => "not_supported",
        0x84 => "internal_error",
        0x85 => "busy",
        0x86 => "temporary_failure",
        _ => "error",
    })
}

/// Whether bytes look like the beginning of a message.
pub(super) fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let magic = if side == Side::Request { REQUEST } else { RESPONSE };
    if bytes.len() >= HEADER_BYTES {
        return if fields(side, bytes).is_some() { Likeness::Yes } else { Likeness::No };
    }
    let plausible = bytes.first().is_none_or(|byte| *byte == magic)
        && bytes.get(1).is_none_or(|code| opcode(*code).is_some())
        && bytes.get(5).is_none_or(|data_type| *data_type == 0);
    if plausible && whole { Likeness::Maybe } else { Likeness::No }
}

/// Framing of one side's messages.
#[derive(Debug)]
struct Messages(Side);

impl Framing for Messages {
    fn measure(&self, header: &[u8]) -> Measure {
        if header.len() < HEADER_BYTES {
            return Measure::Header(HEADER_BYTES);
        }
        let Some(fields) = fields(self.0, header) else { return Measure::Malformed };
        let keep = match self.0 {
            Side::Request => usize::from(fields.extras) + usize::from(fields.key),
            Side::Response if fields.status == 0 => 0,
            Side::Response => MAX_ERROR_BYTES,
        };
        Measure::Content { bytes: u64::from(fields.body), keep }
    }

    fn begins(&self, _bytes: &[u8]) -> bool {
        // After commands that were missed, answers to them may still come.
        false
    }
}

/// The binary protocol of one connection.
pub(super) struct Binary {
    requests: Frames<Messages>,
    responses: Frames<Messages>,
    /// Whether the message being read belongs to a request that is shown.
    asking: bool,
    /// Commands asked quietly, whose end has not come.
    batch: Option<Batch>,
    /// Whether the message being read ends a response.
    last: bool,
    strikes: Strikes,
}

impl Binary {
    pub(super) const fn new() -> Self {
        Self {
            requests: Frames::new(Messages(Side::Request)),
            responses: Frames::new(Messages(Side::Response)),
            asking: false,
            batch: None,
            last: false,
            strikes: Strikes::NONE,
        }
    }

    fn command(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        let Some(fields) = fields(Side::Request, &head.header) else { return };
        let Some(opcode) = opcode(fields.opcode) else { return };
        self.strikes.clear();
        if opcode.name == "quit" {
            return;
        }
        let authentication = matches!(fields.opcode, 0x20..=0x22);
        let extras = usize::from(fields.extras);
        let key = head.content.get(extras..).filter(|key| !key.is_empty() && !authentication);
        let stores = u32::from(fields.key) + u32::from(fields.extras) < fields.body;
        let shown = Shown {
            name: opcode.name,
            key: key.map(<[u8]>::to_vec),
            // The value, or the number that is added.
            hidden: u64::from(stores || matches!(opcode.name, "incr" | "decr" | "touch" | "gat")),
        };
        let stream = stream(fields);
        self.asking = true;
        match self.batch.take() {
            Some(mut batch) => {
                if fields.opcode != NOOP {
                    batch.add(&shown);
                }
                let hide_keys = hide_keys(conversation);
                conversation.change_request(|request| {
                    *request = Request { tag: Tag::Batch, stream, ..batch.request(hide_keys) };
                });
                self.batch = Some(batch).filter(|_| opcode.quiet);
            }
            None => {
                let batch = Batch::of(shown);
                let tag = if opcode.quiet { Tag::Batch } else { Tag::Plain };
                let silent = authentication;
                let request =
                    Request { tag, stream, silent, ..batch.request(hide_keys(conversation)) };
                conversation.open(head.start, head.end, request);
                self.batch = Some(batch).filter(|_| opcode.quiet);
            }
        }
    }

    /// Takes a response; `false` where it is not the one that must come.
    fn response(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) -> bool {
        let Some(fields) = fields(Side::Response, &head.header) else { return false };
        let quiet = opcode(fields.opcode).is_some_and(|opcode| opcode.quiet);
        let Some(exchange) = conversation.answering() else {
            conversation.counters.orphan_responses += u64::from(!quit(fields.opcode));
            return true;
        };
        let ends = stream(fields) == exchange.request.stream && !quiet;
        let part = exchange.request.tag == Tag::Batch && quiet;
        if !ends && !part {
            return false;
        }
        self.strikes.clear();
        if let Some(kind) = failure_kind(fields.status)
            && exchange.answer.failure.is_none()
        {
            exchange.answer.status_code = Some(i32::from(fields.status));
            let code = fields.status.to_string().into();
            let attributes = &mut exchange.answer.attributes;
            attributes.push(("db.response.status_code", code));
            let message = text(&head.content, MAX_ERROR_BYTES);
            let message = if message.is_empty() { kind.to_owned() } else { message };
            exchange.answer.failure = Some(Failure { kind: kind.to_owned(), message });
        }
        conversation.begin_response(head.start);
        // Statistics come one by one; one without name ends them.
        let more = fields.opcode == STAT && fields.status == 0 && fields.body > 0;
        self.last = ends && !more;
        true
    }

    pub(super) fn turn(&mut self, to: Side, conversation: &mut Conversation<'_>) {
        match to {
            Side::Request => {
                self.end_lost(conversation);
                if self.requests.is_lost() {
                    // Commands were missed: whose the next response is, is not
                    // known.
                    conversation.abandon();
                    conversation.counters.resynchronised += 1;
                    self.requests = Frames::new(Messages(Side::Request));
                    self.asking = false;
                }
            }
            Side::Response => {
                if self.responses.is_lost() {
                    conversation.counters.resynchronised += 1;
                    self.responses = Frames::new(Messages(Side::Response));
                    self.last = false;
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
        if self.responses.is_lost() {
            conversation.end_lost_response();
        }
    }

    pub(super) const fn between_responses(&self) -> bool {
        self.responses.is_between()
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.requests.held_bytes()
            + self.responses.held_bytes()
            + self.batch.as_ref().map_or(0, Batch::held_bytes)
    }
}

impl Framed for Binary {
    type Head<'a> = Head<'a>;

    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        conversation: &mut Conversation<'_>,
    ) -> Step<Head<'a>> {
        match side {
            Side::Request => self.requests.read(input),
            Side::Response if self.responses.is_lost() => {
                input.skip_all();
                conversation.response_reached(input.mark);
                Step::More
            }
            Side::Response => self.responses.read(input),
        }
    }

    fn strikes(&mut self) -> &mut Strikes {
        &mut self.strikes
    }

    fn begin(
        &mut self,
        side: Side,
        head: Head<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Verdict {
        match side {
            Side::Request => self.command(&head, conversation),
            Side::Response if !self.response(&head, conversation) => {
                self.responses.lose();
                return Verdict::Lost;
            }
            Side::Response => {}
        }
        Verdict::Fine
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        match side {
            Side::Request => {
                if std::mem::take(&mut self.asking) {
                    conversation.request_reached(end);
                }
            }
            Side::Response => {
                conversation.response_reached(end);
                if std::mem::take(&mut self.last) {
                    conversation.end_response();
                }
            }
        }
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, at: Mark, missed: bool, conversation: &mut Conversation<'_>) {
        match side {
            Side::Request => self.batch = None,
            Side::Response => {
                if missed {
                    conversation.abandon();
                } else {
                    conversation.begin_response(at);
                    conversation.response_reached(at);
                }
                conversation.weaken();
            }
        }
    }

    fn malformed(&mut self, _: Side, _: Mark, _: &mut Conversation<'_>) -> Verdict {
        Verdict::Malformed
    }

    fn pause(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) {
        match side {
            Side::Request if self.asking => conversation.request_reached(at),
            Side::Response if !self.responses.is_between() => conversation.response_reached(at),
            _ => {}
        }
    }

    fn struck(
        &mut self,
        _: Mark,
        outcome: Outcome,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        conversation.abandon();
        self.batch = None;
        outcome
    }
}

fn quit(code: u8) -> bool {
    opcode(code).is_some_and(|opcode| opcode.name == "quit")
}

/// What pairs a response with its request: opcode and the client's number.
fn stream(fields: Fields) -> u64 {
    u64::from(fields.opaque) << 8 | u64::from(fields.opcode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_recognised_strictly() {
        let mut get = vec![0x80, 0x00, 0, 3, 0, 0, 0, 0, 0, 0, 0, 3];
        get.extend_from_slice(&[0; 12]);
        get.extend_from_slice(b"key");
        assert_eq!(recognise(Side::Request, &get, true), Likeness::Yes);
        assert_eq!(recognise(Side::Response, &get, true), Likeness::No);
        for end in 0..HEADER_BYTES {
            assert_eq!(recognise(Side::Request, &get[..end], true), Likeness::Maybe);
        }
        for (at, byte) in [(0, 0x82), (1, 0x77), (2, 0xff), (4, 8), (5, 1), (11, 2)] {
            let mut changed = get.clone();
            changed[at] = byte;
            assert_eq!(recognise(Side::Request, &changed, true), Likeness::No, "{at}");
        }
        let mut missing = vec![0x81, 0x00, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9];
        missing.extend_from_slice(&[0; 12]);
        assert_eq!(recognise(Side::Response, &missing, true), Likeness::Yes);
        missing[7] = 0x77;
        assert_eq!(recognise(Side::Response, &missing, true), Likeness::No);
    }
}
