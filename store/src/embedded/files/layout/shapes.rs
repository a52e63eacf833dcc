//! Shapes: what similar rows have in common, written once.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt8Array, UInt32Array};
use arrow::compute::take;
use arrow::error::ArrowError;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use spanwise_model::SpanRows;
use spanwise_model::schema::{column, span_schema};

use super::Layout;
use super::derived::Follows;
use super::fixed::{self, Hash, Hasher, SHAPED, with};
use super::longest::{self, Longest};
use super::maps::MapBuilder;
use super::own::{Own, OwnType};
use super::plan::Plan;
use super::split::Split;
use crate::contract::JSON;
use crate::embedded::files::column_encoder::ColumnEncoder;
use crate::embedded::files::gather;
use crate::embedded::files::index::BLOCK_ROWS;
use crate::embedded::files::order::RowPlace;
use crate::embedded::keys::hash_value;

/// Rows that are prefetched together. Their data fits into the processor's nearest caches.
const FETCHED_ROWS: usize = 64;

/// The shape numbers of a row group start at a multiple of 2 to this power.
pub(crate) const NUMBERS: u32 = 20;

/// The number of a row group's first shape. No other row group has the same.
fn base() -> i64 {
    // Every `RandomState` has different random keys.
    let random = RandomState::new().build_hasher().finish();
    ((random >> (NUMBERS + 2)) << NUMBERS).cast_signed()
}

/// The shapes and attributes of a row group, ready to be written.
pub(crate) struct Columns {
    /// The shape number of each row.
    pub(crate) numbers: ArrayRef,
    /// The columns of the shapes, without attributes.
    pub(crate) shapes: Vec<ArrayRef>,
    /// The map with the remaining attributes.
    pub(crate) rest: ArrayRef,
    /// The keys in the map.
    pub(crate) rest_keys: Vec<String>,
    /// For each block of rows, the hashes of its attributes.
    pub(crate) hashes: Vec<Vec<u64>>,
}

/// The attribute columns of a row group, in the layout's order.
pub(crate) struct OwnEncoders {
    /// Of rows.
    pub(crate) rows: Vec<ColumnEncoder>,
    /// Of shapes.
    pub(crate) shapes: Vec<ColumnEncoder>,
}

/// Rows that will be written to a file.
pub(crate) struct Rows<'a> {
    /// Their columns. Attributes are in `split`.
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) split: Split<'a>,
    /// The hash of each row's shape. Initially it covers only the columns that all shapes have.
    pub(crate) hashes: Vec<Vec<Hash>>,
    pub(super) follows: Follows,
    hasher: Hasher,
}

/// What a shape adds to the index, and the last block to which it was added.
struct ShapeHashes {
    /// Its range in [`Shapes::hashes`].
    hashes: std::ops::Range<usize>,
    block: usize,
}

/// The shapes of a row group.
#[derive(Default)]
struct Shapes {
    /// Shape numbers by hash. The first half of the hash finds the entry.
    numbers: HashTable<(Hash, u32)>,
    /// The first row of each shape, and its `follows` bits.
    first: Vec<RowPlace>,
    follows: Vec<u8>,
    longest: Vec<Longest>,
    known: Vec<ShapeHashes>,
    hashes: Vec<u64>,
}

impl<'a> Rows<'a> {
    /// # Errors
    /// If a batch does not have the span schema.
    pub(crate) fn new(rows: &'a [SpanRows]) -> Result<Self, ArrowError> {
        let hasher = Hasher::new();
        let batches: Vec<RecordBatch> = rows.iter().map(|rows| rows.columns().clone()).collect();
        let hashes = batches.iter().map(|batch| hasher.rows(batch)).collect::<Result<_, _>>()?;
        let split = Split::new(rows)?;
        let follows = Follows::of(&batches, &split)?;
        Ok(Self { batches, split, hashes, follows, hasher })
    }

    /// The keys of which lists, events or links have values.
    pub(crate) fn scattered_keys(&self) -> AHashSet<&str> {
        let names = self.split.names.iter().filter(|name| name.type_number == JSON);
        let mut keys: AHashSet<&str> = names.map(|name| name.key).collect();
        for batch in &self.batches {
            for nested in [column::EVENTS, column::LINKS] {
                let maps = || {
                    let lists = batch.column_by_name(nested)?.as_list_opt::<i32>()?;
                    let maps =
                        lists.values().as_struct_opt()?.column_by_name(column::ATTRIBUTES)?;
                    maps.as_map_opt()?.keys().as_string_opt::<i32>()
                };
                let Some(all) = maps() else { continue };
                // Events resemble those before them.
                let mut before = [""; 4];
                for (at, key) in all.iter().flatten().enumerate() {
                    if !before.contains(&key) {
                        keys.insert(key);
                        before[at % 4] = key;
                    }
                }
            }
        }
        keys
    }

