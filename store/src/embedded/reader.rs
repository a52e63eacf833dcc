//! Reads rows of files: the index says which may be wanted, the columns that
//! decide say which are, and only those are read whole.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ParquetRecordBatchReaderBuilder, RowFilter, RowSelection, RowSelector,
};
use parquet::errors::ParquetError;

use super::deletions::{DECISIVE, each_selected};
use super::files::SpanFile;
use super::handle::Handle;
use super::keys::{KeySet, overlaps};
use crate::contract::{Key, Selection, TimeRange};

const BATCH_ROWS: usize = 8192;

/// Rows of the file that have any of the keys and start in the range.
pub(super) fn find_by_keys(
    file: &SpanFile,
    keys: &KeySet,
    time: TimeRange,
) -> Result<Vec<RecordBatch>, ParquetError> {
    let rows = left(file, &candidates(file, keys, time)?);
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let columns = keys.columns();
    let schema = file.metadata.parquet_schema();
    let decisive = ProjectionMask::columns(schema, columns.iter().copied());
    // The filter must own what it asks, and lives no longer than this call.
    let wanted = Arc::new(keys.clone());
    let predicate = ArrowPredicateFn::new(decisive, move |batch| Ok(wanted.mask(&batch, time)));
    let reader = open(file, &rows).with_row_filter(RowFilter::new(vec![Box::new(predicate)]));
    let found = reader.build()?.collect::<Result<Vec<_>, _>>()?;
    Ok(found.into_iter().filter(|batch| batch.num_rows() > 0).collect())
}

/// Rows among which are all that have any of the keys and start in the range.
fn candidates(
    file: &SpanFile,
    keys: &KeySet,
    time: TimeRange,
) -> Result<Vec<Range<usize>>, ParquetError> {
    let (index, handle) = (&file.index, &file.file);
    let mut rows: Vec<Range<usize>> = Vec::new();
    let mut untold = false;
    for hash in keys.trace_hashes() {
        let runs = index.trace(handle, hash)?;
        untold |= runs.is_none();
        rows.extend(runs.into_iter().flatten().map(|run| {
            let first = run.first_row as usize;
            first..first + run.rows as usize
        }));
    }
    let others = keys.other_hashes();
    let in_time = index.blocks.iter().filter(|block| overlaps(block.starts, time));
    for block in in_time.filter(|_| untold || !others.is_empty()) {
        if untold || index.may_have_any(handle, block, &others)? {
            rows.push(block.first_row..block.first_row + block.rows);
        }
    }
    Ok(united(rows, usize::try_from(file.rows).unwrap_or(0)))
}

/// In order, without overlap, and none beyond the end.
fn united(mut ranges: Vec<Range<usize>>, end: usize) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut united: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let range = range.start..range.end.min(end);
        match united.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ if range.is_empty() => {}
            _ => united.push(range),
        }
    }
    united
}

/// Those of some rows, given in order, that are not deleted.
pub(super) fn left(file: &SpanFile, rows: &[Range<usize>]) -> Vec<Range<usize>> {
    let Some(gone) = file.gone() else { return rows.to_vec() };
    let mut left = Vec::with_capacity(rows.len());
    for range in rows {
        let mut at = range.start;
        for (from, to) in gone.rows.slice(range.start, range.len()).set_slices() {
            left.extend((range.start + from > at).then(|| at..range.start + from));
            at = range.start + to;
        }
        left.extend((range.end > at).then_some(at..range.end));
    }
    left
}

/// Reads these rows, given in order and without overlap.
pub(super) fn open(
    file: &SpanFile,
    rows: &[Range<usize>],
) -> ParquetRecordBatchReaderBuilder<Handle> {
    let mut groups = Vec::new();
    let mut selectors: Vec<RowSelector> = Vec::new();
    let bounds = file.group_rows();
    let mut rest = rows;
    for (group, bound) in bounds.windows(2).enumerate() {
        let (first, end) = (bound[0], bound[1]);
        // What begins before the end of the group, the last of which may go on.
        let count = rest.partition_point(|range| range.start < end);
        if count == 0 {
            continue;
        }
        groups.push(group);
        let mut at = first;
        for range in &rest[..count] {
            let (from, to) = (range.start.max(first), range.end.min(end));
            selectors.extend((from > at).then(|| RowSelector::skip(from - at)));
            selectors.push(RowSelector::select(to - from));
            at = to;
        }
        selectors.extend((end > at).then(|| RowSelector::skip(end - at)));
        let goes_on = rest[count - 1].end > end;
        rest = &rest[count - usize::from(goes_on)..];
    }
    let metadata = file.metadata.clone();
    ParquetRecordBatchReaderBuilder::new_with_metadata(file.file.clone(), metadata)
        .with_batch_size(BATCH_ROWS)
        .with_row_groups(groups)
        .with_row_selection(RowSelection::from(selectors))
}

/// The rows of one row group that are not deleted.
pub(super) fn read_group(file: &SpanFile, group: usize) -> Result<Vec<RecordBatch>, ParquetError> {
    let rows = file.group_rows();
    let whole = rows[group]..rows[group + 1];
    let reader = open(file, &left(file, std::slice::from_ref(&whole))).build()?;
    Ok(reader.collect::<Result<Vec<_>, _>>()?)
}

/// Reads everything, and keeps nothing.
///
/// # Errors
/// Where any of it cannot be read.
pub(super) fn check(file: &SpanFile) -> Result<(), ParquetError> {
    for batch in open(file, std::slice::from_ref(&file.all_rows())).build()? {
        batch?;
    }
    Ok(())
}

/// Which rows of the file some deletions select, whether or not they are
/// deleted already.
pub(super) fn selected(
    file: &SpanFile,
    selections: &[Selection],
) -> Result<BooleanBuffer, ParquetError> {
    let count = usize::try_from(file.rows).unwrap_or(0);
    let mut found = BooleanBufferBuilder::new(0);
    found.append_n(count, false);
    let traces: Option<Vec<Key>> = selections
        .iter()
        .map(|selection| match selection {
            Selection::Trace(id) => Some(Key::Trace(*id)),
            Selection::Service(_) => None,
        })
        .collect();
    let rows = match traces {
        Some(keys) => candidates(file, &KeySet::new(&keys), TimeRange::ALL)?,
        None => Vec::from_iter([file.all_rows()]),
    };
    if rows.is_empty() {
        return Ok(found.finish());
    }
    let decisive = ProjectionMask::columns(file.metadata.parquet_schema(), DECISIVE);
    let mut numbers = rows.iter().cloned().flatten();
    for batch in open(file, &rows).with_projection(decisive).build()? {
        let batch = batch?;
        let own: Vec<usize> = numbers.by_ref().take(batch.num_rows()).collect();
        each_selected(&batch, selections, |row| found.set_bit(own[row], true));
    }
    Ok(found.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_united() {
        let ranges = vec![5..7, 0..2, 6..9, 2..3, 20..30, 12..12, 40..50];
        assert_eq!(united(ranges, 25), [0..3, 5..9, 20..25]);
    }
}
