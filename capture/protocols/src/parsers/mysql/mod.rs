//! The MySQL client/server protocol, as MySQL and MariaDB speak it. The server
//! speaks first; from the client's answer on, the authentication is a request
//! that is shown only if it fails. After it, one command is one request.

mod answering;
mod asking;
mod command;
mod packet;
mod reply;
mod statements;
mod values;

use std::collections::VecDeque;
use std::sync::Arc;

use spanwise_model::protocol;

use self::packet::{Packets, Status, recognise};
use self::reply::{Expected, Meaning, Place, Reply};
use self::statements::Statements;
use crate::bytes::{Input, Mark, Side};
use crate::formats::sql::{Dialect, Statement};
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Head, Step};
use crate::parser::{Known, Outcome, Protocol};
use crate::sessions::Conversation;

/// MySQL, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "mysql", recognise, parser: |_| Box::new(Mysql::new()) };

/// Requests in flight of which more is remembered than that they are there.
const MAX_PENDING: usize = 64;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was said, or only the greeting.
    Greeting,
    /// The client has named itself and proves it.
    Authentication,
    /// Commands and their results.
    Commands,
}

/// What its response will need to know of a request in flight.
#[derive(Debug)]
struct Pending {
    exchange: u64,
    expected: Expected,
    /// The statement that is prepared.
    statement: Option<Arc<Statement>>,
    /// The database that is in use if it succeeds.
    database: Option<String>,
}

/// The parser of one connection.
pub(super) struct Mysql {
    phase: Phase,
    requests: Frames<Packets>,
    responses: Frames<Packets>,
    /// Whether the packet being read is one of a request that is shown.
    asking: bool,
    /// Whether the next packet of a side continues the last.
    request_continued: bool,
    response_continued: bool,
    /// Whether a file's content is being sent.
    sending_file: bool,
    /// The number that the server's next packet must have, where it is known.
    next_sequence: Option<u8>,
    reply: Reply,
    /// What the packet being read of a response means.
    meaning: Meaning,
    pending: VecDeque<Pending>,
    /// A response has been read to its end.
    answered: bool,
    statements: Statements,
    system: &'static str,
    database: Option<String>,
    /// Capabilities that the server has, then those that both have.
    capabilities: u32,
    strikes: Strikes,
}

impl Mysql {
    fn new() -> Self {
        Self {
            phase: Phase::Greeting,
            requests: Frames::new(Packets(Side::Request)),
            responses: Frames::new(Packets(Side::Response)),
            asking: false,
            request_continued: false,
            response_continued: false,
            sending_file: false,
            next_sequence: None,
            reply: Reply::new(),
            meaning: Meaning::Part,
            pending: VecDeque::new(),
            answered: false,
            statements: Statements::default(),
            system: "mysql",
            database: None,
            capabilities: 0,
            strikes: Strikes::NONE,
        }
    }

    const fn shares(&self, capability: u32) -> bool {
        self.capabilities & capability != 0
    }

    fn dialect(&self) -> Dialect {
        Dialect::Mysql { escapes: self.reply.status.is_none_or(Status::escapes) }
    }

    /// Takes note of a packet that should not be where it is.
    fn strike(&mut self, conversation: &mut Conversation<'_>) -> Outcome {
        conversation.abandon();
        self.strikes.strike(conversation.counters)
    }
}

impl Framed for Mysql {
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
                self.pass_lost_response(input, conversation);
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
            Side::Request => self.request_head(&head, conversation).into(),
            Side::Response => match self.response_head(&head, conversation) {
                Outcome::Read if self.responses.is_lost() => Verdict::Stop(Outcome::Read),
                outcome => outcome.into(),
            },
        }
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        match side {
            Side::Request => {
                if std::mem::take(&mut self.asking) {
                    conversation.request_reached(end);
                }
                Verdict::Fine
            }
            Side::Response => {
                conversation.response_reached(end);
                match self.response_packet_over(conversation) {
                    Outcome::Switched => Verdict::Stop(Outcome::Switched),
                    _ => Verdict::Fine,
                }
            }
        }
    }

    fn unseen(&mut self, side: Side, at: Mark, missed: bool, conversation: &mut Conversation<'_>) {
        match side {
            Side::Request => self.lose_requests(),
            Side::Response => self.unseen_response(at, missed, conversation),
        }
    }

    fn malformed(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        // A packet's header cannot be wrong; only its place can.
        conversation.counters.framing_lost += 1;
        self.unseen(side, at, false, conversation);
        Verdict::Fine
    }

    fn pause(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) {
        match side {
            // What is lost of a request is most likely its rest.
            Side::Request if self.asking => conversation.request_reached(at),
            Side::Response if !self.responses.is_between() => conversation.response_reached(at),
            _ => {}
        }
    }
}

impl Protocol for Mysql {
    fn name(&self) -> &'static str {
        protocol::MYSQL
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
        match to {
            Side::Request => {
                if self.responses.is_lost() {
                    conversation.end_lost_response();
                }
                if self.requests.is_lost() {
                    // Requests were missed: whose the next response is, is not
                    // known.
                    conversation.abandon();
                    conversation.counters.resynchronised += 1;
                    self.requests = Frames::new(Packets(Side::Request));
                    self.asking = false;
                }
            }
            Side::Response => {
                if self.responses.is_lost() {
                    self.find_responses(conversation);
                }
            }
        }
    }

    fn quiet(&mut self, conversation: &mut Conversation<'_>) {
        if self.responses.is_lost() {
            conversation.end_lost_response();
        }
    }

    fn closed(&mut self, conversation: &mut Conversation<'_>) {
        self.quiet(conversation);
    }

    fn between_responses(&self) -> bool {
        self.responses.is_between() && self.reply.place == Place::Before
    }

    fn speaks_unasked(&self) -> bool {
        self.phase == Phase::Greeting
    }

    fn held_bytes(&self) -> usize {
        let pending: usize = self
            .pending
            .iter()
            .map(|pending| {
                let statement = pending.statement.as_ref();
                size_of::<Pending>()
                    + statement.map_or(0, |statement| statement.held_bytes())
                    + pending.database.as_ref().map_or(0, String::len)
            })
            .sum();
        self.requests.held_bytes()
            + self.responses.held_bytes()
            + self.statements.held_bytes()
            + pending
    }
}
