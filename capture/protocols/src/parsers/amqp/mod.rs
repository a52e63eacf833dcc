//! AMQP 0-9-1 (www.rabbitmq.com/amqp-0-9-1-reference), as RabbitMQ speaks it.
//! Methods that are answered are calls. A published message is one that the
//! server confirms, where the channel has publisher confirms, else one that
//! nobody answers; a delivered message is one that the client acknowledges, or
//! nobody. Both find their acknowledgement by channel and delivery tag.

mod channels;
mod content;
mod fields;
mod frame;
mod method;

use std::ops::RangeInclusive;

use spanwise_model::protocol;

use self::channels::{Channels, Kind};
use self::content::{Contents, Partial, Purpose};
use self::fields::Fields;
use self::frame::{FRAME_END, Frame};
use self::method::Method;
use crate::bytes::{Input, Mark, Side, text};
use crate::formats::messaging::{self, Destination};
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Head, Step};
use crate::parser::{Known, Outcome, Protocol};
use crate::sessions::early::Early;
use crate::sessions::{Conversation, Failure, Manner, Passage, PassedMessage, Request};

/// AMQP 0-9-1, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "amqp", recognise: frame::recognise, parser: |_| Box::new(Amqp::new()) };

/// Longest text of a failure.
const MAX_REASON_BYTES: usize = 255;
/// The opening of a connection, from the client's first bytes to the virtual
/// host's opening.
const OPENING: u64 = channels::call(0, Method { class: 10, method: 40 });

/// The parser of one connection.
pub(super) struct Amqp {
    requests: Frames<Frame>,
    responses: Frames<Frame>,
    published: Contents,
    delivered: Contents,
    /// The body frame that passes, by side: its channel, and its bytes.
    body: [Option<(u16, u64)>; 2],
    channels: Channels,
    early: Early,
    strikes: Strikes,
}

/// A method frame.
struct Message<'a> {
    channel: u16,
    method: Method,
    arguments: Fields<'a>,
    start: Mark,
    end: Mark,
}

/// The failure that a closing method names.
fn reason(arguments: &mut Fields<'_>) -> (u16, Failure) {
    let code = arguments.short().unwrap_or(0);
    let said = text(arguments.short_string().unwrap_or_default(), MAX_REASON_BYTES);
    (code, Failure { kind: code.to_string(), message: format!("{code}: {said}") })
}

/// Begins or goes on with the answer to a stream's request; `false` where that
/// is not open.
fn answer(conversation: &mut Conversation<'_>, stream: u64, start: Mark, end: Mark) -> bool {
    let open = conversation.answer_where(|found| found == stream);
    if open {
        conversation.begin_response(start);
        conversation.response_reached(end);
    }
    open
}

/// The passage of messages that one side sends.
const fn passage(side: Side) -> Passage {
    match side {
        Side::Request => Passage::Sent,
        Side::Response => Passage::Received,
    }
}

/// The answer to a stream's request carries a message.
fn carry(conversation: &mut Conversation<'_>, stream: u64, message: PassedMessage) {
    if conversation.answer_where(|found| found == stream)
        && let Some(exchange) = conversation.answering()
    {
        exchange.answer.messages.push(message);
    }
}

/// The request that is being answered has failed, unless it had already.
fn fail(conversation: &mut Conversation<'_>, failure: &Failure, code: Option<u16>) {
    let Some(exchange) = conversation.answering() else { return };
    if exchange.answer.failure.is_none() {
        exchange.answer.failure = Some(failure.clone());
        exchange.answer.status_code = code.map(i32::from);
    }
}

/// Ends every request that an acknowledgement is for; whether there was any.
fn settle(
    conversation: &mut Conversation<'_>,
    settled: impl Fn(u64) -> bool,
    failure: Option<Failure>,
    start: Mark,
    end: Mark,
) -> bool {
    let mut any = false;
    while conversation.answer_where(&settled) {
        any = true;
        conversation.begin_response(start);
        conversation.response_reached(end);
        if let Some(failure) = &failure {
            fail(conversation, failure, None);
        }
        conversation.end_response();
    }
    any
}

impl Amqp {
    pub(super) fn new() -> Self {
        Self {
            requests: Frames::new(Frame(Side::Request)),
            responses: Frames::new(Frame(Side::Response)),
            published: Contents::default(),
            delivered: Contents::default(),
            body: [None; 2],
            channels: Channels::default(),
            early: Early::default(),
            strikes: Strikes::NONE,
        }
    }

