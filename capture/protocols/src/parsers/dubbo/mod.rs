//! Dubbo 2 (dubbo.apache.org/en/overview/reference/protocols/tcp). Dubbo 3's
//! Triple is gRPC.

mod hessian;

use spanwise_model::protocol;

use self::hessian::{Values, find};
use crate::bytes::{Input, Mark, Side};
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Framing, Head, Measure, Step};
use crate::parser::{Known, Likeness, Outcome, Protocol};
use crate::sessions::{Answer, Conversation, Failure, Request};

/// Dubbo, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "dubbo", recognise, parser: |serving| Box::new(Dubbo::new(serving)) };

const HEADER_BYTES: usize = 16;
const MAGIC: [u8; 2] = [0xda, 0xbb];
/// Flags in the third byte; its lower five bits tell the serialization.
const REQUEST: u8 = 0x80;
const TWO_WAY: u8 = 0x40;
const EVENT: u8 = 0x20;
const SERIALIZATION: u8 = 0x1f;
const HESSIAN: u8 = 2;
const FASTJSON: u8 = 6;

/// Bytes of a message that are looked at.
const MAX_LOOK_BYTES: usize = 2048;
/// Longest message that is taken for one.
const MAX_MESSAGE_BYTES: u32 = 1 << 30;
/// Longest name of a service or method that is one.
const MAX_NAME_BYTES: usize = 200;

/// Headers of traces among a call's attachments.
const TRACE_HEADERS: [&str; 6] =
    ["traceparent", "tracestate", "b3", "X-B3-TraceId", "X-B3-SpanId", "x-request-id"];

/// How a message's result begins (`DubboCodec`): whether it is an exception,
/// without attachments and with.
const EXCEPTIONS: [i32; 2] = [0, 3];

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    flags: u8,
    status: u8,
    id: u64,
    length: u32,
}

impl Facts {
    const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Reads a header, judged strictly.
fn facts(bytes: &[u8]) -> Option<Facts> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    let [_, _, flags, status, id @ .., l0, l1, l2, l3] = *header;
    let length = u32::from_be_bytes([l0, l1, l2, l3]);
    let facts = Facts { flags, status, id: u64::from_be_bytes(id), length };
    let right = is_plausible(header) && (1..=MAX_MESSAGE_BYTES).contains(&length);
    right.then_some(facts)
}

/// Whether a header may begin so.
fn is_plausible(bytes: &[u8]) -> bool {
    let flags = bytes.get(2).copied().unwrap_or(REQUEST | HESSIAN);
    let is_request = flags & REQUEST != 0;
    bytes.iter().zip(MAGIC).all(|(byte, magic)| *byte == magic)
        && flags & SERIALIZATION != 0
        && bytes.get(3).is_none_or(|status| {
            if is_request { *status == 0 } else { status_name(*status).is_some() }
        })
}

fn recognise(side: Side, bytes: &[u8], whole: bool) -> Likeness {
    let partly = if whole { Likeness::Maybe } else { Likeness::No };
    let mut rest = bytes;
    // Either side sends heartbeats: only calls tell which is which.
    while rest.len() >= HEADER_BYTES {
        let Some(facts) = facts(rest) else { return Likeness::No };
        if !facts.has(EVENT) {
            let asks = facts.has(REQUEST);
            return if asks == (side == Side::Request) { Likeness::Yes } else { Likeness::No };
        }
        let length = usize::try_from(facts.length).unwrap_or(usize::MAX);
        match rest.get(HEADER_BYTES.saturating_add(length)..) {
            Some(after) => rest = after,
            None => return partly,
        }
    }
    if is_plausible(rest) { partly } else { Likeness::No }
}

/// The name of a status (`org.apache.dubbo.remoting.exchange.Response`).
const fn status_name(status: u8) -> Option<&'static str> {
    Some(match status {
        20 => "OK",
        25 => "SERIALIZATION_ERROR",
        30 => "CLIENT_TIMEOUT",
        31 => "SERVER_TIMEOUT",
        35 => "CHANNEL_INACTIVE",
        40 => "BAD_REQUEST",
        50 => "BAD_RESPONSE",
        60 => "SERVICE_NOT_FOUND",
        70 => "SERVICE_ERROR",
        80 => "SERVER_ERROR",
        90 => "CLIENT_ERROR",
        100 => "SERVER_THREADPOOL_EXHAUSTED_ERROR",
        _ => return None,
    })
}

