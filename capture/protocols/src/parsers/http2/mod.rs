//! HTTP/2 in clear text (RFC 9113), and gRPC over it. Streams tell which
//! response is whose, so what was not seen never crosses two of them.

mod frame;
mod grpc;
mod hpack;
mod huffman;
mod message;
mod names;
mod streams;
mod table;

use spanwise_model::protocol;

use self::frame::{Frame, HEADER_BYTES, Http2Framing, Kind, PREFACE, recognise};
use self::hpack::Decoder;
use self::message::{Fields, Named};
use self::streams::Streams;
use self::table::{Knowledge, Shape};
use crate::bytes::{Input, MAX_HEAD_BYTES, Mark, Side};
use crate::framing::driver::{Framed, Verdict, drive};
use crate::framing::strikes::Strikes;
use crate::framing::{Frames, Head, Step};
use crate::parser::{Known, Outcome, Protocol};
use crate::sessions::{Conversation, Exchanges};

/// These bytes are no header block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Malformed;

/// HTTP/2, to whoever tells protocols apart.
pub(crate) const KNOWN: Known =
    Known { name: "http2", recognise, parser: |serving| Box::new(Http2::new(serving)) };

/// A header block of which frames are still to come, and whose it is.
#[derive(Debug)]
struct Block {
    frame: Frame,
    bytes: Vec<u8>,
    start: Mark,
    /// Parts of it were not captured.
    cut: bool,
    /// All of its frames.
    frame_bytes: u64,
}

/// One side.
#[derive(Debug)]
struct Half {
    side: Side,
    frames: Frames<Http2Framing>,
    hpack: Decoder,
    block: Option<Block>,
    /// The frame that is passing.
    frame: Option<Frame>,
    /// Its first bytes, where it says little more: an error code, a stream.
    short: [u32; 2],
    /// The borders were lost, and are not yet certain again.
    unsure: bool,
    /// A frame has passed.
    begun: bool,
    /// Up to where bytes belong to frames that have passed, or to none that is
    /// known.
    border: Option<u64>,
}

impl Half {
    const fn new(side: Side) -> Self {
        Self {
            side,
            frames: Frames::new(Http2Framing { side }),
            hpack: Decoder::new(),
            block: None,
            frame: None,
            short: [0; 2],
            unsure: false,
            begun: false,
            border: None,
        }
    }

    fn held_bytes(&self) -> usize {
        self.frames.held_bytes()
            + self.hpack.table.held_bytes()
            + self.block.as_ref().map_or(0, |block| block.bytes.capacity())
    }

    /// Reads a header block. `call` where it answers a gRPC call.
    fn fields(
        &mut self,
        block: &Block,
        call: bool,
        wanted: &[String],
    ) -> Result<(Fields, Knowledge), Malformed> {
        // The status of a response's head comes first, and nearly always is in
        // the static table.
        let shape = match (self.side, block.frame.ends_stream()) {
            (Side::Request, _) => Some(Shape::Request),
            (Side::Response, _) if !call || block.bytes.first() != Some(&0x88) => None,
            (Side::Response, false) => Some(Shape::Answer),
            (Side::Response, true) => Some(Shape::LastAnswer),
        };
        if let Some(shape) = shape.filter(|_| !block.cut) {
            self.hpack.bridge(&block.bytes, shape);
        }
        let mut fields = Fields::default();
        let each = |name, value: &[u8]| fields.add(name, value);
        let known = self.hpack.decode(&block.bytes, block.cut, wanted, each)?;
        if let Some(shape) = shape.filter(|_| known != Knowledge::Partial)
            && (shape != Shape::Request || fields.asks())
        {
            self.hpack.table.is_usual(shape);
        }
        Ok((fields, known))
    }

    /// Adds a part to the header block that is being sent; `false` where it
    /// belongs to none.
    fn add_to_block(&mut self, frame: Frame, head: &Head<'_>) -> bool {
        let Some((fragment, _)) = frame.fragment(&head.content) else { return false };
        let is_next = self.block.as_ref().is_some_and(|block| block.frame.stream == frame.stream);
        if (frame.kind == Kind::Continuation) != is_next {
            return false;
        }
        let block = self.block.get_or_insert_with(|| Block {
            frame,
            bytes: Vec::new(),
            start: head.start,
            cut: false,
            frame_bytes: 0,
        });
        let room = MAX_HEAD_BYTES - block.bytes.len();
        if !block.cut {
            block.bytes.extend_from_slice(&fragment[..fragment.len().min(room)]);
        }
        block.cut |= !head.is_whole() || fragment.len() > room;
        block.frame_bytes += frame.bytes();
        true
    }
}

