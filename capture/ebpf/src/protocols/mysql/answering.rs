//! The server's side: the greeting, and what answers requests.

use super::command;
use super::packet::{self, ERROR, MAX_PACKET_BYTES, OK, Packets, capability, ends_result};
use super::reply::{Expected, Meaning, Place};
use super::{Mysql, Phase};
use crate::protocols::frames::{Frames, Head, Step};
use crate::protocols::{Input, Outcome, Side, text};
use crate::sessions::{Desk, Exchanges, Request};

impl Mysql {
    pub(super) fn read_response(
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
    pub(super) fn find_responses(&mut self, desk: &mut Desk<'_>) {
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
                    attributes.push(("db.response.status_code", value));
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
                    let attribute = ("db.response.returned_rows", rows.into());
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
