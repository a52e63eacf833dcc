//! Connections: puts each direction's bytes in order, tells the protocol and
//! hands the bytes to its parser.

use spanwise_capture_protocols::bytes::{Input, Mark, Side};
use spanwise_capture_protocols::parser::{Outcome, Protocol};
use spanwise_capture_protocols::parsers::tls::{self, TlsFacts};
use spanwise_capture_protocols::recognition::{Speaker, infer};
use spanwise_capture_protocols::registry::Unrecognised;
use spanwise_capture_protocols::sessions::Exchanges;
use spanwise_capture_protocols::stream::Stream;
use spanwise_model::protocol;

use crate::common::Common;
use crate::event::{
    Closed, Data, Direction, Opened, Records, Role, StreamName, Task, Unread, connector,
};
use crate::opaque::{Before, End, Opaque};
use crate::unsent::{Piece, Unsent};

/// Events in which no protocol was recognised, before it is given up.
const MAX_TRIES: u8 = 8;
/// Times that a connection may turn out to speak another protocol.
const MAX_CHANGES: u8 = 3;
/// Bytes of a direction that are looked at to tell its protocol.
const MAX_INFERENCE_BYTES: usize = 1024;
/// Events, and bytes in them, held until the protocol is told or the request
/// comes to which they are the response.
const MAX_HELD: usize = 1024;
const MAX_HELD_BYTES: usize = 8 * 1024;
/// Silence after which messages without visible borders have ended.
const QUIET_NANO: u64 = 50_000_000;
/// What moved bytes of the connection that could only be counted.
const UNREAD: &str = "spanwise.connection.unread";
/// Silence after which no answer is expected any more, where it is not known to
/// how many requests.
const SETTLED_NANO: u64 = 200_000_000;
/// How long a response waits for its request to be reported.
const HOLD_NANO: u64 = 200_000_000;

/// An event kept for later.
struct Held {
    direction: Direction,
    piece: Piece,
}

enum State {
    /// Not yet recognised; what came so far is held.
    Inferring,
    /// Recognised.
    Speaking {
        parser: Box<dyn Protocol>,
        /// Which way requests go.
        requests: Direction,
    },
    /// Only seen from outside from here on.
    Opaque,
}

/// One socket's life.
pub(crate) struct Connection {
    /// Addresses and role, where the opening was reported.
    pub(crate) opened: Option<Opened>,
    /// When it was last heard of.
    pub(crate) last_nano: u64,
    exchanges: Exchanges,
    state: State,
    /// What is seen from outside of what no parser reads.
    outside: Option<Box<Opaque>>,
    /// What was spoken before, where that was left.
    before: Option<Before>,
    streams: [Stream; 2],
    held: Vec<Held>,
    held_bytes: usize,
    last_side: Option<Side>,
    tries: u8,
    changes: u8,
    id: u64,
    last_mark: Option<Mark>,
    /// The kernel side was asked to capture more of its calls.
    pub(crate) asked_for_more: bool,
    batches: bool,
    /// When each way was last heard of.
    way_nano: [u64; 2],
    /// Bytes were counted and not read, for this reason.
    unread: Option<Unread>,
    /// A TLS library's plaintext is read; what goes through the socket is not.
    decrypted: bool,
    /// Plaintext whose records have not gone out yet.
    unsent: Unsent,
    /// What [`Self::held_bytes`] was when it was counted last.
    pub(crate) counted_bytes: usize,
}

const fn index(direction: Direction) -> usize {
    match direction {
        Direction::Sent => 0,
        Direction::Received => 1,
    }
}

impl Connection {
    /// A connection of which nothing has been heard.
    pub(crate) fn new(id: u64, opened: Option<Opened>, now_nano: u64) -> Self {
        Self {
            opened,
            last_nano: now_nano,
            exchanges: Exchanges::new(id, opened.as_ref().and_then(connector)),
            state: State::Inferring,
            outside: None,
            before: None,
            streams: opened
                .and_then(|opened| opened.first_seqs)
                .map(|first| first.map(Stream::from))
                .unwrap_or_default(),
            held: Vec::new(),
            held_bytes: 0,
            last_side: None,
            tries: 0,
            changes: 0,
            id,
            last_mark: None,
            asked_for_more: false,
            batches: false,
            way_nano: [0; 2],
            unread: None,
            decrypted: false,
            unsent: Unsent::default(),
            counted_bytes: 0,
        }
    }

