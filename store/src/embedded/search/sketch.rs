//! Compact summaries of row groups: the services, operations and status of their shapes,
//! approximately how long the longest span of each took in each block, and how their spans are
//! joined.
//!
//! A search may go through millions of rows to find a few. A predicate is evaluated once for each
//! kind of span of a row group. Columns are then read only for blocks with a matching kind and a
//! span of sufficient duration.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use ahash::AHashMap;
use arrow::array::{Array, AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::{Int32Type, Int64Type};
use parking_lot::Mutex;
use parquet::errors::ParquetError;
use spanwise_model::schema::column;
use spanwise_model::{Capture, Evidence};

use super::mask;
use crate::contract::Predicate;
use crate::embedded::files::SpanFile;
use crate::embedded::files::cache::Cache;
use crate::embedded::files::index::BLOCK_ROWS;
use crate::embedded::files::index::block_sets::MOST_BLOCKS;
use crate::embedded::files::layout::{
    self, ASKED, Layout, Shapes, Wanted, file_column, of_shapes, shape_numbers,
};
use crate::embedded::files::lengths::{length, longest};
use crate::embedded::files::reader;

/// Cache size for the sketches of all files. A sketch takes about 50 bytes for each combination of
/// service, operation and status in a row group.
const CACHE_BYTES: usize = 16 << 20;

/// File and row group.
type Key = (u64, usize);

static CACHE: LazyLock<Mutex<Cache<Key, Sketch>>> =
    LazyLock::new(|| Mutex::new(Cache::new(CACHE_BYTES)));

/// The sketch of one row group. See the module's description.
#[derive(Debug)]
struct Sketch {
    /// The number of the first shape.
    first: i64,
    /// Each distinct combination of service, operation and status, called a kind here.
    kinds: RecordBatch,
    /// First shape and kind of each run of shapes. The last entry is the end.
    runs: Vec<(u32, u32)>,
    /// For each block, the [length](length) of the longest span of each kind; 0 if there is none.
    lengths: Vec<Vec<u8>>,
    own: OwnLinks,
}

/// The shapes of spans that SDKs reported and that are joined by what they say themselves, as
/// ascending ranges of numbers.
#[derive(Debug, Default)]
struct OwnLinks {
    /// Assembly found the trace and the parent that were sent.
    found: Vec<Range<i64>>,
    /// Assembly found another trace or another parent, or none, without evidence.
    perhaps: Vec<Range<i64>>,
}

impl OwnLinks {
    fn of(shapes: &Shapes) -> Result<Self, ParquetError> {
        let column = |name: &str| {
            let column = shapes.rows().column_by_name(name);
            column.ok_or_else(|| ParquetError::General(format!("shapes have no column {name}")))
        };
        let follows = column(file_column::FOLLOWS)?;
        let evidence = column(column::EVIDENCE)?;
        let of_sdk = mask::equals(column(column::CAPTURE)?, Capture::App.as_str())?;
        let by_ids = mask::equals(evidence, Evidence::SpanContext.as_str())?;
        let as_sent = layout::assembled_as_sent(follows)?;
        let first = shapes.first().unwrap_or(0);
        let mut own = Self::default();
        for (shape, is_as_sent) in as_sent.into_iter().enumerate() {
            let by_ids = by_ids.is_valid(shape) && by_ids.value(shape);
            let has_evidence = evidence.is_valid(shape);
            if !(of_sdk.is_valid(shape) && of_sdk.value(shape)) || has_evidence && !by_ids {
                continue;
            }
            let ranges = match (is_as_sent, has_evidence) {
                (true, _) => &mut own.found,
                (false, false) => &mut own.perhaps,
                (false, true) => continue,
            };
            let number = first + shape as i64;
            match ranges.last_mut() {
                Some(last) if last.end == number => last.end += 1,
                _ => ranges.push(number..number + 1),
            }
        }
        Ok(own)
    }

    fn memory_bytes(&self) -> usize {
        (self.found.len() + self.perhaps.len()) * size_of::<Range<i64>>()
    }
}

/// What the shapes of a row group say of the links of rows.
pub(super) struct ShapeLinks {
    fulfil: ShapeSet,
    found: ShapeSet,
    perhaps: ShapeSet,
}

impl ShapeLinks {
    /// With the shapes that fulfil one of these predicates, as far as shapes tell.
    ///
    /// # Errors
    /// If the file is damaged.
    pub(super) fn of(
        file: &SpanFile,
        group: usize,
        any: &[Predicate],
    ) -> Result<Self, ParquetError> {
        let sketch = Sketch::of(file, group)?;
        let mut fulfil = vec![false; sketch.kinds.num_rows()];
        for predicate in any {
            let more = sketch.fulfil(predicate)?;
            fulfil.iter_mut().zip(more).for_each(|(fulfils, more)| *fulfils |= more);
        }
        let [fulfil, found, perhaps] =
            [&sketch.numbers(&fulfil), &sketch.own.found, &sketch.own.perhaps]
                .map(|numbers| sketch.set(numbers));
        Ok(Self { fulfil, found, perhaps })
    }

    /// Whether rows of the shape fulfil one of the predicates.
    pub(super) fn fulfils(&self, shape: i64) -> bool {
        self.fulfil.has(shape)
    }

    /// Whether assembly found the trace and the parent that rows of the shape name.
    pub(super) fn are_as_sent(&self, shape: i64) -> bool {
        self.found.has(shape)
    }

    /// Whether rows of the shape may be without the parent that they name.
    pub(super) fn may_lack_parent(&self, shape: i64) -> bool {
        self.perhaps.has(shape)
    }
}

impl Sketch {
    /// The sketch of a row group, cached.
    fn of(file: &SpanFile, group: usize) -> Result<Arc<Self>, ParquetError> {
        let key = (file.file.serial(), group);
        if let Some(sketch) = CACHE.lock().get(&key) {
            return Ok(sketch);
        }
        let bounds = file.group_rows();
        let blocks = (bounds[group + 1] - bounds[group]).div_ceil(BLOCK_ROWS).min(MOST_BLOCKS);
        let shapes = file.shapes.read(group, &places(file))?;
        let sketch = Arc::new(Self::new(&shapes, blocks)?);
        CACHE.lock().put(key, Arc::clone(&sketch), sketch.memory_bytes());
        Ok(sketch)
    }

    fn new(shapes: &Shapes, blocks: usize) -> Result<Self, ParquetError> {
        let column = shapes.rows().column_by_name(file_column::LONGEST_IN_BLOCKS);
        let column = column.and_then(|column| column.as_fixed_size_binary_opt());
        let column =
            column.ok_or_else(|| ParquetError::General("shapes have no lengths".to_owned()))?;
        let asked = shapes.rows().project(
            &ASKED.map(|name| shapes.rows().schema_ref().index_of(name).unwrap_or(usize::MAX)),
        )?;
        let texts = |name: &str| {
            let texts = asked.column_by_name(name)?.as_dictionary_opt::<Int32Type>()?;
            Some(texts.keys().values().clone())
        };
        let mistyped = || ParquetError::General("shapes without texts".to_owned());
        let [one, two, three] = ASKED.map(texts);
        let columns = [one, two, three].map(|texts| texts.ok_or_else(mistyped));
        let [one, two, three] = columns;
        let (one, two, three) = (one?, two?, three?);
        let mut numbers: AHashMap<[i32; ASKED.len()], u32> = AHashMap::new();
        // The first shape of each kind. It holds the lengths for the whole kind.
        let mut firsts: Vec<u32> = Vec::new();
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for shape in 0..asked.num_rows() {
            let texts = [one[shape], two[shape], three[shape]];
            let kind = *numbers.entry(texts).or_insert_with(|| {
                firsts.push(shape as u32);
                firsts.len() as u32 - 1
            });
            if runs.last().is_none_or(|(_, last)| *last != kind) {
                runs.push((shape as u32, kind));
            }
        }
        runs.push((asked.num_rows() as u32, 0));
        let of_block = |block: usize| -> Vec<u8> {
            let said = firsts.iter().map(|shape| *shape as usize);
            said.map(|shape| match column.is_valid(shape) {
                true => column.value(shape).get(block).copied().unwrap_or(0),
                // The lengths are missing, which only damage can cause.
                false => u8::MAX,
            })
            .collect()
        };
        let lengths = (0..blocks).map(of_block).collect();
        let columns = asked.columns().iter();
        let kinds = columns.map(|column| of_shapes(column, &UInt32Array::from(firsts.clone())));
        let kinds = RecordBatch::try_new(asked.schema(), kinds.collect::<Result<_, _>>()?)?;
        let own = OwnLinks::of(shapes)?;
        Ok(Self { first: shapes.first().unwrap_or(0), kinds, runs, lengths, own })
    }

    fn memory_bytes(&self) -> usize {
        let kinds = self.kinds.get_array_memory_size();
        kinds
            + self.runs.len() * size_of::<(u32, u32)>()
            + self.kinds.num_rows() * self.lengths.len()
            + self.own.memory_bytes()
    }

    /// Which kinds match a predicate.
    fn fulfil(&self, predicate: &Predicate) -> Result<Vec<bool>, ParquetError> {
        // Null does not match.
        let fulfil = mask::of_shapes(&self.kinds, predicate)?;
        Ok(fulfil.iter().map(|fulfils| fulfils == Some(true)).collect())
    }

    /// The blocks with a row of any of these kinds that may have the minimum length, as a bit mask.
    fn blocks(&self, fulfil: &[bool], least: u8) -> u32 {
        // Usually few.
        let kinds: Vec<usize> = (0..fulfil.len()).filter(|kind| fulfil[*kind]).collect();
        let has = |lengths: &[u8]| kinds.iter().any(|kind| lengths[*kind] >= least);
        let blocks = (0..).zip(&self.lengths).filter(|(_, lengths)| has(lengths));
        blocks.fold(0, |blocks, (number, _)| blocks | 1u32 << number)
    }

    /// For each block, the maximum duration of a row of any of these kinds; `None` if there is no
    /// such row.
    fn longest(&self, fulfil: &[bool]) -> Vec<Option<i64>> {
        let of_block = |lengths: &Vec<u8>| {
            let of_kinds = lengths.iter().zip(fulfil).filter(|(_, fulfils)| **fulfils);
            let most = of_kinds.map(|(length, _)| *length).max();
            most.filter(|most| *most > 0).map(longest)
        };
        self.lengths.iter().map(of_block).collect()
    }

    /// The shapes with these numbers.
    fn set(&self, numbers: &[Range<i64>]) -> ShapeSet {
        let count = self.runs.last().map_or(0, |(end, _)| *end as usize);
        let mut has = vec![false; count];
        let place = |number: i64| usize::try_from(number - self.first).unwrap_or(0).min(count);
        for range in numbers {
            has[place(range.start)..place(range.end)].fill(true);
        }
        ShapeSet { first: self.first, has }
    }

    /// The numbers of the shapes of these kinds, ascending.
    fn numbers(&self, fulfil: &[bool]) -> Vec<Range<i64>> {
        let mut ranges: Vec<Range<i64>> = Vec::new();
        for pair in self.runs.windows(2) {
            let [(from, kind), (to, _)] = [pair[0], pair[1]];
            let own = self.first + i64::from(from)..self.first + i64::from(to);
            match ranges.last_mut() {
                _ if !fulfil.get(kind as usize).is_some_and(|fulfils| *fulfils) => {}
                Some(last) if last.end == own.start => last.end = own.end,
                _ => ranges.push(own),
            }
        }
        ranges
    }
}

/// Indexes of the shapes' columns from which a sketch is built.
fn places(file: &SpanFile) -> Vec<usize> {
    let asked = Wanted::columns(&ASKED).shape_places(&file.layout);
    let links = Wanted::columns(&[column::CAPTURE, column::EVIDENCE]).shape_places(&file.layout);
    let mut places = [asked, links, Layout::LENGTHS.to_vec()].concat();
    places.extend(file.layout.shapes_schema.index_of(file_column::FOLLOWS));
    places.sort_unstable();
    places.dedup();
    places
}

/// Whether sketches can help with a predicate.
pub(crate) const fn is_of_use(predicate: &Predicate) -> bool {
    asks_of_shapes(predicate)
        || predicate.min_duration_nano.is_some()
        || predicate.max_duration_nano.is_some()
}

const fn asks_of_shapes(predicate: &Predicate) -> bool {
    predicate.service.is_some() || predicate.operation.is_some() || predicate.status.is_some()
}

/// Fetches the data of some row groups of a file, if it is remote.
///
/// # Errors
/// If the file cannot be reached.
pub(crate) fn prepare(
    file: &SpanFile,
    groups: impl Iterator<Item = usize> + Clone,
) -> Result<(), ParquetError> {
    file.shapes.prepare(groups, &places(file))
}

/// The blocks of a row group that may contain rows that match the predicate's conditions on shapes
/// and durations, as a bit mask.
///
/// # Errors
/// If the file is damaged.
pub(crate) fn blocks(
    file: &SpanFile,
    group: usize,
    predicate: &Predicate,
) -> Result<u32, ParquetError> {
    // The length of an existing span is at least 1.
    let least = predicate.min_duration_nano.map_or(1, length);
    let sketch = Sketch::of(file, group)?;
    let blocks = sketch.blocks(&sketch.fulfil(predicate)?, least);
    // Without an index, a row group is one block.
    Ok(if file.index.has_blocks() || blocks == 0 { blocks } else { u32::MAX })
}

/// For each block of a row group, the maximum duration of a row that matches the predicate's
/// conditions on shapes; `None` if there is no such row.
///
/// # Errors
/// If the file is damaged.
pub(crate) fn longest_in_blocks(
    file: &SpanFile,
    group: usize,
    predicate: &Predicate,
) -> Result<Vec<Option<i64>>, ParquetError> {
    let sketch = Sketch::of(file, group)?;
    let longest = sketch.longest(&sketch.fulfil(predicate)?);
    // Without an index, a row group is one block.
    Ok(match file.index.has_blocks() {
        true => longest,
        false => vec![longest.into_iter().max().flatten()],
    })
}

/// Of ascending rows, those that match the predicate's conditions on shapes and durations.
///
/// # Errors
/// If the file is damaged.
pub(crate) fn narrow(
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
        let sketch = Sketch::of(file, group)?;
        let fulfil = sketch.set(&sketch.numbers(&sketch.fulfil(predicate)?));
        if fulfil.is_empty() {
            continue;
        }
        let mut numbers = rows.iter().cloned().flatten();
        for batch in reader::read_places(file, group, &rows, places.clone())? {
            let of_rows = match asks_of_shapes(predicate) {
                true => Some(shape_numbers(&batch)?.values()),
                false => None,
            };
            let durations_nano = batch.column_by_name(column::DURATION_NANO);
            let durations_nano = durations_nano.and_then(|it| it.as_primitive_opt::<Int64Type>());
            let fits = |row: usize| {
                of_rows.is_none_or(|numbers| fulfil.has(numbers[row]))
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

/// Some shapes of a row group.
struct ShapeSet {
    /// The number of the first shape.
    first: i64,
    /// Of each shape.
    has: Vec<bool>,
}

impl ShapeSet {
    fn is_empty(&self) -> bool {
        !self.has.contains(&true)
    }

    fn has(&self, number: i64) -> bool {
        let place = usize::try_from(number.wrapping_sub(self.first)).ok();
        place.and_then(|place| self.has.get(place)).is_some_and(|has| *has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Schema;
    use proptest::prelude::*;
    use std::slice::from_ref;

    #[test]
    fn numbers_of_kinds_are_ranges() {
        let kinds = RecordBatch::new_empty(Arc::new(Schema::empty()));
        let runs = vec![(0, 0), (3, 1), (4, 2), (9, 1), (10, 0)];
        let own = OwnLinks::default();
        let sketch = Sketch { first: 100, kinds, runs, lengths: Vec::new(), own };
        assert_eq!(sketch.numbers(&[true, true, true]).as_slice(), from_ref(&(100..110)));
        let of_one = sketch.numbers(&[false, true, false]);
        assert_eq!(of_one, [103..104, 109..110]);
        assert_eq!(sketch.numbers(&[false, true, true]).as_slice(), from_ref(&(103..110)));
        let set = sketch.set(&of_one);
        let found: Vec<i64> = (98..112).filter(|number| set.has(*number)).collect();
        assert_eq!(found, [103, 109]);
        assert!(sketch.set(&sketch.numbers(&[false; 3])).is_empty());
    }

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
            let kinds = RecordBatch::new_empty(Arc::new(Schema::empty()));
            let own = OwnLinks::default();
            let sketch = Sketch { first: 0, kinds, runs: Vec::new(), lengths, own };
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
