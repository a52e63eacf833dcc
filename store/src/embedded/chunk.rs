//! A batch in memory: its rows as they came, what assembly found of them, and
//! which of them were deleted.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, DictionaryArray, FixedSizeBinaryArray,
    FixedSizeBinaryBuilder, Float32Array, Float32Builder, Int32Array, RecordBatch, StringArray,
    StringDictionaryBuilder, UInt32Array,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::compute::take;
use arrow::datatypes::{DataType, Float32Type, Int32Type};
use arrow::error::ArrowError;
use spanwise_model::absent::{has_values, is_shared, shared_without_values};
use spanwise_model::schema::column;
use spanwise_model::{Assembled, Evidence, SpanId, SpanRows};

use super::filter::Filter;
use super::keys::{each_key, each_trace, hash_trace, key_count, starts};
use super::record::Record;
use crate::contract::Origin;

/// Bits in a batch's filter for each key: memory is dear, but a batch that is
/// looked through in vain is dearer.
const FILTER_BITS: usize = 16;
/// Memory of a row's assembled columns, of its part of the filter, and of the
/// same once more in the view.
const ROW_BYTES: u64 = 32 + 8 + 32;
/// Memory of a column's array without its values.
const ARRAY_BYTES: u64 = 256;

/// A batch as a reader sees it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) rows: SpanRows,
    /// Least and greatest start; the wrong way round where there are no rows.
    pub(super) starts: (i64, i64),
}

/// See the module.
pub(super) struct Chunk {
    pub(super) number: u64,
    pub(super) origin: Option<Origin>,
    /// As it came.
    pub(super) raw: SpanRows,
    pub(super) starts: (i64, i64),
    /// Memory of all rows.
    pub(super) memory_bytes: u64,
    assembled: AssembledColumns,
    /// Rows that are deleted; empty where none is.
    gone: Vec<bool>,
    filter: Filter,
    /// With the assembled columns and without what is gone; made anew after
    /// they change.
    view: Option<Arc<View>>,
}