    /// Whether the traced process answers requests on it.
    pub(crate) const fn serving(&self) -> bool {
        self.exchanges.serving()
    }

    /// Bytes that it holds beyond its own size.
    pub(crate) fn held_bytes(&self) -> usize {
        let parser = match &self.state {
            State::Speaking { parser, .. } => parser.held_bytes(),
            _ => 0,
        };
        parser
            + self.outside.as_ref().map_or(0, |outside| outside.held_bytes())
            + self.exchanges.held_bytes()
            + self.held_bytes
            + self.unsent.held_bytes()
            + self.held.capacity() * size_of::<Held>()
    }

    /// Whether it is a Unix socket's.
    pub(crate) fn is_unix(&self) -> bool {
        self.opened.is_some_and(|opened| opened.unix.is_some())
    }

    /// Whether its requests are read.
    pub(crate) const fn speaks(&self) -> bool {
        matches!(self.state, State::Speaking { .. })
    }

    /// Whether it has turned out only now that more should be captured of its calls,
    /// whatever was lost.
    pub(crate) fn begins_batches(&mut self) -> bool {
        let batches = !self.batches
            && matches!(&self.state, State::Speaking { parser, .. } if parser.batches());
        self.batches |= batches;
        batches
    }

    fn role(&self) -> Role {
        self.opened.map_or(Role::Unknown, |opened| opened.role)
    }

    /// Bytes went through.
    pub(crate) fn data(&mut self, data: &Data<'_>, common: &mut Common) {
        if data.time_nano.saturating_sub(self.last_nano) >= SETTLED_NANO {
            self.exchanges.settle();
        }
        self.last_nano = self.last_nano.max(data.time_nano);
        let received = data.direction == Direction::Received;
        if received {
            common.attributor.bytes_read(data.into(), self.id);
        }
        match data.plaintext {
            Some(_) if !self.decrypted => self.decrypt(common),
            None if self.decrypted => return,
            _ => {}
        }
        let at = data.plaintext.map_or(data.seq, |plaintext| plaintext.offset);
        let placed = data.plaintext.is_none_or(|plaintext| plaintext.placed);
        let way = index(data.direction);
        let Some(place) = self.streams[way].place(at, data.length) else {
            common.counters.tracer.overlaps += 1;
            return;
        };
        common.counters.tracer.overlaps += u64::from(place.repeated > 0);
        common.counters.tracer.gap_bytes += place.gap;
        let (parent, in_span) = Mark::parent_of(data.parent_task, data.current_span);
        let mark = Mark {
            offset: place.offset,
            seq: placed.then(|| data.seq.wrapping_add(place.repeated)),
            time_nano: data.time_nano,
            process: data.process,
            thread: data.thread,
            task: data.task,
            parent,
            in_span,
            sleeps: data.sleeps,
            retransmits: data.retransmits,
            srtt_micros: data.srtt_micros,
            missed: false,
        };
        let last_way_nano = std::mem::replace(&mut self.way_nano[way], data.time_nano);
        self.last_mark = Some(mark);
        if let Some(unread) = data.unread {
            self.unread = Some(unread);
            let bytes = u64::from(data.length);
            match unread {
                Unread::File => common.counters.tracer.bytes_moved_by_sendfile += bytes,
                Unread::IoUring => common.counters.tracer.bytes_moved_by_io_uring += bytes,
                Unread::Other => common.counters.tracer.bytes_moved_by_other_calls += bytes,
            }
        }
        if !matches!(self.state, State::Speaking { .. }) {
            self.passed(data.direction, mark, u64::from(data.length - place.repeated), common);
        }
        if place.gap > 0 {
            // What waits for its record came before what was missed.
            self.send_all(common);
            let before = Mark {
                offset: place.offset - place.gap,
                seq: mark.seq.map(|seq| seq.wrapping_sub(place.gap as u32)),
                time_nano: last_way_nano,
                missed: true,
                ..mark
            };
            let gap = Input { bytes: &[], unseen: place.gap, missed: true, mark: before };
            self.take(data.direction, gap, common);
        }
        let bytes = &data.bytes[..data.bytes.len().min(data.length as usize)];
        let bytes = bytes.get(place.repeated as usize..).unwrap_or_default();
        let unseen = u64::from(data.length - place.repeated) - bytes.len() as u64;
        let input = Input { bytes, unseen, missed: false, mark };
        if data.direction == Direction::Sent && self.unsent.waits(input) {
            return;
        }
        // Nobody answers what has not been sent.
        self.send_all(common);
        self.take(data.direction, input, common);
        if received {
            self.tell_answers(data, common);
        }
    }

