//! Datagrams: DNS over UDP. There is no connection to remember: a socket is
//! kept while a query on it waits for its answer.

use ahash::AHashMap;

use spanwise_capture_protocols::bytes::Mark;
use spanwise_capture_protocols::parsers::dns;
use spanwise_capture_protocols::sessions::Exchanges;
use spanwise_model::protocol;

use crate::common::Common;
use crate::event::{Command, Datagram, Direction, Endpoint, Opened, Role};
use crate::spans::Ends;

/// After this long a query without answer has failed: resolvers ask another
/// server, or give up, after 5 s or sooner.
const TIME_OUT_NANO: u64 = 10_000_000_000;
/// Sockets with open queries, and bytes that they may hold in all; beyond,
/// queries make no spans.
const MAX_SOCKETS: usize = 8192;
const MAX_HELD_BYTES: usize = 1 << 20;

/// What names a socket: its process, its port, and whether it answers.
pub(crate) type Key = (u32, u16, bool);

/// A socket with open queries.
#[derive(Debug)]
struct Socket {
    exchanges: Exchanges,
    local: Endpoint,
    network_namespace: u32,
}

/// What a socket has in place of a connection's number: those are far below.
const fn number_of((process, port, _): Key) -> u64 {
    1 << 63 | (process as u64) << 16 | port as u64
}

/// All sockets with open queries, by process, port and side.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    sockets: AHashMap<Key, Socket>,
    held_bytes: usize,
}

impl Datagrams {
    /// Bytes that open queries hold.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes the next datagram; what it finished is in [`Common`], and passed
    /// between these ends.
    pub(crate) fn take(&mut self, datagram: &Datagram<'_>, common: &mut Common) -> Option<Ends> {
        let to_all = datagram.remote.is_some_and(|remote| remote.address.is_multicast());
        // mDNS asks everybody, has no number, and is answered by whoever can.
        let reading = dns::read(datagram.bytes).filter(|_| !to_all)?;
        let asks = datagram.direction == Direction::Sent;
        let serving = asks == reading.is_response();
        let key = (datagram.process, datagram.local.port, serving);
        if !asks {
            common.attributor.bytes_read(mark(datagram, 0).into(), number_of(key));
        }
        if !self.sockets.contains_key(&key) {
            if reading.is_response() {
                common.counters.parsers.orphan_responses += 1;
                return None;
            }
            if self.sockets.len() >= MAX_SOCKETS || self.held_bytes > MAX_HELD_BYTES {
                common.counters.parsers.requests_over_limit += 1;
                return None;
            }
            let socket = Socket::new(key, datagram);
            self.held_bytes += socket.held_bytes();
            self.sockets.insert(key, socket);
        }
        self.with(key, common, |socket, common| {
            if reading.is_response() {
                socket.answered(&reading, datagram, serving, common);
            } else {
                socket.asked(&reading, datagram, serving, common);
            }
            socket.exchanges.is_empty()
        })
    }

    /// Sockets with queries that have waited too long by `now_nano`.
    pub(crate) fn due(&self, now_nano: u64) -> Vec<Key> {
        let before_nano = now_nano.saturating_sub(TIME_OUT_NANO);
        let late = |socket: &Socket| {
            socket.exchanges.oldest_nano().is_none_or(|oldest| oldest < before_nano)
        };
        self.sockets.iter().filter(|(_, socket)| late(socket)).map(|(key, _)| *key).collect()
    }

    /// Fails those of one socket.
    pub(crate) fn time_out(
        &mut self,
        key: Key,
        now_nano: u64,
        common: &mut Common,
    ) -> Option<Ends> {
        self.with(key, common, |socket, common| {
            let before_nano = now_nano.saturating_sub(TIME_OUT_NANO);
            common.conversation(&mut socket.exchanges).time_out(before_nano, now_nano);
            let is_over = socket.exchanges.oldest_nano().is_none();
            if is_over {
                common.conversation(&mut socket.exchanges).abandon();
            }
            is_over
        })
    }

    /// Works on a socket, which goes where `work` says that it is over.
    fn with(
        &mut self,
        key: Key,
        common: &mut Common,
        work: impl FnOnce(&mut Socket, &mut Common) -> bool,
    ) -> Option<Ends> {
        let socket = self.sockets.get_mut(&key)?;
        self.held_bytes -= socket.held_bytes();
        let is_over = work(socket, common);
        let ends = socket.ends(key);
        if is_over {
            self.sockets.remove(&key);
            common.attributor.closed(number_of(key));
        } else {
            self.held_bytes += socket.held_bytes();
        }
        Some(ends)
    }

