//! From rows to a tree.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use spanwise_model::{Assembled, ClockFault, Evidence, RowRef, SpanId, TraceId};

use crate::clocks::{self, ClockDifference};
use crate::resolve::{TreePosition, assemble_places};
use crate::row::{Row, part_twins};
use crate::text::Text;

/// A trace: its rows in depth-first order, with their positions. The spans' other contents stay in
/// the batches.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The trace id.
    pub trace_id: TraceId,
    /// Depth-first; children sorted by start.
    pub nodes: Vec<Node>,
}

/// A row in the tree.
#[derive(Debug, Clone)]
pub struct Node {
    /// The row. [`Row::at`] leads to the whole span.
    pub row: Row,
    /// Its assembled columns in this tree.
    pub assembled: Assembled,
    /// Index of the parent in [`Trace::nodes`].
    pub parent: Option<usize>,
    /// Indexes of the children, sorted by start.
    pub children: Vec<usize>,
    /// 0 for a root.
    pub depth: usize,
    /// Duration without the time that children cover.
    pub self_nano: i64,
}

/// A child that starts earlier than its parent by more than this indicates a clock difference.
const CLOCK_NANO: i64 = 1_000_000;

impl Trace {
    /// The tree of these rows, which must belong to one trace. Earlier results stay unless there is
    /// a more certain link now. Rows without earlier results are joined.
    pub fn of(mut rows: Vec<Row>) -> Self {
        part_twins(&mut rows);
        rows.sort_by_key(|row| {
            let longest_first = Reverse(row.end_unix_nano.saturating_sub(row.start_unix_nano));
            (row.start_unix_nano, longest_first, Reverse(row.capture), row.span_id)
        });
        let (places, assembled) = assemble_places(rows.iter().copied());
        let told =
            most_frequent(rows.iter().filter_map(|row| row.prior.map(|prior| prior.trace_id)));
        let made = assembled.first().map(|first| first.trace_id);
        // Only a trace without rows has no id. The constant is not a valid zero id.
        let trace_id = told.or(made).unwrap_or(TraceId([1; 16]));

        let mut children: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
        let mut stack: Vec<(usize, Option<usize>, usize)> = Vec::new();
        for (position, place) in places.iter().enumerate() {
            match place {
                TreePosition::Child { parent, .. } => children[*parent].push(position),
                _ => stack.push((position, None, 0)),
            }
        }
        stack.reverse();
        let mut nodes: Vec<Node> = Vec::with_capacity(rows.len());
        // Every row is visited once: it has one parent, and cycles were cut.
        while let Some((at, parent, depth)) = stack.pop() {
            let position = nodes.len();
            if let Some(parent) = parent {
                nodes[parent].children.push(position);
            }
            let assembled = Assembled { trace_id, ..assembled[at] };
            let row = rows[at];
            nodes.push(Node { row, assembled, parent, children: Vec::new(), depth, self_nano: 0 });
            let below = children[at].iter().rev();
            stack.extend(below.map(|child| (*child, Some(position), depth + 1)));
        }
        for position in 0..nodes.len() {
            nodes[position].self_nano = self_time(&nodes, position);
        }
        Self { trace_id, nodes }
    }

