//! What searches ask of most blocks, in little memory: which shapes their rows
//! have, which tell services, operations and status, and about how long the
//! longest of each took.
//!
//! A search by these goes through millions of rows for a few. A predicate is asked
//! of each shape of a row group once, and columns are read of those blocks only
//! that have a shape which fulfils it, of a span that took long enough.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use spanwise_model::schema::column;

use super::block_sets::MOST_BLOCKS;
use super::cache::Cache;
use super::files::SpanFile;
use super::index::BLOCK_ROWS;
use super::layout::{ASKED, Layout, Shapes, Wanted, file_column};
use super::lengths::{length, longest};
use super::{mask, reader};
use crate::contract::Predicate;

/// Memory for sketches, of all files: 36 bytes for each service, operation and status
/// that a row group has.
const CACHE_BYTES: usize = 16 << 20;

/// A file and a row group of it.
type Key = (u64, usize);

static CACHE: LazyLock<Mutex<Cache<Key, Sketch>>> =
    LazyLock::new(|| Mutex::new(Cache::new(CACHE_BYTES)));

/// See the module. Of one row group: of each block [how long](length) the longest
/// span of each of some shapes took, and 0 where there is none. These shapes speak
/// for all that agree with them in what is asked.
#[derive(Debug)]
struct Sketch {
    shapes: Vec<u32>,
    lengths: Vec<Vec<u8>>,
}

impl Sketch {
    /// That of a row group of so many blocks, which is kept.
    fn of(file: &SpanFile, group: usize, blocks: usize) -> Result<Arc<Self>, ParquetError> {
        let key = (file.file.serial(), group);
        if let Some(sketch) = CACHE.lock().get(&key) {
            return Ok(sketch);
        }
        let shapes = file.shapes.read(group, &Layout::LENGTHS)?;
        let column = shapes.rows().column_by_name(file_column::LONGEST_IN_BLOCKS);
        let column = column.and_then(|column| column.as_fixed_size_binary_opt());
        let column =
            column.ok_or_else(|| ParquetError::General("shapes have no lengths".to_owned()))?;
        let shapes: Vec<u32> =
            (0..).zip(column).filter_map(|(shape, it)| it.and(Some(shape))).collect();
        let of_block = |block: usize| {
            let of_shapes = column.iter().flatten();
            of_shapes.map(|lengths| lengths.get(block).copied().unwrap_or(0)).collect()
        };
        let lengths = (0..blocks).map(of_block).collect();
        let sketch = Arc::new(Self { shapes, lengths });
        CACHE.lock().put(key, Arc::clone(&sketch), sketch.memory_bytes());
        Ok(sketch)
    }

    fn memory_bytes(&self) -> usize {
        self.shapes.len() * (size_of::<u32>() + self.lengths.len())
    }

    /// The blocks that have rows of any of these shapes that may have taken so
    /// long: one bit each, the first lowest.
    fn blocks(&self, fulfils: &[bool], least: u8) -> u32 {
        let has_it = |shape: u32| fulfils.get(shape as usize).is_some_and(|has_it| *has_it);
        // Mostly few.
        let places: Vec<usize> = (0..)
            .zip(&self.shapes)
            .filter_map(|(place, shape)| has_it(*shape).then_some(place))
            .collect();
        let has = |lengths: &[u8]| places.iter().any(|place| lengths[*place] >= least);
        let blocks = (0..).zip(&self.lengths).filter(|(_, lengths)| has(lengths));
        blocks.fold(0, |blocks, (number, _)| blocks | 1u32 << number)
    }
}

impl Sketch {
    /// The longest that a row of any of these shapes may have taken, block by block;
    /// none where a block has none.
    fn longest(&self, fulfils: &[bool]) -> Vec<Option<i64>> {
        let has_it = |shape: &u32| fulfils.get(*shape as usize).is_some_and(|has_it| *has_it);
        let of_block = |lengths: &Vec<u8>| {
            let of_shapes = self.shapes.iter().zip(lengths);
            let most = of_shapes.filter(|(shape, _)| has_it(shape)).map(|(_, length)| *length);
            most.max().filter(|most| *most > 0).map(longest)
        };
        self.lengths.iter().map(of_block).collect()
    }
}

/// Whether a predicate asks anything that sketches know.
pub(super) const fn is_of_use(predicate: &Predicate) -> bool {
    asks_of_shapes(predicate)
        || predicate.min_duration_nano.is_some()
        || predicate.max_duration_nano.is_some()
}

const fn asks_of_shapes(predicate: &Predicate) -> bool {
    predicate.service.is_some() || predicate.operation.is_some() || predicate.status.is_some()
}

/// Has ready what tells of some row groups of a file, where it is far away.
///
/// # Errors
/// Where it cannot be reached.
pub(super) fn prepare(
    file: &SpanFile,
    groups: impl Iterator<Item = usize> + Clone,
) -> Result<(), ParquetError> {
    let places = Wanted::columns(&ASKED).shape_places(&file.layout);
    file.shapes.prepare(groups, &[places, Layout::LENGTHS.to_vec()].concat())
}

