//! The NATS client protocol (docs.nats.io/reference/reference-protocols/nats-protocol). Published
//! and delivered messages get no response, unless a message names a reply subject created for it
//! alone. A message to that subject is the response: from a service, from JetStream, or an
//! acknowledgement for JetStream.

mod headers;
mod operation;
mod reader;
mod subjects;

use std::collections::VecDeque;

use spanwise_model::{AttributeValue, protocol};

use self::headers::{Headers, headers};
use self::operation::{Message, Operation};
use self::reader::{Head, Reader};
use self::subjects::{Expectation, Kind, Subscriptions};
use crate::bytes::{Input, Mark, Side};
use crate::formats::messaging;
use crate::framing::Step;
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::parser::{Known, Outcome, Protocol};
use crate::redaction::without_quoted;
use crate::sessions::early::Early;
use crate::sessions::{Conversation, Failure, Identity, Manner, Passage, PassedMessage, Request};

/// NATS in the protocol table.
pub(crate) const KNOWN: Known =
    Known { name: "nats", recognise: operation::recognise, parser: |_| Box::new(Nats::new()) };

/// Maximum messages for which the subscription that may answer them is remembered.
const MAX_AWAITED: usize = 64;

/// The type of the message that is being sent.
enum Passing {
    /// An open request with this id.
    Open(u64),
    /// A response to the open request with this id.
    Answer(u64),
    /// A message without a response.
    Untold(Mark, Box<Request>),
}

/// The parser of one connection.
pub(super) struct Nats {
    requests: Reader,
    responses: Reader,
    passing: [Option<Passing>; 2],
    subscriptions: Subscriptions,
    /// Deliveries to subscriptions that could respond, but have not responded yet.
    awaited: VecDeque<(u64, Vec<u8>)>,
    early: Early,
    /// If the server confirms every message: the number of messages sent and confirmed.
    confirming: Option<(u64, u64)>,
    /// The server's first message was seen, so a later gap can be noticed.
    introduced: bool,
    strikes: Strikes,
}

impl Nats {
    fn new() -> Self {
        Self {
            requests: Reader::new(Side::Request),
            responses: Reader::new(Side::Response),
            passing: [None, None],
            subscriptions: Subscriptions::default(),
            awaited: VecDeque::new(),
            early: Early::default(),
            confirming: None,
            introduced: false,
            strikes: Strikes::NONE,
        }
    }

    /// Messages of one side were missed, perhaps with responses.
    fn lose(&mut self, side: Side, conversation: &mut Conversation<'_>) {
        self.passing[side as usize] = None;
        self.confirming = None;
        let answered = |stream| match side {
            Side::Request => subjects::is(stream, Kind::Delivery),
            Side::Response => !subjects::is(stream, Kind::Delivery),
        };
        let confirmed = |stream| subjects::is(stream, Kind::Confirmed);
        conversation.abandon_where(|stream| answered(stream) || confirmed(stream));
    }

    /// Handles a client message.
    fn asked(&mut self, head: Head, conversation: &mut Conversation<'_>) {
        // Messages that the server confirms are numbered.
        let number = match (&mut self.confirming, &head.operation) {
            (_, Operation::Ping | Operation::Pong) => None,
            (Some((sent, _)), _) => {
                *sent += 1;
                Some(*sent)
            }
            _ => None,
        };
        match head.operation {
            Operation::Connect { verbose } => {
                self.confirming = (verbose && self.introduced).then_some((1, 0));
                let none = subjects::destination(b"");
                let request = messaging::request("nats", "connect", None, &none, Manner::Call);
                let stream = subjects::stream(Kind::Connect, 0);
                let request = Request { stream, silent: true, ..request };
                conversation.open(head.start, head.end, request);
            }
            Operation::Subscribe { queue, subscription } => {
                self.subscriptions.subscribe(&subscription, &queue);
            }
            Operation::Unsubscribe { subscription } => {
                self.subscriptions.unsubscribe(&subscription);
            }
            Operation::Message(message) => {
                let (start, end) = (head.start, head.end);
                self.published(&message, &head.content, number, (start, end), conversation);
            }
            _ => {}
        }
    }

