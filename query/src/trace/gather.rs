//! Many traces at once, each gathered as far as its spans are joined on the page of a trace.

use std::collections::{HashMap, HashSet};

use arrow::array::RecordBatch;
use spanwise_assemble::{Row, RowIdentity, SearchKey, Trace, TraceRows};
use spanwise_model::TraceId;
use spanwise_store::{Outline, TimeRange};

use super::find::{AROUND_NANO, store_key};
use crate::{Queries, QueryError};

/// How often spans that arrived late are searched for.
const MAX_ROUNDS: usize = 3;
/// The most keys of one request for them.
const MAX_KEYS: usize = 10_000;

/// Traces that were asked for by their ids.
pub(crate) struct GatheredTraces {
    /// What their rows were read from; the batch in [`Row::at`] is a place here.
    pub(crate) batches: Vec<RecordBatch>,
    traces: HashMap<TraceId, Gathered>,
}

impl GatheredTraces {
    /// The tree of the trace with this id, once; `None` where it has no spans.
    pub(crate) fn take(&mut self, id: &TraceId) -> Option<Trace> {
        let gathered = self.traces.remove(id).filter(|gathered| !gathered.rows.is_empty())?;
        Some(gathered.trace.unwrap_or_else(|| Trace::of(gathered.rows)))
    }

    /// The rows of the trace with this id, once, with the batches that they are in; `None` where
    /// it has none.
    pub(crate) fn take_rows(&mut self, id: &TraceId) -> Option<TraceRows> {
        let Gathered { mut rows, .. } = self.traces.remove(id)?;
        let mut batches = Vec::new();
        let mut places: HashMap<u64, u64> = HashMap::new();
        for row in &mut rows {
            let place = *places.entry(row.at.batch).or_insert_with(|| {
                batches.push(self.batches[row.at.batch as usize].clone());
                batches.len() as u64 - 1
            });
            row.at.batch = place;
        }
        (!rows.is_empty()).then_some(TraceRows { rows, batches, left_out: 0, cut: false })
    }
}

/// A trace whose spans are being gathered.
#[derive(Default)]
struct Gathered {
    rows: Vec<Row>,
    /// The tree of these rows, if it was computed.
    trace: Option<Trace>,
    known: HashSet<RowIdentity>,
    asked: HashSet<SearchKey>,
    /// The number of rows whose keys have been requested.
    looked_at: usize,
}

impl Gathered {
    /// Adds a row, unless it is there already.
    fn add(&mut self, row: Row) {
        if self.known.insert(row.identity()) {
            self.rows.push(row);
            self.trace = None;
        }
    }

    fn trace(&mut self) -> &Trace {
        self.trace.get_or_insert_with(|| Trace::of(self.rows.clone()))
    }

    /// Keys of further spans, if the trace lacks some.
    fn next_keys(&mut self) -> Vec<SearchKey> {
        if self.trace().is_complete() {
            return Vec::new();
        }
        let new = self.rows[self.looked_at..].iter().flat_map(Row::search_keys);
        let keys = new.filter(|key| self.asked.insert(*key)).collect();
        self.looked_at = self.rows.len();
        keys
    }
}

impl Queries {
    /// The traces with these ids, of spans that start `around` the time in which one of them
    /// was found. Of spans only the outline is read; all of them where there is none.
    pub(crate) async fn gather(
        &self,
        ids: impl Iterator<Item = TraceId>,
        time: TimeRange,
        outline: Option<&Outline>,
    ) -> Result<GatheredTraces, QueryError> {
        let around = TimeRange {
            from_unix_nano: time.from_unix_nano.saturating_sub(AROUND_NANO),
            to_unix_nano: time.to_unix_nano.saturating_add(AROUND_NANO),
        };
        let mut batches: Vec<RecordBatch> = Vec::new();
        let mut traces: HashMap<TraceId, Gathered> = HashMap::new();
        let mut wanted: HashMap<SearchKey, Vec<TraceId>> = HashMap::new();
        for id in ids {
            let key = SearchKey::Assembled(id);
            traces.entry(id).or_default().asked.insert(key);
            wanted.insert(key, vec![id]);
        }
        for round in 0..=MAX_ROUNDS {
            let keys: Vec<_> = wanted.keys().copied().map(store_key).collect();
            let found = match outline {
                Some(outline) => self.store.find_outlines(&keys, around, outline).await?,
                None => self.store.find_by_keys(&keys, around).await?,
            };
            for batch in found {
                for row in Row::read(batches.len() as u64, &batch)? {
                    for id in row.search_keys().filter_map(|key| wanted.get(&key)).flatten() {
                        if let Some(gathered) = traces.get_mut(id) {
                            gathered.add(row);
                        }
                    }
                }
                batches.push(batch);
            }
            wanted.clear();
            if round == MAX_ROUNDS {
                break;
            }
            // Spans that arrived too late for assembly are joined here, as on the page of a
            // trace. Only traces that lack spans are searched for again.
            for (id, gathered) in &mut traces {
                for key in gathered.next_keys() {
                    if wanted.len() < MAX_KEYS {
                        wanted.entry(key).or_default().push(*id);
                    }
                }
            }
            if wanted.is_empty() {
                break;
            }
        }
        Ok(GatheredTraces { batches, traces })
    }
}
