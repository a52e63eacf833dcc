//! Fields of events: ids, and attributes of OTLP.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};

use crate::decode::Value;
use crate::trace::Event;

impl<'a> Event<'a> {
    /// A field by its name without case, underscores, dots and dashes.
    pub(crate) fn field(&self, names: &[&str]) -> Option<&Value<'a>> {
        let plain = |name: &str| -> String {
            let letters = name.chars().filter(|letter| letter.is_ascii_alphanumeric());
            letters.map(|letter| letter.to_ascii_lowercase()).collect()
        };
        [&self.fields, &self.context, &self.common].into_iter().find_map(|part| {
            let (_, value) = part.iter().find(|(name, _)| names.contains(&plain(name).as_str()))?;
            Some(value)
        })
    }

    /// A number by its exact name.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let (_, value) = self.fields.iter().find(|(field, _)| *field == name)?;
        number(value)
    }

    /// A text by its exact name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.fields.iter().find(|(field, _)| *field == name)?;
        text(value)
    }

    /// Bytes by their exact name.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let (_, value) = self.fields.iter().find(|(field, _)| *field == name)?;
        match value {
            Value::Bytes(bytes) => Some(bytes),
            Value::List(list) if list.is_empty() => Some(&[]),
            _ => None,
        }
    }
}

pub(crate) fn text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    match value {
        Value::Text(text) => Some(text),
        // LTTng writes the name of a process as an array.
        Value::Bytes(bytes) => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            std::str::from_utf8(&bytes[..end]).ok()
        }
        _ => None,
    }
}

pub(crate) fn number(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Integer(number) | Value::Label(_, number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// An id of a trace (16 bytes) or span (8): as hexadecimal text, bytes, or 64-bit integers.
pub(crate) fn id<const N: usize>(value: &Value<'_>) -> Option<[u8; N]> {
    let mut id = [0; N];
    match value {
        Value::Text(text) => {
            let digits = text.trim().trim_start_matches("0x");
            if digits.is_empty()
                || digits.len() > 2 * N
                || !digits.bytes().all(|digit| digit.is_ascii_hexdigit())
            {
                return None;
            }
            let all = format!("{digits:0>width$}", width = 2 * N);
            for (index, byte) in id.iter_mut().enumerate() {
                *byte = u8::from_str_radix(all.get(2 * index..2 * index + 2)?, 16).ok()?;
            }
        }
        Value::Bytes(bytes) => id.copy_from_slice((bytes.len() == N).then_some(bytes)?),
        Value::Integer(number) => {
            let number = *number as u64;
            id[N - 8..].copy_from_slice(&number.to_be_bytes());
        }
        Value::List(words) => {
            if words.len() * 8 != N {
                return None;
            }
            for (to, word) in id.chunks_mut(8).zip(words) {
                let Value::Integer(word) = word else { return None };
                to.copy_from_slice(&(*word as u64).to_be_bytes());
            }
        }
        _ => return None,
    }
    id.iter().any(|byte| *byte != 0).then_some(id)
}

/// An attribute.
pub(crate) fn attribute(key: &str, value: Any) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// A field's value as an attribute's.
pub(crate) fn any(value: &Value<'_>) -> Any {
    let integer = |number: i128| {
        i64::try_from(number).map_or_else(|_| Any::StringValue(number.to_string()), Any::IntValue)
    };
    match value {
        Value::Integer(number) => integer(*number),
        Value::Float(number) => Any::DoubleValue(*number),
        Value::Boolean(is) => Any::BoolValue(*is),
        Value::Text(text) => Any::StringValue(text.clone().into_owned()),
        Value::Bytes(bytes) => Any::BytesValue(bytes.to_vec()),
        Value::Label(label, _) => Any::StringValue((*label).to_owned()),
        Value::List(list) => {
            let values = list.iter().map(|value| AnyValue { value: Some(any(value)) }).collect();
            Any::ArrayValue(ArrayValue { values })
        }
        Value::Fields(fields) => {
            let values = fields.iter().map(|(key, value)| attribute(key, any(value))).collect();
            Any::KvlistValue(KeyValueList { values })
        }
    }
}
