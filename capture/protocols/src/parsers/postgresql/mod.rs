//! PostgreSQL protocol 3. A request extends to the point where the server reports ready again: one
//! simple query, or the messages of the extended protocol up to Sync. The response begins with the
//! first message that answers the request. Messages that the server may send at any time do not
//! count, so that both sides of a connection name the same first byte.

mod cycle;
mod message;
mod pending;
mod statements;

use std::sync::{LazyLock, OnceLock};

use spanwise_model::protocol;

use self::cycle::{Cycle, EXECUTE};
use self::message::{Message, Opening, Reader, Step, UNTYPED, opening, recognise, text};
use self::pending::{Done, Due, Pending, Verdict};
use self::statements::{OwnStatement, Statements, statement};
use crate::bytes::{Input, Mark, Side};
use crate::framing::strikes::Strikes;
use crate::parser::{Known, Outcome, Protocol};
use crate::redaction::{self, own_words, without_quoted};
use crate::sessions::{Answer, Conversation, Exchange, Failure, Request, Shared, Tag};

/// PostgreSQL in the protocol table.
pub(crate) const KNOWN: Known =
    Known { name: "postgresql", recognise, parser: |_| Box::new(Postgresql::new()) };

/// Content of a request of which only a Bind was read yet.
static EXECUTION: LazyLock<Shared<Request>> = LazyLock::new(|| Request::new(EXECUTE).into());
/// Attribute with the number of rows in a response.
const RETURNED_ROWS: &str = "db.response.returned_rows";
/// ReadyForQuery, up to the transaction status.
const READY: [u8; 5] = [b'Z', 0, 0, 0, 5];

/// Whether the server is ready again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Yes,
    No,
}

/// The parser of one connection.
pub(super) struct Postgresql {
    frontend: Reader,
    backend: Reader,
    frontend_lost: bool,
    backend_lost: bool,
    /// The request that is being sent.
    cycle: Option<Cycle>,
    /// The client asked for a response to what was sent so far. The request ends there unless it
    /// continues before the response.
    flushed: bool,
    /// The responses that the server still has to send.
    pending: Pending,
    /// Pairing is lost. The server's messages are read again from the next turn on, once it is
    /// ready.
    out_of_step: Option<Ready>,
    /// The server's ReadyForQuery was seen before the request for it was reported.
    ready_early: bool,
    statements: Statements,
    database: Option<String>,
    /// Shared content of requests that execute one unknown statement, prepared before tracing
    /// began.
    unknown: OnceLock<Shared<Request>>,
    /// The last response with rows, and its row count.
    returned: Option<(i64, Shared<Answer>)>,
    strikes: Strikes,
}

impl Postgresql {
    pub(super) fn new() -> Self {
        Self {
            frontend: Reader::new(Side::Request),
            backend: Reader::new(Side::Response),
            frontend_lost: false,
            backend_lost: false,
            cycle: None,
            flushed: false,
            pending: Pending::default(),
            out_of_step: None,
            ready_early: false,
            statements: Statements::new(),
            database: None,
            unknown: OnceLock::new(),
            returned: None,
            strikes: Strikes::NONE,
        }
    }

    /// Whether there is a complete message that was not handled yet.
    const fn is_due(&self, side: Side) -> bool {
        match side {
            Side::Request => !self.frontend_lost && self.frontend.is_due(),
            Side::Response => !self.backend_lost && self.backend.is_due(),
        }
    }

    fn read_request(
        &mut self,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        if self.frontend_lost {
            input.skip_all();
            return Outcome::Read;
        }
        if input.missed && !self.frontend.is_between() {
            // A gap only shows up with a later request. The response to this one may have come
            // already.
            input.skip_all();
            conversation.counters.framing_lost += 1;
            self.lose_frontend(conversation);
            return Outcome::Read;
        }
        match self.frontend.read(input) {
            Step::More | Step::Begun(..) => Outcome::Read,
            Step::Complete(message) => self.request_message(&message, input.mark, conversation),
            Step::Unseen => {
                conversation.counters.framing_lost += 1;
                self.lose_frontend(conversation);
                Outcome::Read
            }
            Step::Malformed => {
                self.lose_frontend(conversation);
                self.strike(true, conversation)
            }
        }
    }

    fn lose_frontend(&mut self, conversation: &mut Conversation<'_>) {
        self.frontend.reset();
        self.frontend_lost = true;
        // The missed part of the request most likely contained an execution.
        if let Some(mut cycle) = self.cycle.take() {
            cycle.assume_executed();
            self.describe(&cycle, conversation);
            self.pending.push(Due::Anything, Done::Any, true);
        }
        self.flushed = false;
    }

