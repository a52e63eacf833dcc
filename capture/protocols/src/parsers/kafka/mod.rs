//! Apache Kafka's protocol (kafka.apache.org/protocol). Each request is answered
//! by the response with its correlation id, in order; a Produce request that
//! wants no acknowledgement by none. A fetch makes a span only if it brings
//! messages or fails: clients always have one waiting, and those that come back
//! with nothing say only that time has passed.

mod api;
mod errors;
mod frame;
mod primitives;
mod records;
mod requests;
mod responses;
mod topics;

use spanwise_model::protocol;

use self::frame::{Requests, Responses, request_header};
use crate::bytes::{Input, Mark, Side};
use crate::framing::{Frames, Head, Step};
use crate::parser::Known;
use crate::parser::{Outcome, Protocol};
use crate::sessions::{Conversation, Request};

pub(crate) use self::topics::Topics;

/// Kafka, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "kafka", recognise: frame::recognise, parser: |_| Box::new(Kafka::new()) };

/// Malformed messages in a row after which the connection is no Kafka.
const MAX_STRIKES: u8 = 3;

/// The request that passes.
enum Passing {
    /// It is open.
    Open(u64),
    /// Nobody will answer it.
    Untold(Mark, Box<Request>),
}

/// The parser of one connection.
pub(super) struct Kafka {
    requests: Frames<Requests>,
    responses: Frames<Responses>,
    passing: Option<Passing>,
    /// Whether the response that passes is to a known request.
    answering: bool,
    strikes: u8,
}

/// What a response needs to know of its request: key, version, correlation id.
const fn stream(key: i16, version: i16, correlation: i32) -> u64 {
    (key as u16 as u64) << 48 | (version as u16 as u64) << 32 | correlation as u32 as u64
}

impl Kafka {
    fn new() -> Self {
        Self {
            requests: Frames::new(Requests),
            responses: Frames::new(Responses::default()),
            passing: None,
            answering: false,
            strikes: 0,
        }
    }

    fn strike(&mut self, conversation: &mut Conversation<'_>) -> Outcome {
        conversation.counters.malformed_messages += 1;
        self.strikes += 1;
        if self.strikes >= MAX_STRIKES { Outcome::Foreign } else { Outcome::Read }
    }

    fn ask(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        let Some(header) = request_header(&head.header) else { return };
        self.strikes = 0;
        let asked = requests::asked(header, &head.content, conversation.memory.of::<Topics>());
        if !asked.answered {
            self.passing = Some(Passing::Untold(head.start, Box::new(asked.request)));
            return;
        }
        let stream = stream(header.api.key, header.version, header.correlation);
        self.responses.framing().expect(header.correlation);
        conversation.open(head.start, head.end, Request { stream, ..asked.request });
        self.passing = Some(Passing::Open(stream));
    }

    fn asked(&mut self, end: Mark, conversation: &mut Conversation<'_>) {
        match self.passing.take() {
            Some(Passing::Open(stream)) => {
                conversation.continue_request(stream);
                conversation.request_reached(end);
            }
            Some(Passing::Untold(start, request)) => conversation.tell(start, end, *request),
            None => {}
        }
    }

    fn answer(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        let Some(correlation) = head.header.last_chunk().map(|id| i32::from_be_bytes(*id)) else {
            return;
        };
        let same = |stream: u64| stream as u32 == correlation as u32;
        let known = conversation.find(|exchange| same(exchange.request.stream));
        let Some(stream) = known.map(|exchange| exchange.request.stream) else {
            conversation.counters.orphan_responses += 1;
            return;
        };
        self.strikes = 0;
        self.responses.framing().answered(correlation);
        // Answers keep the order of their requests: those before it were missed.
        while let Some(oldest) = conversation.answering().map(|oldest| oldest.request.stream)
            && oldest != stream
        {
            conversation.abandon_where(|found| found == oldest);
        }
        self.answering = conversation.begin_response(head.start);
        conversation.response_reached(head.end);
        let (key, version) = ((stream >> 48) as i16, (stream >> 32) as i16);
        if let (Some(api), Some(exchange)) = (api::api(key), conversation.exchanges.answering()) {
            responses::answered(
                api,
                version,
                &head.content,
                exchange,
                conversation.memory.of::<Topics>(),
            );
        }
    }
}

impl Protocol for Kafka {
    fn name(&self) -> &'static str {
        protocol::KAFKA
    }

    fn read(
        &mut self,
        side: Side,
        mut input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        loop {
            let step = match side {
                Side::Request => self.requests.read(&mut input),
                Side::Response => self.responses.read(&mut input),
            };
            match (step, side) {
                (Step::More, _) => return Outcome::Read,
                (Step::Head(head), Side::Request) => self.ask(&head, conversation),
                (Step::Head(head), Side::Response) => self.answer(&head, conversation),
                (Step::End(end), Side::Request) => self.asked(end, conversation),
                (Step::End(end), Side::Response) => {
                    if std::mem::take(&mut self.answering) {
                        conversation.response_reached(end);
                        conversation.end_response();
                    }
                }
                (Step::Unseen, _) => {
                    conversation.counters.framing_lost += 1;
                    self.lose(side, conversation);
                }
                (Step::Malformed, _) => {
                    self.lose(side, conversation);
                    if self.strike(conversation) == Outcome::Foreign {
                        return Outcome::Foreign;
                    }
                }
                (Step::Resumed, _) => conversation.counters.resynchronised += 1,
            }
        }
    }

    fn between_responses(&self) -> bool {
        self.responses.is_between()
    }

    fn held_bytes(&self) -> usize {
        let passing = match &self.passing {
            Some(Passing::Untold(_, request)) => size_of::<Request>() + request.held_bytes(),
            _ => 0,
        };
        self.requests.held_bytes()
            + self.responses.held_bytes()
            + self.responses.framing_ref().held_bytes()
            + passing
    }
}

impl Kafka {
    /// Messages of a side were not seen. Which requests were answered among lost
    /// responses is not known.
    fn lose(&mut self, side: Side, conversation: &mut Conversation<'_>) {
        match side {
            Side::Request => self.passing = None,
            Side::Response => {
                self.answering = false;
                conversation.abandon();
            }
        }
    }
}
