//! Rows that fulfil a predicate, newest first: batches in memory and blocks of
//! files are gone through from the newest, until no older one can change the
//! answer.
//!
//! Of each, only the columns that decide are read. Of the rows that they leave,
//! the newest are kept as places, and read whole in the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::{and, is_not_null, is_null, not, take_record_batch};
use arrow::datatypes::{Int32Type, SchemaRef};
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use spanwise_model::Status;
use spanwise_model::schema::{column, span_schema};

use super::chunk::View;
use super::files::SpanFile;
use super::index::Block;
use super::keys::{hash_attribute, in_range, overlaps, starts};
use super::layout::Wanted;
use super::state::Snapshot;
use super::{attribute, gather, reader};
use crate::contract::{Predicate, Query, TimeRange};

/// Blocks that are looked through at once, at most: as many as a row group has.
const RUN_BLOCKS: usize = 32;
/// Runs of blocks that are looked through at the same time.
const THREADS: usize = 2;

/// The answer, and the files that could not be read.
pub(super) struct Found {
    pub(super) rows: Vec<RecordBatch>,
    pub(super) unreadable: Vec<(Arc<SpanFile>, String)>,
}

/// A row that may be in the answer, by its start and its place in what is
/// searched. The oldest is the greatest.
type Hit = Reverse<(i64, u32, u32)>;

/// Neighbouring blocks of one file, all of which may have rows for the answer.
struct Run<'a> {
    source: u32,
    file: &'a Arc<SpanFile>,
    rows: Vec<Range<usize>>,
    newest: i64,
}

/// See the module.
pub(super) fn find(snapshot: &Snapshot, query: &Query) -> Result<Found, ArrowError> {
    let mut search = Search { query, newest: BinaryHeap::new() };
    let mut views: Vec<(u32, &Arc<View>)> = (0..).zip(&snapshot.recent).collect();
    views.sort_by_key(|(_, view)| Reverse(view.starts.1));
    for (source, view) in views {
        if !search.is_decided_before(view.starts.1) {
            search.look_in_batch(source, &view.rows)?;
        }
    }
    let mut unreadable: Vec<(u32, String)> = Vec::new();
    let first_file = snapshot.recent.len() as u32;
    search.look_in_files(first_file, &snapshot.files, &mut unreadable);
    let rows = search.finish(snapshot, &mut unreadable)?;
    let name = |(source, reason): (u32, String)| {
        (Arc::clone(&snapshot.files[(source - first_file) as usize]), reason)
    };
    Ok(Found { rows, unreadable: unreadable.into_iter().map(name).collect() })
}

struct Search<'a> {
    query: &'a Query,
    /// The newest hits so far, the oldest of them on top.
    newest: BinaryHeap<Hit>,
}

