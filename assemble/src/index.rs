//! Rows, with every key by which a parent rule looks them up.

mod apps;
mod slots;

use std::hash::Hash;

use ahash::RandomState;
use spanwise_model::{Capture, SpanId, TraceId};

use self::apps::{AppIter, Apps};
use self::slots::FreeSlots;
use crate::chains::{ChainIter, Chains};
use crate::row::{Row, is_half};
use crate::slot::Slot;
use crate::text::Text;
use crate::timeline::{RowTimes, Sort, Timeline};

/// A reference to a row that is valid as long as the row is in its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamped {
    pub(crate) slot: Slot,
    stamp: u32,
}

/// An index of rows. See the module's description.
#[derive(Debug, Default)]
pub(crate) struct Index {
    rows: Vec<Row>,
    free: FreeSlots,
    hasher: RandomState,
    apps: Apps,
    servers_by_fragment: Chains,
    by_request_seq: Chains,
    by_header: Chains,
    clients_by_trace: Chains,
    by_x_request_id: Chains,
    timeline: Timeline,
    /// Number of SDK rows whose id marks them as the called half of a shared span.
    halves: usize,
}

/// The key by which other rows refer to an SDK row.
fn app_key(row: &Row) -> Option<(TraceId, SpanId)> {
    row.trace_id.map(|trace| (trace, row.span_id))
}

const fn served(row: &Row) -> Option<u64> {
    match row.capture {
        Capture::ServerProcess => row.fragment_id,
        _ => None,
    }
}

const fn called_with(row: &Row) -> Option<TraceId> {
    match row.capture {
        Capture::ClientProcess => row.trace_id,
        _ => None,
    }
}

const fn process_x_request_id(row: &Row) -> Option<Text> {
    match row.capture {
        Capture::ServerProcess | Capture::ClientProcess => row.x_request_id,
        _ => None,
    }
}

fn header(row: &Row) -> Option<(TraceId, SpanId)> {
    row.trace_id.zip(row.parent_span_id)
}

