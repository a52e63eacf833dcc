//! OTLP attribute values with borrowed texts.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::common::v1::any_value::Value as OtlpValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use serde_json::Value as Json;
use spanwise_model::AttributeRef;

use super::keys::Keys;
use super::known::{Note, note};

/// An `AnyValue`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Any<'a> {
    /// No value, or an index into a table that only profiles have.
    #[default]
    Nothing,
    Text(&'a str),
    Bool(bool),
    Int(i64),
    Double(f64),
    Bytes(&'a [u8]),
    Array(Vec<Any<'a>>),
    Map(Vec<(&'a str, Any<'a>)>),
}

/// An attribute.
#[derive(Clone)]
pub(crate) struct Pair<'a> {
    pub(crate) key: &'a str,
    /// The function for values of this key.
    pub(super) note: Option<Note>,
    pub(crate) value: Value<'a>,
}

impl<'a> Pair<'a> {
    /// An attribute with this key, which is looked up once for each request.
    pub(crate) fn new(key: &'a str, value: Any<'a>, keys: &mut Keys<'a>) -> Self {
        // A `str` is always valid UTF-8.
        let note = keys.look_up(key.as_bytes()).ok().and_then(|(_, note)| note);
        Self { key, note, value: value.into() }
    }
}

impl fmt::Debug for Pair<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.key, self.value)
    }
}

/// An attribute's value as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Text(&'a str),
    Bool(bool),
    Int(i64),
    Double(f64),
    /// In base64.
    Bytes(String),
    Json(String),
}

impl Value<'_> {
    pub(crate) fn as_ref(&self) -> AttributeRef<'_> {
        match self {
            Self::Text(text) => AttributeRef::String(text),
            Self::Bool(flag) => AttributeRef::Bool(*flag),
            Self::Int(number) => AttributeRef::Int(*number),
            Self::Double(number) => AttributeRef::Double(*number),
            Self::Bytes(text) => AttributeRef::Bytes(text),
            Self::Json(text) => AttributeRef::Json(text),
        }
    }
}

impl<'a> From<Any<'a>> for Value<'a> {
    fn from(any: Any<'a>) -> Self {
        match any {
            Any::Text(text) => Self::Text(text),
            Any::Bool(flag) => Self::Bool(flag),
            Any::Int(number) => Self::Int(number),
            Any::Double(number) => Self::Double(number),
            Any::Bytes(bytes) => Self::Bytes(STANDARD.encode(bytes)),
            // Arrays, maps, and missing values (`null`).
            other => Self::Json(json(other).to_string()),
        }
    }
}

/// The decoders limit the depth to about a hundred.
fn json(any: Any<'_>) -> Json {
    match any {
        Any::Nothing => Json::Null,
        Any::Text(text) => text.into(),
        Any::Bool(flag) => flag.into(),
        Any::Int(number) => number.into(),
        Any::Double(number) => serde_json::Number::from_f64(number)
            .map_or_else(|| not_finite(number).into(), Json::Number),
        Any::Bytes(bytes) => STANDARD.encode(bytes).into(),
        Any::Array(values) => values.into_iter().map(json).collect(),
        Any::Map(pairs) => {
            Json::Object(pairs.into_iter().map(|(key, any)| (key.to_owned(), json(any))).collect())
        }
    }
}

/// JSON has no such numbers. Protobuf's JSON writes these texts.
fn not_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

impl<'a> From<&'a AnyValue> for Any<'a> {
    fn from(value: &'a AnyValue) -> Self {
        match &value.value {
            Some(OtlpValue::StringValue(text)) => Self::Text(text),
            Some(OtlpValue::BoolValue(flag)) => Self::Bool(*flag),
            Some(OtlpValue::IntValue(number)) => Self::Int(*number),
            Some(OtlpValue::DoubleValue(number)) => Self::Double(*number),
            Some(OtlpValue::BytesValue(bytes)) => Self::Bytes(bytes),
            Some(OtlpValue::ArrayValue(array)) => {
                Self::Array(array.values.iter().map(Into::into).collect())
            }
            Some(OtlpValue::KvlistValue(list)) => Self::Map(
                list.values
                    .iter()
                    .map(|pair| (pair.key.as_str(), any_of(pair.value.as_ref())))
                    .collect(),
            ),
            Some(OtlpValue::StringValueStrindex(_)) | None => Self::Nothing,
        }
    }
}

fn any_of(value: Option<&AnyValue>) -> Any<'_> {
    value.map_or(Any::Nothing, Into::into)
}

impl<'a> From<&'a KeyValue> for Pair<'a> {
    fn from(pair: &'a KeyValue) -> Self {
        Self { key: &pair.key, note: note(&pair.key), value: any_of(pair.value.as_ref()).into() }
    }
}

/// The value as an integer. Some senders write numbers as texts.
pub(crate) fn integer(value: AttributeRef<'_>) -> Option<i64> {
    match value {
        AttributeRef::Int(number) => Some(number),
        AttributeRef::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
