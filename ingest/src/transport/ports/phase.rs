//! The current phase of a connection, and its timeout.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::counters;

/// Minimum time that a request may take without any byte in either direction.
const LEAST_WORK: Duration = Duration::from_secs(60);

/// Timeouts of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) header: Duration,
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
}

/// The timeout that expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// Waiting for a request's header.
    Header,
    /// Waiting for the next request.
    Idle,
    /// Waiting for the peer to read a response.
    Write,
}

impl Late {
    pub(crate) const fn counter(self) -> &'static str {
        match self {
            Self::Header => counters::CONNECTIONS_LATE_HEADER,
            Self::Idle => counters::CONNECTIONS_IDLE,
            Self::Write => counters::CONNECTIONS_LATE_WRITE,
        }
    }
}

/// The phase of one connection. Its socket and its requests share it.
#[derive(Debug)]
pub(crate) struct Phase {
    times: Times,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Requests whose response is not finished.
    requests: usize,
    /// Whether a request's header is expected or incomplete. Otherwise the connection is idle.
    in_header: bool,
    /// Start of the phase, if there is no request.
    since: Instant,
    /// Time of the last byte in either direction.
    active: Instant,
    /// Since when the peer does not read.
    blocked: Option<Instant>,
    is_http2: bool,
}

/// A request whose response is not finished.
pub(crate) struct Serving(Arc<Phase>);

impl Phase {
    /// The phase of a new connection.
    pub(crate) fn new(times: Times, now: Instant) -> Self {
        let state = State {
            requests: 0,
            in_header: true,
            since: now,
            active: now,
            blocked: None,
            is_http2: false,
        };
        Self { times, state: Mutex::new(state) }
    }

    /// Begins a request.
    pub(crate) fn begin(self: &Arc<Self>) -> Serving {
        let mut state = self.state.lock();
        state.requests += 1;
        state.in_header = false;
        Serving(Arc::clone(self))
    }

    /// Records that bytes were read.
    pub(crate) fn has_read(&self, now: Instant) {
        let mut state = self.state.lock();
        state.active = now;
        // On HTTP/2 the bytes may be pings rather than a request.
        if state.requests == 0 && !state.in_header && !state.is_http2 {
            state.in_header = true;
            state.since = state.active;
        }
    }

    /// Records that the connection uses HTTP/2, on which a client may wait before its first
    /// request.
    pub(crate) fn is_http2(&self) {
        let mut state = self.state.lock();
        state.is_http2 = true;
        state.in_header = false;
    }

    /// Records that bytes were written, or that writing blocked.
    pub(crate) fn wrote(&self, could: bool, now: Instant) {
        let mut state = self.state.lock();
        if could {
            state.active = now;
            state.blocked = None;
        } else if state.blocked.is_none() {
            state.blocked = Some(now);
        }
    }

    /// The current deadline, and the timeout that it stands for.
    pub(crate) fn deadline(&self) -> (Instant, Late) {
        let Times { header, idle, write } = self.times;
        let state = self.state.lock();
        let doing = match (state.requests, state.in_header) {
            (0, true) => (state.since + header, Late::Header),
            (0, false) => (state.since.max(state.active_where_http1()) + idle, Late::Idle),
            // Request bodies have their own timeouts. If nothing happens in either direction, the
            // peer is gone.
            _ => (state.active + idle.max(LEAST_WORK) * 2, Late::Idle),
        };
        match state.blocked {
            Some(since) if since + write < doing.0 => (since + write, Late::Write),
            _ => doing,
        }
    }

    /// Whether a request is being answered.
    pub(crate) fn is_serving(&self) -> bool {
        self.state.lock().requests > 0
    }

    /// Since when the connection has no request; `None` during a request.
    pub(crate) fn useless_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.requests == 0).then_some(state.since)
    }
}

impl State {
    const fn active_where_http1(&self) -> Instant {
        if self.is_http2 { self.since } else { self.active }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.requests -= 1;
        if state.requests == 0 {
            state.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times {
        header: Duration::from_secs(10),
        idle: Duration::from_secs(300),
        write: Duration::from_secs(30),
    };

    #[test]
    fn each_thing_has_its_time() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let phase = Arc::new(Phase::new(TIMES, began));
        assert_eq!(phase.deadline(), (at(10), Late::Header));
        // A header that arrives byte by byte gets no more time.
        phase.has_read(at(5));
        assert_eq!(phase.deadline(), (at(10), Late::Header));
        let serving = phase.begin();
        assert!(phase.deadline().0 > at(300));
        assert_eq!(phase.useless_since(), None);
        phase.wrote(false, at(5));
        phase.wrote(false, at(6));
        assert_eq!(phase.deadline(), (at(35), Late::Write));
        phase.wrote(true, at(7));
        drop(serving);
        assert_eq!(phase.deadline(), (at(307), Late::Idle));
        assert!(phase.useless_since().is_some());
        // The header of the next request.
        phase.has_read(at(60));
        assert_eq!(phase.deadline(), (at(70), Late::Header));
    }

    #[test]
    fn a_client_of_http2_may_wait_and_pings_are_no_request() {
        let began = Instant::now();
        let phase = Phase::new(TIMES, began);
        phase.is_http2();
        phase.has_read(began + Duration::from_secs(20));
        assert_eq!(phase.deadline(), (began + TIMES.idle, Late::Idle));
    }
}