impl Index {
    /// An empty index with room for SDK rows, which are usually the most.
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            rows: Vec::with_capacity(rows),
            timeline: Timeline::with_capacity(rows),
            ..Self::default()
        }
    }

    /// The row in an occupied slot.
    pub(crate) fn row(&self, slot: Slot) -> &Row {
        // `insert` returned this slot and made room for its row.
        &self.rows[slot as usize]
    }

    /// A reference to the row in an occupied slot. It is not valid for later rows of the same slot.
    pub(crate) fn stamped(&self, slot: Slot) -> Stamped {
        Stamped { slot, stamp: self.timeline.stamp(slot) }
    }

    /// Whether the row is still in the index.
    pub(crate) fn has(&self, row: Stamped) -> bool {
        self.timeline.stamp(row.slot) == row.stamp
    }

    /// Adds a row.
    pub(crate) fn insert(&mut self, row: Row) -> Slot {
        let slot = match self.free.take() {
            Some(slot) => {
                self.rows[slot as usize] = row;
                slot
            }
            None => {
                self.rows.push(row);
                // 2^32 rows do not fit in memory.
                (self.rows.len() - 1) as Slot
            }
        };
        self.link(slot, true);
        self.timeline.insert(&self.rows, slot);
        slot
    }

    /// Removes a row.
    pub(crate) fn remove(&mut self, slot: Slot) {
        self.link(slot, false);
        self.timeline.remove(&self.rows[slot as usize], slot);
        self.free.put(slot);
    }

    fn link(&mut self, slot: Slot, add: bool) {
        let Self { rows, hasher, .. } = self;
        let row = &rows[slot as usize];
        macro_rules! link {
            ($chains:ident, $key_of:expr) => {
                let key_of = $key_of;
                if let Some(key) = key_of(row) {
                    let is_key = |other: Slot| key_of(&rows[other as usize]) == Some(key);
                    let hash = hasher.hash_one(key);
                    if add {
                        self.$chains.insert(hash, slot, is_key);
                    } else {
                        self.$chains.remove(hash, slot, is_key);
                    }
                }
            };
        }
        if row.capture.is_reported() {
            if let Some(key) = app_key(row) {
                let key_of = |other: Slot| app_key(&rows[other as usize]);
                if add {
                    self.apps.insert(key, slot, key_of);
                } else {
                    self.apps.remove(key, slot, key_of);
                }
            }
            if is_half(row.span_id, row.parent_span_id) {
                self.halves = if add { self.halves + 1 } else { self.halves - 1 };
            }
            return;
        }
        link!(servers_by_fragment, served);
        link!(by_request_seq, |row: &Row| row.request_tcp_seq);
        link!(by_header, header);
        link!(clients_by_trace, called_with);
        link!(by_x_request_id, process_x_request_id);
    }

    fn find<'a, K: Hash + PartialEq>(
        &'a self,
        chains: &'a Chains,
        key: K,
        key_of: impl Fn(&Row) -> Option<K>,
    ) -> ChainIter<'a> {
        let is_key = |slot: Slot| key_of(self.row(slot)).as_ref() == Some(&key);
        chains.get(self.hasher.hash_one(&key), is_key)
    }

    /// Whether any SDK row is the called half of a shared span.
    pub(crate) const fn has_halves(&self) -> bool {
        self.halves > 0
    }

    /// SDK rows with this trace and span id.
    pub(crate) fn apps(&self, trace: TraceId, span: SpanId) -> AppIter<'_> {
        self.apps.get((trace, span), |slot| app_key(self.row(slot)))
    }

    /// Server-process rows of a fragment.
    pub(crate) fn servers_of_fragment(&self, fragment: u64) -> ChainIter<'_> {
        self.find(&self.servers_by_fragment, fragment, served)
    }

    /// Kernel rows whose request began at this TCP sequence number.
    pub(crate) fn with_request_seq(&self, seq: u32) -> ChainIter<'_> {
        self.find(&self.by_request_seq, seq, |row| row.request_tcp_seq)
    }

    /// Kernel rows whose request carried this trace id and parent id.
    pub(crate) fn with_header(&self, trace: TraceId, parent: SpanId) -> ChainIter<'_> {
        self.find(&self.by_header, (trace, parent), header)
    }

    /// Client-process rows whose request carried this trace id.
    pub(crate) fn clients_of_trace(&self, trace: TraceId) -> ChainIter<'_> {
        self.find(&self.clients_by_trace, trace, called_with)
    }

    /// Process rows with this X-Request-ID.
    pub(crate) fn with_x_request_id(&self, id: Text) -> ChainIter<'_> {
        self.find(&self.by_x_request_id, id, process_x_request_id)
    }

    /// Rows of (probably) the same process that cover the whole time of the row in `slot`, with
    /// slack at the start and at the end. Each row occurs once.
    pub(crate) fn covering(
        &self,
        sort: Sort,
        slot: Slot,
        start_slack: i64,
        end_slack: i64,
    ) -> Vec<Slot> {
        let row = self.row(slot);
        let (start, end) = (row.start_unix_nano, row.end_unix_nano);
        let to = start.saturating_add(start_slack);
        let covers = |moment: &RowTimes| {
            start >= moment.start.saturating_sub(start_slack)
                && start <= moment.end.saturating_add(start_slack)
                && end <= moment.end.saturating_add(end_slack)
        };
        self.of_process(row, self.timeline.started(sort, slot, i64::MIN, to).filter(covers))
    }

    /// Rows of (probably) the same process that started while the row in `slot` ran, with
    /// `slack_nano` of slack. Each row occurs once.
    pub(crate) fn during(&self, sort: Sort, slot: Slot, slack_nano: i64) -> Vec<Slot> {
        let row = self.row(slot);
        let from = row.start_unix_nano.saturating_sub(slack_nano);
        let to = row.end_unix_nano.saturating_add(slack_nano);
        self.of_process(row, self.timeline.started(sort, slot, from, to))
    }

    fn of_process(&self, row: &Row, moments: impl Iterator<Item = RowTimes>) -> Vec<Slot> {
        let mut found: Vec<Slot> = moments
            .map(|moment| moment.slot)
            .filter(|slot| self.row(*slot).same_process(row))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Whether the index has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no table has a key left.
    #[cfg(test)]
    pub(crate) fn is_bare(&self) -> bool {
        let chains = [
            &self.servers_by_fragment,
            &self.by_request_seq,
            &self.by_header,
            &self.clients_by_trace,
            &self.by_x_request_id,
        ];
        self.is_empty()
            && self.apps.len() == 0
            && chains.iter().all(|chains| chains.len() == 0)
            && self.timeline.is_empty()
    }
}

#[cfg(test)]
mod tests;
