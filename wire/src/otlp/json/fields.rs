//! The undecoded fields of a JSON object.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{OtlpError, read};
use crate::otlp::unknown::plain_name;

/// A field's name.
pub(super) struct Name {
    written: String,
    pub(super) plain: String,
}

impl Name {
    /// The original name, shortened for messages.
    pub(super) fn short(&self) -> String {
        const CHARACTERS: usize = 64;
        self.written
            .chars()
            .take(CHARACTERS)
            .map(|c| if c.is_control() { '?' } else { c })
            .collect()
    }
}

/// All fields of an object in order. Empty for `null`.
pub(super) struct Fields<'a>(pub(super) Vec<(Name, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Decodes the last field with this plain name.
    pub(super) fn get<T: Deserialize<'a>>(
        &self,
        name: &str,
        place: &dyn Fn() -> String,
    ) -> Result<Option<T>, OtlpError> {
        let found = self.0.iter().rev().find(|(field, _)| field.plain == name);
        match found {
            Some((field, raw)) => read(raw, &|| format!("{}.{}", place(), field.short())),
            None => Ok(None),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((written, raw)) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push((Name { plain: plain_name(&written), written }, raw));
                }
                Ok(Fields(fields))
            }

            fn visit_unit<E>(self) -> Result<Fields<'de>, E> {
                Ok(Fields(Vec::new()))
            }
        }
        deserializer.deserialize_any(FieldsVisitor)
    }
}

/// The items of a list. `null` is an empty list.
pub(super) fn list<'a>(
    raw: &'a RawValue,
    place: &dyn Fn() -> String,
) -> Result<Vec<&'a RawValue>, OtlpError> {
    Ok(read::<Option<Vec<&'a RawValue>>>(raw, place)?.unwrap_or_default())
}