    /// The roots, earliest first.
    pub fn roots(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.parent.is_none())
    }

    /// Start of the earliest root; 0 if there is none. The trace counts for the time of it.
    pub fn first_root_unix_nano(&self) -> i64 {
        self.roots().map(|root| root.row.start_unix_nano).min().unwrap_or(0)
    }

    /// Earliest start, in nanoseconds since 1970.
    pub fn start_unix_nano(&self) -> i64 {
        self.timed().map(|row| row.start_unix_nano).min().unwrap_or(0)
    }

    /// Latest end.
    pub fn end_unix_nano(&self) -> i64 {
        self.timed().map(|row| row.end_unix_nano).max().unwrap_or(0)
    }

    /// The rows that show when the trace took place. A row from 1970 would make it half a century
    /// long. If there are none, all rows.
    fn timed(&self) -> impl Iterator<Item = &Row> {
        let rows = || self.nodes.iter().map(|node| &node.row);
        let none = rows().all(Row::is_elsewhere);
        rows().filter(move |row| none || !row.is_elsewhere())
    }

    /// Clock differences between the trace's hosts, measured by its calls. A row of the host stands
    /// for each host.
    pub fn clock_differences(&self) -> Vec<ClockDifference<RowRef>> {
        let row_of = |host: Text| {
            let mut rows = self.nodes.iter().map(|node| &node.row);
            rows.find(|row| row.host == Some(host)).map(|row| row.at)
        };
        let named = |found: ClockDifference<Text>| {
            Some(found.named(row_of(found.reference)?, row_of(found.host)?))
        };
        self.differences().into_iter().filter_map(named).collect()
    }

    fn differences(&self) -> Vec<ClockDifference<Text>> {
        clocks::differences(self.nodes.iter().filter_map(|node| {
            let is_hop = node.assembled.evidence == Some(Evidence::TcpSequence);
            Some((&self.nodes[node.parent.filter(|_| is_hop)?].row, &node.row))
        }))
    }

    /// Number of uncertain links and of spans with an ambiguous parent.
    pub fn uncertain_links(&self) -> usize {
        let uncertain = |node: &&Node| match node.parent {
            Some(_) => node.assembled.confidence.is_none_or(|sure| sure < Evidence::CERTAIN),
            None => node.is_ambiguous(),
        };
        self.nodes.iter().filter(uncertain).count()
    }

    /// Whether the trace has an unlikely link or a span with an ambiguous parent. Links that are
    /// merely uncertain are normal and do not count.
    pub fn is_doubtful(&self) -> bool {
        self.nodes.iter().any(|node| match node.parent {
            Some(_) => node.assembled.confidence.is_some_and(|sure| sure < Evidence::DOUBTFUL),
            None => node.is_ambiguous(),
        })
    }

    /// Whether no span's parent is missing.
    pub fn is_complete(&self) -> bool {
        self.roots().all(|node| !node.is_ambiguous() && node.missing_parent().is_none())
    }

    /// Number of levels.
    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|node| node.depth + 1).max().unwrap_or(0)
    }

    /// Warnings for readers of the trace, as sentences. `name` returns a row's operation and
    /// service.
    pub fn warnings(&self, name: impl Fn(RowRef) -> (String, String)) -> Vec<String> {
        let warnings = [
            self.ambiguous(),
            self.orphans(),
            self.clocks(&name),
            self.impossible(&name),
            self.repeated(),
        ];
        warnings.into_iter().flatten().collect()
    }

    fn ambiguous(&self) -> Option<String> {
        let count = self.roots().filter(|node| node.is_ambiguous()).count();
        (count > 0).then(|| {
            format!(
                "{} several requests; no parent was guessed",
                counted(count, "span could belong to", "spans could each belong to")
            )
        })
    }

    fn orphans(&self) -> Option<String> {
        let orphans = self.roots().filter(|node| !node.is_ambiguous());
        let mut missing: Vec<SpanId> = orphans.filter_map(Node::missing_parent).collect();
        let first = missing.first().copied()?;
        let spans = counted(missing.len(), "span names", "spans name");
        missing.sort_unstable();
        missing.dedup();
        let parents = match missing.len() {
            1 => format!("a parent, {first}, that is not here"),
            several => format!("parents that are not here ({first} and {} more)", several - 1),
        };
        Some(format!(
            "{spans} {parents}: its sender does not report to this server, or it is still to come"
        ))
    }

    /// Names the child that starts earliest before its parent, unless the known clock difference of
    /// their hosts explains it.
    fn clocks(&self, name: &impl Fn(RowRef) -> (String, String)) -> Option<String> {
        let mut differences = self.differences();
        differences.retain(ClockDifference::is_notable);
        let is_known = |one: Option<Text>, other: Option<Text>| {
            let hosts = one.zip(other);
            let is_between =
                |(one, other)| differences.iter().any(|it| it.is_between(&one, &other));
            hosts.is_some_and(is_between)
        };
        let early = self.nodes.iter().filter_map(|node| {
            let parent = &self.nodes[node.parent?].row;
            let early = parent.start_unix_nano.saturating_sub(node.row.start_unix_nano);
            let told = node.row.is_elsewhere()
                || parent.is_elsewhere()
                || is_known(parent.host, node.row.host);
            (early > CLOCK_NANO && !told).then_some((early, &node.row, parent))
        });
        let count = early.clone().count();
        let (nano, row, parent) = early.max_by_key(|(early, ..)| *early)?;
        let ((operation, service), (parent, parent_service)) = (name(row.at), name(parent.at));
        let more = match count {
            1 => String::new(),
            count => format!(", and {} more by less", count - 1),
        };
        Some(format!(
            "clocks: `{operation}` ({service}) starts {:.1} ms before its parent `{parent}` \
             ({parent_service}){more}; times are shown as they were reported",
            nano as f64 / 1e6,
        ))
    }

    /// Names the rows with impossible times.
    fn impossible(&self, name: &impl Fn(RowRef) -> (String, String)) -> Option<String> {
        let mut faults: BTreeMap<ClockFault, (usize, RowRef)> = BTreeMap::new();
        for Node { row, .. } in &self.nodes {
            if let Some(fault) = row.clock {
                faults.entry(fault).or_insert((0, row.at)).0 += 1;
            }
        }
        if faults.is_empty() {
            return None;
        }
        let said = faults.into_iter().map(|(fault, (count, first))| {
            let what = match fault {
                ClockFault::Past => "before the year 2000",
                ClockFault::Future => "later than they arrived",
                ClockFault::Negative => "with an end before the start",
                ClockFault::Long => "longer than a day",
            };
            let (operation, service) = name(first);
            format!("{} {what} (`{operation}` of {service})", counted(count, "span", "spans"))
        });
        Some(format!(
            "clocks: {}; kept as they were sent, see their attribute `{}`",
            said.collect::<Vec<_>>().join(", "),
            ClockFault::ATTRIBUTE
        ))
    }

    fn repeated(&self) -> Option<String> {
        let mut ids: Vec<SpanId> = self.nodes.iter().map(|node| node.row.span_id).collect();
        ids.sort_unstable();
        let twice = ids.windows(2).filter(|pair| pair[0] == pair[1]).count();
        (twice > 0).then(|| {
            format!(
                "{} reported more than once; each report is shown",
                counted(twice, "span was", "spans were")
            )
        })
    }
}

