//! The client's side: its response to the greeting, and commands.

use super::command::{self, Opening, Place as Shown};
use super::packet::{MAX_PACKET_BYTES, MAX_TEXT_BYTES};
use super::reply::Expected;
use super::values::capability;
use super::{MAX_PENDING, Mysql, Pending, Phase, statements};
use crate::formats::sql::Statement;
use crate::framing::Head;
use crate::parser::Outcome;
use crate::sessions::{Conversation, Request};

impl Mysql {
    pub(super) fn lose_requests(&mut self) {
        self.requests.lose();
        self.asking |= self.sending_file || self.request_continued;
        self.request_continued = false;
        self.next_sequence = None;
        self.sending_file = false;
        self.statements.forget_last();
    }

    pub(super) fn request_head(
        &mut self,
        head: &Head<'_>,
        conversation: &mut Conversation<'_>,
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
            Phase::Greeting if sequence > 0 => self.opening(head, conversation),
            Phase::Authentication if sequence > 0 => Outcome::Read,
            // The content of a file may be seen before the response that asks for it.
            Phase::Commands if sequence > 0 && conversation.uploading().is_some() => Outcome::Read,
            Phase::Commands if sequence > 0 => {
                self.lose_requests();
                self.strike(conversation)
            }
            Phase::Greeting | Phase::Authentication => {
                // The connection is older than the agent, or its setup was missed.
                conversation.abandon();
                self.phase = Phase::Commands;
                self.command(head, conversation)
            }
            Phase::Commands => self.command(head, conversation),
        }
    }

    fn opening(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) -> Outcome {
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
        self.authenticate(head, conversation);
        Outcome::Read
    }

    fn authenticate(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        self.phase = Phase::Authentication;
        let request = command::request(self.shown(), command::CHANGE_USER, None);
        conversation.open(head.start, head.end, Request { silent: true, ..request });
    }

    pub(super) fn shown(&self) -> Shown<'_> {
        Shown { system: self.system, database: self.database.as_deref() }
    }

    fn command(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) -> Outcome {
        let Some((kind, content)) = head.content.split_first() else {
            self.lose_requests();
            return self.strike(conversation);
        };
        let kind = *kind;
        if command::name(kind).is_none() {
            self.lose_requests();
            return self.strike(conversation);
        }
        self.strikes.clear();
        let number = content.first_chunk().map(|number| u32::from_le_bytes(*number));
        let mut statement = None;
        let mut database = None;
        match kind {
            // These commands get no response.
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
                self.authenticate(head, conversation);
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
                // The command was pipelined after a preparation, whose response comes first, and
                // the preparation was missed.
                if statement.is_none() && number == Some(statements::LAST) {
                    conversation.abandon();
                    conversation.counters.requests_lost += 1;
                    self.asking = false;
                    return Outcome::Read;
                }
            }
            command::INIT_DB => database = command::database(content),
            command::RESET_CONNECTION => self.statements.clear(),
            _ => {}
        }
        let request = command::request(self.shown(), kind, statement.as_deref());
        conversation.open(head.start, head.end, request);
        let expected = Expected::of(kind);
        if (expected != Expected::Results || database.is_some())
            && let Some(exchange) = conversation.uploading()
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
}
