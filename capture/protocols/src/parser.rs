//! The interface of a protocol: how its bytes are recognised, and a parser for each connection that
//! uses the protocol.

use std::fmt;

use crate::bytes::{Input, Side};
use crate::sessions::{Conversation, Exchanges};

/// A protocol that can be recognised on a connection.
pub struct Known {
    /// Protocol name, also the name of its folder in `tests/recorded`.
    pub name: &'static str,
    /// Judges the first bytes sent by one side. `whole` is true if these are all bytes that the
    /// system calls have moved so far.
    pub recognise: fn(side: Side, bytes: &[u8], whole: bool) -> Likeness,
    /// Creates a parser for a connection. `serving` is true if the traced process is the server.
    pub parser: fn(serving: bool) -> Box<dyn Protocol>,
}

impl Known {
    /// The side in `sides` that most likely sent these first bytes.
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

/// How well bytes match a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// The bytes belong to this protocol.
    Yes,
    /// The bytes belong to this protocol if they begin the connection. Later in a connection, other
    /// protocols may send the same bytes.
    AtFirst,
    /// The bytes match so far, but there are too few to decide.
    Maybe,
    /// The bytes do not belong to this protocol.
    No,
}

/// Result of parsing bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The bytes were read.
    Read,
    /// The bytes do not belong to this protocol.
    Foreign,
    /// From here on, the connection uses another protocol.
    Switched,
    /// From here on the connection is encrypted.
    Encrypted,
    /// These bytes and all that follow cannot be parsed.
    Unreadable,
}

/// A parser for one connection. It reads both directions, opens exchanges and completes them. It
/// buffers a bounded number of bytes, whatever the input.
pub trait Protocol: Send {
    /// Protocol name in the `protocol` column.
    fn name(&self) -> &'static str;

    /// Reads bytes sent by one side. Input without captured bytes stands for bytes that were not
    /// seen.
    fn read(
        &mut self,
        side: Side,
        input: Input<'_>,
        conversation: &mut Conversation<'_>,
    ) -> Outcome;

    /// The direction changes: `to` starts to send, and the other side sent last.
    fn turn(&mut self, _to: Side, _conversation: &mut Conversation<'_>) {}

    /// The program itself says what a stream asks for; an empty method stands for a gRPC call.
    fn stream_named(
        &mut self,
        _stream: u64,
        _method: &[u8],
        _path: &[u8],
        _conversation: &mut Conversation<'_>,
    ) {
    }

    /// The connection has been idle for a while. Completes messages whose end is only marked by
    /// silence.
    fn quiet(&mut self, _conversation: &mut Conversation<'_>) {}

    /// The connection is closed. Completes messages whose end is marked by closing.
    fn closed(&mut self, _conversation: &mut Conversation<'_>) {}

    /// Whether the responding side is between two messages.
    fn between_responses(&self) -> bool;

    /// Whether the responding side may send without a request. If it may not, a response without a
    /// known request is held briefly until the request is reported.
    fn speaks_unasked(&self) -> bool {
        false
    }

    /// Whether many messages are sent in one call, and a missed message makes the following ones
    /// harder to understand. If so, more bytes of each call are captured from the start.
    fn batches(&self) -> bool {
        false
    }

    /// Whether these next bytes of the responding side answer a request that is not reported yet.
    fn answers_early(&self, _input: &Input<'_>, exchanges: &Exchanges) -> bool {
        !self.speaks_unasked() && exchanges.is_empty() && self.between_responses()
    }

    /// Number of bytes that the parser holds.
    fn held_bytes(&self) -> usize;
}