    /// Which calls' answers were read now.
    fn tell_answers(&self, data: &Data<'_>, common: &mut Common) {
        let finished =
            common.finished.exchanges.iter().filter(|one| one.was_read_at(data.time_nano));
        let finished = finished.map(|exchange| (exchange, true));
        let parts = self.exchanges.read_at(data.time_nano).map(|exchange| (exchange, false));
        for (exchange, complete) in finished.chain(parts) {
            let (id, maker) = (exchange.id, exchange.request_start.task);
            let made_for = exchange.made_for();
            common.attributor.answer_read(data.into(), id, maker, made_for, complete);
        }
    }

    /// TLS records went out: what waited for them has its places now.
    pub(crate) fn sent(&mut self, records: &Records, common: &mut Common) {
        for record in records.records {
            if let Some(sent) = self.unsent.record(record, records.time_nano) {
                self.take(Direction::Sent, sent.input(), common);
            }
        }
    }

    /// A task works on one of its streams.
    pub(crate) fn owned(&mut self, task: &Task, common: &mut Common) {
        common.conversation(&mut self.exchanges).owned(&task.into());
    }

    /// What one of its streams asks for is known from elsewhere.
    pub(crate) fn named(&mut self, name: &StreamName<'_>, common: &mut Common) {
        if let State::Speaking { parser, .. } = &mut self.state {
            let conversation = &mut common.conversation(&mut self.exchanges);
            parser.stream_named(name.stream, name.method, name.path, conversation);
        }
    }

    fn send_all(&mut self, common: &mut Common) {
        while let Some(sent) = self.unsent.next() {
            self.take(Direction::Sent, sent.input(), common);
        }
    }

    /// From here on, what a TLS library encrypts is read in the clear, and the
    /// socket's own bytes are not.
    fn decrypt(&mut self, common: &mut Common) {
        common.counters.tracer.connections_decrypted += 1;
        self.give_up(common);
        self.decrypted = true;
        // What is seen from outside has told what it can.
        let outside = self.outside.take();
        let facts = outside.as_ref().and_then(|outside| outside.facts());
        self.exchanges = Exchanges::new(self.id, self.opened.as_ref().and_then(connector));
        self.exchanges.decrypted(facts.map(TlsFacts::encryption).unwrap_or_default());
        self.before = None;
        self.streams = Default::default();
        self.state = State::Inferring;
        self.last_side = None;
        self.tries = 0;
        self.changes = 0;
    }

    fn take(&mut self, direction: Direction, input: Input<'_>, common: &mut Common) {
        match &self.state {
            State::Opaque => {
                if let Some(outside) = &mut self.outside {
                    outside.read(direction, input);
                }
            }
            State::Inferring => self.infer(direction, input, common),
            State::Speaking { requests, .. } => {
                let side = if direction == *requests { Side::Request } else { Side::Response };
                if self.holds_back(side, direction, input) {
                    return;
                }
                self.release(Some(input.mark.time_nano), common);
                self.feed(direction, input, common);
                if !self.is_early() {
                    self.release(None, common);
                }
            }
        }
    }

    /// A client's response may be reported before the sending of its request
    /// is, by another CPU. Such a response is held.
    fn holds_back(&mut self, side: Side, direction: Direction, input: Input<'_>) -> bool {
        let State::Speaking { parser, requests: Direction::Sent } = &self.state else {
            return false;
        };
        let early = side == Side::Response
            && (!self.held.is_empty() || parser.answers_early(&input, &self.exchanges));
        early && self.hold(direction, input)
    }

    /// Whether what is held answers a request that was still not reported.
    fn is_early(&self) -> bool {
        match (&self.state, self.held.first()) {
            (State::Speaking { parser, .. }, Some(held)) => {
                parser.answers_early(&held.piece.input(), &self.exchanges)
            }
            _ => false,
        }
    }

