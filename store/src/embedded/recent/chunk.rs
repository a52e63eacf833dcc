//! A batch in memory: its original rows, their assembled columns, and which rows were deleted.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray,
    FixedSizeBinaryBuilder, Float32Array, Float32Builder, Int32Array, RecordBatch, StringArray,
    StringDictionaryBuilder, UInt32Array,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::{filter_record_batch, take};
use arrow::datatypes::{DataType, Float32Type, Int32Type};
use arrow::error::ArrowError;
use spanwise_model::absent::{has_values, is_shared, shared_without_values};
use spanwise_model::schema::column;
use spanwise_model::{Assembled, Evidence, SpanId, SpanRows, TraceId};

use super::filter::Filter;
use crate::contract::Origin;
use crate::embedded::keys::{each_key, each_trace, hash_trace, is_past, key_count, oldest, starts};
use crate::embedded::log::record::Record;

/// Filter bits for each key. Memory is expensive, but searching a batch in vain is more expensive.
const FILTER_BITS: usize = 16;
/// Memory for each row: assembled columns, its part of the filter, and the assembled columns in the
/// view. It is an upper bound: assembled values may equal the sent ones, and there may be no query.
const ROW_BYTES: u64 = 32 + 8 + 32;
/// Memory of a column's array without its values.
const ARRAY_BYTES: u64 = 256;

/// A batch for readers.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) rows: SpanRows,
    /// Minimum and maximum start, in reverse order if there are no rows.
    pub(crate) starts: (i64, i64),
}

/// A batch in memory. See the module's description.
pub(crate) struct Chunk {
    pub(crate) number: u64,
    pub(crate) origin: Option<Origin>,
    /// The original rows.
    pub(crate) raw: SpanRows,
    pub(crate) starts: (i64, i64),
    /// The earliest plausible start.
    pub(crate) oldest_unix_nano: Option<i64>,
    /// Memory of all rows.
    pub(crate) memory_bytes: u64,
    assembled: AssembledColumns,
    /// Deleted rows; empty if there are none.
    gone: Vec<bool>,
    /// Filter of its keys, created on demand. Most batches are in a file before any query.
    filter: Option<Filter>,
    /// Rows with assembled columns and without deleted rows. Rebuilt after changes.
    view: Option<Arc<View>>,
}