    const fn reader(&mut self, side: Side) -> &mut Frames<Frame> {
        match side {
            Side::Request => &mut self.requests,
            Side::Response => &mut self.responses,
        }
    }

    const fn contents(&mut self, side: Side) -> &mut Contents {
        match side {
            Side::Request => &mut self.published,
            Side::Response => &mut self.delivered,
        }
    }

    /// Frames of a side were not seen. What its further frames answer is known
    /// by number; what was answered among the lost ones is not.
    fn lose(&mut self, side: Side, conversation: &mut Conversation<'_>) {
        self.body[side as usize] = None;
        for partial in self.contents(side).take_all() {
            if let (Purpose::Tell { failure }, Some(request)) = (partial.purpose, partial.request) {
                conversation.tell_failed(partial.start, partial.end, request, failure);
            }
        }
        match side {
            Side::Request => {
                self.channels.lose_count();
                conversation.abandon_where(|stream| channels::is(stream, Kind::Delivery));
            }
            Side::Response => {
                conversation.abandon_where(|stream| !channels::is(stream, Kind::Delivery));
            }
        }
    }

    fn frame(
        &mut self,
        side: Side,
        head: &Head<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        let [kind, high, low] = *head.header.first_chunk().unwrap_or(&[0; 3]);
        if kind == b'A' {
            self.prelude(side, head, conversation);
            return Outcome::Read;
        }
        let channel = u16::from_be_bytes([high, low]);
        if !matches!(kind, frame::METHOD | frame::CONTENT_HEADER) {
            self.body[side as usize] = (kind == frame::BODY).then_some((channel, head.length - 1));
            if kind == frame::BODY {
                self.body_begins(side, channel, head, conversation);
            }
            return Outcome::Read;
        }
        let payload = match head.content.split_last() {
            Some((&FRAME_END, payload)) if head.is_whole() => payload,
            _ if head.is_whole() => {
                self.reader(side).lose();
                self.lose(side, conversation);
                return self.strikes.strike(conversation.counters);
            }
            _ => {
                conversation.counters.heads_cut += 1;
                &head.content
            }
        };
        self.strikes.clear();
        // What was not captured was moved by the same call.
        let end = head.end.after(head.length - head.content.len() as u64);
        let mut arguments = Fields(payload);
        if kind == frame::CONTENT_HEADER {
            self.content_header(side, channel, payload, end, conversation);
        } else if let (Some(class), Some(method)) = (arguments.short(), arguments.short()) {
            let method = Method { class, method };
            let message = Message { channel, method, arguments, start: head.start, end };
            match side {
                Side::Request => self.asked(message, conversation),
                Side::Response => self.answered(message, conversation),
            }
        }
        Outcome::Read
    }

    /// A frame of a message's body begins. If nothing else identifies the message, its content
    /// does.
    fn body_begins(
        &mut self,
        side: Side,
        channel: u16,
        head: &Head<'_>,
        conversation: &mut Conversation<'_>,
    ) {
        let Some(mut partial) = self.contents(side).take(channel) else { return };
        if std::mem::take(&mut partial.unidentified) {
            let bytes = usize::try_from(head.length - 1).unwrap_or(usize::MAX);
            let begin = &head.content[..head.content.len().min(bytes)];
            let length = partial.remaining.unwrap_or(0);
            if let Some(message) = PassedMessage::of_content(passage(side), begin, length) {
                match (&mut partial.request, &partial.purpose) {
                    (Some(request), _) => request.messages.push(message),
                    (None, Purpose::Ask { stream }) => {
                        if conversation.continue_request(*stream) {
                            conversation.change_request(|request| request.messages.push(message));
                        }
                    }
                    (None, Purpose::Answer { stream }) => {
                        carry(conversation, *stream, message);
                    }
                    (None, Purpose::Tell { .. }) => {}
                }
            }
        }
        self.contents(side).begin(partial);
    }

    /// What a connection begins with. A server says it only to refuse the
    /// version that was asked for.
    fn prelude(&self, side: Side, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        match side {
            Side::Request => {
                let request = messaging::request(
                    "rabbitmq",
                    "connection.open",
                    None,
                    &Destination::plain(b""),
                    Manner::Call,
                );
                let request = Request { stream: OPENING, silent: true, ..request };
                conversation.open(head.start, head.end, request);
            }
            Side::Response => {
                if answer(conversation, OPENING, head.start, head.end) {
                    fail(conversation, &Failure::plain("version_refused"), None);
                    conversation.end_response();
                }
            }
        }
    }

