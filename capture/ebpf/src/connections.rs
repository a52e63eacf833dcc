//! Connections: puts each direction's bytes in order, tells the protocol and
//! hands the bytes to its parser.

use spanwise_model::protocol;

use crate::context::Caller;
use crate::event::{Closed, Data, Direction, Opened, Records, Role, Task, Unread};
use crate::opaque::{Before, End, Opaque};
use crate::protocols::tls::{self, TlsFacts};
use crate::protocols::{Input, Mark, Outcome, Protocol, Side, Speaker, infer};
use crate::sessions::{Desk, Exchanges};
use crate::stream::Stream;
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
            exchanges: Exchanges::new(id, opened.as_ref().and_then(Caller::of_connect)),
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
    pub(crate) fn data(&mut self, data: &Data<'_>, desk: &mut Desk<'_>) {
        if data.time_nano.saturating_sub(self.last_nano) >= SETTLED_NANO {
            self.exchanges.settle();
        }
        self.last_nano = self.last_nano.max(data.time_nano);
        let received = data.direction == Direction::Received;
        if received {
            desk.context.bytes_read(data.into(), self.id);
        }
        match data.plaintext {
            Some(_) if !self.decrypted => self.decrypt(desk),
            None if self.decrypted => return,
            _ => {}
        }
        let at = data.plaintext.map_or(data.seq, |plaintext| plaintext.offset);
        let placed = data.plaintext.is_none_or(|plaintext| plaintext.placed);
        let way = index(data.direction);
        let Some(place) = self.streams[way].place(at, data.length) else {
            desk.counters.overlaps += 1;
            return;
        };
        desk.counters.overlaps += u64::from(place.repeated > 0);
        desk.counters.gap_bytes += place.gap;
        let mark = Mark {
            offset: place.offset,
            seq: placed.then(|| data.seq.wrapping_add(place.repeated)),
            time_nano: data.time_nano,
            process: data.process,
            thread: data.thread,
            task: data.task,
            parent_task: data.parent_task,
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
                Unread::File => desk.counters.bytes_moved_by_sendfile += bytes,
                Unread::IoUring => desk.counters.bytes_moved_by_io_uring += bytes,
                Unread::Other => desk.counters.bytes_moved_by_other_calls += bytes,
            }
        }
        if !matches!(self.state, State::Speaking { .. }) {
            self.passed(data.direction, mark, u64::from(data.length - place.repeated), desk);
        }
        if place.gap > 0 {
            // What waits for its record came before what was missed.
            self.send_all(desk);
            let before = Mark {
                offset: place.offset - place.gap,
                seq: mark.seq.map(|seq| seq.wrapping_sub(place.gap as u32)),
                time_nano: last_way_nano,
                missed: true,
                ..mark
            };
            let gap = Input { bytes: &[], unseen: place.gap, missed: true, mark: before };
            self.take(data.direction, gap, desk);
        }
        let bytes = &data.bytes[..data.bytes.len().min(data.length as usize)];
        let bytes = bytes.get(place.repeated as usize..).unwrap_or_default();
        let unseen = u64::from(data.length - place.repeated) - bytes.len() as u64;
        let input = Input { bytes, unseen, missed: false, mark };
        if data.direction == Direction::Sent && self.unsent.waits(input) {
            return;
        }
        // Nobody answers what has not been sent.
        self.send_all(desk);
        self.take(data.direction, input, desk);
        if received {
            self.tell_answers(data, desk);
        }
    }

    /// Which calls' answers were read now.
    fn tell_answers(&self, data: &Data<'_>, desk: &mut Desk<'_>) {
        let finished = desk.finished.iter().filter(|one| one.was_read_at(data.time_nano));
        for exchange in finished.chain(self.exchanges.read_at(data.time_nano)) {
            if let Some(fragment) = exchange.made_for() {
                desk.context.answer_read(data.into(), fragment);
            }
        }
    }

    /// TLS records went out: what waited for them has its places now.
    pub(crate) fn sent(&mut self, records: &Records, desk: &mut Desk<'_>) {
        for record in records.records {
            if let Some(sent) = self.unsent.record(record, records.time_nano) {
                self.take(Direction::Sent, sent.input(), desk);
            }
        }
    }

    /// A task works on one of its streams.
    pub(crate) fn owned(&mut self, task: &Task, desk: &mut Desk<'_>) {
        self.exchanges.owned(task, desk);
    }

    fn send_all(&mut self, desk: &mut Desk<'_>) {
        while let Some(sent) = self.unsent.next() {
            self.take(Direction::Sent, sent.input(), desk);
        }
    }

    /// From here on, what a TLS library encrypts is read in the clear, and the
    /// socket's own bytes are not.
    fn decrypt(&mut self, desk: &mut Desk<'_>) {
        desk.counters.connections_decrypted += 1;
        self.give_up(desk);
        self.decrypted = true;
        // What is seen from outside has told what it can.
        let outside = self.outside.take();
        let facts = outside.as_ref().and_then(|outside| outside.facts());
        self.exchanges = Exchanges::new(self.id, self.opened.as_ref().and_then(Caller::of_connect));
        self.exchanges.decrypted(facts.map(TlsFacts::encryption).unwrap_or_default());
        self.before = None;
        self.streams = Default::default();
        self.state = State::Inferring;
        self.last_side = None;
        self.tries = 0;
        self.changes = 0;
    }

    fn take(&mut self, direction: Direction, input: Input<'_>, desk: &mut Desk<'_>) {
        match &self.state {
            State::Opaque => {
                if let Some(outside) = &mut self.outside {
                    outside.read(direction, input);
                }
            }
            State::Inferring => self.infer(direction, input, desk),
            State::Speaking { requests, .. } => {
                let side = if direction == *requests { Side::Request } else { Side::Response };
                if self.holds_back(side, direction, input) {
                    return;
                }
                self.release(Some(input.mark.time_nano), desk);
                self.feed(direction, input, desk);
                if !self.is_early() {
                    self.release(None, desk);
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
    fn release(&mut self, before_nano: Option<u64>, desk: &mut Desk<'_>) {
        let due =
            |held: &Held| before_nano.is_none_or(|before| held.piece.mark.time_nano <= before);
        if self.held.first().is_none_or(|held| !due(held)) {
            return;
        }
        self.held_bytes = 0;
        for held in std::mem::take(&mut self.held) {
            self.feed(held.direction, held.piece.input(), desk);
        }
    }

    fn feed(&mut self, direction: Direction, input: Input<'_>, desk: &mut Desk<'_>) {
        let State::Speaking { parser, requests } = &mut self.state else { return };
        let side = if direction == *requests { Side::Request } else { Side::Response };
        if self.last_side.replace(side).is_some_and(|last| last != side) {
            parser.turn(side, &mut self.exchanges, desk);
        }
        match parser.read(side, input, &mut self.exchanges, desk) {
            Outcome::Read => {}
            Outcome::Switched => {
                desk.counters.connections_switched += 1;
                let before = Before { asks: *requests, protocol: parser.name(), encrypted: false };
                let left = self.exchanges.take_left();
                let rest =
                    left.map(|left| input.after(left.offset.saturating_sub(input.mark.offset)));
                self.before = Some(before);
                self.give_up(desk);
                self.go_on(direction, rest, desk);
            }
            Outcome::Encrypted => {
                desk.counters.connections_encrypted += 1;
                let before = Before { asks: *requests, protocol: parser.name(), encrypted: true };
                self.give_up(desk);
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
                self.go_on(direction, rest, desk);
            }
            Outcome::Unreadable => {
                desk.counters.connections_of_unknown_protocol += 1;
                self.give_up(desk);
                self.go_on(direction, Some(input), desk);
            }
            Outcome::Foreign => {
                self.exchanges.abandon(desk);
                self.changes += 1;
                self.passed(direction, input.mark, input.length(), desk);
                if self.changes > MAX_CHANGES {
                    desk.counters.connections_of_unknown_protocol += 1;
                    self.give_up(desk);
                } else {
                    desk.counters.protocol_changes += 1;
                    self.state = State::Inferring;
                    self.tries = 0;
                    self.infer(direction, input, desk);
                }
            }
        }
    }

    /// From here on it is only seen from outside.
    fn give_up(&mut self, desk: &mut Desk<'_>) {
        self.exchanges.abandon(desk);
        self.state = State::Opaque;
        self.held = Vec::new();
        self.held_bytes = 0;
    }

    /// What no parser reads begins, in the middle of a call where there is a
    /// `rest` of it.
    fn go_on(&mut self, direction: Direction, rest: Option<Input<'_>>, desk: &mut Desk<'_>) {
        if let Some(rest) = rest
            && !rest.is_empty()
        {
            self.passed(direction, rest.mark, rest.length(), desk);
            self.take(direction, rest, desk);
        }
    }

    /// Bytes went through that no parser reads, or none does yet.
    fn passed(&mut self, direction: Direction, mark: Mark, length: u64, desk: &mut Desk<'_>) {
        self.report_due(mark.time_nano, mark.retransmits, desk);
        if self.outside.is_none() {
            let fresh = matches!(self.state, State::Inferring) && self.changes == 0;
            let opened = self.opened.as_ref().filter(|_| fresh);
            let mut outside = Opaque::new(direction, mark, opened, desk);
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
    fn report_due(&mut self, now_nano: u64, retransmits: u32, desk: &mut Desk<'_>) {
        while let Some(outside) = &self.outside
            && outside.is_due(now_nano)
        {
            let time_nano = outside.due_nano();
            self.report(End { time_nano, retransmits, reset: false, last: false }, desk);
        }
    }

    fn report(&mut self, end: End, desk: &mut Desk<'_>) {
        let unix = self.is_unix();
        let Some(outside) = &mut self.outside else { return };
        let exchange = outside.end(end, self.opened.as_ref(), desk);
        // Most Unix sockets carry what nobody asks after.
        if let Some(mut exchange) = exchange.filter(|_| !unix) {
            exchange.encryption = self.exchanges.encryption();
            if let Some(unread) = self.unread {
                exchange.request.attributes.push((UNREAD, unread.mover().into()));
            }
            self.exchanges.recognised(exchange.protocol, exchange.serving);
            desk.finished.push(exchange);
        }
    }

    /// Reports what has passed so far, for the tracer ends, or looks away.
    pub(crate) fn report_open(&mut self, desk: &mut Desk<'_>) {
        let Some(last) = self.last_mark else { return };
        let Mark { retransmits, .. } = last;
        self.report_due(self.last_nano, retransmits, desk);
        let end = End { time_nano: self.last_nano, retransmits, reset: false, last: false };
        self.report(end, desk);
    }

    fn infer(&mut self, direction: Direction, input: Input<'_>, desk: &mut Desk<'_>) {
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
        match infer(&prefix, sides, whole, is_first, input.mark.time_nano, desk) {
            Ok(Some((speaker, side))) => {
                self.recognised(&speaker, side, direction, desk);
                self.take(direction, input, desk);
            }
            Ok(None) if self.hold(direction, input) => {}
            _ => {
                self.held.clear();
                self.held_bytes = 0;
                self.tries += 1;
                if self.tries >= MAX_TRIES {
                    desk.counters.connections_of_unknown_protocol += 1;
                    self.give_up(desk);
                }
            }
        }
    }

    fn recognised(
        &mut self,
        speaker: &Speaker,
        side: Side,
        direction: Direction,
        desk: &mut Desk<'_>,
    ) {
        let other = match direction {
            Direction::Sent => Direction::Received,
            Direction::Received => Direction::Sent,
        };
        let requests = if side == Side::Request { direction } else { other };
        let serving = requests == Direction::Received;
        let parser = speaker.parser(serving, desk.plugins);
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
                State::Speaking { .. } => self.feed(held.direction, held.piece.input(), desk),
                _ => self.take(held.direction, held.piece.input(), desk),
            }
        }
    }

    /// The socket was closed.
    pub(crate) fn closed(&mut self, closed: &Closed, desk: &mut Desk<'_>) {
        self.send_all(desk);
        self.release(None, desk);
        self.received_unseen(closed, desk);
        if let State::Speaking { parser, .. } = &mut self.state {
            parser.closed(&mut self.exchanges, desk);
        }
        if let Some(last) = self.last_mark {
            let end = Mark {
                time_nano: closed.time_nano.max(last.time_nano),
                retransmits: closed.retransmits,
                ..last
            };
            self.exchanges.closed(end, closed.reset, desk);
            if matches!(self.state, State::Inferring) && self.outside.is_some() {
                desk.counters.connections_of_unknown_protocol += 1;
            }
            let Mark { time_nano, retransmits, .. } = end;
            self.report_due(time_nano, retransmits, desk);
            self.report(End { time_nano, retransmits, reset: closed.reset, last: true }, desk);
        }
    }

    /// Bytes that the process took after the last that were seen: no hook on
    /// socket calls sees what `splice` takes.
    fn received_unseen(&mut self, closed: &Closed, desk: &mut Desk<'_>) {
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
        desk.counters.gap_bytes += u64::from(length);
        let time_nano = self.way_nano[way];
        let mark = Mark { offset: place.offset, seq: Some(begin), time_nano, missed: true, ..last };
        if !matches!(self.state, State::Speaking { .. }) {
            self.passed(Direction::Received, mark, u64::from(length), desk);
        }
        let gap = Input { bytes: &[], unseen: u64::from(length), missed: true, mark };
        self.take(Direction::Received, gap, desk);
    }

    /// Nobody will hear of it again, though it may still live.
    pub(crate) fn evict(&mut self, desk: &mut Desk<'_>) {
        self.report_open(desk);
        self.exchanges.abandon(desk);
    }

    /// Ends what ends by silence, and requests without response after
    /// `time_out_nano`.
    pub(crate) fn tick(&mut self, now_nano: u64, time_out_nano: u64, desk: &mut Desk<'_>) {
        let silent_nano = now_nano.saturating_sub(self.last_nano);
        if silent_nano >= HOLD_NANO {
            self.send_all(desk);
        }
        if silent_nano >= HOLD_NANO && matches!(self.state, State::Speaking { .. }) {
            self.release(None, desk);
        }
        if silent_nano >= QUIET_NANO
            && let State::Speaking { parser, .. } = &mut self.state
        {
            parser.quiet(&mut self.exchanges, desk);
        }
        self.report_due(now_nano, self.last_mark.map_or(0, |last| last.retransmits), desk);
        let before_nano = now_nano.saturating_sub(time_out_nano);
        if self.exchanges.oldest_nano().is_some_and(|oldest| oldest < before_nano) {
            self.exchanges.time_out(before_nano, now_nano, desk);
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
