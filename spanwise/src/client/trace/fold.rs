//! Folds repeated calls of a trace into one line.

use std::collections::HashMap;

use spanwise_api::{Span, SpanStatus};

/// At least this many consecutive siblings of one kind are folded.
const LEAST_REPEATED: usize = 4;

/// A line of the drawing.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// One span.
    Span(&'a Span),
    /// Spans like the one drawn before them.
    Folded(Folded<'a>),
}

/// Siblings like the one before them, with all their descendants.
#[derive(Debug, PartialEq)]
pub(super) struct Folded<'a> {
    /// The first sibling.
    pub(super) first: &'a Span,
    /// The last sibling.
    pub(super) last: &'a Span,
    /// Number of siblings.
    pub(super) siblings: usize,
    /// Number of their descendants.
    pub(super) below: usize,
    /// The shortest duration of a sibling.
    pub(super) shortest_nano: i64,
    /// The longest duration of a sibling.
    pub(super) longest_nano: i64,
    /// The latest end of a sibling.
    pub(super) end_unix_nano: i64,
}

/// The lines of a trace. Spans must be in depth-first order. Consecutive calls of one service to
/// one operation are folded after the first, except calls that failed or have a failed descendant.
pub(super) fn lines(spans: &[Span], fold: bool) -> Vec<Line<'_>> {
    if !fold {
        return spans.iter().map(Line::Span).collect();
    }
    let subtrees = Subtrees::of(spans);
    let mut lines = Vec::new();
    // By the index of their first span.
    let mut pending: HashMap<usize, (Folded<'_>, usize)> = HashMap::new();
    let mut index = 0;
    while index < spans.len() {
        if let Some((folded, end)) = pending.remove(&index) {
            lines.push(Line::Folded(folded));
            index = end;
            continue;
        }
        if let Some((folded, end)) = subtrees.repeated_after(index) {
            pending.insert(subtrees.ends[index], (folded, end));
        }
        lines.push(Line::Span(&spans[index]));
        index += 1;
    }
    lines
}

struct Subtrees<'a> {
    spans: &'a [Span],
    /// The end of each span's subtree.
    ends: Vec<usize>,
    /// Whether a span of each subtree failed.
    failed: Vec<bool>,
}

impl<'a> Subtrees<'a> {
    fn of(spans: &'a [Span]) -> Self {
        let mut ends = vec![spans.len(); spans.len()];
        let mut failed: Vec<bool> =
            spans.iter().map(|span| span.status == SpanStatus::Error).collect();
        let mut open: Vec<usize> = Vec::new();
        let mut close = |open: &mut Vec<usize>, at: usize, depth: u64| {
            while let Some(&last) = open.last().filter(|last| spans[**last].depth >= depth) {
                open.pop();
                ends[last] = at;
                if let Some(&parent) = open.last() {
                    failed[parent] |= failed[last];
                }
            }
        };
        for (index, span) in spans.iter().enumerate() {
            close(&mut open, index, span.depth);
            open.push(index);
        }
        close(&mut open, spans.len(), 0);
        Self { spans, ends, failed }
    }

    /// The siblings that follow this span and are like it, and the end of their subtrees; `None` if
    /// they are too few.
    fn repeated_after(&self, index: usize) -> Option<(Folded<'a>, usize)> {
        if self.failed[index] {
            return None;
        }
        let first = self.ends[index];
        let (mut at, mut siblings, mut last) = (first, 0, first);
        while at < self.spans.len() && !self.failed[at] && self.is_like(index, at) {
            (last, siblings) = (at, siblings + 1);
            at = self.ends[at];
        }
        if siblings + 1 < LEAST_REPEATED {
            return None;
        }
        let mut folded = Folded {
            first: &self.spans[first],
            last: &self.spans[last],
            siblings,
            below: at - first - siblings,
            shortest_nano: i64::MAX,
            longest_nano: i64::MIN,
            end_unix_nano: i64::MIN,
        };
        let mut sibling = first;
        while sibling < at {
            let span = &self.spans[sibling];
            let nano = span.duration_nano.0;
            folded.shortest_nano = folded.shortest_nano.min(nano);
            folded.longest_nano = folded.longest_nano.max(nano);
            let end = span.start_unix_nano.0.saturating_add(nano);
            folded.end_unix_nano = folded.end_unix_nano.max(end);
            sibling = self.ends[sibling];
        }
        Some((folded, at))
    }

