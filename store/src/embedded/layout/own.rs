//! One attribute as a column of its own.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Int64Builder, StringBuilder, StringDictionaryBuilder, new_null_array,
};
use arrow::datatypes::{DataType, Field, FieldRef, Int32Type};
use arrow::error::ArrowError;
use spanwise_model::schema::dictionary_type;

/// The type of an attribute with a column of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) enum OwnType {
    String,
    Int,
    Bool,
}

impl OwnType {
    const ALL: [Self; 3] = [Self::String, Self::Int, Self::Bool];

    const fn prefix(self) -> &'static str {
        match self {
            Self::String => "string:",
            Self::Int => "int:",
            Self::Bool => "bool:",
        }
    }

    fn data_type(self, texts: Texts) -> DataType {
        match (self, texts) {
            (Self::String, Texts::Plain) => DataType::Utf8,
            (Self::String, Texts::Dictionary) => dictionary_type(),
            (Self::Int, _) => DataType::Int64,
            (Self::Bool, _) => DataType::Boolean,
        }
    }

    /// See `AttributeValue::type_number`.
    pub(super) const fn type_number(self) -> u8 {
        match self {
            Self::String => 0,
            Self::Int => 1,
            Self::Bool => 3,
        }
    }

    pub(super) fn of_number(type_number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.type_number() == type_number)
    }

    /// Whether this is the one text of a value of the type.
    pub(super) fn takes(self, text: &str) -> bool {
        match self {
            Self::String => true,
            Self::Int => canonical_int(text).is_some(),
            Self::Bool => matches!(text, "true" | "false"),
        }
    }
}

/// How texts are kept: of rows each, of shapes those that are distinct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    Plain,
    Dictionary,
}

/// An attribute with a column of its own. Ordered by key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in super::super) struct Own {
    pub(in super::super) key: String,
    pub(in super::super) own_type: OwnType,
}

impl Own {
    /// The name of its column.
    pub(super) fn name(&self) -> String {
        format!("{}{}", self.own_type.prefix(), self.key)
    }

    pub(super) fn field(&self, texts: Texts) -> FieldRef {
        Arc::new(Field::new(self.name(), self.own_type.data_type(texts), true))
    }

    pub(super) fn of_field(field: &Field, texts: Texts) -> Option<Self> {
        OwnType::ALL.into_iter().find_map(|own_type| {
            let key = field.name().strip_prefix(own_type.prefix())?.to_owned();
            (own_type.data_type(texts) == *field.data_type() && field.is_nullable())
                .then_some(Self { key, own_type })
        })
    }
}

/// The values of one attribute, row by row.
pub(super) struct OwnColumn {
    values: Builder,
    own_type: OwnType,
    texts: Texts,
    /// Rows that have a value or none.
    rows: usize,
}

enum Builder {
    /// Without a value yet.
    Empty,
    String(StringBuilder),
    Dictionary(StringDictionaryBuilder<Int32Type>),
    Int(Int64Builder),
    Bool(BooleanBuilder),
}

impl OwnColumn {
    pub(super) const fn new(own_type: OwnType, texts: Texts) -> Self {
        Self { values: Builder::Empty, own_type, texts, rows: 0 }
    }

    /// Takes the value of a row; `false` where the row has one already, or where
    /// this is not the one text of a value of the column's type.
    pub(super) fn take(&mut self, row: usize, text: &str) -> Result<bool, ArrowError> {
        if row < self.rows {
            return Ok(false);
        }
        if matches!(self.values, Builder::Empty) {
            self.values = match (self.own_type, self.texts) {
                (OwnType::String, Texts::Plain) => Builder::String(StringBuilder::new()),
                (OwnType::String, Texts::Dictionary) => {
                    Builder::Dictionary(StringDictionaryBuilder::new())
                }
                (OwnType::Int, _) => Builder::Int(Int64Builder::new()),
                (OwnType::Bool, _) => Builder::Bool(BooleanBuilder::new()),
            };
        }
        let absent = row - self.rows;
        match &mut self.values {
            Builder::String(texts) => {
                let bytes = texts.values_slice().len() + text.len();
                i32::try_from(bytes).map_err(|_| ArrowError::OffsetOverflowError(bytes))?;
                texts.append_nulls(absent);
                texts.append_value(text);
            }
            Builder::Dictionary(texts) => {
                texts.append_nulls(absent);
                texts.append(text)?;
            }
            Builder::Int(numbers) => {
                let Some(number) = canonical_int(text) else { return Ok(false) };
                numbers.append_nulls(absent);
                numbers.append_value(number);
            }
            Builder::Bool(flags) => {
                let Ok(flag) = text.parse() else { return Ok(false) };
                flags.append_nulls(absent);
                flags.append_value(flag);
            }
            Builder::Empty => return Ok(false),
        }
        self.rows = row + 1;
        Ok(true)
    }

    pub(super) fn finish(self, rows: usize) -> ArrayRef {
        let absent = rows - self.rows;
        match self.values {
            Builder::Empty => new_null_array(&self.own_type.data_type(self.texts), rows),
            Builder::String(mut texts) => {
                texts.append_nulls(absent);
                Arc::new(texts.finish())
            }
            Builder::Dictionary(mut texts) => {
                texts.append_nulls(absent);
                Arc::new(texts.finish())
            }
            Builder::Int(mut numbers) => {
                numbers.append_nulls(absent);
                Arc::new(numbers.finish())
            }
            Builder::Bool(mut flags) => {
                flags.append_nulls(absent);
                Arc::new(flags.finish())
            }
        }
    }
}

/// The number that is written like this and in no other way.
fn canonical_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let canonical = match digits {
        [b'0'] => text.len() == 1,
        [first, ..] => first.is_ascii_digit() && *first != b'0',
        [] => false,
    };
    canonical.then(|| text.parse().ok()).flatten()
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