    /// A client's method.
    fn asked(&mut self, message: Message<'_>, conversation: &mut Conversation<'_>) {
        let Message { channel, method, mut arguments, start, end } = message;
        let fields = &mut arguments;
        match (method.class, method.method) {
            (10, 11 | 21 | 31 | 40) => {
                if conversation.continue_request(OPENING) {
                    conversation.request_reached(end);
                }
                return;
            }
            (60, 40) => {
                let (_reserved, exchange) = (fields.short(), fields.short_string());
                let key = fields.short_string().unwrap_or_default();
                let names = (exchange.unwrap_or_default(), key, b"".as_slice());
                let mut request = method::message("publish", Some("send"), names, Manner::Publish);
                let purpose = match self.channels.next_published(channel) {
                    Some(tag) => Purpose::Ask { stream: channels::publish(channel, tag) },
                    None => Purpose::Tell { failure: None },
                };
                if let Purpose::Ask { stream } = &purpose {
                    request.stream = *stream;
                }
                let partial = Partial::new(channel, purpose, Some(request), start, end);
                self.published.begin(partial.to(names.0, key));
                return;
            }
            (60, 80 | 90 | 120) => {
                let tag = fields.long_long().unwrap_or(0);
                let flags = fields.octet().unwrap_or(0);
                // A rejection is of one message; its flag says something else.
                let multiple = method.method != 90 && flags & 1 != 0;
                let failure = match method.method {
                    90 => Some(Failure::plain("basic.reject")),
                    120 => Some(Failure::plain("basic.nack")),
                    _ => None,
                };
                let streams = channels::settled(Kind::Delivery, channel, tag, multiple);
                self.acknowledged(streams, failure, (start, end), conversation);
                return;
            }
            (10, 50) => self.end_deliveries(None, start, end, conversation),
            (20, 40) => self.end_deliveries(Some(channel), start, end, conversation),
            (20, 10) => self.channels.open(channel),
            (60, 20) => {
                let mut fields = *fields;
                let (_reserved, queue) = (fields.short(), fields.short_string());
                let tag = fields.short_string().unwrap_or_default();
                let flags = fields.octet().unwrap_or(0);
                self.channels.consume(channel, queue.unwrap_or_default(), tag, flags & 2 == 0);
            }
            (85, 10) => self.channels.confirm(channel),
            _ => {}
        }
        let Some(call) = method::call(method, arguments) else { return };
        let request = Request { stream: channels::call(channel, method), ..call.request };
        if !call.no_wait {
            let stream = request.stream;
            conversation.open(start, end, request);
            self.early.settle(stream, conversation);
        } else if !request.silent {
            conversation.tell(start, end, request);
        }
    }

    /// Ends every message that an acknowledgement is for.
    fn acknowledged(
        &mut self,
        streams: RangeInclusive<u64>,
        failure: Option<Failure>,
        (start, end): (Mark, Mark),
        conversation: &mut Conversation<'_>,
    ) {
        let settled = |stream| streams.contains(&stream);
        let any = settle(conversation, settled, failure.clone(), start, end);
        if !any || streams.start() != streams.end() {
            self.early.keep(streams, (start, end), failure, None);
        }
    }

    /// Messages that the client has not acknowledged when it closes the channel
    /// go to somebody else.
    fn end_deliveries(
        &self,
        channel: Option<u16>,
        start: Mark,
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) {
        let open = |stream| {
            channels::is(stream, Kind::Delivery)
                && channel.is_none_or(|channel| channels::is_on(stream, channel))
        };
        settle(conversation, open, Some(Failure::plain("not_acknowledged")), start, end);
    }

