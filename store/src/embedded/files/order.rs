//! The order of rows in a file: grouped by trace, traces by earliest start, and within a trace
//! grouped by parent. So a trace is in one place, and similar neighbours compress well.

use ahash::AHashMap;
use arrow::array::{Array, AsArray, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrow::error::ArrowError;
use spanwise_model::schema::column;

use crate::embedded::keys::starts;

/// The location of a row: batch and row.
pub(crate) type RowPlace = (usize, usize);

/// The columns that define the order.
struct Columns<'a> {
    starts: &'a Int64Array,
    traces: &'a FixedSizeBinaryArray,
    parents: &'a FixedSizeBinaryArray,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self, ArrowError> {
        let ids = |name: &str| batch.column_by_name(name)?.as_fixed_size_binary_opt();
        let columns = || {
            Some(Self {
                starts: starts(batch)?,
                traces: ids(column::ASSEMBLED_TRACE_ID)?,
                parents: ids(column::ASSEMBLED_PARENT)?,
            })
        };
        columns().ok_or_else(|| ArrowError::SchemaError("the batch holds no spans".to_owned()))
    }

    /// Any order of parents will do if siblings are equal and roots come first.
    fn parent(&self, row: usize) -> u64 {
        let id = self.parents.is_valid(row).then(|| self.parents.value(row));
        id.and_then(|id| id.first_chunk()).map_or(0, |id| u64::from_be_bytes(*id))
    }
}

/// A row's sort key within its trace.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    parent: u64,
    start: i64,
    place: RowPlace,
}

struct Trace<'a> {
    id: Option<&'a [u8]>,
    first_start: i64,
    rows: usize,
}

/// The rows of all batches, in order.
///
/// # Errors
/// If a batch does not have the span schema.
pub(crate) fn by_trace(batches: &[RecordBatch]) -> Result<Vec<RowPlace>, ArrowError> {
    let columns: Vec<Columns<'_>> = batches.iter().map(Columns::of).collect::<Result<_, _>>()?;
    let count = batches.iter().map(RecordBatch::num_rows).sum();
    let mut traces: Vec<Trace<'_>> = Vec::new();
    let mut numbers: AHashMap<&[u8], u32> = AHashMap::new();
    // The trace number of each row.
    let mut trace_of: Vec<u32> = Vec::with_capacity(count);
    for columns in &columns {
        for row in 0..columns.starts.len() {
            let start = columns.starts.value(row);
            let id = columns.traces.is_valid(row).then(|| columns.traces.value(row));
            let next = traces.len() as u32;
            // A row without a trace is sorted by its own start.
            let number = id.map_or(next, |id| *numbers.entry(id).or_insert(next));
            if number == next {
                traces.push(Trace { id, first_start: start, rows: 0 });
            }
            let trace = &mut traces[number as usize];
            trace.first_start = start.min(trace.first_start);
            trace.rows += 1;
            trace_of.push(number);
        }
    }
    let mut order: Vec<u32> = (0..traces.len() as u32).collect();
    order.sort_unstable_by_key(|trace| {
        let trace = &traces[*trace as usize];
        (trace.first_start, trace.id)
    });
    // The offset of each trace's rows. Only rows within a trace are compared.
    let mut ends = vec![0; traces.len()];
    let mut first = 0;
    for trace in order.iter().map(|trace| *trace as usize) {
        ends[trace] = first;
        first += traces[trace].rows;
    }
    let mut rows = vec![Row::default(); count];
    let mut trace_of = trace_of.into_iter();
    for (batch, columns) in columns.iter().enumerate() {
        for (row, trace) in (0..columns.starts.len()).zip(trace_of.by_ref()) {
            let (parent, start) = (columns.parent(row), columns.starts.value(row));
            let end = &mut ends[trace as usize];
            rows[*end] = Row { parent, start, place: (batch, row) };
            *end += 1;
        }
    }
    for trace in order {
        let trace = trace as usize;
        rows[ends[trace] - traces[trace].rows..ends[trace]].sort_unstable();
    }
    Ok(rows.into_iter().map(|row| row.place).collect())
}