    /// Keeps an event; `false` where there is no room.
    fn hold(&mut self, direction: Direction, input: Input<'_>) -> bool {
        if self.held.len() >= MAX_HELD || self.held_bytes + input.bytes.len() > MAX_HELD_BYTES {
            return false;
        }
        self.held_bytes += input.bytes.len();
        self.held.push(Held { direction, piece: Piece::new(input) });
        true
    }

    /// Feeds what is held: all of it, or only what moved before a request that
    /// moved at `before_nano`.
    fn release(&mut self, before_nano: Option<u64>, common: &mut Common) {
        let due =
            |held: &Held| before_nano.is_none_or(|before| held.piece.mark.time_nano <= before);
        if self.held.first().is_none_or(|held| !due(held)) {
            return;
        }
        self.held_bytes = 0;
        for held in std::mem::take(&mut self.held) {
            self.feed(held.direction, held.piece.input(), common);
        }
    }

    fn feed(&mut self, direction: Direction, input: Input<'_>, common: &mut Common) {
        let State::Speaking { parser, requests } = &mut self.state else { return };
        let side = if direction == *requests { Side::Request } else { Side::Response };
        if self.last_side.replace(side).is_some_and(|last| last != side) {
            parser.turn(side, &mut common.conversation(&mut self.exchanges));
        }
        match parser.read(side, input, &mut common.conversation(&mut self.exchanges)) {
            Outcome::Read => {}
            Outcome::Switched => {
                common.counters.tracer.connections_switched += 1;
                let before = Before { asks: *requests, protocol: parser.name(), encrypted: false };
                let left = self.exchanges.take_left();
                let rest =
                    left.map(|left| input.after(left.offset.saturating_sub(input.mark.offset)));
                self.before = Some(before);
                self.give_up(common);
                self.go_on(direction, rest, common);
            }
            Outcome::Encrypted => {
                common.counters.tracer.connections_encrypted += 1;
                let before = Before { asks: *requests, protocol: parser.name(), encrypted: true };
                self.give_up(common);
                if let Some(outside) = &mut self.outside {
                    outside.encrypted(before.asks, true);
                    outside.read(direction, input);
                    return;
                }
                // The greeting may have come along with the word to begin.
                let rest = match self.exchanges.take_left() {
                    Some(left) => Some(input.after(left.offset.saturating_sub(input.mark.offset))),
                    None => tls::beginning(input.bytes).map(|at| input.after(at as u64)),
                };
                self.before = Some(before);
                self.go_on(direction, rest, common);
            }
            Outcome::Unreadable => {
                common.counters.tracer.connections_of_unknown_protocol += 1;
                self.give_up(common);
                self.go_on(direction, Some(input), common);
            }
            Outcome::Foreign => {
                common.conversation(&mut self.exchanges).abandon();
                self.changes += 1;
                self.passed(direction, input.mark, input.length(), common);
                if self.changes > MAX_CHANGES {
                    common.counters.tracer.connections_of_unknown_protocol += 1;
                    self.give_up(common);
                } else {
                    common.counters.tracer.protocol_changes += 1;
                    self.state = State::Inferring;
                    self.tries = 0;
                    self.infer(direction, input, common);
                }
            }
        }
    }

    /// From here on it is only seen from outside.
    fn give_up(&mut self, common: &mut Common) {
        common.conversation(&mut self.exchanges).abandon();
        self.state = State::Opaque;
        self.held = Vec::new();
        self.held_bytes = 0;
    }

    /// What no parser reads begins, in the middle of a call where there is a
    /// `rest` of it.
    fn go_on(&mut self, direction: Direction, rest: Option<Input<'_>>, common: &mut Common) {
        if let Some(rest) = rest
            && !rest.is_empty()
        {
            self.passed(direction, rest.mark, rest.length(), common);
            self.take(direction, rest, common);
        }
    }

    /// Bytes went through that no parser reads, or none does yet.
    fn passed(&mut self, direction: Direction, mark: Mark, length: u64, common: &mut Common) {
        self.report_due(mark.time_nano, mark.retransmits, common);
        if self.outside.is_none() {
            let fresh = matches!(self.state, State::Inferring) && self.changes == 0;
            let opened = self.opened.as_ref().filter(|_| fresh);
            let mut outside = Opaque::new(direction, mark, opened, common);
            if let Some(before) = self.before.take() {
                outside.comes_after(before);
            }
            self.outside = Some(Box::new(outside));
        }
        if let Some(outside) = &mut self.outside {
            outside.moved(direction, mark, length);
        }
    }

