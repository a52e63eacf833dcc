//! What parsers did, and what they had to drop, by name.

/// Declares a struct of counters, each with its name.
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
    /// What may not have been lost, had more been captured of each call.
    #[inline]
    pub const fn lost_for_bytes_not_captured(&self) -> u64 {
        self.heads_cut + self.framing_lost
    }
}

counters! {
    /// What parsers did since they were made.
    ParserCounters {
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
        /// Answers that could not be those of the requests that waited for one: these say so,
        /// and pairing begins anew.
        out_of_step,
        /// Requests given up because bytes of their connection were not seen.
        requests_lost,
        /// Requests beyond the bound on open ones per connection.
        requests_over_limit,
        /// Requests that were not answered in time.
        requests_timed_out,
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
