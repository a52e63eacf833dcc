//! Decodes `AnyValue` and `KeyValue` of OTLP/JSON directly to protobuf messages.

use std::fmt;

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::scalar::{Scalar, list, text};

/// ProtoJSON allows both alphabets, with and without padding.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const BASE64_URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

struct JsonValue(AnyValue);

#[derive(serde::Deserialize)]
struct JsonKeyValue {
    #[serde(default, deserialize_with = "text")]
    key: String,
    #[serde(default)]
    value: Option<JsonValue>,
}

#[derive(serde::Deserialize)]
struct Values<T> {
    #[serde(default = "Vec::new", deserialize_with = "list")]
    #[serde(bound(deserialize = "T: Deserialize<'de>"))]
    values: Vec<T>,
}

/// The member names of an `AnyValue`.
#[derive(serde::Deserialize)]
enum Name {
    #[serde(rename = "stringValue", alias = "string_value")]
    String,
    #[serde(rename = "boolValue", alias = "bool_value")]
    Bool,
    #[serde(rename = "intValue", alias = "int_value")]
    Int,
    #[serde(rename = "doubleValue", alias = "double_value")]
    Double,
    #[serde(rename = "arrayValue", alias = "array_value")]
    Array,
    #[serde(rename = "kvlistValue", alias = "kvlist_value")]
    List,
    #[serde(rename = "bytesValue", alias = "bytes_value")]
    Bytes,
    #[serde(other)]
    Unknown,
}

/// A list of attributes. `null` is an empty list.
pub(super) fn key_values<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<KeyValue>, D::Error> {
    Ok(list::<D, JsonKeyValue>(deserializer)?.into_iter().map(Into::into).collect())
}

impl From<JsonKeyValue> for KeyValue {
    fn from(json: JsonKeyValue) -> Self {
        Self { key: json.key, value: json.value.map(|value| value.0), ..Self::default() }
    }
}

impl<'de> Deserialize<'de> for JsonValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;
        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = JsonValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object such as {\"stringValue\":\"…\"}")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonValue, A::Error> {
                let mut value = None;
                while let Some(name) = map.next_key::<Name>()? {
                    let next = next_value(&name, &mut map)?;
                    value = next.or(value);
                }
                Ok(JsonValue(AnyValue { value }))
            }
        }
        deserializer.deserialize_map(ValueVisitor)
    }
}

fn next_value<'de, A: MapAccess<'de>>(name: &Name, map: &mut A) -> Result<Option<Value>, A::Error> {
    Ok(match name {
        Name::String => map.next_value::<Option<String>>()?.map(Value::StringValue),
        Name::Bool => map.next_value::<Option<bool>>()?.map(Value::BoolValue),
        Name::Int => match map.next_value()? {
            Scalar::Nothing => None,
            number => Some(Value::IntValue(number.signed64()?)),
        },
        Name::Double => match map.next_value()? {
            Scalar::Nothing => None,
            number => Some(Value::DoubleValue(number.double()?)),
        },
        Name::Array => map.next_value::<Option<Values<JsonValue>>>()?.map(|array| {
            let values = array.values.into_iter().map(|value| value.0).collect();
            Value::ArrayValue(ArrayValue { values })
        }),
        Name::List => map.next_value::<Option<Values<JsonKeyValue>>>()?.map(|list| {
            let values = list.values.into_iter().map(Into::into).collect();
            Value::KvlistValue(KeyValueList { values })
        }),
        Name::Bytes => match map.next_value::<Option<String>>()? {
            None => None,
            Some(text) => {
                let bytes = BASE64
                    .decode(&text)
                    .or_else(|_| BASE64_URL.decode(&text))
                    .map_err(|error| A::Error::custom(format_args!("bytesValue: {error}")))?;
                Some(Value::BytesValue(bytes))
            }
        },
        Name::Unknown => {
            map.next_value::<IgnoredAny>()?;
            None
        }
    })
}
