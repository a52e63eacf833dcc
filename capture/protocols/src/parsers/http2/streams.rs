//! The open streams of a connection (RFC 9113, section 5), and what happens to
//! the exchanges on them.

use std::collections::{BTreeMap, VecDeque};

use spanwise_model::protocol;

use super::grpc::{self, Messages};
use super::message::{Fields, Named, add_knowledge};
use super::opens_after;
use super::table::Knowledge;
use crate::bytes::{Mark, Side};
use crate::formats::http::{self, add};
use crate::keys::BodyPrefix;
use crate::sessions::{Conversation, Exchange, Failure};

/// Streams that are known at once; of those opened first, only their exchanges
/// stay where there are more. Servers allow some hundred.
const MAX_STREAMS: usize = 1024;
/// Streams at once whose names are known before their heads were seen.
const MAX_NAMED: usize = 256;
/// Silence after which a response has ended whose end may have passed unseen.
const QUIET_NANO: u64 = 50_000_000;

/// A deadline is told a moment before the request is sent.
const DEADLINE_SLACK_NANO: u64 = 1_000_000;

/// Names of the error codes (RFC 9113, section 7), each at its number.
const ERRORS: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

fn error_name(error: u32) -> String {
    let known = usize::try_from(error).ok().and_then(|error| ERRORS.get(error));
    known.map_or_else(|| format!("{error:#x}"), |known| (*known).to_owned())
}

/// What is known of a stream beyond its exchange.
#[derive(Debug, Default)]
struct Stream {
    /// Messages of a call, of the request and of the response.
    asked: Messages,
    /// The beginning of the request's body, if it may hold a key, and whether what follows of it
    /// was not captured.
    key_body: BodyPrefix,
    key_body_cut: bool,
    answered: Messages,
    /// When the client gives up.
    deadline_nano: Option<u64>,
    /// The final response has begun.
    begun: bool,
    /// It may have begun unseen.
    may_have_begun: bool,
    /// What the span says that is known of the fields.
    known: Knowledge,
    /// Since when the end may have passed unseen.
    unsure_since_nano: Option<u64>,
}

/// The streams that a client has opened and that have not ended.
#[derive(Debug)]
pub(super) struct Streams {
    open: BTreeMap<u32, Stream>,
    /// The last one that was opened.
    last: u32,
    /// Others may have been opened after it.
    missed: bool,
    /// The end of one may have passed unseen.
    unsure: bool,
    /// What streams ask for of which the head was not seen yet.
    named: VecDeque<(u32, Named)>,
}

impl Streams {
    /// No streams, of a connection of which the beginning was not seen.
    pub(super) const fn new() -> Self {
        Self { open: BTreeMap::new(), last: 0, missed: true, unsure: false, named: VecDeque::new() }
    }

    /// The connection begins here.
    pub(super) const fn begin(&mut self) {
        self.missed = false;
    }

    /// Bytes that it holds.
    pub(super) fn held_bytes(&self) -> usize {
        // Nodes of the tree are half full at least.
        let named: usize = self.named.iter().map(|(_, name)| name.held_bytes()).sum();
        let bodies: usize = self.open.values().map(|stream| stream.key_body.held_bytes()).sum();
        self.open.len() * 2 * size_of::<(u32, Stream)>() + named + bodies
    }

    /// Whether a request may open it.
    pub(super) const fn is_new(&self, stream: u32) -> bool {
        stream % 2 == 1 && stream > self.last
    }

    /// Whether responses in these frames are to requests that were not reported
    /// yet.
    pub(super) fn open_later(&self, frames: &[u8]) -> bool {
        !self.missed && opens_after(frames, self.last)
    }

    /// A request opened it.
    pub(super) fn opened(&mut self, stream: u32, deadline_nano: Option<u64>) {
        if self.open.len() >= MAX_STREAMS {
            self.open.pop_first();
        }
        self.open.insert(stream, Stream { deadline_nano, ..Stream::default() });
        self.last = stream;
        self.missed = false;
    }