impl Chunk {
    pub(super) fn new(record: Record) -> Self {
        let (rows, columns) = (record.rows.num_rows(), record.rows.columns());
        let starts = starts(columns).map_or(&[] as &[i64], |starts| starts.values());
        let least = starts.iter().copied().min().unwrap_or(i64::MAX);
        let most = starts.iter().copied().max().unwrap_or(i64::MIN);
        // With room for the traces that assembly will name.
        let mut filter = Filter::new(key_count(columns) + rows, FILTER_BITS);
        each_trace(columns, true, |_, hash| filter.add(hash));
        each_key(columns, |_, hash| filter.add(hash));
        Self {
            number: record.batch,
            origin: record.origin,
            starts: (least, most),
            memory_bytes: record.memory_bytes,
            assembled: AssembledColumns::new(rows),
            gone: Vec::new(),
            filter,
            view: None,
            raw: record.rows,
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.assembled.known_rows == self.assembled.known.len()
    }

    /// Sets the assembled columns of a row.
    pub(super) fn annotate(&mut self, result: &Assembled) {
        if self.assembled.set(result) {
            self.filter.add(hash_trace(&result.trace_id.0));
        }
        self.view = None;
    }

    /// Takes a row out of all answers; whether it was there.
    pub(super) fn remove(&mut self, row: usize) -> bool {
        if row >= self.raw.num_rows() {
            return false;
        }
        self.gone.resize(self.raw.num_rows(), false);
        self.view = None;
        !std::mem::replace(&mut self.gone[row], true)
    }

    /// Whether any row may have any of the keys, by their hashes.
    pub(super) fn may_have(&self, hashes: &[u64]) -> bool {
        hashes.iter().any(|hash| self.filter.may_have(*hash))
    }

    /// The columns of all its rows with those of assembly, also of those that are
    /// gone.
    pub(super) fn columns(&self) -> Result<RecordBatch, ArrowError> {
        self.assembled.put_into(self.raw.columns())
    }

    pub(super) fn view(&mut self) -> Result<Arc<View>, ArrowError> {
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

/// What assembly found, column by column as Arrow wants it.
struct AssembledColumns {
    known: Vec<bool>,
    known_rows: usize,
    traces: Vec<u8>,
    parents: Vec<u8>,
    has_parent: Vec<bool>,
    /// Places in [`Evidence::ALL`]; -1 for none.
    evidence: Vec<i32>,
    /// Not a number for none.
    confidence: Vec<f32>,
}

impl AssembledColumns {
    fn new(rows: usize) -> Self {
        Self {
            known: vec![false; rows],
            known_rows: 0,
            traces: Vec::new(),
            parents: Vec::new(),
            has_parent: Vec::new(),
            evidence: Vec::new(),
            confidence: Vec::new(),
        }
    }

    /// Whether the row has another trace than before.
    fn set(&mut self, result: &Assembled) -> bool {
        let row = result.row.row as usize;
        let Some(known) = self.known.get_mut(row) else { return false };
        let was_known = std::mem::replace(known, true);
        self.known_rows += usize::from(!was_known);
        if self.traces.is_empty() {
            let rows = self.known.len();
            self.traces = vec![0; rows * 16];
            self.parents = vec![0; rows * SpanId::LEN];
            self.has_parent = vec![false; rows];
            self.evidence = vec![-1; rows];
            self.confidence = vec![f32::NAN; rows];
        }
        let trace = &mut self.traces[row * 16..][..16];
        let other = !was_known || trace != result.trace_id.0;
        trace.copy_from_slice(&result.trace_id.0);
        self.parents[row * SpanId::LEN..][..SpanId::LEN]
            .copy_from_slice(&result.parent.map_or([0; SpanId::LEN], |id| id.0));
        self.has_parent[row] = result.parent.is_some();
        self.evidence[row] = result.evidence.map_or(-1, |evidence| evidence as i32);
        self.confidence[row] = result.confidence.unwrap_or(f32::NAN);
        other
    }

    /// The batch with these columns.
    fn put_into(&self, raw: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self.known_rows == 0 {
            return Ok(raw.clone());
        }
        let new = if self.known_rows == self.known.len() { self.all()? } else { self.some(raw)? };
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

    fn all(&self) -> Result<[ArrayRef; 4], ArrowError> {
        let ids = |width, bytes: &Vec<u8>, nulls| {
            let values = Buffer::from_slice_ref(bytes);
            FixedSizeBinaryArray::try_new(width, values, nulls)
        };
        let has_parent = NullBuffer::from(self.has_parent.as_slice());
        let evidence: Int32Array =
            self.evidence.iter().map(|key| (*key >= 0).then_some(*key)).collect();
        let confidence: Float32Array =
            self.confidence.iter().map(|n| (!n.is_nan()).then_some(*n)).collect();
        let evidence = DictionaryArray::try_new(evidence, evidence_words())?;
        Ok([
            Arc::new(ids(16, &self.traces, None)?),
            Arc::new(ids(SpanId::LEN as i32, &self.parents, Some(has_parent))?),
            Arc::new(evidence),
            Arc::new(confidence),
        ])
    }

    /// What the sender said holds until assembly has spoken.
    fn some(&self, raw: &RecordBatch) -> Result<[ArrayRef; 4], ArrowError> {
        let rows = self.known.len();
        let mut traces = FixedSizeBinaryBuilder::with_capacity(rows, 16);
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
        for row in 0..rows {
            if self.known[row] {
                traces.append_value(&self.traces[row * 16..][..16])?;
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

/// Memory that rows take, with the assembled columns to come.
pub(super) fn rows_bytes(rows: &SpanRows) -> u64 {
    batch_bytes(rows.columns()) + rows.templated_bytes() as u64
}

/// Memory that columns take, with the assembled columns to come. Columns that
/// were read from one buffer share it, so only their own part of it counts, and
/// columns without a value take none.
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

/// The rows on memory of about their own size. What they came on may be shared
/// with much else, or was made for many more rows, and would be kept for a few
/// of them; columns without a value need no memory of their own.
pub(super) fn compact(rows: &SpanRows) -> SpanRows {
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
    // Columns are those of the batch, so that this is the same batch again.
    columns.and_then(|columns| RecordBatch::try_new(batch.schema(), columns)).unwrap_or(batch)
}
