//! The iterative search: from some spans of a trace to all of them, by the keys that they share
//! (DeepFlow, SIGCOMM'23, Algorithm 1). It finds rows that arrived too late, or too far apart, for
//! the window.

use ahash::AHashSet;
use arrow::array::RecordBatch;
use spanwise_model::{Capture, Kind, ModelError, SpanId, TraceId};

use crate::row::Row;
use crate::text::Text;

/// Maximum rounds of a search.
pub const MAX_ROUNDS: usize = 30;

/// A value by which further spans of a trace are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchKey {
    /// `assembled_trace_id`.
    Assembled(TraceId),
    /// `trace_id`.
    Header(TraceId),
    /// `fragment_id`.
    Fragment(u64),
    /// `request_tcp_seq` and `response_tcp_seq`.
    Hop(u32, u32),
}

impl Row {
    /// The keys that other rows of the same trace may share.
    pub fn search_keys(&self) -> impl Iterator<Item = SearchKey> + use<> {
        let hop = self.request_tcp_seq.zip(self.response_tcp_seq);
        let keys = [
            self.prior.map(|prior| SearchKey::Assembled(prior.trace_id)),
            self.trace_id.map(SearchKey::Header),
            self.fragment_id.map(SearchKey::Fragment),
            hop.map(|(request, response)| SearchKey::Hop(request, response)),
        ];
        keys.into_iter().flatten()
    }

    /// The row's identity.
    pub const fn identity(&self) -> RowIdentity {
        let Self { trace_id, span_id, start_unix_nano, end_unix_nano, .. } = *self;
        let Self { service, operation, kind, capture, .. } = *self;
        (trace_id, span_id, start_unix_nano, end_unix_nano, service, operation, kind, capture)
    }
}

/// What distinguishes a row from all others. Stores recognise spans that were sent twice by the
/// same values. A span id alone is not enough: the two halves of a call may share an id, and so may
/// two spans of a faulty program.
pub type RowIdentity = (Option<TraceId>, SpanId, i64, i64, Text, Text, Kind, Capture);

/// A search in progress.
pub struct Expansion {
    batches: Vec<RecordBatch>,
    rows: Vec<Row>,
    known: AHashSet<RowIdentity>,
    asked: AHashSet<SearchKey>,
    /// Number of rows whose keys have been requested.
    looked_at: usize,
    rounds: usize,
    max_rows: usize,
    left_out: usize,
    cut: bool,
}

/// The rows of a trace.
#[derive(Debug)]
pub struct TraceRows {
    /// The rows, each once. The batch number in [`Row::at`] is an index into `batches`.
    pub rows: Vec<Row>,
    /// The batches from which the rows were read.
    pub batches: Vec<RecordBatch>,
    /// Number of rows that were found but exceeded the maximum.
    pub left_out: usize,
    /// Whether a limit ended the search early.
    pub cut: bool,
}

impl Expansion {
    /// Starts a search. `asked` are keys that were already searched for everywhere. The search
    /// stops at `max_rows` rows.
    pub fn new(max_rows: usize, asked: impl IntoIterator<Item = SearchKey>) -> Self {
        Self {
            batches: Vec::new(),
            rows: Vec::new(),
            known: AHashSet::new(),
            asked: asked.into_iter().collect(),
            looked_at: 0,
            rounds: 0,
            max_rows,
            left_out: 0,
            cut: false,
        }
    }

    /// Adds the rows of a batch. A row that is already known counts once.
    ///
    /// # Errors
    /// If the batch does not have the span schema.
    pub fn add(&mut self, batch: RecordBatch) -> Result<(), ModelError> {
        let before = self.rows.len();
        for row in Row::read(self.batches.len() as u64, &batch)? {
            if !self.known.insert(row.identity()) {
                continue;
            }
            if self.rows.len() >= self.max_rows {
                self.cut = true;
                self.left_out += 1;
            } else {
                self.rows.push(row);
            }
        }
        if self.rows.len() > before {
            self.batches.push(batch);
        }
        Ok(())
    }

