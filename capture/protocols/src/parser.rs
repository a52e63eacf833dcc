//! What a protocol is to whoever reads connections: how its bytes are recognised, and a
//! parser for each connection that speaks it.

use std::fmt;

use crate::bytes::{Input, Side};
use crate::sessions::{Conversation, Exchanges};

/// A protocol that connections may be recognised as.
pub struct Known {
    /// Its name, which is also its folder's in `tests/recorded`.
    pub name: &'static str,
    /// Its opinion of the first bytes that one side sent. `whole` where they are
    /// all that the system calls moved so far.
    pub recognise: fn(side: Side, bytes: &[u8], whole: bool) -> Likeness,
    /// A parser for a connection; `serving` where the traced process answers.
    pub parser: fn(serving: bool) -> Box<dyn Protocol>,
}

impl Known {
    /// Which of `sides` these first bytes look most like.
    pub fn speaker(&self, bytes: &[u8], sides: &[Side]) -> Side {
        let likely = |side: &&Side| {
            matches!((self.recognise)(**side, bytes, false), Likeness::Yes | Likeness::AtFirst)
        };
        sides.iter().find(likely).or(sides.first()).copied().unwrap_or(Side::Request)
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// How bytes look to a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// They are its.
    Yes,
    /// They are its if they begin the connection: others say the same later on.
    AtFirst,
    /// They are as far as they go.
    Maybe,
    /// They are not.
    No,
}

/// What a parser made of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Read.
    Read,
    /// These are not this protocol's bytes.
    Foreign,
    /// From here on the connection does not speak this protocol any more.
    Switched,
    /// From here on the connection is encrypted.
    Encrypted,
    /// Nobody can read these bytes, nor what follows.
    Unreadable,
}

/// A protocol's parser for one connection: reads both directions, opens
/// exchanges and completes them. Whatever it is given, it holds a bounded
/// number of bytes.
pub trait Protocol: Send {
    /// Its name in the `protocol` column.
    fn name(&self) -> &'static str;

    /// Reads bytes of one side. Input without captured bytes stands for bytes
    /// that were not seen.
    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome;

    /// The other side begins to speak: `to` spoke not last.
    fn turn(&mut self, _to: Side, _conversation: &mut Conversation<'_>) {}

    /// Nothing came for a while: what ends by silence has ended.
    fn quiet(&mut self, _conversation: &mut Conversation<'_>) {}

    /// The connection is closed: what ends by closing has ended.
    fn closed(&mut self, _conversation: &mut Conversation<'_>) {}

    /// Whether the answering side is between two messages.
    fn between_responses(&self) -> bool;

    /// Whether the answering side may speak unasked. Where it may not, what it
    /// says to nobody's request waits a moment for that to be reported.
    fn speaks_unasked(&self) -> bool {
        false
    }

    /// Whether many messages go out in one call, and one that is missed takes from the
    /// meaning of those that follow: more of each call is then captured from the beginning.
    fn batches(&self) -> bool {
        false
    }

    /// Whether these bytes, the answering side's next ones, answer a request that
    /// was not reported yet.
    fn answers_early(&self, _input: &Input<'_>, exchanges: &Exchanges) -> bool {
        !self.speaks_unasked() && exchanges.is_empty() && self.between_responses()
    }

    /// Bytes that it holds.
    fn held_bytes(&self) -> usize;
}
