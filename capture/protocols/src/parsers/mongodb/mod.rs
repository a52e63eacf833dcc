//! MongoDB's wire protocol: OP_MSG, and the older messages with which drivers still open
//! connections. A response carries the id of its request.

mod bson;
mod command;
mod message;
mod names;

use spanwise_model::protocol;

use self::command::Command;
use self::message::{
    COMPRESSED, DELETE, GET_MORE, Header, INSERT, KILL_CURSORS, MESSAGE, Message, Messages, QUERY,
    REPLY, UPDATE, recognise,
};
use crate::bytes::{Input, Mark, Side};
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Head, Step};
use crate::parser::{Known, Outcome, Protocol};
use crate::sessions::{Conversation, Failure, Request};

/// MongoDB in the protocol table.
pub(crate) const KNOWN: Known =
    Known { name: "mongodb", recognise, parser: |_| Box::new(Mongodb::new()) };

/// The type of the request message being read.
#[derive(Debug)]
enum Passing {
    /// A message that is not shown.
    Nothing,
    /// A request with a response.
    Asked,
    /// A request without a response.
    Told(Mark, Box<Request>),
}

/// The type of the response message being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answering {
    /// A response without a request.
    Nothing,
    /// Part of a response. The next part names this message's id as its request.
    Part { goes_on: u32 },
    /// The last part of a response.
    Last,
}

/// The parser of one connection.
struct Mongodb {
    requests: Frames<Messages>,
    responses: Frames<Messages>,
    passing: Passing,
    answering: Answering,
    /// Id of the last response, if the server continues without further requests.
    exhaust: Option<u32>,
    /// A compressed request without a response so far. It may not expect one; the flag for that is
    /// compressed, too.
    compressed: Option<u32>,
    strikes: Strikes,
}

impl Mongodb {
    const fn new() -> Self {
        Self {
            requests: Frames::new(Messages(Side::Request)),
            responses: Frames::new(Messages(Side::Response)),
            passing: Passing::Nothing,
            answering: Answering::Nothing,
            exhaust: None,
            compressed: None,
            strikes: Strikes::NONE,
        }
    }

    /// Handles a request; `false` if the message is not one.
    fn request(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) -> bool {
        let Some(header) = Header::read(Side::Request, &head.header) else { return false };
        self.end_compressed(conversation);
        let content = &*head.content;
        // `database.collection` after a flags field, or nothing.
        let full_name = || {
            let name = content.get(4..).unwrap_or_default();
            &name[..memchr::memchr(0, name).unwrap_or(name.len())]
        };
        let (request, answered) = match header.opcode {
            MESSAGE if content.is_empty() => return true,
            MESSAGE => {
                let Some(message) = Message::read(content) else { return false };
                let named = || message.sequence.and_then(Command::of_sequence);
                let command = match message.body {
                    Some(body) => Command::read(body),
                    None => named(),
                };
                let Some(command) = command else { return false };
                (command.request(), !message.more_to_come())
            }
            QUERY => {
                let name = full_name();
                let command = match name.strip_suffix(b".$cmd") {
                    Some(database) => {
                        let body = content.get(4 + name.len() + 1 + 8..).and_then(bson::document);
                        let Some(command) = body.and_then(Command::read) else { return false };
                        let database = Command::on("", database).database;
                        Command { database: command.database.or(database), ..command }
                    }
                    None => Command::on("find", name),
                };
                (command.request(), true)
            }
            GET_MORE => (Command::on("getMore", full_name()).request(), true),
            INSERT => (Command::on("insert", full_name()).request(), false),
            UPDATE => (Command::on("update", full_name()).request(), false),
            DELETE => (Command::on("delete", full_name()).request(), false),
            KILL_CURSORS => (Command::on("killCursors", b"").request(), false),
            COMPRESSED => {
                self.compressed = Some(header.id);
                (command::compressed(), true)
            }
            _ => return false,
        };
        self.strikes.clear();
        if answered {
            let stream = u64::from(header.id);
            conversation.open(head.start, head.end, Request { stream, ..request });
            self.passing = Passing::Asked;
        } else {
            self.passing = Passing::Told(head.start, Box::new(request));
        }
        true
    }

    /// Completes a compressed request. Drivers send nothing more while they wait for a response.
    fn end_compressed(&mut self, conversation: &mut Conversation<'_>) {
        if let Some(id) = self.compressed.take()
            && conversation.continue_request(u64::from(id))
        {
            conversation.end_unanswered();
        }
    }

