//! Access to a table's columns by name: missing or present, plain or with a dictionary.
//!
//! A missing column and a null value mean the same, because OTAP omits empty columns.

use arrow::array::{Array, ArrayAccessor, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::array::{UInt8Array, UInt16Array, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef, Fields, UInt8Type, UInt16Type, UInt32Type};

use super::OtapError;
use super::payload::Payload;

/// The columns of a table or of a struct.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    payload: Payload,
    /// `None` if the table or the struct is missing.
    parts: Option<(&'a Fields, &'a [ArrayRef])>,
    /// Rows in which the whole struct is null.
    nulls: Option<&'a NullBuffer>,
    rows: usize,
}

impl<'a> Columns<'a> {
    pub(super) fn of(payload: Payload, table: Option<&'a RecordBatch>) -> Self {
        Self {
            payload,
            parts: table.map(|table| (table.schema_ref().fields(), table.columns())),
            nulls: None,
            rows: table.map_or(0, RecordBatch::num_rows),
        }
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// An error about the table.
    pub(super) fn malformed(&self, reason: impl ToString) -> OtapError {
        OtapError::malformed(self.payload.name(), reason)
    }

    /// A column without type conversion.
    pub(super) fn find(&self, name: &str) -> Option<(&'a FieldRef, &'a ArrayRef)> {
        let (fields, arrays) = self.parts?;
        let (index, field) = fields.find(name)?;
        Some((field, arrays.get(index)?))
    }

    /// The columns of a struct.
    pub(super) fn within(&self, name: &str) -> Result<Self, OtapError> {
        let Some((field, array)) = self.find(name) else {
            return Ok(Self { parts: None, nulls: None, ..*self });
        };
        let inner: &StructArray = array.as_struct_opt().ok_or_else(|| self.another_type(field))?;
        Ok(Self { parts: Some((inner.fields(), inner.columns())), nulls: inner.nulls(), ..*self })
    }

    /// A column with this type.
    pub(super) fn column<A: Array + 'static>(
        &self,
        name: &str,
    ) -> Result<Column<'a, A>, OtapError> {
        let Some((field, array)) = self.find(name) else {
            return Ok(Column { cells: None, nulls: None });
        };
        let cells = plain(array).or_else(|| with_dictionary(array));
        let cells = cells.ok_or_else(|| self.another_type(field))?;
        Ok(Column { cells: Some(cells), nulls: self.nulls })
    }

    fn another_type(&self, field: &FieldRef) -> OtapError {
        self.malformed(format_args!(
            "column `{}` should not be of type {}",
            field.name(),
            field.data_type()
        ))
    }
}

/// A column with values of type `A`.
pub(super) struct Column<'a, A> {
    cells: Option<Cells<'a, A>>,
    nulls: Option<&'a NullBuffer>,
}

struct Cells<'a, A> {
    keys: Keys<'a>,
    values: &'a A,
}

/// The index of a row's value.
#[derive(Clone, Copy)]
enum Keys<'a> {
    /// The row's own index.
    Own,
    U8(&'a UInt8Array),
    U16(&'a UInt16Array),
    U32(&'a UInt32Array),
}

fn plain<A: Array + 'static>(array: &ArrayRef) -> Option<Cells<'_, A>> {
    Some(Cells { keys: Keys::Own, values: array.as_any().downcast_ref()? })
}

fn with_dictionary<A: Array + 'static>(array: &ArrayRef) -> Option<Cells<'_, A>> {
    let DataType::Dictionary(key, _) = array.data_type() else { return None };
    let (keys, values) = match **key {
        DataType::UInt8 => {
            let array = array.as_dictionary_opt::<UInt8Type>()?;
            (Keys::U8(array.keys()), array.values())
        }
        DataType::UInt16 => {
            let array = array.as_dictionary_opt::<UInt16Type>()?;
            (Keys::U16(array.keys()), array.values())
        }
        DataType::UInt32 => {
            let array = array.as_dictionary_opt::<UInt32Type>()?;
            (Keys::U32(array.keys()), array.values())
        }
        _ => return None,
    };
    Some(Cells { keys, values: values.as_any().downcast_ref()? })
}

impl Keys<'_> {
    #[inline]
    fn place(self, row: usize) -> Option<usize> {
        match self {
            Self::Own => Some(row),
            Self::U8(keys) => keys.is_valid(row).then(|| usize::from(keys.value(row))),
            Self::U16(keys) => keys.is_valid(row).then(|| usize::from(keys.value(row))),
            Self::U32(keys) => {
                keys.is_valid(row).then(|| usize::try_from(keys.value(row)).ok()).flatten()
            }
        }
    }
}

impl<'a, A: Array + 'static> Column<'a, A>
where
    &'a A: ArrayAccessor,
{
    /// The value in this row, which must exist in the table.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<<&'a A as ArrayAccessor>::Item> {
        let cells = self.cells.as_ref()?;
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let (place, values) = (cells.keys.place(row)?, cells.values);
        (place < values.len() && values.is_valid(place))
            .then(|| ArrayAccessor::value(&values, place))
    }
}
