//! The first of many rows, in an order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::contract::Order;

/// By which rows are ordered; the greatest come first.
pub(crate) type Rank = (i64, i64);

/// The rank of a row.
pub(crate) const fn rank(order: Order, start_unix_nano: i64, duration_nano: i64) -> Rank {
    match order {
        Order::NewestFirst => (start_unix_nano, 0),
        Order::LongestFirst => (duration_nano, start_unix_nano),
    }
}

/// As many of the first rows, each a rank and a place, as are asked for.
#[derive(Debug)]
pub(crate) struct First<P> {
    limit: usize,
    /// The last of them on top.
    rows: BinaryHeap<Reverse<(Rank, P)>>,
}

impl<P: Copy + Ord> First<P> {
    /// None yet, and never more than this.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, rows: BinaryHeap::new() }
    }

    /// Whether rows of at most this rank cannot be among them.
    pub(crate) fn is_decided_before(&self, rank: Rank) -> bool {
        self.rows.len() >= self.limit && self.rows.peek().is_none_or(|last| rank <= last.0.0)
    }

    /// Takes a row, where it is one of them.
    pub(crate) fn admit(&mut self, rank: Rank, place: P) {
        if self.is_decided_before(rank) {
            return;
        }
        self.rows.push(Reverse((rank, place)));
        if self.rows.len() > self.limit {
            self.rows.pop();
        }
    }

    /// They, in no order.
    pub(crate) fn into_vec(self) -> Vec<(Rank, P)> {
        self.rows.into_iter().map(|Reverse(row)| row).collect()
    }
}