impl Chunk {
    pub(crate) fn new(record: Record) -> Self {
        let columns = record.rows.columns();
        let starts = starts(columns).map_or(&[] as &[i64], |starts| starts.values());
        let least = starts.iter().copied().min().unwrap_or(i64::MAX);
        let most = starts.iter().copied().max().unwrap_or(i64::MIN);
        Self {
            number: record.batch,
            origin: record.origin,
            starts: (least, most),
            oldest_unix_nano: if is_past(least) { oldest(starts) } else { Some(least) },
            memory_bytes: record.memory_bytes,
            assembled: AssembledColumns::new(columns),
            gone: Vec::new(),
            filter: None,
            view: None,
            raw: record.rows,
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.assembled.known_rows == self.assembled.results.len()
    }

    /// Sets the assembled columns of a row.
    pub(crate) fn annotate(&mut self, result: &Assembled) {
        if self.assembled.set(result)
            && let Some(filter) = &mut self.filter
        {
            filter.add(hash_trace(&result.trace_id.0));
        }
        self.view = None;
    }

    /// Deletes a row. Returns whether it was there.
    pub(crate) fn remove(&mut self, row: usize) -> bool {
        if row >= self.raw.num_rows() {
            return false;
        }
        self.gone.resize(self.raw.num_rows(), false);
        self.view = None;
        !std::mem::replace(&mut self.gone[row], true)
    }

    /// Whether any row may have any of the keys with these hashes.
    pub(crate) fn may_have(&mut self, hashes: &[u64]) -> bool {
        let filter = self.filter.get_or_insert_with(|| {
            let columns = self.raw.columns();
            // Leaves room for the traces that assembly will add.
            let keys = key_count(columns) + columns.num_rows();
            let mut filter = Filter::new(keys, FILTER_BITS);
            each_trace(columns, true, |_, hash| filter.add(hash));
            each_key(columns, |_, hash| filter.add(hash));
            self.assembled.found_traces().for_each(|id| filter.add(hash_trace(id)));
            filter
        });
        hashes.iter().any(|hash| filter.may_have(*hash))
    }

    /// The columns of all rows, including deleted ones, with the assembled columns.
    pub(crate) fn columns(&self) -> Result<RecordBatch, ArrowError> {
        self.assembled.put_into(self.raw.columns())
    }

    /// The original columns of the rows that are not deleted.
    pub(crate) fn there(&self) -> Option<RecordBatch> {
        if self.gone.is_empty() {
            return Some(self.raw.columns().clone());
        }
        let there: BooleanArray = self.gone.iter().map(|gone| Some(!gone)).collect();
        filter_record_batch(self.raw.columns(), &there).ok()
    }

    pub(crate) fn view(&mut self) -> Result<Arc<View>, ArrowError> {
        if let Some(view) = &self.view {
            return Ok(Arc::clone(view));
        }
        let mut rows = self.raw.with_columns(self.columns()?);
        if !self.gone.is_empty() {
            let kept = (0u32..).zip(&self.gone).filter(|(_, gone)| !**gone);
            rows = rows.take(&UInt32Array::from_iter_values(kept.map(|(row, _)| row)))?;
        }
        let view = Arc::new(View { rows, starts: self.starts });
        self.view = Some(Arc::clone(&view));
        Ok(view)
    }
}

/// The assembled columns of a batch.
struct AssembledColumns {
    sent: SentIds,
    /// For each row.
    results: Vec<RowResult>,
    known_rows: usize,
    /// Explicit columns, created when a row's result first differs from what the row itself says.
    found: Option<Box<AssemblyColumns>>,
}

/// The result of assembly for a row. It nearly always equals what the row says itself, and then
/// needs no further memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowResult {
    Nothing,
    /// The row belongs to the trace that it names, and has no parent there.
    Root,
    /// The row belongs to the trace that it names, and is certainly a child of the span that it
    /// names.
    Child,
    /// Any other result, which is stored in [`AssemblyColumns`].
    Other,
}

/// The trace and parent ids that rows were sent with. A missing column has no ids.
struct SentIds {
    traces: Option<FixedSizeBinaryArray>,
    parents: Option<FixedSizeBinaryArray>,
}

impl SentIds {
    fn of(raw: &RecordBatch) -> Self {
        let ids = |name| raw.column_by_name(name)?.as_fixed_size_binary_opt().cloned();
        Self { traces: ids(column::TRACE_ID), parents: ids(column::PARENT_SPAN_ID) }
    }

    /// Classifies a result by what the row says itself.
    fn classify(&self, result: &Assembled) -> RowResult {
        let row = result.row.row as usize;
        if !has_id(self.traces.as_ref(), row, &result.trace_id.0) {
            return RowResult::Other;
        }
        match (&result.parent, result.evidence, result.confidence) {
            (None, None, None) => RowResult::Root,
            (Some(parent), Some(Evidence::SpanContext), Some(1.0))
                if has_id(self.parents.as_ref(), row, &parent.0) =>
            {
                RowResult::Child
            }
            _ => RowResult::Other,
        }
    }
}

/// Whether the row has this id.
fn has_id<const BYTES: usize>(
    ids: Option<&FixedSizeBinaryArray>,
    row: usize,
    id: &[u8; BYTES],
) -> bool {
    let at = |ids: &FixedSizeBinaryArray| ids.value_data().as_chunks().0.get(row) == Some(id);
    ids.is_some_and(|ids| ids.is_valid(row) && at(ids))
}

impl AssembledColumns {
    fn new(raw: &RecordBatch) -> Self {
        let results = vec![RowResult::Nothing; raw.num_rows()];
        Self { sent: SentIds::of(raw), results, known_rows: 0, found: None }
    }

