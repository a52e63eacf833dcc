//! The open exchanges of one connection, and how an exchange ends.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Exchange;
use crate::attribution::Caller;
use crate::bytes::Mark;
use crate::sessions::Encryption;

/// A task that works on a stream of a connection: the task that sent the request or handles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOwner {
    /// Stream id.
    pub stream: u64,
    /// Process of the task.
    pub process: u32,
    /// Task id.
    pub task: u64,
    /// The task that created this task.
    pub parent_task: u64,
}

/// Exchanges of one connection.
#[derive(Debug)]
pub struct Exchanges {
    pub(super) connection: u64,
    /// The caller that opened the connection, until a request is sent.
    pub(super) opener: Option<Caller>,
    pub(super) serving: bool,
    pub(super) encryption: Option<Arc<Encryption>>,
    pub(super) protocol: &'static str,
    pub(super) open: VecDeque<Exchange>,
    /// The message that the process works on, which it has asked for.
    pub(super) work: Option<Box<Exchange>>,
    /// Id of the exchange whose request is still being sent.
    pub(super) uploading: Option<u64>,
    /// Where the connection left the current protocol.
    pub(super) left: Option<Mark>,
    /// Whether several requests have been open at once.
    pub(super) pipelined: bool,
    /// Whether an unknown number of earlier requests still awaits responses.
    pub(super) unsure: bool,
    /// Whether only requests of the connection setup have been seen.
    pub(super) fresh: bool,
    pub(super) held_bytes: usize,
    /// Tasks of streams that were not seen yet.
    pub(super) owners: VecDeque<StreamOwner>,
}

impl Exchanges {
    /// Creates an empty list for a connection that `opener` opened, if this process did.
    pub const fn new(connection: u64, opener: Option<Caller>) -> Self {
        Self {
            connection,
            opener,
            serving: false,
            encryption: None,
            protocol: "",
            open: VecDeque::new(),
            work: None,
            uploading: None,
            left: None,
            pipelined: false,
            unsure: false,
            fresh: true,
            held_bytes: 0,
            owners: VecDeque::new(),
        }
    }

    /// Marks the connection's data as decrypted.
    pub fn decrypted(&mut self, encryption: Encryption) {
        self.encryption = Some(Arc::new(encryption));
    }

    /// How the connection is encrypted, if it is.
    pub fn encryption(&self) -> Option<Arc<Encryption>> {
        self.encryption.clone()
    }

    /// Whether the traced process is the server.
    pub const fn serving(&self) -> bool {
        self.serving
    }

    /// Sets the protocol, and whether the traced process is the server, once they are known.
    pub const fn recognised(&mut self, protocol: &'static str, serving: bool) {
        self.protocol = protocol;
        self.serving = serving;
    }

    /// The connection uses another protocol from `at` on, a position in the current input. Parsers
    /// call this before they return [`crate::parser::Outcome::Switched`] or `Encrypted`. Without
    /// this call, the new protocol begins with the next system call, or with a TLS hello in the
    /// current one.
    pub const fn leave(&mut self, at: Mark) {
        self.left = Some(at);
    }

    /// Takes the position last passed to [`Self::leave`].
    pub const fn take_left(&mut self) -> Option<Mark> {
        self.left.take()
    }

    /// Number of bytes that the open exchanges hold.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether no request awaits a response or the rest of one.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Calls whose response was partly read at this time and is not complete. If responses come in
    /// request order, only the oldest call can match.
    pub fn read_at(&self, time_nano: u64) -> impl Iterator<Item = &Exchange> {
        let by_stream = self.open.front().is_some_and(|oldest| oldest.request.stream != 0);
        let most = if by_stream { self.open.len() } else { 1 };
        self.open.iter().take(most).filter(move |exchange| exchange.was_read_at(time_nano))
    }

    /// Start time of the oldest open request.
    pub fn oldest_nano(&self) -> Option<u64> {
        let waiting = self.open.iter().filter(|exchange| !exchange.spent);
        waiting.map(|exchange| exchange.request_start.time_nano).min()
    }
}