    /// Handles a response; `false` if the message is not one.
    fn response(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) -> bool {
        let Some(header) = Header::read(Side::Response, &head.header) else { return false };
        let content = &*head.content;
        let (body, more_to_come) = match header.opcode {
            MESSAGE if content.is_empty() => (None, false),
            MESSAGE => match Message::read(content) {
                Some(message) => (message.body, message.more_to_come()),
                None => return false,
            },
            // Flags, cursor id, start position, document count.
            REPLY => (content.get(20..).and_then(bson::document), false),
            _ => (None, false),
        };
        self.strikes.clear();
        let asked = conversation.answer(u64::from(header.response_to));
        // Such a response is the first of a series, or a later part of it.
        let unasked = self.exhaust == Some(header.response_to);
        self.exhaust = more_to_come.then_some(header.id);
        if !asked {
            conversation.counters.orphan_responses += u64::from(!unasked);
            return true;
        }
        if self.compressed == Some(header.response_to) {
            self.compressed = None;
        }
        conversation.begin_response(head.start);
        let Some(exchange) = conversation.answering() else { return true };
        if let Some(body) = body
            && exchange.answer.failure.is_none()
        {
            command::answer(body, &mut exchange.answer);
            // Drivers send `hello` first, and then `isMaster` to servers too old for it.
            let unknown = |failure: &Failure| failure.kind == command::NO_SUCH_COMMAND;
            if exchange.request.silent && exchange.answer.failure.as_ref().is_some_and(unknown) {
                exchange.answer.failure = None;
            }
        }
        // Monitoring commands last as long as the connection.
        self.answering = if more_to_come && !exchange.request.silent {
            Answering::Part { goes_on: header.id }
        } else {
            Answering::Last
        };
        true
    }
}

impl Framed for Mongodb {
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
        let is_message = match side {
            Side::Request => self.request(&head, conversation),
            Side::Response => self.response(&head, conversation),
        };
        if is_message {
            return Verdict::Fine;
        }
        match side {
            Side::Request => self.requests.lose(),
            Side::Response => self.responses.lose(),
        }
        Verdict::Lost
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        match side {
            Side::Request => match std::mem::replace(&mut self.passing, Passing::Nothing) {
                Passing::Nothing => {}
                Passing::Asked => conversation.request_reached(end),
                Passing::Told(start, request) => conversation.tell(start, end, *request),
            },
            Side::Response => match std::mem::replace(&mut self.answering, Answering::Nothing) {
                Answering::Nothing => {}
                Answering::Part { goes_on } => {
                    conversation.response_reached(end);
                    if let Some(exchange) = conversation.answering() {
                        exchange.request.stream = u64::from(goes_on);
                    }
                }
                Answering::Last => {
                    conversation.response_reached(end);
                    conversation.end_response();
                }
            },
        }
        Verdict::Fine
    }

    fn unseen(&mut self, side: Side, _: Mark, _: bool, conversation: &mut Conversation<'_>) {
        match side {
            // Responses name their requests, so missed bytes do no harm.
            Side::Request => self.passing = Passing::Nothing,
            Side::Response => {
                // The missed bytes may contain responses to any open request.
                conversation.abandon();
                self.answering = Answering::Nothing;
            }
        }
    }

    fn malformed(&mut self, side: Side, _: Mark, _: &mut Conversation<'_>) -> Verdict {
        match side {
            Side::Request => self.passing = Passing::Nothing,
            Side::Response => self.answering = Answering::Nothing,
        }
        Verdict::Malformed
    }

    fn pause(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) {
        match side {
            Side::Request if matches!(self.passing, Passing::Asked) => {
                conversation.request_reached(at);
            }
            Side::Response if self.answering != Answering::Nothing => {
                conversation.response_reached(at);
            }
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
        outcome
    }
}

impl Protocol for Mongodb {
    fn name(&self) -> &'static str {
        protocol::MONGODB
    }

    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        drive(self, side, input, conversation)
    }

    fn turn(&mut self, to: Side, conversation: &mut Conversation<'_>) {
        // Drivers read the header separately, which leaves too few bytes to decide.
        let (frames, side) = match to {
            Side::Request => (&mut self.requests, Side::Request),
            Side::Response => (&mut self.responses, Side::Response),
        };
        if frames.is_lost() {
            *frames = Frames::new(Messages(side));
            conversation.counters.resynchronised += 1;
        }
    }

    fn closed(&mut self, conversation: &mut Conversation<'_>) {
        self.end_compressed(conversation);
    }

    fn between_responses(&self) -> bool {
        self.responses.is_between()
    }

    fn speaks_unasked(&self) -> bool {
        self.exhaust.is_some()
    }

    fn held_bytes(&self) -> usize {
        let told = match &self.passing {
            Passing::Told(..) => size_of::<Request>() + 1024,
            _ => 0,
        };
        self.requests.held_bytes() + self.responses.held_bytes() + told
    }
}
