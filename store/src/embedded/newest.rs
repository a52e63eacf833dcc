//! The newest of many rows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A row with its start.
pub(super) trait Started: Copy + Ord {
    /// In nanoseconds since 1970, and what comes first in the order.
    fn start(&self) -> i64;
}

impl Started for (i64, u32) {
    fn start(&self) -> i64 {
        self.0
    }
}

impl Started for (i64, u32, u32) {
    fn start(&self) -> i64 {
        self.0
    }
}

/// As many of the newest rows as are asked for.
#[derive(Debug)]
pub(super) struct Newest<T> {
    limit: usize,
    /// The oldest of them on top.
    rows: BinaryHeap<Reverse<T>>,
}

impl<T: Started> Newest<T> {
    /// None yet, and never more than this.
    pub(super) const fn new(limit: usize) -> Self {
        Self { limit, rows: BinaryHeap::new() }
    }

    /// Whether rows that start at this time or before cannot be among them.
    pub(super) fn is_decided_before(&self, start: i64) -> bool {
        self.rows.len() >= self.limit
            && self.rows.peek().is_none_or(|oldest| start <= oldest.0.start())
    }

    /// Takes a row, where it is one of them.
    pub(super) fn admit(&mut self, row: T) {
        if self.is_decided_before(row.start()) {
            return;
        }
        self.rows.push(Reverse(row));
        if self.rows.len() > self.limit {
            self.rows.pop();
        }
    }

    /// They, in no order.
    pub(super) fn into_vec(self) -> Vec<T> {
        self.rows.into_iter().map(|Reverse(row)| row).collect()
    }
}
