//! What all connections of a tracer share.

use spanwise_capture_attribution::Attributor;
use spanwise_capture_protocols::memory::Memory;
use spanwise_capture_protocols::parser::Known;
use spanwise_capture_protocols::sessions::{Conversation, Exchanges, Finished};

use crate::counters::Counters;

/// What is lent to whoever reads the bytes of a connection.
pub(crate) struct Common {
    /// Whose request a call is for, and who processes are.
    pub(crate) attributor: Attributor,
    /// Totals.
    pub(crate) counters: Counters,
    /// What parsers remember beyond one connection.
    pub(crate) memory: Memory,
    /// What connections are taken to speak, where their bytes are not asked.
    pub(crate) assumed: Option<&'static Known>,
    /// Exchanges that have ended since spans were made of the last ones.
    pub(crate) finished: Finished,
}

impl Common {
    /// The conversation of the connection whose exchanges these are.
    #[inline]
    pub(crate) fn conversation<'a>(&'a mut self, exchanges: &'a mut Exchanges) -> Conversation<'a> {
        Conversation::new(
            exchanges,
            &mut self.counters.parsers,
            &mut self.memory,
            &mut self.attributor,
            &mut self.finished,
        )
    }
}
