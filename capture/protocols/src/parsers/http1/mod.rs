//! HTTP/1.0 and 1.1 (RFC 9112): heads are read, bodies are passed over. What a
//! connection is upgraded to is read by the parser for that.

mod chunks;
pub(super) mod head;
pub(super) mod heads;
mod recognise;

use spanwise_model::protocol;

use self::head::{Body, Upgrade};
use self::heads::{Heads, Place};
use self::recognise::recognise;
use crate::bytes::{Input, MAX_HEAD_BYTES, Mark, Side};
use crate::formats::http::{self, queue};
use crate::framing::strikes::Strikes;
use crate::keys::BodyPrefix;
use crate::parser::{Known, Likeness, Outcome, Protocol};
use crate::parsers::http2::Http2;
use crate::parsers::websocket::WebSocket;
use crate::sessions::{Conversation, Exchanges, Tag};

/// HTTP/1, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "http1", recognise, parser: |serving| Box::new(Http1::new(serving)) };

/// Bytes of a head by which it is recognised.
const RECOGNISED_BYTES: usize = 32;
/// Longest line that a chunk's size may have.
const MAX_SIZE_LINE_BYTES: usize = 256;

/// Where one side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a head, or before one.
    Head,
    /// In a body of which this many bytes are left.
    Body { remaining: u64 },
    /// In the line that gives a chunk's size.
    ChunkSize,
    /// In a chunk of which this many bytes are left, its line end counted.
    ChunkData { remaining: u64 },
    /// In the lines after the last chunk.
    Trailer,
    /// In a body that ends with the connection.
    UntilClose,
    /// In bytes whose borders are not known.
    Lost,
}

#[derive(Debug)]
struct Half {
    state: State,
    /// What there is of a head or a line.
    buffer: Vec<u8>,
    /// Of the message's first byte.
    start: Option<Mark>,
    /// Whether the next message must begin with the next byte; otherwise it may
    /// begin with a later event.
    in_step: bool,
    /// Where its last head is remembered, and of a request what that says beside its path.
    place: Place,
    beside_place: Place,
}

impl Half {
    const fn new() -> Self {
        Self {
            state: State::Head,
            buffer: Vec::new(),
            start: None,
            in_step: false,
            place: Place::first(),
            beside_place: Place::first(),
        }
    }

    fn next_message(&mut self) {
        self.state = State::Head;
        self.reset();
        self.in_step = true;
    }

    fn lost(&mut self) {
        self.state = State::Lost;
        self.reset();
    }

    fn reset(&mut self) {
        self.buffer.clear();
        // A long head is rare: its memory is not kept for the next.
        if self.buffer.capacity() > 2048 {
            self.buffer = Vec::new();
        }
        self.start = None;
        self.in_step = false;
    }
}

/// The parser of one connection.
pub(super) struct Http1 {
    serving: bool,
    request: Half,
    response: Half,
    strikes: Strikes,
    /// The beginning of the response's body is kept: it may name messages of a queue.
    names_messages: bool,
    /// The beginning of the request's body, if it may hold a key.
    key_body: BodyPrefix,
    /// The response makes the connection something else when it is complete.
    switching: bool,
    /// What the connection was upgraded to.
    next: Option<Box<dyn Protocol>>,
}

impl Http1 {
    pub(super) const fn new(serving: bool) -> Self {
        Self {
            serving,
            request: Half::new(),
            response: Half::new(),
            strikes: Strikes::NONE,
            names_messages: false,
            key_body: BodyPrefix::NONE,
            switching: false,
            next: None,
        }
    }

    const fn half(&mut self, side: Side) -> &mut Half {
        match side {
            Side::Request => &mut self.request,
            Side::Response => &mut self.response,
        }
    }

    fn reached(side: Side, mark: Mark, conversation: &mut Conversation<'_>) {
        match side {
            Side::Request => conversation.request_reached(mark),
            Side::Response => conversation.response_reached(mark),
        }
    }

    /// Keeps the beginning of a request's body, of which so much is left, for keys.
    fn look_for_keys(
        &mut self,
        side: Side,
        input: &Input<'_>,
        remaining: u64,
        conversation: &mut Conversation<'_>,
    ) {
        if side != Side::Request || !self.key_body.is_wanted() {
            return;
        }
        let length = usize::try_from(remaining).unwrap_or(usize::MAX).min(input.bytes.len());
        self.key_body.add(&input.bytes[..length]);
        let is_cut = length as u64 != remaining && input.unseen > 0;
        if is_cut || self.key_body.is_full() {
            self.find_keys(conversation);
        }
    }

