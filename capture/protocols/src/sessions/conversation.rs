//! A conversation: the exchanges of one connection, plus state shared by all connections.

use std::ops::{Deref, DerefMut};

use super::{Exchange, Exchanges};
use crate::attribution::Attribution;
use crate::counters::ParserCounters;
use crate::memory::Memory;
use crate::redaction::Hidden;

/// The parsers' interface for opening and completing exchanges. It handles attribution and delivery
/// of completed exchanges, so that parsers need not.
pub struct Conversation<'a> {
    /// Exchanges of this connection.
    pub exchanges: &'a mut Exchanges,
    /// Parser counters.
    pub counters: &'a mut ParserCounters,
    /// State that parsers keep across connections.
    pub memory: &'a mut Memory,
    pub(super) attribution: &'a mut dyn Attribution,
    pub(super) finished: &'a mut Finished,
}

/// Completed exchanges, in the order in which they ended.
#[derive(Debug, Default)]
pub struct Finished {
    /// Completed exchanges that are not collected yet.
    pub exchanges: Vec<Exchange>,
    /// Number of ids assigned so far.
    numbered: u64,
}

impl Finished {
    /// Returns the next exchange id.
    pub const fn next_id(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }
}

impl<'a> Conversation<'a> {
    /// Creates a conversation for the connection that these exchanges belong to.
    #[inline]
    pub fn new(
        exchanges: &'a mut Exchanges,
        counters: &'a mut ParserCounters,
        memory: &'a mut Memory,
        attribution: &'a mut dyn Attribution,
        finished: &'a mut Finished,
    ) -> Self {
        Self { exchanges, counters, memory, attribution, finished }
    }
}

impl Conversation<'_> {
    pub(super) fn finish_oldest(&mut self, complete: bool) {
        if let Some(exchange) = self.open.pop_front() {
            self.finish(exchange, complete);
        }
    }

    pub(super) fn finish(&mut self, exchange: Exchange, complete: bool) {
        if exchange.spent {
            return;
        }
        self.held_bytes -= exchange.weight;
        exchange.leave_process(complete, self.attribution);
        if !exchange.request.silent || exchange.answer.failure.is_some() {
            self.hand_over(exchange);
        }
    }

    /// Hands over an exchange that is final.
    pub(super) fn hand_over(&mut self, mut exchange: Exchange) {
        if let Some(failure) = &exchange.answer.failure
            && let Some(shown) = failure.shown(*self.memory.of::<Hidden>())
        {
            exchange.answer.failure = Some(shown);
        }
        self.finished.exchanges.push(exchange);
    }
}

impl Deref for Conversation<'_> {
    type Target = Exchanges;

    #[inline]
    fn deref(&self) -> &Exchanges {
        self.exchanges
    }
}

impl DerefMut for Conversation<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Exchanges {
        self.exchanges
    }
}