    fn published(
        &mut self,
        message: &Message,
        content: &[u8],
        number: Option<u64>,
        (start, end): (Mark, Mark),
        conversation: &mut Conversation<'_>,
    ) {
        let (found, payload) = split(message, content);
        let acknowledges = subjects::is_acknowledgement(&message.subject);
        let asks = subjects::is_inbox(&message.reply);
        if acknowledges && asks {
            // An acknowledgement for JetStream is not a message of its own.
            let request = describe("acknowledge", None, Manner::Call, message, Headers::default());
            let stream = subjects::by_reply(Kind::Request, &message.reply);
            conversation.open(start, end, Request { stream, silent: true, ..request });
        }
        if acknowledges && payload.starts_with(b"+WPI") {
            // The client reports that it is still working on the message.
            return;
        }
        let stream = subjects::by_reply(Kind::Delivery, &message.subject);
        if conversation.answer_where(|open| open == stream) {
            if let Some(at) = self.awaited.iter().position(|(awaited, _)| *awaited == stream)
                && let Some((_, subscription)) = self.awaited.remove(at)
            {
                self.subscriptions.answered(&subscription);
            }
            conversation.begin_response(start);
            if let Some(exchange) = conversation.answering() {
                exchange.request.silent = false;
                exchange.answer.failure = match payload {
                    _ if !acknowledges => found.error,
                    [b'-', b'N', b'A', b'K', ..] => Some(Failure::plain("nak")),
                    [b'+', b'T', b'E', b'R', b'M', ..] => Some(Failure::plain("term")),
                    _ => None,
                };
            }
            self.passing[Side::Request as usize] = Some(Passing::Answer(stream));
            return;
        }
        if acknowledges || subjects::is_inbox(&message.subject) {
            // The request for this response may not have been reported yet.
            let end = end.after(unread(message, content));
            self.early.keep(stream..=stream, (start, end), found.error.clone(), None);
        }
        if acknowledges || subjects::is_pull(&message.subject) {
            return;
        }
        let (name, kind, manner) = match asks {
            true => ("request", None, Manner::Call),
            false => ("publish", Some("send"), Manner::Publish),
        };
        let mut request = describe(name, kind, manner, message, found);
        identify(Passage::Sent, message, &mut request);
        let stream = match (asks, number) {
            (true, _) => subjects::by_reply(Kind::Request, &message.reply),
            (false, Some(number)) => subjects::stream(Kind::Confirmed, number),
            (false, None) => {
                let passing = Passing::Untold(start, Box::new(request));
                self.passing[Side::Request as usize] = Some(passing);
                return;
            }
        };
        conversation.open(start, end, Request { stream, ..request });
        self.passing[Side::Request as usize] = Some(Passing::Open(stream));
    }

    /// Handles a server message.
    fn answered(&mut self, head: Head, conversation: &mut Conversation<'_>) {
        let (start, end) = (head.start, head.end);
        let connecting = subjects::stream(Kind::Connect, 0);
        let begun = conversation.find(|exchange| exchange.request.stream == connecting).is_some();
        // Any first message other than an error means success.
        if begun && !matches!(head.operation, Operation::Info | Operation::Ping) {
            let failure = match &head.operation {
                Operation::Err(reason) => Some(error(reason)),
                _ => None,
            };
            let failed = failure.is_some();
            finish(conversation, connecting, (start, end), failure);
            if failed {
                return;
            }
        }
        match head.operation {
            Operation::Info => self.introduced = true,
            Operation::Ok => {
                if let Some((_, confirmed)) = &mut self.confirming {
                    *confirmed += 1;
                    let stream = subjects::stream(Kind::Confirmed, *confirmed);
                    finish(conversation, stream, (start, end), None);
                }
            }
            Operation::Err(reason) => {
                // It is unknown whether this error replaces a confirmation.
                if self.confirming.take().is_some() {
                    let confirmed = |stream| subjects::is(stream, Kind::Confirmed);
                    conversation.abandon_where(confirmed);
                }
                let failure = error(&reason);
                if let Some(stream) = asked_at(conversation, &reason) {
                    finish(conversation, stream, (start, end), Some(failure));
                    return;
                }
                let none = subjects::destination(b"");
                let request = messaging::request("nats", "error", None, &none, Manner::Deliver);
                conversation.tell_failed(start, end, request, Some(failure));
            }
            Operation::Message(message) => {
                self.delivered(&message, &head.content, (start, end), conversation);
            }
            _ => {}
        }
    }

