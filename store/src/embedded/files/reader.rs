//! Reads rows of files. The index selects candidates, the deciding columns select rows, and only
//! these rows are read completely.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::errors::ParquetError;
use spanwise_model::absent::without_values;
use spanwise_model::schema::{column, span_schema};

use super::SpanFile;
use super::layout::{Parents, SpanIds, Wanted, restore};
use super::pages::Group;
use crate::contract::{Key, Outline, Selection, TimeRange};
use crate::embedded::keys::{KeySet, in_time, overlaps};
use crate::embedded::parallel::{self, NEAR_THREADS};
use crate::embedded::upkeep::deletions::{DECISIVE, each_selected};

const BATCH_ROWS: usize = 8192;
/// Up to this many rows are read completely at once, instead of deciding columns first.
pub(crate) const FEW_ROWS: usize = 1024;

/// Rows of the file with any of the keys and a start in the range, completely or as an outline.
pub(crate) fn find_by_keys(
    file: &SpanFile,
    keys: &KeySet,
    time: TimeRange,
    outline: Option<&Outline>,
) -> Result<Vec<RecordBatch>, ParquetError> {
    let mut rows = left(file, &candidates(file, keys, time)?);
    if rows.iter().map(ExactSizeIterator::len).sum::<usize>() > FEW_ROWS {
        // Only by key: few rows have other times, and decoding starts costs more than comparing
        // ids.
        let columns = keys.columns();
        let (mut numbers, mut before) = (Numbers::of(&rows), 0);
        let mut wanted: Vec<Range<usize>> = Vec::new();
        for batch in read(file, &rows, &Wanted::columns(&columns))? {
            let found = keys.mask(&batch);
            wanted.extend(found.set_indices().map(|row| {
                let row = numbers.at(before + row);
                row..row + 1
            }));
            before += batch.num_rows();
        }
        rows = united(wanted, usize::try_from(file.rows).unwrap_or(0));
    }
    let mut found = Vec::new();
    let columns = outline.map(|outline| outline_columns(outline, keys));
    let attributes: Option<Vec<&str>> =
        outline.map(|outline| outline.attributes.iter().map(String::as_str).collect());
    let wanted = Wanted { columns: columns.as_deref(), keys: attributes.as_deref(), ..Wanted::ALL };
    // Of as many traces as a search finds, most lie in a row group of their own.
    let is_of_many = outline.is_some() || keys.assembled.len() > 1;
    let threads = if is_of_many { NEAR_THREADS } else { 1 };
    for batch in read_by(threads, file, &rows, &wanted)? {
        let wanted = &keys.mask(&batch) & &in_time(&batch, time);
        let batch = filter_record_batch(&batch, &BooleanArray::new(wanted, None))?;
        if batch.num_rows() > 0 {
            found.push(if outline.is_some() { filled_up(&batch)? } else { batch });
        }
    }
    Ok(found)
}

/// The columns needed for an outline: the requested ones, those that decide, and those that must
/// not be null.
fn outline_columns(outline: &Outline, keys: &KeySet) -> Vec<&'static str> {
    let decisive = keys.columns();
    let schema = span_schema();
    let needed = |name: &&str| {
        let must = schema.field_with_name(name).is_ok_and(|field| {
            let is_list = matches!(field.data_type(), DataType::List(_) | DataType::Map(..));
            !field.is_nullable() && !is_list
        });
        must || outline.columns.contains(name) || decisive.contains(name)
    };
    column::ALL.iter().copied().filter(needed).collect()
}

/// Extends rows with some columns to the full span schema.
fn filled_up(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = span_schema();
    let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(column) => Ok(Arc::clone(column)),
        None => without_values(field, batch.num_rows()),
    });
    RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<Vec<_>, _>>()?)
}

/// A superset of the rows with any of the keys and a start in the range.
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
    let in_time = || index.blocks.iter().filter(|block| overlaps(block.starts, time));
    if !untold && !others.is_empty() {
        index.prepare(handle, in_time().map(|block| block.group), &others)?;
    }
    // Blocks of a row group are adjacent.
    let (mut group, mut blocks) = (usize::MAX, u32::MAX);
    for block in in_time().filter(|_| untold || !others.is_empty()) {
        if !untold && block.group != group {
            (group, blocks) = (block.group, 0);
            for hash in &others {
                blocks |= index.blocks_with(handle, group, *hash)?;
            }
        }
        if blocks >> block.number & 1 == 1 {
            rows.push(block.first_row..block.first_row + block.rows);
        }
    }
    Ok(united(rows, usize::try_from(file.rows).unwrap_or(0)))
}

