//! ZMTP 3, the protocol of ZeroMQ. Each side says in its READY command what socket it has. Sockets
//! that ask and answer make calls, matched by the envelope before the empty frame, or in order;
//! all others make messages. What CURVE encrypts is passed over.

mod frame;

use spanwise_model::protocol;

use self::frame::{COMMAND, MORE, Parts};
use crate::bytes::{Input, Mark, Side};
use crate::formats::messaging::{self, Destination};
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Head, Step};
use crate::parser::{Known, Outcome, Protocol};
use crate::sessions::{Conversation, Failure, Manner, Request};
use crate::trace_headers::TraceHeaders;

/// ZMTP in the protocol table.
pub(crate) const KNOWN: Known =
    Known { name: "zmtp", recognise: frame::recognise, parser: |_| Box::new(Zmtp::new()) };

/// Maximum subscriptions remembered per side, and their longest name.
const MAX_SUBSCRIPTIONS: usize = 64;
const MAX_TOPIC_BYTES: usize = 128;
/// Maximum frames of a message that are looked at.
const MAX_FRAMES: u32 = 16;

/// What a side's socket does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Socket {
    /// REQ, REP.
    Asks,
    Answers,
    /// DEALER, ROUTER.
    Deals,
    Routes,
    /// PUB, XPUB.
    Publishes,
    /// SUB, XSUB: its messages are subscriptions.
    Subscribes,
    /// PUSH, PULL, PAIR, and those that nobody knows.
    Other,
}

impl Socket {
    const fn named(name: &[u8]) -> Self {
        match name {
            b"REQ" => Self::Asks,
            b"REP" => Self::Answers,
            b"DEALER" => Self::Deals,
            b"ROUTER" => Self::Routes,
            b"PUB" | b"XPUB" => Self::Publishes,
            b"SUB" | b"XSUB" => Self::Subscribes,
            _ => Self::Other,
        }
    }
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Question,
    Answer,
    Message,
}

/// A message of which not all frames have passed.
struct Passing {
    start: Mark,
    frames: u32,
    /// Bytes of the frames behind the envelope.
    bytes: u64,
    /// Of the frames before the empty one, in a number.
    envelope: u64,
    /// Whether the empty frame has passed.
    delimited: bool,
    /// The subscription that the first frame fits.
    topic: Vec<u8>,
    headers: TraceHeaders,
    /// Whether the last frame is being sent.
    last: bool,
}

/// The parser of one connection.
pub(super) struct Zmtp {
    requests: Frames<Parts>,
    responses: Frames<Parts>,
    sockets: [Option<Socket>; 2],
    passing: [Option<Passing>; 2],
    /// What each side has subscribed to.
    subscriptions: [Vec<Vec<u8>>; 2],
    /// CURVE or another mechanism that hides messages.
    sealed: bool,
    strikes: Strikes,
}

impl Zmtp {
    fn new() -> Self {
        Self {
            requests: Frames::new(Parts::default()),
            responses: Frames::new(Parts::default()),
            sockets: [None, None],
            passing: [None, None],
            subscriptions: [Vec::new(), Vec::new()],
            sealed: false,
            strikes: Strikes::NONE,
        }
    }

    const fn frames(&mut self, side: Side) -> &mut Frames<Parts> {
        match side {
            Side::Request => &mut self.requests,
            Side::Response => &mut self.responses,
        }
    }

    fn lose(&mut self, side: Side, conversation: &mut Conversation<'_>) {
        self.passing[side as usize] = None;
        self.frames(side).framing().greeted = true;
        // What was missed may have been questions or their answers.
        conversation.abandon_where(|_| true);
    }

    fn greeting(&mut self, side: Side, content: &[u8]) {
        let end = content.iter().position(|byte| *byte == 0).unwrap_or(content.len());
        self.sealed |= !matches!(&content[..end], b"NULL" | b"PLAIN");
        self.frames(side).framing().greeted = true;
    }

    fn command(&mut self, side: Side, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        let Some((name, rest)) = frame::command(&head.content) else { return };
        match name {
            b"READY" | b"INITIATE" => {
                self.sockets[side as usize] = frame::socket_type(rest).map(Socket::named);
            }
            b"SUBSCRIBE" => self.subscribe(side, rest),
            b"CANCEL" => self.cancel(side, rest),
            b"ERROR" => {
                let request = Request::new("connect");
                let failure = Some(Failure::plain("connection_refused"));
                conversation.tell_failed(head.start, head.end, request, failure);
            }
            _ => {}
        }
    }

    fn subscribe(&mut self, side: Side, topic: &[u8]) {
        let known = &mut self.subscriptions[side as usize];
        if !topic.is_empty()
            && topic.len() <= MAX_TOPIC_BYTES
            && known.len() < MAX_SUBSCRIPTIONS
            && !known.iter().any(|known| known == topic)
        {
            known.push(topic.to_vec());
        }
    }

    fn cancel(&mut self, side: Side, topic: &[u8]) {
        self.subscriptions[side as usize].retain(|known| known != topic);
    }