    /// A request's head is complete.
    pub(super) fn open(
        &mut self,
        stream: u32,
        start: Mark,
        end: Mark,
        mut fields: Fields,
        (known, cut): (Knowledge, bool),
        conversation: &mut Conversation<'_>,
    ) {
        if let Some(name) = self.take_name(stream).filter(|_| known == Knowledge::Partial) {
            fields.learn(name);
        }
        let is_grpc = fields.is_grpc;
        let timeout_nano = fields.grpc_timeout_nano;
        let deadline_nano = timeout_nano.map(|timeout| start.time_nano.saturating_add(timeout));
        let keys = conversation.keys();
        let found = fields.keys(&keys);
        let mut request = fields.request(known);
        request.keys = found;
        request.stream = u64::from(stream);
        if cut {
            http::cut(&mut request.attributes);
        }
        conversation.open(start, end, request);
        if is_grpc && let Some(exchange) = conversation.uploading() {
            exchange.protocol = protocol::GRPC;
        }
        self.opened(stream, deadline_nano);
        if let Some(opened) = self.open.get_mut(&stream) {
            opened.known = known;
            if keys.reads_bodies() && !is_grpc {
                opened.key_body.begin();
            }
        }
    }

    /// What the stream asks for, if that was told before its head was seen.
    fn take_name(&mut self, stream: u32) -> Option<Named> {
        let at = self.named.iter().position(|(number, _)| *number == stream)?;
        self.named.remove(at).map(|(_, name)| name)
    }

    /// The program itself tells what a stream asks for. Its head may be seen only later.
    pub(super) fn named(&mut self, stream: u32, name: Named, conversation: &mut Conversation<'_>) {
        if self.is_new(stream) {
            if self.named.len() >= MAX_NAMED {
                self.named.pop_front();
            }
            self.named.push_back((stream, name));
            return;
        }
        if !conversation.answer(u64::from(stream)) {
            return;
        }
        if let Some(exchange) = conversation.answering()
            && exchange.request.unnamed
            && exchange.response_start.is_none()
        {
            if name.is_call() {
                exchange.protocol = protocol::GRPC;
            }
            name.give_to(&mut exchange.request);
        }
    }

    /// DATA of this length begins, of which `content` is here.
    pub(super) fn data(&mut self, side: Side, stream: u32, content: &[u8], length: u64) {
        let Some(stream) = self.open.get_mut(&stream) else { return };
        match side {
            Side::Request => {
                stream.asked.read(content, length);
                if !stream.key_body_cut {
                    stream.key_body.add(content);
                    stream.key_body_cut = (content.len() as u64) < length;
                }
            }
            Side::Response => stream.answered.read(content, length),
        }
    }

    /// Looks for keys in what there is of a request's body, once no more comes. `ends` where all of
    /// it has passed.
    pub(super) fn find_keys(
        &mut self,
        stream: u32,
        ends: bool,
        conversation: &mut Conversation<'_>,
    ) {
        let number = u64::from(stream);
        let Some(stream) = self.open.get_mut(&stream) else { return };
        if (ends || stream.key_body_cut || stream.key_body.is_full())
            && let Some(body) = stream.key_body.finish()
            && conversation.continue_request(number)
        {
            conversation.look_for_keys(&body);
        }
    }

    /// A frame of DATA or a header block has passed.
    pub(super) fn frame_passed(
        &mut self,
        side: Side,
        stream: u32,
        end: Mark,
        bytes: u64,
        conversation: &mut Conversation<'_>,
    ) {
        let number = u64::from(stream);
        match side {
            Side::Request if conversation.continue_request(number) => {
                conversation.request_frame(end, bytes);
            }
            Side::Response if conversation.answer(number) => {
                conversation.response_frame(end, bytes);
                if let Some(stream) = self.open.get_mut(&stream) {
                    stream.unsure_since_nano = None;
                }
            }
            _ => {
                // It was given up, or its response ended before its request.
                self.open.remove(&stream);
            }
        }
    }

    /// Whether it is known to carry a call.
    pub(super) fn is_call(stream: u32, conversation: &mut Conversation<'_>) -> bool {
        conversation.answer(u64::from(stream))
            && conversation.answering().is_some_and(|exchange| exchange.protocol == protocol::GRPC)
    }