    /// A server's method.
    fn answered(&mut self, message: Message<'_>, conversation: &mut Conversation<'_>) {
        let Message { channel, method, mut arguments, start, end } = message;
        let fields = &mut arguments;
        match (method.class, method.method) {
            (10, 10 | 20 | 30) => {
                answer(conversation, OPENING, start, end);
            }
            (10, 50) => {
                let all = |_| true;
                let why = reason(fields);
                self.refused("connection.close", why, all, (start, end), conversation);
            }
            (20, 40) => {
                let here = |stream| channels::is_on(stream, channel);
                let why = reason(fields);
                // It names the method that was refused. Other calls will not be
                // answered any more, or their answers were missed.
                if let (Some(class @ 1..), Some(method)) = (fields.short(), fields.short()) {
                    let refused = channels::call(channel, Method { class, method });
                    let other = |stream| {
                        here(stream) && channels::is(stream, Kind::Call) && stream != refused
                    };
                    conversation.abandon_where(other);
                }
                self.refused("channel.close", why, here, (start, end), conversation);
                self.channels.close(channel);
            }
            (60, 30) => self.channels.cancel(channel, fields.short_string().unwrap_or_default()),
            (60, 50) => self.returned(channel, fields, start, end, conversation),
            (60, 60) => self.deliver(channel, fields, start, end),
            (60, 71) => {
                let stream = channels::call(channel, Method { class: 60, method: 70 });
                if answer(conversation, stream, start, end) {
                    let purpose = Purpose::Answer { stream };
                    let (_tag, _redelivered) = (fields.long_long(), fields.octet());
                    let exchange = fields.short_string().unwrap_or_default();
                    let key = fields.short_string().unwrap_or_default();
                    let partial = Partial::new(channel, purpose, None, start, end);
                    self.delivered.begin(partial.to(exchange, key));
                } else {
                    conversation.counters.orphan_responses += 1;
                }
            }
            (60, 80 | 120) => {
                let tag = fields.long_long().unwrap_or(0);
                let multiple = fields.octet().unwrap_or(0) & 1 != 0;
                let failure = (method.method == 120).then(|| Failure::plain("basic.nack"));
                let streams = channels::settled(Kind::Publish, channel, tag, multiple);
                self.acknowledged(streams, failure, (start, end), conversation);
            }
            _ => {
                if let (60, 21 | 31) = (method.class, method.method) {
                    let consumer = fields.short_string().unwrap_or_default();
                    match method.method {
                        21 => self.channels.consuming(channel, consumer),
                        _ => self.channels.cancel(channel, consumer),
                    }
                }
                let Some(asked) = method.answers() else { return };
                let stream = channels::call(channel, asked);
                if answer(conversation, stream, start, end) {
                    conversation.end_response();
                } else {
                    conversation.counters.orphan_responses += 1;
                    self.early.keep(stream..=stream, (start, end), None, None);
                }
            }
        }
    }

    /// The server closes a channel or the connection: what was open there has
    /// failed. Where nothing was, because a message that nobody answers was the
    /// reason, the closing makes a span of its own.
    fn refused(
        &self,
        name: &str,
        (code, failure): (u16, Failure),
        concerned: impl Fn(u64) -> bool,
        (start, end): (Mark, Mark),
        conversation: &mut Conversation<'_>,
    ) {
        let mut any = false;
        while conversation.answer_where(&concerned) {
            any = true;
            conversation.begin_response(start);
            conversation.response_reached(end);
            fail(conversation, &failure, Some(code));
            conversation.end_response();
        }
        // 200 is an orderly end.
        if !any && code != 200 {
            let none = Destination::plain(b"");
            let request = messaging::request("rabbitmq", name, None, &none, Manner::Deliver);
            conversation.tell_failed(start, end, request, Some(failure));
        }
    }

    /// A message that no queue wanted comes back. With publisher confirms, its
    /// confirmation follows, so its request is open: the oldest to the same
    /// destination that has not come back yet.
    fn returned(
        &mut self,
        channel: u16,
        fields: &mut Fields<'_>,
        start: Mark,
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) {
        let (_, failure) = reason(fields);
        let exchange = fields.short_string().unwrap_or_default();
        let key = fields.short_string().unwrap_or_default();
        let names = (exchange, key, b"".as_slice());
        let published = method::message("publish", Some("send"), names, Manner::Publish);
        let sent = |stream| channels::is(stream, Kind::Publish) && channels::is_on(stream, channel);
        let asked = conversation.find(|exchange| {
            sent(exchange.request.stream)
                && exchange.request.operation == published.operation
                && exchange.answer.failure.is_none()
        });
        if let Some(exchange) = asked {
            exchange.answer.failure = Some(failure);
            self.delivered.take(channel);
            return;
        }
        let request = method::message("return", None, names, Manner::Deliver);
        let purpose = Purpose::Tell { failure: Some(failure) };
        self.delivered.begin(Partial::new(channel, purpose, Some(request), start, end));
    }