/// The parser of one connection.
pub(super) struct Http2 {
    serving: bool,
    request: Half,
    response: Half,
    streams: Streams,
    strikes: Strikes,
}

impl Http2 {
    fn new(serving: bool) -> Self {
        Self {
            serving,
            request: Half::new(Side::Request),
            response: Half::new(Side::Response),
            streams: Streams::new(),
            strikes: Strikes::NONE,
        }
    }

    /// A connection that HTTP/1.1 was left for: the request that asked for that
    /// is stream 1 (RFC 7540, section 3.2).
    pub(super) fn upgraded(serving: bool, conversation: &mut Conversation<'_>) -> Self {
        let mut parser = Self::new(serving);
        if let Some(exchange) = conversation.answering() {
            exchange.request.stream = 1;
            parser.streams.opened(1, None);
        }
        parser
    }

    const fn half(&mut self, side: Side) -> &mut Half {
        match side {
            Side::Request => &mut self.request,
            Side::Response => &mut self.response,
        }
    }

    /// Frames of a side may have passed unseen: header fields among them, new
    /// streams and the ends of old ones.
    fn lose(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) {
        let half = self.half(side);
        half.hpack.table.lose_sight();
        half.block = None;
        half.frame = None;
        half.unsure = true;
        self.streams.frames_missed(side, at, conversation);
    }

    /// The first part of a frame is here.
    fn frame_begins(
        &mut self,
        side: Side,
        head: &Head<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        if head.header.starts_with(PREFACE) {
            self.request.hpack.table.fresh();
            self.streams.begin();
            return Outcome::Read;
        }
        let half = self.half(side);
        let Some(frame) = Frame::read(&head.header) else { return Outcome::Read };
        half.frame = Some(frame);
        // RFC 9113, section 3.4: a server begins with its settings.
        if !std::mem::replace(&mut half.begun, true)
            && side == Side::Response
            && frame.kind == Kind::Settings
            && !frame.acknowledges()
        {
            half.hpack.table.fresh();
        }
        let interrupted = half.block.is_some() && frame.kind != Kind::Continuation;
        if interrupted || (frame.kind.is_block() && !half.add_to_block(frame, head)) {
            // What is added to the table by this block is not known.
            half.block = None;
            half.hpack.table.lose();
            return if half.unsure {
                Outcome::Read
            } else {
                self.strikes.strike(conversation.counters)
            };
        }
        match frame.kind {
            Kind::Data => match frame.fragment(&head.content) {
                Some((content, length)) => {
                    self.streams.data(side, frame.stream, content, length);
                }
                None => return self.strikes.strike(conversation.counters),
            },
            Kind::Reset | Kind::GoAway => {
                for (word, bytes) in half.short.iter_mut().zip(head.content.chunks(4)) {
                    *word = bytes.first_chunk::<4>().map_or(0, |b| u32::from_be_bytes(*b));
                }
            }
            _ => {}
        }
        Outcome::Read
    }

    /// A frame has passed.
    fn frame_ends(
        &mut self,
        side: Side,
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        let half = self.half(side);
        let Some(frame) = half.frame.take() else { return Outcome::Read };
        half.unsure = false;
        half.hpack.table.passed(frame.bytes(), true);
        let stream = frame.stream;
        match frame.kind {
            kind if kind.is_block() && frame.ends_headers() => {
                let Some(block) = half.block.take() else { return Outcome::Read };
                return self.block_ends(side, &block, end, conversation);
            }
            Kind::Data => {
                self.streams.frame_passed(side, stream, end, frame.bytes(), conversation);
                if side == Side::Request {
                    self.streams.find_keys(stream, frame.ends_stream(), conversation);
                }
                if side == Side::Response && frame.ends_stream() {
                    self.streams.finish(stream, end, conversation);
                }
            }
            Kind::Reset => {
                let error = half.short[0];
                self.streams.reset(stream, error, end, conversation);
            }
            Kind::GoAway if side == Side::Response => {
                let [last, error] = half.short;
                self.streams.gone_away(last & 0x7fff_ffff, error, end, conversation);
            }
            _ => {}
        }
        Outcome::Read
    }

