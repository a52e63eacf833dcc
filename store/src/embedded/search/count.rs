//! Counts of rows by words that shapes have: of a file, at most starts and numbers of shapes are
//! read.

use std::ops::Range;
use std::sync::Arc;

use ahash::AHashMap;
use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use parquet::errors::ParquetError;
use spanwise_model::schema::column;
use spanwise_model::{ModelError, Texts};

use crate::contract::{Counting, Counts, RowCounts, StoreError};
use crate::embedded::fault;
use crate::embedded::files::SpanFile;
use crate::embedded::files::layout::{Shapes, file_column};
use crate::embedded::files::reader;
use crate::embedded::keys::{in_range, overlaps, starts};
use crate::embedded::parallel::{self, NEAR_THREADS};
use crate::embedded::state::Snapshot;

/// The counts, and the files that could not be read.
pub(in crate::embedded) struct CountAnswer {
    pub(in crate::embedded) counts: Vec<RowCounts>,
    pub(in crate::embedded) unreadable: Vec<Arc<SpanFile>>,
}

/// Rows of a row group.
type Part<'a> = (&'a Arc<SpanFile>, usize, Vec<Range<usize>>);

/// Kinds by number, and their counts.
type Numbered = (Vec<Vec<String>>, Vec<Vec<u64>>);

/// See the module.
pub(in crate::embedded) fn count(
    snapshot: &Snapshot,
    counting: &Counting,
) -> Result<CountAnswer, StoreError> {
    let mut counts = Counts::new(counting);
    let mut add = |(words, numbered): Numbered| -> Result<(), StoreError> {
        for (words, own) in words.into_iter().zip(numbered) {
            if own.iter().any(|count| *count > 0) {
                let all = counts.of(words)?;
                all.iter_mut().zip(own).for_each(|(all, own)| *all += own);
            }
        }
        Ok(())
    };
    for view in &snapshot.recent {
        let rows = view.rows.columns();
        let kinds = Kinds::of(rows, &counting.columns).map_err(ArrowError::from);
        let kinds = kinds.map_err(fault::engine("cannot count rows in memory"))?;
        let Some(starts) = starts(rows) else { continue };
        let places = 0..rows.num_rows();
        add(kinds.count(counting, starts, places.map(|row| row as u32)))?;
    }
    let mut parts: Vec<Part<'_>> = Vec::new();
    for file in &snapshot.files {
        let blocks = file.index.blocks.iter();
        let in_time = blocks.filter(|block| overlaps(block.starts, counting.time));
        let rows: Vec<Range<usize>> =
            in_time.map(|block| block.first_row..block.first_row + block.rows).collect();
        let groups = reader::by_group(file, &reader::left(file, &rows)).into_iter();
        parts.extend(groups.map(|(group, rows)| (file, group, rows)));
    }
    let counted = parallel::each(&parts, NEAR_THREADS, |(file, group, rows)| {
        of_group(file, *group, rows, counting)
    });
    let mut unreadable = Vec::new();
    for ((file, ..), counted) in parts.iter().zip(counted) {
        match counted {
            Ok(counted) => add(counted)?,
            Err(error) => {
                tracing::warn!("{} cannot be counted: {error}", file.path.display());
                unreadable.push(Arc::clone(file));
            }
        }
    }
    Ok(CountAnswer { counts: counts.finish(), unreadable })
}

fn of_group(
    file: &SpanFile,
    group: usize,
    rows: &[Range<usize>],
    counting: &Counting,
) -> Result<Numbered, ParquetError> {
    if counting.only_presence && is_whole(file, group, rows, counting) {
        // No row has to be read to know that there is one of each shape.
        let (_, kinds) = kinds_of_group(file, group, &counting.columns)?;
        let present = vec![vec![1]; kinds.words.len()];
        return Ok((kinds.words, present));
    }
    let mut all: Option<Numbered> = None;
    let kinds = each_batch(file, group, rows, &counting.columns, |kinds, starts, places| {
        let counted = kinds.count(counting, starts, places.iter().copied());
        match &mut all {
            None => all = Some(counted),
            Some((_, all)) => {
                for (all, own) in all.iter_mut().zip(counted.1) {
                    all.iter_mut().zip(own).for_each(|(all, own)| *all += own);
                }
            }
        }
    });
    kinds?;
    Ok(all.unwrap_or_default())
}

