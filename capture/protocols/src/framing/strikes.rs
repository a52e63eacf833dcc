//! How often a connection may err before it is taken to speak something else.

use crate::counters::ParserCounters;
use crate::parser::Outcome;

/// So many malformed messages in a row are too many.
const MAX_STRIKES: u8 = 3;

/// Malformed messages in a row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Strikes(u8);

impl Strikes {
    /// None yet.
    pub(crate) const NONE: Self = Self(0);

    /// A message was sound.
    #[inline]
    pub(crate) const fn clear(&mut self) {
        self.0 = 0;
    }

    /// A message is malformed: [`Outcome::Foreign`] where there were too many in a row.
    pub(crate) const fn strike(&mut self, counters: &mut ParserCounters) -> Outcome {
        counters.malformed_messages += 1;
        self.0 = self.0.saturating_add(1);
        self.outcome()
    }

    /// What the strikes so far come to.
    pub(crate) const fn outcome(self) -> Outcome {
        if self.0 >= MAX_STRIKES { Outcome::Foreign } else { Outcome::Read }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_malformed_messages_in_a_row_are_too_many() {
        let mut counters = ParserCounters::default();
        let mut strikes = Strikes::NONE;
        for _ in 0..2 {
            assert_eq!(strikes.strike(&mut counters), Outcome::Read);
            assert_eq!(strikes.strike(&mut counters), Outcome::Read);
            strikes.clear();
        }
        for outcome in [Outcome::Read, Outcome::Read, Outcome::Foreign] {
            assert_eq!(strikes.strike(&mut counters), outcome);
        }
        assert_eq!(counters.malformed_messages, 7);
    }
}
