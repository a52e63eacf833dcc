//! What the span side did, and what it had to drop, by name.

use spanwise_capture_protocols::counters;
use spanwise_capture_protocols::counters::ParserCounters;

counters! {
    /// Totals since the tracer was made.
    TracerCounters {
        /// Events taken in.
        events,
        /// Events that the kernel side had no room for.
        events_lost_in_kernel,
        /// Bytes that went through traced sockets.
        bytes_seen,
        /// Spans made.
        spans,
        /// Exchanges of which no span was made: sampling left them out.
        spans_sampled_out,
        /// Connections opened or first seen.
        connections_opened,
        /// Connections of Unix sockets whose protocol was recognised; of the others
        /// nothing is said.
        unix_connections_read,
        /// Connections whose opening was not reported: their addresses are unknown.
        connections_without_opening,
        /// Connections dropped because there were too many, or they held too much.
        connections_evicted,
        /// Connections whose protocol was not recognised: each is one span, or one a
        /// part.
        connections_of_unknown_protocol,
        /// Connections that are, or became, encrypted: what follows is one span, or
        /// one a part.
        connections_encrypted,
        /// Connections whose plaintext a TLS library gave: spans come from that.
        connections_decrypted,
        /// Connections that left their protocol (HTTP upgrade or CONNECT, Redis
        /// subscription or replication): what follows is one span, or one a part.
        connections_switched,
        /// Connections of which more is captured, for messages were lost on them.
        connections_captured_further,
        /// Times that a connection turned out to speak another protocol.
        protocol_changes,
        /// Bytes that `sendfile` and `splice` moved: counted, not read.
        bytes_moved_by_sendfile,
        /// Bytes that `io_uring` moved: counted, not read.
        bytes_moved_by_io_uring,
        /// Bytes moved by other calls than those that are read, or by the kernel
        /// itself: counted, not read.
        bytes_moved_by_other_calls,
        /// Bytes missing between two events of one direction.
        gap_bytes,
        /// Events, or parts of them, that repeated bytes already seen.
        overlaps,
        /// Spans of which it is not known what was asked for: it was said before the agent saw
        /// the connection, or in bytes that it did not see.
        operations_unknown,
        /// Spans of which it is not known how they ended.
        statuses_unknown,
        /// Client requests that belong to one of several open server requests.
        fragments_ambiguous,
        /// Processes found to handle requests on several threads, or several on one.
        processes_without_thread_discipline,
    }
}

/// What the tracer and its parsers did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// The tracer.
    pub tracer: TracerCounters,
    /// Its parsers.
    pub parsers: ParserCounters,
}

impl Counters {
    /// Every counter with its name.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        let mut list = self.tracer.list();
        list.extend(self.parsers.list());
        list
    }
}