    /// Looks for keys in what there is of a request's body.
    fn find_keys(&mut self, conversation: &mut Conversation<'_>) {
        if let Some(body) = self.key_body.finish() {
            conversation.look_for_keys(&body);
        }
    }

    /// The message is complete.
    fn message_over(&mut self, side: Side, conversation: &mut Conversation<'_>) {
        if side == Side::Request {
            self.find_keys(conversation);
        }
        self.half(side).next_message();
        if side == Side::Response {
            conversation.end_response();
        }
    }

    fn lose(&mut self, side: Side, conversation: &mut Conversation<'_>) {
        self.half(side).lost();
        conversation.counters.framing_lost += 1;
        conversation.order_lost();
        if side == Side::Response {
            conversation.weaken();
        }
    }

    /// Bytes where a message should begin, and does not.
    fn malformed(&mut self, side: Side, conversation: &mut Conversation<'_>) -> Outcome {
        let was_in_step = self.half(side).in_step;
        self.half(side).reset();
        self.half(side).state = State::Head;
        match was_in_step || side == Side::Request {
            true => self.strikes.strike(conversation.counters),
            false => self.strikes.outcome(),
        }
    }

    /// Reads head bytes; `Err` with the outcome where the rest of the event is
    /// of no use.
    fn read_head(
        &mut self,
        side: Side,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Result<(), Outcome> {
        if self.half(side).buffer.is_empty() {
            // RFC 9112, section 2.2: empty lines before a message are ignored.
            let empty = input.bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            input.take(empty);
            if input.bytes.is_empty() {
                return Ok(());
            }
            let start = input.mark;
            let most = &input.bytes[..input.bytes.len().min(MAX_HEAD_BYTES)];
            let known_end =
                conversation.memory.of::<Heads>().end_of(side, most, self.half(side).place);
            // Nearly always it lies there as a whole.
            if let Some(end) = known_end.or_else(|| head::end_of(most, 0))
                && recognise(side, &most[..end.min(RECOGNISED_BYTES)], true) != Likeness::No
            {
                let head = input.take(end);
                return match self.head_over(side, head, [start, input.mark], true, conversation) {
                    Outcome::Read => Ok(()),
                    outcome => Err(outcome),
                };
            }
            self.half(side).start = Some(start);
        }
        let half = self.half(side);
        let start = half.start.unwrap_or(input.mark);
        let before = half.buffer.len();
        let taken = input.bytes.len().min(MAX_HEAD_BYTES - before);
        half.buffer.extend_from_slice(&input.bytes[..taken]);
        let begins = &half.buffer[..half.buffer.len().min(RECOGNISED_BYTES)];
        if recognise(side, begins, true) == Likeness::No {
            input.skip_all();
            return match self.malformed(side, conversation) {
                Outcome::Read => Ok(()),
                outcome => Err(outcome),
            };
        }
        let Some(end) = head::end_of(&half.buffer, before.saturating_sub(3)) else {
            input.take(taken);
            let full = half.buffer.len() >= MAX_HEAD_BYTES;
            if full || (input.bytes.is_empty() && input.unseen > 0) {
                let marks = [start, input.mark];
                let outcome = self.buffer_over(side, marks, false, conversation);
                if outcome != Outcome::Read {
                    return Err(outcome);
                }
            }
            return Ok(());
        };
        half.buffer.truncate(end);
        input.take(end - before);
        match self.buffer_over(side, [start, input.mark], true, conversation) {
            Outcome::Read => Ok(()),
            outcome => Err(outcome),
        }
    }

    /// A head between these marks, or what could be captured of one.
    fn head_over(
        &mut self,
        side: Side,
        head: &[u8],
        [start, end]: [Mark; 2],
        complete: bool,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        match side {
            Side::Request => self.request_head(head, start, end, complete, conversation),
            Side::Response => self.response_head(head, start, end, complete, conversation),
        }
    }

    /// As [`Self::head_over`], of what the buffer holds.
    fn buffer_over(
        &mut self,
        side: Side,
        marks: [Mark; 2],
        complete: bool,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        let buffer = std::mem::take(&mut self.half(side).buffer);
        let outcome = self.head_over(side, &buffer, marks, complete, conversation);
        let half = self.half(side);
        half.buffer = buffer;
        half.buffer.clear();
        if half.buffer.capacity() > 2048 {
            half.buffer = Vec::new();
        }
        outcome
    }

    fn request_head(
        &mut self,
        head: &[u8],
        start: Mark,
        end: Mark,
        complete: bool,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        let found = if complete {
            let Half { place, beside_place, .. } = &mut self.request;
            conversation.memory.of::<Heads>().request(head, [place, beside_place])
        } else {
            head::request(head, complete)
        };
        let Some(mut found) = found else {
            return self.malformed(Side::Request, conversation);
        };
        self.strikes.clear();
        let keys = conversation.keys();
        if !keys.is_empty() {
            let found_keys = head::KeyHead::of(head, complete).map(|head| keys.of(&head));
            if let Some(found_keys) = found_keys.filter(|keys| !keys.is_empty()) {
                found.request.keys = found_keys;
            }
            self.key_body = BodyPrefix::NONE;
            if complete && keys.reads_bodies() {
                self.key_body.begin();
            }
        }
        conversation.open(start, end, found.request);
        if !complete {
            conversation.change_request(|request| http::cut(&mut request.attributes));
            conversation.counters.heads_cut += 1;
            self.lose(Side::Request, conversation);
            return Outcome::Read;
        }
        match found.body {
            Body::Length(0) | Body::Unsaid => self.request.next_message(),
            Body::Length(remaining) => self.request.state = State::Body { remaining },
            Body::Chunked => self.request.state = State::ChunkSize,
        }
        Outcome::Read
    }

    fn response_head(
        &mut self,
        head: &[u8],
        start: Mark,
        end: Mark,
        complete: bool,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        let tag = conversation.answering().map_or(Tag::Plain, |exchange| exchange.request.tag);
        let found = if complete {
            conversation.memory.of::<Heads>().response(
                head,
                tag,
                self.serving,
                &mut self.response.place,
            )
        } else {
            head::response(head, tag, self.serving)
        };
        let Some(found) = found else {
            return self.malformed(Side::Response, conversation);
        };
        self.strikes.clear();
        // RFC 9110, section 15.2: interim responses come before the final one.
        if (100..200).contains(&found.status) && found.status != 101 && complete {
            self.response.next_message();
            return Outcome::Read;
        }
        // The final response comes by the other protocol.
        if found.upgrade == Some(Upgrade::Http2) && complete {
            self.next = Some(Box::new(Http2::upgraded(self.serving, conversation)));
            return Outcome::Read;
        }
        match conversation.answering() {
            Some(exchange) => exchange.answer = found.answer,
            None => conversation.counters.orphan_responses += 1,
        }
        conversation.begin_response(start);
        conversation.response_reached(end);
        if found.upgrade == Some(Upgrade::WebSocket) && complete {
            self.next = WebSocket::after(end, conversation).map(|next| Box::new(next) as _);
            return if self.next.is_some() { Outcome::Read } else { Outcome::Switched };
        }
        self.switching =
            found.status == 101 || (tag == Tag::Connect && (200..300).contains(&found.status));
        if !complete {
            conversation.counters.heads_cut += 1;
            self.lose(Side::Response, conversation);
            return Outcome::Read;
        }
        let no_body = !http::has_body(tag, found.status) || self.switching;
        // Queues are asked by POST.
        self.names_messages = found.status == 200
            && conversation
                .answering()
                .is_some_and(|exchange| exchange.request.operation.starts_with("POST "));
        match found.body {
            _ if no_body => self.message_over(Side::Response, conversation),
            Body::Length(0) => self.message_over(Side::Response, conversation),
            Body::Length(remaining) => self.response.state = State::Body { remaining },
            Body::Chunked => self.response.state = State::ChunkSize,
            Body::Unsaid => {
                self.response.state = State::UntilClose;
                conversation.weaken();
            }
        }
        if self.switching {
            conversation.leave(end);
            return Outcome::Switched;
        }
        Outcome::Read
    }

    /// Keeps the beginning of a response's body of which so much is left, and tells its messages
    /// once it is there.
    fn look_for_messages(
        &mut self,
        input: &Input<'_>,
        remaining: u64,
        conversation: &mut Conversation<'_>,
    ) {
        let kept = &mut self.response.buffer;
        let body = usize::try_from(remaining).unwrap_or(usize::MAX).min(input.bytes.len());
        let body = &input.bytes[..body];
        if kept.is_empty() && !body.first().is_some_and(|first| queue::may_begin(*first)) {
            self.names_messages = false;
            return;
        }
        let room = queue::SEARCHED_BYTES - kept.len();
        kept.extend_from_slice(&body[..body.len().min(room)]);
        let is_all = body.len() as u64 == remaining || input.unseen > 0;
        if is_all || kept.len() == queue::SEARCHED_BYTES {
            self.names_messages = false;
            let messages = queue::messages(kept);
            kept.clear();
            if let (false, Some(exchange)) = (messages.is_empty(), conversation.answering()) {
                exchange.answer.messages = messages;
            }
        }
    }

    /// Reads a line into the buffer; `true` when it is complete.
    fn read_line(&mut self, side: Side, input: &mut Input<'_>) -> LineRead {
        let half = self.half(side);
        let (taken, complete) = match memchr::memchr(b'\n', input.bytes) {
            Some(end) => (end + 1, true),
            None => (input.bytes.len(), false),
        };
        let bytes = input.take(taken);
        if half.buffer.len() + bytes.len() > MAX_SIZE_LINE_BYTES {
            return LineRead::TooLong;
        }
        half.buffer.extend_from_slice(bytes);
        if complete { LineRead::Complete } else { LineRead::Partial }
    }

    fn read_chunk_size(
        &mut self,
        side: Side,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) {
        match self.read_line(side, input) {
            LineRead::Partial => {}
            LineRead::TooLong => self.lose(side, conversation),
            LineRead::Complete => {
                let half = self.half(side);
                let size = chunks::size(&half.buffer);
                half.buffer.clear();
                match size {
                    Some(0) => half.state = State::Trailer,
                    // The chunk is followed by a line end.
                    Some(size) => half.state = State::ChunkData { remaining: size + 2 },
                    None => self.lose(side, conversation),
                }
            }
        }
    }

    fn read_trailer(
        &mut self,
        side: Side,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) {
        match self.read_line(side, input) {
            LineRead::Partial => {}
            LineRead::TooLong => self.lose(side, conversation),
            LineRead::Complete => {
                let half = self.half(side);
                let empty = matches!(half.buffer.as_slice(), b"\r\n" | b"\n");
                half.buffer.clear();
                if empty {
                    Self::reached(side, input.mark, conversation);
                    self.message_over(side, conversation);
                }
            }
        }
    }

    /// Bytes that were only counted, or missed.
    fn read_unseen(
        &mut self,
        side: Side,
        input: &mut Input<'_>,
        conversation: &mut Conversation<'_>,
    ) {
        let half = self.half(side);
        match half.state {
            // Passed over by count, whatever they are.
            State::Body { .. } | State::ChunkData { .. } | State::UntilClose => {}
            _ if input.missed => {
                // Whole messages may be in there: their number is not known.
                conversation.abandon();
                self.lose(side, conversation);
            }
            State::Lost => {}
            State::Head if half.buffer.is_empty() => {
                if side == Side::Response {
                    conversation.begin_response(input.mark);
                }
                self.lose(side, conversation);
            }
            State::Head => {
                let start = half.start.unwrap_or(input.mark);
                self.buffer_over(side, [start, input.mark], false, conversation);
            }
            State::ChunkSize | State::Trailer => self.lose(side, conversation),
        }
    }

    /// A request where the rest of a body should be: its sender thought better
    /// of it (RFC 9110, section 10.1.1, where a final status came instead of
    /// 100), or borders were lost.
    fn begins_anew(&self, side: Side, bytes: &[u8], conversation: &mut Conversation<'_>) -> bool {
        let half = match side {
            Side::Request => &self.request,
            Side::Response => &self.response,
        };
        let begins = || recognise(side, bytes, false) == Likeness::Yes;
        match half.state {
            State::Lost => begins(),
            State::Body { .. } | State::ChunkSize | State::ChunkData { .. } => {
                side == Side::Request && conversation.uploading().is_none() && begins()
            }
            _ => false,
        }
    }
}

enum LineRead {
    Complete,
    Partial,
    TooLong,
}

impl Protocol for Http1 {
    fn name(&self) -> &'static str {
        protocol::HTTP
    }