    /// Sets a row's result. Returns whether the row now has a trace id that it neither had nor was
    /// sent with.
    fn set(&mut self, result: &Assembled) -> bool {
        let row = result.row.row as usize;
        let Some(known) = self.results.get_mut(row) else { return false };
        let before = std::mem::replace(known, self.sent.classify(result));
        self.known_rows += usize::from(before == RowResult::Nothing);
        if self.found.is_none() {
            if *known != RowResult::Other {
                return false;
            }
            let found = AssemblyColumns::of(&self.results, &self.sent);
            self.found = Some(Box::new(found));
        }
        self.found.as_mut().is_some_and(|found| found.set(result))
    }

    /// Trace ids that may differ from those that rows were sent with.
    fn found_traces(&self) -> impl Iterator<Item = &[u8]> {
        self.found.iter().flat_map(|found| found.traces.chunks(TraceId::LEN))
    }

    /// The batch with these columns.
    fn put_into(&self, raw: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self.known_rows == 0 {
            return Ok(raw.clone());
        }
        let are_all_known = self.known_rows == self.results.len();
        let new = match &self.found {
            Some(found) if are_all_known => found.all()?,
            Some(found) => found.some(&self.results, raw)?,
            None if are_all_known => self.as_sent(raw)?,
            None => AssemblyColumns::of(&self.results, &self.sent).some(&self.results, raw)?,
        };
        let mut columns = raw.columns().to_vec();
        let names = [
            column::ASSEMBLED_TRACE_ID,
            column::ASSEMBLED_PARENT,
            column::EVIDENCE,
            column::CONFIDENCE,
        ];
        for (name, array) in names.into_iter().zip(new) {
            columns[raw.schema_ref().index_of(name)?] = array;
        }
        RecordBatch::try_new(raw.schema(), columns)
    }

    /// The columns if all results equal what the rows say: the ids are those that were sent.
    fn as_sent(&self, raw: &RecordBatch) -> Result<[ArrayRef; 4], ArrowError> {
        let column = |name| raw.schema_ref().index_of(name).map(|at| raw.column(at));
        let (traces, sent) = (column(column::TRACE_ID)?, column(column::PARENT_SPAN_ID)?);
        let is_child = || self.results.iter().map(|result| *result == RowResult::Child);
        let children = is_child().filter(|is| *is).count();
        let parents = if children == sent.len() - sent.null_count() {
            Arc::clone(sent)
        } else {
            // The id of a parent that has not arrived is null.
            let ids = sent.as_fixed_size_binary();
            let nulls = NullBuffer::from_iter(is_child());
            let width = ids.value_length();
            let ids = FixedSizeBinaryArray::try_new(width, ids.values().clone(), Some(nulls))?;
            Arc::new(ids)
        };
        let word = Evidence::SpanContext as i32;
        let evidence: Int32Array = is_child().map(|is| is.then_some(word)).collect();
        let confidence: Float32Array = is_child().map(|is| is.then_some(1.0)).collect();
        let evidence = DictionaryArray::try_new(evidence, evidence_words())?;
        Ok([Arc::clone(traces), parents, Arc::new(evidence), Arc::new(confidence)])
    }
}

/// Explicit assembled columns.
struct AssemblyColumns {
    /// Zero means null.
    traces: Vec<u8>,
    parents: Vec<u8>,
    has_parent: Vec<bool>,
    /// Indexes in [`Evidence::ALL`]; -1 means null.
    evidence: Vec<i32>,
    /// NaN means null.
    confidence: Vec<f32>,
}

