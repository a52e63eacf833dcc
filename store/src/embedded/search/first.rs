//! Selects the first rows in an order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::contract::Order;

/// The sort key of rows, descending.
pub(crate) type Rank = (i64, i64);

/// The rank of a row.
pub(crate) const fn rank(order: Order, start_unix_nano: i64, duration_nano: i64) -> Rank {
    match order {
        Order::NewestFirst => (start_unix_nano, 0),
        Order::LongestFirst => (duration_nano, start_unix_nano),
    }
}

/// The first rows, each with rank and location.
#[derive(Debug)]
pub(crate) struct First<P> {
    limit: usize,
    /// The last of them is on top.
    rows: BinaryHeap<Reverse<(Rank, P)>>,
}

impl<P: Copy + Ord> First<P> {
    /// An empty selection of at most `limit` rows.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, rows: BinaryHeap::new() }
    }

    /// Whether no row of at most this rank can be selected any more.
    pub(crate) fn is_decided_before(&self, rank: Rank) -> bool {
        self.rows.len() >= self.limit && self.rows.peek().is_none_or(|last| rank <= last.0.0)
    }

    /// Adds a row if it is among the first ones.
    pub(crate) fn admit(&mut self, rank: Rank, place: P) {
        if self.is_decided_before(rank) {
            return;
        }
        self.rows.push(Reverse((rank, place)));
        if self.rows.len() > self.limit {
            self.rows.pop();
        }
    }

    /// The selected rows, unordered.
    pub(crate) fn into_vec(self) -> Vec<(Rank, P)> {
        self.rows.into_iter().map(|Reverse(row)| row).collect()
    }
}
