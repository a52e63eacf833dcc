//! PostgreSQL's protocol 3. A request is what goes up to a point at which the
//! server says that it is ready again: one simple query, or the messages of
//! the extended protocol up to Sync. Its response begins with the first
//! message that answers it, not with one that the server may send at any time,
//! so both sides of a connection name the same byte.

mod cycle;
mod message;
mod statements;

use std::sync::{LazyLock, OnceLock};

use spanwise_model::protocol;

use self::cycle::{Cycle, EXECUTE};
use self::message::{Message, Opening, Reader, Step, UNTYPED, opening, text};
use self::statements::{Statements, statement};
use super::infer::Known;
use super::{Input, Mark, Outcome, Protocol, Side};
use crate::sessions::{Answer, Desk, Exchanges, Failure, Request, Shared, Tag};

use self::message::recognise;

/// PostgreSQL, to whoever tells protocols apart.
pub(super) const KNOWN: Known =
    Known { name: "postgresql", recognise, parser: |_| Box::new(Postgresql::new()) };

/// Malformed messages in a row after which the connection is no PostgreSQL.
const MAX_STRIKES: u8 = 3;
/// What a request says of which only a Bind was read yet.
static EXECUTION: LazyLock<Shared<Request>> = LazyLock::new(|| Request::new(EXECUTE).into());
/// How many rows an answer has.
const RETURNED_ROWS: &str = "db.response.returned_rows";
/// ReadyForQuery, up to the transaction status.
const READY: [u8; 5] = [b'Z', 0, 0, 0, 5];

/// The parser of one connection.
pub(super) struct Postgresql {
    frontend: Reader,
    backend: Reader,
    frontend_lost: bool,
    backend_lost: bool,
    /// The request that is being sent.
    cycle: Option<Cycle>,
    statements: Statements,
    database: Option<String>,
    /// What its requests say that execute one statement which is not known: it was prepared
    /// before anybody looked.
    unknown: OnceLock<Shared<Request>>,
    /// The last answer of rows, and how many.
    returned: Option<(i64, Shared<Answer>)>,
    strikes: u8,
}

impl Postgresql {
    pub(super) const fn new() -> Self {
        Self {
            frontend: Reader::new(Side::Request),
            backend: Reader::new(Side::Response),
            frontend_lost: false,
            backend_lost: false,
            cycle: None,
            statements: Statements::new(),
            database: None,
            unknown: OnceLock::new(),
            returned: None,
            strikes: 0,
        }
    }

    /// Whether a message is complete that has not been looked at.
    const fn is_due(&self, side: Side) -> bool {
        match side {
            Side::Request => !self.frontend_lost && self.frontend.is_due(),
            Side::Response => !self.backend_lost && self.backend.is_due(),
        }
    }

    fn read_request(
        &mut self,
        input: &mut Input<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        if self.frontend_lost {
            input.skip_all();
            return Outcome::Read;
        }
        if input.missed && !self.frontend.is_between() {
            // That more is missing is seen only with a later request: the response
            // to this one may have come and gone.
            input.skip_all();
            desk.counters.framing_lost += 1;
            self.lose_frontend(exchanges);
            return Outcome::Read;
        }
        match self.frontend.read(input) {
            Step::More | Step::Begun(..) => Outcome::Read,
            Step::Complete(message) => self.request_message(&message, input.mark, exchanges, desk),
            Step::Unseen => {
                desk.counters.framing_lost += 1;
                self.lose_frontend(exchanges);
                Outcome::Read
            }
            Step::Malformed => {
                self.lose_frontend(exchanges);
                self.strike(true, desk)
            }
        }
    }

    fn lose_frontend(&mut self, exchanges: &mut Exchanges) {
        self.frontend.reset();
        self.frontend_lost = true;
        // What was not seen of the request will hardly have been nothing.
        if let Some(mut cycle) = self.cycle.take() {
            cycle.assume_executed();
            self.describe(&cycle, exchanges);
        }
    }

