//! The traces of candidates, read for a query.
//!
//! Of a plain trace, only SDKs reported spans, and each names a parent that is there, or none. The
//! rules of assembly would find just these parents again. So its tree is made from the few columns
//! that say so, without those that the rules look at. All other traces are gathered and joined.

use std::cmp::Reverse;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use arrow::array::{Array, AsArray, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use spanwise_model::schema::column;
use spanwise_model::{Capture, ModelError, SpanId, Texts, TraceId};
use spanwise_store::{Key, Outline, TimeRange};
use spanwise_traceql::trace::Trace;

use super::EVALUATING;
use super::spans::{self, Looked, SpanReader};
use crate::trace::{AROUND_NANO, GatheredTraces};
use crate::{Queries, QueryError, on_blocking_thread};

/// Reads traces, a part of the candidates at a time.
pub(super) struct TraceReader {
    looked: Arc<Looked>,
    /// Of the rows of plain traces; `None` where most are not plain.
    plain: Option<Outline>,
    /// Of the rows of others.
    joined: Option<Outline>,
}

impl TraceReader {
    pub(super) fn new(looked: Arc<Looked>) -> Self {
        Self { plain: looked.plain_outline(), joined: looked.outline(), looked }
    }

    /// The traces with these ids, of spans that start around the time in which one of them was
    /// found.
    pub(super) async fn read(
        &mut self,
        queries: &Queries,
        ids: Vec<TraceId>,
        time: TimeRange,
    ) -> Result<ReadTraces, QueryError> {
        let mut plain = PlainTraces::default();
        if let Some(outline) = &self.plain {
            let keys: Vec<Key> = ids.iter().copied().map(Key::AssembledTrace).collect();
            let around = TimeRange {
                from_unix_nano: time.from_unix_nano.saturating_sub(AROUND_NANO),
                to_unix_nano: time.to_unix_nano.saturating_add(AROUND_NANO),
            };
            let batches = queries.store.find_outlines(&keys, around, outline).await?;
            plain = on_blocking_thread(EVALUATING, move || PlainTraces::of(batches)).await??;
        }
        let others: Vec<TraceId> =
            ids.iter().copied().filter(|id| !plain.traces.contains_key(id)).collect();
        if others.len() * 2 > ids.len() {
            self.plain = None;
        }
        let joined = match others.is_empty() {
            true => None,
            false => Some(queries.gather(others.into_iter(), time, self.joined.as_ref()).await?),
        };
        Ok(ReadTraces { looked: Arc::clone(&self.looked), ids, plain, joined })
    }
}

/// Traces that were read.
pub(super) struct ReadTraces {
    looked: Arc<Looked>,
    ids: Vec<TraceId>,
    plain: PlainTraces,
    joined: Option<GatheredTraces>,
}

impl ReadTraces {
    /// How many rows were read.
    pub(super) fn rows(&self) -> usize {
        let joined = self.joined.iter().flat_map(|joined| &joined.batches);
        self.plain.batches.iter().chain(joined).map(RecordBatch::num_rows).sum()
    }

    /// Gives each trace once, whatever ids it was read by.
    pub(super) fn each(
        self,
        known: &mut AHashSet<TraceId>,
        mut give: impl FnMut(Trace),
    ) -> Result<(), QueryError> {
        let Self { looked, ids, mut plain, mut joined } = self;
        let joined_batches = joined.as_mut().map(|joined| std::mem::take(&mut joined.batches));
        let joined_batches = joined_batches.unwrap_or_default();
        let mut of_joined = readers(&joined_batches, &looked)?;
        let mut of_plain = readers(&plain.batches, &looked)?;
        for id in ids {
            if let Some(rows) = plain.traces.remove(&id) {
                if known.insert(id) {
                    give(trace(id, &rows, &mut of_plain));
                }
            } else if let Some(tree) = joined.as_mut().and_then(|joined| joined.take(&id)) {
                // Spans that arrived late may have made one trace of two.
                if known.insert(tree.trace_id) {
                    give(spans::trace(&tree, &mut of_joined));
                }
            }
        }
        Ok(())
    }
}

fn readers<'a>(
    batches: &'a [RecordBatch],
    looked: &'a Looked,
) -> Result<Vec<SpanReader<'a>>, ModelError> {
    batches.iter().map(|batch| SpanReader::new(batch, looked)).collect()
}

/// A row of a plain trace.
#[derive(Debug, Clone, Copy)]
struct PlainRow {
    batch: usize,
    row: usize,
    span_id: SpanId,
    parent: Option<SpanId>,
    start_unix_nano: i64,
    duration_nano: i64,
}

/// The plain ones of some traces, each with its rows as [`spanwise_assemble::Trace`] has them:
/// depth-first, children by their starts.
#[derive(Default)]
struct PlainTraces {
    batches: Vec<RecordBatch>,
    traces: AHashMap<TraceId, Vec<PlainRow>>,
}

