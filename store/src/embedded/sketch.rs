//! What searches ask of most rows, in little memory: the shape of each row, which
//! tells its service, operation and status, and about how long it took.
//!
//! A search by these goes through millions of rows for a few. Reading columns for
//! that took longer than all the rest, so sketches of row groups are kept, a
//! predicate is asked of each shape once, and columns are read of the rows that
//! are left.

use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, BooleanArray};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use spanwise_model::schema::column;

use super::cache::Cache;
use super::files::SpanFile;
use super::layout::{Shapes, Wanted, file_column};
use super::reader;
use crate::contract::Predicate;

/// Memory for sketches, of all files: three bytes a row.
const CACHE_BYTES: usize = 32 << 20;

/// The columns of shapes that a predicate may ask of.
const ASKED: [&str; 3] = [column::SERVICE, column::OPERATION, column::STATUS];

/// A file and a row group of it.
type Key = (u64, usize);

static CACHE: LazyLock<Mutex<Cache<Key, Sketch>>> =
    LazyLock::new(|| Mutex::new(Cache::new(CACHE_BYTES)));

/// See the module. Of one row group.
#[derive(Debug)]
struct Sketch {
    shapes: Numbers,
    lengths: Vec<u8>,
}

/// Places of shapes among those of a row group, which rarely has very many.
#[derive(Debug)]
enum Numbers {
    Short(Vec<u16>),
    Long(Vec<u32>),
}

/// A duration, roughly: a longer one has no smaller number. Four numbers for
/// each power of two.
const fn length(duration_nano: i64) -> u8 {
    if duration_nano < 4 {
        // The numbers are bytes: there are 63 powers of two.
        return if duration_nano < 0 { 0 } else { duration_nano as u8 };
    }
    let power = duration_nano.ilog2();
    let quarter = (duration_nano >> (power - 2)) & 3;
    ((power - 1) * 4) as u8 + quarter as u8
}

impl Sketch {
    fn new(shapes: &[u32], durations: &[i64]) -> Self {
        let short: Result<Vec<u16>, _> = shapes.iter().map(|shape| u16::try_from(*shape)).collect();
        Self {
            shapes: short.map_or_else(|_| Numbers::Long(shapes.to_vec()), Numbers::Short),
            lengths: durations.iter().map(|duration| length(*duration)).collect(),
        }
    }

    /// That of a row group with these shapes, which is kept.
    fn of(file: &SpanFile, group: usize, shapes: &Shapes) -> Result<Arc<Self>, ParquetError> {
        let key = (file.file.serial(), group);
        if let Some(sketch) = CACHE.lock().get(&key) {
            return Ok(sketch);
        }
        let schema = &file.layout.schema;
        let places = [file_column::SHAPE, column::DURATION_NANO].map(|name| schema.index_of(name));
        let places = places.into_iter().collect::<Result<Vec<_>, _>>()?;
        let bounds = file.group_rows();
        let all = bounds[group]..bounds[group + 1];
        let (mut numbers, mut durations) = (Vec::new(), Vec::new());
        for batch in reader::read_places(file, group, std::slice::from_ref(&all), places)? {
            numbers.extend_from_slice(shapes.places(&batch)?.values());
            let column = batch.column_by_name(column::DURATION_NANO);
            let column = column.and_then(|column| column.as_primitive_opt::<Int64Type>());
            let column =
                column.ok_or_else(|| ParquetError::General("there are no durations".to_owned()))?;
            durations.extend_from_slice(column.values());
        }
        if numbers.len() != all.len() {
            let what = format!("a row group has {} of {} rows", numbers.len(), all.len());
            return Err(ParquetError::General(what));
        }
        let sketch = Arc::new(Self::new(&numbers, &durations));
        CACHE.lock().put(key, Arc::clone(&sketch), sketch.memory_bytes());
        Ok(sketch)
    }

    const fn memory_bytes(&self) -> usize {
        self.lengths.len()
            + match &self.shapes {
                Numbers::Short(numbers) => 2 * numbers.len(),
                Numbers::Long(numbers) => 4 * numbers.len(),
            }
    }