impl Search<'_> {
    /// Whether rows that start at this time or before cannot be in the answer.
    fn is_decided_before(&self, start: i64) -> bool {
        self.newest.len() >= self.query.limit
            && self.newest.peek().is_none_or(|oldest| start <= oldest.0.0)
    }

    fn admit(&mut self, hit: (i64, u32, u32)) {
        if self.is_decided_before(hit.0) {
            return;
        }
        self.newest.push(Reverse(hit));
        if self.newest.len() > self.query.limit {
            self.newest.pop();
        }
    }

    fn look_in_batch(&mut self, source: u32, batch: &RecordBatch) -> Result<(), ArrowError> {
        let mask = mask(batch, &self.query.predicate, self.query.time)?;
        let Some(starts) = starts(batch) else { return Ok(()) };
        for row in mask.values().set_indices().filter(|row| mask.is_valid(*row)) {
            self.admit((starts.value(row), source, row as u32));
        }
        Ok(())
    }

    fn look_in_files(
        &mut self,
        first_file: u32,
        files: &[Arc<SpanFile>],
        unreadable: &mut Vec<(u32, String)>,
    ) {
        let query = self.query;
        let runs = runs(first_file, files, query.time);
        let mut next = 0;
        while next < runs.len() {
            // The first one alone may decide.
            let count = if next == 0 { 1 } else { THREADS };
            let several = &runs[next..runs.len().min(next + count)];
            next += several.len();
            let open: Vec<&Run<'_>> =
                several.iter().filter(|run| !self.is_decided_before(run.newest)).collect();
            // What comes after them is older still.
            let Some((own, others)) = open.split_first() else { break };
            let looked = std::thread::scope(|scope| {
                let mut threads = Vec::new();
                for run in others.iter().copied() {
                    threads.push((run.source, scope.spawn(move || look_in_run(run, query))));
                }
                let mut looked = vec![(own.source, look_in_run(own, query))];
                for (source, thread) in threads {
                    let hits =
                        thread.join().unwrap_or_else(|_| Err("reading it failed".to_owned()));
                    looked.push((source, hits));
                }
                looked
            });
            for (source, hits) in looked {
                match hits {
                    Ok(hits) => {
                        hits.into_iter().for_each(|(start, row)| self.admit((start, source, row)));
                    }
                    Err(reason) => unreadable.push((source, reason)),
                }
            }
        }
    }

    /// Reads the rows of all hits, newest first.
    fn finish(
        self,
        snapshot: &Snapshot,
        unreadable: &mut Vec<(u32, String)>,
    ) -> Result<Vec<RecordBatch>, ArrowError> {
        let columns = answered(self.query);
        let schema: SchemaRef = {
            let whole = span_schema();
            let indexes: Result<Vec<usize>, _> =
                columns.iter().map(|name| whole.index_of(name)).collect();
            Arc::new(whole.project(&indexes?)?)
        };
        let mut hits: Vec<(u32, u32)> =
            self.newest.into_iter().map(|Reverse((_, source, row))| (source, row)).collect();
        hits.sort_unstable();
        let mut found = Vec::new();
        for of_source in hits.chunk_by(|one, other| one.0 == other.0) {
            let source = of_source[0].0;
            if let Some(view) = snapshot.recent.get(source as usize) {
                let indexes: Result<Vec<usize>, _> =
                    columns.iter().map(|name| view.rows.schema_ref().index_of(name)).collect();
                let rows: UInt32Array = of_source.iter().map(|(_, row)| Some(*row)).collect();
                found.push(take_record_batch(&view.rows.project(&indexes?)?, &rows)?);
                continue;
            }
            let file = &snapshot.files[source as usize - snapshot.recent.len()];
            match read_rows(file, of_source, &columns) {
                Ok(rows) => found.extend(rows),
                Err(error) => unreadable.push((source, error.to_string())),
            }
        }
        let rows = gather::all(&schema, &found)?;
        let options = arrow::compute::SortOptions { descending: true, nulls_first: false };
        let order = match starts(&rows) {
            Some(starts) => {
                arrow::compute::sort_to_indices(starts, Some(options), Some(self.query.limit))?
            }
            None => UInt32Array::from(Vec::<u32>::new()),
        };
        Ok(vec![take_record_batch(&rows, &order)?])
    }
}

/// The blocks of all files that may have rows in the time, newest first, in runs
/// of neighbours in this order. A row of a wrong clock sets its own block apart
/// from its file, and no other.
fn runs(first_file: u32, files: &[Arc<SpanFile>], time: TimeRange) -> Vec<Run<'_>> {
    let mut blocks: Vec<(u32, &Arc<SpanFile>, &Block)> = Vec::new();
    for (source, file) in (first_file..).zip(files) {
        let in_time = file.index.blocks.iter().filter(|block| overlaps(block.starts, time));
        blocks.extend(in_time.map(|block| (source, file, block)));
    }
    blocks.sort_by_key(|(_, _, block)| Reverse(block.starts.1));
    let mut runs: Vec<Run<'_>> = Vec::new();
    for (source, file, block) in blocks {
        let rows = block.first_row..block.first_row + block.rows;
        match runs.last_mut() {
            Some(last) if last.source == source && last.rows.len() < RUN_BLOCKS => {
                last.rows.push(rows);
            }
            _ => runs.push(Run { source, file, rows: vec![rows], newest: block.starts.1 }),
        }
    }
    for run in &mut runs {
        run.rows.sort_unstable_by_key(|rows| rows.start);
    }
    runs
}

/// Starts and numbers of the rows of a run that fulfil the predicate.
fn look_in_run(run: &Run<'_>, query: &Query) -> Result<Vec<(i64, u32)>, String> {
    let look = || -> Result<Vec<(i64, u32)>, ParquetError> {
        let (file, predicate) = (run.file, &query.predicate);
        let mut rows = run.rows.clone();
        let pairs: Vec<u64> = predicate
            .attributes
            .iter()
            .map(|wanted| hash_attribute(&wanted.key, &wanted.value))
            .collect();
        for pair in pairs {
            rows = file.rows_that_may_have(&rows, pair)?;
        }
        let rows = reader::left(file, &rows);
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut rows = rows;
        let mut hits = Vec::new();
        for stage in stages(predicate) {
            hits = matching(file, &rows, &stage, query.time)?;
            rows = ranges(hits.iter().map(|(_, row)| *row));
        }
        Ok(hits)
    };
    look().map_err(|error| error.to_string())
}

