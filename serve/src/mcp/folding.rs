//! Folds a trace so that it fits a model's context: of siblings that are alike, the first are
//! drawn, and the others are one line.

use ahash::AHashMap;
use spanwise_analyze::Labels;
use spanwise_assemble::{Node, Trace};
use spanwise_model::Evidence;

/// Siblings that are alike are folded from so many on.
const LEAST_ALIKE: usize = 4;
/// Of those that failed, or have a failure below them, so many are drawn.
const FAILED_DRAWN: usize = 3;

/// A line of the drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    /// The node, or the first of the folded ones.
    pub(super) node: usize,
    /// Levels below the top of the drawing.
    pub(super) level: usize,
    /// The siblings that this line stands for; `None` where it is one span.
    pub(super) folded: Option<Folded>,
}

/// Siblings like those drawn before them, with all that is below them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Folded {
    /// How many siblings.
    pub(super) siblings: usize,
    /// How many spans below them.
    pub(super) below: usize,
    /// Of the siblings, those that failed or have a failure below them.
    pub(super) failed: usize,
    /// The shortest duration of a sibling.
    pub(super) shortest_nano: i64,
    /// The longest.
    pub(super) longest_nano: i64,
    /// The sibling with it.
    pub(super) longest: usize,
    /// Their durations together.
    pub(super) total_nano: i64,
}

/// What is known of each subtree.
pub(super) struct Subtrees<'t> {
    trace: &'t Trace,
    /// How many spans each has, with its root.
    pub(super) sizes: Vec<usize>,
    /// Whether a span of it failed.
    pub(super) has_failed: Vec<bool>,
}

impl<'t> Subtrees<'t> {
    pub(super) fn of(trace: &'t Trace, labels: &Labels<'_>) -> Self {
        let nodes = &trace.nodes;
        let mut sizes = vec![1; nodes.len()];
        let mut has_failed: Vec<bool> =
            nodes.iter().map(|node| labels.is_error(node.row.at)).collect();
        // Children stand behind their parents.
        for (index, node) in nodes.iter().enumerate().rev() {
            if let Some(parent) = node.parent {
                sizes[parent] += sizes[index];
                has_failed[parent] |= has_failed[index];
            }
        }
        Self { trace, sizes, has_failed }
    }

    /// The lines of these nodes and of what is below them, in order.
    pub(super) fn lines(&self, tops: &[usize], labels: &Labels<'_>, fold: bool) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut stack: Vec<Line> = Vec::new();
        self.push(tops, 0, labels, fold, &mut stack);
        while let Some(line) = stack.pop() {
            lines.push(line);
            if line.folded.is_none() {
                let below = &self.trace.nodes[line.node].children;
                self.push(below, line.level + 1, labels, fold, &mut stack);
            }
        }
        lines
    }

    /// Adds the lines of siblings to the stack, the first one last. A fold stands where its first
    /// sibling is.
    fn push(
        &self,
        siblings: &[usize],
        level: usize,
        labels: &Labels<'_>,
        fold: bool,
        stack: &mut Vec<Line>,
    ) {
        let from = stack.len();
        let plain = |node: usize| Line { node, level, folded: None };
        if !fold || siblings.len() < LEAST_ALIKE {
            stack.extend(siblings.iter().copied().map(plain));
            stack[from..].reverse();
            return;
        }
        let mut alike: AHashMap<(&str, &str, bool, bool), Vec<usize>> = AHashMap::new();
        let key = |node: usize| {
            let at = self.trace.nodes[node].row.at;
            let is_guess = is_guess(&self.trace.nodes[node]);
            (labels.service(at), labels.operation(at), self.has_failed[node], is_guess)
        };
        for node in siblings {
            alike.entry(key(*node)).or_default().push(*node);
        }
        for node in siblings {
            let key = key(*node);
            let group = &alike[&key];
            let drawn = match key.2 {
                _ if group.len() < LEAST_ALIKE => group.len(),
                true => FAILED_DRAWN,
                false => 1,
            };
            // The group is in the order of the siblings.
            let place = group.partition_point(|other| other < node);
            if place < drawn {
                stack.push(plain(*node));
            } else if place == drawn {
                stack.push(Line { node: *node, level, folded: Some(self.folded(&group[drawn..])) });
            }
        }
        stack[from..].reverse();
    }

    fn folded(&self, siblings: &[usize]) -> Folded {
        let mut folded = Folded {
            siblings: siblings.len(),
            below: 0,
            failed: 0,
            shortest_nano: i64::MAX,
            longest_nano: i64::MIN,
            longest: siblings[0],
            total_nano: 0,
        };
        for node in siblings {
            let nano = duration_nano(&self.trace.nodes[*node]);
            folded.below += self.sizes[*node] - 1;
            folded.failed += usize::from(self.has_failed[*node]);
            folded.shortest_nano = folded.shortest_nano.min(nano);
            folded.total_nano = folded.total_nano.saturating_add(nano);
            if nano > folded.longest_nano {
                (folded.longest_nano, folded.longest) = (nano, *node);
            }
        }
        folded
    }
}

