//! The iterative search: from some spans of a trace to all of it, by the keys
//! that they share (DeepFlow, SIGCOMM'23, Algorithm 1). It serves what arrived
//! too late, or too far apart, for the window.

use ahash::AHashSet;
use spanwise_model::{Span, SpanId, TraceId};

/// The most rounds of a search.
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

/// A search under way.
pub struct Expansion {
    spans: Vec<Span>,
    known: AHashSet<(SpanId, i64)>,
    asked: AHashSet<SearchKey>,
    rounds: usize,
    max_spans: usize,
    cut: bool,
}

impl Expansion {
    /// A search that starts from nothing but these keys, and stops at
    /// `max_spans` spans.
    pub fn new(max_spans: usize) -> Self {
        Self {
            spans: Vec::new(),
            known: AHashSet::new(),
            asked: AHashSet::new(),
            rounds: 0,
            max_spans,
            cut: false,
        }
    }

    /// Adds spans that were found; those known already count once.
    pub fn add(&mut self, spans: impl IntoIterator<Item = Span>) {
        for span in spans {
            if self.spans.len() >= self.max_spans {
                self.cut = true;
                return;
            }
            if self.known.insert((span.span_id, span.start_unix_nano)) {
                self.spans.push(span);
            }
        }
    }

    /// Keys not asked for yet; none when the set has stopped growing or a
    /// bound is reached.
    pub fn next_keys(&mut self) -> Vec<SearchKey> {
        if self.cut || self.rounds == MAX_ROUNDS {
            return Vec::new();
        }
        self.rounds += 1;
        let mut keys = Vec::new();
        for span in &self.spans {
            let hop = span.request_tcp_seq.zip(span.response_tcp_seq);
            let of_span = [
                span.assembled_trace_id.map(SearchKey::Assembled),
                span.trace_id.map(SearchKey::Header),
                span.fragment_id.map(SearchKey::Fragment),
                hop.map(|(request, response)| SearchKey::Hop(request, response)),
            ];
            keys.extend(of_span.into_iter().flatten().filter(|key| self.asked.insert(*key)));
        }
        keys
    }

    /// The spans found, and whether a bound cut the search short.
    pub fn finish(self) -> (Vec<Span>, bool) {
        let at_bound = self.cut || self.rounds == MAX_ROUNDS;
        (self.spans, at_bound)
    }

    /// Earliest start and latest end of what was found, for bounding look-ups.
    pub fn time_range(&self) -> Option<(i64, i64)> {
        let start = self.spans.iter().map(|span| span.start_unix_nano).min()?;
        let end = self.spans.iter().map(Span::end_unix_nano).max()?;
        Some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_model::{Capture, Kind};

    fn span(id: u64, fragment: Option<u64>, hop: Option<(u32, u32)>) -> Span {
        let id = SpanId::from_u64(id).expect("not zero");
        let mut span = Span::new(id, Capture::ClientProcess, Kind::Client, "s", "o", 1, 1);
        span.fragment_id = fragment;
        span.request_tcp_seq = hop.map(|(request, _)| request);
        span.response_tcp_seq = hop.map(|(_, response)| response);
        span
    }

    #[test]
    fn the_set_grows_along_shared_keys_until_it_stops() {
        let store = [
            span(1, Some(1), Some((10, 20))),
            span(2, Some(2), Some((10, 20))),
            span(3, Some(2), Some((30, 40))),
            span(4, Some(9), Some((90, 91))),
        ];
        let mut search = Expansion::new(100);
        search.add([store[0].clone()]);
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
            search.add(found.cloned().collect::<Vec<_>>());
        }
        let (spans, cut) = search.finish();
        assert_eq!(spans.len(), 3);
        assert!(!cut);
    }

    #[test]
    fn the_bound_on_spans_is_kept_and_told() {
        let mut search = Expansion::new(2);
        search.add((1..=5).map(|id| span(id, Some(id), None)));
        assert!(search.next_keys().is_empty());
        let (spans, cut) = search.finish();
        assert_eq!((spans.len(), cut), (2, true));
    }
}