    fn read(
        &mut self,
        side: Side,
        mut input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        if let Some(next) = &mut self.next {
            return next.read(side, input, conversation);
        }
        if self.begins_anew(side, input.bytes, conversation) {
            conversation.counters.resynchronised += 1;
            if side == Side::Response && self.response.state == State::Lost {
                conversation.end_response();
            }
            self.half(side).reset();
            self.half(side).state = State::Head;
        }
        let ends_chunks = input.unseen == 0 && chunks::ends_with_last(input.bytes);
        while !input.is_empty() {
            if input.bytes.is_empty() {
                self.read_unseen(side, &mut input, conversation);
            }
            match self.half(side).state {
                State::Head => {
                    if let Err(outcome) = self.read_head(side, &mut input, conversation) {
                        return outcome;
                    }
                    if let Some(next) = &mut self.next {
                        return next.read(side, input, conversation);
                    }
                }
                State::Body { remaining } => {
                    if side == Side::Response && self.names_messages {
                        self.look_for_messages(&input, remaining, conversation);
                    }
                    self.look_for_keys(side, &input, remaining, conversation);
                    let left = remaining - input.skip(remaining);
                    Self::reached(side, input.mark, conversation);
                    if left == 0 {
                        self.message_over(side, conversation);
                    } else {
                        self.half(side).state = State::Body { remaining: left };
                    }
                }
                State::ChunkSize => self.read_chunk_size(side, &mut input, conversation),
                State::ChunkData { remaining } => {
                    // The chunk's line end is no part of the body.
                    let content = remaining.saturating_sub(2);
                    self.look_for_keys(side, &input, content, conversation);
                    let left = remaining - input.skip(remaining);
                    Self::reached(side, input.mark, conversation);
                    self.half(side).state = match left {
                        0 => State::ChunkSize,
                        remaining => State::ChunkData { remaining },
                    };
                }
                State::Trailer => self.read_trailer(side, &mut input, conversation),
                State::UntilClose => {
                    input.skip_all();
                    Self::reached(side, input.mark, conversation);
                }
                State::Lost => {
                    input.skip_all();
                    Self::reached(side, input.mark, conversation);
                    if ends_chunks {
                        self.message_over(side, conversation);
                        self.half(side).in_step = false;
                    }
                }
            }
        }
        Outcome::Read
    }

