//! A conversation: the exchanges of one connection, with what all connections share.

use std::ops::{Deref, DerefMut};

use super::{Exchange, Exchanges};
use crate::attribution::Attribution;
use crate::counters::ParserCounters;
use crate::memory::Memory;
use crate::redaction::Hidden;

/// What a parser reads into. It opens exchanges and completes them; who they are
/// attributed to, and where they go when they are complete, is not the parser's business.
pub struct Conversation<'a> {
    /// The exchanges of this connection.
    pub exchanges: &'a mut Exchanges,
    /// What parsers count.
    pub counters: &'a mut ParserCounters,
    /// What parsers remember beyond one connection.
    pub memory: &'a mut Memory,
    pub(super) attribution: &'a mut dyn Attribution,
    pub(super) finished: &'a mut Finished,
}

/// Exchanges that are complete, in the order in which they ended.
#[derive(Debug, Default)]
pub struct Finished {
    /// They wait here to be taken.
    pub exchanges: Vec<Exchange>,
    /// Exchanges so far: it numbers each.
    numbered: u64,
}

impl Finished {
    /// The number of the next exchange.
    pub const fn next_id(&mut self) -> u64 {
        self.numbered += 1;
        self.numbered
    }
}

impl<'a> Conversation<'a> {
    /// Of the connection whose exchanges these are.
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

    /// Nothing is left to say of it.
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