    /// Counts bytes that did not form a message. `expected` is true if a message had to begin
    /// there.
    fn strike(&mut self, expected: bool, conversation: &mut Conversation<'_>) -> Outcome {
        match expected {
            true => self.strikes.strike(conversation.counters),
            false => self.strikes.outcome(),
        }
    }

    fn describe(&mut self, cycle: &Cycle, conversation: &mut Conversation<'_>) {
        let database = self.database.as_deref();
        match cycle.alone(database, &self.unknown) {
            Some((request, new)) => {
                conversation.say(request.clone());
                if new {
                    self.statements.count();
                }
            }
            None => conversation.change_request(|request| cycle.describe(database, request)),
        }
    }

    /// Updates the request that is being sent with what is newly known.
    fn describe_changes(&mut self, conversation: &mut Conversation<'_>) {
        if let Some(mut cycle) = self.cycle.take_if(|cycle| cycle.changed) {
            self.describe(&cycle, conversation);
            cycle.changed = false;
            self.cycle = Some(cycle);
        }
    }

    fn request_message(
        &mut self,
        message: &Message<'_>,
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        self.strikes.clear();
        let mut content = message.content.as_ref();
        match message.kind {
            UNTYPED => return self.opening(message, end, conversation),
            b'Q' => {
                let statement = statement(text(&mut content));
                let done = Done::of(&statement.summary.operation);
                self.begin(Cycle::query(statement), message.start, end, conversation);
                self.sent(Due::Query, done, conversation);
                self.end_sending(conversation);
            }
            b'P' => {
                let name = text(&mut content);
                let statement = statement(text(&mut content));
                self.statements.prepare(name, statement.clone());
                self.continue_with(|cycle| cycle.parse(statement), message, end, conversation);
                self.sent(Due::Parse, Done::Any, conversation);
            }
            b'B' => {
                let portal = text(&mut content);
                let statement = self.statements.bind(portal, text(&mut content));
                self.continue_with(|cycle| cycle.bind(statement), message, end, conversation);
                self.sent(Due::Bind, Done::Any, conversation);
            }
            b'E' => {
                let statement = self.statements.portal(text(&mut content));
                let done = statement.as_deref().map_or(Done::Any, done);
                self.continue_with(|cycle| cycle.execute(statement), message, end, conversation);
                self.sent(Due::Execute, done, conversation);
            }
            b'C' => {
                if let Some((kind, mut name)) = content.split_first().map(|(k, rest)| (*k, rest)) {
                    self.statements.close(kind, text(&mut name));
                }
                self.continue_with(|_| {}, message, end, conversation);
                self.sent(Due::Close, Done::Any, conversation);
            }
            b'D' => {
                self.continue_with(|_| {}, message, end, conversation);
                self.sent(Due::Describe, Done::Any, conversation);
            }
            b'F' => {
                self.begin(Cycle::of(b'F'), message.start, end, conversation);
                self.sent(Due::Call, Done::Any, conversation);
                self.end_sending(conversation);
            }
            b'S' => {
                self.continue_with(|_| {}, message, end, conversation);
                self.sent(Due::Sync, Done::Any, conversation);
                self.end_sending(conversation);
            }
            b'H' => {
                conversation.request_reached(end);
                self.flush(conversation);
            }
            // Data or end of a COPY: part of the request that they belong to.
            b'd' => conversation.request_reached(end),
            b'c' | b'f' => {
                conversation.request_reached(end);
                self.pending.copied();
            }
            // Terminate and passwords get no response here.
            _ => {}
        }
        Outcome::Read
    }

    fn begin(&mut self, cycle: Cycle, start: Mark, end: Mark, conversation: &mut Conversation<'_>) {
        // A Sync alone only asks whether the server is ready.
        let silent = cycle.is_sync();
        let request = if cycle.is_execution() {
            debug_assert_eq!(cycle.summary(), EXECUTE, "what both say");
            EXECUTION.clone()
        } else {
            Request { silent, ..Request::new(cycle.summary()) }.into()
        };
        self.end_unsynced(conversation);
        if self.out_of_step.is_some() {
            conversation.counters.requests_lost += u64::from(cycle.is_whole());
            return;
        }
        conversation.open(start, end, request);
        if conversation.uploading().is_none() {
            // Too many requests are open.
            self.pending.clear();
            return;
        }
        self.cycle = Some(cycle);
    }