    fn delivered(
        &mut self,
        message: &Message,
        content: &[u8],
        (start, end): (Mark, Mark),
        conversation: &mut Conversation<'_>,
    ) {
        let (found, payload) = split(message, content);
        let stream = subjects::by_reply(Kind::Request, &message.subject);
        if conversation.answer_where(|open| open == stream) {
            conversation.begin_response(start);
            self.passing[Side::Response as usize] = Some(Passing::Answer(stream));
            reply(&found, payload, conversation);
            return;
        }
        if subjects::is_inbox(&message.subject) {
            let end = end.after(unread(message, content));
            let (code, failure) = failed(&found, payload);
            self.early.keep(stream..=stream, (start, end), failure, code);
        }
        if found.status.is_some() {
            // The broker's own status: no more messages, or none now.
            return;
        }
        let mut request = describe("deliver", Some("process"), Manner::Deliver, message, found);
        identify(Passage::Received, message, &mut request);
        if let Some(queue) = self.subscriptions.queue(&message.subscription) {
            let queue = crate::bytes::text(queue, 64).into();
            request.attributes.push(("messaging.consumer.group.name", queue));
        }
        let answerable =
            subjects::is_inbox(&message.reply) || subjects::is_acknowledgement(&message.reply);
        // If a message is delivered to several subscriptions, only one gets a response.
        let stream = subjects::by_reply(Kind::Delivery, &message.reply);
        let again = conversation.find(|exchange| exchange.request.stream == stream).is_some();
        let expectation = match answerable && !again {
            true => self.subscriptions.expect(&message.subscription),
            false => Expectation::Nothing,
        };
        if expectation == Expectation::Nothing {
            let passing = Passing::Untold(start, Box::new(request));
            self.passing[Side::Response as usize] = Some(passing);
            return;
        }
        if expectation == Expectation::Perhaps {
            request.silent = true;
            if self.awaited.len() >= MAX_AWAITED {
                self.awaited.pop_front();
            }
            self.awaited.push_back((stream, message.subscription.clone()));
        }
        conversation.open(start, end, Request { stream, ..request });
        self.passing[Side::Response as usize] = Some(Passing::Open(stream));
    }

    fn passed(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) {
        match self.passing[side as usize].take() {
            Some(Passing::Open(stream)) => {
                conversation.continue_request(stream);
                conversation.request_reached(end);
                self.early.settle(stream, conversation);
            }
            Some(Passing::Answer(stream)) if conversation.answer_where(|open| open == stream) => {
                conversation.response_reached(end);
                conversation.end_response();
            }
            Some(Passing::Untold(start, request)) => conversation.tell(start, end, *request),
            _ => {}
        }
    }
}

/// Splits a message into its headers and the captured part of the payload.
fn split<'a>(message: &Message, content: &'a [u8]) -> (Headers, &'a [u8]) {
    let bytes = usize::try_from(message.header_bytes).unwrap_or(usize::MAX);
    let (before, payload) = content.split_at(bytes.min(content.len()));
    (headers(before), payload)
}

fn describe(
    name: &str,
    kind: Option<&str>,
    manner: Manner,
    message: &Message,
    found: Headers,
) -> Request {
    let destination = subjects::destination(&message.subject);
    let mut request = messaging::request("nats", name, kind, &destination, manner);
    request.headers = found.trace;
    let mut add = |key: &'static str, value: AttributeValue| request.attributes.push((key, value));
    if let Some(id) = &found.message_id {
        add("messaging.message.id", id.as_str().into());
    }
    if let Ok(bytes) = i64::try_from(message.bytes - message.header_bytes) {
        add("messaging.message.body.size", bytes.into());
    }
    request
}

/// Tells what identifies a message: its place in JetStream, or the subject of its reply, which is
/// used once.
fn identify(passage: Passage, message: &Message, request: &mut Request) {
    if let Some((stream, number)) = subjects::place(&message.reply) {
        request.messages.push(at(passage, stream, number));
    } else if subjects::is_inbox(&message.reply) {
        let reply = [message.reply.as_slice()];
        request.messages.push(PassedMessage::new(passage, Identity::Correlation, reply));
    }
}

fn at(passage: Passage, stream: &[u8], number: u64) -> PassedMessage {
    PassedMessage::new(passage, Identity::Place, [stream, &number.to_be_bytes()])
}

/// The failure in an error line. The subject that an error names is not part of its kind.
fn error(reason: &str) -> Failure {
    let kind = reason.split(" for ").next().unwrap_or_default().trim();
    let message = without_quoted(reason).into_owned();
    Failure { kind: kind.to_ascii_lowercase().replace(' ', "_"), message }
}

