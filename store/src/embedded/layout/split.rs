//! Attribute maps, taken apart: which names there are, and which entry has
//! which.

use ahash::AHashMap;
use arrow::array::{AsArray, MapArray, RecordBatch, StringArray, UInt8Array};
use arrow::datatypes::UInt8Type;
use arrow::error::ArrowError;
use spanwise_model::schema::column;

use crate::embedded::keys::attribute_seed;

/// A column of attribute maps.
pub(super) struct Maps<'a> {
    offsets: &'a [i32],
    pub(super) keys: &'a StringArray,
    pub(super) types: &'a UInt8Array,
    pub(super) values: &'a StringArray,
}

impl<'a> Maps<'a> {
    pub(super) fn of(maps: &'a MapArray) -> Result<Self, ArrowError> {
        let taken_apart = || {
            let values = maps.values().as_struct_opt()?;
            Some(Self {
                offsets: maps.value_offsets(),
                keys: maps.keys().as_string_opt()?,
                types: values.columns().first()?.as_primitive_opt::<UInt8Type>()?,
                values: values.columns().get(1)?.as_string_opt()?,
            })
        };
        taken_apart().ok_or_else(mistyped)
    }

    pub(super) fn entries(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }
}

pub(super) fn mistyped() -> ArrowError {
    ArrowError::SchemaError("a column is no map of attributes".to_owned())
}

/// A key with a type.
pub(super) struct Name<'a> {
    pub(super) key: &'a str,
    pub(super) type_number: u8,
    /// Entries that have both.
    pub(super) entries: usize,
    /// From which the hashes of its values begin.
    pub(super) seed: u64,
    /// The name that came after it the last time: most spans resemble the one
    /// before.
    next: u32,
}

/// See the module.
pub(in super::super) struct Split<'a> {
    pub(super) maps: Vec<Maps<'a>>,
    pub(super) names: Vec<Name<'a>>,
    /// For every entry of every batch its name, and where it belongs.
    pub(super) entries: Vec<Vec<Entry>>,
    pub(super) rows: usize,
}

/// An entry of a row's map.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry(u32);

impl Entry {
    const OF_SHAPE: u32 = 1 << 31;

    /// The number of its name.
    pub(super) const fn name(self) -> u32 {
        self.0 & !Self::OF_SHAPE
    }

    /// Whether its value belongs to the shape of the row.
    pub(super) const fn is_of_shape(self) -> bool {
        self.0 & Self::OF_SHAPE != 0
    }

    /// Its value belongs to the shape of the row.
    pub(super) const fn give_to_shape(&mut self) {
        self.0 |= Self::OF_SHAPE;
    }
}

impl<'a> Split<'a> {
    /// # Errors
    /// Where a batch does not have the span schema.
    pub(in super::super) fn new(batches: &'a [RecordBatch]) -> Result<Self, ArrowError> {
        let mut split = Self { maps: Vec::new(), names: Vec::new(), entries: Vec::new(), rows: 0 };
        let mut known: AHashMap<(u8, &'a str), u32> = AHashMap::new();
        let mut before = 0;
        for batch in batches {
            let maps = batch.column_by_name(column::ATTRIBUTES).and_then(|a| a.as_map_opt());
            let maps = Maps::of(maps.ok_or_else(mistyped)?)?;
            let (first, end) = (maps.offsets[0] as usize, maps.offsets[batch.num_rows()] as usize);
            // Numbered from the first entry of the array, as offsets are.
            let mut entries = vec![Entry(0); end];
            for (place, entry) in entries.iter_mut().enumerate().skip(first) {
                let (key, type_number) = (maps.keys.value(place), maps.types.value(place));
                before = split.number(&mut known, before, key, type_number);
                // There are fewer names than entries, whose offsets have 31 bits.
                *entry = Entry(before);
            }
            split.entries.push(entries);
            split.maps.push(maps);
            split.rows += batch.num_rows();
        }
        Ok(split)
    }

    fn number(
        &mut self,
        known: &mut AHashMap<(u8, &'a str), u32>,
        before: u32,
        key: &'a str,
        type_number: u8,
    ) -> u32 {
        let guess = self.names.get(before as usize).map_or(0, |name| name.next);
        let is_it = |name: &&mut Name<'a>| name.key == key && name.type_number == type_number;
        if let Some(name) = self.names.get_mut(guess as usize).filter(is_it) {
            name.entries += 1;
            return guess;
        }
        let number = *known.entry((type_number, key)).or_insert_with(|| {
            let seed = attribute_seed(key);
            self.names.push(Name { key, type_number, entries: 0, seed, next: 0 });
            self.names.len() as u32 - 1
        });
        self.names[number as usize].entries += 1;
        if let Some(name) = self.names.get_mut(before as usize) {
            name.next = number;
        }
        number
    }
}