    /// Gives shapes the values that belong to them, all rows in the order in which
    /// they lie in memory: in that of the file, each access would be a miss.
    pub(crate) fn give_to_shapes(&mut self, plan: &Plan) {
        let numbers: Vec<Hash> = (0..plan.frequent_values())
            .map(|number| with([0, 0], self.hasher.hash(number)))
            .collect();
        self.split.give_to_shapes(
            &mut self.hashes,
            |name| plan.is_shaped(name),
            |name, hash, text| plan.of_shape(name, hash, text).map(|n| numbers[n as usize]),
        );
    }

    /// The shapes and attributes of the rows at these places. Attributes with their own column are
    /// added to `own`.
    ///
    /// # Errors
    /// If texts are too large for a file.
    pub(crate) fn columns(
        &self,
        layout: &Layout,
        places: &[RowPlace],
        follows: &[u8],
        durations_nano: &[i64],
        own: &mut OwnEncoders,
    ) -> Result<Columns, ArrowError> {
        let split = &self.split;
        let own_of = self.places_of(&layout.own);
        let mut rest = MapBuilder::new(places.len());
        let mut is_in_rest = vec![false; split.names.len()];
        let mut shapes = Shapes::default();
        let mut numbers: Vec<u32> = Vec::with_capacity(places.len());
        let mut hashes = Vec::with_capacity(places.len().div_ceil(BLOCK_ROWS));
        let base = base();
        for (number, block) in places.chunks(BLOCK_ROWS).enumerate() {
            let mut distinct = Distinct::new();
            for (at, &(batch, row)) in block.iter().enumerate() {
                if at % FETCHED_ROWS == 0 {
                    self.fetch(&block[at..block.len().min(at + FETCHED_ROWS)]);
                }
                let (follows, duration_nano) =
                    (follows[numbers.len()], durations_nano[numbers.len()]);
                for attribute in split.left((batch, row)) {
                    let (slot, value) = (attribute.slot, attribute.text);
                    let name = &split.names[slot.name as usize];
                    let hash = attribute.hash.unwrap_or_else(|| hash_value(name.seed, value));
                    distinct.add(hash);
                    let mut taken = false;
                    for place in own_of[slot.name as usize].iter().flatten() {
                        let column = &mut own.rows[*place];
                        let put =
                            |column| layout.own[*place].own_type.put(column, (at, value), hash);
                        taken = taken || slot.is_first && put(column)?;
                    }
                    if !taken {
                        is_in_rest[slot.name as usize] = true;
                        rest.push(name.key, name.type_number, value)?;
                    }
                }
                rest.end_row();
                let hash = with(self.hashes[batch][row], [follows.into(); 2]);
                let shape = shapes.number(hash, (batch, row), follows, split);
                numbers.push(shape);
                shapes.longest[shape as usize].add(number, duration_nano);
                let known = &mut shapes.known[shape as usize];
                if known.block != number {
                    known.block = number;
                    shapes.hashes[known.hashes.clone()].iter().for_each(|hash| distinct.add(*hash));
                }
            }
            hashes.push(distinct.hashes);
            own.rows.iter_mut().try_for_each(|encoder| encoder.end_block(block.len()))?;
        }
        let (order, shapes) = self.shapes(layout, &shapes, base, &mut own.shapes)?;
        let mut places_in_order = vec![0; order.len()];
        (0i64..).zip(&order).for_each(|(place, shape)| places_in_order[*shape as usize] = place);
        let numbers = numbers.iter().map(|shape| base + places_in_order[*shape as usize]);
        Ok(Columns {
            numbers: Arc::new(Int64Array::from_iter_values(numbers)),
            shapes,
            rest: Arc::new(rest.finish()?),
            rest_keys: (split.names.iter().zip(is_in_rest))
                .filter(|(_, is_in_rest)| *is_in_rest)
                .map(|(name, _)| name.key.to_owned())
                .collect(),
            hashes,
        })
    }

    /// Prefetches the data of these rows, which is scattered in memory. In such a short loop, many
    /// accesses overlap. Later, each would wait for memory.
    fn fetch(&self, places: &[RowPlace]) {
        let touched = places
            .iter()
            .map(|&(batch, row)| self.split.touch((batch, row)) ^ self.hashes[batch][row][0]);
        // Keeps the compiler from removing the unused result.
        std::hint::black_box(touched.fold(0, |all, some| all ^ some));
    }

