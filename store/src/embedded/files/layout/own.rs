//! A column for one attribute.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeBinaryArray, Int64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use spanwise_model::schema::dictionary_type;

use super::digits::{self, UUID_BYTES};
use crate::embedded::files::column_encoder::ColumnEncoder;
use crate::embedded::search::mask;

/// The type of an attribute's own column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum OwnType {
    String,
    Int,
    Bool,
    /// Texts of [hexadecimal digits](digits::hex), stored as bytes.
    Hex,
    /// Texts of UUIDs, stored as bytes.
    Uuid,
}

impl OwnType {
    const ALL: [Self; 5] = [Self::String, Self::Int, Self::Bool, Self::Hex, Self::Uuid];

    const fn prefix(self) -> &'static str {
        match self {
            Self::String => "string:",
            Self::Int => "int:",
            Self::Bool => "bool:",
            Self::Hex => "hex:",
            Self::Uuid => "uuid:",
        }
    }

    fn data_type(self, texts: Texts) -> DataType {
        match (self, texts) {
            (Self::String, Texts::Plain) => DataType::Utf8,
            (Self::String, Texts::Dictionary) => dictionary_type(),
            (Self::Int, _) => DataType::Int64,
            (Self::Bool, _) => DataType::Boolean,
            (Self::Hex, _) => DataType::Binary,
            (Self::Uuid, _) => DataType::FixedSizeBinary(UUID_BYTES as i32),
        }
    }

    /// See `AttributeValue::type_number`.
    pub(crate) const fn type_number(self) -> u8 {
        match self {
            Self::String | Self::Hex | Self::Uuid => 0,
            Self::Int => 1,
            Self::Bool => 3,
        }
    }

    /// The column type that accepts any value of this attribute type.
    pub(super) fn of_number(type_number: u8) -> Option<Self> {
        [Self::String, Self::Int, Self::Bool]
            .into_iter()
            .find(|own| own.type_number() == type_number)
    }

    /// Adds a row's value, with the hash of its text, to a column. Returns `false` if the row
    /// already has one, or if the text is not the canonical text of a value of this type.
    #[inline]
    pub(super) fn put(
        self,
        column: &mut ColumnEncoder,
        (row, text): (usize, &str),
        hash: u64,
    ) -> Result<bool, ArrowError> {
        if column.has(row) {
            return Ok(false);
        }
        match self {
            Self::String => column.put_text(row, text, hash)?,
            Self::Int => match canonical_int(text) {
                Some(number) => column.put_number(row, number)?,
                None => return Ok(false),
            },
            Self::Bool => match text.parse() {
                Ok(flag) => column.put_flag(row, flag)?,
                Err(_) => return Ok(false),
            },
            Self::Hex => match digits::hex(text) {
                Some(bytes) => column.put_bytes(row, bytes.as_slice(), hash)?,
                None => return Ok(false),
            },
            Self::Uuid => match digits::uuid(text) {
                Some(bytes) => column.put_fixed(row, &bytes)?,
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    /// Whether the text is the canonical text of a value of this type.
    pub(super) fn takes(self, text: &str) -> bool {
        match self {
            Self::String => true,
            Self::Int => canonical_int(text).is_some(),
            Self::Bool => matches!(text, "true" | "false"),
            Self::Hex => digits::hex(text).is_some(),
            Self::Uuid => digits::uuid(text).is_some(),
        }
    }
}

/// How texts are stored: plain for rows, as a dictionary for shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    Plain,
    Dictionary,
}

/// What to look for in pages.
#[derive(Debug)]
pub(crate) enum Sought {
    Anything,
    /// These bytes, as they appear in plain pages and dictionaries.
    Bytes(Vec<u8>),
    /// No page can contain the value.
    Nothing,
}

/// An attribute with its own column. Ordered by key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Own {
    pub(crate) key: String,
    pub(crate) own_type: OwnType,
}

impl Own {
    /// The name of the column.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", self.own_type.prefix(), self.key)
    }

    pub(super) fn field(&self, texts: Texts) -> FieldRef {
        Arc::new(Field::new(self.name(), self.own_type.data_type(texts), true))
    }

    /// Which values of the column equal this text.
    ///
    /// # Errors
    /// If the column does not have this type.
    pub(crate) fn equals(&self, column: &ArrayRef, text: &str) -> Result<BooleanArray, ArrowError> {
        let none = || Ok(BooleanBuffer::new_unset(column.len()).into());
        match self.own_type {
            OwnType::String => mask::equals(column, text),
            OwnType::Int => match canonical_int(text) {
                Some(number) => cmp::eq(column, &Int64Array::new_scalar(number)),
                None => none(),
            },
            OwnType::Bool => match text.parse() {
                Ok(flag) => cmp::eq(column, &BooleanArray::new_scalar(flag)),
                Err(_) => none(),
            },
            OwnType::Hex => match digits::hex(text) {
                Some(bytes) => cmp::eq(column, &BinaryArray::new_scalar(bytes.as_slice())),
                None => none(),
            },
            OwnType::Uuid => match digits::uuid(text) {
                Some(bytes) => cmp::eq(column, &FixedSizeBinaryArray::new_scalar(bytes)),
                None => none(),
            },
        }
    }

    /// What pages of the column contain for a value with this text.
    pub(crate) fn sought(&self, text: &str) -> Sought {
        let with_length = |bytes: &[u8]| match u32::try_from(bytes.len()) {
            Ok(length) => Sought::Bytes([&length.to_le_bytes(), bytes].concat()),
            Err(_) => Sought::Anything,
        };
        let found = match self.own_type {
            OwnType::String => Some(with_length(text.as_bytes())),
            OwnType::Hex => digits::hex(text).map(|bytes| with_length(bytes.as_slice())),
            OwnType::Uuid => digits::uuid(text).map(|bytes| Sought::Bytes(bytes.to_vec())),
            OwnType::Int | OwnType::Bool => Some(Sought::Anything),
        };
        found.unwrap_or(Sought::Nothing)
    }

    pub(super) fn of_field(field: &Field, texts: Texts) -> Option<Self> {
        OwnType::ALL.into_iter().find_map(|own_type| {
            let key = field.name().strip_prefix(own_type.prefix())?.to_owned();
            (own_type.data_type(texts) == *field.data_type() && field.is_nullable())
                .then_some(Self { key, own_type })
        })
    }
}

/// Any number with this many digits fits into 64 bits.
const SAFE_DIGITS: usize = 18;

/// The number with this canonical text.
fn canonical_int(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] => return (!is_negative).then_some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    if digits.len() > SAFE_DIGITS {
        return text.parse().ok();
    }
    let mut number = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    Some(if is_negative { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_has_one_text() {
        for text in ["0", "1", "-1", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(canonical_int(text).map(|number| number.to_string()).as_deref(), Some(text));
        }
        for text in ["", "-", "00", "01", "-0", "+1", "1.0", " 1", "9223372036854775808", "x"] {
            assert_eq!(canonical_int(text), None, "{text}");
        }
    }
}
