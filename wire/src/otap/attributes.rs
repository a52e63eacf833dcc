//! Tables of attributes: one row for each, with a column for each type of value.

use arrow::array::{BinaryArray, BooleanArray, Float64Array, Int64Array, StringArray, UInt8Array};

use super::OtapError;
use super::cbor::{self, CborError};
use super::columns::{Column, Columns};
use super::ids::{IdColumn, Parents};
use crate::otlp::rows::{Any, Keys, Pair};

/// What an attribute takes besides its texts, about.
const PAIR_BYTES: usize = 16;

/// Why a span cannot be made a row, while others of its batch can.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is larger than a span may be.
    TooLarge,
    /// A value of it cannot be read.
    Malformed(CborError),
}

/// The attributes of one kind of thing.
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

/// A value as its column has it.
#[derive(Debug, Clone, Copy)]
enum Raw<'a> {
    Nothing,
    Text(&'a str),
    Int(i64),
    Double(f64),
    Bool(bool),
    Bytes(&'a [u8]),
    /// An array or a map.
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

    /// How many belong to none of these things.
    pub(super) fn orphans(&self, owners: &[Option<u32>]) -> usize {
        self.parents.orphans(owners)
    }

    /// The attributes of one thing, appended to `pairs`; what they take is taken
    /// from `room`.
    pub(super) fn append(
        &self,
        parent: u32,
        room: &mut usize,
        keys: &mut Keys<'a>,
        pairs: &mut Vec<Pair<'a>>,
    ) -> Result<(), Unfit> {
        for row in self.parents.rows_of(parent) {
            let key = self.cells.key.get(row).unwrap_or_default();
            // Types were looked at before.
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
                    CborError::TooLarge => Unfit::TooLarge,
                    error => Unfit::Malformed(error),
                })?,
            };
            pairs.push(Pair::new(key, value, keys));
        }
        Ok(())
    }
}

/// Takes from the room that a span has.
pub(super) fn spend(room: &mut usize, bytes: usize) -> Result<(), Unfit> {
    *room = room.checked_sub(bytes).ok_or(Unfit::TooLarge)?;
    Ok(())
}

impl<'a> Cells<'a> {
    /// The value in this row. The numbers of the types are those of the
    /// specification's section 5.5.1 and of the Go producer; its section 5.4 has
    /// others.
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
        // The specification: a value whose column has none is empty.
        Ok(value.unwrap_or(Raw::Nothing))
    }
}

impl Raw<'_> {
    /// Whether the value of the row after it is the same, so that the id of its
    /// parent is a difference. Never so of arrays, maps and nothing.
    fn same(self, after: Self, explicit: bool) -> bool {
        match (self, after) {
            (Self::Text(before), Self::Text(text)) => before == text,
            (Self::Int(before), Self::Int(number)) => before == number,
            // Zero and minus zero, and two that are no numbers: the Go producer
            // compares as IEEE 754 does, the Rust one, which says how it wrote
            // the column, compares their bits (Arrow's total order).
            (Self::Double(before), Self::Double(number)) if explicit => {
                before.to_bits() == number.to_bits()
            }
            (Self::Double(before), Self::Double(number)) => before == number,
            (Self::Bool(before), Self::Bool(flag)) => before == flag,
            (Self::Bytes(before), Self::Bytes(bytes)) => before == bytes,
            _ => false,
        }
    }

    /// Bytes of its text; those of CBOR are counted as it is read.
    const fn bytes(self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => cbor::base64_bytes(bytes),
            Self::Nothing | Self::Int(_) | Self::Double(_) | Self::Bool(_) | Self::Cbor(_) => 0,
        }
    }
}