    /// For each name, the indexes of its columns. The column that accepts any value is the last.
    fn places_of(&self, columns: &[Own]) -> Vec<[Option<usize>; 3]> {
        let mut places: AHashMap<(u8, &str), [Option<usize>; 3]> = AHashMap::new();
        for (place, own) in columns.iter().enumerate() {
            let of_name = places.entry((own.own_type.type_number(), &own.key)).or_default();
            of_name[match own.own_type {
                OwnType::Uuid => 0,
                OwnType::Hex => 1,
                OwnType::String | OwnType::Int | OwnType::Bool => 2,
            }] = Some(place);
        }
        let names = self.split.names.iter();
        names
            .map(|name| places.get(&(name.type_number, name.key)).copied().unwrap_or_default())
            .collect()
    }

    /// The order in which shapes are written, and their columns without attributes. Attributes are
    /// added to `own`.
    fn shapes(
        &self,
        layout: &Layout,
        shapes: &Shapes,
        base: i64,
        own: &mut [ColumnEncoder],
    ) -> Result<(Vec<u32>, Vec<ArrayRef>), ArrowError> {
        let rows = &shapes.first;
        let numbers: Int64Array = (base..base + rows.len() as i64).collect();
        let fixed = SHAPED.iter().map(|name| {
            let place = span_schema().index_of(name)?;
            let arrays: Vec<&ArrayRef> =
                self.batches.iter().map(|batch| batch.column(place)).collect();
            gather::column(span_schema().field(place), &arrays, rows)
        });
        let fixed = fixed.collect::<Result<Vec<_>, _>>()?;
        let order = fixed::order(&fixed);
        let places = UInt32Array::from(order.clone());
        let fixed = fixed.iter().map(|column| take(column, &places, None));
        let fixed = fixed.collect::<Result<Vec<_>, _>>()?;
        let in_order = || order.iter().map(|shape| *shape as usize);
        let follows: UInt8Array = in_order().map(|shape| Some(shapes.follows[shape])).collect();
        let longest: Vec<Longest> = in_order().map(|shape| shapes.longest[shape]).collect();
        let mut columns: Vec<ArrayRef> =
            vec![Arc::new(numbers), Arc::new(follows), longest::column(&fixed, &longest)?];
        columns.extend(fixed);
        let own_of = self.places_of(&layout.shaped);
        for block in order.chunks(BLOCK_ROWS) {
            for (at, shape) in block.iter().enumerate() {
                let shape = *shape as usize;
                let hashes = &shapes.hashes[shapes.known[shape].hashes.clone()];
                for ((name, value), hash) in of_shape(&self.split, rows[shape]).zip(hashes) {
                    for place in own_of[name as usize].iter().flatten() {
                        let own_type = layout.shaped[*place].own_type;
                        own_type.put(&mut own[*place], (at, value), *hash)?;
                    }
                }
            }
            own.iter_mut().try_for_each(|encoder| encoder.end_block(block.len()))?;
        }
        Ok((order, columns))
    }
}

impl Shapes {
    fn number(&mut self, hash: Hash, row: RowPlace, follows: u8, split: &Split<'_>) -> u32 {
        let entry = self.numbers.entry(hash[0], |known| known.0 == hash, |known| known.0[0]);
        let place = match entry {
            Entry::Occupied(known) => return known.get().1,
            Entry::Vacant(place) => place,
        };
        // A row group has far fewer rows than a u32 can count.
        let number = self.first.len() as u32;
        place.insert((hash, number));
        self.first.push(row);
        self.follows.push(follows);
        self.longest.push(Longest::default());
        let from = self.hashes.len();
        let hash = |(name, value): (u32, &str)| hash_value(split.names[name as usize].seed, value);
        self.hashes.extend(of_shape(split, row).map(hash));
        self.known.push(ShapeHashes { hashes: from..self.hashes.len(), block: usize::MAX });
        number
    }
}

/// The values of a row that belong to its shape, with the numbers of their names.
fn of_shape<'a>(split: &'a Split<'_>, row: RowPlace) -> impl Iterator<Item = (u32, &'a str)> {
    let of_shape = split.row(row).filter(|attribute| attribute.is_of_shape);
    of_shape.map(|attribute| (attribute.slot.name, attribute.text))
}

/// A filter that removes most repeated hashes.
struct Distinct {
    seen: [u64; Self::SEEN],
    hashes: Vec<u64>,
}

impl Distinct {
    const SEEN: usize = 1024;

    const fn new() -> Self {
        Self { seen: [0; Self::SEEN], hashes: Vec::new() }
    }

    fn add(&mut self, hash: u64) {
        let place = &mut self.seen[hash as usize % Self::SEEN];
        if *place != hash {
            *place = hash;
            self.hashes.push(hash);
        }
    }
}