impl Node {
    fn is_ambiguous(&self) -> bool {
        self.parent.is_none() && self.assembled.evidence == Some(Evidence::Ambiguous)
    }

    /// Of a span that hangs nowhere, the parent that it names, or that was found for it
    /// before.
    pub fn missing_parent(&self) -> Option<SpanId> {
        let found = || self.row.prior.and_then(|prior| prior.parent);
        let named = self.row.parent_span_id.filter(|named| *named != self.row.span_id);
        named.or_else(found).filter(|_| self.parent.is_none())
    }
}

fn most_frequent(ids: impl Iterator<Item = TraceId>) -> Option<TraceId> {
    let mut counts: BTreeMap<TraceId, usize> = BTreeMap::new();
    ids.for_each(|id| *counts.entry(id).or_default() += 1);
    counts.into_iter().max_by_key(|(id, count)| (*count, Reverse(*id))).map(|(id, _)| id)
}

/// The part of a row's time in which none of its children ran. Zero if the row's times are
/// impossible.
fn self_time(nodes: &[Node], position: usize) -> i64 {
    let Row { start_unix_nano: start, end_unix_nano: end, .. } = nodes[position].row;
    if nodes[position].row.is_elsewhere() {
        return 0;
    }
    let mut covered = 0i64;
    let mut reached = start;
    // Children are sorted by start.
    for child in &nodes[position].children {
        let child = &nodes[*child].row;
        // A child from elsewhere in time covers nothing.
        if child.is_elsewhere() {
            continue;
        }
        let from = child.start_unix_nano.max(reached);
        let to = child.end_unix_nano.min(end);
        if to > from {
            covered = covered.saturating_add(to.saturating_sub(from));
            reached = to;
        }
    }
    end.saturating_sub(start).saturating_sub(covered).max(0)
}

fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spanwise_model::{Capture, Kind, Span};

    /// The tree of these spans, and its warnings.
    fn tree(spans: &[Span]) -> (Trace, Vec<String>) {
        let rows =
            (0..).zip(spans).map(|(row, span)| Row::from_span(RowRef { batch: 0, row }, span));
        let trace = Trace::of(rows.collect());
        let name = |at: RowRef| {
            let span = &spans[at.row as usize];
            (span.operation.clone(), span.service.clone())
        };
        let warnings = trace.warnings(name);
        (trace, warnings)
    }

    #[test]
    fn client_and_server_with_one_id_are_one_below_the_other_in_every_order() {
        let make = |kind, service: &str, number, parent, from, to| {
            let mut made = span(number, Capture::App, from, to);
            (made.kind, made.service) = (kind, service.to_owned());
            made.trace_id = Some(TraceId([7; 16]));
            made.parent_span_id = SpanId::from_u64(parent);
            made
        };
        let spans = [
            make(Kind::Client, "front", 1, 0, 0, 100),
            make(Kind::Server, "back", 1, 0, 10, 90),
            make(Kind::Client, "back", 2, 1, 20, 80),
        ];
        for order in [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]] {
            let spans = order.map(|place: usize| spans[place].clone());
            let (trace, warnings) = tree(&spans);
            let depths: Vec<_> = trace.nodes.iter().map(|node| node.depth).collect();
            assert_eq!((depths, warnings), (vec![0, 1, 2], vec![]), "{order:?}");
            let ids: Vec<_> = trace.nodes.iter().map(|node| node.row.span_id).collect();
            assert_eq!(ids[1], ids[0].receiving_half(), "no two have one id");
        }
    }

    const MS: i64 = 1_000_000;

    fn span(number: u64, capture: Capture, from_ms: i64, to_ms: i64) -> Span {
        let kind = if capture == Capture::ClientProcess { Kind::Client } else { Kind::Server };
        let id = SpanId::from_u64(number).expect("not zero");
        let name = format!("op{number}");
        Span::new(id, capture, kind, "s", name, from_ms * MS, (to_ms - from_ms) * MS)
    }

    /// A request with two overlapping calls, in reverse order.
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
        let (trace, warnings) = tree(&spans());
        let shape: Vec<_> = trace
            .nodes
            .iter()
            .map(|node| (node.row.span_id.as_u64(), node.parent, node.depth, node.self_nano / MS))
            .collect();
        assert_eq!(shape, [(1, None, 0, 50), (2, Some(0), 1, 30), (3, Some(0), 1, 30)]);
        assert_eq!(trace.nodes[0].children, [1, 2]);
        assert_eq!(warnings, Vec::<String>::new());
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
        // Earlier result, found with rows that are missing here: the second call is a child of the
        // first.
        let second = spans.iter_mut().find(|span| span.span_id.as_u64() == 3).expect("is there");
        second.assembled_parent = SpanId::from_u64(2);
        (second.evidence, second.confidence) = (Some(Evidence::RequestId), Some(1.0));
        let mut late = span(4, Capture::ServerProcess, 11, 39);
        (late.request_tcp_seq, late.response_tcp_seq) = (Some(1), Some(2));
        let first = spans.iter_mut().find(|span| span.span_id.as_u64() == 2).expect("is there");
        (first.request_tcp_seq, first.response_tcp_seq) = (Some(1), Some(2));
        spans.push(late);
        let (trace, _) = tree(&spans);
        assert_eq!(trace.trace_id, known);
        let parents: Vec<_> = trace
            .nodes
            .iter()
            .map(|node| (node.row.span_id.as_u64(), node.assembled.parent.map(SpanId::as_u64)))
            .collect();
        assert_eq!(parents, [(1, None), (2, Some(1)), (4, Some(2)), (3, Some(2))]);
        assert_eq!(trace.nodes[2].assembled.evidence, Some(Evidence::TcpSequence));
    }

    #[test]
    fn ambiguity_stays_and_is_counted() {
        let mut spans = spans();
        for span in &mut spans {
            span.assembled_trace_id = Some(TraceId([9; 16]));
        }
        (spans[0].evidence, spans[0].confidence, spans[0].fragment_id) =
            (Some(Evidence::Ambiguous), None, None);
        let (trace, warnings) = tree(&spans);
        assert_eq!(trace.uncertain_links(), 1);
        assert_eq!(trace.roots().count(), 2);
        assert!(warnings[0].contains("1 span could belong to several"), "{warnings:?}");
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
        let (trace, warnings) = tree(&[one, two, orphan]);
        assert_eq!(trace.nodes.len(), 3, "nothing is lost");
        let text = warnings.join("\n");
        assert!(text.contains("1 span names a parent, 000000000000004d"), "{text}");
        assert!(text.contains("10.0 ms before its parent `op1`"), "{text}");
        assert!(text.contains("several requests"), "{text}");
    }

    #[test]
    fn clocks_of_hosts_that_are_apart_are_told_and_not_their_spans() {
        let mut call = span(1, Capture::ClientProcess, 0, 100);
        let mut served = span(2, Capture::ServerProcess, -490, -410);
        let mut app = span(3, Capture::App, 3, 4);
        for (span, host) in [(&mut call, "a"), (&mut served, "b")] {
            (span.request_tcp_seq, span.response_tcp_seq) = (Some(1), Some(2));
            span.host = Some(host.to_owned());
        }
        (app.trace_id, app.parent_span_id) = (Some(TraceId([1; 16])), SpanId::from_u64(9));
        let (trace, warnings) = tree(&[call, served, app]);
        let found = trace.clock_differences();
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.ahead_nano, found.uncertainty_nano), (-500 * MS, 10 * MS));
        assert_eq!((found.reference.row, found.host.row, found.exchanges), (0, 1, 1));
        assert!(found.is_notable());
        let text = warnings.join("\n");
        assert!(!text.contains("before its parent"), "{text}");
    }

    #[test]
    fn spans_of_impossible_times_do_not_stretch_their_trace() {
        let mark = |span: &mut Span, fault: ClockFault| {
            span.attributes.push((ClockFault::ATTRIBUTE.to_owned(), fault.as_str().into()));
        };
        let mut spans = spans();
        let (mut past, mut future) =
            (span(8, Capture::App, -9_000, -8_000), span(9, Capture::App, 50, 9_000_000));
        (past.duration_nano, past.start_unix_nano) = (i64::MAX, i64::MIN);
        mark(&mut past, ClockFault::Past);
        mark(&mut future, ClockFault::Future);
        spans.extend([past.clone(), future]);
        let (trace, warnings) = tree(&spans);
        let busy: i64 = trace.nodes.iter().map(|node| node.self_nano).sum();
        assert_eq!(busy, (50 + 30 + 30) * MS, "that of the others");
        assert_eq!((trace.start_unix_nano(), trace.end_unix_nano()), (0, 100 * MS));
        assert_eq!(trace.nodes.len(), 5);
        let text = warnings.join("\n");
        assert!(text.contains("1 span before the year 2000 (`op8` of s), 1 span later"), "{text}");
        assert_eq!(tree(&[past]).0.start_unix_nano(), i64::MIN, "there is no other");
    }

    #[test]
    fn a_trace_of_nothing_is_empty() {
        let (trace, warnings) = tree(&[]);
        assert!(trace.nodes.is_empty() && warnings.is_empty());
    }
}