/// The deepest level of which all lines up to it are at most so many; 0 where even the first has
/// more.
pub(super) fn fitting_level(lines: &[Line], most: usize) -> usize {
    let mut counts: Vec<usize> = Vec::new();
    for line in lines {
        if counts.len() <= line.level {
            counts.resize(line.level + 1, 0);
        }
        counts[line.level] += 1;
    }
    let mut total = 0;
    let fits = counts.iter().take_while(|count| {
        total += **count;
        total <= most
    });
    fits.count().saturating_sub(1)
}

/// The duration of a span.
pub(super) const fn duration_nano(node: &Node) -> i64 {
    node.row.end_unix_nano.saturating_sub(node.row.start_unix_nano)
}

/// Whether the span hangs where it does by a guess.
pub(super) fn is_guess(node: &Node) -> bool {
    let confidence = node.assembled.confidence;
    node.parent.is_some() && confidence.is_none_or(|sure| sure < Evidence::CERTAIN)
}

#[cfg(test)]
mod tests {
    use spanwise_assemble::Row;
    use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId, Status, TraceId};

    use super::*;

    /// Spans given by their parents' positions, names, and whether they failed.
    fn drawn(spans: &[(Option<usize>, &str, bool)], most: usize) -> (Vec<String>, usize) {
        let id = |at: usize| SpanId::from_u64(at as u64 + 1).expect("not zero");
        let mut builder = SpanBatchBuilder::default();
        for (at, (parent, name, failed)) in spans.iter().enumerate() {
            let start = at as i64 * 10;
            let mut span = Span::new(id(at), Capture::App, Kind::Client, "s", *name, start, 5);
            span.trace_id = Some(TraceId([7; 16]));
            span.parent_span_id = parent.map(id);
            span.status = if *failed { Status::Error } else { Status::Unset };
            builder.push(&span);
        }
        let batch = builder.finish().expect("a batch");
        let trace = Trace::of(Row::read(0, &batch).expect("rows"));
        let batches = [batch];
        let labels = Labels::of(&batches).expect("columns");
        let subtrees = Subtrees::of(&trace, &labels);
        let roots: Vec<usize> =
            (0..trace.nodes.len()).filter(|node| trace.nodes[*node].parent.is_none()).collect();
        let lines = subtrees.lines(&roots, &labels, true);
        let level = fitting_level(&lines, most);
        let text = lines.iter().map(|line| {
            let name = labels.operation(trace.nodes[line.node].row.at);
            let indent = " ".repeat(line.level);
            match line.folded {
                None => format!("{indent}{name}"),
                Some(folded) => format!(
                    "{indent}{name} x{} +{} !{}",
                    folded.siblings, folded.below, folded.failed
                ),
            }
        });
        (text.collect(), level)
    }

    #[test]
    fn siblings_that_alternate_are_folded_too() {
        let mut spans = vec![(None, "root", false)];
        for _ in 0..5 {
            spans.push((Some(0), "a", false));
            spans.push((Some(spans.len() - 1), "below", false));
            spans.push((Some(0), "b", false));
        }
        let (lines, level) = drawn(&spans, 5);
        assert_eq!(lines, ["root", " a", "  below", " b", " a x4 +4 !0", " b x4 +0 !0"]);
        assert_eq!(level, 1);
    }

    #[test]
    fn failures_are_drawn_apart_and_few_are_not_folded() {
        let mut spans = vec![(None, "root", false)];
        spans.extend([(Some(0), "a", false); 3]);
        assert_eq!(drawn(&spans, 9).0, ["root", " a", " a", " a"]);
        for _ in 0..5 {
            spans.push((Some(0), "a", false));
            spans.push((Some(spans.len() - 1), "cause", true));
        }
        let (lines, level) = drawn(&spans, 100);
        let failed = [" a", "  cause", " a", "  cause", " a", "  cause", " a x2 +2 !2"];
        assert_eq!(lines[..4], ["root", " a", " a", " a"]);
        assert_eq!(lines[4..], failed);
        assert_eq!(level, 2);
    }

    #[test]
    fn a_large_trace_becomes_few_lines_in_linear_time() {
        let mut spans = vec![(None, "root", false)];
        for _ in 0..33_000 {
            spans.push((Some(0), "item", false));
            let item = spans.len() - 1;
            spans.extend([(Some(item), "get", false), (Some(item), "put", false)]);
        }
        let (lines, level) = drawn(&spans, 200);
        assert_eq!(lines, ["root", " item", "  get", "  put", " item x32999 +65998 !0"]);
        assert_eq!(level, 2);
        assert_eq!(drawn(&[], 5), (Vec::new(), 0));
    }
}
