//! The order of rows in a file: each trace's together, traces by their first
//! start, and in a trace the children of one parent together. Neighbours that
//! resemble one another pack well, and a trace is in one place.

use ahash::AHashMap;
use arrow::array::{Array, AsArray, FixedSizeBinaryArray, Int64Array, RecordBatch};
use arrow::error::ArrowError;
use spanwise_model::schema::column;

use super::keys::starts;

/// Where a row comes from: a batch and a row in it.
pub(super) type Place = (usize, usize);

/// The columns that decide the order.
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

    /// Parents in any order, so long as those of siblings are equal; roots first.
    fn parent(&self, row: usize) -> u64 {
        let id = self.parents.is_valid(row).then(|| self.parents.value(row));
        id.and_then(|id| id.first_chunk()).map_or(0, |id| u64::from_be_bytes(*id))
    }
}

/// A row, by what it is sorted by within its trace.
struct Row {
    trace: u32,
    parent: u64,
    start: i64,
    place: Place,
}

struct Trace<'a> {
    id: Option<&'a [u8]>,
    first_start: i64,
}

/// The rows of all batches, in order.
///
/// # Errors
/// Where a batch does not have the span schema.
pub(super) fn by_trace(batches: &[RecordBatch]) -> Result<Vec<Place>, ArrowError> {
    let columns: Vec<Columns<'_>> = batches.iter().map(Columns::of).collect::<Result<_, _>>()?;
    let count = batches.iter().map(RecordBatch::num_rows).sum();
    let mut traces: Vec<Trace<'_>> = Vec::new();
    let mut places: AHashMap<&[u8], u32> = AHashMap::new();
    let mut rows: Vec<Row> = Vec::with_capacity(count);
    for (batch, columns) in columns.iter().enumerate() {
        for row in 0..columns.starts.len() {
            let start = columns.starts.value(row);
            let id = columns.traces.is_valid(row).then(|| columns.traces.value(row));
            let next = traces.len() as u32;
            // A row of no trace stands by its own start.
            let trace = id.map_or(next, |id| *places.entry(id).or_insert(next));
            if trace == next {
                traces.push(Trace { id, first_start: start });
            }
            let first = &mut traces[trace as usize].first_start;
            *first = start.min(*first);
            rows.push(Row { trace, parent: columns.parent(row), start, place: (batch, row) });
        }
    }
    let mut order: Vec<u32> = (0..traces.len() as u32).collect();
    order.sort_unstable_by_key(|trace| {
        let trace = &traces[*trace as usize];
        (trace.first_start, trace.id)
    });
    let mut ranks = vec![0; traces.len()];
    for (rank, trace) in (0u32..).zip(order) {
        ranks[trace as usize] = rank;
    }
    rows.sort_unstable_by_key(|row| (ranks[row.trace as usize], row.parent, row.start, row.place));
    Ok(rows.into_iter().map(|row| row.place).collect())
}
