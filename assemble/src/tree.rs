//! Spans to a tree.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_model::{Evidence, RowRef, Span, SpanId, TraceId};

use crate::resolve::{Place, assemble_places};
use crate::row::Row;

/// A trace: its spans in depth-first order, each with its place.
#[derive(Debug, Clone)]
pub struct Trace {
    /// Its id.
    pub trace_id: TraceId,
    /// Depth-first, children by start.
    pub nodes: Vec<Node>,
    /// What a reader should know of the tree, in sentences.
    pub warnings: Vec<String>,
}

/// A span in its tree.
#[derive(Debug, Clone)]
pub struct Node {
    /// The span; its assembled columns are those of this tree.
    pub span: Span,
    /// Its parent's position in [`Trace::nodes`].
    pub parent: Option<usize>,
    /// Its children's positions, by start.
    pub children: Vec<usize>,
    /// 0 for a root.
    pub depth: usize,
    /// Its duration less the time that its children cover.
    pub self_nano: i64,
}

/// A child that starts this much before its parent is a matter of clocks.
const CLOCK_NANO: i64 = 1_000_000;

impl Trace {
    /// The tree of these spans, which belong to one trace. What assembly found
    /// of them before stands, unless there is now something surer; what it had
    /// not seen is joined.
    pub fn of(mut spans: Vec<Span>) -> Self {
        spans.sort_by_key(|span| {
            (span.start_unix_nano, Reverse(span.duration_nano), Reverse(span.capture), span.span_id)
        });
        let rows =
            (0..).zip(&spans).map(|(row, span)| Row::from_span(RowRef { batch: 0, row }, span));
        let (places, assembled) = assemble_places(rows);
        let told = most_frequent(spans.iter().filter_map(|span| span.assembled_trace_id));
        let made = assembled.first().map(|first| first.trace_id);
        // Only a trace of no spans has no id at all; no id is all zero.
        let trace_id = told.or(made).unwrap_or(TraceId([1; 16]));
        let warnings = warnings(&spans, &places);

        let mut children: Vec<Vec<usize>> = vec![Vec::new(); spans.len()];
        let mut stack: Vec<(usize, Option<usize>, usize)> = Vec::new();
        for (position, place) in places.iter().enumerate() {
            match place {
                Place::Child { parent, .. } => children[*parent].push(position),
                _ => stack.push((position, None, 0)),
            }
        }
        stack.reverse();
        let mut nodes: Vec<Node> = Vec::with_capacity(spans.len());
        let mut spans: Vec<Option<Span>> = spans.into_iter().map(Some).collect();
        // Every span is met once: it has one parent, and cycles were cut.
        while let Some((at, parent, depth)) = stack.pop() {
            let Some(mut span) = spans[at].take() else { continue };
            span.assembled_trace_id = Some(trace_id);
            span.assembled_parent = assembled[at].parent;
            span.evidence = assembled[at].evidence;
            span.confidence = assembled[at].confidence;
            let position = nodes.len();
            if let Some(parent) = parent {
                nodes[parent].children.push(position);
            }
            nodes.push(Node { span, parent, children: Vec::new(), depth, self_nano: 0 });
            let below = children[at].iter().rev();
            stack.extend(below.map(|child| (*child, Some(position), depth + 1)));
        }
        for position in 0..nodes.len() {
            nodes[position].self_nano = self_time(&nodes, position);
        }
        Self { trace_id, nodes, warnings }
    }

    /// The roots, earliest first.
    pub fn roots(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.parent.is_none())
    }

    /// Earliest start, in nanoseconds since 1970.
    pub fn start_unix_nano(&self) -> i64 {
        self.nodes.iter().map(|node| node.span.start_unix_nano).min().unwrap_or(0)
    }

    /// Latest end.
    pub fn end_unix_nano(&self) -> i64 {
        self.nodes.iter().map(|node| node.span.end_unix_nano()).max().unwrap_or(0)
    }

    /// Links below certainty, and spans whose parent could be several.
    pub fn uncertain_links(&self) -> usize {
        let uncertain = |node: &&Node| match node.parent {
            Some(_) => node.span.confidence.is_none_or(|sure| sure < Evidence::CERTAIN),
            None => node.span.evidence == Some(Evidence::Ambiguous),
        };
        self.nodes.iter().filter(uncertain).count()
    }
}