    /// Takes note of bytes where a message was `expected`.
    fn strike(&mut self, expected: bool, desk: &mut Desk<'_>) -> Outcome {
        if expected {
            desk.counters.malformed_messages += 1;
            self.strikes += 1;
        }
        if self.strikes >= MAX_STRIKES { Outcome::Foreign } else { Outcome::Read }
    }

    fn describe(&mut self, cycle: &Cycle, exchanges: &mut Exchanges) {
        let database = self.database.as_deref();
        match cycle.alone(database, &self.unknown) {
            Some((request, new)) => {
                exchanges.say(request.clone());
                if new {
                    self.statements.count();
                }
            }
            None => exchanges.change_request(|request| cycle.describe(database, request)),
        }
    }

    /// Says of the request that is being sent what has been learnt of it.
    fn describe_changes(&mut self, exchanges: &mut Exchanges) {
        if let Some(mut cycle) = self.cycle.take_if(|cycle| cycle.changed) {
            self.describe(&cycle, exchanges);
            cycle.changed = false;
            self.cycle = Some(cycle);
        }
    }

    fn request_message(
        &mut self,
        message: &Message<'_>,
        end: Mark,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        self.strikes = 0;
        let mut content = message.content.as_ref();
        match message.kind {
            UNTYPED => return self.opening(message, end, exchanges, desk),
            b'Q' => {
                let cycle = Cycle::query(statement(text(&mut content)));
                self.begin(cycle, message.start, end, exchanges, desk);
                self.describe_changes(exchanges);
                self.cycle = None;
            }
            b'P' => {
                let name = text(&mut content);
                let statement = statement(text(&mut content));
                self.statements.prepare(name, statement.clone());
                self.continue_with(|cycle| cycle.parse(statement), message, end, exchanges, desk);
            }
            b'B' => {
                let portal = text(&mut content);
                let statement = self.statements.bind(portal, text(&mut content));
                self.continue_with(|cycle| cycle.bind(statement), message, end, exchanges, desk);
            }
            b'E' => {
                let statement = self.statements.portal(text(&mut content));
                self.continue_with(|cycle| cycle.execute(statement), message, end, exchanges, desk);
            }
            b'C' => {
                if let Some((kind, mut name)) = content.split_first().map(|(k, rest)| (*k, rest)) {
                    self.statements.close(kind, text(&mut name));
                }
                self.continue_with(|_| {}, message, end, exchanges, desk);
            }
            b'D' | b'F' => self.continue_with(|_| {}, message, end, exchanges, desk),
            b'S' => {
                self.continue_with(|_| {}, message, end, exchanges, desk);
                self.describe_changes(exchanges);
                self.cycle = None;
            }
            // Data and end of a COPY, flush: part of the request that they
            // belong to. Terminate and passwords are answered by nobody here.
            b'd' | b'c' | b'f' | b'H' => exchanges.request_reached(end),
            _ => {}
        }
        Outcome::Read
    }

    fn begin(
        &mut self,
        cycle: Cycle,
        start: Mark,
        end: Mark,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) {
        let request = if cycle.is_execution() {
            debug_assert_eq!(cycle.summary(), EXECUTE, "what both say");
            EXECUTION.clone()
        } else {
            Request::new(cycle.summary()).into()
        };
        exchanges.open(start, end, request, desk);
        self.cycle = Some(cycle);
    }

    fn continue_with(
        &mut self,
        change: impl FnOnce(&mut Cycle),
        message: &Message<'_>,
        end: Mark,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) {
        match self.cycle.take() {
            Some(mut cycle) => {
                exchanges.request_reached(end);
                change(&mut cycle);
                self.cycle = Some(cycle);
            }
            None => {
                let mut cycle = Cycle::of(message.kind);
                change(&mut cycle);
                self.begin(cycle, message.start, end, exchanges, desk);
            }
        }
    }