impl PlainTraces {
    /// Those of which all rows are in these batches.
    fn of(batches: Vec<RecordBatch>) -> Result<Self, ModelError> {
        let mut found: AHashMap<TraceId, Option<Vec<PlainRow>>> = AHashMap::new();
        for (number, batch) in batches.iter().enumerate() {
            let columns = Columns::of(batch)?;
            for row in 0..batch.num_rows() {
                let Some(id) = id(columns.assembled_traces, row).map(TraceId) else { continue };
                let rows = found.entry(id).or_insert_with(|| Some(Vec::new()));
                let Some(known) = rows else { continue };
                match columns.plain(number, row, id) {
                    Some(row) => known.push(row),
                    None => *rows = None,
                }
            }
        }
        let in_order = |(id, rows): (TraceId, Option<Vec<PlainRow>>)| Some((id, in_order(rows?)?));
        let traces = found.into_iter().filter_map(in_order).collect();
        Ok(Self { batches, traces })
    }
}

/// The columns that say whether a row is one of a plain trace.
struct Columns<'a> {
    traces: &'a FixedSizeBinaryArray,
    assembled_traces: &'a FixedSizeBinaryArray,
    spans: &'a FixedSizeBinaryArray,
    parents: &'a FixedSizeBinaryArray,
    assembled_parents: &'a FixedSizeBinaryArray,
    captures: Texts<'a>,
    evidence: Texts<'a>,
    starts: &'a Int64Array,
    durations: &'a Int64Array,
    /// By the places of captures, whether an SDK reported the row.
    of_sdk: Vec<bool>,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self, ModelError> {
        let ids = |column: &'static str| {
            let array = batch.column_by_name(column).and_then(|it| it.as_fixed_size_binary_opt());
            array.ok_or(ModelError::Column { column })
        };
        let number = |column: &'static str| {
            let array =
                batch.column_by_name(column).and_then(|it| it.as_primitive_opt::<Int64Type>());
            array.ok_or(ModelError::Column { column })
        };
        let captures = Texts::of(batch, column::CAPTURE)?;
        Ok(Self {
            traces: ids(column::TRACE_ID)?,
            assembled_traces: ids(column::ASSEMBLED_TRACE_ID)?,
            spans: ids(column::SPAN_ID)?,
            parents: ids(column::PARENT_SPAN_ID)?,
            assembled_parents: ids(column::ASSEMBLED_PARENT)?,
            evidence: Texts::of(batch, column::EVIDENCE)?,
            starts: number(column::START_UNIX_NANO)?,
            durations: number(column::DURATION_NANO)?,
            of_sdk: captures.distinct().map(|capture| capture == Capture::App.as_str()).collect(),
            captures,
        })
    }

    /// The row, unless it shows that its trace is not plain.
    fn plain(&self, batch: usize, row: usize, trace: TraceId) -> Option<PlainRow> {
        let span_id = SpanId(id(self.spans, row)?);
        let parent = id(self.parents, row).map(SpanId);
        let is_of_sdk = self.captures.place(row).is_some_and(|place| self.of_sdk[place]);
        let is_linked_by_itself = match parent {
            // Halves of spans that two sides reported under one id have rules of their own.
            Some(parent) => span_id != parent && span_id != parent.receiving_half(),
            // It may be ambiguous.
            None => self.evidence.place(row).is_none(),
        };
        let is_plain = is_of_sdk
            && is_linked_by_itself
            && parent == id(self.assembled_parents, row).map(SpanId)
            && id(self.traces, row).map(TraceId) == Some(trace);
        is_plain.then(|| PlainRow {
            batch,
            row,
            span_id,
            parent,
            start_unix_nano: self.starts.value(row),
            duration_nano: self.durations.value(row).max(0),
        })
    }
}

fn id<const BYTES: usize>(ids: &FixedSizeBinaryArray, row: usize) -> Option<[u8; BYTES]> {
    if ids.is_null(row) { None } else { ids.value(row).try_into().ok() }
}