    /// The keys that were not requested yet. Empty if nothing new was found or a limit is reached.
    pub fn next_keys(&mut self) -> Vec<SearchKey> {
        if self.cut || self.rounds == MAX_ROUNDS {
            return Vec::new();
        }
        self.rounds += 1;
        let mut keys = Vec::new();
        for row in &self.rows[self.looked_at..] {
            keys.extend(row.search_keys().filter(|key| self.asked.insert(*key)));
        }
        self.looked_at = self.rows.len();
        keys
    }

    /// The result of the search.
    pub fn finish(self) -> TraceRows {
        let cut = self.cut || self.rounds == MAX_ROUNDS;
        TraceRows { rows: self.rows, batches: self.batches, left_out: self.left_out, cut }
    }

    /// Earliest start and latest end of the rows found, to bound look-ups.
    pub fn time_range(&self) -> Option<(i64, i64)> {
        let start = self.rows.iter().map(|row| row.start_unix_nano).min()?;
        let end = self.rows.iter().map(|row| row.end_unix_nano).max()?;
        Some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_model::{Span, SpanBatchBuilder};

    fn span(id: u64, fragment: Option<u64>, hop: Option<(u32, u32)>) -> Span {
        let id = SpanId::from_u64(id).expect("not zero");
        let mut span = Span::new(id, Capture::ClientProcess, Kind::Client, "s", "o", 1, 1);
        span.fragment_id = fragment;
        span.request_tcp_seq = hop.map(|(request, _)| request);
        span.response_tcp_seq = hop.map(|(_, response)| response);
        span
    }

    fn batch<'a>(spans: impl IntoIterator<Item = &'a Span>) -> RecordBatch {
        spans.into_iter().collect::<SpanBatchBuilder>().finish().expect("a batch")
    }

    #[test]
    fn the_set_grows_along_shared_keys_until_it_stops() {
        let store = [
            span(1, Some(1), Some((10, 20))),
            span(2, Some(2), Some((10, 20))),
            span(3, Some(2), Some((30, 40))),
            span(4, Some(9), Some((90, 91))),
        ];
        let mut search = Expansion::new(100, [SearchKey::Fragment(1)]);
        search.add(batch(&store[..1])).expect("spans");
        let mut asked = Vec::new();
        loop {
            let keys = search.next_keys();
            if keys.is_empty() {
                break;
            }
            let found = store.iter().filter(|span| {
                keys.iter().any(|key| match key {
                    SearchKey::Fragment(f) => span.fragment_id == Some(*f),
                    SearchKey::Hop(request, _) => span.request_tcp_seq == Some(*request),
                    _ => false,
                })
            });
            search.add(batch(found)).expect("spans");
            asked.extend(keys);
        }
        let hop = SearchKey::Hop;
        assert_eq!(asked, [hop(10, 20), SearchKey::Fragment(2), hop(30, 40)], "each once");
        let found = search.finish();
        let ids: Vec<u64> = found.rows.iter().map(|row| row.span_id.as_u64()).collect();
        assert_eq!((ids.as_slice(), found.cut), ([1, 2, 3].as_slice(), false));
        let third = found.rows[2].at;
        let ids = found.batches[third.batch as usize].column(1).clone();
        assert_eq!(ids.len(), 2, "the batch in which the third was found");
    }

    #[test]
    fn a_row_that_is_found_twice_counts_once_and_the_halves_of_a_call_do_not() {
        let mut server = span(1, None, None);
        server.kind = Kind::Server;
        let mut search = Expansion::new(100, []);
        for _ in 0..2 {
            search.add(batch([&span(1, None, None), &server])).expect("spans");
        }
        assert_eq!(search.finish().rows.len(), 2);
    }

    #[test]
    fn the_bound_on_spans_is_kept_and_told() {
        let mut search = Expansion::new(2, []);
        let spans: Vec<Span> = (1..=5).map(|id| span(id, Some(id), None)).collect();
        search.add(batch(&spans)).expect("spans");
        assert!(search.next_keys().is_empty());
        let found = search.finish();
        assert_eq!((found.rows.len(), found.left_out, found.cut), (2, 3, true));
    }
}
