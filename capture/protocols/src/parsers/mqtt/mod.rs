//! MQTT 3.1, 3.1.1 (OASIS) and 5 (OASIS). Clients publish messages to the server, and the server
//! delivers messages to clients. Both are acknowledged by packet identifier, or not at all at
//! quality of service 0.

mod packet;
mod reasons;

use spanwise_model::protocol;

use self::packet::{Packets, Reader};
use crate::bytes::{Input, Mark, Side};
use crate::formats::messaging::{self, Destination};
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Head, Step};
use crate::parser::{Known, Outcome, Protocol};
use crate::sessions::early::Early;
use crate::sessions::{Conversation, Failure, Manner, Request};

/// MQTT in the protocol table.
pub(crate) const KNOWN: Known =
    Known { name: "mqtt", recognise: packet::recognise, parser: |_| Box::new(Mqtt::new()) };

/// Maximum topic aliases remembered per side.
const MAX_ALIASES: u16 = 64;
/// Maximum length of a topic that is remembered.
const MAX_TOPIC_BYTES: usize = 256;

/// Kinds of streams. Both sides number the messages that they publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Connect = 0,
    Subscribe = 1,
    Unsubscribe = 2,
    Publish = 3,
    Delivery = 4,
}

const fn stream(kind: Kind, packet: u16) -> u64 {
    (kind as u64) << 16 | packet as u64
}

const fn is_delivery(stream: u64) -> bool {
    stream >> 16 == Kind::Delivery as u64
}

/// A message of one side that is still being sent. It makes a span when it is complete.
enum Passing {
    /// An open exchange with this id.
    Open(u64),
    /// A message that will not be acknowledged.
    Untold(Mark, Box<Request>),
}

/// The parser of one connection.
pub(super) struct Mqtt {
    requests: Frames<Packets>,
    responses: Frames<Packets>,
    passing: [Option<Passing>; 2],
    /// Topics by alias, for each side.
    aliases: [Vec<(u16, Vec<u8>)>; 2],
    version: u8,
    client: Option<String>,
    early: Early,
    strikes: Strikes,
}

impl Mqtt {
    fn new() -> Self {
        Self {
            requests: Frames::new(Packets(Side::Request)),
            responses: Frames::new(Packets(Side::Response)),
            passing: [None, None],
            aliases: [Vec::new(), Vec::new()],
            version: 0,
            client: None,
            early: Early::default(),
            strikes: Strikes::NONE,
        }
    }

    /// Packets of one side were missed, perhaps with acknowledgements.
    fn lose(&mut self, side: Side, conversation: &mut Conversation<'_>) {
        self.passing[side as usize] = None;
        // A missed packet may have redefined an alias.
        self.aliases[side as usize] = Vec::new();
        let acknowledges_deliveries = side == Side::Request;
        conversation.abandon_where(|stream| is_delivery(stream) == acknowledges_deliveries);
    }

    fn request(
        &self,
        operation: &str,
        kind: Option<&str>,
        topic: &[u8],
        manner: Manner,
    ) -> Request {
        let destination = Destination::of_levels(topic, '/');
        let mut request = messaging::request("mqtt", operation, kind, &destination, manner);
        if let Some(client) = &self.client {
            let client = client.as_str().into();
            request.attributes.push(("messaging.client.id", client));
        }
        request
    }

