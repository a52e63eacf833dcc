//! Restores attribute maps from columns of single attributes.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeBinaryArray, Int32Array,
    Int64Array, MapArray, StringArray, StringBuilder, StructArray, UInt8Array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{Int32Type, Int64Type};
use arrow::error::ArrowError;
use spanwise_model::schema::{map_entries_field, map_entry_fields, value_fields};

use super::digits;
use super::own::{Own, OwnType};
use super::split::{Maps, mistyped};

/// Builds a column of attribute maps.
pub(super) struct MapBuilder {
    ends: Vec<i32>,
    keys: StringBuilder,
    types: Vec<u8>,
    values: StringBuilder,
    /// Scratch space for a text.
    text: String,
}

impl MapBuilder {
    pub(super) fn new(rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        let (keys, types, values) = (StringBuilder::new(), Vec::new(), StringBuilder::new());
        Self { ends, keys, types, values, text: String::new() }
    }

    pub(super) fn push(
        &mut self,
        key: &str,
        type_number: u8,
        value: &str,
    ) -> Result<(), ArrowError> {
        self.room(value.len())?;
        self.values.append_value(value);
        self.push_key(key, type_number)
    }

    fn push_int(&mut self, key: &str, number: i64) -> Result<(), ArrowError> {
        self.room(20)?;
        // Writing to a builder cannot fail.
        let _ = write!(self.values, "{number}");
        self.values.append_value("");
        self.push_key(key, OwnType::Int.type_number())
    }

    /// Adds a text that is built from bytes.
    fn push_digits(&mut self, key: &str, put: impl FnOnce(&mut String)) -> Result<(), ArrowError> {
        let mut text = std::mem::take(&mut self.text);
        put(&mut text);
        let pushed = self.push(key, OwnType::String.type_number(), &text);
        self.text = text;
        pushed
    }

    /// Checks that the offsets can hold this many more bytes of values.
    fn room(&self, more: usize) -> Result<(), ArrowError> {
        let bytes = self.values.values_slice().len() + more;
        i32::try_from(bytes).map(drop).map_err(|_| ArrowError::OffsetOverflowError(bytes))
    }

    fn push_key(&mut self, key: &str, type_number: u8) -> Result<(), ArrowError> {
        let bytes = self.keys.values_slice().len() + key.len();
        i32::try_from(bytes).map_err(|_| ArrowError::OffsetOverflowError(bytes))?;
        self.keys.append_value(key);
        self.types.push(type_number);
        Ok(())
    }

    pub(super) fn end_row(&mut self) {
        // There are fewer entries than in the source arrays, whose offsets have 31 bits.
        self.ends.push(self.types.len() as i32);
    }

    pub(super) fn finish(mut self) -> Result<MapArray, ArrowError> {
        let values: Vec<ArrayRef> =
            vec![Arc::new(UInt8Array::from(self.types)), Arc::new(self.values.finish())];
        let values = StructArray::try_new(value_fields(), values, None)?;
        let entries: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), Arc::new(values)];
        let entries = StructArray::try_new(map_entry_fields(), entries, None)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        MapArray::try_new(map_entries_field(), offsets, entries, None, false)
    }
}

/// A column of one attribute's values.
enum Values<'a> {
    String(&'a StringArray),
    Dictionary(&'a Int32Array, &'a StringArray),
    Int(&'a Int64Array),
    Bool(&'a BooleanArray),
    Hex(&'a BinaryArray),
    Uuid(&'a FixedSizeBinaryArray),
}

impl<'a> Values<'a> {
    fn of(own: &Own, array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let dictionary = || {
            let array = array.as_dictionary_opt::<Int32Type>()?;
            Some(Self::Dictionary(array.keys(), array.values().as_string_opt()?))
        };
        let typed = match own.own_type {
            OwnType::String => array.as_string_opt().map(Self::String).or_else(dictionary),
            OwnType::Int => array.as_primitive_opt::<Int64Type>().map(Self::Int),
            OwnType::Bool => array.as_boolean_opt().map(Self::Bool),
            OwnType::Hex => array.as_binary_opt().map(Self::Hex),
            OwnType::Uuid => array.as_fixed_size_binary_opt().map(Self::Uuid),
        };
        typed.ok_or_else(mistyped)
    }

    /// Adds a row's value, if it has one.
    fn push(&self, key: &str, row: usize, to: &mut MapBuilder) -> Result<(), ArrowError> {
        match self {
            Self::String(texts) if texts.is_valid(row) => {
                to.push(key, OwnType::String.type_number(), texts.value(row))
            }
            Self::Dictionary(keys, texts) if keys.is_valid(row) => {
                let text = usize::try_from(keys.value(row)).unwrap_or(usize::MAX);
                match text < texts.len() && texts.is_valid(text) {
                    true => to.push(key, OwnType::String.type_number(), texts.value(text)),
                    false => Ok(()),
                }
            }
            Self::Int(numbers) if numbers.is_valid(row) => to.push_int(key, numbers.value(row)),
            Self::Bool(flags) if flags.is_valid(row) => {
                let text = if flags.value(row) { "true" } else { "false" };
                to.push(key, OwnType::Bool.type_number(), text)
            }
            Self::Hex(values) if values.is_valid(row) => {
                to.push_digits(key, |text| digits::put_hex(values.value(row), text))
            }
            Self::Uuid(values) if values.is_valid(row) => {
                to.push_digits(key, |text| digits::put_uuid(values.value(row), text))
            }
            _ => Ok(()),
        }
    }
}

/// A column of one attribute, of rows or of shapes.
pub(super) struct Source<'a> {
    pub(super) own: &'a Own,
    pub(super) array: ArrayRef,
    pub(super) of_shapes: bool,
}

/// Restores the attribute maps, sorted by key. Attributes without their own column come last.
/// `shapes` is the shape of each row.
///
/// # Errors
/// If a column does not have its attribute's type, or texts are too large for one array.
pub(super) fn join(
    shapes: &[u32],
    sources: &mut [Source<'_>],
    rest: Option<&ArrayRef>,
) -> Result<ArrayRef, ArrowError> {
    let rest = match rest {
        Some(rest) => Some(Maps::of(rest.as_map_opt().ok_or_else(mistyped)?)?),
        None => None,
    };
    sources.sort_by_key(|source| source.own);
    let sources: Vec<(&str, bool, Values<'_>)> = (sources.iter())
        .filter(|source| source.array.null_count() < source.array.len())
        .map(|source| {
            let values = Values::of(source.own, &source.array)?;
            Ok((source.own.key.as_str(), source.of_shapes, values))
        })
        .collect::<Result<_, ArrowError>>()?;
    let mut all = MapBuilder::new(shapes.len());
    for (row, shape) in shapes.iter().enumerate() {
        for (key, of_shapes, values) in &sources {
            values.push(key, if *of_shapes { *shape as usize } else { row }, &mut all)?;
        }
        if let Some(rest) = &rest {
            for entry in rest.entries(row) {
                let (key, type_number) = (rest.keys.value(entry), rest.types.value(entry));
                all.push(key, type_number, rest.values.value(entry))?;
            }
        }
        all.end_row();
    }
    Ok(Arc::new(all.finish()?))
}