    /// Records that a message of the request being sent expects this response.
    fn sent(&mut self, due: Due, done: Done, conversation: &mut Conversation<'_>) {
        if self.cycle.is_none() {
            return;
        }
        if due == Due::Sync && self.pending.passes_over_sync() {
            if !self.pending.close() {
                conversation.end_unanswered();
            }
            return;
        }
        if self.pending.is_full() {
            conversation.counters.requests_over_limit += 1;
            self.give_up(conversation);
            self.out_of_step = Some(Ready::No);
            return;
        }
        let last = matches!(due, Due::Query | Due::Call | Due::Sync);
        if due == Due::Sync && std::mem::take(&mut self.ready_early) && !self.pending.awaits_sent()
        {
            conversation.end_response();
        } else if !self.pending.push(due, done, last) {
            // An earlier message has failed, so the server skips this one.
            pass_over(conversation.uploading());
            if last {
                self.describe_changes(conversation);
                conversation.end_unanswered();
            }
        }
    }

    /// The request has been sent completely.
    fn end_sending(&mut self, conversation: &mut Conversation<'_>) {
        self.describe_changes(conversation);
        self.cycle = None;
        self.flushed = false;
    }

    /// The client sends Flush: the server responds to what was sent so far, without ReadyForQuery.
    /// Clients mostly wait for that, and what they send next is a new request.
    fn flush(&mut self, conversation: &mut Conversation<'_>) {
        if self.cycle.is_none() {
            return;
        }
        if self.pending.awaits_sent() || self.pending.skips() {
            self.flushed = true;
        } else {
            self.end_sending(conversation);
            conversation.end_response();
        }
    }

    /// A new request begins, so the messages before it form a request without Sync.
    fn end_unsynced(&mut self, conversation: &mut Conversation<'_>) {
        if self.cycle.is_some() {
            self.end_sending(conversation);
            // All messages of the request are answered or skipped.
            if !self.pending.close() && !conversation.end_unanswered() {
                conversation.end_response();
            }
        }
        self.flushed = false;
    }

    fn continue_with(
        &mut self,
        change: impl FnOnce(&mut Cycle),
        message: &Message<'_>,
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) {
        // A client that continues before the response to its Flush did not wait for it.
        self.flushed = false;
        match self.cycle.take() {
            Some(mut cycle) => {
                conversation.request_reached(end);
                change(&mut cycle);
                self.cycle = Some(cycle);
            }
            None => {
                let mut cycle = Cycle::of(message.kind);
                change(&mut cycle);
                self.begin(cycle, message.start, end, conversation);
            }
        }
    }

    fn opening(
        &mut self,
        message: &Message<'_>,
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        let code = message.content.first_chunk::<4>().map(|code| u32::from_be_bytes(*code));
        // This request stands for the connection attempt and is shown only if it fails.
        let mut request = Request { silent: true, ..Request::new("CONNECT") };
        let mut due = Due::Session;
        match code.and_then(opening) {
            Some(Opening::Startup) => {
                let mut parameters = &message.content[4..];
                let (mut user, mut database) = (None, None);
                while !parameters.is_empty() {
                    let name = text(&mut parameters);
                    let value = crate::bytes::text(text(&mut parameters), 64);
                    match name {
                        b"user" => user = Some(value),
                        b"database" => database = Some(value),
                        _ => {}
                    }
                }
                // By default, PostgreSQL uses the user name as the database name.
                let database = database.or(user).filter(|name| !name.is_empty());
                self.database = database.map(|name| redaction::owned(name, redaction::keyed_name));
                Cycle::of(UNTYPED).describe(self.database.as_deref(), &mut request);
            }
            Some(Opening::Encryption) => {
                request.tag = Tag::Encryption;
                due = Due::Encryption;
            }
            Some(Opening::Cancel) => return Outcome::Read,
            None => return self.strike(true, conversation),
        }
        conversation.open(message.start, end, request);
        self.pending.push(due, Done::Any, true);
        Outcome::Read
    }

