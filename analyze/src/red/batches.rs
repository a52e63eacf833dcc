//! The spans of the last batches, by the number of their batch.

use std::collections::VecDeque;

use spanwise_model::RowRef;

use super::held::Held;

/// How long a batch is kept after it came, if all its spans have traces. By then they are counted.
const KEEP_NANO: u64 = 15_000_000_000;
/// A batch of which nothing was heard for so long has spans that cannot be assembled.
const FORGET_NANO: u64 = 120_000_000_000;
/// The most spans.
const MOST_SPANS: usize = 300_000;
/// The store numbers batches one after the other. What is farther from the others than this comes
/// without them.
const FARTHEST: u64 = 100_000;
/// Lists of at most this many spans are used again, so many of them.
const USUAL_ROWS: usize = 4_096;
const MOST_LISTS: usize = 64;

#[derive(Debug, Default)]
struct Batch {
    came_nano: u64,
    /// In order.
    rows: Vec<Held>,
    /// Spans without a trace.
    waiting: usize,
}

/// The batches.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Of consecutive numbers; one that did not come is empty.
    all: VecDeque<Batch>,
    /// The number of the first.
    first: u64,
    /// The lowest number that ever came.
    lowest: Option<u64>,
    rows: usize,
    untraced: usize,
    /// Lists to use again.
    unused: Vec<Vec<Held>>,
}

impl Batches {
    /// Spans without a trace.
    pub(super) const fn untraced(&self) -> usize {
        self.untraced
    }

    /// An empty list for the spans of a batch.
    pub(super) fn list(&mut self) -> Vec<Held> {
        self.unused.pop().unwrap_or_default()
    }

    /// Adds a batch. Returns how many spans went for it that have no trace yet.
    pub(super) fn add(&mut self, number: u64, rows: Vec<Held>, came_nano: u64) -> u64 {
        let waiting = rows.iter().filter(|held| held.has_id()).count();
        let mut gone = 0;
        let last = self.first + self.all.len() as u64;
        if number + FARTHEST < self.first || number > last + FARTHEST {
            while !self.all.is_empty() {
                gone += self.pop();
            }
        }
        if self.all.is_empty() {
            self.first = number;
        }
        while number < self.first {
            self.all.push_front(Batch::default());
            self.first -= 1;
        }
        let place = (number - self.first) as usize;
        if place >= self.all.len() {
            self.all.resize_with(place + 1, Batch::default);
        }
        if let Some(batch) = self.all.get_mut(place).filter(|batch| batch.rows.is_empty()) {
            self.lowest = Some(self.lowest.map_or(number, |lowest| lowest.min(number)));
            self.rows += rows.len();
            self.untraced += waiting;
            *batch = Batch { came_nano, rows, waiting };
        }
        gone
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// A span.
    pub(super) fn get(&self, row: RowRef) -> Option<&Held> {
        self.all.get(self.place(row.batch)?)?.rows.get(row.row as usize)
    }

    /// A span that has an id.
    pub(super) fn get_mut(&mut self, row: RowRef) -> Option<&mut Held> {
        let place = self.place(row.batch)?;
        let held = self.all.get_mut(place)?.rows.get_mut(row.row as usize);
        held.filter(|held| held.has_id())
    }

    /// Whether the batch was here, and is gone.
    pub(super) fn had(&self, number: u64) -> bool {
        number < self.first && self.lowest.is_some_and(|lowest| number >= lowest)
    }

    /// Tells that a span of the batch has a trace now.
    pub(super) fn placed(&mut self, number: u64) {
        let place = self.place(number);
        if let Some(batch) = place.and_then(|place| self.all.get_mut(place)) {
            batch.waiting -= 1;
            self.untraced -= 1;
        }
    }

    /// All spans.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Held> {
        self.all.iter_mut().flat_map(|batch| &mut batch.rows)
    }

    /// Removes batches that are old, or too many. Returns how many of their spans have no trace.
    pub(super) fn forget(&mut self, now_nano: u64) -> u64 {
        let mut gone = 0;
        while let Some(batch) = self.all.front() {
            let keep = if batch.waiting > 0 { FORGET_NANO } else { KEEP_NANO };
            let is_old = now_nano.saturating_sub(batch.came_nano) >= keep;
            if !batch.rows.is_empty() && !is_old && self.rows <= MOST_SPANS {
                break;
            }
            gone += self.pop();
        }
        gone
    }

    fn pop(&mut self) -> u64 {
        let Some(Batch { mut rows, waiting, .. }) = self.all.pop_front() else { return 0 };
        self.first += 1;
        self.rows -= rows.len();
        self.untraced -= waiting;
        if self.unused.len() < MOST_LISTS && rows.capacity() <= USUAL_ROWS {
            rows.clear();
            self.unused.push(rows);
        }
        waiting as u64
    }
}

#[cfg(test)]
mod tests {
    use spanwise_model::{Capture, Kind};

    use super::*;
    use crate::Names;

    fn rows(count: usize) -> Vec<Held> {
        let held = Held {
            span_id: 1,
            start_unix_nano: 0,
            duration_nano: 1,
            trace: 0,
            place: 0,
            series: 0,
            service: Names::default().name("a"),
            protocol: None,
            address: None,
            port: None,
            bucket: 0,
            kind: Kind::Client,
            capture: Capture::App,
            flags: 0,
        };
        vec![held; count]
    }

    const fn at(batch: u64) -> RowRef {
        RowRef { batch, row: 0 }
    }

    #[test]
    fn batches_come_in_any_order() {
        let mut batches = Batches::default();
        for (number, count) in [(1_000, 2), (998, 3), (1_001, 1), (998, 7), (1_005, 1)] {
            assert_eq!(batches.add(number, rows(count), 0), 0);
        }
        assert_eq!(batches.untraced(), 7);
        let has = |batches: &Batches| {
            (995..1_007).filter(|at_| batches.get(at(*at_)).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(has(&batches), [998, 1_000, 1_001, 1_005]);
        assert!(!batches.had(998) && !batches.had(997));
        // A number out of all order.
        assert_eq!(batches.add(u64::MAX / 2, rows(1), 0), 7);
        assert_eq!((has(&batches), batches.untraced()), (vec![], 1));
        assert!(batches.had(998) && !batches.had(997));
        assert_eq!(batches.add(5, rows(1), 0), 1);
        assert_eq!(batches.untraced(), 1);
    }

    #[test]
    fn batches_go_when_all_is_placed_or_nothing_is_heard() {
        let mut batches = Batches::default();
        for number in 1..=3 {
            batches.add(number, rows(1), 0);
        }
        batches.placed(1);
        batches.placed(3);
        assert_eq!((batches.forget(KEEP_NANO - 1), batches.get(at(1)).is_some()), (0, true));
        assert_eq!((batches.forget(KEEP_NANO), batches.get(at(1)).is_some()), (0, false));
        assert!(batches.get(at(3)).is_some());
        assert_eq!((batches.forget(FORGET_NANO), batches.untraced(), batches.rows), (1, 0, 0));
        batches.add(9, rows(MOST_SPANS), 0);
        batches.add(10, rows(1), 0);
        assert_eq!(batches.forget(0), MOST_SPANS as u64);
        assert_eq!(batches.rows, 1);
    }
}
