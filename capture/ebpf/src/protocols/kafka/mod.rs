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
use super::frames::{Frames, Head, Step};
use super::infer::Known;
use super::{Input, Mark, Outcome, Protocol, Side};
use crate::sessions::{Desk, Exchanges, Request};

pub(crate) use self::topics::Topics;

/// Kafka, to whoever tells protocols apart.
pub(super) const KNOWN: Known =
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

    fn strike(&mut self, desk: &mut Desk<'_>) -> Outcome {
        desk.counters.malformed_messages += 1;
        self.strikes += 1;
        if self.strikes >= MAX_STRIKES { Outcome::Foreign } else { Outcome::Read }
    }

    fn ask(&mut self, head: &Head<'_>, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        let Some(header) = request_header(&head.header) else { return };
        self.strikes = 0;
        let asked = requests::asked(header, &head.content, desk.topics);
        if !asked.answered {
            self.passing = Some(Passing::Untold(head.start, Box::new(asked.request)));
            return;
        }
        let stream = stream(header.api.key, header.version, header.correlation);
        self.responses.framing().expect(header.correlation);
        exchanges.open(head.start, head.end, Request { stream, ..asked.request }, desk);
        self.passing = Some(Passing::Open(stream));
    }

    fn asked(&mut self, end: Mark, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        match self.passing.take() {
            Some(Passing::Open(stream)) => {
                exchanges.continue_request(stream);
                exchanges.request_reached(end);
            }
            Some(Passing::Untold(start, request)) => exchanges.tell(start, end, *request, desk),
            None => {}
        }
    }

    fn answer(&mut self, head: &Head<'_>, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        let Some(correlation) = head.header.last_chunk().map(|id| i32::from_be_bytes(*id)) else {
            return;
        };
        let same = |stream: u64| stream as u32 == correlation as u32;
        let known = exchanges.find(|exchange| same(exchange.request.stream));
        let Some(stream) = known.map(|exchange| exchange.request.stream) else {
            desk.counters.orphan_responses += 1;
            return;
        };
        self.strikes = 0;
        self.responses.framing().answered(correlation);
        // Answers keep the order of their requests: those before it were missed.
        while let Some(oldest) = exchanges.answering().map(|oldest| oldest.request.stream)
            && oldest != stream
        {
            exchanges.abandon_where(|found| found == oldest, desk);
        }
        self.answering = exchanges.begin_response(head.start);
        exchanges.response_reached(head.end);
        let (key, version) = ((stream >> 48) as i16, (stream >> 32) as i16);
        if let (Some(api), Some(exchange)) = (api::api(key), exchanges.answering()) {
            responses::answered(api, version, &head.content, exchange, desk.topics);
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
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        loop {
            let step = match side {
                Side::Request => self.requests.read(&mut input),
                Side::Response => self.responses.read(&mut input),
            };
            match (step, side) {
                (Step::More, _) => return Outcome::Read,
                (Step::Head(head), Side::Request) => self.ask(&head, exchanges, desk),
                (Step::Head(head), Side::Response) => self.answer(&head, exchanges, desk),
                (Step::End(end), Side::Request) => self.asked(end, exchanges, desk),
                (Step::End(end), Side::Response) => {
                    if std::mem::take(&mut self.answering) {
                        exchanges.response_reached(end);
                        exchanges.end_response(desk);
                    }
                }
                (Step::Unseen, _) => {
                    desk.counters.framing_lost += 1;
                    self.lose(side, exchanges, desk);
                }
                (Step::Malformed, _) => {
                    self.lose(side, exchanges, desk);
                    if self.strike(desk) == Outcome::Foreign {
                        return Outcome::Foreign;
                    }
                }
                (Step::Resumed, _) => desk.counters.resynchronised += 1,
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
    fn lose(&mut self, side: Side, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        match side {
            Side::Request => self.passing = None,
            Side::Response => {
                self.answering = false;
                exchanges.abandon(desk);
            }
        }
    }
}