/// Sorts and merges ranges, and cuts them at `end`.
pub(crate) fn united(mut ranges: Vec<Range<usize>>, end: usize) -> Vec<Range<usize>> {
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

/// Maps the index of a row that was read to its row number in the file.
struct Numbers<'a> {
    rows: &'a [Range<usize>],
    /// Number of rows before the first range.
    before: usize,
}

impl<'a> Numbers<'a> {
    /// The ranges must be ascending and disjoint.
    const fn of(rows: &'a [Range<usize>]) -> Self {
        Self { rows, before: 0 }
    }

    /// The number of the row with this index, which must not be lower than in the previous call.
    fn at(&mut self, place: usize) -> usize {
        while let [first, rest @ ..] = self.rows
            && !rest.is_empty()
            && place - self.before >= first.len()
        {
            self.before += first.len();
            self.rows = rest;
        }
        self.rows.first().map_or(0, |first| first.start + place - self.before)
    }
}

/// The rows that are not deleted. `rows` must be ascending.
pub(crate) fn left(file: &SpanFile, rows: &[Range<usize>]) -> Vec<Range<usize>> {
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

/// Reads these rows, which must be ascending and disjoint, as rows of the span schema.
///
/// # Errors
/// If the file is damaged.
pub(crate) fn read(
    file: &SpanFile,
    rows: &[Range<usize>],
    wanted: &Wanted<'_>,
) -> Result<Vec<RecordBatch>, ParquetError> {
    read_by(1, file, rows, wanted)
}

/// Reads the same with several threads.
fn read_by(
    threads: usize,
    file: &SpanFile,
    rows: &[Range<usize>],
    wanted: &Wanted<'_>,
) -> Result<Vec<RecordBatch>, ParquetError> {
    let places = wanted.places(&file.layout, |key| file.may_map(key));
    let of_shapes = wanted.shape_places(&file.layout);
    let mut groups = by_group(file, rows);
    if groups.len() < threads {
        // Rows far from each other are in pages of their own.
        let parts = |(group, rows): &(usize, Vec<Range<usize>>)| {
            let parts = rows.chunks(rows.len().div_ceil(threads));
            parts.map(|rows| (*group, rows.to_vec())).collect::<Vec<_>>()
        };
        groups = groups.iter().flat_map(parts).collect();
    }
    let of_groups = parallel::each(&groups, threads, |(group, rows)| -> Result<_, ParquetError> {
        let batches = read_places(file, *group, rows, places.clone())?;
        let shapes = match of_shapes.is_empty() {
            true => None,
            false => Some(file.shapes.of_rows(*group, &of_shapes, &batches)?),
        };
        let parents = match wanted.needs_parents() {
            true => parents(file, *group, rows, &batches)?,
            false => Parents::Presence,
        };
        let (mut restored, mut first) = (Vec::with_capacity(batches.len()), 0);
        for batch in &batches {
            let shapes = shapes.as_deref();
            restored.push(restore(&file.layout, batch, first, wanted, shapes, &parents)?);
            first += batch.num_rows();
        }
        Ok(restored)
    });
    let mut all = Vec::new();
    for of_group in of_groups {
        all.extend(of_group?);
    }
    Ok(all)
}

/// Splits ascending, disjoint rows by row group.
pub(crate) fn by_group(file: &SpanFile, rows: &[Range<usize>]) -> Vec<(usize, Vec<Range<usize>>)> {
    let bounds = file.group_rows();
    let mut groups = Vec::new();
    let mut rest = rows;
    for (group, bound) in bounds.windows(2).enumerate() {
        let (first, end) = (bound[0], bound[1]);
        // The ranges that begin before the group's end. The last may continue after it.
        let count = rest.partition_point(|range| range.start < end);
        let own = rest[..count].iter().map(|range| range.start.max(first)..range.end.min(end));
        let own: Vec<Range<usize>> = own.filter(|range| !range.is_empty()).collect();
        if !own.is_empty() {
            groups.push((group, own));
        }
        let goes_on = count > 0 && rest[count - 1].end > end;
        rest = &rest[count - usize::from(goes_on)..];
    }
    groups
}

/// The ids of the parents of rows that were read.
fn parents(
    file: &SpanFile,
    group: usize,
    rows: &[Range<usize>],
    batches: &[RecordBatch],
) -> Result<Parents, ParquetError> {
    let numbers = rows.iter().cloned().flatten().map(|row| row as u32).collect();
    let own = SpanIds::of(batches, numbers)?;
    let missing = own.missing(batches);
    let end = file.group_rows()[group + 1];
    let others = united(missing.iter().map(|row| *row as usize..*row as usize + 1).collect(), end);
    let place = file.layout.schema.index_of(column::SPAN_ID).ok();
    let batches = match others.is_empty() {
        true => Vec::new(),
        false => read_places(file, group, &others, place.into_iter().collect())?,
    };
    Ok(Parents::Ids(own, SpanIds::of(&batches, missing)?))
}

/// The columns with these indexes, of these rows of a row group, as they are in the file.
///
/// # Errors
/// If the file is damaged.
pub(crate) fn read_places(
    file: &SpanFile,
    group: usize,
    rows: &[Range<usize>],
    places: Vec<usize>,
) -> Result<Vec<RecordBatch>, ParquetError> {
    let bounds = file.group_rows();
    let (first, end) = (bounds[group], bounds[group + 1]);
    let mut at = first;
    let mut selectors: Vec<RowSelector> = Vec::new();
    for range in rows {
        selectors.extend((range.start > at).then(|| RowSelector::skip(range.start - at)));
        selectors.push(RowSelector::select(range.end - range.start));
        at = range.end;
    }
    selectors.extend((end > at).then(|| RowSelector::skip(end - at)));
    let schema = file.metadata.parquet_schema();
    let mask = ProjectionMask::roots(schema, places);
    let hint = file.metadata.schema().fields();
    let levels = parquet_to_arrow_field_levels(schema, mask.clone(), Some(hint))?;
    // Data of a few rows is soon read again: a search reads the rows that it found, and then their
    // traces.
    let keep = rows.iter().map(ExactSizeIterator::len).sum::<usize>() * 2 < end - first;
    let group = Group { file: &file.file, metadata: file.metadata.metadata(), group, keep };
    let of_group = rows.iter().map(|rows| rows.start - first..rows.end - first);
    group.prepare(schema, &mask, Some(of_group))?;
    let selection = Some(RowSelection::from(selectors));
    let reader =
        ParquetRecordBatchReader::try_new_with_row_groups(&levels, &group, BATCH_ROWS, selection)?;
    Ok(reader.collect::<Result<Vec<_>, _>>()?)
}

/// The rows of one row group that are not deleted.
pub(crate) fn read_group(file: &SpanFile, group: usize) -> Result<Vec<RecordBatch>, ParquetError> {
    let rows = file.group_rows();
    let whole = rows[group]..rows[group + 1];
    read(file, &left(file, std::slice::from_ref(&whole)), &Wanted::ALL)
}

/// Reads everything, to find damage.
///
/// # Errors
/// If any part cannot be read.
pub(crate) fn check(file: &SpanFile) -> Result<(), ParquetError> {
    for group in file.group_rows().windows(2) {
        read(file, std::slice::from_ref(&(group[0]..group[1])), &Wanted::ALL)?;
    }
    Ok(())
}

/// The rows of the file that some deletions select, including rows that are already deleted.
pub(crate) fn selected(
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
    let (mut numbers, mut before) = (Numbers::of(&rows), 0);
    for batch in read(file, &rows, &Wanted::columns(&DECISIVE))? {
        each_selected(&batch, selections, |row| found.set_bit(numbers.at(before + row), true));
        before += batch.num_rows();
    }
    Ok(found.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_as_in_the_file() {
        let rows = [3..5, 7..8, 20..23];
        let mut numbers = Numbers::of(&rows);
        let numbered: Vec<usize> = (0..6).map(|place| numbers.at(place)).collect();
        assert_eq!(numbered, [3, 4, 7, 20, 21, 22]);
        assert_eq!(Numbers::of(&rows).at(5), 22);
    }

    #[test]
    fn ranges_are_united() {
        let ranges = vec![5..7, 0..2, 6..9, 2..3, 20..30, 12..12, 40..50];
        assert_eq!(united(ranges, 25), [0..3, 5..9, 20..25]);
    }
}