    fn packet(&mut self, side: Side, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        let first = head.header.first().copied().unwrap_or(0);
        let (start, content) = (head.start, &*head.content);
        // The uncaptured part of a small packet was moved by the same call.
        let end = head.end.after(head.length - content.len() as u64);
        let mut reader = Reader(content);
        self.strikes.clear();
        match (first >> 4, side) {
            (packet::PUBLISH, _) => self.publish(side, first, head, conversation),
            (packet::CONNECT, Side::Request) => {
                let (version, client) = packet::connect(content).unwrap_or_default();
                self.version = version;
                let mut request = self.request("connect", None, b"", Manner::Call);
                if let Some(client) = &client {
                    let client = client.as_str().into();
                    request.attributes.push(("messaging.client.id", client));
                }
                self.client = client;
                request.stream = stream(Kind::Connect, 0);
                request.silent = true;
                conversation.open(start, end, request);
            }
            (packet::CONNACK, Side::Response) => {
                let (_session, code) = (reader.byte(), reader.byte().unwrap_or(0));
                let failure = match self.version {
                    packet::VERSION_5 => reasons::failure(code),
                    _ => reasons::refusal(code),
                };
                self.answer(stream(Kind::Connect, 0), (start, end), failure, code, conversation);
            }
            (kind @ (packet::SUBSCRIBE | packet::UNSUBSCRIBE), Side::Request) => {
                let packet = reader.short().unwrap_or(0);
                if self.version == packet::VERSION_5 {
                    reader.properties();
                }
                let filter = reader.string().unwrap_or_default();
                // With a single filter, only its options can follow.
                let sole = head.is_whole() && reader.0.len() <= 1;
                let filter = if sole { filter } else { b"" };
                let (name, kind) = match kind {
                    packet::SUBSCRIBE => ("subscribe", Kind::Subscribe),
                    _ => ("unsubscribe", Kind::Unsubscribe),
                };
                let request = self.request(name, None, filter, Manner::Call);
                let stream = stream(kind, packet);
                self.open(Request { stream, ..request }, start, end, conversation);
                self.early.settle(stream, conversation);
            }
            (kind @ (packet::SUBACK | packet::UNSUBACK), Side::Response) => {
                let packet = reader.short().unwrap_or(0);
                if self.version == packet::VERSION_5 {
                    reader.properties();
                }
                let failed =
                    reader.0.iter().find_map(|code| Some((reasons::failure(*code)?, *code)));
                let (failure, code) = failed.map_or((None, 0), |(name, code)| (Some(name), code));
                let kind = match kind {
                    packet::SUBACK => Kind::Subscribe,
                    _ => Kind::Unsubscribe,
                };
                self.answer(stream(kind, packet), (start, end), failure, code, conversation);
            }
            (kind @ (packet::PUBACK | packet::PUBREC | packet::PUBCOMP), _) => {
                let packet = reader.short().unwrap_or(0);
                let code = reader.byte().unwrap_or(0);
                let published = match side {
                    Side::Request => stream(Kind::Delivery, packet),
                    Side::Response => stream(Kind::Publish, packet),
                };
                let failure = reasons::failure(code);
                // At quality of service 2, the first of the two acknowledgements does not complete
                // the exchange.
                if kind == packet::PUBREC && failure.is_none() {
                    if conversation.answer_where(|found| found == published) {
                        conversation.begin_response(start);
                        conversation.response_reached(end);
                    }
                    return;
                }
                self.answer(published, (start, end), failure, code, conversation);
            }
            (packet::DISCONNECT, Side::Request) => {
                while conversation.answer_where(is_delivery) {
                    finish(conversation, start, end, Some("not_acknowledged"), None);
                }
            }
            (packet::DISCONNECT, Side::Response) => {
                self.disconnected(reader.byte().unwrap_or(0), start, end, conversation);
            }
            _ => {}
        }
    }

    /// The server disconnects with a reason: open requests have failed. If none is open, the
    /// disconnect makes a span of its own.
    fn disconnected(&self, code: u8, start: Mark, end: Mark, conversation: &mut Conversation<'_>) {
        let Some(name) = reasons::failure(code) else { return };
        let mut any = false;
        while conversation.answer_where(|_| true) {
            any = true;
            finish(conversation, start, end, Some(name), Some(code));
        }
        if !any {
            let request = self.request("disconnect", None, b"", Manner::Deliver);
            conversation.tell_failed(start, end, request, Some(Failure::plain(name)));
        }
    }

    fn open(&self, request: Request, start: Mark, end: Mark, conversation: &mut Conversation<'_>) {
        // A packet identifier is reused once it is free, so the end of its previous use was missed.
        let stream = request.stream;
        if conversation.answer_where(|found| found == stream) {
            conversation.abandon_where(|found| found == stream);
        }
        conversation.open(start, end, request);
    }