/// The blocks of a row group that may have rows which fulfil what a predicate says
/// of shapes and durations: one bit each, the first lowest.
///
/// # Errors
/// Where the file is damaged.
pub(super) fn blocks(
    file: &SpanFile,
    group: usize,
    predicate: &Predicate,
) -> Result<u32, ParquetError> {
    let (_, fulfils) = deciding(file, group, predicate)?;
    if !fulfils.contains(&true) {
        return Ok(0);
    }
    // Every span that is there has taken some time.
    let least = predicate.min_duration_nano.map_or(1, length);
    let bounds = file.group_rows();
    let count = (bounds[group + 1] - bounds[group]).div_ceil(BLOCK_ROWS);
    let blocks = Sketch::of(file, group, count.min(MOST_BLOCKS))?.blocks(&fulfils, least);
    // Without an index, a row group is one block.
    Ok(if file.index.has_blocks() || blocks == 0 { blocks } else { u32::MAX })
}

/// The longest that a row of each block of a row group may have taken which fulfils
/// what a predicate says of shapes; none where there is no such row.
///
/// # Errors
/// Where the file is damaged.
pub(super) fn longest_in_blocks(
    file: &SpanFile,
    group: usize,
    predicate: &Predicate,
) -> Result<Vec<Option<i64>>, ParquetError> {
    let (_, fulfils) = deciding(file, group, predicate)?;
    if !fulfils.contains(&true) {
        return Ok(Vec::new());
    }
    let bounds = file.group_rows();
    let count = (bounds[group + 1] - bounds[group]).div_ceil(BLOCK_ROWS);
    let longest = Sketch::of(file, group, count.min(MOST_BLOCKS))?.longest(&fulfils);
    // Without an index, a row group is one block.
    Ok(match file.index.has_blocks() {
        true => longest,
        false => vec![longest.into_iter().max().flatten()],
    })
}

/// Those of some rows, given in order, that fulfil what a predicate says of shapes
/// and durations.
///
/// # Errors
/// Where the file is damaged.
pub(super) fn narrow(
    file: &SpanFile,
    rows: &[Range<usize>],
    predicate: &Predicate,
) -> Result<Vec<Range<usize>>, ParquetError> {
    let (least, most) = (predicate.min_duration_nano, predicate.max_duration_nano);
    let took = least.unwrap_or(i64::MIN)..=most.unwrap_or(i64::MAX);
    let schema = &file.layout.schema;
    let mut places = Vec::new();
    if asks_of_shapes(predicate) {
        places.push(schema.index_of(file_column::SHAPE)?);
    }
    if least.or(most).is_some() {
        places.push(schema.index_of(column::DURATION_NANO)?);
    }
    let mut left: Vec<Range<usize>> = Vec::new();
    for (group, rows) in reader::by_group(file, rows) {
        let (shapes, fulfils) = deciding(file, group, predicate)?;
        if !fulfils.contains(&true) {
            continue;
        }
        let mut numbers = rows.iter().cloned().flatten();
        for batch in reader::read_places(file, group, &rows, places.clone())? {
            let of_rows = match asks_of_shapes(predicate) {
                true => Some(shapes.places(&batch)?),
                false => None,
            };
            let durations_nano = batch.column_by_name(column::DURATION_NANO);
            let durations_nano = durations_nano.and_then(|it| it.as_primitive_opt::<Int64Type>());
            let fits = |row: usize| {
                of_rows.as_ref().is_none_or(|shapes| fulfils[shapes.value(row) as usize])
                    && durations_nano.is_none_or(|durations| took.contains(&durations.value(row)))
            };
            for (row, number) in numbers.by_ref().take(batch.num_rows()).enumerate() {
                match left.last_mut() {
                    _ if !fits(row) => {}
                    Some(last) if last.end == number => last.end += 1,
                    _ => left.push(number..number + 1),
                }
            }
        }
    }
    Ok(left)
}

/// The shapes of a row group, and which of them fulfil what a predicate says of
/// them.
fn deciding(
    file: &SpanFile,
    group: usize,
    predicate: &Predicate,
) -> Result<(Arc<Shapes>, Vec<bool>), ParquetError> {
    let shapes = file.shapes.group(group, &Wanted::columns(&ASKED).shape_places(&file.layout))?;
    // What is null does not fulfil it.
    let fulfils = mask::of_shapes(shapes.rows(), predicate)?;
    let fulfils = fulfils.iter().map(|fulfils| fulfils == Some(true)).collect();
    Ok((shapes, fulfils))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_are_those_with_a_row_that_may_fit(
            rows in proptest::collection::vec((0usize..20, 0usize..7, 0i64..1 << 30), 0..200),
            least_nano in 0i64..1 << 30,
            wanted in any::<[bool; 7]>(),
        ) {
            let mut lengths = vec![vec![0; 7]; 20];
            for (block, shape, nano) in &rows {
                let longest = &mut lengths[*block][*shape];
                *longest = length(*nano).max(*longest);
            }
            let sketch = Sketch { shapes: (0..7).collect(), lengths };
            let blocks = sketch.blocks(&wanted, length(least_nano));
            for block in 0..20 {
                let own = || rows.iter().filter(|(of, shape, _)| *of == block && wanted[*shape]);
                let said = blocks >> block & 1 == 1;
                prop_assert!(said || own().all(|(_, _, nano)| *nano < least_nano), "{block}");
                let is_near = |nano: i64| nano + nano / 7 + (1 << 10) >= least_nano;
                prop_assert!(!said || own().any(|(_, _, nano)| is_near(*nano)), "{block}");
            }
        }
    }
}