    /// Reports the parts that have ended by now.
    fn report_due(&mut self, now_nano: u64, retransmits: u32, common: &mut Common) {
        while let Some(outside) = &self.outside
            && outside.is_due(now_nano)
        {
            let time_nano = outside.due_nano();
            self.report(End { time_nano, retransmits, reset: false, last: false }, common);
        }
    }

    fn report(&mut self, end: End, common: &mut Common) {
        let unix = self.is_unix();
        let Some(outside) = &mut self.outside else { return };
        let exchange = outside.end(end, self.opened.as_ref(), common);
        // Most Unix sockets carry what nobody asks after.
        if let Some(mut exchange) = exchange.filter(|_| !unix) {
            exchange.encryption = self.exchanges.encryption();
            if let Some(unread) = self.unread {
                exchange.request.attributes.push((UNREAD, unread.mover().into()));
            }
            self.exchanges.recognised(exchange.protocol, exchange.serving);
            common.finished.exchanges.push(exchange);
        }
    }

    /// Reports what has passed so far, for the tracer ends, or looks away.
    pub(crate) fn report_open(&mut self, common: &mut Common) {
        let Some(last) = self.last_mark else { return };
        let Mark { retransmits, .. } = last;
        self.report_due(self.last_nano, retransmits, common);
        let end = End { time_nano: self.last_nano, retransmits, reset: false, last: false };
        self.report(end, common);
    }

    fn infer(&mut self, direction: Direction, input: Input<'_>, common: &mut Common) {
        if input.bytes.is_empty() && self.held.is_empty() {
            return;
        }
        let mut prefix = Vec::new();
        let mut whole = true;
        let before = self.held.iter().filter(|held| held.direction == direction);
        for piece in before.map(|held| held.piece.input()).chain([input]) {
            let room = MAX_INFERENCE_BYTES - prefix.len();
            prefix.extend_from_slice(&piece.bytes[..piece.bytes.len().min(room)]);
            if piece.unseen > 0 || prefix.len() >= MAX_INFERENCE_BYTES {
                whole = false;
                break;
            }
        }
        let sides: &[Side] = match (self.role(), direction) {
            (Role::Client, Direction::Sent) | (Role::Server, Direction::Received) => {
                &[Side::Request]
            }
            (Role::Client, Direction::Received) | (Role::Server, Direction::Sent) => {
                &[Side::Response]
            }
            (Role::Unknown, _) => &[Side::Request, Side::Response],
        };
        let is_first = self.tries == 0;
        match recognise(&prefix, sides, whole, is_first, input.mark.time_nano, common) {
            Ok(Some((speaker, side))) => {
                self.recognised(&speaker, side, direction, common);
                self.take(direction, input, common);
            }
            Ok(None) if self.hold(direction, input) => {}
            _ => {
                self.held.clear();
                self.held_bytes = 0;
                self.tries += 1;
                if self.tries >= MAX_TRIES {
                    common.counters.tracer.connections_of_unknown_protocol += 1;
                    self.give_up(common);
                }
            }
        }
    }

    fn recognised(
        &mut self,
        speaker: &Speaker,
        side: Side,
        direction: Direction,
        common: &mut Common,
    ) {
        let other = match direction {
            Direction::Sent => Direction::Received,
            Direction::Received => Direction::Sent,
        };
        let requests = if side == Side::Request { direction } else { other };
        let serving = requests == Direction::Received;
        let parser = speaker.parser(serving, &mut common.memory);
        self.exchanges.recognised(parser.name(), serving);
        if parser.name() != protocol::TLS {
            self.outside = None;
        }
        self.state = State::Speaking { parser, requests };
        self.last_side = None;
        self.held_bytes = 0;
        // Requests that were held are in order already.
        for held in std::mem::take(&mut self.held) {
            match self.state {
                State::Speaking { .. } => self.feed(held.direction, held.piece.input(), common),
                _ => self.take(held.direction, held.piece.input(), common),
            }
        }
    }