impl AssemblyColumns {
    /// Explicit columns for rows whose results equal what they say.
    fn of(results: &[RowResult], sent: &SentIds) -> Self {
        let rows = results.len();
        let mut found = Self {
            traces: vec![0; rows * TraceId::LEN],
            parents: vec![0; rows * SpanId::LEN],
            has_parent: vec![false; rows],
            evidence: vec![-1; rows],
            confidence: vec![f32::NAN; rows],
        };
        for (row, result) in results.iter().enumerate() {
            let trace = matches!(result, RowResult::Root | RowResult::Child);
            if let Some(trace) = id_at(sent.traces.as_ref(), row).filter(|_| trace) {
                found.traces[row * TraceId::LEN..][..TraceId::LEN].copy_from_slice(trace);
            }
            let parent = id_at(sent.parents.as_ref(), row).filter(|_| *result == RowResult::Child);
            if let Some(parent) = parent {
                found.parents[row * SpanId::LEN..][..SpanId::LEN].copy_from_slice(parent);
                found.has_parent[row] = true;
                found.evidence[row] = Evidence::SpanContext as i32;
                found.confidence[row] = 1.0;
            }
        }
        found
    }

    /// Sets the result of an existing row. Returns whether its trace changed.
    fn set(&mut self, result: &Assembled) -> bool {
        let row = result.row.row as usize;
        let trace = &mut self.traces[row * TraceId::LEN..][..TraceId::LEN];
        let other = trace != result.trace_id.0;
        trace.copy_from_slice(&result.trace_id.0);
        self.parents[row * SpanId::LEN..][..SpanId::LEN]
            .copy_from_slice(&result.parent.map_or([0; SpanId::LEN], |id| id.0));
        self.has_parent[row] = result.parent.is_some();
        self.evidence[row] = result.evidence.map_or(-1, |evidence| evidence as i32);
        self.confidence[row] = result.confidence.unwrap_or(f32::NAN);
        other
    }

    fn all(&self) -> Result<[ArrayRef; 4], ArrowError> {
        let ids = |width: usize, bytes: &Vec<u8>, nulls| {
            let values = Buffer::from_slice_ref(bytes);
            // The width is 8 or 16.
            FixedSizeBinaryArray::try_new(width as i32, values, nulls)
        };
        let has_parent = NullBuffer::from(self.has_parent.as_slice());
        let evidence: Int32Array =
            self.evidence.iter().map(|key| (*key >= 0).then_some(*key)).collect();
        let confidence: Float32Array =
            self.confidence.iter().map(|n| (!n.is_nan()).then_some(*n)).collect();
        let evidence = DictionaryArray::try_new(evidence, evidence_words())?;
        Ok([
            Arc::new(ids(TraceId::LEN, &self.traces, None)?),
            Arc::new(ids(SpanId::LEN, &self.parents, Some(has_parent))?),
            Arc::new(evidence),
            Arc::new(confidence),
        ])
    }

    /// Until a row is assembled, its sent values remain.
    fn some(&self, results: &[RowResult], raw: &RecordBatch) -> Result<[ArrayRef; 4], ArrowError> {
        let rows = results.len();
        let mut traces = FixedSizeBinaryBuilder::with_capacity(rows, TraceId::LEN as i32);
        let mut parents = FixedSizeBinaryBuilder::with_capacity(rows, SpanId::LEN as i32);
        let mut evidence = StringDictionaryBuilder::<Int32Type>::new();
        let mut confidence = Float32Builder::with_capacity(rows);
        let raw_ids = |name| raw.column_by_name(name)?.as_fixed_size_binary_opt();
        let raw_traces = raw_ids(column::ASSEMBLED_TRACE_ID);
        let raw_parents = raw_ids(column::ASSEMBLED_PARENT);
        let raw_evidence = raw
            .column_by_name(column::EVIDENCE)
            .and_then(|array| array.as_dictionary_opt::<Int32Type>())
            .and_then(|array| array.downcast_dict::<StringArray>());
        let raw_confidence = raw
            .column_by_name(column::CONFIDENCE)
            .and_then(|a| a.as_primitive_opt::<Float32Type>());
        for (row, result) in results.iter().enumerate() {
            if *result != RowResult::Nothing {
                traces.append_value(&self.traces[row * TraceId::LEN..][..TraceId::LEN])?;
                let parent = &self.parents[row * SpanId::LEN..][..SpanId::LEN];
                append_id(&mut parents, self.has_parent[row].then_some(parent))?;
                let word = usize::try_from(self.evidence[row]).ok();
                let word = word.and_then(|at| Evidence::ALL.get(at));
                evidence.append_option(word.map(|evidence| evidence.as_str()));
                let number = self.confidence[row];
                confidence.append_option((!number.is_nan()).then_some(number));
            } else {
                append_id(&mut traces, id_at(raw_traces, row))?;
                append_id(&mut parents, id_at(raw_parents, row))?;
                let words = raw_evidence.filter(|array| array.is_valid(row));
                evidence.append_option(words.map(|array| array.value(row)));
                let numbers = raw_confidence.filter(|array| array.is_valid(row));
                confidence.append_option(numbers.map(|array| array.value(row)));
            }
        }
        Ok([
            Arc::new(traces.finish()),
            Arc::new(parents.finish()),
            Arc::new(evidence.finish()),
            Arc::new(confidence.finish()),
        ])
    }
}

