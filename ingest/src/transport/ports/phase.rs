//! What a connection is doing, and until when it may.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::counters;

/// Work on a request may take this long without a byte going either way.
const LEAST_WORK: Duration = Duration::from_secs(60);

/// How long a connection may take for what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) header: Duration,
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
}

/// What took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// The header of a request.
    Header,
    /// The next request.
    Idle,
    /// The reading of an answer.
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

/// What one connection is doing. Shared by its socket and its requests.
#[derive(Debug)]
pub(crate) struct Phase {
    times: Times,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Requests that are not answered to their end.
    requests: usize,
    /// Whether the header of a request is awaited or has begun; else nothing is.
    in_header: bool,
    /// Since when, where there is no request.
    since: Instant,
    /// When bytes last went either way.
    active: Instant,
    /// Since when the peer reads nothing.
    blocked: Option<Instant>,
    is_http2: bool,
}

/// A request that is not answered to its end.
pub(crate) struct Serving(Arc<Phase>);

impl Phase {
    /// Of a connection that has just come.
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

    /// A request is there.
    pub(crate) fn begin(self: &Arc<Self>) -> Serving {
        let mut state = self.state.lock();
        state.requests += 1;
        state.in_header = false;
        Serving(Arc::clone(self))
    }

    /// Bytes were read.
    pub(crate) fn has_read(&self, now: Instant) {
        let mut state = self.state.lock();
        state.active = now;
        // On HTTP/2 they need not be a request: pings come, too.
        if state.requests == 0 && !state.in_header && !state.is_http2 {
            state.in_header = true;
            state.since = state.active;
        }
    }

    /// The connection has been seen to be one of HTTP/2, on which a client may wait before its
    /// first request.
    pub(crate) fn is_http2(&self) {
        let mut state = self.state.lock();
        state.is_http2 = true;
        state.in_header = false;
    }

    /// Bytes were written, or could not be.
    pub(crate) fn wrote(&self, could: bool, now: Instant) {
        let mut state = self.state.lock();
        if could {
            state.active = now;
            state.blocked = None;
        } else if state.blocked.is_none() {
            state.blocked = Some(now);
        }
    }

    /// Until when it may go on so, and what is late then.
    pub(crate) fn deadline(&self) -> (Instant, Late) {
        let Times { header, idle, write } = self.times;
        let state = self.state.lock();
        let doing = match (state.requests, state.in_header) {
            (0, true) => (state.since + header, Late::Header),
            (0, false) => (state.since.max(state.active_where_http1()) + idle, Late::Idle),
            // Their own times are those of bodies. Where nothing at all happens, nobody is there.
            _ => (state.active + idle.max(LEAST_WORK) * 2, Late::Idle),
        };
        match state.blocked {
            Some(since) if since + write < doing.0 => (since + write, Late::Write),
            _ => doing,
        }
    }

    /// Since when it has been of no use to anyone; `None` while it is.
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
        // A header that comes byte by byte gets no more time.
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
        // The next one's header.
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