    /// Sockets of a process.
    pub(crate) fn of_process(&self, process: u32) -> Vec<Key> {
        self.sockets.keys().filter(|key| key.0 == process).copied().collect()
    }

    /// The process has ended: what is open on this socket has failed.
    pub(crate) fn closed(&mut self, key: Key, end_nano: u64, common: &mut Common) -> Option<Ends> {
        self.with(key, common, |socket, common| {
            let end = Mark { time_nano: end_nano, ..Mark::NOWHERE };
            common.conversation(&mut socket.exchanges).closed(end, false);
            true
        })
    }
}

impl Socket {
    fn new(key: Key, datagram: &Datagram<'_>) -> Self {
        let (_, _, serving) = key;
        let mut exchanges = Exchanges::new(number_of(key), None);
        exchanges.recognised(protocol::DNS, serving);
        let Datagram { local, network_namespace, .. } = *datagram;
        Self { exchanges, local, network_namespace }
    }

    const fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.exchanges.held_bytes()
    }

    /// As a connection's opening would say it.
    fn ends(&self, (process, _, serving): Key) -> Ends {
        let opened = Opened {
            time_nano: 0,
            connection: 0,
            process,
            thread: process,
            sleeps: 0,
            role: if serving { Role::Server } else { Role::Client },
            local: self.local,
            remote: Endpoint { address: [0, 0, 0, 0].into(), port: 0 },
            network_namespace: self.network_namespace,
            connect_nano: None,
            command: Command::default(),
            first_seqs: None,
            unix: None,
        };
        Ends { opened: Some(opened), serving }
    }

    fn asked(
        &mut self,
        reading: &dns::Reading,
        datagram: &Datagram<'_>,
        serving: bool,
        common: &mut Common,
    ) {
        let start = mark(datagram, number(reading.id(), datagram, serving));
        // Asked again: still the same question.
        if self.exchanges.continue_request(reading.stream())
            && let Some(exchange) = self.exchanges.uploading()
            && (exchange.other == datagram.remote || datagram.remote.is_none())
        {
            exchange.request_end.retransmits += 1;
            return;
        }
        let end = Mark { offset: u64::from(datagram.length), ..start };
        common.conversation(&mut self.exchanges).open(start, end, reading.request("udp"));
        if let Some(exchange) = self.exchanges.uploading() {
            exchange.other = datagram.remote;
        }
    }

    fn answered(
        &mut self,
        reading: &dns::Reading,
        datagram: &Datagram<'_>,
        serving: bool,
        common: &mut Common,
    ) {
        if !self.exchanges.answer(reading.stream()) {
            common.counters.parsers.orphan_responses += 1;
            return;
        }
        let Some(exchange) = self.exchanges.answering() else { return };
        if serving && let Some(client) = datagram.remote {
            exchange.other = Some(client);
            exchange.request_start.seq = Some(number(reading.id(), datagram, serving));
        } else if exchange.other.is_none() {
            exchange.other = datagram.remote;
        }
        exchange.answer = reading.answer(serving, &exchange.process, &mut common.memory).into();
        let retransmits = exchange.request_end.retransmits;
        let start = Mark { retransmits, ..mark(datagram, reading.question_hash()) };
        if !serving {
            let (id, made_for) = (exchange.id, exchange.made_for());
            let maker = exchange.request_start.task;
            common.attributor.answer_read(start.into(), id, maker, made_for, true);
        }
        self.exchanges.begin_response(start);
        self.exchanges.response_reached(Mark { offset: u64::from(datagram.length), ..start });
        common.conversation(&mut self.exchanges).end_response();
    }
}

fn mark(datagram: &Datagram<'_>, seq: u32) -> Mark {
    let (parent, in_span) = Mark::parent_of(datagram.parent_task, datagram.current_span);
    Mark {
        seq: Some(seq),
        time_nano: datagram.time_nano,
        process: datagram.process,
        thread: datagram.thread,
        task: datagram.task,
        parent,
        in_span,
        sleeps: datagram.sleeps,
        ..Mark::NOWHERE
    }
}

/// What stands for TCP's sequence number where the two ends of a hop are joined:
/// the query's number and the client's port; the answer's is a hash of the
/// question. Both ends see the same, unless an address is translated between them.
fn number(id: u16, datagram: &Datagram<'_>, serving: bool) -> u32 {
    let client = if serving { datagram.remote } else { Some(datagram.local) };
    u32::from(id) << 16 | u32::from(client.map_or(0, |client| client.port))
}
