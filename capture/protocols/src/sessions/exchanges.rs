//! The exchanges of one connection: what is open, and how an exchange ends.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Exchange;
use crate::attribution::Caller;
use crate::bytes::Mark;
use crate::sessions::Encryption;

/// A task that works on a stream of a connection: it has sent the request, or handles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamOwner {
    /// The stream.
    pub stream: u64,
    /// Its process.
    pub process: u32,
    /// The task.
    pub task: u64,
    /// The task by which that was made.
    pub parent_task: u64,
}

/// The exchanges of one connection.
#[derive(Debug)]
pub struct Exchanges {
    pub(super) connection: u64,
    /// Who connected, until a request was sent.
    pub(super) opener: Option<Caller>,
    pub(super) serving: bool,
    pub(super) encryption: Option<Arc<Encryption>>,
    pub(super) protocol: &'static str,
    pub(super) open: VecDeque<Exchange>,
    /// The exchange whose request is still passing.
    pub(super) uploading: Option<u64>,
    /// Where the connection left what was spoken.
    pub(super) left: Option<Mark>,
    /// Several requests have been open at once.
    pub(super) pipelined: bool,
    /// Of requests that were sent before, an unknown number is still to be answered.
    pub(super) unsure: bool,
    /// No request but those of the connection's opening has been seen.
    pub(super) fresh: bool,
    pub(super) held_bytes: usize,
    /// Tasks of streams that were not seen yet.
    pub(super) owners: VecDeque<StreamOwner>,
}

impl Exchanges {
    /// No exchanges yet, on a connection that `opener` has made, if it was this process.
    pub const fn new(connection: u64, opener: Option<Caller>) -> Self {
        Self {
            connection,
            opener,
            serving: false,
            encryption: None,
            protocol: "",
            open: VecDeque::new(),
            uploading: None,
            left: None,
            pipelined: false,
            unsure: false,
            fresh: true,
            held_bytes: 0,
            owners: VecDeque::new(),
        }
    }

    /// What is read was encrypted on its way.
    pub fn decrypted(&mut self, encryption: Encryption) {
        self.encryption = Some(Arc::new(encryption));
    }

    /// How what is read was encrypted on its way, if it was.
    pub fn encryption(&self) -> Option<Arc<Encryption>> {
        self.encryption.clone()
    }

    /// Whether the traced process answers.
    pub const fn serving(&self) -> bool {
        self.serving
    }

    /// Says what is spoken and whether the traced process answers, once that is
    /// known.
    pub const fn recognised(&mut self, protocol: &'static str, serving: bool) {
        self.protocol = protocol;
        self.serving = serving;
    }

    /// The connection speaks something else from `at` on, a place in the input
    /// being read. Said before [`crate::parser::Outcome::Switched`] or
    /// `Encrypted` is returned; where it is not, the next system call is the first
    /// of it, or a greeting of TLS in this one.
    pub const fn leave(&mut self, at: Mark) {
        self.left = Some(at);
    }

    /// What [`Self::leave`] was told last.
    pub const fn take_left(&mut self) -> Option<Mark> {
        self.left.take()
    }

    /// Bytes that the open exchanges hold.
    pub const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether no request waits for its response or for the rest of it.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The calls of which some of the answer was read at this time and more is to come. Of
    /// those that are answered in their order that is the oldest.
    pub fn read_at(&self, time_nano: u64) -> impl Iterator<Item = &Exchange> {
        let by_stream = self.open.front().is_some_and(|oldest| oldest.request.stream != 0);
        let most = if by_stream { self.open.len() } else { 1 };
        self.open.iter().take(most).filter(move |exchange| exchange.was_read_at(time_nano))
    }

    /// When the oldest open request began.
    pub fn oldest_nano(&self) -> Option<u64> {
        let waiting = self.open.iter().filter(|exchange| !exchange.spent);
        waiting.map(|exchange| exchange.request_start.time_nano).min()
    }
}