    fn opening(
        &mut self,
        message: &Message<'_>,
        end: Mark,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        let code = message.content.first_chunk::<4>().map(|code| u32::from_be_bytes(*code));
        // It is shown only if it fails, as the connecting that it is.
        let mut request = Request { silent: true, ..Request::new("CONNECT") };
        match code.and_then(opening) {
            Some(Opening::Startup) => {
                let mut parameters = &message.content[4..];
                let (mut user, mut database) = (None, None);
                while !parameters.is_empty() {
                    let name = text(&mut parameters);
                    let value = super::text(text(&mut parameters), 64);
                    match name {
                        b"user" => user = Some(value),
                        b"database" => database = Some(value),
                        _ => {}
                    }
                }
                // PostgreSQL takes the user's name for the database's.
                self.database = database.or(user).filter(|name| !name.is_empty());
                Cycle::of(UNTYPED).describe(self.database.as_deref(), &mut request);
            }
            Some(Opening::Encryption) => request.tag = Tag::Encryption,
            Some(Opening::Cancel) => return Outcome::Read,
            None => return self.strike(true, desk),
        }
        exchanges.open(message.start, end, request, desk);
        Outcome::Read
    }

    /// The one byte that answers a request for encryption.
    fn encryption_answer(
        &mut self,
        input: &mut Input<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Option<Outcome> {
        let answer = *input.bytes.first()?;
        let asked = exchanges.answering().is_some_and(|e| e.request.tag == Tag::Encryption);
        if !asked || !self.backend.is_between() || !matches!(answer, b'S' | b'G' | b'N') {
            return None;
        }
        exchanges.begin_response(input.mark);
        input.take(1);
        exchanges.response_reached(input.mark);
        exchanges.end_response(desk);
        Some(if answer == b'N' { Outcome::Read } else { Outcome::Encrypted })
    }

    fn read_response(
        &mut self,
        input: &mut Input<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        if let Some(outcome) = self.encryption_answer(input, exchanges, desk) {
            return outcome;
        }
        if self.backend_lost {
            let ready = input.unseen == 0
                && input.bytes.len() > READY.len()
                && input.bytes[input.bytes.len() - 6..].starts_with(&READY);
            input.skip_all();
            exchanges.response_reached(input.mark);
            if ready {
                exchanges.end_response(desk);
                self.backend.reset();
                self.backend_lost = false;
                desk.counters.resynchronised += 1;
            }
            return Outcome::Read;
        }
        if input.missed && !self.backend.is_between() {
            // The beginning of this message may be an older response's.
            input.skip_all();
            exchanges.abandon(desk);
            desk.counters.framing_lost += 1;
            self.lose_backend();
            return Outcome::Read;
        }
        let was_in_step = self.backend.in_step;
        match self.backend.read(input) {
            Step::More => {
                exchanges.response_reached(input.mark);
                Outcome::Read
            }
            Step::Begun(kind, start) => {
                if answers(kind) {
                    exchanges.begin_response(start);
                }
                Outcome::Read
            }
            Step::Complete(message) => {
                if answers(message.kind) {
                    exchanges.begin_response(message.start);
                }
                exchanges.response_reached(input.mark);
                self.response_message(&message, exchanges, desk);
                Outcome::Read
            }
            Step::Unseen => {
                if input.missed {
                    exchanges.abandon(desk);
                } else {
                    exchanges.begin_response(self.backend.start().unwrap_or(input.mark));
                }
                desk.counters.framing_lost += 1;
                self.lose_backend();
                exchanges.weaken(desk);
                Outcome::Read
            }
            Step::Malformed => {
                // Whose it was, and whose the next is, is not known.
                exchanges.abandon(desk);
                self.lose_backend();
                self.strike(was_in_step, desk)
            }
        }
    }

    /// The answer that so many rows are: the last one that was, where it had as many.
    fn returned(&mut self, rows: i64) -> Shared<Answer> {
        match &self.returned {
            Some((count, answer)) if *count == rows => answer.clone(),
            _ => {
                let attributes = vec![(RETURNED_ROWS, rows.into())];
                let answer = Shared::from(Answer { attributes, ..Answer::default() });
                self.returned = Some((rows, answer.clone()));
                answer
            }
        }
    }

    fn lose_backend(&mut self) {
        self.backend.reset();
        self.backend_lost = true;
    }

    fn response_message(
        &mut self,
        message: &Message<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) {
        self.strikes = 0;
        match message.kind {
            b'Z' => {
                if exchanges.is_empty() {
                    desk.counters.orphan_responses += 1;
                }
                exchanges.end_response(desk);
            }
            b'E' => {
                if let Some(exchange) = exchanges.answering()
                    && exchange.answer.failure.is_none()
                {
                    let failure = failure(&message.content);
                    let code = failure.kind.as_str().into();
                    let attributes = &mut exchange.answer.attributes;
                    attributes.push(("db.response.status_code", code));
                    exchange.answer.failure = Some(failure);
                }
            }
            b'C' => {
                if let Some(exchange) = exchanges.answering()
                    && let Some(rows) = returned_rows(&message.content)
                {
                    if exchange.answer.says_nothing() {
                        exchange.answer = self.returned(rows);
                        return;
                    }
                    let attributes = &mut exchange.answer.attributes;
                    attributes.retain(|(known, _)| *known != RETURNED_ROWS);
                    attributes.push((RETURNED_ROWS, rows.into()));
                }
            }
            _ => {}
        }
    }
}

/// Whether such a message of the server's is part of an answer: notices, parameters and
/// notifications come when they like.
const fn answers(kind: u8) -> bool {
    !matches!(kind, b'N' | b'S' | b'A')
}

/// Rows in the tag of a command that returns rows: `SELECT 5`, `FETCH 5`.
fn returned_rows(tag: &[u8]) -> Option<i64> {
    let tag = std::str::from_utf8(tag).ok()?.trim_end_matches('\0');
    let (command, rows) = tag.split_once(' ')?;
    matches!(command, "SELECT" | "FETCH").then(|| rows.parse().ok())?
}

/// The failure in an ErrorResponse: its SQLSTATE and its message.
fn failure(mut fields: &[u8]) -> Failure {
    let (mut code, mut message) = (String::new(), String::new());
    while let Some((kind, rest)) = fields.split_first().filter(|(kind, _)| **kind != 0) {
        fields = rest;
        let value = text(&mut fields);
        match kind {
            b'C' => code = super::text(value, 5),
            b'M' => message = super::text(value, 512),
            _ => {}
        }
    }
    if code.is_empty() {
        code.push_str("error");
    }
    Failure { message: format!("{code}: {message}"), kind: code }
}

impl Protocol for Postgresql {
    fn name(&self) -> &'static str {
        protocol::POSTGRESQL
    }