    /// Handles the one-byte response to a request for encryption.
    fn encryption_answer(
        &mut self,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Option<Outcome> {
        let answer = *input.bytes.first()?;
        let asked = conversation.answering().is_some_and(|e| e.request.tag == Tag::Encryption);
        if !asked || !self.backend.is_between() || !matches!(answer, b'S' | b'G' | b'N') {
            return None;
        }
        conversation.begin_response(input.mark);
        input.take(1);
        conversation.response_reached(input.mark);
        conversation.end_response();
        self.pending.drop_oldest();
        Some(if answer == b'N' { Outcome::Read } else { Outcome::Encrypted })
    }

    fn read_response(
        &mut self,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        if let Some(outcome) = self.encryption_answer(input, conversation) {
            return outcome;
        }
        if self.backend_lost {
            let ready = input.unseen == 0
                && input.bytes.len() > READY.len()
                && input.bytes[input.bytes.len() - 6..].starts_with(&READY);
            input.skip_all();
            conversation.response_reached(input.mark);
            if ready {
                conversation.end_response();
                self.pending.drop_oldest();
                self.backend.reset();
                self.backend_lost = false;
                conversation.counters.resynchronised += 1;
            }
            return Outcome::Read;
        }
        if input.missed && !self.backend.is_between() {
            // The start of this message may belong to an older response.
            input.skip_all();
            self.give_up(conversation);
            conversation.counters.framing_lost += 1;
            self.lose_backend();
            return Outcome::Read;
        }
        let was_in_step = self.backend.in_step;
        match self.backend.read(input) {
            Step::More => {
                conversation.response_reached(input.mark);
                Outcome::Read
            }
            Step::Begun(kind, start) => {
                if answers(kind) {
                    conversation.begin_response(start);
                }
                Outcome::Read
            }
            Step::Complete(message) => {
                if answers(message.kind) {
                    conversation.begin_response(message.start);
                }
                conversation.response_reached(input.mark);
                self.response_message(&message, input.mark, conversation);
                Outcome::Read
            }
            Step::Unseen => {
                if input.missed {
                    self.give_up(conversation);
                } else {
                    conversation.begin_response(self.backend.start().unwrap_or(input.mark));
                }
                conversation.counters.framing_lost += 1;
                self.lose_backend();
                conversation.weaken();
                Outcome::Read
            }
            Step::Malformed => {
                // Neither this message nor the next one can be paired.
                self.give_up(conversation);
                self.lose_backend();
                self.strike(was_in_step, conversation)
            }
        }
    }

    /// The response with this row count. Reuses the last one if the count is the same.
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

    /// Abandons all open requests, because responses can no longer be paired.
    fn give_up(&mut self, conversation: &mut Conversation<'_>) {
        conversation.abandon();
        self.pending.clear();
        self.cycle = None;
        self.flushed = false;
        self.ready_early = false;
    }

    /// Ends the response whose boundaries were lost.
    fn end_lost_response(&mut self, conversation: &mut Conversation<'_>) {
        conversation.end_lost_response();
        if conversation.is_empty() {
            self.pending.clear();
        }
    }

    fn response_message(
        &mut self,
        message: &Message<'_>,
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) {
        self.strikes.clear();
        if !answers(message.kind) {
            return;
        }
        if self.out_of_step.is_some() {
            if message.kind == b'Z' {
                self.out_of_step = Some(Ready::Yes);
            }
            return;
        }
        match self.pending.answer(message.kind, &message.content) {
            Verdict::Part => self.answered(message, conversation),
            Verdict::Last(over) => {
                self.answered(message, conversation);
                for index in 0..over {
                    if index > 0 {
                        conversation.begin_response(message.start);
                    }
                    conversation.end_response();
                }
            }
            Verdict::Failed { over, cut } => {
                self.answered(message, conversation);
                for index in 0..over {
                    if index > 0 {
                        conversation.begin_response(message.start);
                        conversation.response_reached(end);
                        pass_over(conversation.answering());
                    }
                    conversation.end_response();
                }
                if cut {
                    pass_over(conversation.answering());
                }
            }
            Verdict::Orphan if message.kind == b'Z' && self.cycle.is_some() => {
                self.ready_early = true;
            }
            // Before it disconnects, a server gives a reason, even without a request.
            Verdict::Orphan => {
                conversation.counters.orphan_responses += u64::from(message.kind == b'Z')
            }
            Verdict::OutOfStep => {
                conversation.lose_step();
                self.pending.clear();
                self.cycle = None;
                self.flushed = false;
                let ready = if message.kind == b'Z' { Ready::Yes } else { Ready::No };
                self.out_of_step = Some(ready);
                return;
            }
        }
        if self.flushed && !self.pending.awaits_sent() && !self.pending.skips() {
            // Every message of the request that needs a response has one.
            self.end_sending(conversation);
            conversation.end_response();
        }
    }

    /// Records the content of a response message.
    fn answered(&mut self, message: &Message<'_>, conversation: &mut Conversation<'_>) {
        match message.kind {
            b'E' => {
                if let Some(exchange) = conversation.answering()
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
                if let Some(exchange) = conversation.answering()
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

/// The completion tag expected for this statement.
fn done(statement: &OwnStatement) -> Done {
    Done::of(&statement.summary.operation)
}

/// Marks a request as failed that the server skips because an earlier message has failed.
fn pass_over(exchange: Option<&mut Exchange>) {
    if let Some(exchange) = exchange
        && exchange.answer.failure.is_none()
        && !exchange.request.silent
    {
        exchange.answer.failure = Some(Failure {
            kind: "not_executed".to_owned(),
            message: "not executed: what was sent before it has failed".to_owned(),
        });
    }
}

/// Whether such a server message is part of a response. Notices, parameters and notifications may
/// come at any time.
const fn answers(kind: u8) -> bool {
    !matches!(kind, b'N' | b'S' | b'A')
}

/// The row count in the completion tag of a command that returns rows: `SELECT 5`, `FETCH 5`.
fn returned_rows(tag: &[u8]) -> Option<i64> {
    let tag = std::str::from_utf8(tag).ok()?.trim_end_matches('\0');
    let (command, rows) = tag.split_once(' ')?;
    matches!(command, "SELECT" | "FETCH").then(|| rows.parse().ok())?
}

/// SQLSTATEs whose messages quote tables, columns, roles and similar names, but no values. A class
/// stands for all its codes.
const NAMING_ERRORS: [&str; 31] = [
    "08", "23502", "23503", "23505", "23514", "23P01", "25", "26", "28", "2B", "34", "3D", "3F",
    "40", "42501", "42602", "42701", "42702", "42703", "42704", "42710", "42712", "42723", "42803",
    "42804", "42883", "42P", "53", "55", "57", "58",
];
/// Error classes raised by functions, and the code for cancelled queries: the message may be
/// user-defined.
const OWN_ERRORS: [&str; 3] = ["P0", "HV", "57014"];

/// Removes values from a message.
fn without_values(code: &str, message: String) -> String {
    let is = |list: &[&str]| list.iter().any(|class| code.starts_with(class));
    if is(&OWN_ERRORS) || !KNOWN_CLASSES.iter().any(|class| code.starts_with(class)) {
        own_words(&message)
    } else if is(&NAMING_ERRORS) {
        message
    } else {
        redaction::owned(message, without_quoted)
    }
}

/// Classes of the server's own errors (PostgreSQL documentation, appendix A). Functions may raise
/// others.
const KNOWN_CLASSES: [&str; 38] = [
    "08", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "10", "20", "21", "22", "23", "24", "25", "26",
    "27", "28", "2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F", "40", "42", "44", "53", "54",
    "55", "57", "58", "72", "F0", "XX",
];

/// The failure in an ErrorResponse: SQLSTATE and message.
fn failure(mut fields: &[u8]) -> Failure {
    let (mut code, mut message) = (String::new(), String::new());
    while let Some((kind, rest)) = fields.split_first().filter(|(kind, _)| **kind != 0) {
        fields = rest;
        let value = text(&mut fields);
        match kind {
            b'C' => code = crate::bytes::text(value, 5),
            b'M' => message = crate::bytes::text(value, 512),
            _ => {}
        }
    }
    if code.is_empty() {
        code.push_str("error");
    }
    let message = without_values(&code, message);
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
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        while !input.is_empty() || self.is_due(side) {
            let outcome = match side {
                Side::Request => self.read_request(&mut input, conversation),
                Side::Response => self.read_response(&mut input, conversation),
            };
            if outcome != Outcome::Read {
                return outcome;
            }
        }
        self.describe_changes(conversation);
        Outcome::Read
    }

    fn turn(&mut self, to: Side, conversation: &mut Conversation<'_>) {
        match to {
            Side::Request => {
                if self.backend_lost {
                    self.end_lost_response(conversation);
                }
                if std::mem::take(&mut self.frontend_lost) {
                    // Requests were missed, so the next response cannot be paired.
                    self.give_up(conversation);
                    conversation.counters.resynchronised += 1;
                }
                if self.out_of_step == Some(Ready::Yes) {
                    self.out_of_step = None;
                    conversation.counters.resynchronised += 1;
                }
            }
            Side::Response => {
                if std::mem::take(&mut self.backend_lost) {
                    conversation.counters.resynchronised += 1;
                }
            }
        }
    }

    fn quiet(&mut self, conversation: &mut Conversation<'_>) {
        if self.backend_lost {
            self.end_lost_response(conversation);
        }
    }

    fn closed(&mut self, conversation: &mut Conversation<'_>) {
        self.quiet(conversation);
    }

    fn between_responses(&self) -> bool {
        !self.backend_lost && self.backend.is_between()
    }

    fn held_bytes(&self) -> usize {
        self.frontend.held_bytes()
            + self.backend.held_bytes()
            + self.statements.held_bytes()
            + self.pending.held_bytes()
    }
}
