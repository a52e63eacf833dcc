//! The MySQL client/server protocol, as MySQL and MariaDB speak it. The server
//! speaks first; from the client's answer on, the authentication is a request
//! that is shown only if it fails. After it, one command is one request.

mod command;
mod packet;
mod reply;
mod statements;

use std::collections::VecDeque;
use std::sync::Arc;

use spanwise_model::protocol;

use self::command::{Opening, Place as Shown};
use self::packet::{
    ERROR, MAX_PACKET_BYTES, MAX_TEXT_BYTES, OK, Packets, Status, capability, ends_result,
    recognise,
};
use self::reply::{Expected, Meaning, Place, Reply};
use self::statements::Statements;
use super::frames::{Frames, Head, Step};
use super::infer::Known;
use super::sql::{Dialect, Statement};
use super::{Input, Outcome, Protocol, Side, text};
use crate::sessions::{Desk, Exchanges, Request};

/// MySQL, to whoever tells protocols apart.
pub(super) const KNOWN: Known =
    Known { name: "mysql", recognise, parser: |_| Box::new(Mysql::new()) };

/// Malformed messages in a row after which the connection is no MySQL.
const MAX_STRIKES: u8 = 3;
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
    statements: Statements,
    system: &'static str,
    database: Option<String>,
    /// Capabilities that the server has, then those that both have.
    capabilities: u32,
    strikes: u8,
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
            statements: Statements::default(),
            system: "mysql",
            database: None,
            capabilities: 0,
            strikes: 0,
        }
    }

    const fn shares(&self, capability: u32) -> bool {
        self.capabilities & capability != 0
    }

    fn dialect(&self) -> Dialect {
        Dialect::Mysql { escapes: self.reply.status.is_none_or(Status::escapes) }
    }

    /// Takes note of a packet that should not be where it is.
    fn strike(&mut self, exchanges: &mut Exchanges, desk: &mut Desk<'_>) -> Outcome {
        desk.counters.malformed_messages += 1;
        exchanges.abandon(desk);
        self.strikes += 1;
        if self.strikes >= MAX_STRIKES { Outcome::Foreign } else { Outcome::Read }
    }

    fn read_request(
        &mut self,
        input: &mut Input<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        if input.missed && self.requests.is_in_head() {
            // That more is missing is seen only with a later request: the
            // response to this one may have come and gone.
            input.skip_all();
            desk.counters.framing_lost += 1;
            self.lose_requests();
        }
        loop {
            match self.requests.read(input) {
                Step::More => {
                    // What is lost of a request is most likely its rest.
                    if self.asking {
                        exchanges.request_reached(input.mark);
                    }
                    return Outcome::Read;
                }
                Step::Head(head) => match self.request_head(&head, exchanges, desk) {
                    Outcome::Read => {}
                    outcome => return outcome,
                },
                Step::End(end) => {
                    if std::mem::take(&mut self.asking) {
                        exchanges.request_reached(end);
                    }
                }
                Step::Unseen | Step::Malformed | Step::Resumed => {
                    desk.counters.framing_lost += 1;
                    self.lose_requests();
                }
            }
        }
    }

    fn lose_requests(&mut self) {
        self.requests.lose();
        self.asking |= self.sending_file || self.request_continued;
        self.request_continued = false;
        self.next_sequence = None;
        self.sending_file = false;
        self.statements.forget_last();
    }

    fn request_head(
        &mut self,
        head: &Head<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        let sequence = head.header[3];
        self.next_sequence = Some(sequence.wrapping_add(1));
        let continues = head.length == MAX_PACKET_BYTES;
        self.asking = true;
        if std::mem::replace(&mut self.request_continued, continues) {
            return Outcome::Read;
        }
        if self.sending_file {
            // An empty packet ends the file.
            self.sending_file = head.length > 0;
            return Outcome::Read;
        }
        match self.phase {
            Phase::Greeting if sequence > 0 => self.opening(head, exchanges, desk),
            Phase::Authentication if sequence > 0 => Outcome::Read,
            // The content of a file may be seen before what asks for it.
            Phase::Commands if sequence > 0 && exchanges.uploading().is_some() => Outcome::Read,
            Phase::Commands if sequence > 0 => {
                self.lose_requests();
                self.strike(exchanges, desk)
            }
            Phase::Greeting | Phase::Authentication => {
                // The connection is older, or its opening was missed.
                exchanges.abandon(desk);
                self.phase = Phase::Commands;
                self.command(head, exchanges, desk)
            }
            Phase::Commands => self.command(head, exchanges, desk),
        }
    }

    fn opening(
        &mut self,
        head: &Head<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        match command::opening(&head.content, head.length) {
            Some(Opening::Encryption) => return Outcome::Encrypted,
            Some(Opening::Session { capabilities, database }) => {
                self.capabilities &= capabilities;
                self.database = database;
            }
            None => self.capabilities = 0,
        }
        self.reply.ended_definitions = Some(!self.shares(capability::DEPRECATE_EOF));
        self.reply.optional_metadata =
            self.system == "mysql" && self.shares(capability::OPTIONAL_METADATA);
        self.authenticate(head, exchanges, desk);
        Outcome::Read
    }

    fn authenticate(&mut self, head: &Head<'_>, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        self.phase = Phase::Authentication;
        let request = command::request(self.shown(), command::CHANGE_USER, None);
        exchanges.open(head.start, head.end, Request { silent: true, ..request }, desk);
    }

    fn shown(&self) -> Shown<'_> {
        Shown { system: self.system, database: self.database.as_deref() }
    }

    fn command(
        &mut self,
        head: &Head<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        let Some((kind, content)) = head.content.split_first() else {
            self.lose_requests();
            return self.strike(exchanges, desk);
        };
        let kind = *kind;
        if command::name(kind).is_none() {
            self.lose_requests();
            return self.strike(exchanges, desk);
        }
        self.strikes = 0;
        let number = content.first_chunk().map(|number| u32::from_le_bytes(*number));
        let mut statement = None;
        let mut database = None;
        match kind {
            // Nobody answers these.
            command::QUIT | command::STMT_SEND_LONG_DATA => {
                self.asking = false;
                return Outcome::Read;
            }
            command::STMT_CLOSE => {
                self.asking = false;
                if let Some(number) = number {
                    self.statements.remove(number);
                }
                return Outcome::Read;
            }
            command::BINLOG_DUMP | command::BINLOG_DUMP_GTID | command::TABLE_DUMP => {
                return Outcome::Switched;
            }
            command::CHANGE_USER => {
                self.database = command::changed_database(content);
                self.statements.clear();
                self.authenticate(head, exchanges, desk);
                return Outcome::Read;
            }
            command::QUERY => {
                let attributes = self.shares(capability::QUERY_ATTRIBUTES);
                if let Some(text) = command::query_text(content, attributes) {
                    statement = Some(Statement::new(text, MAX_TEXT_BYTES, self.dialect()));
                    database = command::used_database(text);
                }
            }
            command::STMT_PREPARE => {
                let prepared = Statement::new(content, MAX_TEXT_BYTES, self.dialect());
                self.statements.asked(&prepared);
                statement = Some(prepared);
            }
            command::STMT_EXECUTE | command::STMT_BULK_EXECUTE | command::STMT_FETCH => {
                statement = number.and_then(|number| self.statements.get(number).cloned());
            }
            command::INIT_DB => database = command::database(content),
            command::RESET_CONNECTION => self.statements.clear(),
            _ => {}
        }
        let request = command::request(self.shown(), kind, statement.as_deref());
        exchanges.open(head.start, head.end, request, desk);
        let expected = Expected::of(kind);
        if (expected != Expected::Results || database.is_some())
            && let Some(exchange) = exchanges.uploading()
        {
            if self.pending.len() >= MAX_PENDING {
                self.pending.pop_front();
            }
            let statement = statement.filter(|_| expected == Expected::Prepared);
            let exchange = exchange.id;
            self.pending.push_back(Pending { exchange, expected, statement, database });
        }
        Outcome::Read
    }

    fn read_response(
        &mut self,
        input: &mut Input<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        if self.responses.is_lost() {
            let over = input.unseen == 0 && ends_result(input.bytes);
            input.skip_all();
            exchanges.response_reached(input.mark);
            if over {
                exchanges.end_response(desk);
                self.find_responses(desk);
            }
            return Outcome::Read;
        }
        if input.missed && self.responses.is_in_head() {
            // The beginning of this packet may be an older response's.
            self.unseen_response(input, exchanges, desk);
            return Outcome::Read;
        }
        loop {
            match self.responses.read(input) {
                Step::More | Step::Resumed => {
                    if !self.responses.is_between() {
                        exchanges.response_reached(input.mark);
                    }
                    return Outcome::Read;
                }
                Step::Head(head) => match self.response_head(&head, exchanges, desk) {
                    Outcome::Read if self.responses.is_lost() => {
                        input.skip_all();
                        return Outcome::Read;
                    }
                    Outcome::Read => {}
                    outcome => return outcome,
                },
                Step::End(end) => {
                    exchanges.response_reached(end);
                    if self.response_packet_over(exchanges, desk) == Outcome::Switched {
                        return Outcome::Switched;
                    }
                }
                Step::Unseen | Step::Malformed => {
                    self.unseen_response(input, exchanges, desk);
                    return Outcome::Read;
                }
            }
        }
    }

    /// The borders of responses are lost here.
    fn unseen_response(
        &mut self,
        input: &mut Input<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) {
        if input.missed {
            exchanges.abandon(desk);
        } else if self.phase != Phase::Greeting {
            exchanges.begin_response(self.responses.start().unwrap_or(input.mark));
        }
        input.skip_all();
        exchanges.response_reached(input.mark);
        desk.counters.framing_lost += 1;
        self.lose_responses();
        exchanges.weaken(desk);
    }

    fn lose_responses(&mut self) {
        self.responses.lose();
        self.response_continued = false;
        self.meaning = Meaning::Part;
        self.next_sequence = None;
        self.reply.begin(Expected::Results);
    }

    /// The next byte is a response's first.
    fn find_responses(&mut self, desk: &mut Desk<'_>) {
        self.responses = Frames::new(Packets(Side::Response));
        desk.counters.resynchronised += 1;
    }

    fn response_head(
        &mut self,
        head: &Head<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        self.meaning = Meaning::Part;
        let sequence = head.header[3];
        let in_sequence = self.next_sequence.is_none_or(|next| next == sequence);
        self.next_sequence = Some(sequence.wrapping_add(1));
        let continues = head.length == MAX_PACKET_BYTES;
        if std::mem::replace(&mut self.response_continued, continues) {
            return Outcome::Read;
        }
        match self.phase {
            Phase::Greeting if head.content.first() == Some(&ERROR) => {
                // The connecting that it refuses has no bytes of its own.
                let request = command::request(self.shown(), command::CHANGE_USER, None);
                let request = Request { silent: true, ..request };
                exchanges.open(head.start, head.start, request, desk);
                exchanges.begin_response(head.start);
                self.meaning = Meaning::Error;
            }
            Phase::Greeting => {
                self.greeting(&head.content);
                return Outcome::Read;
            }
            Phase::Authentication => {
                exchanges.begin_response(head.start);
                self.meaning = match head.content.first() {
                    Some(&OK) => Meaning::End { rows: None },
                    Some(&ERROR) => Meaning::Error,
                    _ => Meaning::Part,
                };
            }
            Phase::Commands => {
                if self.reply.place == Place::Before && self.is_late_end(head) {
                    self.reply.ended_definitions = Some(true);
                    return Outcome::Read;
                }
                if self.reply.place == Place::Before {
                    if exchanges.answering().is_none() {
                        // What it answers is a request whose end was missed.
                        if !self.requests.is_between() && !self.requests.is_lost() {
                            desk.counters.framing_lost += 1;
                            self.lose_requests();
                            self.asking = false;
                        }
                        return self.orphan(desk);
                    }
                    self.begin_reply(head, exchanges);
                }
                self.meaning = if in_sequence {
                    self.reply.packet(&head.content, head.length)
                } else {
                    Meaning::Malformed
                };
            }
        }
        match self.meaning {
            Meaning::Part | Meaning::End { .. } => {}
            Meaning::File => self.sending_file = true,
            Meaning::Error => {
                if let Some(exchange) = exchanges.answering() {
                    let (code, failure) = packet::failure(&head.content);
                    let attributes = &mut exchange.answer.attributes;
                    let value = failure.kind.as_str().into();
                    attributes.push(("db.response.status_code".to_owned(), value));
                    exchange.answer.status_code = Some(code);
                    exchange.answer.failure = Some(failure);
                }
            }
            Meaning::Malformed => {
                self.lose_responses();
                return self.strike(exchanges, desk);
            }
        }
        Outcome::Read
    }

    /// Whether this is what ends definitions, after what was taken for their end:
    /// where the opening was not seen, it is not known that there is such a packet.
    fn is_late_end(&self, head: &Head<'_>) -> bool {
        self.reply.ended_definitions.is_none()
            && head.header[3] > 1
            && head.length == 5
            && head.content.first() == Some(&packet::EOF)
    }

    /// A packet that answers no request: one was missed, or the server says why
    /// it hangs up.
    fn orphan(&mut self, desk: &mut Desk<'_>) -> Outcome {
        desk.counters.orphan_responses += 1;
        self.lose_responses();
        Outcome::Read
    }

    fn begin_reply(&mut self, head: &Head<'_>, exchanges: &mut Exchanges) {
        exchanges.begin_response(head.start);
        let exchange = exchanges.answering().map_or(0, |exchange| exchange.id);
        while self.pending.front().is_some_and(|pending| pending.exchange < exchange) {
            self.pending.pop_front();
        }
        let pending = self.pending.pop_front_if(|pending| pending.exchange == exchange);
        self.reply.begin(pending.as_ref().map_or(Expected::Results, |pending| pending.expected));
        let Some(pending) = pending.filter(|_| head.content.first() == Some(&OK)) else { return };
        if let Some(database) = pending.database {
            self.database = Some(database);
        }
        let number = head.content.get(1..).and_then(|rest| rest.first_chunk());
        if let (Some(statement), Some(number)) = (pending.statement, number) {
            self.statements.put(u32::from_le_bytes(*number), statement);
        }
    }

    fn response_packet_over(&mut self, exchanges: &mut Exchanges, desk: &mut Desk<'_>) -> Outcome {
        match std::mem::replace(&mut self.meaning, Meaning::Part) {
            Meaning::Part | Meaning::File | Meaning::Malformed => return Outcome::Read,
            Meaning::Error => {}
            Meaning::End { rows } => {
                if let (Some(rows), Some(exchange)) = (rows, exchanges.answering()) {
                    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
                    let attribute = ("db.response.returned_rows".to_owned(), rows.into());
                    exchange.answer.attributes.push(attribute);
                }
            }
        }
        self.strikes = 0;
        self.next_sequence = None;
        self.sending_file = false;
        exchanges.end_response(desk);
        if self.phase == Phase::Authentication {
            self.phase = Phase::Commands;
            if self.shares(capability::COMPRESS | capability::ZSTD) {
                return Outcome::Switched;
            }
        }
        Outcome::Read
    }

    /// "Protocol::HandshakeV10": version 10, the server's version, the
    /// connection's number, eight bytes and a zero, half of the capabilities,
    /// the character set, the status, the other half.
    fn greeting(&mut self, content: &[u8]) {
        let Some((10, rest)) = content.split_first() else { return };
        let Some(end) = memchr::memchr(0, rest) else { return };
        if text(&rest[..end], 128).to_ascii_lowercase().contains("mariadb") {
            self.system = "mariadb";
        }
        let after = rest.get(end + 14..).unwrap_or_default();
        if let [low, more_low, _, _, _, high, more_high, ..] = after {
            self.capabilities = u32::from_le_bytes([*low, *more_low, *high, *more_high]);
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
        mut input: Input<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        match side {
            Side::Request => self.read_request(&mut input, exchanges, desk),
            Side::Response => self.read_response(&mut input, exchanges, desk),
        }
    }

    fn turn(&mut self, to: Side, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        match to {
            Side::Request => {
                if self.responses.is_lost() {
                    exchanges.end_lost_response(desk);
                }
                if self.requests.is_lost() {
                    // Requests were missed: whose the next response is, is not
                    // known.
                    exchanges.abandon(desk);
                    desk.counters.resynchronised += 1;
                    self.requests = Frames::new(Packets(Side::Request));
                    self.asking = false;
                }
            }
            Side::Response => {
                if self.responses.is_lost() {
                    self.find_responses(desk);
                }
            }
        }
    }

    fn quiet(&mut self, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        if self.responses.is_lost() {
            exchanges.end_lost_response(desk);
        }
    }

    fn closed(&mut self, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        self.quiet(exchanges, desk);
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
