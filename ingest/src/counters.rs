//! Named counters.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use spanwise_model::{ClockFault, ClockFaults};
use spanwise_wire::LeftOut;
use spanwise_wire::otlp::Rejections;

/// Counters of connections and requests, listed so that each is shown before it first counts.
/// Receivers list their own. There are also `spans_rejected_REASON` for spans rejected from
/// requests, and `spans_clock_FAULT` for spans with impossible times, which are kept.
const NAMES: &[&str] = &[
    CONNECTIONS_EVICTED,
    CONNECTIONS_IDLE,
    CONNECTIONS_LATE_HEADER,
    CONNECTIONS_LATE_WRITE,
    CONNECTIONS_MISTAKEN,
    CONNECTIONS_NOT_ACCEPTED,
    CONNECTIONS_REFUSED_ADDRESS,
    CONNECTIONS_REFUSED_DESCRIPTORS,
    REQUESTS_REFUSED_HOST,
    REQUESTS_REFUSED_ORIGIN,
    REQUESTS_WRONG_PATH,
    CONNECTIONS_REFUSED,
    REQUESTS_BROKEN_OFF,
    REQUESTS_FAILED,
    REQUESTS_MALFORMED,
    REQUESTS_REFUSED_MEMORY,
    REQUESTS_REFUSED_STORE,
    REQUESTS_TIMED_OUT,
    REQUESTS_TOO_LARGE,
    REQUESTS_UNSUPPORTED,
    crate::keys::FOUND,
    crate::keys::UNHASHED,
];

pub(crate) const CONNECTIONS_EVICTED: &str = "connections_evicted";
pub(crate) const CONNECTIONS_IDLE: &str = "connections_closed_idle";
pub(crate) const CONNECTIONS_LATE_HEADER: &str = "connections_closed_header_late";
pub(crate) const CONNECTIONS_LATE_WRITE: &str = "connections_closed_answer_unread";
pub(crate) const CONNECTIONS_MISTAKEN: &str = "connections_of_other_protocol";
pub(crate) const CONNECTIONS_NOT_ACCEPTED: &str = "connections_not_accepted";
pub(crate) const CONNECTIONS_REFUSED_ADDRESS: &str = "connections_refused_address";
pub(crate) const CONNECTIONS_REFUSED_DESCRIPTORS: &str = "connections_refused_descriptors";
pub(crate) const REQUESTS_REFUSED_HOST: &str = "requests_refused_host";
pub(crate) const REQUESTS_REFUSED_ORIGIN: &str = "requests_refused_origin";
pub(crate) const REQUESTS_WRONG_PATH: &str = "requests_wrong_path";
pub(crate) const CONNECTIONS_REFUSED: &str = "connections_refused";
pub(crate) const REQUESTS_BROKEN_OFF: &str = "requests_broken_off";
pub(crate) const REQUESTS_FAILED: &str = "requests_failed";
pub(crate) const REQUESTS_MALFORMED: &str = "requests_malformed";
pub(crate) const REQUESTS_REFUSED_MEMORY: &str = "requests_refused_memory";
pub(crate) const REQUESTS_REFUSED_STORE: &str = "requests_refused_store";
pub(crate) const REQUESTS_TIMED_OUT: &str = "requests_timed_out";
pub(crate) const REQUESTS_TOO_LARGE: &str = "requests_too_large";
pub(crate) const REQUESTS_UNSUPPORTED: &str = "requests_unsupported";

/// Each request counts once or twice, so the cost of a lock does not matter.
pub(crate) struct Counters(Mutex<BTreeMap<String, u64>>);

impl Counters {
    /// All counters at zero, including those of the receivers.
    pub(crate) fn new(of_receivers: &[&str]) -> Self {
        let rejected = Rejections::REASONS.iter().map(|reason| rejected(reason));
        let faults = ClockFault::ALL.into_iter().map(clock);
        let own =
            NAMES.iter().chain(of_receivers).copied().chain(LeftOut::NAMES).map(str::to_owned);
        let names = own.chain(rejected).chain(faults);
        Self(Mutex::new(names.map(|name| (name, 0)).collect()))
    }

    pub(crate) fn add(&self, name: &str, count: u64) {
        let mut all = self.0.lock();
        match all.get_mut(name) {
            Some(counter) => *counter += count,
            None => {
                all.insert(name.to_owned(), count);
            }
        }
    }

    pub(crate) fn add_rejections(&self, rejections: &Rejections) {
        for (reason, count) in rejections.counts() {
            self.add(&rejected(reason), count);
        }
    }

    pub(crate) fn add_left_out(&self, left_out: &LeftOut) {
        for (name, count) in left_out.counts() {
            self.add(name, count);
        }
    }

    pub(crate) fn add_clock_faults(&self, faults: &ClockFaults) {
        for (fault, count) in ClockFault::ALL.into_iter().zip(faults) {
            if *count > 0 {
                self.add(&clock(fault), *count);
            }
        }
    }

    pub(crate) fn snapshot(&self) -> BTreeMap<String, u64> {
        self.0.lock().clone()
    }
}

fn rejected(reason: &str) -> String {
    format!("spans_rejected_{reason}")
}

fn clock(fault: ClockFault) -> String {
    format!("spans_clock_{}", fault.as_str())
}