    /// A header block is complete, or as complete as it gets.
    fn block_ends(
        &mut self,
        side: Side,
        block: &Block,
        end: Mark,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        let call = side == Side::Response && Streams::is_call(block.frame.stream, conversation);
        let keys = conversation.keys();
        let half = self.half(side);
        let Ok((fields, known)) = half.fields(block, call, keys.headers()) else {
            return self.strikes.strike(conversation.counters);
        };
        if block.cut {
            half.hpack.table.lose_sight();
            half.hpack.table.passed(block.frame_bytes - block.bytes.len() as u64, false);
        }
        conversation.counters.heads_cut += u64::from(block.cut);
        self.strikes.clear();
        // What is pushed was not asked for; only the table had to know of it.
        if block.frame.kind == Kind::PushPromise {
            return Outcome::Read;
        }
        let stream = block.frame.stream;
        if side == Side::Request {
            if self.streams.is_new(stream) && (fields.asks() || known == Knowledge::Partial) {
                let known = (known, block.cut);
                self.streams.open(stream, block.start, end, fields, known, conversation);
            }
            self.streams.frame_passed(side, stream, end, block.frame_bytes, conversation);
            return Outcome::Read;
        }
        let place = (block.start, block.frame.ends_stream());
        if self.streams.answer(stream, (fields, known), place, self.serving, conversation) {
            self.streams.frame_passed(side, stream, end, block.frame_bytes, conversation);
        }
        if block.frame.ends_stream() {
            self.streams.finish(stream, end, conversation);
        }
        Outcome::Read
    }
}

impl Framed for Http2 {
    type Head<'a> = Head<'a>;

    #[inline]
    fn next<'a>(
        &mut self,
        side: Side,
        input: &mut Input<'a>,
        _: &mut Conversation<'_>,
    ) -> Step<Head<'a>> {
        self.half(side).frames.read(input)
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
        self.frame_begins(side, &head, conversation).into()
    }

    fn end(&mut self, side: Side, end: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        self.half(side).border = Some(end.offset);
        self.frame_ends(side, end, conversation).into()
    }

    fn unseen(&mut self, side: Side, at: Mark, _: bool, conversation: &mut Conversation<'_>) {
        self.lose(side, at, conversation);
    }

    fn malformed(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) -> Verdict {
        let expected = !self.half(side).unsure;
        self.lose(side, at, conversation);
        if expected { Verdict::Malformed } else { Verdict::Fine }
    }

    fn pause(&mut self, side: Side, at: Mark, conversation: &mut Conversation<'_>) {
        let half = self.half(side);
        if half.frames.is_lost() {
            let border = half.border.replace(at.offset);
            let bytes = at.offset - border.unwrap_or(at.offset);
            half.hpack.table.passed(bytes, false);
            self.streams.passed_unseen(side, at, bytes, conversation);
        }
    }
}

impl Protocol for Http2 {
    fn name(&self) -> &'static str {
        protocol::HTTP
    }

    fn batches(&self) -> bool {
        true
    }

    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome {
        self.streams.time_passes(input.mark.time_nano, conversation);
        self.half(side).border.get_or_insert(input.mark.offset);
        drive(self, side, input, conversation)
    }

    fn stream_named(
        &mut self,
        stream: u64,
        method: &[u8],
        path: &[u8],
        conversation: &mut Conversation<'_>,
    ) {
        if let Ok(stream) = u32::try_from(stream) {
            self.streams.named(stream, Named::new(method, path), conversation);
        }
    }

    fn quiet(&mut self, conversation: &mut Conversation<'_>) {
        self.streams.time_passes(u64::MAX, conversation);
    }

    fn closed(&mut self, conversation: &mut Conversation<'_>) {
        self.quiet(conversation);
    }

    fn between_responses(&self) -> bool {
        self.response.frames.is_between()
    }

    fn answers_early(&self, input: &Input<'_>, _exchanges: &Exchanges) -> bool {
        self.between_responses() && self.streams.open_later(input.bytes)
    }

    fn held_bytes(&self) -> usize {
        self.request.held_bytes() + self.response.held_bytes() + self.streams.held_bytes()
    }
}

/// Whether a header block in these frames is of a client's stream after `last`.
fn opens_after(mut bytes: &[u8], last: u32) -> bool {
    while let Some(frame) = Frame::read(bytes) {
        if frame.kind == Kind::Headers && frame.stream % 2 == 1 && frame.stream > last {
            return true;
        }
        let next = usize::try_from(frame.bytes()).unwrap_or(usize::MAX);
        bytes = bytes.get(next.max(HEADER_BYTES)..).unwrap_or_default();
    }
    false
}
