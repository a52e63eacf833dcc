//! A column of attributes: for each row a map from key to type and text.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, MapArray, StructArray, UInt8Array};

use super::reuse::{TextList, forget_offsets, taken, taken_offsets};
use crate::schema;
use crate::{AttributeRef, ModelError};

pub(crate) struct AttributeMaps {
    /// The offset of each row's attributes, and the end.
    offsets: Vec<i32>,
    keys: TextList,
    types: Vec<u8>,
    texts: TextList,
}

impl Default for AttributeMaps {
    fn default() -> Self {
        Self {
            offsets: vec![0],
            keys: TextList::default(),
            types: Vec::new(),
            texts: TextList::default(),
        }
    }
}

impl AttributeMaps {
    /// Appends an attribute to the current row.
    pub(crate) fn push(&mut self, key: &str, value: AttributeRef<'_>) {
        self.keys.push(key);
        self.types.push(value.type_number());
        push_value(&mut self.texts, value);
    }

    /// Appends an attribute with its canonical text.
    pub(crate) fn push_text(&mut self, key: &str, type_number: u8, text: &str) {
        self.keys.push(key);
        self.types.push(type_number);
        self.texts.push(text);
    }

    /// Number of attributes in all rows.
    pub(super) const fn len(&self) -> usize {
        self.types.len()
    }

    /// Appends copies of these entries.
    pub(super) fn repeat(&mut self, entries: Range<usize>) {
        self.keys.repeat(entries.clone());
        self.types.extend_from_within(entries.clone());
        self.texts.repeat(entries);
    }

    /// Ends the current row.
    pub(crate) fn end_row(&mut self) {
        // The texts' own offsets have the same limit, and are checked.
        self.offsets.push(self.types.len() as i32);
    }

    /// Whether no row has attributes. If so, the column is reset.
    pub(super) fn end_unset(&mut self) -> bool {
        let is_unset = self.types.is_empty();
        if is_unset {
            forget_offsets(&mut self.offsets);
        }
        is_unset
    }

    pub(crate) fn finish(&mut self) -> Result<MapArray, ModelError> {
        let types = UInt8Array::new(taken(&mut self.types), None);
        let values: [ArrayRef; 2] = [Arc::new(types), Arc::new(self.texts.finish(None)?)];
        let values = StructArray::try_new(schema::value_fields(), values.into(), None)?;
        let columns: [ArrayRef; 2] = [Arc::new(self.keys.finish(None)?), Arc::new(values)];
        let entries = StructArray::try_new(schema::map_entry_fields(), columns.into(), None)?;
        let offsets = taken_offsets(&mut self.offsets);
        Ok(MapArray::try_new(schema::map_entries_field(), offsets, entries, None, false)?)
    }
}

/// Appends a value's canonical text.
#[inline]
pub(super) fn push_value(texts: &mut TextList, value: AttributeRef<'_>) {
    match value {
        AttributeRef::String(text) | AttributeRef::Bytes(text) | AttributeRef::Json(text) => {
            texts.push(text);
        }
        AttributeRef::Int(number) => texts.push_ascii(decimal(number, &mut [0; 20])),
        AttributeRef::Bool(true) => texts.push("true"),
        AttributeRef::Bool(false) => texts.push("false"),
        AttributeRef::Double(_) => texts.push(&value.to_string()),
    }
}

/// The number's digits. The same as `Display`, but faster.
fn decimal(number: i64, digits: &mut [u8; 20]) -> &[u8] {
    let mut rest = number.unsigned_abs();
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_display() {
        for number in [0, 7, -1, 10, 99, 100, i64::MAX, i64::MIN, -1_000_000_007] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }
}
