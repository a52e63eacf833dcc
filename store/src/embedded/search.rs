//! Rows that fulfil a predicate, newest first: batches in memory and files are
//! gone through from the newest, until no older one can change the answer.
//!
//! Of each, only the columns that decide are read first; of the rows that
//! they leave, only those new enough are read whole.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{
    Array, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::compute::kernels::cmp;
use arrow::compute::{and, concat_batches, is_not_null, is_null, not, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelection, RowSelector};
use spanwise_model::Status;
use spanwise_model::schema::{column, span_schema};

use super::attribute;
use super::files::SpanFile;
use super::keys::{in_range, overlaps, starts};
use super::state::Snapshot;
use crate::contract::{Predicate, Query, TimeRange};

const BATCH_ROWS: usize = 8192;

/// The answer, and the files that could not be read.
pub(super) struct Found {
    pub(super) rows: Vec<RecordBatch>,
    pub(super) unreadable: Vec<(Arc<SpanFile>, String)>,
}

/// See the module.
pub(super) fn find(snapshot: &Snapshot, query: &Query) -> Result<Found, ArrowError> {
    let mut search = Search::new(query)?;
    let mut unreadable = Vec::new();
    let mut views: Vec<_> = snapshot.recent.iter().collect();
    views.sort_by_key(|view| Reverse(view.starts.1));
    for view in views {
        if !search.is_decided_before(view.starts.1) {
            search.look_in_batch(&view.rows)?;
        }
    }
    let mut files: Vec<_> = snapshot.files.iter().collect();
    files.sort_by_key(|file| Reverse(file.starts.1));
    for file in files {
        if search.is_decided_before(file.starts.1) {
            break;
        }
        if let Err(error) = search.look_in_file(file) {
            unreadable.push((Arc::clone(file), error.to_string()));
        }
    }
    Ok(Found { rows: search.finish()?, unreadable })
}

struct Search<'a> {
    query: &'a Query,
    /// Columns of the answer; with the start, by which it is ordered.
    columns: Vec<&'static str>,
    schema: SchemaRef,
    /// Columns that decide.
    decisive: Vec<&'static str>,
    /// The newest starts so far, the oldest of them on top.
    newest: BinaryHeap<Reverse<i64>>,
    rows: Vec<RecordBatch>,
    row_count: usize,
}

impl<'a> Search<'a> {
    fn new(query: &'a Query) -> Result<Self, ArrowError> {
        let whole = span_schema();
        let columns: Vec<&'static str> = if query.columns.is_empty() {
            column_names()
        } else {
            // In the schema's order, as a file gives them.
            let wanted =
                |name: &&str| query.columns.contains(name) || *name == column::START_UNIX_NANO;
            column_names().into_iter().filter(wanted).collect()
        };
        let indexes: Result<Vec<usize>, _> =
            columns.iter().map(|name| whole.index_of(name)).collect();
        Ok(Self {
            query,
            schema: Arc::new(whole.project(&indexes?)?),
            columns,
            decisive: decisive_columns(&query.predicate),
            newest: BinaryHeap::new(),
            rows: Vec::new(),
            row_count: 0,
        })
    }

    /// Whether rows that start at this time or before cannot be in the answer.
    fn is_decided_before(&self, start: i64) -> bool {
        self.newest.len() >= self.query.limit
            && self.newest.peek().is_none_or(|oldest| start <= oldest.0)
    }

    /// Takes note of matching rows; those that may be in the answer.
    fn admit(&mut self, mask: &BooleanArray, starts: &Int64Array) -> Vec<u32> {
        let mut admitted = Vec::new();
        for row in (0..mask.len()).filter(|row| mask.is_valid(*row) && mask.value(*row)) {
            let start = starts.value(row);
            if self.is_decided_before(start) {
                continue;
            }
            self.newest.push(Reverse(start));
            if self.newest.len() > self.query.limit {
                self.newest.pop();
            }
            admitted.push(row as u32);
        }
        admitted
    }

    fn look_in_batch(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let mask = mask(batch, &self.query.predicate, self.query.time)?;
        let Some(starts) = starts(batch) else { return Ok(()) };
        let admitted = self.admit(&mask, starts);
        if admitted.is_empty() {
            return Ok(());
        }
        let indexes: Result<Vec<usize>, _> =
            self.columns.iter().map(|name| batch.schema_ref().index_of(name)).collect();
        let projected = batch.project(&indexes?)?;
        self.keep(take_record_batch(&projected, &UInt32Array::from(admitted))?)
    }

    fn look_in_file(&mut self, file: &SpanFile) -> Result<(), ArrowError> {
        let mut groups: Vec<usize> = (0..file.group_starts.len()).collect();
        groups.sort_by_key(|group| Reverse(file.group_starts[*group].1));
        for group in groups {
            let starts = file.group_starts[group];
            if overlaps(starts, self.query.time) && !self.is_decided_before(starts.1) {
                self.look_in_group(file, group)?;
            }
        }
        Ok(())
    }

    fn look_in_group(&mut self, file: &SpanFile, group: usize) -> Result<(), ArrowError> {
        let open = |columns: &[&'static str]| -> Result<_, ArrowError> {
            let mask =
                ProjectionMask::columns(file.metadata.parquet_schema(), columns.iter().copied());
            let metadata = file.metadata.clone();
            Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file.file.clone(), metadata)
                .with_row_groups(vec![group])
                .with_batch_size(BATCH_ROWS)
                .with_projection(mask))
        };
        let gone = file.gone();
        let group_first = file.group_rows()[group];
        let mut admitted: Vec<usize> = Vec::new();
        let mut first = 0;
        for batch in open(&self.decisive)?.build()? {
            let batch = batch?;
            let mut mask = mask(&batch, &self.query.predicate, self.query.time)?;
            if let Some(gone) = &gone {
                let gone = gone.rows.slice(group_first + first, batch.num_rows());
                mask = and(&mask, &BooleanArray::from(!&gone))?;
            }
            if let Some(starts) = starts(&batch) {
                let rows = self.admit(&mask, starts);
                admitted.extend(rows.into_iter().map(|row| first + row as usize));
            }
            first += batch.num_rows();
        }
        if admitted.is_empty() {
            return Ok(());
        }
        let reader = open(&self.columns)?.with_row_selection(selection(&admitted)).build()?;
        for batch in reader {
            self.keep(batch?)?;
        }
        Ok(())
    }

    fn keep(&mut self, rows: RecordBatch) -> Result<(), ArrowError> {
        self.row_count += rows.num_rows();
        self.rows.push(rows);
        // What was newest when it was found may not be any more.
        if self.row_count > self.query.limit.saturating_mul(2).max(BATCH_ROWS) {
            self.sort()?;
        }
        Ok(())
    }

    /// Leaves the newest rows, in order.
    fn sort(&mut self) -> Result<(), ArrowError> {
        let rows = concat_batches(&self.schema, &self.rows)?;
        let options = arrow::compute::SortOptions { descending: true, nulls_first: false };
        let order = match starts(&rows) {
            Some(starts) => {
                arrow::compute::sort_to_indices(starts, Some(options), Some(self.query.limit))?
            }
            None => UInt32Array::from(Vec::<u32>::new()),
        };
        self.rows = vec![take_record_batch(&rows, &order)?];
        self.row_count = order.len();
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<RecordBatch>, ArrowError> {
        self.sort()?;
        Ok(self.rows)
    }
}

