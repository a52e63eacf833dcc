//! The server's side: the greeting, and the responses to requests.

use super::packet::{self, ERROR, MAX_PACKET_BYTES, OK, Packets, ends_result};
use super::reply::{Expected, Meaning, Place};
use super::values::capability;
use super::{Mysql, Phase, command};
use crate::bytes::{Input, Mark, Side, text};
use crate::framing::{Frames, Head};
use crate::parser::Outcome;
use crate::sessions::{Conversation, Request};

impl Mysql {
    /// Skips bytes while the boundaries of responses are lost.
    pub(super) fn pass_lost_response(
        &mut self,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) {
        let over = input.unseen == 0 && ends_result(input.bytes);
        input.skip_all();
        conversation.response_reached(input.mark);
        if over {
            conversation.end_response();
            self.find_responses(conversation);
        }
    }

    /// The boundaries of responses are lost from here on.
    pub(super) fn unseen_response(
        &mut self,
        at: Mark,
        missed: bool,
        conversation: &mut Conversation<'_>,
    ) {
        if missed {
            conversation.abandon();
        } else if self.phase != Phase::Greeting {
            conversation.begin_response(at);
        }
        conversation.response_reached(at);
        self.lose_responses();
        conversation.weaken();
    }

    fn lose_responses(&mut self) {
        self.responses.lose();
        self.response_continued = false;
        self.meaning = Meaning::Part;
        self.next_sequence = None;
        self.reply.begin(Expected::Results);
    }

    /// The next byte begins a response.
    pub(super) fn find_responses(&mut self, conversation: &mut Conversation<'_>) {
        self.responses = Frames::new(Packets(Side::Response));
        conversation.counters.resynchronised += 1;
    }

    pub(super) fn response_head(
        &mut self,
        head: &Head<'_>,
        conversation: &mut Conversation<'_>,
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
                // The refused connection attempt has no request bytes of its own.
                let request = command::request(self.shown(), command::CHANGE_USER, None);
                let request = Request { silent: true, ..request };
                conversation.open(head.start, head.start, request);
                conversation.begin_response(head.start);
                self.meaning = Meaning::Error;
            }
            Phase::Greeting => {
                self.greeting(&head.content);
                return Outcome::Read;
            }
            Phase::Authentication => {
                conversation.begin_response(head.start);
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
                    if conversation.answering().is_none() {
                        // The response belongs to a request whose end was missed.
                        if !self.requests.is_between() && !self.requests.is_lost() {
                            conversation.counters.framing_lost += 1;
                            self.lose_requests();
                            self.asking = false;
                        }
                        return self.orphan(conversation);
                    }
                    self.begin_reply(head, conversation);
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
                if let Some(exchange) = conversation.answering() {
                    let (code, failure) = packet::failure(&head.content);
                    let attributes = &mut exchange.answer.attributes;
                    let value = failure.kind.as_str().into();
                    attributes.push(("db.response.status_code", value));
                    exchange.answer.status_code = Some(code);
                    exchange.answer.failure = Some(failure);
                }
            }
            Meaning::Malformed => {
                self.lose_responses();
                // If responses were understood before, this one belongs to another command.
                if self.answered {
                    conversation.lose_step();
                }
                return self.strike(conversation);
            }
        }
        Outcome::Read
    }

    /// Whether this packet ends the definitions after they were already taken as complete. If the
    /// connection setup was not seen, it is unknown whether such a packet exists.
    fn is_late_end(&self, head: &Head<'_>) -> bool {
        self.reply.ended_definitions.is_none()
            && head.header[3] > 1
            && head.length == 5
            && head.content.first() == Some(&packet::EOF)
    }

    /// A packet without a request: a request was missed, or the server says why it disconnects.
    fn orphan(&mut self, conversation: &mut Conversation<'_>) -> Outcome {
        conversation.counters.orphan_responses += 1;
        self.lose_responses();
        Outcome::Read
    }

    fn begin_reply(&mut self, head: &Head<'_>, conversation: &mut Conversation<'_>) {
        conversation.begin_response(head.start);
        let exchange = conversation.answering().map_or(0, |exchange| exchange.id);
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

    pub(super) fn response_packet_over(&mut self, conversation: &mut Conversation<'_>) -> Outcome {
        match std::mem::replace(&mut self.meaning, Meaning::Part) {
            Meaning::Part | Meaning::File | Meaning::Malformed => return Outcome::Read,
            Meaning::Error => {}
            Meaning::End { rows } => {
                if let (Some(rows), Some(exchange)) = (rows, conversation.answering()) {
                    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
                    let attribute = ("db.response.returned_rows", rows.into());
                    exchange.answer.attributes.push(attribute);
                }
            }
        }
        self.strikes.clear();
        self.answered = true;
        self.next_sequence = None;
        self.sending_file = false;
        conversation.end_response();
        if self.phase == Phase::Authentication {
            self.phase = Phase::Commands;
            if self.shares(capability::COMPRESS | capability::ZSTD) {
                return Outcome::Switched;
            }
        }
        Outcome::Read
    }

    /// "Protocol::HandshakeV10": version 10, the server version, the connection id, eight bytes and
    /// a zero, half of the capabilities, the character set, the status, the other half.
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
