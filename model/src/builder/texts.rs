//! Columns of texts: plain, and with dictionaries.

use ahash::RandomState;
use arrow::array::{DictionaryArray, StringArray};
use arrow::datatypes::Int32Type;
use hashbrown::HashTable;

use super::reuse::TextList;
use super::sparse::{Gaps, Numbers};
use crate::ModelError;
use crate::attributes::{is_same, key_slot};

/// Texts that are mostly null.
#[derive(Default)]
pub(super) struct Texts {
    values: TextList,
    gaps: Gaps,
}

impl Texts {
    /// Sets the value of a row. Rows must be set in order.
    pub(super) fn set(&mut self, row: usize, value: Option<&str>) {
        if let Some(value) = value {
            self.pad(row);
            self.values.push(value);
        }
    }

    fn pad(&mut self, rows: usize) {
        let had = self.values.len();
        if had < rows {
            self.gaps.push(had, rows);
            self.values.push_empty(rows - had);
        }
    }

    /// Whether no row has a value.
    pub(super) const fn end_unset(&mut self) -> bool {
        self.values.len() == 0
    }

    pub(super) fn finish(&mut self, rows: usize) -> Result<StringArray, ModelError> {
        self.pad(rows);
        let nulls = self.gaps.finish(rows);
        self.values.finish(nulls)
    }
}

/// The index of a text in a column's dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextPlace(i32);

/// Texts with few distinct values: each value once, and an index for every row.
pub(super) struct Dictionary {
    values: TextList,
    /// Indexes of values by hash.
    places: HashTable<i32>,
    hasher: RandomState,
    rows: Numbers<Int32Type>,
    /// A small cache of indexes, looked up by a value's first and last bytes.
    guesses: [i32; GUESSES],
}

const GUESSES: usize = 64;

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            values: TextList::default(),
            places: HashTable::new(),
            hasher: RandomState::new(),
            rows: Numbers::default(),
            guesses: [0; GUESSES],
        }
    }
}

impl Dictionary {
    /// The value's index in the dictionary. A new value is added.
    pub(super) fn place(&mut self, value: &str) -> TextPlace {
        let Self { values, places, hasher, guesses, .. } = self;
        let guess = &mut guesses[key_slot::<GUESSES>(value.as_bytes())];
        if values.get(*guess as usize).is_some_and(|known| is_same(known, value.as_bytes())) {
            return TextPlace(*guess);
        }
        let hash = hash_of(hasher, value.as_bytes());
        let found = places.find(hash, |place| values.bytes_at(*place as usize) == value.as_bytes());
        let place = found.copied().unwrap_or_else(|| {
            // There are at most as many values as rows, which are counted by 32 bits.
            let place = values.len() as i32;
            values.push(value);
            let hash_at = |place: &i32| hash_of(hasher, values.bytes_at(*place as usize));
            places.insert_unique(hash, place, hash_at);
            place
        });
        *guess = place;
        TextPlace(place)
    }

    /// Sets the value of a row. Rows must be set in order.
    pub(super) fn set(&mut self, row: usize, value: Option<&str>) {
        if let Some(value) = value {
            let place = self.place(value);
            self.set_place(row, Some(place));
        }
    }

    /// Sets the value of a row to one with a known index.
    #[inline]
    pub(super) fn set_place(&mut self, row: usize, place: Option<TextPlace>) {
        self.rows.set(row, place.map(|place| place.0));
    }

    /// Whether no row has a value.
    pub(super) const fn end_unset(&mut self) -> bool {
        self.values.len() == 0
    }

    pub(super) fn finish(&mut self, rows: usize) -> Result<DictionaryArray<Int32Type>, ModelError> {
        self.places.clear();
        let values = std::sync::Arc::new(self.values.finish(None)?);
        Ok(DictionaryArray::try_new(self.rows.finish(rows), values)?)
    }
}

/// Values of a closed vocabulary, identified by their number.
#[derive(Default)]
pub(super) struct Vocabulary {
    dictionary: Dictionary,
    /// The dictionary index of each value in the batch, by its number.
    places: [Option<TextPlace>; MOST_WORDS],
}

/// More than the values of any of our vocabularies. Others would need a look-up each time.
const MOST_WORDS: usize = 16;

impl Vocabulary {
    /// Sets the value of a row. Rows must be set in order.
    #[inline]
    pub(super) fn set(&mut self, row: usize, number: usize, word: &str) {
        let known = self.places.get(number).copied().flatten();
        let place = known.unwrap_or_else(|| self.new_word(number, word));
        self.dictionary.set_place(row, Some(place));
    }

    #[cold]
    fn new_word(&mut self, number: usize, word: &str) -> TextPlace {
        let place = self.dictionary.place(word);
        if let Some(known) = self.places.get_mut(number) {
            *known = Some(place);
        }
        place
    }

    /// Whether no row has a word.
    pub(super) const fn end_unset(&mut self) -> bool {
        self.dictionary.end_unset()
    }

    pub(super) fn finish(&mut self, rows: usize) -> Result<DictionaryArray<Int32Type>, ModelError> {
        self.places = [None; MOST_WORDS];
        self.dictionary.finish(rows)
    }
}

fn hash_of(hasher: &RandomState, text: &[u8]) -> u64 {
    hasher.hash_one(text)
}
