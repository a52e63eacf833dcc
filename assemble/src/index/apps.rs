//! SDK rows by the ids that other rows refer to.
//!
//! Spans of a trace refer to each other, and arrive and leave together. So each trace has one list:
//! scanning it is faster than one access to a table of all ids, which would rarely be in the cache.
//! Only rows of large traces are in a table.

use ahash::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use spanwise_model::{SpanId, TraceId};

use crate::chains::{ChainIter, Chains};
use crate::slot::Slot;

/// From this many rows on, a table is faster than scanning the list.
const LARGE_ROWS: usize = 64;
/// Maximum empty lists that are kept to reuse their memory.
const KEPT_LISTS: usize = 1024;

/// The rows of a trace.
#[derive(Debug)]
enum Rows {
    /// All rows, in order of arrival.
    Few(Vec<(SpanId, Slot)>),
    /// Number of rows in the table.
    Many(usize),
}

/// A map from ids to SDK rows. See the module's description.
#[derive(Debug, Default)]
pub(super) struct Apps {
    traces: HashMap<TraceId, Rows, RandomState>,
    large: Chains,
    hasher: RandomState,
    kept: Vec<Vec<(SpanId, Slot)>>,
}

/// Slots of rows with one id, in order of arrival.
#[derive(Clone)]
pub(crate) enum AppIter<'a> {
    Few { rows: std::slice::Iter<'a, (SpanId, Slot)>, id: SpanId, left: usize },
    Many(ChainIter<'a>),
}

impl Iterator for AppIter<'_> {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        match self {
            Self::Few { rows, id, left } => {
                *left = left.checked_sub(1)?;
                rows.find(|(other, _)| other == id).map(|(_, slot)| *slot)
            }
            Self::Many(found) => found.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = match self {
            Self::Few { left, .. } => *left,
            Self::Many(found) => found.len(),
        };
        (left, Some(left))
    }
}

impl ExactSizeIterator for AppIter<'_> {}

impl Apps {
    fn hash(&self, trace: TraceId, span: SpanId) -> u64 {
        self.hasher.hash_one((trace, span))
    }

    /// The rows of this trace with this id. `key_of` returns a row's key.
    pub(super) fn get(
        &self,
        (trace, id): (TraceId, SpanId),
        key_of: impl Fn(Slot) -> Option<(TraceId, SpanId)>,
    ) -> AppIter<'_> {
        match self.traces.get(&trace) {
            Some(Rows::Few(rows)) => {
                let left = rows.iter().filter(|(other, _)| *other == id).count();
                AppIter::Few { rows: rows.iter(), id, left }
            }
            Some(Rows::Many(_)) => {
                let is_it = |slot| key_of(slot) == Some((trace, id));
                AppIter::Many(self.large.get(self.hash(trace, id), is_it))
            }
            None => AppIter::Few { rows: [].iter(), id, left: 0 },
        }
    }

    /// Adds a row.
    pub(super) fn insert(
        &mut self,
        (trace, id): (TraceId, SpanId),
        slot: Slot,
        key_of: impl Fn(Slot) -> Option<(TraceId, SpanId)>,
    ) {
        let Self { traces, large, hasher, kept } = self;
        let mut put = |id: SpanId, slot: Slot| {
            large.insert(hasher.hash_one((trace, id)), slot, |other| {
                key_of(other) == Some((trace, id))
            });
        };
        let rows = match traces.entry(trace) {
            Entry::Occupied(rows) => rows.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(Rows::Few(kept.pop().unwrap_or_default())),
        };
        match rows {
            Rows::Many(count) => {
                *count += 1;
                put(id, slot);
            }
            Rows::Few(few) => {
                few.push((id, slot));
                if few.len() > LARGE_ROWS {
                    few.iter().for_each(|(id, slot)| put(*id, *slot));
                    *rows = Rows::Many(few.len());
                }
            }
        }
    }

    /// Removes a row.
    pub(super) fn remove(
        &mut self,
        (trace, id): (TraceId, SpanId),
        slot: Slot,
        key_of: impl Fn(Slot) -> Option<(TraceId, SpanId)>,
    ) {
        let hash = self.hash(trace, id);
        let Entry::Occupied(mut entry) = self.traces.entry(trace) else { return };
        match entry.get_mut() {
            Rows::Many(count) => {
                *count -= 1;
                let is_empty = *count == 0;
                self.large.remove(hash, slot, |other| key_of(other) == Some((trace, id)));
                if is_empty {
                    entry.remove();
                }
            }
            Rows::Few(rows) => {
                if let Some(at) = rows.iter().position(|(_, other)| *other == slot) {
                    rows.remove(at);
                }
                if rows.is_empty()
                    && let Rows::Few(list) = entry.remove()
                    && self.kept.len() < KEPT_LISTS
                {
                    self.kept.push(list);
                }
            }
        }
    }

    /// Number of traces.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.traces.len()
    }
}