/// The open request to the subject that an error quotes.
fn asked_at(conversation: &mut Conversation<'_>, reason: &str) -> Option<u64> {
    let subject = reason.split('"').nth(1)?;
    let named = |request: &Request| {
        request.attributes.iter().any(|(key, value)| {
            *key == "messaging.destination.name" && value.as_str() == Some(subject)
        })
    };
    let asked = conversation.find(|exchange| {
        subjects::is(exchange.request.stream, Kind::Request) && named(&exchange.request)
    });
    asked.map(|exchange| exchange.request.stream)
}

/// Records the outcome from the response to a request.
fn reply(found: &Headers, payload: &[u8], conversation: &mut Conversation<'_>) {
    let Some(exchange) = conversation.answering() else { return };
    let refused = headers::refusal(payload).is_some();
    let to_broker = exchange.request.operation.starts_with("request $JS.");
    if !to_broker && (headers::is_stored(payload) || refused) {
        // JetStream confirms that it stored the message, or rejects it.
        let request = &mut exchange.request;
        request.manner = Manner::Publish;
        request.operation = request.operation.replacen("request", "publish", 1);
        for (key, value) in &mut request.attributes {
            if *key == "messaging.operation.name" {
                *value = "publish".into();
            }
        }
        let send = ("messaging.operation.type", "send".into());
        exchange.answer.attributes.push(send);
        if let Some((stream, number)) = headers::place(payload) {
            exchange.answer.messages.push(at(Passage::Sent, stream, number));
        }
    }
    (exchange.answer.status_code, exchange.answer.failure) = failed(found, payload);
}

/// The failure in a response, if any.
fn failed(found: &Headers, payload: &[u8]) -> (Option<i32>, Option<Failure>) {
    if let Some((code, said)) = found.status.as_ref().filter(|(code, _)| *code >= 400) {
        // Status 503 without text means that there are no responders.
        let said = if *code == 503 && said.is_empty() { "no responders" } else { said };
        let message = format!("{code}: {said}");
        return (Some(*code), Some(Failure { kind: code.to_string(), message }));
    }
    match headers::refusal(payload) {
        Some((code, failure)) => (Some(code), Some(failure)),
        None => (None, found.error.clone()),
    }
}

/// Number of message bytes after the captured part, including the line end.
fn unread(message: &Message, content: &[u8]) -> u64 {
    message.bytes - content.len() as u64 + 2
}

/// Completes the request of a stream, if it is open.
fn finish(
    conversation: &mut Conversation<'_>,
    stream: u64,
    (start, end): (Mark, Mark),
    failure: Option<Failure>,
) {
    if !conversation.answer_where(|open| open == stream) {
        return;
    }
    conversation.begin_response(start);
    conversation.response_reached(end);
    if let Some(exchange) = conversation.answering() {
        exchange.answer.failure = failure;
    }
    conversation.end_response();
}

impl Framed for Nats {
    type Head<'a> = Option<Head>;

    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        _: &mut Conversation<'_>,
    ) -> Step<Option<Head>> {
        match side {
            Side::Request => {
                self.requests.read(input, |message| subjects::is_acknowledgement(&message.subject))
            }
            Side::Response => {
                self.responses.read(input, |message| subjects::is_inbox(&message.subject))
            }
        }
    }

    fn strikes(&mut self) -> &mut Strikes {
        &mut self.strikes
    }

    fn begin(
        &mut self,
        side: Side,
        head: Option<Head>,
        conversation: &mut Conversation<'_>,
    ) -> Verdict {
        let Some(head) = head else { return Verdict::Stop(Outcome::Encrypted) };
        self.strikes.clear();
        match side {
            Side::Request => self.asked(head, conversation),
            Side::Response => self.answered(head, conversation),
        }
        Verdict::Fine
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        self.passed(side, end, conversation);
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, conversation: &mut Conversation<'_>) {
        self.lose(side, conversation);
    }
}

impl Protocol for Nats {
    fn name(&self) -> &'static str {
        protocol::NATS
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
        self.responses.is_between()
    }

    fn speaks_unasked(&self) -> bool {
        true
    }

    fn held_bytes(&self) -> usize {
        let passing = |passing: &Option<Passing>| match passing {
            Some(Passing::Untold(_, request)) => size_of::<Request>() + request.held_bytes(),
            _ => 0,
        };
        let awaited = |(_, subscription): &(u64, Vec<u8>)| 32 + subscription.len();
        self.requests.held_bytes()
            + self.responses.held_bytes()
            + self.passing.iter().map(passing).sum::<usize>()
            + self.awaited.iter().map(awaited).sum::<usize>()
            + self.subscriptions.held_bytes()
            + self.early.held_bytes()
    }
}