    fn part(&mut self, side: Side, flags: u8, head: &Head<'_>) {
        let socket = self.sockets[side as usize];
        let content = &*head.content;
        if socket == Some(Socket::Subscribes) {
            // As ZMTP 3.0 subscribes.
            match content.split_first() {
                Some((1, topic)) => self.subscribe(side, topic),
                Some((0, topic)) => self.cancel(side, topic),
                _ => {}
            }
            return;
        }
        let to = &self.subscriptions[1 - side as usize];
        let passing = self.passing[side as usize].get_or_insert_with(|| Passing {
            start: head.start,
            frames: 0,
            bytes: 0,
            envelope: 0,
            delimited: false,
            topic: Vec::new(),
            headers: TraceHeaders::default(),
            last: false,
        });
        passing.frames = passing.frames.saturating_add(1);
        passing.last = flags & MORE == 0;
        if passing.frames == 1 && socket == Some(Socket::Publishes) {
            let fitting = to.iter().filter(|topic| content.starts_with(topic));
            passing.topic = fitting.max_by_key(|topic| topic.len()).cloned().unwrap_or_default();
        }
        if head.length == 0 && !passing.delimited && !passing.last {
            passing.delimited = true;
            passing.bytes = 0;
            return;
        }
        if !passing.delimited {
            for byte in content {
                let mixed = (passing.envelope ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
                passing.envelope = mixed ^ (mixed >> 29);
            }
        }
        passing.bytes = passing.bytes.saturating_add(head.length);
        if passing.frames <= MAX_FRAMES && head.is_whole() {
            context(content, &mut passing.headers);
        }
    }

    fn meaning(&self, side: Side, delimited: bool) -> Meaning {
        let (from, to) = (self.sockets[side as usize], self.sockets[1 - side as usize]);
        match (from, to) {
            _ if !delimited => Meaning::Message,
            (Some(Socket::Asks), _) | (_, Some(Socket::Answers)) => Meaning::Question,
            (Some(Socket::Answers), _) | (_, Some(Socket::Asks)) => Meaning::Answer,
            (Some(Socket::Deals), Some(Socket::Routes)) => Meaning::Question,
            (Some(Socket::Routes), Some(Socket::Deals)) => Meaning::Answer,
            _ => Meaning::Message,
        }
    }

    fn message(&self, side: Side, passing: Passing, end: Mark, to: &mut Conversation<'_>) {
        let meaning = self.meaning(side, passing.delimited);
        // Before the empty frame is no more than the envelope.
        let stream = if passing.delimited { passing.envelope } else { 0 };
        if meaning == Meaning::Answer && side == Side::Response {
            if to.answer_where(|found| found == stream) {
                to.begin_response(passing.start);
                to.response_reached(end);
                to.end_response();
            } else {
                to.counters.orphan_responses += 1;
            }
            return;
        }
        let socket = self.sockets[side as usize];
        let (operation, manner) = match (meaning, side, socket) {
            (Meaning::Question, Side::Request, _) => ("request", Manner::Call),
            (_, Side::Request, Some(Socket::Publishes)) => ("publish", Manner::Publish),
            (_, Side::Request, _) => ("send", Manner::Publish),
            (_, Side::Response, _) => ("deliver", Manner::Deliver),
        };
        let kind = if manner == Manner::Deliver { "process" } else { "send" };
        let destination = Destination::of_levels(&passing.topic, '.');
        let mut request = messaging::request("zeromq", operation, Some(kind), &destination, manner);
        request.headers = passing.headers;
        request.stream = stream;
        if let Ok(bytes) = i64::try_from(passing.bytes) {
            request.attributes.push(("messaging.message.body.size", bytes.into()));
        }
        if manner == Manner::Call {
            to.open(passing.start, end, request);
            to.continue_request(stream);
            to.request_reached(end);
        } else {
            to.tell(passing.start, end, request);
        }
    }
}

/// Trace context in a frame of its own: the text of `traceparent`, or the 32 bytes of
/// `spanwise.h`.
fn context(content: &[u8], headers: &mut TraceHeaders) {
    if content.len() == 55 && content.starts_with(b"00-") {
        headers.header(b"traceparent", content);
    } else if content.len() == 32 && content[25..] == *b"\x01SWC\0\0\0" {
        let text = format!(
            "00-{}-{}-{:02x}",
            hexadecimal(&content[..16]),
            hexadecimal(&content[16..24]),
            content[24]
        );
        headers.header(b"traceparent", text.as_bytes());
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Framed for Zmtp {
    type Head<'a> = Head<'a>;

    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        _: &mut Conversation<'_>,
    ) -> Step<Head<'a>> {
        self.frames(side).read(input)
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
        let flags = head.header.first().copied().unwrap_or(0);
        if flags == 0xff {
            self.greeting(side, &head.content);
        } else if self.sealed {
            // Nothing can be read.
        } else if flags & COMMAND != 0 {
            self.command(side, &head, conversation);
        } else {
            self.part(side, flags, &head);
        }
        Verdict::Fine
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        if let Some(passing) = self.passing[side as usize].take_if(|passing| passing.last) {
            self.message(side, passing, end, conversation);
        }
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, conversation: &mut Conversation<'_>) {
        self.lose(side, conversation);
    }

    fn pause(&mut self, side: Side, _: Mark, conversation: &mut Conversation<'_>) {
        if self.frames(side).is_lost() {
            self.lose(side, conversation);
        }
    }
}

impl Protocol for Zmtp {
    fn name(&self) -> &'static str {
        protocol::ZMTP
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
        self.responses.is_between() && self.passing[Side::Response as usize].is_none()
    }

    fn speaks_unasked(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> usize {
        let passing = self.passing.iter().flatten();
        self.requests.held_bytes()
            + self.responses.held_bytes()
            + passing
                .map(|passing| {
                    size_of::<Passing>() + passing.topic.len() + passing.headers.held_bytes()
                })
                .sum::<usize>()
            + self.subscriptions.iter().flatten().map(|topic| 32 + topic.len()).sum::<usize>()
    }
}
