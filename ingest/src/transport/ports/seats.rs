//! Limits the number of connections: to a port, from one address to a port, and to all ports
//! together, so that file descriptors remain for files.
//!
//! At the limit, the connection that has been idle longest is closed for a new one. So a client
//! that opens connections without using them does not lock others out.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::phase::Phase;
use crate::counters;

/// Minimum time between a response and closing an idle connection, and minimum time for a new
/// connection to send a request.
const GRACE: Duration = Duration::from_secs(2);

/// The connections of all ports together.
#[derive(Debug)]
pub(crate) struct House {
    open: AtomicUsize,
    limit: usize,
}

impl House {
    pub(crate) const fn new(limit: usize) -> Self {
        Self { open: AtomicUsize::new(0), limit }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn enter(&self) -> bool {
        let more = |open| (open < self.limit).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connections of one port.
pub(super) struct Seats {
    house: Arc<House>,
    limit: usize,
    per_address: usize,
    taken: Mutex<SeatTable>,
}

#[derive(Default)]
struct SeatTable {
    next: u64,
    connections: BTreeMap<u64, Connection>,
    addresses: HashMap<IpAddr, usize>,
}

struct Connection {
    address: IpAddr,
    phase: Arc<Phase>,
    stop: Arc<Notify>,
}

/// Which limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The limit of the port.
    Port,
    /// The limit of one address.
    Address,
    /// The limit of all ports together.
    House,
}

impl Full {
    pub(super) const fn counter(self) -> &'static str {
        match self {
            Self::Port => counters::CONNECTIONS_REFUSED,
            Self::Address => counters::CONNECTIONS_REFUSED_ADDRESS,
            Self::House => counters::CONNECTIONS_REFUSED_DESCRIPTORS,
        }
    }

    pub(super) const fn said(self) -> &'static str {
        match self {
            Self::Port => "the port has as many connections as it may (listen.connections)",
            Self::Address => {
                "its address has as many connections as it may (listen.connections_per_address)"
            }
            Self::House => {
                "all ports together have as many connections as the limit of open files leaves \
                 room for; raise it (LimitNOFILE= in a unit, `ulimit -n`)"
            }
        }
    }
}

/// A connection's slot, until it is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    number: u64,
    /// Notified when the slot is needed for another connection.
    pub(super) stop: Arc<Notify>,
}

impl Seats {
    pub(super) fn new(house: Arc<House>, limit: usize, per_address: usize) -> Self {
        Self { house, limit, per_address, taken: Mutex::default() }
    }

    /// Takes a slot. Also returns whether another connection was told to close.
    pub(super) fn take(
        self: &Arc<Self>,
        address: IpAddr,
        phase: &Arc<Phase>,
        now: Instant,
    ) -> Result<(Seat, bool), Full> {
        let mut taken = self.taken.lock();
        let mut evicted = false;
        let of_address = taken.addresses.get(&address).copied().unwrap_or(0);
        if of_address >= self.per_address {
            if !self.evict(&mut taken, Some(address), now) {
                return Err(Full::Address);
            }
            evicted = true;
        } else if taken.connections.len() >= self.limit {
            if !self.evict(&mut taken, None, now) {
                return Err(Full::Port);
            }
            evicted = true;
        }
        if !self.house.enter() {
            if !self.evict(&mut taken, None, now) || !self.house.enter() {
                return Err(Full::House);
            }
            evicted = true;
        }
        let number = taken.next;
        taken.next += 1;
        let stop = Arc::new(Notify::new());
        *taken.addresses.entry(address).or_default() += 1;
        let connection = Connection { address, phase: Arc::clone(phase), stop: Arc::clone(&stop) };
        taken.connections.insert(number, connection);
        Ok((Seat { seats: Arc::clone(self), number, stop }, evicted))
    }

    /// Evicts the connection that has been idle longest. Its slot is free at once.
    fn evict(&self, taken: &mut SeatTable, of: Option<IpAddr>, now: Instant) -> bool {
        let useless = taken.connections.iter().filter_map(|(number, connection)| {
            let is_of = of.is_none_or(|address| address == connection.address);
            let since = connection.phase.useless_since().filter(|_| is_of)?;
            (now.duration_since(since) >= GRACE).then_some((since, *number))
        });
        let Some((_, number)) = useless.min() else { return false };
        if let Some(gone) = self.free(taken, number) {
            gone.stop.notify_one();
        }
        true
    }

    fn free(&self, taken: &mut SeatTable, number: u64) -> Option<Connection> {
        let gone = taken.connections.remove(&number)?;
        if let Some(count) = taken.addresses.get_mut(&gone.address) {
            *count -= 1;
            if *count == 0 {
                taken.addresses.remove(&gone.address);
            }
        }
        self.house.leave();
        Some(gone)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock();
        self.seats.free(&mut taken, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::super::phase::Times;
    use super::*;

    fn phase(now: Instant) -> Arc<Phase> {
        let second = Duration::from_secs(1);
        let times = Times { header: second * 10, idle: second * 60, write: second };
        Arc::new(Phase::new(times, now))
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    #[tokio::test]
    async fn the_useless_make_room_and_who_is_served_stays() {
        let house = Arc::new(House::new(10));
        let seats = Arc::new(Seats::new(Arc::clone(&house), 3, 2));
        let began = Instant::now();
        let later = began + GRACE;
        let (silent, served) = (phase(began), phase(began));
        let request = served.begin();
        let take = |last, phase: &Arc<Phase>, now| seats.take(address(last), phase, now);
        let (first, _) = take(1, &silent, began).unwrap();
        let _second = take(1, &served, began).unwrap();
        assert_eq!(take(1, &served, began).err(), Some(Full::Address));
        let _third = take(2, &served, began).unwrap();
        assert_eq!(take(3, &served, began).err(), Some(Full::Port));
        let (_fourth, evicted) = take(1, &served, later).unwrap();
        assert!(evicted);
        first.stop.notified().await;
        drop(first);
        // All connections have a request now.
        assert_eq!(take(3, &served, later).err(), Some(Full::Port));
        assert_eq!(house.open(), 3);
        drop(request);
        let (_fifth, evicted) = take(3, &served, Instant::now() + GRACE).unwrap();
        assert!(evicted);
        assert_eq!(house.open(), 3);
    }

    #[test]
    fn descriptors_are_left_for_files() {
        let house = Arc::new(House::new(1));
        let one = Arc::new(Seats::new(Arc::clone(&house), 8, 8));
        let other = Arc::new(Seats::new(house, 8, 8));
        let now = Instant::now();
        let seat = one.take(address(1), &phase(now), now).unwrap();
        assert_eq!(other.take(address(1), &phase(now), now).err(), Some(Full::House));
        drop(seat);
        assert!(other.take(address(1), &phase(now), now).is_ok());
    }
}