    fn turn(&mut self, to: Side, conversation: &mut Conversation<'_>) {
        if let Some(next) = &mut self.next {
            return next.turn(to, conversation);
        }
        if to == Side::Request && self.response.state == State::Lost {
            conversation.end_lost_response();
        }
        if self.half(to).state == State::Lost {
            self.half(to).reset();
            self.half(to).state = State::Head;
        }
    }

    fn quiet(&mut self, conversation: &mut Conversation<'_>) {
        if let Some(next) = &mut self.next {
            return next.quiet(conversation);
        }
        if self.response.state == State::Lost {
            conversation.end_lost_response();
        }
    }

    fn closed(&mut self, conversation: &mut Conversation<'_>) {
        if let Some(next) = &mut self.next {
            return next.closed(conversation);
        }
        match self.response.state {
            State::UntilClose => conversation.end_response(),
            // Answers to the requests after it may have passed unseen.
            State::Lost => conversation.end_lost_response(),
            State::Head if !self.response.buffer.is_empty() => {
                // It may be the beginning of an older response whose rest was missed.
                if let Some(start) = self.response.start
                    && conversation
                        .answering()
                        .is_some_and(|exchange| exchange.request_start.time_nano <= start.time_nano)
                {
                    conversation.begin_response(start);
                }
            }
            _ => {}
        }
    }

    fn between_responses(&self) -> bool {
        match &self.next {
            Some(next) => next.between_responses(),
            None => self.response.state == State::Head && self.response.buffer.is_empty(),
        }
    }

    fn speaks_unasked(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.speaks_unasked())
    }

    fn answers_early(&self, input: &Input<'_>, exchanges: &Exchanges) -> bool {
        match &self.next {
            Some(next) => next.answers_early(input, exchanges),
            None => exchanges.is_empty() && !exchanges.is_unsure() && self.between_responses(),
        }
    }

    fn held_bytes(&self) -> usize {
        let next = self.next.as_ref().map_or(0, |next| next.held_bytes());
        let buffers = self.request.buffer.capacity() + self.response.buffer.capacity();
        buffers + self.key_body.held_bytes() + next
    }
}
