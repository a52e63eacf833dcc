//! What the span side did, and what it had to drop, by name.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Totals since the tracer was made.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)+ }

        impl Counters {
            /// Every counter with its name, in declared order.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

impl Counters {
    /// What may not have been lost, had more been captured of each call.
    pub(crate) const fn lost_for_bytes_not_captured(&self) -> u64 {
        self.heads_cut + self.framing_lost
    }
}

counters! {
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
    /// Message heads longer than the bound, or not captured to their end; the
    /// span has what was there.
    heads_cut,
    /// Messages whose end had to be told from silence or from the next request.
    framing_lost,
    /// Times that parsing set in again after it had lost the message borders.
    resynchronised,
    /// Bytes where a message should have begun, and did not.
    malformed_messages,
    /// Responses to requests that were not seen.
    orphan_responses,
    /// Requests given up because bytes of their connection were not seen.
    requests_lost,
    /// Requests beyond the bound on open ones per connection.
    requests_over_limit,
    /// Requests that were not answered in time.
    requests_timed_out,
    /// Client requests that belong to one of several open server requests.
    fragments_ambiguous,
    /// Calls of plugins that trapped; their connections are read no further, as
    /// with the next three.
    plugin_traps,
    /// Calls of plugins that ran for too long.
    plugin_calls_without_end,
    /// Calls of plugins that wanted more memory than they may have.
    plugin_memory_refused,
    /// Answers of plugins that mean nothing.
    plugin_answers_invalid,
    /// Calls of plugins that were not made, as they had taken too much time in
    /// that second; what it was is lost.
    plugin_calls_over_budget,
    /// Plugins that failed too often and are not asked any more.
    plugins_switched_off,
    /// Processes found to handle requests on several threads, or several on one.
    processes_without_thread_discipline,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_each_counter_with_its_value() {
        let counters = Counters { spans: 7, ..Counters::default() };
        assert!(counters.list().contains(&("spans", 7)));
        assert!(counters.list().contains(&("framing_lost", 0)));
    }
}