/// Whether a status is a failure of the one that serves (OpenTelemetry semantic
/// conventions for Dubbo); to the one that asks all but OK are.
const fn is_servers_failure(status: u8) -> bool {
    matches!(status, 31 | 70 | 80 | 100)
}

/// A name of a service or a method, or nothing where it is none.
fn name(text: &str) -> Option<&str> {
    let right = !text.is_empty()
        && text.len() <= MAX_NAME_BYTES
        && text.chars().all(|c| c.is_alphanumeric() || "._$-/:".contains(c));
    right.then_some(text)
}

/// What a call says: its protocol's version, path, service version, method,
/// parameter types, arguments, attachments.
fn request(facts: Facts, content: &[u8]) -> Request {
    let (service, method) = match facts.flags & SERIALIZATION {
        HESSIAN => hessian_call(content),
        FASTJSON => json_call(content),
        _ => (None, None),
    };
    let method =
        service.as_ref().zip(method).map(|(service, method)| format!("{service}/{method}"));
    let mut request = Request::new(method.as_deref().or(service.as_deref()).unwrap_or("Dubbo"));
    request.stream = facts.id;
    let attributes = &mut request.attributes;
    attributes.push(("rpc.system.name", "dubbo".into()));
    if let Some(method) = method {
        attributes.push(("rpc.method", method.into()));
    }
    if facts.flags & SERIALIZATION == HESSIAN {
        for key in TRACE_HEADERS {
            if let Some(value) = find(content, key) {
                request.headers.header(key.as_bytes(), value.as_bytes());
            }
        }
    }
    request
}

fn hessian_call(content: &[u8]) -> (Option<String>, Option<String>) {
    let mut values = Values(content);
    let mut next = || values.string();
    let (_, path, _, method) = (next(), next(), next(), next());
    let called = match method {
        // A call without the interface names the method by its first argument.
        Some("$invoke" | "$invokeAsync") => {
            next();
            next().or(method)
        }
        called => called,
    };
    let [path, called] = [path, called].map(|text| text.and_then(name).map(str::to_owned));
    (path, called)
}

/// The same as lines of JSON.
fn json_call(content: &[u8]) -> (Option<String>, Option<String>) {
    let mut lines = content.split(|byte| *byte == b'\n').map(|line| {
        let text: Option<String> = serde_json::from_slice(line).ok();
        text.filter(|text| name(text).is_some())
    });
    let (path, method) = (lines.nth(1).flatten(), lines.nth(1).flatten());
    (path, method)
}

/// What a result says. Its texts may hold anything: only names are kept.
fn answer(facts: Facts, content: &[u8], serving: bool) -> Answer {
    let status = facts.status;
    let status_name = status_name(status).unwrap_or_default();
    let mut answer = Answer { status_code: Some(i32::from(status)), ..Answer::default() };
    let attributes = &mut answer.attributes;
    attributes.push(("rpc.response.status_code", status_name.into()));
    if status_name != "OK" {
        let failed = !serving || is_servers_failure(status);
        answer.failure = failed.then(|| Failure::plain(status_name));
        return answer;
    }
    let (threw, class) = match facts.flags & SERIALIZATION {
        HESSIAN => {
            let mut values = Values(content);
            let threw = values.small().is_some_and(|kind| EXCEPTIONS.contains(&kind));
            (threw, values.class().and_then(name))
        }
        FASTJSON => (content.starts_with(b"0\n") || content.starts_with(b"3\n"), None),
        _ => (false, None),
    };
    answer.failure = threw.then(|| Failure::plain(class.unwrap_or("exception")));
    answer
}

/// A message behind its header.
#[derive(Debug)]
struct Messages;

impl Framing for Messages {
    fn measure(&self, header: &[u8]) -> Measure {
        if header.len() < HEADER_BYTES {
            return Measure::Header(HEADER_BYTES);
        }
        match facts(header) {
            Some(facts) => Measure::Content { bytes: facts.length.into(), keep: MAX_LOOK_BYTES },
            None => Measure::Malformed,
        }
    }