    /// The socket was closed.
    pub(crate) fn closed(&mut self, closed: &Closed, common: &mut Common) {
        self.send_all(common);
        self.release(None, common);
        self.received_unseen(closed, common);
        if let State::Speaking { parser, .. } = &mut self.state {
            parser.closed(&mut common.conversation(&mut self.exchanges));
        }
        if let Some(last) = self.last_mark {
            let end = Mark {
                time_nano: closed.time_nano.max(last.time_nano),
                retransmits: closed.retransmits,
                ..last
            };
            common.conversation(&mut self.exchanges).closed(end, closed.reset);
            if matches!(self.state, State::Inferring) && self.outside.is_some() {
                common.counters.tracer.connections_of_unknown_protocol += 1;
            }
            let Mark { time_nano, retransmits, .. } = end;
            self.report_due(time_nano, retransmits, common);
            self.report(End { time_nano, retransmits, reset: closed.reset, last: true }, common);
        }
    }

    /// Bytes that the process took after the last that were seen: no hook on
    /// socket calls sees what `splice` takes.
    fn received_unseen(&mut self, closed: &Closed, common: &mut Common) {
        let way = index(Direction::Received);
        let (Some(end), Some(last), false) =
            (closed.received_up_to, self.last_mark, self.decrypted)
        else {
            return;
        };
        let Some(begin) = self.streams[way].next_seq() else { return };
        let length = end.wrapping_sub(begin);
        // Beyond the largest window (RFC 7323, section 2.3) it is none of that.
        if length == 0 || length > 1 << 30 {
            return;
        }
        let Some(place) = self.streams[way].place(begin, length) else { return };
        common.counters.tracer.gap_bytes += u64::from(length);
        let time_nano = self.way_nano[way];
        let mark = Mark { offset: place.offset, seq: Some(begin), time_nano, missed: true, ..last };
        if !matches!(self.state, State::Speaking { .. }) {
            self.passed(Direction::Received, mark, u64::from(length), common);
        }
        let gap = Input { bytes: &[], unseen: u64::from(length), missed: true, mark };
        self.take(Direction::Received, gap, common);
    }

    /// Nobody will hear of it again, though it may still live.
    pub(crate) fn evict(&mut self, common: &mut Common) {
        self.report_open(common);
        common.conversation(&mut self.exchanges).abandon();
    }

    /// Ends what ends by silence, and requests without response after
    /// `time_out_nano`.
    pub(crate) fn tick(&mut self, now_nano: u64, time_out_nano: u64, common: &mut Common) {
        let silent_nano = now_nano.saturating_sub(self.last_nano);
        if silent_nano >= HOLD_NANO {
            self.send_all(common);
        }
        if silent_nano >= HOLD_NANO && matches!(self.state, State::Speaking { .. }) {
            self.release(None, common);
        }
        if silent_nano >= QUIET_NANO
            && let State::Speaking { parser, .. } = &mut self.state
        {
            parser.quiet(&mut common.conversation(&mut self.exchanges));
        }
        self.report_due(now_nano, self.last_mark.map_or(0, |last| last.retransmits), common);
        let before_nano = now_nano.saturating_sub(time_out_nano);
        if self.exchanges.oldest_nano().is_some_and(|oldest| oldest < before_nano) {
            common.conversation(&mut self.exchanges).time_out(before_nano, now_nano);
        }
    }

    /// Whether something on it may have ended by time alone.
    pub(crate) fn awaits_time(&self, now_nano: u64) -> bool {
        let due = match &self.state {
            State::Speaking { .. } => !(self.exchanges.is_empty() && self.held.is_empty()),
            _ => self.outside.as_ref().is_some_and(|outside| outside.is_due(now_nano)),
        };
        due || !self.unsent.is_empty()
    }

    /// The number that names it.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }
}

/// As [`infer`], unless the protocol is assumed.
fn recognise(
    bytes: &[u8],
    sides: &[Side],
    whole: bool,
    first: bool,
    now_nano: u64,
    common: &mut Common,
) -> Result<Option<(Speaker, Side)>, Unrecognised> {
    if let Some(known) = common.assumed {
        return Ok(Some((Speaker::Known(known), known.speaker(bytes, sides))));
    }
    let Common { memory, counters, .. } = common;
    infer(bytes, sides, whole, first, now_nano, memory, &mut counters.parsers)
}