    fn read(
        &mut self,
        side: Side,
        mut input: Input<'_>,
        exchanges: &mut Exchanges,
        desk: &mut Desk<'_>,
    ) -> Outcome {
        while !input.is_empty() || self.is_due(side) {
            let outcome = match side {
                Side::Request => self.read_request(&mut input, exchanges, desk),
                Side::Response => self.read_response(&mut input, exchanges, desk),
            };
            if outcome != Outcome::Read {
                return outcome;
            }
        }
        self.describe_changes(exchanges);
        Outcome::Read
    }

    fn turn(&mut self, to: Side, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        match to {
            Side::Request => {
                if self.backend_lost {
                    exchanges.end_lost_response(desk);
                }
                if std::mem::take(&mut self.frontend_lost) {
                    // Requests were missed: whose the next response is, is not
                    // known.
                    exchanges.abandon(desk);
                    desk.counters.resynchronised += 1;
                }
            }
            Side::Response => {
                if std::mem::take(&mut self.backend_lost) {
                    desk.counters.resynchronised += 1;
                }
            }
        }
    }

    fn quiet(&mut self, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        if self.backend_lost {
            exchanges.end_lost_response(desk);
        }
    }

    fn closed(&mut self, exchanges: &mut Exchanges, desk: &mut Desk<'_>) {
        self.quiet(exchanges, desk);
    }

    fn between_responses(&self) -> bool {
        !self.backend_lost && self.backend.is_between()
    }

    fn held_bytes(&self) -> usize {
        self.frontend.held_bytes() + self.backend.held_bytes() + self.statements.held_bytes()
    }
}
