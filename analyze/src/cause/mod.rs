//! Causes: which service made a range of time differ from the usual ranges before it.
//!
//! Each span's time is split into its own time and the time of the calls that it made. What a call
//! took beyond the span of the service that answered it, was spent between the two services. Both
//! are compared with other ranges of the same length, by medians, so that single ranges that were
//! unusual themselves do not matter. What services do (calls for each span) and their own errors
//! are compared as well, and how many calls between two services had retransmits. A service is suspected by the share of the added time that it explains.
//! docs/analysis.md has the formulas and what they reach on published faults.

mod deviation;
mod figures;
mod shares;
#[cfg(test)]
mod tests;
mod verdict;

pub use figures::{CauseCall, CauseFigures, CauseValue, change};
pub use shares::CauseSpan;
pub use verdict::{CauseVerdict, Evidence, Suspect};

use ahash::AHashMap;

use crate::names::Name;

/// What is compared: own time of an operation, or time between two services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Item {
    /// Own time of a service's operation.
    Own { service: Name, operation: Name },
    /// Time between a caller and the service that answers it.
    Between { client: Name, server: Name },
    /// Time that a database took for an operation of one of its clients.
    Stored { store: Name, operation: Name, client: Name },
}

/// What happened in a range of time.
#[derive(Debug, Default)]
pub struct CauseRange {
    /// Milliseconds of each span, by item.
    times: AHashMap<Item, Vec<f64>>,
    /// Of each operation: its spans, the calls that they made, the squares of these, and failures
    /// that no failed call explains.
    work: AHashMap<Worker, Work>,
    /// Of the calls between two services.
    sent: AHashMap<Item, Sent>,
    spans: usize,
}

/// A service's operation, and the client that a database does it for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Worker {
    service: Name,
    operation: Name,
    client: Option<Name>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Work {
    spans: f64,
    calls: f64,
    calls_squared: f64,
    own_errors: f64,
    /// Spans with a call that failed, and their calls.
    hindered: f64,
    hindered_calls: f64,
}

/// Calls that a kernel saw, and those of them with retransmits.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    calls: f64,
    repeated: f64,
}

impl CauseRange {
    /// What these spans, which started in the range, did. Spans whose parents or children started
    /// elsewhere count as if these were not there, so a range should be much longer than a request.
    pub fn of(spans: &[CauseSpan]) -> Self {
        let mut range = Self { spans: spans.len(), ..Self::default() };
        for share in shares::of(spans) {
            let span = &spans[share.span];
            let CauseSpan { service, operation, .. } = *span;
            let client = share.client(spans);
            let own = match client {
                Some(client) => Item::Stored { store: service, operation, client },
                None => Item::Own { service, operation },
            };
            let item = share.server.map_or(own, |server| Item::Between { client: service, server });
            range.times.entry(item).or_default().push(share.own_nano as f64 / 1e6);
            if let (Item::Between { .. }, Some(retransmits)) = (item, share.retransmits) {
                let sent = range.sent.entry(item).or_default();
                sent.calls += 1.0;
                sent.repeated += f64::from(u8::from(retransmits > 0));
            }
            let work = range.work.entry(Worker { service, operation, client }).or_default();
            let calls = share.calls as f64;
            work.spans += 1.0;
            work.calls += calls;
            work.calls_squared += calls * calls;
            work.own_errors += f64::from(u8::from(share.own_error));
            if share.failed_call {
                work.hindered += 1.0;
                work.hindered_calls += calls;
            }
        }
        range
    }

    /// Number of spans.
    pub const fn spans(&self) -> usize {
        self.spans
    }
}
