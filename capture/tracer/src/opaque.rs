//! Connections of which only the outside is understood: encrypted, of an
//! unknown protocol, or handed over to something else. Such a connection is one
//! span; while it goes on it is reported in parts, each twice as long as the one
//! before, so that a connection of a day makes some thirty.

use std::sync::Arc;

use spanwise_capture_protocols::attribution::{Attribution as _, Call, Fragment, NO_SORT};
use spanwise_capture_protocols::bytes::{Input, Mark, Side};
use spanwise_capture_protocols::parsers::tls::{Handshake, TlsFacts};
use spanwise_capture_protocols::process::Process;
use spanwise_capture_protocols::sessions::{Answer, Attributes, Exchange, Failure, Request};
use spanwise_model::protocol;

use crate::common::Common;
use crate::event::{Direction, Opened, Role, connector};

/// How long the first part is, and how long one is at most.
const FIRST_PART_NANO: u64 = 60_000_000_000;
const MAX_PART_NANO: u64 = 3_600_000_000_000;
/// Linux gives ports from here on to those that ask for none.
const FIRST_EPHEMERAL_PORT: u16 = 32_768;

/// From the first byte asked to the first byte answered, as seen at this side.
const FIRST_BYTE: &str = "spanwise.first_byte_nano";
/// Which part of the connection, counted from 0; absent where it is all of it.
const PART: &str = "spanwise.connection.part";
/// The connection goes on after this part.
const OPEN: &str = "spanwise.connection.open";
/// What was spoken on the connection before.
const AFTER: &str = "spanwise.connection.after";

/// What is known of the handshake.
#[derive(Debug)]
enum Tls {
    /// There is none.
    None,
    /// It is read; it is not `sure` that it is one.
    Reading {
        handshake: Box<Handshake>,
        sure: bool,
    },
    Known(Box<TlsFacts>),
}

/// What was spoken on a connection before it became opaque.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    /// Which way requests went.
    pub(crate) asks: Direction,
    /// Its name.
    pub(crate) protocol: &'static str,
    /// Both agreed to encrypt.
    pub(crate) encrypted: bool,
}

/// What passed one way.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// Of the first byte.
    first_seq: Option<u32>,
    first_nano: u64,
    /// Where the current part begins, and where the bytes end so far.
    part: u64,
    end: u64,
}

/// A connection, or the rest of one, seen from outside.
#[derive(Debug)]
pub(crate) struct Opaque {
    ways: [Option<Way>; 2],
    /// Which way the first byte went, and which way the greeting of TLS would.
    first_way: Direction,
    greeting: Direction,
    before: Option<Before>,
    last: Mark,
    part: u32,
    /// When the current part began, and when it ends.
    part_start_nano: u64,
    part_end_nano: u64,
    part_retransmits: u32,
    /// It began with the connection.
    from_opening: bool,
    process: Arc<Process>,
    fragment: Fragment,
    tls: Tls,
}

/// The end of a connection, or of a part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) time_nano: u64,
    pub(crate) retransmits: u32,
    pub(crate) reset: bool,
    /// The connection is closed.
    pub(crate) last: bool,
}

impl Opaque {
    /// Begins with the byte at `mark`.
    pub(crate) fn new(
        direction: Direction,
        mark: Mark,
        opened: Option<&Opened>,
        common: &mut Common,
    ) -> Self {
        let fragment = match opened {
            Some(opened) if opened.role == Role::Client => {
                common.attributor.request_sent(mark.into(), connector(opened))
            }
            _ => Fragment::None,
        };
        Self {
            ways: [None, None],
            first_way: direction,
            greeting: direction,
            before: None,
            last: mark,
            part: 0,
            part_start_nano: opened.map_or(mark.time_nano, |opened| opened.time_nano),
            // Both sides count from the first byte.
            part_end_nano: mark.time_nano.saturating_add(FIRST_PART_NANO),
            part_retransmits: if opened.is_some() { 0 } else { mark.retransmits },
            from_opening: opened.is_some(),
            process: common.attributor.directory.describe(mark.process),
            fragment,
            tls: Tls::None,
        }
    }