/// Rows to read, given in order.
fn selection(rows: &[usize]) -> RowSelection {
    let mut selectors: Vec<RowSelector> = Vec::new();
    let mut next = 0;
    for &row in rows {
        if row > next {
            selectors.push(RowSelector::skip(row - next));
        }
        selectors.push(RowSelector::select(1));
        next = row + 1;
    }
    // Neighbours become one selector.
    RowSelection::from(selectors)
}

fn column_names() -> Vec<&'static str> {
    use std::sync::LazyLock;
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| span_schema().fields().iter().map(|field| field.name().clone()).collect());
    NAMES.iter().map(String::as_str).collect()
}

fn decisive_columns(predicate: &Predicate) -> Vec<&'static str> {
    let mut columns = vec![column::START_UNIX_NANO];
    let mut need = |needed: bool, name| columns.extend(needed.then_some(name));
    need(predicate.service.is_some(), column::SERVICE);
    need(predicate.operation.is_some(), column::OPERATION);
    let duration = predicate.min_duration_nano.or(predicate.max_duration_nano).is_some();
    need(duration, column::DURATION_NANO);
    need(predicate.status.is_some(), column::STATUS);
    need(!predicate.attributes.is_empty(), column::ATTRIBUTES);
    need(predicate.assembled, column::ASSEMBLED_TRACE_ID);
    need(predicate.root, column::ASSEMBLED_PARENT);
    columns
}

/// Which rows fulfil the predicate.
fn mask(
    batch: &RecordBatch,
    predicate: &Predicate,
    time: TimeRange,
) -> Result<BooleanArray, ArrowError> {
    let column = |name: &str| {
        batch
            .column_by_name(name)
            .ok_or_else(|| ArrowError::SchemaError(format!("there is no column {name}")))
    };
    let mut mask: BooleanArray = match starts(batch) {
        Some(starts) => starts.values().iter().map(|start| Some(in_range(*start, time))).collect(),
        None => return Err(ArrowError::SchemaError("there is no start".to_owned())),
    };
    let mut also = |more: BooleanArray| -> Result<(), ArrowError> {
        mask = and(&mask, &more)?;
        Ok(())
    };
    let is = |name: &str, text: &str| cmp::eq(column(name)?, &StringArray::new_scalar(text));
    if let Some(service) = &predicate.service {
        also(is(column::SERVICE, service)?)?;
    }
    if let Some(operation) = &predicate.operation {
        also(is(column::OPERATION, operation)?)?;
    }
    if let Some(least) = predicate.min_duration_nano {
        also(cmp::gt_eq(column(column::DURATION_NANO)?, &Int64Array::new_scalar(least))?)?;
    }
    if let Some(most) = predicate.max_duration_nano {
        also(cmp::lt_eq(column(column::DURATION_NANO)?, &Int64Array::new_scalar(most))?)?;
    }
    match predicate.status {
        // What nobody called an error went well.
        Some(Status::Ok) => also(not(&is(column::STATUS, Status::Error.as_str())?)?)?,
        Some(status) => also(is(column::STATUS, status.as_str())?)?,
        None => {}
    }
    for wanted in &predicate.attributes {
        let maps = column(column::ATTRIBUTES)?.as_map_opt();
        let texts = maps.and_then(|maps| attribute::texts(maps, &wanted.key));
        let texts = texts
            .ok_or_else(|| ArrowError::SchemaError("attributes are no map of texts".to_owned()))?;
        also(texts.map(|text| Some(text == Some(wanted.value.as_str()))).collect())?;
    }
    if predicate.assembled {
        also(is_not_null(column(column::ASSEMBLED_TRACE_ID)?)?)?;
    }
    if predicate.root {
        also(is_null(column(column::ASSEMBLED_PARENT)?)?)?;
    }
    Ok(mask)
}