/// Calls `with` for each batch of these rows: the words of the group's shapes, and the starts of
/// the rows with the numbers of their shapes.
pub(super) fn each_batch(
    file: &SpanFile,
    group: usize,
    rows: &[Range<usize>],
    columns: &[&'static str],
    mut with: impl FnMut(&Kinds, &Int64Array, &[u32]),
) -> Result<Kinds, ParquetError> {
    let layout = &file.layout;
    let (shapes, kinds) = kinds_of_group(file, group, columns)?;
    let own =
        [file_column::SHAPE, column::START_UNIX_NANO].map(|name| layout.schema.index_of(name));
    let own = own.into_iter().collect::<Result<Vec<_>, _>>()?;
    for batch in reader::read_places(file, group, rows, own)? {
        let places = shapes.places(&batch)?;
        let starts = batch.column_by_name(column::START_UNIX_NANO);
        let starts = starts.and_then(|starts| starts.as_primitive_opt::<Int64Type>());
        let starts = starts.ok_or_else(|| ParquetError::General("there are no starts".into()))?;
        with(&kinds, starts, places.values());
    }
    Ok(kinds)
}

/// The shapes of a row group, and the words that they have in these columns.
fn kinds_of_group(
    file: &SpanFile,
    group: usize,
    columns: &[&'static str],
) -> Result<(Arc<Shapes>, Kinds), ParquetError> {
    let places = columns.iter().map(|name| file.layout.shapes_schema.index_of(name));
    let mut wanted = vec![0];
    wanted.extend(places.collect::<Result<Vec<_>, _>>()?);
    wanted.sort_unstable();
    let shapes = file.shapes.group(group, &wanted)?;
    let kinds = Kinds::of(shapes.rows(), columns).map_err(ArrowError::from)?;
    Ok((shapes, kinds))
}

/// Whether these are all rows of a row group, and all of the time.
fn is_whole(file: &SpanFile, group: usize, rows: &[Range<usize>], counting: &Counting) -> bool {
    let bounds = file.group_rows();
    let mut blocks = file.index.blocks.iter().filter(|block| block.group == group);
    let count: usize = rows.iter().map(ExactSizeIterator::len).sum();
    count == bounds[group + 1] - bounds[group]
        && blocks.all(|block| {
            in_range(block.starts.0, counting.time) && in_range(block.starts.1, counting.time)
        })
}

/// The words of rows or shapes, each combination with a number.
pub(super) struct Kinds {
    /// Of each row.
    pub(super) numbers: Vec<u32>,
    pub(super) words: Vec<Vec<String>>,
}

impl Kinds {
    pub(super) fn of(rows: &RecordBatch, columns: &[&'static str]) -> Result<Self, ModelError> {
        let texts = columns.iter().map(|column| Texts::of(rows, column));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let mut known: AHashMap<Vec<Option<usize>>, u32> = AHashMap::new();
        let mut words = Vec::new();
        let mut key = Vec::with_capacity(texts.len());
        let mut before: Option<(Vec<Option<usize>>, u32)> = None;
        let numbers = (0..rows.num_rows()).map(|row| {
            key.clear();
            key.extend(texts.iter().map(|texts| texts.place(row)));
            if let Some((same, number)) = &before
                && *same == key
            {
                return *number;
            }
            let number = *known.entry(key.clone()).or_insert_with(|| {
                let word = |texts: &Texts<'_>| texts.get(row).unwrap_or_default().to_owned();
                words.push(texts.iter().map(word).collect());
                words.len() as u32 - 1
            });
            before = Some((key.clone(), number));
            number
        });
        Ok(Self { numbers: numbers.collect(), words })
    }

    /// Counts rows with these starts, which are those at these places.
    fn count(
        &self,
        counting: &Counting,
        starts: &Int64Array,
        places: impl Iterator<Item = u32>,
    ) -> Numbered {
        let intervals = counting.intervals();
        let mut counts = vec![vec![0; intervals]; self.words.len()];
        for (start, place) in starts.values().iter().zip(places) {
            if in_range(*start, counting.time)
                && let Some(number) = self.numbers.get(place as usize)
                && let Some(count) = counts[*number as usize].get_mut(counting.interval(*start))
            {
                *count += 1;
            }
        }
        (self.words.clone(), counts)
    }
}
