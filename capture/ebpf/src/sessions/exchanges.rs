//! The exchanges of one connection: what is open, and how an exchange ends.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Desk, Exchange};
use crate::context::Caller;
use crate::event::Task;
use crate::protocols::Mark;
use crate::protocols::tls::Encryption;

/// The exchanges of one connection.
#[derive(Debug)]
pub(crate) struct Exchanges {
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
    pub(super) owners: VecDeque<Task>,
}

impl Exchanges {
    /// No exchanges yet, on a connection that `opener` has made, if it was this process.
    pub(crate) const fn new(connection: u64, opener: Option<Caller>) -> Self {
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
    pub(crate) fn decrypted(&mut self, encryption: Encryption) {
        self.encryption = Some(Arc::new(encryption));
    }

    /// How what is read was encrypted on its way, if it was.
    pub(crate) fn encryption(&self) -> Option<Arc<Encryption>> {
        self.encryption.clone()
    }

    /// Whether the traced process answers.
    pub(crate) const fn serving(&self) -> bool {
        self.serving
    }

    /// Says what is spoken and whether the traced process answers, once that is
    /// known.
    pub(crate) const fn recognised(&mut self, protocol: &'static str, serving: bool) {
        self.protocol = protocol;
        self.serving = serving;
    }

    /// The connection speaks something else from `at` on, a place in the input
    /// being read. Said before [`crate::protocols::Outcome::Switched`] or
    /// `Encrypted` is returned; where it is not, the next system call is the first
    /// of it, or a greeting of TLS in this one.
    pub(crate) const fn leave(&mut self, at: Mark) {
        self.left = Some(at);
    }

    /// What [`Self::leave`] was told last.
    pub(crate) const fn take_left(&mut self) -> Option<Mark> {
        self.left.take()
    }

    /// Bytes that the open exchanges hold.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether no request waits for its response or for the rest of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The calls of which some of the answer was read at this time and more is to come. Of
    /// those that are answered in their order that is the oldest.
    pub(crate) fn read_at(&self, time_nano: u64) -> impl Iterator<Item = &Exchange> {
        let by_stream = self.open.front().is_some_and(|oldest| oldest.request.stream != 0);
        let most = if by_stream { self.open.len() } else { 1 };
        self.open.iter().take(most).filter(move |exchange| exchange.was_read_at(time_nano))
    }

    /// When the oldest open request began.
    pub(crate) fn oldest_nano(&self) -> Option<u64> {
        let waiting = self.open.iter().filter(|exchange| !exchange.spent);
        waiting.map(|exchange| exchange.request_start.time_nano).min()
    }

    pub(super) fn finish_oldest(&mut self, complete: bool, desk: &mut Desk<'_>) {
        if let Some(exchange) = self.open.pop_front() {
            self.finish(exchange, complete, desk);
        }
    }

    pub(super) fn finish(&mut self, exchange: Exchange, complete: bool, desk: &mut Desk<'_>) {
        if exchange.spent {
            return;
        }
        self.held_bytes -= exchange.weight;
        exchange.leave_context(complete, desk);
        if !exchange.request.silent || exchange.answer.failure.is_some() {
            desk.finished.push(exchange);
        }
    }
}
