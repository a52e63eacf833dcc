//! Named counters of what parsers did and what they had to drop.

/// Declares a struct of named counters.
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])* $struct:ident { $($(#[$doc:meta])* $name:ident,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct $struct { $($(#[$doc])* pub $name: u64,)+ }

        impl $struct {
            /// Every counter with its name, in declared order.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)+]
            }
        }
    };
}

impl ParserCounters {
    /// Losses that might have been avoided if more bytes of each call had been captured.
    #[inline]
    pub const fn lost_for_bytes_not_captured(&self) -> u64 {
        self.heads_cut + self.framing_lost
    }
}

counters! {
    /// Parser counters since start.
    ParserCounters {
        /// Message heads that exceeded the size limit or were not captured completely. The span has
        /// the part that was captured.
        heads_cut,
        /// Messages whose end was inferred from silence or from the next request.
        framing_lost,
        /// Times that parsing resumed after message boundaries were lost.
        resynchronised,
        /// Bytes found where a message should have begun but did not.
        malformed_messages,
        /// Responses without a seen request.
        orphan_responses,
        /// Responses that could not belong to the waiting requests. The spans of these requests say
        /// so, and pairing starts again.
        out_of_step,
        /// Requests abandoned because bytes of their connection were not seen.
        requests_lost,
        /// Requests beyond the limit on open requests per connection.
        requests_over_limit,
        /// Requests without a response before the timeout.
        requests_timed_out,
        /// Plugin calls that trapped. The connection is not parsed any further; the same holds for
        /// the next three counters.
        plugin_traps,
        /// Plugin calls that exceeded their time limit.
        plugin_calls_without_end,
        /// Plugin calls that exceeded their memory limit.
        plugin_memory_refused,
        /// Invalid results from plugins.
        plugin_answers_invalid,
        /// Plugin calls skipped because the plugin had used up its time budget for that second.
        /// Their input is lost.
        plugin_calls_over_budget,
        /// Plugins disabled after too many failures.
        plugins_switched_off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_each_counter_with_its_value() {
        let counters = ParserCounters { heads_cut: 7, ..ParserCounters::default() };
        assert!(counters.list().contains(&("heads_cut", 7)));
        assert!(counters.list().contains(&("framing_lost", 0)));
    }
}