    fn begins(&self, bytes: &[u8]) -> bool {
        facts(bytes).is_some()
    }
}

/// What the message being read is.
#[derive(Debug, Default)]
enum Reading {
    /// Of no interest: a heartbeat, or what the other side would say.
    #[default]
    Other,
    /// A call that is answered.
    Call,
    /// A call that nobody answers; told when all of it has passed.
    OneWay { start: Mark, request: Box<Request> },
    /// An answer to an open call.
    Answer,
}

/// The parser of one connection.
struct Dubbo {
    serving: bool,
    calls: Frames<Messages>,
    answers: Frames<Messages>,
    call: Reading,
    answer: Reading,
    strikes: Strikes,
}

impl Dubbo {
    const fn new(serving: bool) -> Self {
        Self {
            serving,
            calls: Frames::new(Messages),
            answers: Frames::new(Messages),
            call: Reading::Other,
            answer: Reading::Other,
            strikes: Strikes::NONE,
        }
    }

    const fn reading(&mut self, side: Side) -> &mut Reading {
        match side {
            Side::Request => &mut self.call,
            Side::Response => &mut self.answer,
        }
    }

    fn read_head(
        &self,
        side: Side,
        head: &Head<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Reading {
        let Some(facts) = facts(&head.header).filter(|facts| !facts.has(EVENT)) else {
            return Reading::Other;
        };
        match (side, facts.has(REQUEST)) {
            (Side::Request, true) if facts.has(TWO_WAY) => {
                let request = request(facts, &head.content);
                conversation.open(head.start, head.end, request);
                Reading::Call
            }
            (Side::Request, true) => {
                let request = Box::new(request(facts, &head.content));
                Reading::OneWay { start: head.start, request }
            }
            (Side::Response, false) => {
                if !conversation.answer(facts.id) {
                    conversation.counters.orphan_responses += 1;
                    return Reading::Other;
                }
                conversation.begin_response(head.start);
                conversation.response_reached(head.end);
                if let Some(exchange) = conversation.answering() {
                    exchange.answer = answer(facts, &head.content, self.serving).into();
                }
                Reading::Answer
            }
            // The served may call back; such calls are not followed.
            (Side::Request, false) | (Side::Response, true) => Reading::Other,
        }
    }
}

fn end(reading: Reading, at: Mark, conversation: &mut Conversation<'_>) {
    match reading {
        Reading::Other => {}
        Reading::Call => conversation.request_reached(at),
        Reading::OneWay { start, request } => conversation.tell(start, at, *request),
        Reading::Answer => {
            conversation.response_reached(at);
            conversation.end_response();
        }
    }
}

impl Framed for Dubbo {
    type Head<'a> = Head<'a>;

    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        _: &mut Conversation<'_>,
    ) -> Step<Head<'a>> {
        match side {
            Side::Request => self.calls.read(input),
            Side::Response => self.answers.read(input),
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
        self.strikes.clear();
        *self.reading(side) = self.read_head(side, &head, conversation);
        Verdict::Fine
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        self::end(std::mem::take(self.reading(side)), end, conversation);
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, conversation: &mut Conversation<'_>) {
        *self.reading(side) = Reading::Other;
        // Nobody knows whose answers were among it.
        if side == Side::Response {
            conversation.abandon();
        }
    }

    fn malformed(&mut self, side: Side, _: Mark, _: &mut Conversation<'_>) -> Verdict {
        *self.reading(side) = Reading::Other;
        Verdict::Malformed
    }
}

impl Protocol for Dubbo {
    fn name(&self) -> &'static str {
        protocol::DUBBO
    }

    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        drive(self, side, input, conversation)
    }

    fn between_responses(&self) -> bool {
        self.answers.is_between()
    }

    fn held_bytes(&self) -> usize {
        let told = if matches!(self.call, Reading::OneWay { .. }) { MAX_LOOK_BYTES } else { 0 };
        self.calls.held_bytes() + self.answers.held_bytes() + told
    }
}

#[cfg(test)]
mod tests;