    /// Tells of the rows in this range that have one of these shapes and may
    /// have taken so long.
    fn each_candidate(
        &self,
        rows: Range<usize>,
        shapes: &[bool],
        lengths: &RangeInclusive<u8>,
        tell: impl FnMut(usize),
    ) {
        let lengths_of = self.lengths.get(rows.clone()).unwrap_or_default().iter();
        let fits = lengths_of.map(|length| lengths.contains(length));
        let has = |shape: usize| shapes.get(shape).is_some_and(|has| *has);
        let rows = rows.zip(fits);
        match &self.shapes {
            Numbers::Short(numbers) => {
                rows.filter(|(row, fits)| *fits && has(usize::from(numbers[*row])))
                    .map(|(row, _)| row)
                    .for_each(tell);
            }
            Numbers::Long(numbers) => {
                rows.filter(|(row, fits)| *fits && has(numbers[*row] as usize))
                    .map(|(row, _)| row)
                    .for_each(tell);
            }
        }
    }
}

/// Which of a row group's shapes fulfil a predicate.
type Decide<'a> = &'a dyn Fn(&arrow::array::RecordBatch) -> Result<BooleanArray, ArrowError>;

/// Whether a predicate asks anything that sketches know.
pub(super) const fn is_of_use(predicate: &Predicate) -> bool {
    predicate.service.is_some()
        || predicate.operation.is_some()
        || predicate.status.is_some()
        || predicate.min_duration_nano.is_some()
        || predicate.max_duration_nano.is_some()
}

/// Those of some rows, given in order, that fulfil what a predicate says of
/// shapes, and may fulfil what it says of durations. `decide` says which shapes
/// fulfil it.
///
/// # Errors
/// Where the file is damaged.
pub(super) fn narrow(
    file: &SpanFile,
    rows: &[Range<usize>],
    predicate: &Predicate,
    decide: Decide<'_>,
) -> Result<Vec<Range<usize>>, ParquetError> {
    let least = predicate.min_duration_nano.map_or(0, length);
    let most = predicate.max_duration_nano.map_or(u8::MAX, length);
    let places = Wanted::columns(&ASKED).shape_places(&file.layout);
    let bounds = file.group_rows();
    let mut left: Vec<Range<usize>> = Vec::new();
    for (group, rows) in reader::by_group(file, rows) {
        let shapes = file.shapes.group(group, &places)?;
        let decided = decide(shapes.rows())?;
        // What is null does not fulfil it.
        let fulfils: Vec<bool> = decided.iter().map(|it| it == Some(true)).collect();
        if !fulfils.contains(&true) {
            continue;
        }
        let sketch = Sketch::of(file, group, &shapes)?;
        let first = bounds[group];
        for range in rows {
            let range = range.start - first..range.end - first;
            sketch.each_candidate(range, &fulfils, &(least..=most), |row| {
                let row = first + row;
                match left.last_mut() {
                    Some(last) if last.end == row => last.end += 1,
                    _ => left.push(row..row + 1),
                }
            });
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_durations_go_up_with_them() {
        let mut edges = vec![i64::MIN, -1, 0, i64::MAX];
        for power in 0..63 {
            let two = 1i64 << power;
            edges.extend([two - 1, two, two + 1, two + two / 2]);
        }
        edges.sort_unstable();
        for pair in edges.windows(2) {
            assert!(length(pair[0]) <= length(pair[1]), "{pair:?}");
        }
        assert!(length(100_000_000) > length(75_000_000), "a quarter more is told apart");
        assert_eq!(length(i64::MAX), 247);
    }

    proptest! {
        #[test]
        fn no_row_is_missed(
            rows in proptest::collection::vec((0u32..100_000, any::<i64>()), 1..200),
            wanted in (any::<i64>(), any::<i64>()),
            few in any::<bool>(),
        ) {
            let shapes: Vec<u32> =
                rows.iter().map(|(shape, _)| if few { shape % 7 } else { *shape }).collect();
            let durations: Vec<i64> = rows.iter().map(|(_, duration)| *duration).collect();
            let has: Vec<bool> = (0..100_000).map(|shape| shape % 3 == 0).collect();
            let sketch = Sketch::new(&shapes, &durations);
            let (least, most) = (wanted.0.min(wanted.1), wanted.0.max(wanted.1));
            let mut found = Vec::new();
            let lengths = length(least)..=length(most);
            sketch.each_candidate(1..rows.len(), &has, &lengths, |row| found.push(row));
            for row in 1..rows.len() {
                let is_it = has[shapes[row] as usize];
                let took = (least..=most).contains(&durations[row]);
                prop_assert!(found.contains(&row) || !(is_it && took), "{row}");
                prop_assert!(is_it || !found.contains(&row), "{row}");
            }
        }
    }
}
