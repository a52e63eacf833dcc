//! Counters by name.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use spanwise_model::{ClockFault, ClockFaults};
use spanwise_wire::LeftOut;
use spanwise_wire::otlp::Rejections;

/// Everything that is counted here, so that a name is shown before it first
/// happens. Spans rejected from requests are counted as
/// `spans_rejected_REASON` besides, and those with impossible times, which are
/// kept, as `spans_clock_FAULT`.
pub(crate) const NAMES: &[&str] = &[
    AGENTS_FORGOTTEN,
    CONNECTIONS_EVICTED,
    CONNECTIONS_IDLE,
    CONNECTIONS_LATE_HEADER,
    CONNECTIONS_LATE_WRITE,
    CONNECTIONS_MISTAKEN,
    CONNECTIONS_NOT_ACCEPTED,
    CONNECTIONS_REFUSED_ADDRESS,
    CONNECTIONS_REFUSED_DESCRIPTORS,
    FACTS_TOO_LARGE,
    FLIGHT_STREAMS_UNBOUND,
    REQUESTS_REFUSED_HOST,
    REQUESTS_REFUSED_ORIGIN,
    REQUESTS_WRONG_PATH,
    CONNECTIONS_REFUSED,
    FACTS_MALFORMED,
    FLIGHT_BATCHES,
    FLIGHT_MALFORMED,
    FLIGHT_REFUSED,
    FLIGHT_SPANS,
    FLIGHT_STREAMS_REFUSED,
    JAEGER_GRPC_REQUESTS,
    JAEGER_HTTP_REQUESTS,
    JAEGER_SPANS,
    JAEGER_UDP_DATAGRAMS,
    JAEGER_UDP_DROPPED_KERNEL,
    JAEGER_UDP_DROPPED_MEMORY,
    JAEGER_UDP_DROPPED_QUEUE,
    JAEGER_UDP_REJECTED,
    JAEGER_UDP_SPANS_REFUSED,
    JAEGER_UDP_SPANS_SHUTDOWN,
    OTAP_BATCHES,
    OTAP_ORPHANS,
    OTAP_SPANS,
    OTAP_STREAMS_BROKEN,
    OTAP_STREAMS_OPENED,
    OTAP_STREAMS_OUTGROWN,
    OTAP_STREAMS_REFUSED,
    OTLP_GRPC_REQUESTS,
    OTLP_HTTP_REQUESTS,
    OTLP_SPANS,
    REQUESTS_BROKEN_OFF,
    REQUESTS_FAILED,
    REQUESTS_MALFORMED,
    REQUESTS_REFUSED_MEMORY,
    REQUESTS_REFUSED_STORE,
    REQUESTS_TIMED_OUT,
    REQUESTS_TOO_LARGE,
    REQUESTS_UNSUPPORTED,
    ZIPKIN_REQUESTS,
    ZIPKIN_SPANS,
];