    /// A header block of a response, its head or its trailers, from `start` on;
    /// `ends` where it is its last part. `true` where it is part of the final
    /// response to an open request.
    pub(super) fn answer(
        &mut self,
        stream: u32,
        (mut fields, mut known): (Fields, Knowledge),
        (start, ends): (Mark, bool),
        serving: bool,
        conversation: &mut Conversation<'_>,
    ) -> bool {
        // RFC 9110, section 15.2: interim responses come before the final one.
        if fields.status.is_some_and(|status| (100..200).contains(&status)) {
            return false;
        }
        let asked = conversation.answer(u64::from(stream));
        let Some(exchange) = conversation.answering().filter(|_| asked) else {
            let is_head = fields.status.is_some() || known == Knowledge::Partial;
            conversation.counters.orphan_responses += u64::from(is_head);
            return false;
        };
        let state = self.open.entry(stream).or_default();
        let status_known = fields.status.is_some();
        let says_grpc = fields.is_grpc || fields.grpc_status.is_some();
        // Where nothing says so, messages do, up to fields that end the response.
        let looks_grpc = state.known == Knowledge::Partial
            && ends
            && state.asked.are_complete()
            && state.asked.count() != Some(0)
            && state.answered.are_complete();
        if (says_grpc || looks_grpc) && exchange.protocol != protocol::GRPC {
            exchange.protocol = protocol::GRPC;
            grpc::turns_out(&mut exchange.request);
            let mut answer = std::mem::take(&mut exchange.answer);
            let status = answer.status_code.and_then(|status| u16::try_from(status).ok());
            exchange.answer.request_id = answer.request_id.take();
            fields.status = fields.status.or(status);
            say(state.known, exchange);
        }
        let is_grpc = exchange.protocol == protocol::GRPC;
        if is_grpc && ends && fields.infer_status() {
            known = Knowledge::Inferred;
        }
        fields.answer(exchange.request.tag, &mut exchange.answer, is_grpc, serving);
        // Trailers without the head are no beginning.
        let begins = status_known || !state.may_have_begun;
        state.begun |= begins;
        if known > state.known {
            state.known = known;
            say(known, exchange);
        }
        if begins {
            conversation.begin_response(start);
        }
        true
    }

    /// The response is complete.
    pub(super) fn finish(&mut self, stream: u32, end: Mark, conversation: &mut Conversation<'_>) {
        let known = self.open.remove(&stream).unwrap_or_default();
        if !conversation.answer(u64::from(stream)) {
            return;
        }
        count_messages(&known, conversation);
        if known.begun {
            conversation.end_response();
            return;
        }
        // Its beginning was not seen.
        if let Some(exchange) = conversation.answering() {
            say(Knowledge::Partial, exchange);
        }
        conversation.break_off(end);
    }

    /// One side has ended the stream before its time.
    pub(super) fn reset(
        &mut self,
        stream: u32,
        error: u32,
        at: Mark,
        conversation: &mut Conversation<'_>,
    ) {
        let serving = conversation.serving();
        let known = self.open.remove(&stream).unwrap_or_default();
        if !conversation.answer(u64::from(stream)) {
            return;
        }
        count_messages(&known, conversation);
        if let Some(exchange) = conversation.answering() {
            let name = error_name(error);
            let answer = &mut exchange.answer;
            let given_up_nano = at.time_nano.saturating_add(DEADLINE_SLACK_NANO);
            let late = known.deadline_nano.is_some_and(|deadline| deadline <= given_up_nano);
            if exchange.protocol != protocol::GRPC {
                let message = format!("stream reset: {name}");
                answer.failure = Some(Failure { kind: name, message });
            } else if answer.status_code.is_none() {
                // Both sides give up late calls as they cancel others.
                let code = match grpc::code_of_reset(error) {
                    grpc::CANCELLED if late => grpc::DEADLINE_EXCEEDED,
                    code => code,
                };
                let message = format!("stream reset: {name}");
                grpc::conclude(answer, code, Some(&message), serving);
            }
        }
        conversation.break_off(at);
    }