fn evidence_words() -> ArrayRef {
    let words = Evidence::ALL.iter().map(|evidence| evidence.as_str());
    Arc::new(StringArray::from_iter_values(words))
}

fn id_at(ids: Option<&FixedSizeBinaryArray>, row: usize) -> Option<&[u8]> {
    ids.filter(|ids| ids.is_valid(row)).map(|ids| ids.value(row))
}

fn append_id(builder: &mut FixedSizeBinaryBuilder, id: Option<&[u8]>) -> Result<(), ArrowError> {
    match id {
        Some(id) => builder.append_value(id),
        None => {
            builder.append_null();
            Ok(())
        }
    }
}

/// Memory of rows, including future assembled columns.
pub(crate) fn rows_bytes(rows: &SpanRows) -> u64 {
    batch_bytes(rows.columns()) + rows.templated_bytes() as u64
}

/// Memory of columns, including future assembled columns. If columns share one input buffer, only
/// their own parts count. Columns without values take no memory.
fn batch_bytes(batch: &RecordBatch) -> u64 {
    let counts = |(place, array): &(usize, &ArrayRef)| {
        array.null_count() < array.len() && !is_shared(*place, array)
    };
    let columns = batch.columns().iter().enumerate().filter(counts);
    let bytes: usize = columns.map(|(_, array)| slice_bytes(array)).sum();
    let arrays = batch.num_columns() as u64 * ARRAY_BYTES;
    bytes as u64 + arrays + batch.num_rows() as u64 * ROW_BYTES
}

