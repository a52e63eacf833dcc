//! An assembled trace with the rows of its spans.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use arrow::array::RecordBatch;
use spanwise_analyze::{Labels, ServiceShare, TraceSummary};
use spanwise_assemble::{ClockDifference, Node, Trace, TraceRows};
use spanwise_model::{ModelError, RowRef, SpanBatch, SpanId};

/// An assembled trace, the rows of its spans, and what is known of it as a whole.
pub struct TraceTree {
    /// The tree. The batch in a row's [`RowRef`] is a position in `batches`.
    pub trace: Trace,
    /// The rows of its spans.
    pub batches: Vec<SpanBatch>,
    /// What is wrong with the trace.
    pub warnings: Vec<String>,
    /// Its services, the busiest first.
    pub services: Vec<ServiceShare>,
    /// How far the clocks of its hosts differ, by the hosts' names.
    pub clocks: Vec<ClockDifference<String>>,
    /// The earliest start.
    pub start_unix_nano: i64,
    /// From the earliest start to the latest end.
    pub duration_nano: i64,
    /// Spans that failed.
    pub error_count: usize,
    /// Levels.
    pub depth: usize,
    /// Whether the parent of every span is present.
    pub complete: bool,
    /// Spans of the trace that are not in the tree, because there are too many.
    pub left_out: usize,
    /// Identifies the spans of the tree: a tree of other spans has another snapshot.
    pub snapshot: String,
    /// Memory that it takes.
    pub(super) bytes: usize,
}

/// A page: some spans of a trace in depth-first order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRange {
    /// How many spans come before the page.
    pub after: usize,
    /// The most spans of the page.
    pub limit: usize,
}

impl PageRange {
    /// The page of this size that has this position.
    pub(super) const fn around(position: usize, limit: usize) -> Self {
        Self { after: position - position % limit, limit }
    }

    /// The positions of the page in a trace of so many spans.
    pub fn positions(self, spans: usize) -> Range<usize> {
        self.after.min(spans)..self.after.saturating_add(self.limit).min(spans)
    }
}

impl TraceTree {
    /// # Errors
    /// Where the rows are no spans.
    pub(crate) fn of(found: TraceRows) -> Result<Self, ModelError> {
        let TraceRows { rows, batches, left_out, cut } = found;
        let in_tree = rows.len();
        let trace = Trace::of(rows);
        let labels = Labels::of(&batches)?;
        let name = |at| (labels.operation(at).to_owned(), labels.service(at).to_owned());
        let clocks = clocks(&trace, &batches)?;
        let mut warnings = trace.warnings(name);
        warnings.extend(
            clocks
                .iter()
                .filter(|clock| clock.is_notable())
                .map(|clock| format!("clocks: {clock}; no time was changed by it")),
        );
        if cut {
            warnings.push(format!(
                "the trace has {} spans or more, of which {in_tree} are in this tree: errors, \
                 depth, services and times are those of the tree; `spanwise sql` reads the others",
                in_tree.saturating_add(left_out)
            ));
        }
        let summary = TraceSummary::of(&trace, &labels);
        let start_unix_nano = trace.start_unix_nano();
        let bytes = batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>()
            + trace.nodes.len() * (size_of::<Node>() + size_of::<usize>());
        Ok(Self {
            warnings,
            services: summary.services,
            error_count: summary.errors,
            depth: trace.depth(),
            complete: trace.is_complete() && !cut,
            left_out,
            clocks,
            start_unix_nano,
            duration_nano: trace.end_unix_nano().saturating_sub(start_unix_nano),
            snapshot: snapshot(&trace),
            batches: batches.into_iter().map(SpanBatch::try_from).collect::<Result<_, _>>()?,
            trace,
            bytes,
        })
    }

    /// How many spans are in the tree.
    pub const fn len(&self) -> usize {
        self.trace.nodes.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.trace.nodes.is_empty()
    }

    /// The position of the span with this id in the depth-first order.
    pub fn position(&self, span: SpanId) -> Option<usize> {
        self.trace.nodes.iter().position(|node| node.row.span_id == span)
    }
}

/// How far the clocks of the trace's hosts differ, by the hosts' names.
fn clocks(
    trace: &Trace,
    batches: &[RecordBatch],
) -> Result<Vec<ClockDifference<String>>, ModelError> {
    let host = |at: RowRef| -> Result<String, ModelError> {
        let batch = SpanBatch::try_from(batches[at.batch as usize].clone())?;
        Ok(batch.span(at.row as usize)?.host.unwrap_or_default())
    };
    let named = |found: ClockDifference<RowRef>| -> Result<_, ModelError> {
        Ok(found.named(host(found.reference)?, host(found.host)?))
    };
    trace.clock_differences().into_iter().map(named).collect()
}

/// A hash of what the tree is made of.
fn snapshot(trace: &Trace) -> String {
    let mut hasher = DefaultHasher::new();
    trace.trace_id.hash(&mut hasher);
    for node in &trace.nodes {
        let row = &node.row;
        (row.span_id, row.start_unix_nano, row.end_unix_nano, node.parent).hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}
