//! Spans to a tree.

use std::cmp::Reverse;

use ahash::AHashMap;
use spanwise_model::{Evidence, Span, SpanId, TraceId};

use crate::links::links;
use crate::window::trace_id;

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
    /// The tree of these spans, which belong to one trace.
    pub fn of(mut spans: Vec<Span>) -> Self {
        spans.sort_by_key(|span| (span.start_unix_nano, Reverse(span.duration_nano), span.span_id));
        let refs: Vec<&Span> = spans.iter().collect();
        let links = links(&refs);
        let told: Option<TraceId> =
            most_frequent(spans.iter().filter_map(|s| s.assembled_trace_id));
        let id = told.unwrap_or_else(|| trace_id(&refs, &links));
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); spans.len()];
        let mut roots = Vec::new();
        for (i, link) in links.iter().enumerate() {
            match link.parent {
                Some(parent) => children[parent].push(i),
                None => roots.push(i),
            }
        }
        let mut warnings = warnings(&spans, &links, &roots);
        let ids: Vec<SpanId> = spans.iter().map(|span| span.span_id).collect();
        let mut slots: Vec<Option<Span>> = spans.into_iter().map(Some).collect();
        let mut nodes: Vec<Node> = Vec::with_capacity(slots.len());
        // (span, position of its parent, depth); the last pushed comes first.
        let mut stack: Vec<(usize, Option<usize>, usize)> =
            roots.iter().rev().map(|&root| (root, None, 0)).collect();
        while let Some((i, parent, depth)) = stack.pop() {
            let Some(mut span) = slots[i].take() else { continue };
            span.assembled_trace_id = Some(id);
            span.assembled_parent = links[i].parent.map(|parent| ids[parent]);
            span.evidence = links[i].evidence;
            span.confidence = links[i].confidence;
            let position = nodes.len();
            if let Some(parent) = parent
                && let Some(parent) = nodes.get_mut(parent)
            {
                parent.children.push(position);
            }
            nodes.push(Node { span, parent, children: Vec::new(), depth, self_nano: 0 });
            stack.extend(children[i].iter().rev().map(|&child| (child, Some(position), depth + 1)));
        }
        for position in 0..nodes.len() {
            nodes[position].self_nano = self_time(&nodes, position);
        }
        let lost = slots.iter().flatten().count();
        if lost > 0 {
            warnings.push(format!("{lost} spans hang on each other in a circle and are not shown"));
        }
        Self { trace_id: id, nodes, warnings }
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

    /// Links below certainty, and spans whose parent could not be told.
    pub fn uncertain_links(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| node.span.confidence.is_some_and(|sure| sure < Evidence::CERTAIN))
            .count()
    }
}

fn most_frequent(ids: impl Iterator<Item = TraceId>) -> Option<TraceId> {
    let mut counts: AHashMap<TraceId, usize> = AHashMap::new();
    ids.for_each(|id| *counts.entry(id).or_default() += 1);
    counts.into_iter().max_by_key(|(id, count)| (*count, Reverse(*id))).map(|(id, _)| id)
}

/// The part of a span's time in which none of its children runs.
fn self_time(nodes: &[Node], position: usize) -> i64 {
    let span = &nodes[position].span;
    let (start, end) = (span.start_unix_nano, span.end_unix_nano());
    let mut covered = 0i64;
    let mut reached = start;
    // Children stand in order of their starts.
    for &child in &nodes[position].children {
        let child = &nodes[child].span;
        let from = child.start_unix_nano.max(reached);
        let to = child.end_unix_nano().min(end);
        if to > from {
            covered = covered.saturating_add(to - from);
            reached = to;
        }
    }
    span.duration_nano.saturating_sub(covered).max(0)
}

fn warnings(spans: &[Span], links: &[crate::links::Link], roots: &[usize]) -> Vec<String> {
    let mut warnings = Vec::new();
    let ambiguous = links.iter().filter(|l| l.evidence == Some(Evidence::Ambiguous)).count();
    if ambiguous > 0 {
        warnings.push(format!(
            "{ambiguous} spans could belong to several requests; they stand as roots, for no \
             parent was guessed"
        ));
    }
    let missing = roots.iter().filter(|&&root| spans[root].parent_span_id.is_some()).count();
    if missing > 0 {
        warnings.push(format!(
            "{missing} spans name a parent that was not received: its sender may not report here, \
             or it is still to come"
        ));
    }
    let skewed = links
        .iter()
        .enumerate()
        .filter_map(|(i, link)| {
            let parent = &spans[link.parent?];
            let early = parent.start_unix_nano.saturating_sub(spans[i].start_unix_nano);
            (early > CLOCK_NANO).then_some(early)
        })
        .max();
    if let Some(nano) = skewed {
        let milliseconds = nano as f64 / 1e6;
        warnings.push(format!(
            "clocks differ: a span starts {milliseconds:.1} ms before its parent; times are shown \
             as they were reported"
        ));
    }
    warnings
}