    fn is_like(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.spans[one], &self.spans[other]);
        one.depth == other.depth
            && one.parent == other.parent
            && one.service == other.service
            && one.operation == other.operation
            && one.evidence == other.evidence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans given by depth, operation, and whether they failed. Their ids are their positions.
    fn tree(rows: &[(u64, &str, bool)]) -> Vec<Span> {
        let mut open: Vec<String> = Vec::new();
        let mut spans = Vec::new();
        for (index, (depth, operation, failed)) in rows.iter().enumerate() {
            open.truncate(usize::try_from(*depth).expect("small"));
            let span = serde_json::json!({
                "span_id": index.to_string(), "parent": open.last(), "depth": depth,
                "children": [], "start_unix_nano": index.to_string(),
                "duration_nano": (index * 10).to_string(), "service": "s",
                "operation": operation, "capture": "app",
                "status": if *failed { "error" } else { "unset" }, "kind": "client",
                "self_nano": "0",
            });
            spans.push(serde_json::from_value(span).expect("a span"));
            open.push(index.to_string());
        }
        spans
    }

    fn drawn(spans: &[Span]) -> Vec<String> {
        lines(spans, true)
            .iter()
            .map(|line| match line {
                Line::Span(span) => span.span_id.clone(),
                Line::Folded(folded) => format!(
                    "{}..{}: {} + {}",
                    folded.first.span_id, folded.last.span_id, folded.siblings, folded.below
                ),
            })
            .collect()
    }

    #[test]
    fn calls_in_a_row_are_folded_with_all_below_them() {
        let spans = tree(&[
            (0, "root", false),
            (1, "get", false),
            (2, "read", false),
            (1, "get", false),
            (2, "read", false),
            (1, "get", false),
            (1, "get", false),
            (1, "other", false),
        ]);
        assert_eq!(drawn(&spans), ["0", "1", "2", "3..6: 3 + 1", "7"]);
        let whole: Vec<Line<'_>> = spans.iter().map(Line::Span).collect();
        assert_eq!(lines(&spans, false), whole);
        let Line::Folded(folded) = &lines(&spans, true)[3] else { panic!("it is folded") };
        assert_eq!((folded.shortest_nano, folded.longest_nano), (30, 60));
        assert_eq!(folded.end_unix_nano, 66);
    }

    #[test]
    fn what_failed_is_drawn_and_few_are_not_folded() {
        let mut rows = vec![(0, "root", false)];
        rows.extend([(1, "get", false); 3]);
        assert_eq!(drawn(&tree(&rows)), ["0", "1", "2", "3"]);
        rows.extend([(1, "get", false), (1, "get", true), (1, "get", false)]);
        assert_eq!(drawn(&tree(&rows)), ["0", "1", "2..4: 3 + 0", "5", "6"]);
        // A failed descendant counts as well.
        let mut rows = vec![(0, "root", false)];
        for failed in [false, true, false, false] {
            rows.extend([(1, "get", false), (2, "read", false), (3, "deep", failed)]);
        }
        assert_eq!(drawn(&tree(&rows)).len(), rows.len());
    }

    #[test]
    fn large_traces_take_linear_time() {
        let mut rows = vec![(0, "root", false)];
        for index in 0..200_000 {
            rows.push((1, if index % 7 == 0 { "a" } else { "b" }, index % 1_000 == 0));
        }
        assert!(drawn(&tree(&rows)).len() < 100_000);
        assert_eq!(drawn(&[]), [""; 0]);
    }
}
