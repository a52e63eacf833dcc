//! A trace as it is shown, page by page.

use std::hash::{DefaultHasher, Hash, Hasher};

use arrow::array::RecordBatch;
use serde::Serialize;
use serde_json::Value;
use spanwise_analyze::{Labels, TraceSummary};
use spanwise_assemble::{ClockDifference, Found, Node, Trace};
use spanwise_model::{ModelError, RowRef, SpanBatch, SpanId, TraceId};

use crate::json;
use crate::span_json::SpanCells;

/// The tree of a trace, what its rows stand in, and what is said of all of it.
pub(crate) struct Tree {
    trace: Trace,
    batches: Vec<SpanBatch>,
    warnings: Vec<String>,
    services: Value,
    clocks: Value,
    start_unix_nano: i64,
    duration_nano: i64,
    error_count: usize,
    /// Levels.
    depth: usize,
    complete: bool,
    /// Spans of the trace that are not in the tree, as it has too many.
    left_out: usize,
    /// Names it by what it is: a tree of other spans has another.
    snapshot: String,
    /// Memory that it takes.
    pub(crate) bytes: usize,
}

/// A part of a page is sent from this size on.
const PART_BYTES: usize = 256 << 10;

/// Which spans of a trace, in their depth-first order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    /// How many come before.
    pub(crate) after: usize,
    /// The most spans of the page.
    pub(crate) limit: usize,
}

impl Page {
    /// The page of this size that holds this position.
    pub(crate) const fn holding(position: usize, limit: usize) -> Self {
        Self { after: position - position % limit, limit }
    }
}

impl Tree {
    /// # Errors
    /// Where the rows are no spans.
    pub(crate) fn of(found: Found) -> Result<Self, ModelError> {
        let Found { rows, batches, left_out, cut } = found;
        let shown = rows.len();
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
                "the trace has {} spans or more, of which {shown} are in this tree: errors, depth, \
                 services and times are those of the tree; `spanwise sql` reads the others",
                shown.saturating_add(left_out)
            ));
        }
        let summary = TraceSummary::of(&trace, &labels);
        let start_unix_nano = trace.start_unix_nano();
        let bytes = batches.iter().map(RecordBatch::get_array_memory_size).sum::<usize>()
            + trace.nodes.len() * (size_of::<Node>() + size_of::<usize>());
        Ok(Self {
            warnings,
            services: json::services(&summary.services),
            error_count: summary.errors,
            depth: trace.depth(),
            complete: trace.is_complete() && !cut,
            left_out,
            clocks: clocks.iter().map(json::clock).collect(),
            start_unix_nano,
            duration_nano: trace.end_unix_nano().saturating_sub(start_unix_nano),
            snapshot: snapshot(&trace),
            batches: batches.into_iter().map(SpanBatch::try_from).collect::<Result<_, _>>()?,
            trace,
            bytes,
        })
    }

    pub(crate) fn snapshot(&self) -> &str {
        &self.snapshot
    }

    pub(crate) const fn trace_id(&self) -> TraceId {
        self.trace.trace_id
    }

    /// How many spans it has.
    pub(crate) const fn len(&self) -> usize {
        self.trace.nodes.len()
    }

    /// Where the span with this id stands in the depth-first order.
    pub(crate) fn position(&self, span: SpanId) -> Option<usize> {
        self.trace.nodes.iter().position(|node| node.row.span_id == span)
    }

    /// A page as JSON. What is said of the trace is said of all of it; `roots` and
    /// `spans` are those of the page.
    ///
    /// # Errors
    /// Where what is said of the trace is no JSON.
    pub(crate) fn page(
        &self,
        page: Page,
        further_warning: Option<String>,
    ) -> Result<Vec<u8>, serde_json::Error> {
        let mut json = Vec::new();
        self.write(page, further_warning, |part| json.append(part))?;
        Ok(json)
    }

    /// Gives a page in parts to `send`, which takes what it is given.
    ///
    /// # Errors
    /// As [`Self::page`].
    pub(crate) fn write(
        &self,
        page: Page,
        further_warning: Option<String>,
        mut send: impl FnMut(&mut Vec<u8>),
    ) -> Result<(), serde_json::Error> {
        let count = self.len();
        let from = page.after.min(count);
        let to = page.after.saturating_add(page.limit).min(count);
        let nodes = &self.trace.nodes[from..to];
        let roots = nodes.iter().filter(|node| node.parent.is_none());
        let mut json = serde_json::to_vec(&Shown {
            trace_id: self.trace.trace_id.to_string(),
            start_unix_nano: self.start_unix_nano.to_string(),
            duration_nano: self.duration_nano.to_string(),
            roots: roots.map(|node| node.row.span_id.to_string()).collect(),
            services: &self.services,
            clocks: &self.clocks,
            warnings: self.warnings.iter().cloned().chain(further_warning).collect(),
            span_count: count + self.left_out,
            error_count: self.error_count,
            depth: self.depth,
            complete: self.complete,
            first: from,
            next_after: (to < count).then_some(to),
            snapshot: &self.snapshot,
        })?;
        // The spans are the last member of the object.
        json.pop();
        json.extend_from_slice(b",\"spans\":[");
        let mut cells: Vec<SpanCells<'_>> = self.batches.iter().map(SpanCells::of).collect();
        for (index, node) in nodes.iter().enumerate() {
            if index > 0 {
                json.push(b',');
            }
            // The batches are those that the rows were read from.
            cells[node.row.at.batch as usize].write(&self.trace, node, &mut json);
            if json.len() >= PART_BYTES {
                send(&mut json);
            }
        }
        json.extend_from_slice(b"]}");
        send(&mut json);
        Ok(())
    }
}

/// How far the clocks of the trace's hosts are apart, by the hosts' names.
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

#[derive(Serialize)]
struct Shown<'a> {
    trace_id: String,
    start_unix_nano: String,
    duration_nano: String,
    roots: Vec<String>,
    services: &'a Value,
    clocks: &'a Value,
    warnings: Vec<String>,
    span_count: usize,
    error_count: usize,
    depth: usize,
    complete: bool,
    first: usize,
    next_after: Option<usize>,
    snapshot: &'a str,
}