/// The predicate in parts, of which each is asked of the rows that those before
/// have left: what is read for the last one is the largest.
fn stages(predicate: &Predicate) -> Vec<Predicate> {
    let Predicate { attributes, assembled, root, .. } = predicate.clone();
    let attributes = Predicate { attributes, ..Predicate::default() };
    let ids = Predicate { assembled, root, ..Predicate::default() };
    let rest =
        Predicate { attributes: Vec::new(), assembled: false, root: false, ..predicate.clone() };
    let mut stages = vec![rest, attributes, ids];
    stages.retain(|stage| *stage != Predicate::default());
    if stages.is_empty() {
        // The time is asked of every row.
        stages.push(Predicate::default());
    }
    stages
}

/// Starts and numbers of those of some rows that fulfil the predicate.
fn matching(
    file: &SpanFile,
    rows: &[Range<usize>],
    predicate: &Predicate,
    time: TimeRange,
) -> Result<Vec<(i64, u32)>, ParquetError> {
    let mut hits = Vec::new();
    if rows.is_empty() {
        return Ok(hits);
    }
    let columns = decisive_columns(predicate);
    let keys: Vec<&str> = predicate.attributes.iter().map(|wanted| wanted.key.as_str()).collect();
    let wanted = Wanted { columns: Some(&columns), keys: Some(&keys), parent_ids: false };
    let mut numbers = rows.iter().cloned().flatten();
    for batch in reader::read(file, rows, &wanted)? {
        let mask = mask(&batch, predicate, time)?;
        let Some(starts) = starts(&batch) else { continue };
        for (row, number) in numbers.by_ref().take(batch.num_rows()).enumerate() {
            if mask.is_valid(row) && mask.value(row) {
                hits.push((starts.value(row), number as u32));
            }
        }
    }
    Ok(hits)
}

/// Row numbers in order, as ranges.
fn ranges(rows: impl Iterator<Item = u32>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for row in rows.map(|row| row as usize) {
        match ranges.last_mut() {
            Some(last) if last.end == row => last.end += 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}

fn read_rows(
    file: &SpanFile,
    rows: &[(u32, u32)],
    columns: &[&'static str],
) -> Result<Vec<RecordBatch>, ParquetError> {
    let ranges = ranges(rows.iter().map(|(_, row)| *row));
    reader::read(file, &ranges, &Wanted::columns(columns))
}

/// The columns of the answer, in the schema's order; with the start, by which it
/// is ordered.
fn answered(query: &Query) -> Vec<&'static str> {
    let wanted = |name: &&str| {
        query.columns.is_empty() || query.columns.contains(name) || *name == column::START_UNIX_NANO
    };
    column_names().into_iter().filter(wanted).collect()
}

/// The names of all columns.
pub(super) fn column_names() -> Vec<&'static str> {
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

/// Which rows of a column of texts have this one. Of a dictionary, each text is
/// looked at once.
fn equals(column: &ArrayRef, text: &str) -> Result<BooleanArray, ArrowError> {
    let dictionary = column.as_dictionary_opt::<Int32Type>();
    let values = dictionary.and_then(|array| array.values().as_string_opt::<i32>());
    let (Some(dictionary), Some(values)) = (dictionary, values) else {
        return cmp::eq(column, &StringArray::new_scalar(text));
    };
    let equal: Vec<bool> = values.iter().map(|value| value == Some(text)).collect();
    let keys = dictionary.keys();
    let is_equal = |row| {
        let key = usize::try_from(keys.value(row)).ok().filter(|_| keys.is_valid(row));
        key.and_then(|key| equal.get(key)).is_some_and(|equal| *equal)
    };
    Ok(BooleanBuffer::collect_bool(keys.len(), is_equal).into())
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
        Some(starts) => {
            let starts = starts.values();
            BooleanBuffer::collect_bool(starts.len(), |row| in_range(starts[row], time)).into()
        }
        None => return Err(ArrowError::SchemaError("there is no start".to_owned())),
    };
    let mut also = |more: BooleanArray| -> Result<(), ArrowError> {
        mask = and(&mask, &more)?;
        Ok(())
    };
    let is = |name: &str, text: &str| equals(column(name)?, text);
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
