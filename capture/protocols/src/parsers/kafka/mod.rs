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
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Head, Step};
use crate::parser::{Known, Outcome, Protocol};
use crate::sessions::{Conversation, Request};

pub(crate) use self::topics::Topics;

/// Kafka, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "kafka", recognise: frame::recognise, parser: |_| Box::new(Kafka::new()) };

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
    strikes: Strikes,
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
            strikes: Strikes::NONE,
        }
    }

    fn ask(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        let Some(header) = request_header(&head.header) else { return };
        self.strikes.clear();
        let keys = conversation.keys();
        let topics = conversation.memory.of::<Topics>();
        let asked = requests::asked(header, &head.content, topics, &keys);
        conversation.counters.heads_cut += u64::from(asked.cut);
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
        self.strikes.clear();
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
        let keys = conversation.keys();
        if let (Some(api), Some(exchange)) = (api::api(key), conversation.exchanges.answering()) {
            let topics = conversation.memory.of::<Topics>();
            let cut = responses::answered(api, version, &head.content, exchange, topics, &keys);
            conversation.counters.heads_cut += u64::from(cut);
        }
    }
}

impl Framed for Kafka {
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
        match side {
            Side::Request => self.ask(&head, conversation),
            Side::Response => self.answer(&head, conversation),
        }
        Verdict::Fine
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        match side {
            Side::Request => self.asked(end, conversation),
            Side::Response => {
                if std::mem::take(&mut self.answering) {
                    conversation.response_reached(end);
                    conversation.end_response();
                }
            }
        }
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, conversation: &mut Conversation<'_>) {
        self.lose(side, conversation);
    }
}

impl Protocol for Kafka {
    fn name(&self) -> &'static str {
        protocol::KAFKA
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
