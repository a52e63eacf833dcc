//! Traces of a list, each summed up as its own page would show it.

use std::collections::{HashMap, HashSet};

use arrow::array::RecordBatch;
use spanwise_analyze::{Labels, TraceSummary};
use spanwise_assemble::{Row, RowIdentity, SearchKey, Trace};
use spanwise_model::TraceId;
use spanwise_store::{Outline, TimeRange};

use super::Candidate;
use crate::trace::store_key;
use crate::{Queries, QueryError};

/// A trace found by one of its spans may reach this far around the range.
const AROUND_NANO: i64 = 3_600_000_000_000;
/// Times that spans which came late are looked for.
const MAX_ROUNDS: usize = 3;
/// Keys by which they are looked for at once.
const MAX_KEYS: usize = 10_000;

/// A trace of the list while its spans are gathered.
#[derive(Default)]
struct Gathered {
    rows: Vec<Row>,
    /// The tree of these rows, where it was made.
    trace: Option<Trace>,
    known: HashSet<RowIdentity>,
    asked: HashSet<SearchKey>,
    /// Rows whose keys have been asked for.
    looked_at: usize,
}

impl Gathered {
    /// A row that came twice counts once.
    fn add(&mut self, row: Row) {
        if self.known.insert(row.identity()) {
            self.rows.push(row);
            self.trace = None;
        }
    }

    fn trace(&mut self) -> &Trace {
        self.trace.get_or_insert_with(|| Trace::of(self.rows.clone()))
    }

    /// What further spans are to be looked for by, of a trace that lacks some.
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
            // What came too late for the window is joined, as it is where a trace is asked
            // for; only traces that lack something are looked at again.
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