    fn deliver(&mut self, channel: u16, fields: &mut Fields<'_>, start: Mark, end: Mark) {
        let consumer = fields.short_string().unwrap_or_default();
        let tag = fields.long_long().unwrap_or(0);
        let redelivered = fields.octet().unwrap_or(0) & 1 != 0;
        let exchange = fields.short_string().unwrap_or_default();
        let key = fields.short_string().unwrap_or_default();
        // Of a consumer that is not known, neither is whether it acknowledges.
        let (queue, acknowledges) =
            self.channels.consumer(channel, consumer).unwrap_or((b"", false));
        let names = (exchange, key, queue);
        let mut request = method::message("deliver", Some("process"), names, Manner::Deliver);
        if redelivered {
            let key = "spanwise.redelivered";
            request.attributes.push((key, spanwise_model::AttributeValue::Bool(true)));
        }
        let purpose = if acknowledges {
            request.stream = channels::delivery(channel, tag);
            Purpose::Ask { stream: request.stream }
        } else {
            Purpose::Tell { failure: None }
        };
        let partial = Partial::new(channel, purpose, Some(request), start, end);
        self.delivered.begin(partial.to(exchange, key));
    }

    fn content_header(
        &mut self,
        side: Side,
        channel: u16,
        payload: &[u8],
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) {
        let Some(mut partial) = self.contents(side).take(channel) else { return };
        let keys = conversation.keys();
        let Some(properties) = fields::properties(payload, &keys) else { return };
        let message = partial.describe(passage(side), properties);
        if let (Some(message), Purpose::Answer { stream }) = (message, &partial.purpose) {
            carry(conversation, *stream, message);
        }
        if matches!(partial.purpose, Purpose::Ask { .. })
            && let Some(request) = partial.request.take()
        {
            conversation.open(partial.start, end, request);
        }
        self.content_reached(side, partial, 0, end, conversation);
    }

    /// `bytes` more of a message's body have passed.
    fn content_reached(
        &mut self,
        side: Side,
        mut partial: Partial,
        bytes: u64,
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) {
        let Some(remaining) = partial.remaining else { return };
        let remaining = remaining.saturating_sub(bytes);
        partial.remaining = Some(remaining);
        partial.end = end;
        match &mut partial.purpose {
            Purpose::Ask { stream } => {
                conversation.continue_request(*stream);
                conversation.request_reached(end);
                if remaining == 0 {
                    self.early.settle(*stream, conversation);
                }
            }
            Purpose::Answer { stream } => {
                if answer(conversation, *stream, partial.start, end) && remaining == 0 {
                    conversation.end_response();
                }
            }
            Purpose::Tell { failure } => {
                if remaining == 0
                    && let Some(request) = partial.request.take()
                {
                    conversation.tell_failed(partial.start, end, request, failure.take());
                }
            }
        }
        if remaining > 0 {
            self.contents(side).begin(partial);
        }
    }
}

impl Framed for Amqp {
    type Head<'a> = Head<'a>;

    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        _: &mut Conversation<'_>,
    ) -> Step<Head<'a>> {
        match side {
            Side::Request => self.requests.read(input),
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
        self.frame(side, &head, conversation).into()
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        if let Some((channel, bytes)) = self.body[side as usize].take()
            && let Some(partial) = self.contents(side).take(channel)
        {
            self.content_reached(side, partial, bytes, end, conversation);
        }
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, conversation: &mut Conversation<'_>) {
        self.lose(side, conversation);
    }

    fn pause(&mut self, side: Side, _: Mark, conversation: &mut Conversation<'_>) {
        // What was passed over may have answered what is open.
        let lost = match side {
            Side::Request => self.requests.is_lost(),
            Side::Response => self.responses.is_lost(),
        };
        if lost {
            self.lose(side, conversation);
        }
    }
}

impl Protocol for Amqp {
    fn name(&self) -> &'static str {
        protocol::AMQP
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
        self.requests.held_bytes()
            + self.responses.held_bytes()
            + self.published.held_bytes()
            + self.delivered.held_bytes()
            + self.channels.held_bytes()
            + self.early.held_bytes()
    }
}