    /// The server takes no streams any more, and has done nothing for those after
    /// `last` (RFC 9113, section 6.8).
    pub(super) fn gone_away(
        &mut self,
        last: u32,
        error: u32,
        at: Mark,
        conversation: &mut Conversation<'_>,
    ) {
        let serving = conversation.serving();
        for stream in self.open.split_off(&last.saturating_add(1)).into_keys() {
            if !conversation.answer(u64::from(stream)) {
                continue;
            }
            if let Some(exchange) = conversation.answering() {
                let message = format!("connection going away: {}", error_name(error));
                if exchange.protocol == protocol::GRPC {
                    let code = grpc::UNAVAILABLE;
                    grpc::conclude(&mut exchange.answer, code, Some(&message), serving);
                } else {
                    let kind = "REFUSED_STREAM".to_owned();
                    exchange.answer.failure = Some(Failure { kind, message });
                }
            }
            conversation.break_off(at);
        }
    }

    /// Frames of a side have passed unseen.
    pub(super) fn frames_missed(
        &mut self,
        side: Side,
        at: Mark,
        conversation: &mut Conversation<'_>,
    ) {
        if side == Side::Request {
            self.missed = true;
            self.open.values_mut().for_each(|stream| stream.asked.miss());
            return;
        }
        conversation.doubt();
        for (number, stream) in &mut self.open {
            stream.answered.miss();
            stream.may_have_begun |= !stream.begun;
            if stream.begun && conversation.answer(u64::from(*number)) {
                stream.unsure_since_nano.get_or_insert(at.time_nano);
                self.unsure = true;
                conversation.weaken();
            }
        }
    }

    /// Bytes of frames whose borders are not known. While only one stream is
    /// open they are its.
    pub(super) fn passed_unseen(
        &mut self,
        side: Side,
        end: Mark,
        bytes: u64,
        conversation: &mut Conversation<'_>,
    ) {
        if self.open.len() != 1 || bytes == 0 {
            return;
        }
        let Some(mut only) = self.open.first_entry() else { return };
        let number = u64::from(*only.key());
        match side {
            Side::Request if conversation.continue_request(number) => {
                conversation.request_frame(end, bytes);
            }
            Side::Response if only.get().begun && conversation.answer(number) => {
                conversation.response_frame(end, bytes);
                only.get_mut().unsure_since_nano = Some(end.time_nano);
            }
            _ => {}
        }
    }

    /// Ends responses whose end may have passed unseen, and of which nothing
    /// was heard for a while.
    pub(super) fn time_passes(&mut self, now_nano: u64, conversation: &mut Conversation<'_>) {
        if !self.unsure {
            return;
        }
        let is_over = |stream: &Stream| {
            stream
                .unsure_since_nano
                .is_some_and(|since| since.saturating_add(QUIET_NANO) <= now_nano)
        };
        let over = self.open.iter().filter(|(_, stream)| is_over(stream));
        for number in over.map(|(number, _)| *number).collect::<Vec<_>>() {
            let known = self.open.remove(&number).unwrap_or_default();
            if conversation.answer(u64::from(number)) {
                count_messages(&known, conversation);
                if let Some(exchange) = conversation.answering() {
                    say(Knowledge::Partial, exchange);
                }
                conversation.end_response();
            }
        }
        self.unsure = self.open.values().any(|stream| stream.unsure_since_nano.is_some());
    }
}

/// Says how much is known of the fields of an exchange.
fn say(known: Knowledge, exchange: &mut Exchange) {
    add_knowledge(&mut exchange.request.attributes, Knowledge::Known);
    add_knowledge(&mut exchange.answer.attributes, known);
}

/// Says how many messages a call had.
fn count_messages(stream: &Stream, conversation: &mut Conversation<'_>) {
    if let Some(exchange) = conversation.answering().filter(|e| e.protocol == protocol::GRPC) {
        let attributes = &mut exchange.answer.attributes;
        for (key, messages) in [
            ("spanwise.request.messages", &stream.asked),
            ("spanwise.response.messages", &stream.answered),
        ] {
            if let Some(count) = messages.count() {
                add(attributes, key, count);
            }
        }
    }
}
