//! Summaries of traces, each the same as the page of the trace shows.

use std::collections::{HashMap, HashSet};

use arrow::array::RecordBatch;
use spanwise_analyze::{Labels, TraceSummary};
use spanwise_assemble::{Row, RowIdentity, SearchKey, Trace};
use spanwise_model::TraceId;
use spanwise_store::{Outline, TimeRange};

use super::Candidate;
use crate::trace::store_key;
use crate::{Queries, QueryError};

/// How far the spans of a trace may be outside of the range that one span was found in.
const AROUND_NANO: i64 = 3_600_000_000_000;
/// How often spans that arrived late are searched for.
const MAX_ROUNDS: usize = 3;
/// The most keys of one request for them.
const MAX_KEYS: usize = 10_000;

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
    /// Summaries of these traces, in their order; `None` for one that was deleted meanwhile.
    pub(super) async fn summarise(
        &self,
        candidates: &[Candidate],
        time: TimeRange,
    ) -> Result<Vec<Option<TraceSummary>>, QueryError> {
        let around = TimeRange {
            from_unix_nano: time.from_unix_nano.saturating_sub(AROUND_NANO),
            to_unix_nano: time.to_unix_nano.saturating_add(AROUND_NANO),
        };
        let outline = Outline {
            columns: [Row::COLUMNS, Labels::COLUMNS].concat(),
            attributes: Row::ATTRIBUTES.to_vec(),
        };
        let mut batches: Vec<RecordBatch> = Vec::new();
        let mut traces: HashMap<TraceId, Gathered> = HashMap::new();
        for candidate in candidates {
            let gathered = traces.entry(candidate.id).or_default();
            gathered.asked.insert(SearchKey::Assembled(candidate.id));
        }
        let mut wanted: HashMap<SearchKey, Vec<TraceId>> = candidates
            .iter()
            .map(|candidate| (SearchKey::Assembled(candidate.id), vec![candidate.id]))
            .collect();
        for round in 0..=MAX_ROUNDS {
            let keys: Vec<_> = wanted.keys().copied().map(store_key).collect();
            for batch in self.store.find_outlines(&keys, around, &outline).await? {
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
        let labels = Labels::of(&batches)?;
        let summary = |id: &TraceId| {
            let mut gathered = traces.remove(id).filter(|gathered| !gathered.rows.is_empty())?;
            Some(TraceSummary::of(gathered.trace(), &labels))
        };
        Ok(candidates.iter().map(|candidate| &candidate.id).map(summary).collect())
    }
}