/// The rows depth-first; `None` where an id is there twice, a parent is missing, or spans are
/// below each other.
fn in_order(mut rows: Vec<PlainRow>) -> Option<Vec<PlainRow>> {
    rows.sort_unstable_by_key(|row| (row.start_unix_nano, Reverse(row.duration_nano), row.span_id));
    let mut places: Vec<(SpanId, usize)> =
        rows.iter().enumerate().map(|(place, row)| (row.span_id, place)).collect();
    places.sort_unstable();
    if places.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    // Lists of children, and of roots behind them; the first of each is told last.
    let top = rows.len();
    let (mut first, mut next) = (vec![usize::MAX; top + 1], vec![usize::MAX; top]);
    for (place, row) in rows.iter().enumerate() {
        let above = match row.parent {
            Some(parent) => places[places.binary_search_by_key(&parent, |(id, _)| *id).ok()?].1,
            None => top,
        };
        next[place] = std::mem::replace(&mut first[above], place);
    }
    let mut ordered = Vec::with_capacity(top);
    let mut stack = Vec::new();
    let push_all = |stack: &mut Vec<usize>, above: usize| {
        let mut place = first[above];
        while place != usize::MAX {
            stack.push(place);
            place = next[place];
        }
    };
    push_all(&mut stack, top);
    while let Some(place) = stack.pop() {
        ordered.push(rows[place]);
        push_all(&mut stack, place);
    }
    (ordered.len() == top).then_some(ordered)
}

/// Rows as a trace of TraceQL. The readers are those of the batches.
fn trace(id: TraceId, rows: &[PlainRow], readers: &mut [SpanReader<'_>]) -> Trace {
    let span = |row: &PlainRow| {
        readers[row.batch].own_span(row.row, row.span_id.0, row.parent.map(|parent| parent.0))
    };
    Trace { id: id.0, spans: rows.iter().map(span).collect() }
}

#[cfg(test)]
mod tests {
    use spanwise_assemble::Row;
    use spanwise_assemble::Trace as Tree;
    use spanwise_model::{Evidence, Kind, RowRef, Span, SpanBatchBuilder};

    use super::*;

    fn span(id: u64, parent: u64, start: i64, duration: i64) -> Span {
        let id = SpanId::from_u64(id).expect("not zero");
        let mut span = Span::new(id, Capture::App, Kind::Internal, "s", "o", start, duration);
        span.trace_id = Some(TraceId([7; 16]));
        span.parent_span_id = SpanId::from_u64(parent);
        (span.assembled_trace_id, span.assembled_parent) = (span.trace_id, span.parent_span_id);
        if parent > 0 {
            (span.evidence, span.confidence) = (Some(Evidence::SpanContext), Some(1.0));
        }
        span
    }

    /// Ids and parents in the order in which they are given; `None` where the trace is not plain.
    fn plain(spans: &[Span]) -> Option<Vec<(SpanId, Option<SpanId>)>> {
        let batch = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        let read = PlainTraces::of(vec![batch]).expect("columns");
        let rows = read.traces.get(&TraceId([7; 16]))?;
        Some(rows.iter().map(|row| (row.span_id, row.parent)).collect())
    }

    /// The same, of the tree that assembly makes.
    fn joined(spans: &[Span]) -> Vec<(SpanId, Option<SpanId>)> {
        let rows =
            (0..).zip(spans).map(|(row, span)| Row::from_span(RowRef { batch: 0, row }, span));
        let tree = Tree::of(rows.collect());
        let parent = |parent: usize| tree.nodes[parent].row.span_id;
        tree.nodes.iter().map(|node| (node.row.span_id, node.parent.map(parent))).collect()
    }

    #[test]
    fn a_plain_trace_has_the_tree_that_assembly_makes() {
        let spans = [
            span(9, 4, 30, 5),
            span(1, 0, 0, 100),
            span(2, 1, 10, 50),
            span(3, 1, 10, 60),
            span(4, 2, 20, 10),
            span(5, 1, 5, 1),
            span(6, 0, 3, 1),
            span(8, 3, 30, 5),
            span(7, 3, 30, 5),
        ];
        assert_eq!(plain(&spans), Some(joined(&spans)));
    }

    #[test]
    fn what_assembly_might_join_otherwise_is_not_plain() {
        let spans = || vec![span(1, 0, 0, 100), span(2, 1, 10, 50), span(3, 2, 20, 10)];
        assert!(plain(&spans()).is_some());
        let changes: [fn(&mut Vec<Span>); 9] = [
            |spans| spans[1].capture = Capture::ServerProcess,
            |spans| spans[1].trace_id = Some(TraceId([8; 16])),
            |spans| spans[1].trace_id = None,
            |spans| spans[0].evidence = Some(Evidence::Ambiguous),
            |spans| spans[2].assembled_parent = SpanId::from_u64(1),
            |spans| spans[2].assembled_parent = None,
            // Two of one id, a missing parent, and a circle.
            |spans| spans[2].span_id = spans[1].span_id,
            |spans| drop(spans.remove(1)),
            |spans| {
                spans[1].parent_span_id = Some(spans[2].span_id);
                spans[1].assembled_parent = spans[1].parent_span_id;
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut spans = spans();
            change(&mut spans);
            assert_eq!(plain(&spans), None, "{number}");
        }
        let mut halves = spans();
        halves[2].span_id = halves[1].span_id.receiving_half();
        assert_eq!(plain(&halves), None);
    }
}
