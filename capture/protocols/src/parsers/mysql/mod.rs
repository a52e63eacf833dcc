//! The MySQL client/server protocol as used by MySQL and MariaDB. The server sends first. The
//! client's response starts the authentication, which is a request that is shown only if it fails.
//! After that, each command is one request.

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

/// MySQL in the protocol table.
pub(crate) const KNOWN: Known =
    Known { name: "mysql", recognise, parser: |_| Box::new(Mysql::new()) };

/// Maximum open requests for which details are kept.
const MAX_PENDING: usize = 64;

/// Phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing was sent yet, or only the greeting.
    Greeting,
    /// The client is authenticating.
    Authentication,
    /// Commands and their results.
    Commands,
}

/// Details of an open request that its response needs.
#[derive(Debug)]
struct Pending {
    exchange: u64,
    expected: Expected,
    /// The statement that is being prepared.
    statement: Option<Arc<Statement>>,
    /// The database that is selected if the request succeeds.
    database: Option<String>,
}

/// The parser of one connection.
pub(super) struct Mysql {
    phase: Phase,
    requests: Frames<Packets>,
    responses: Frames<Packets>,
    /// Whether the packet being read belongs to a request that is shown.
    asking: bool,
    /// Whether a side's next packet continues the last one.
    request_continued: bool,
    response_continued: bool,
    /// Whether the content of a file is being sent.
    sending_file: bool,
    /// The sequence number that the server's next packet must have, if known.
    next_sequence: Option<u8>,
    reply: Reply,
    /// The meaning of the response packet being read.
    meaning: Meaning,
    pending: VecDeque<Pending>,
    /// Whether a response has been read completely.
    answered: bool,
    statements: Statements,
    system: &'static str,
    database: Option<String>,
    /// The server's capabilities; after the client's response, the capabilities of both.
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

    /// Counts a packet that is out of place.
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
        // Any bytes form a valid packet header, so errors only show in the order of packets.
        conversation.counters.framing_lost += 1;
        self.unseen(side, at, false, conversation);
        Verdict::Fine
    }

    fn pause(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) {
        match side {
            // Missed bytes of a request most likely belong to its rest.
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
                    // Requests were missed, so the next response cannot be paired.
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