/// Memory of an array's own values.
fn slice_bytes(array: &dyn Array) -> usize {
    let rows = array.len();
    let offsets = (rows + 1) * size_of::<i32>();
    let nulls = array.nulls().map_or(0, |_| rows.div_ceil(8));
    let values = match array.data_type() {
        DataType::Utf8 => {
            let ends = array.as_string::<i32>().value_offsets();
            offsets + (ends[rows] - ends[0]) as usize
        }
        DataType::FixedSizeBinary(width) => rows * usize::try_from(*width).unwrap_or(0),
        DataType::List(_) => offsets + slice_bytes(array.as_list::<i32>().values()),
        DataType::Map(_, _) => {
            let map = array.as_map();
            offsets + slice_bytes(map.keys()) + slice_bytes(map.values())
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(|a| slice_bytes(a)).sum(),
        DataType::Dictionary(_, _) => {
            rows * size_of::<i32>() + slice_bytes(array.as_any_dictionary().values())
        }
        other => match other.primitive_width() {
            Some(width) => rows * width,
            None => array.to_data().get_slice_memory_size().unwrap_or(0),
        },
    };
    nulls + values
}

/// Copies rows to memory of about their own size. Their original buffers may be shared with other
/// data, or may be sized for many more rows. Columns without values need no memory.
pub(crate) fn compact(rows: &SpanRows) -> SpanRows {
    let bytes = batch_bytes(rows.columns());
    rows.with_columns(compact_columns(rows.columns().clone(), bytes))
}

fn compact_columns(batch: RecordBatch, bytes: u64) -> RecordBatch {
    let held: u64 = (batch.columns().iter().filter(|array| has_values(array)))
        .map(|array| array.get_array_memory_size() as u64)
        .sum();
    let is_done = |(place, array): (usize, &ArrayRef)| has_values(array) || is_shared(place, array);
    if held <= 2 * bytes && batch.columns().iter().enumerate().all(is_done) {
        return batch;
    }
    let all = (held > 2 * bytes).then(|| UInt32Array::from_iter_values(0..batch.num_rows() as u32));
    let column = |(index, array): (usize, &ArrayRef)| {
        if !has_values(array) {
            return shared_without_values(index, array.len());
        }
        match &all {
            Some(all) => take(array, all, None),
            None => Ok(Arc::clone(array)),
        }
    };
    let columns: Result<Vec<ArrayRef>, _> =
        batch.columns().iter().enumerate().map(column).collect();
    // The columns are those of the batch, so this cannot fail.
    columns.and_then(|columns| RecordBatch::try_new(batch.schema(), columns)).unwrap_or(batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use spanwise_model::{Capture, Kind, RowRef, Span, SpanBatch, SpanBatchBuilder};

    const ROWS: u64 = 6;

    fn id(n: u64) -> SpanId {
        SpanId::from_u64(n + 1).expect("not zero")
    }

    fn span(n: u64) -> Span {
        let mut span = Span::new(id(n), Capture::App, Kind::Internal, "service", "o", 1, 1);
        // One row has no trace, and the first has no parent.
        span.trace_id = (n != 4).then_some(TraceId([1; 16]));
        span.parent_span_id = n.checked_sub(1).map(id);
        // One row was assembled by its sender.
        span.assembled_trace_id = (n == 5).then_some(TraceId([9; 16]));
        span
    }

    /// A result of this kind for a row: equal to what the row says, or slightly different.
    fn result(row: u64, kind: u8) -> Assembled {
        let (child, other) = (matches!(kind, 1 | 2 | 4), kind == 3 || kind == 4);
        let parent = child.then(|| if kind == 2 { id(70) } else { id(row.saturating_sub(1)) });
        Assembled {
            row: RowRef { batch: 7, row: row as u32 },
            trace_id: TraceId([if other { 2 } else { 1 }; 16]),
            parent,
            evidence: match kind {
                5 => Some(Evidence::Ambiguous),
                6 => Some(Evidence::SpanContext),
                _ => child.then_some(Evidence::SpanContext),
            },
            confidence: child.then_some(1.0),
        }
    }

    proptest! {
        #[test]
        fn what_was_found_last_is_told_whether_or_not_it_was_said(
            results in proptest::collection::vec((0..ROWS, 0u8..7, any::<bool>()), 0..20),
        ) {
            let spans: Vec<Span> = (0..ROWS).map(span).collect();
            let mut builder = SpanBatchBuilder::new();
            spans.iter().for_each(|span| builder.push(span));
            let rows: SpanRows = builder.finish().expect("a batch").into();
            let mut chunk = Chunk::new(Record { batch: 7, origin: None, memory_bytes: 0, rows });
            let mut expected = spans;
            for (row, kind, asked) in results {
                if asked {
                    // Creates the filter.
                    chunk.may_have(&[0]);
                }
                let result = result(row, kind);
                chunk.annotate(&result);
                let span = &mut expected[row as usize];
                span.assembled_trace_id = Some(result.trace_id);
                span.assembled_parent = result.parent;
                span.evidence = result.evidence;
                span.confidence = result.confidence;
                prop_assert!(chunk.may_have(&[hash_trace(&result.trace_id.0)]));
            }
            let view = chunk.view().expect("a view");
            let found = SpanBatch::try_from(view.rows.whole().expect("rows")).expect("spans");
            let found: Vec<Span> = found.spans().map(|span| span.expect("a span")).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
