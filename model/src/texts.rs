//! A column of texts that is a dictionary.

use arrow::array::{Array, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::Int32Type;

use crate::ModelError;

/// A dictionary column taken apart into its keys and values.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'a> {
    keys: &'a Int32Array,
    values: &'a StringArray,
}

impl<'a> Texts<'a> {
    /// The column of this name.
    ///
    /// # Errors
    /// Where it is missing, or no dictionary of texts.
    pub fn of(batch: &'a RecordBatch, column: &'static str) -> Result<Self, ModelError> {
        let taken_apart = || {
            let array = batch.column_by_name(column)?.as_dictionary_opt::<Int32Type>()?;
            Some(Self { keys: array.keys(), values: array.values().as_string_opt::<i32>()? })
        };
        taken_apart().ok_or(ModelError::Column { column })
    }

    /// A row's place among the values; none where it is null.
    pub fn place(&self, row: usize) -> Option<usize> {
        if row >= self.keys.len() || self.keys.is_null(row) {
            return None;
        }
        let place = usize::try_from(self.keys.value(row)).ok()?;
        (place < self.values.len() && self.values.is_valid(place)).then_some(place)
    }

    /// A row's text.
    pub fn get(&self, row: usize) -> Option<&'a str> {
        self.place(row).map(|place| self.values.value(place))
    }

    /// The distinct texts, by their places; those that are null are empty.
    pub fn distinct(&self) -> impl Iterator<Item = &'a str> {
        self.values.iter().map(Option::unwrap_or_default)
    }
}