pub(crate) const AGENTS_FORGOTTEN: &str = "agents_forgotten";
pub(crate) const CONNECTIONS_EVICTED: &str = "connections_evicted";
pub(crate) const CONNECTIONS_IDLE: &str = "connections_closed_idle";
pub(crate) const CONNECTIONS_LATE_HEADER: &str = "connections_closed_header_late";
pub(crate) const CONNECTIONS_LATE_WRITE: &str = "connections_closed_answer_unread";
pub(crate) const CONNECTIONS_MISTAKEN: &str = "connections_of_other_protocol";
pub(crate) const CONNECTIONS_NOT_ACCEPTED: &str = "connections_not_accepted";
pub(crate) const CONNECTIONS_REFUSED_ADDRESS: &str = "connections_refused_address";
pub(crate) const CONNECTIONS_REFUSED_DESCRIPTORS: &str = "connections_refused_descriptors";
pub(crate) const FACTS_TOO_LARGE: &str = "flight_facts_too_large";
pub(crate) const FLIGHT_STREAMS_UNBOUND: &str = "flight_streams_without_secret";
pub(crate) const REQUESTS_REFUSED_HOST: &str = "requests_refused_host";
pub(crate) const REQUESTS_REFUSED_ORIGIN: &str = "requests_refused_origin";
pub(crate) const REQUESTS_WRONG_PATH: &str = "requests_wrong_path";
pub(crate) const CONNECTIONS_REFUSED: &str = "connections_refused";
pub(crate) const FACTS_MALFORMED: &str = "flight_facts_malformed";
pub(crate) const FLIGHT_BATCHES: &str = "flight_batches_accepted";
pub(crate) const FLIGHT_MALFORMED: &str = "flight_streams_malformed";
pub(crate) const FLIGHT_REFUSED: &str = "flight_batches_refused";
pub(crate) const FLIGHT_SPANS: &str = "flight_spans_accepted";
pub(crate) const FLIGHT_STREAMS_REFUSED: &str = "flight_streams_refused";
pub(crate) const JAEGER_GRPC_REQUESTS: &str = "jaeger_grpc_requests";
pub(crate) const JAEGER_HTTP_REQUESTS: &str = "jaeger_http_requests";
pub(crate) const JAEGER_SPANS: &str = "jaeger_spans_accepted";
pub(crate) const JAEGER_UDP_DATAGRAMS: &str = "jaeger_udp_datagrams";
pub(crate) const JAEGER_UDP_DROPPED_KERNEL: &str = "jaeger_udp_datagrams_dropped_kernel";
pub(crate) const JAEGER_UDP_DROPPED_MEMORY: &str = "jaeger_udp_datagrams_dropped_memory";
pub(crate) const JAEGER_UDP_DROPPED_QUEUE: &str = "jaeger_udp_datagrams_dropped_queue_full";
pub(crate) const JAEGER_UDP_REJECTED: &str = "jaeger_udp_datagrams_rejected";
pub(crate) const JAEGER_UDP_SPANS_REFUSED: &str = "jaeger_udp_spans_dropped_refused";
pub(crate) const JAEGER_UDP_SPANS_SHUTDOWN: &str = "jaeger_udp_spans_dropped_shutdown";
pub(crate) const OTAP_BATCHES: &str = "otap_batches";
pub(crate) const OTAP_ORPHANS: &str = "otap_rows_dropped_no_owner";
pub(crate) const OTAP_SPANS: &str = "otap_spans_accepted";
pub(crate) const OTAP_STREAMS_BROKEN: &str = "otap_streams_broken";
pub(crate) const OTAP_STREAMS_OPENED: &str = "otap_streams_opened";
pub(crate) const OTAP_STREAMS_OUTGROWN: &str = "otap_streams_outgrown";
pub(crate) const OTAP_STREAMS_REFUSED: &str = "otap_streams_refused";
pub(crate) const OTLP_GRPC_REQUESTS: &str = "otlp_grpc_requests";
pub(crate) const OTLP_HTTP_REQUESTS: &str = "otlp_http_requests";
pub(crate) const OTLP_SPANS: &str = "otlp_spans_accepted";
pub(crate) const REQUESTS_BROKEN_OFF: &str = "requests_broken_off";
pub(crate) const REQUESTS_FAILED: &str = "requests_failed";
pub(crate) const REQUESTS_MALFORMED: &str = "requests_malformed";
pub(crate) const REQUESTS_REFUSED_MEMORY: &str = "requests_refused_memory";
pub(crate) const REQUESTS_REFUSED_STORE: &str = "requests_refused_store";
pub(crate) const REQUESTS_TIMED_OUT: &str = "requests_timed_out";
pub(crate) const REQUESTS_TOO_LARGE: &str = "requests_too_large";
pub(crate) const REQUESTS_UNSUPPORTED: &str = "requests_unsupported";
pub(crate) const ZIPKIN_REQUESTS: &str = "zipkin_requests";
pub(crate) const ZIPKIN_SPANS: &str = "zipkin_spans_accepted";

/// Counted once or twice per request, so a lock costs nothing that matters.
pub(crate) struct Counters(Mutex<BTreeMap<String, u64>>);

impl Counters {
    pub(crate) fn new() -> Self {
        let rejected = Rejections::REASONS.iter().map(|reason| rejected(reason));
        let faults = ClockFault::ALL.into_iter().map(clock);
        let own = NAMES.iter().copied().chain(LeftOut::NAMES).map(str::to_owned);
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