fn most_frequent(ids: impl Iterator<Item = TraceId>) -> Option<TraceId> {
    let mut counts: BTreeMap<TraceId, usize> = BTreeMap::new();
    ids.for_each(|id| *counts.entry(id).or_default() += 1);
    counts.into_iter().max_by_key(|(id, count)| (*count, Reverse(*id))).map(|(id, _)| id)
}

/// The part of a span's time in which none of its children runs.
fn self_time(nodes: &[Node], position: usize) -> i64 {
    let span = &nodes[position].span;
    let end = span.end_unix_nano();
    let mut covered = 0i64;
    let mut reached = span.start_unix_nano;
    // Children stand in order of their starts.
    for child in &nodes[position].children {
        let child = &nodes[*child].span;
        let from = child.start_unix_nano.max(reached);
        let to = child.end_unix_nano().min(end);
        if to > from {
            covered = covered.saturating_add(to.saturating_sub(from));
            reached = to;
        }
    }
    span.duration_nano.saturating_sub(covered).max(0)
}

fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

fn warnings(spans: &[Span], places: &[Place]) -> Vec<String> {
    let mut warnings = Vec::new();
    let placed = || spans.iter().zip(places);
    let ambiguous = placed().filter(|(_, place)| **place == Place::Ambiguous).count();
    if ambiguous > 0 {
        warnings.push(format!(
            "{} several requests; no parent was guessed",
            counted(ambiguous, "span could belong to", "spans could each belong to")
        ));
    }
    let orphan = |span: &Span, place: &Place| {
        (*place == Place::Root).then_some(span.parent_span_id).flatten()
    };
    let mut missing: Vec<SpanId> =
        placed().filter_map(|(span, place)| orphan(span, place)).collect();
    if let Some(first) = missing.first().copied() {
        let spans = counted(missing.len(), "span names", "spans name");
        missing.sort_unstable();
        missing.dedup();
        let parents = match missing.len() {
            1 => format!("a parent, {first}, that is not here"),
            several => format!("parents that are not here ({first} and {} more)", several - 1),
        };
        warnings.push(format!(
            "{spans} {parents}: its sender does not report to this server, or it is still to come"
        ));
    }
    let early = placed().filter_map(|(span, place)| match place {
        Place::Child { parent, .. } => {
            let early = spans[*parent].start_unix_nano.saturating_sub(span.start_unix_nano);
            (early > CLOCK_NANO).then_some((early, span, &spans[*parent]))
        }
        _ => None,
    });
    let (count, worst) = early.fold((0usize, None), |(count, worst), one| {
        let worse = match worst {
            Some(worst) => {
                std::cmp::max_by_key(worst, one, |(nano, ..): &(i64, &Span, &Span)| *nano)
            }
            None => one,
        };
        (count + 1, Some(worse))
    });
    if let Some((nano, span, parent)) = worst {
        warnings.push(format!(
            "clocks: `{}` ({}) starts {:.1} ms before its parent `{}` ({}){}; times are shown as \
             they were reported",
            span.operation,
            span.service,
            nano as f64 / 1e6,
            parent.operation,
            parent.service,
            match count {
                1 => String::new(),
                more => format!(", and {} more by less", more - 1),
            },
        ));
    }
    let mut ids: Vec<SpanId> = spans.iter().map(|span| span.span_id).collect();
    ids.sort_unstable();
    let twice = ids.windows(2).filter(|pair| pair[0] == pair[1]).count();
    if twice > 0 {
        warnings.push(format!(
            "{} reported more than once; each report is shown",
            counted(twice, "span was", "spans were")
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_model::{Capture, Kind};

    const MS: i64 = 1_000_000;

    fn span(number: u64, capture: Capture, from_ms: i64, to_ms: i64) -> Span {
        let kind = if capture == Capture::ClientProcess { Kind::Client } else { Kind::Server };
        let id = SpanId::from_u64(number).expect("not zero");
        let name = format!("op{number}");
        Span::new(id, capture, kind, "s", name, from_ms * MS, (to_ms - from_ms) * MS)
    }

    /// A request with two calls that overlap, told backwards.
    fn spans() -> Vec<Span> {
        let mut request = span(1, Capture::ServerProcess, 0, 100);
        request.fragment_id = Some(5);
        let mut spans = vec![request];
        for (number, from, to) in [(2, 10, 40), (3, 30, 60)] {
            let mut call = span(number, Capture::ClientProcess, from, to);
            call.fragment_id = Some(5);
            (call.evidence, call.confidence) = (Some(Evidence::Thread), Some(1.0));
            spans.insert(0, call);
        }
        spans
    }

    #[test]
    fn the_tree_is_in_depth_first_order_with_self_times() {
        let trace = Trace::of(spans());
        let shape: Vec<_> = trace
            .nodes
            .iter()
            .map(|node| (node.span.span_id.as_u64(), node.parent, node.depth, node.self_nano / MS))
            .collect();
        assert_eq!(shape, [(1, None, 0, 50), (2, Some(0), 1, 30), (3, Some(0), 1, 30)]);
        assert_eq!(trace.nodes[0].children, [1, 2]);
        assert_eq!(trace.warnings, Vec::<String>::new());
        assert_eq!(trace.uncertain_links(), 0);
        assert_eq!(trace.trace_id.0[8..], 1u64.to_be_bytes(), "made of the first span");
    }

    #[test]
    fn what_was_found_before_stands_and_what_was_missing_is_joined() {
        let known = TraceId([9; 16]);
        let mut spans = spans();
        for span in &mut spans {
            span.assembled_trace_id = Some(known);
        }
        // Found with rows that are not here: the second call under the first.
        let second = spans.iter_mut().find(|span| span.span_id.as_u64() == 3).expect("is there");
        second.assembled_parent = SpanId::from_u64(2);
        (second.evidence, second.confidence) = (Some(Evidence::RequestId), Some(1.0));
        let mut late = span(4, Capture::ServerProcess, 11, 39);
        (late.request_tcp_seq, late.response_tcp_seq) = (Some(1), Some(2));
        let first = spans.iter_mut().find(|span| span.span_id.as_u64() == 2).expect("is there");
        (first.request_tcp_seq, first.response_tcp_seq) = (Some(1), Some(2));
        spans.push(late);
        let trace = Trace::of(spans);
        assert_eq!(trace.trace_id, known);
        let parents: Vec<_> = trace
            .nodes
            .iter()
            .map(|node| {
                (node.span.span_id.as_u64(), node.span.assembled_parent.map(SpanId::as_u64))
            })
            .collect();
        assert_eq!(parents, [(1, None), (2, Some(1)), (4, Some(2)), (3, Some(2))]);
        assert_eq!(trace.nodes[2].span.evidence, Some(Evidence::TcpSequence));
    }

    #[test]
    fn ambiguity_stays_and_is_counted() {
        let mut spans = spans();
        for span in &mut spans {
            span.assembled_trace_id = Some(TraceId([9; 16]));
        }
        (spans[0].evidence, spans[0].confidence, spans[0].fragment_id) =
            (Some(Evidence::Ambiguous), None, None);
        let trace = Trace::of(spans);
        assert_eq!(trace.uncertain_links(), 1);
        assert_eq!(trace.roots().count(), 2);
        assert!(
            trace.warnings[0].contains("1 span could belong to several"),
            "{:?}",
            trace.warnings
        );
    }

    #[test]
    fn circles_skewed_clocks_and_lost_parents_are_told() {
        let mut one = span(1, Capture::App, 10, 20);
        let mut two = span(2, Capture::App, 0, 30);
        let mut orphan = span(3, Capture::App, 5, 6);
        for (span, parent) in [(&mut one, 2), (&mut two, 1), (&mut orphan, 77)] {
            span.trace_id = Some(TraceId([1; 16]));
            span.parent_span_id = SpanId::from_u64(parent);
            span.kind = Kind::Internal;
        }
        let trace = Trace::of(vec![one, two, orphan]);
        assert_eq!(trace.nodes.len(), 3, "nothing is lost");
        let text = trace.warnings.join("\n");
        assert!(text.contains("1 span names a parent, 000000000000004d"), "{text}");
        assert!(text.contains("10.0 ms before its parent `op1`"), "{text}");
        assert!(text.contains("several requests"), "{text}");
    }

    #[test]
    fn a_trace_of_nothing_is_empty() {
        let trace = Trace::of(Vec::new());
        assert!(trace.nodes.is_empty() && trace.warnings.is_empty());
    }
}