    fn publish(
        &mut self,
        side: Side,
        first: u8,
        head: &Head<'_>,
        conversation: &mut Conversation<'_>,
    ) {
        let publish = packet::publish(first, &head.content, head.length, self.version);
        let aliases = &mut self.aliases[side as usize];
        let topic = match publish.properties.topic_alias {
            Some(alias) if publish.topic.is_empty() => {
                let known = aliases.iter().find(|(known, _)| *known == alias);
                known.map_or(Vec::new(), |(_, topic)| topic.clone())
            }
            Some(alias) => {
                aliases.retain(|(known, _)| *known != alias);
                if aliases.len() < usize::from(MAX_ALIASES) {
                    let kept = publish.topic.len().min(MAX_TOPIC_BYTES);
                    aliases.push((alias, publish.topic[..kept].to_vec()));
                }
                publish.topic.to_vec()
            }
            None => publish.topic.to_vec(),
        };
        let mut request = match side {
            Side::Request => self.request("publish", Some("send"), &topic, Manner::Publish),
            Side::Response => self.request("deliver", Some("process"), &topic, Manner::Deliver),
        };
        request.headers = publish.properties.headers;
        if let Some(bytes) = publish.body_bytes.and_then(|bytes| i64::try_from(bytes).ok()) {
            request.attributes.push(("messaging.message.body.size", bytes.into()));
        }
        let Some(packet) = publish.packet else {
            // The message is not acknowledged, or its packet identifier was not captured.
            self.passing[side as usize] = Some(Passing::Untold(head.start, Box::new(request)));
            return;
        };
        request.stream = match side {
            Side::Request => stream(Kind::Publish, packet),
            Side::Response => stream(Kind::Delivery, packet),
        };
        let stream = request.stream;
        let again = first & 0b1000 != 0;
        if again && conversation.find(|exchange| exchange.request.stream == stream).is_some() {
            return;
        }
        self.open(request, head.start, head.end, conversation);
        self.passing[side as usize] = Some(Passing::Open(stream));
    }

    /// Completes the request of a stream, if it is open.
    fn answer(
        &mut self,
        stream: u64,
        (start, end): (Mark, Mark),
        failure: Option<&str>,
        code: u8,
        conversation: &mut Conversation<'_>,
    ) {
        if conversation.answer_where(|found| found == stream) {
            finish(conversation, start, end, failure, Some(code));
        } else {
            conversation.counters.orphan_responses += 1;
            let status_code = failure.map(|_| i32::from(code));
            let failure = failure.map(Failure::plain);
            self.early.keep(stream..=stream, (start, end), failure, status_code);
        }
    }

    fn passed(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) {
        match self.passing[side as usize].take() {
            Some(Passing::Open(stream)) => {
                conversation.continue_request(stream);
                conversation.request_reached(end);
                self.early.settle(stream, conversation);
            }
            Some(Passing::Untold(start, request)) => conversation.tell(start, end, *request),
            None => {}
        }
    }
}

/// Completes the request that is being answered.
fn finish(
    conversation: &mut Conversation<'_>,
    start: Mark,
    end: Mark,
    failure: Option<&str>,
    code: Option<u8>,
) {
    let Some(exchange) = conversation.answering() else { return };
    // Of two acknowledgements, count the bytes of both but not the bytes between them.
    let end = match exchange.response_end {
        Some(before) => Mark { offset: before.offset + (end.offset - start.offset), ..end },
        None => end,
    };
    if let Some(name) = failure {
        exchange.answer.failure = Some(Failure::plain(name));
        exchange.answer.status_code = code.map(i32::from);
    }
    conversation.begin_response(start);
    conversation.response_reached(end);
    conversation.end_response();
}

impl Framed for Mqtt {
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
        self.packet(side, &head, conversation);
        Verdict::Fine
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        self.passed(side, end, conversation);
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, conversation: &mut Conversation<'_>) {
        self.lose(side, conversation);
    }

    fn pause(&mut self, side: Side, _: Mark, conversation: &mut Conversation<'_>) {
        // The skipped bytes may have answered open requests.
        let lost = match side {
            Side::Request => self.requests.is_lost(),
            Side::Response => self.responses.is_lost(),
        };
        if lost {
            self.lose(side, conversation);
        }
    }
}

impl Protocol for Mqtt {
    fn name(&self) -> &'static str {
        protocol::MQTT
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
        let aliases = self.aliases.iter().flatten();
        self.requests.held_bytes()
            + self.responses.held_bytes()
            + self.passing.iter().map(passing).sum::<usize>()
            + aliases.map(|(_, topic)| 32 + topic.len()).sum::<usize>()
            + self.early.held_bytes()
            + self.client.as_ref().map_or(0, String::len)
    }
}
