//! Connections: puts each direction's bytes in order, tells the protocol and
//! hands the bytes to its parser.

use crate::event::{Closed, Data, Direction, Opened, Role};
use crate::protocols::{Input, Known, Mark, Outcome, Protocol, Side, infer};
use crate::sessions::{Desk, Exchanges};
use crate::stream::Stream;

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
/// How long a response waits for its request to be reported.
const HOLD_NANO: u64 = 200_000_000;

/// An event kept for later.
struct Held {
    direction: Direction,
    bytes: Vec<u8>,
    unseen: u64,
    missed: bool,
    mark: Mark,
}

impl Held {
    fn input(&self) -> Input<'_> {
        Input { bytes: &self.bytes, unseen: self.unseen, missed: self.missed, mark: self.mark }
    }
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
    /// Given up.
    Ignored,
}

/// One socket's life.
pub(crate) struct Connection {
    /// Addresses and role, where the opening was reported.
    pub(crate) opened: Option<Opened>,
    /// When it was last heard of.
    pub(crate) last_nano: u64,
    exchanges: Exchanges,
    state: State,
    streams: [Stream; 2],
    held: Vec<Held>,
    held_bytes: usize,
    last_side: Option<Side>,
    tries: u8,
    changes: u8,
    id: u64,
    last_mark: Option<Mark>,
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
            exchanges: Exchanges::new(id),
            state: State::Inferring,
            streams: [Stream::default(), Stream::default()],
            held: Vec::new(),
            held_bytes: 0,
            last_side: None,
            tries: 0,
            changes: 0,
            id,
            last_mark: None,
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
            + self.exchanges.held_bytes()
            + self.held_bytes
            + self.held.capacity() * size_of::<Held>()
    }

    fn role(&self) -> Role {
        self.opened.map_or(Role::Unknown, |opened| opened.role)
    }

    /// Bytes went through.
    pub(crate) fn data(&mut self, data: &Data<'_>, desk: &mut Desk<'_>) {
        self.last_nano = self.last_nano.max(data.time_nano);
        if matches!(self.state, State::Ignored) {
            return;
        }
        let Some(place) = self.streams[index(data.direction)].place(data.seq, data.length) else {
            desk.counters.overlaps += 1;
            return;
        };
        desk.counters.overlaps += u64::from(place.repeated > 0);
        desk.counters.gap_bytes += place.gap;
        let mark = Mark {
            offset: place.offset,
            seq: data.seq.wrapping_add(place.repeated),
            time_nano: data.time_nano,
            process: data.process,
            thread: data.thread,
            retransmits: data.retransmits,
            srtt_micros: data.srtt_micros,
        };
        self.last_mark = Some(mark);
        if place.gap > 0 {
            let before = Mark {
                offset: place.offset - place.gap,
                seq: mark.seq.wrapping_sub(place.gap as u32),
                ..mark
            };
            let gap = Input { bytes: &[], unseen: place.gap, missed: true, mark: before };
            self.take(data.direction, gap, desk);
        }
        let bytes = &data.bytes[..data.bytes.len().min(data.length as usize)];
        let bytes = bytes.get(place.repeated as usize..).unwrap_or_default();
        let unseen = u64::from(data.length - place.repeated) - bytes.len() as u64;
        self.take(data.direction, Input { bytes, unseen, missed: false, mark }, desk);
    }

    fn take(&mut self, direction: Direction, input: Input<'_>, desk: &mut Desk<'_>) {
        match &self.state {
            State::Ignored => {}
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
                parser.answers_early(&held.input(), &self.exchanges)
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
        let Input { bytes, unseen, missed, mark } = input;
        self.held.push(Held { direction, bytes: bytes.to_vec(), unseen, missed, mark });
        true
    }

    /// Feeds what is held: all of it, or only what moved before a request that
    /// moved at `before_nano`.
    fn release(&mut self, before_nano: Option<u64>, desk: &mut Desk<'_>) {
        let due = |held: &Held| before_nano.is_none_or(|before| held.mark.time_nano <= before);
        if self.held.first().is_none_or(|held| !due(held)) {
            return;
        }
        self.held_bytes = 0;
        for held in std::mem::take(&mut self.held) {
            self.feed(held.direction, held.input(), desk);
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
                self.ignore(desk);
            }
            Outcome::Encrypted => {
                desk.counters.connections_encrypted += 1;
                self.ignore(desk);
            }
            Outcome::Foreign => {
                self.exchanges.abandon(desk);
                self.changes += 1;
                if self.changes > MAX_CHANGES {
                    desk.counters.connections_of_unknown_protocol += 1;
                    self.ignore(desk);
                } else {
                    desk.counters.protocol_changes += 1;
                    self.state = State::Inferring;
                    self.tries = 0;
                    self.infer(direction, input, desk);
                }
            }
        }
    }

    fn ignore(&mut self, desk: &mut Desk<'_>) {
        self.exchanges.abandon(desk);
        self.state = State::Ignored;
        self.held = Vec::new();
        self.held_bytes = 0;
    }

    fn infer(&mut self, direction: Direction, input: Input<'_>, desk: &mut Desk<'_>) {
        if input.bytes.is_empty() && self.held.is_empty() {
            return;
        }
        let mut prefix = Vec::new();
        let mut whole = true;
        let before = self.held.iter().filter(|held| held.direction == direction);
        for piece in before.map(Held::input).chain([input]) {
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
        match infer(&prefix, sides, whole) {
            Ok(Some((known, side))) => {
                self.recognised(known, side, direction, desk);
                self.take(direction, input, desk);
            }
            Ok(None) if self.hold(direction, input) => {}
            _ => {
                self.held.clear();
                self.held_bytes = 0;
                self.tries += 1;
                if self.tries >= MAX_TRIES {
                    desk.counters.connections_of_unknown_protocol += 1;
                    self.ignore(desk);
                }
            }
        }
    }

    fn recognised(&mut self, known: &Known, side: Side, direction: Direction, desk: &mut Desk<'_>) {
        let other = match direction {
            Direction::Sent => Direction::Received,
            Direction::Received => Direction::Sent,
        };
        let requests = if side == Side::Request { direction } else { other };
        let serving = requests == Direction::Received;
        let parser = (known.parser)(serving);
        self.exchanges.recognised(parser.name(), serving);
        self.state = State::Speaking { parser, requests };
        self.last_side = None;
        self.held_bytes = 0;
        // Requests that were held are in order already.
        for held in std::mem::take(&mut self.held) {
            match self.state {
                State::Speaking { .. } => self.feed(held.direction, held.input(), desk),
                _ => self.take(held.direction, held.input(), desk),
            }
        }
    }

    /// The socket was closed.
    pub(crate) fn closed(&mut self, closed: &Closed, desk: &mut Desk<'_>) {
        self.release(None, desk);
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
        }
    }

    /// Nobody will hear of it again, though it may still live.
    pub(crate) fn evict(&mut self, desk: &mut Desk<'_>) {
        self.exchanges.abandon(desk);
    }

    /// Ends what ends by silence, and requests without response after
    /// `time_out_nano`.
    pub(crate) fn tick(&mut self, now_nano: u64, time_out_nano: u64, desk: &mut Desk<'_>) {
        let silent_nano = now_nano.saturating_sub(self.last_nano);
        if silent_nano >= HOLD_NANO && matches!(self.state, State::Speaking { .. }) {
            self.release(None, desk);
        }
        if silent_nano >= QUIET_NANO
            && let State::Speaking { parser, .. } = &mut self.state
        {
            parser.quiet(&mut self.exchanges, desk);
        }
        let before_nano = now_nano.saturating_sub(time_out_nano);
        if self.exchanges.oldest_nano().is_some_and(|oldest| oldest < before_nano) {
            self.exchanges.time_out(before_nano, now_nano, desk);
        }
    }

    /// Whether something on it may end by time alone.
    pub(crate) fn awaits_time(&self) -> bool {
        matches!(self.state, State::Speaking { .. })
            && !(self.exchanges.is_empty() && self.held.is_empty())
    }

    /// The number that names it.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }
}
