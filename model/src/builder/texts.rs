//! Columns of texts: as they are, and as dictionaries.

use ahash::RandomState;
use arrow::array::{DictionaryArray, StringArray, StringBuilder};
use arrow::datatypes::Int32Type;
use hashbrown::HashTable;

use super::sparse::Numbers;
use crate::ModelError;

/// A builder that takes no memory before there is anything to build.
pub(super) fn text_builder() -> StringBuilder {
    StringBuilder::with_capacity(0, 0)
}

/// Texts of which many rows, or all, are null.
pub(super) struct Texts {
    values: StringBuilder,
    rows: usize,
}

impl Default for Texts {
    fn default() -> Self {
        Self { values: text_builder(), rows: 0 }
    }
}

impl Texts {
    /// Sets the value of this row, after those of all rows before.
    pub(super) fn set(&mut self, row: usize, value: Option<&str>) {
        if let Some(value) = value {
            self.pad(row);
            self.values.append_value(value);
            self.rows += 1;
        }
    }

    fn pad(&mut self, rows: usize) {
        if rows > self.rows {
            self.values.append_nulls(rows - self.rows);
            self.rows = rows;
        }
    }

    pub(super) fn finish(&mut self, rows: usize) -> StringArray {
        self.pad(rows);
        self.rows = 0;
        self.values.finish()
    }
}

/// The place of a text in a column's dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(i32);

/// Texts of few distinct values: each value once, and its place in every row.
pub(super) struct Dictionary {
    values: StringBuilder,
    /// Places of the values by their hashes.
    places: HashTable<i32>,
    hasher: RandomState,
    rows: Numbers<Int32Type>,
    /// Most rows have the value of the one before.
    last: Option<Place>,
}

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            values: text_builder(),
            places: HashTable::new(),
            hasher: RandomState::new(),
            rows: Numbers::default(),
            last: None,
        }
    }
}

impl Dictionary {
    /// The value's place in the dictionary, into which it is put where it is
    /// new.
    pub(super) fn place(&mut self, value: &str) -> Place {
        let Self { values, places, hasher, last, .. } = self;
        if let Some(place) = *last
            && text_at(values, place.0) == value.as_bytes()
        {
            return place;
        }
        let hash = hash_of(hasher, value.as_bytes());
        let found = places.find(hash, |place| text_at(values, *place) == value.as_bytes());
        let place = found.copied().unwrap_or_else(|| {
            // As many values as rows at most, and rows of a batch are counted
            // by 32 bits.
            let place = (values.offsets_slice().len() - 1) as i32;
            values.append_value(value);
            places.insert_unique(hash, place, |place| hash_of(hasher, text_at(values, *place)));
            place
        });
        *last = Some(Place(place));
        Place(place)
    }

    /// Sets the value of this row, after those of all rows before.
    pub(super) fn set(&mut self, row: usize, value: Option<&str>) {
        if let Some(value) = value {
            let place = self.place(value);
            self.set_place(row, Some(place));
        }
    }

    /// Sets the value of this row to one whose place is known.
    pub(super) fn set_place(&mut self, row: usize, place: Option<Place>) {
        self.rows.set(row, place.map(|place| place.0));
    }

    pub(super) fn finish(&mut self, rows: usize) -> Result<DictionaryArray<Int32Type>, ModelError> {
        self.places.clear();
        self.last = None;
        Ok(DictionaryArray::try_new(
            self.rows.finish(rows),
            std::sync::Arc::new(self.values.finish()),
        )?)
    }
}

fn hash_of(hasher: &RandomState, text: &[u8]) -> u64 {
    hasher.hash_one(text)
}

fn text_at(values: &StringBuilder, place: i32) -> &[u8] {
    let offsets = values.offsets_slice();
    let place = place as usize;
    &values.values_slice()[offsets[place] as usize..offsets[place + 1] as usize]
}
