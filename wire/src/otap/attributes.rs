//! Tables of attributes: one row for each attribute, and one column for each type of value.

use arrow::array::{BinaryArray, BooleanArray, Float64Array, Int64Array, StringArray, UInt8Array};

use super::OtapError;
use super::cbor::{self, CborError};
use super::columns::{Column, Columns};
use super::ids::{IdColumn, Parents};
use crate::otlp::rows::{Any, Keys, Pair};

/// Approximate memory of an attribute besides its texts.
const PAIR_BYTES: usize = 16;

/// Why a span is rejected while others of its batch are kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpanError {
    /// The span exceeds the size limit.
    TooLarge,
    /// A value cannot be decoded.
    Malformed(CborError),
}

/// The attributes of one kind of object.
pub(super) struct Attributes<'a> {
    cells: Cells<'a>,
    parents: Parents,
}

struct Cells<'a> {
    columns: Columns<'a>,
    key: Column<'a, StringArray>,
    value_type: Column<'a, UInt8Array>,
    text: Column<'a, StringArray>,
    int: Column<'a, Int64Array>,
    double: Column<'a, Float64Array>,
    flag: Column<'a, BooleanArray>,
    bytes: Column<'a, BinaryArray>,
    cbor: Column<'a, BinaryArray>,
}

/// A value from its column.
#[derive(Debug, Clone, Copy)]
enum Raw<'a> {
    Nothing,
    Text(&'a str),
    Int(i64),
    Double(f64),
    Bool(bool),
    Bytes(&'a [u8]),
    /// An array or a map in CBOR.
    Cbor(&'a [u8]),
}

impl<'a> Attributes<'a> {
    pub(super) fn new(columns: Columns<'a>) -> Result<Self, OtapError> {
        let cells = Cells {
            columns,
            key: columns.column("key")?,
            value_type: columns.column("type")?,
            text: columns.column("str")?,
            int: columns.column("int")?,
            double: columns.column("double")?,
            flag: columns.column("bool")?,
            bytes: columns.column("bytes")?,
            cbor: columns.column("ser")?,
        };
        let ids = IdColumn::new(columns, "parent_id")?;
        let (explicit, mut before) = (ids.is_explicit(), None);
        let parents = ids.parents(|row| {
            let (key, value) = (cells.key.get(row), cells.value(row)?);
            let before = before.replace((key, value));
            Ok(before.is_some_and(|(other, before)| other == key && before.same(value, explicit)))
        })?;
        Ok(Self { cells, parents })
    }

    /// Number of attributes whose owner is not among these objects.
    pub(super) fn orphans(&self, owners: &[Option<u32>]) -> usize {
        self.parents.orphans(owners)
    }

    /// Appends the attributes of one object to `pairs`. Their memory is subtracted from `room`.
    pub(super) fn append(
        &self,
        parent: u32,
        room: &mut usize,
        keys: &mut Keys<'a>,
        pairs: &mut Vec<Pair<'a>>,
    ) -> Result<(), SpanError> {
        for row in self.parents.rows_of(parent) {
            let key = self.cells.key.get(row).unwrap_or_default();
            // Types were checked before.
            let value = self.cells.value(row).unwrap_or(Raw::Nothing);
            spend(room, PAIR_BYTES + key.len() + value.bytes())?;
            let value = match value {
                Raw::Nothing => Any::Nothing,
                Raw::Text(text) => Any::Text(text),
                Raw::Int(number) => Any::Int(number),
                Raw::Double(number) => Any::Double(number),
                Raw::Bool(flag) => Any::Bool(flag),
                Raw::Bytes(bytes) => Any::Bytes(bytes),
                Raw::Cbor(bytes) => cbor::read(bytes, room).map_err(|error| match error {
                    CborError::TooLarge => SpanError::TooLarge,
                    error => SpanError::Malformed(error),
                })?,
            };
            pairs.push(Pair::new(key, value, keys));
        }
        Ok(())
    }
}

/// Subtracts from the remaining size of a span.
pub(super) fn spend(room: &mut usize, bytes: usize) -> Result<(), SpanError> {
    *room = room.checked_sub(bytes).ok_or(SpanError::TooLarge)?;
    Ok(())
}

impl<'a> Cells<'a> {
    /// The value in this row. The type numbers are those of section 5.5.1 of the specification and
    /// of the Go producer. Section 5.4 has different ones.
    fn value(&self, row: usize) -> Result<Raw<'a>, OtapError> {
        let value = match self.value_type.get(row).unwrap_or(0) {
            0 => None,
            1 => self.text.get(row).map(Raw::Text),
            2 => self.int.get(row).map(Raw::Int),
            3 => self.double.get(row).map(Raw::Double),
            4 => self.flag.get(row).map(Raw::Bool),
            5 | 6 => self.cbor.get(row).map(Raw::Cbor),
            7 => self.bytes.get(row).map(Raw::Bytes),
            other => {
                return Err(self
                    .columns
                    .malformed(format_args!("row {row} has a value of the unknown type {other}")));
            }
        };
        // According to the specification, a missing value is empty.
        Ok(value.unwrap_or(Raw::Nothing))
    }
}

impl Raw<'_> {
    /// Whether the next row's value is equal, so that its parent id is a difference. Never true for
    /// arrays, maps and empty values.
    fn same(self, after: Self, explicit: bool) -> bool {
        match (self, after) {
            (Self::Text(before), Self::Text(text)) => before == text,
            (Self::Int(before), Self::Int(number)) => before == number,
            // Zero and minus zero, and NaN: the Go producer compares as IEEE 754 does. The Rust
            // producer, which declares the column's encoding, compares bits (Arrow's total order).
            (Self::Double(before), Self::Double(number)) if explicit => {
                before.to_bits() == number.to_bits()
            }
            (Self::Double(before), Self::Double(number)) => before == number,
            (Self::Bool(before), Self::Bool(flag)) => before == flag,
            (Self::Bytes(before), Self::Bytes(bytes)) => before == bytes,
            _ => false,
        }
    }

    /// Bytes of the value's text. CBOR is counted when it is decoded.
    const fn bytes(self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => cbor::base64_bytes(bytes),
            Self::Nothing | Self::Int(_) | Self::Double(_) | Self::Bool(_) | Self::Cbor(_) => 0,
        }
    }
}