    /// The handshake's facts, where there was one.
    pub(crate) fn facts(&self) -> Option<&TlsFacts> {
        match &self.tls {
            Tls::Reading { handshake, sure } if *sure || handshake.has_begun() => {
                Some(handshake.facts())
            }
            Tls::None | Tls::Reading { .. } => None,
            Tls::Known(facts) => Some(facts),
        }
    }

    /// Bytes that it holds beyond its own size.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.tls {
            Tls::None => 0,
            Tls::Reading { handshake, .. } => handshake.held_bytes(),
            Tls::Known(facts) => facts.held_bytes(),
        }
    }

    /// `length` bytes went through from `mark` on.
    pub(crate) fn moved(&mut self, direction: Direction, mark: Mark, length: u64) {
        let Mark { seq: first_seq, time_nano: first_nano, offset: part, .. } = mark;
        let fresh = Way { first_seq, first_nano, part, end: part };
        let way = self.ways[direction as usize].get_or_insert(fresh);
        way.end = mark.offset + length;
        self.last = mark;
    }

    /// It is the rest of a connection that spoke something else before.
    pub(crate) fn comes_after(&mut self, before: Before) {
        self.before = Some(before);
        // A tunnel is nearly always encrypted.
        self.encrypted(before.asks, before.encrypted);
    }

    /// Encryption begins, or may where it is not `sure`, with a greeting that
    /// goes this way.
    pub(crate) fn encrypted(&mut self, greeting: Direction, sure: bool) {
        if matches!(self.tls, Tls::None) {
            self.greeting = greeting;
            self.tls = Tls::Reading { handshake: Box::default(), sure };
        }
    }

    /// Reads bytes, while they may be of a handshake.
    pub(crate) fn read(&mut self, direction: Direction, input: Input<'_>) {
        let Tls::Reading { handshake, sure } = &mut self.tls else { return };
        let asks = self.greeting == direction;
        handshake.read(if asks { Side::Request } else { Side::Response }, input);
        if !*sure && !handshake.has_begun() && handshake.is_lost() {
            self.tls = Tls::None;
        } else if handshake.is_over() {
            let facts = std::mem::take(&mut **handshake).into_facts();
            self.tls = Tls::Known(Box::new(facts));
        }
    }

    /// Whether the current part has ended by `now_nano`.
    pub(crate) const fn is_due(&self, now_nano: u64) -> bool {
        now_nano >= self.part_end_nano
    }

    /// When the current part ends.
    pub(crate) const fn due_nano(&self) -> u64 {
        self.part_end_nano
    }

    /// Whether the traced process is the one that is asked: by who opened the
    /// connection, who asked or greeted on it, whose port is no one's own
    /// choice, who spoke first.
    fn serves(&self, opened: Option<&Opened>) -> bool {
        let is_server = |port: u16| port < FIRST_EPHEMERAL_PORT;
        let greeted = || self.facts().is_some_and(|facts| facts.greeted).then_some(self.greeting);
        let asks = self.before.map(|before| before.asks).or_else(greeted);
        match (opened.map(|opened| (opened.role, opened)), asks) {
            (Some((Role::Client, _)), _) => false,
            (Some((Role::Server, _)), _) => true,
            (_, Some(asks)) => asks == Direction::Received,
            (Some((_, Opened { local, remote, .. })), None)
                if is_server(local.port) != is_server(remote.port) =>
            {
                is_server(local.port)
            }
            _ => self.first_way == Direction::Received,
        }
    }

    /// Ends the part, or all of it: what there is to tell of it, with the name
    /// of what is spoken. Nothing where no byte moved.
    pub(crate) fn end(
        &mut self,
        end: End,
        opened: Option<&Opened>,
        common: &mut Common,
    ) -> Option<Exchange> {
        if end.last
            && let Tls::Reading { handshake, .. } = &mut self.tls
        {
            handshake.closed();
        }
        let moved = self.ways.iter().flatten().any(|way| way.end > way.part);
        // Without its opening nobody knows whose bytes these were.
        let worth = moved && (opened.is_some() || self.facts().is_some());
        let exchange = worth.then(|| self.exchange(end, opened, common));
        for way in self.ways.iter_mut().flatten() {
            way.part = way.end;
        }
        self.part_retransmits = end.retransmits;
        while self.part_end_nano <= end.time_nano {
            self.part_start_nano = self.part_end_nano;
            let length = FIRST_PART_NANO.saturating_mul(1 << (self.part + 1).min(20));
            self.part += 1;
            self.part_end_nano = self.part_end_nano.saturating_add(length.min(MAX_PART_NANO));
        }
        exchange
    }

    fn exchange(&self, end: End, opened: Option<&Opened>, common: &mut Common) -> Exchange {
        let serving = self.serves(opened);
        let (asks, answers) = if serving {
            (Direction::Received, Direction::Sent)
        } else {
            (Direction::Sent, Direction::Received)
        };
        let [request, response] = [asks, answers].map(|way| self.ways[way as usize]);
        // Each part has a number of its own, the same at both sides, made of the
        // first byte's and the part's. Where only one side speaks, its bytes
        // must do.
        let number = |way: Way| way.first_seq.map(|seq| seq.wrapping_add(self.part));
        let at = |seq: Option<u32>, offset: u64, time_nano: u64, retransmits: u32| Mark {
            seq,
            offset,
            time_nano,
            retransmits,
            ..self.last
        };
        let start_seq = request.or(response).and_then(number);
        let start_nano = self.part_start_nano;
        let request_start =
            at(start_seq, request.map_or(0, |way| way.part), start_nano, self.part_retransmits);
        let request_end =
            at(start_seq, request.map_or(0, |way| way.end), start_nano, self.part_retransmits);
        let response_seq = response.map_or(start_seq, number);
        let response_start =
            response.map(|way| at(response_seq, way.part, start_nano, end.retransmits));
        let response_end =
            at(response_seq, response.map_or(0, |way| way.end), end.time_nano, end.retransmits);
        Exchange::outside(
            common.finished.next_id(),
            self.request(opened, serving, end.last, request, response),
            Answer { failure: self.failure(end), ..Answer::default() },
            [request_start, request_end],
            (response_start, response_end),
            serving,
            self.fragment(common),
            Arc::clone(&self.process),
            self.from_opening && self.part == 0,
            if self.facts().is_some() { protocol::TLS } else { protocol::TCP },
        )
    }

    fn request(
        &self,
        opened: Option<&Opened>,
        serving: bool,
        closed: bool,
        request: Option<Way>,
        response: Option<Way>,
    ) -> Request {
        let name = if self.facts().is_some() { "TLS" } else { "TCP" };
        let port =
            opened.map(|opened| if serving { opened.local.port } else { opened.remote.port });
        // The port is what tells an operator most, and a server's own choice
        // has few values; one given by the system has many.
        let operation = match port {
            Some(port) if port < FIRST_EPHEMERAL_PORT => format!("{name} {port}"),
            _ => name.to_owned(),
        };
        let mut attributes = self.facts().map(TlsFacts::attributes).unwrap_or_default();
        if let Some(before) = self.before {
            attributes.push((AFTER, before.protocol.into()));
        }
        if self.part == 0 {
            let asked_nano = request.map(|way| way.first_nano);
            let answered_nano = response.map(|way| way.first_nano);
            if let (Some(asked), Some(answered)) = (asked_nano, answered_nano)
                && answered >= asked
            {
                add(&mut attributes, FIRST_BYTE, answered - asked);
            }
        }
        if self.part > 0 || !closed {
            add(&mut attributes, PART, u64::from(self.part));
        }
        if !closed {
            attributes.push((OPEN, true.into()));
        }
        Request { attributes, ..Request::new(operation) }
    }

    fn failure(&self, end: End) -> Option<Failure> {
        let handshake = self.facts().and_then(|facts| facts.failure.clone()).filter(|_| end.last);
        handshake.or_else(|| end.reset.then(|| Failure::plain("connection_reset")))
    }

    /// A connection belongs to a request if it did not outlive it: others may
    /// have used it as well.
    fn fragment(&self, common: &mut Common) -> Fragment {
        let Fragment::Within { fragment: then, .. } = self.fragment else { return Fragment::None };
        match common.attributor.call_made(self.last.into(), None, Call::Again(NO_SORT)) {
            Fragment::Within { fragment, evidence, confidence }
                if fragment == then && self.part == 0 =>
            {
                Fragment::Within { fragment, evidence, confidence }
            }
            _ => Fragment::None,
        }
    }
}

fn add(attributes: &mut Attributes, name: &'static str, value: u64) {
    attributes.push((name, value.cast_signed().into()));
}
