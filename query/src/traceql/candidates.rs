//! Traces that may be selected: those of rows that fulfil one of some predicates, by their
//! newest such row, the newest first.

use std::collections::BinaryHeap;

use ahash::AHashSet;
use arrow::array::RecordBatch;
use spanwise_model::TraceId;
use spanwise_model::schema::column;
use spanwise_store::{Order, Predicate, Query, TimeRange};

use crate::search::rows;
use crate::{Queries, QueryError};

/// Rows that are asked for first, and the most at a time.
const FIRST_ROWS: usize = 256;
const MAX_ROWS: usize = 100_000;

/// See the module.
pub(crate) struct Candidates {
    asks: Vec<Ask>,
    /// Rows that were found and not given yet.
    waiting: BinaryHeap<(i64, TraceId)>,
    seen: AHashSet<TraceId>,
    /// Whether rows were passed over: very many start at one nanosecond.
    pub(crate) passed_over: bool,
}

/// A predicate, and how far back its rows are known.
struct Ask {
    query: Query,
    /// All rows that start from here on are known.
    reached: i64,
    is_done: bool,
}

impl Candidates {
    pub(crate) fn new(predicates: Vec<Predicate>, time: TimeRange) -> Self {
        let ask = |predicate| Ask {
            query: Query {
                predicate,
                time,
                columns: vec![column::ASSEMBLED_TRACE_ID, column::START_UNIX_NANO],
                keys: None,
                limit: FIRST_ROWS,
                order: Order::NewestFirst,
            },
            reached: time.to_unix_nano,
            is_done: false,
        };
        Self {
            asks: predicates.into_iter().map(ask).collect(),
            waiting: BinaryHeap::new(),
            seen: AHashSet::new(),
            passed_over: false,
        }
    }

    /// The next traces, each with the start of the row by which it was found. Fewer than
    /// `count` are the last ones.
    pub(crate) async fn next(
        &mut self,
        queries: &Queries,
        count: usize,
    ) -> Result<Vec<(i64, TraceId)>, QueryError> {
        let mut next = Vec::new();
        loop {
            let frontier = self.frontier();
            while next.len() < count
                && self.waiting.peek().is_some_and(|(start, _)| *start >= frontier)
            {
                next.extend(self.waiting.pop().filter(|(_, id)| self.seen.insert(*id)));
            }
            let behind = self.asks.iter_mut().filter(|ask| !ask.is_done);
            let Some(ask) = behind.max_by_key(|ask| ask.reached).filter(|_| next.len() < count)
            else {
                return Ok(next);
            };
            let batches = queries.store.find(&ask.query).await?;
            self.passed_over |= ask.advance(&batches);
            for (id, start) in rows(&batches) {
                self.waiting.extend(id.filter(|id| !self.seen.contains(id)).map(|id| (start, id)));
            }
        }
    }

    /// All rows that start from here on are known.
    fn frontier(&self) -> i64 {
        let behind = self.asks.iter().filter(|ask| !ask.is_done);
        behind.map(|ask| ask.reached).max().unwrap_or(i64::MIN)
    }
}

impl Ask {
    /// Goes on behind these rows; whether some had to be passed over.
    fn advance(&mut self, batches: &[RecordBatch]) -> bool {
        let found: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let oldest = rows(batches).map(|(_, start)| start).min();
        let (Some(oldest), true) = (oldest, found >= self.query.limit) else {
            self.is_done = true;
            return false;
        };
        let newest = rows(batches).map(|(_, start)| start).max().unwrap_or(oldest);
        // Rows that start with the oldest one are found again.
        let end = &mut self.query.time.to_unix_nano;
        let mut passed_over = false;
        if newest > oldest || oldest.saturating_add(1) < *end {
            *end = oldest.saturating_add(1);
        } else if self.query.limit >= MAX_ROWS {
            *end = oldest;
            passed_over = true;
        }
        self.reached = *end;
        self.is_done = *end <= self.query.time.from_unix_nano;
        self.query.limit = (self.query.limit * 4).min(MAX_ROWS);
        passed_over
    }
}
