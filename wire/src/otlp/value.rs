//! OTLP attribute values to those of the span row.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use serde_json::Value as Json;
use spanwise_model::{AttributeValue, Attributes};

/// The attributes in the order in which they came.
pub(super) fn attributes(list: Vec<KeyValue>) -> Attributes {
    list.into_iter().map(|pair| (pair.key, attribute_value(pair.value))).collect()
}

fn attribute_value(value: Option<AnyValue>) -> AttributeValue {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => AttributeValue::String(text),
        Some(Value::BoolValue(flag)) => AttributeValue::Bool(flag),
        Some(Value::IntValue(number)) => AttributeValue::Int(number),
        Some(Value::DoubleValue(number)) => AttributeValue::Double(number),
        Some(Value::BytesValue(bytes)) => AttributeValue::Bytes(STANDARD.encode(bytes)),
        // Arrays and maps, and what carries no value at all (`null`).
        other => AttributeValue::Json(json(other).to_string()),
    }
}

/// The depth is bounded by the decoders: prost stops at 100 messages,
/// serde_json at 128 values.
fn json(value: Option<Value>) -> Json {
    let inner = |value: Option<AnyValue>| json(value.and_then(|value| value.value));
    match value {
        Some(Value::StringValue(text)) => Json::String(text),
        Some(Value::BoolValue(flag)) => Json::Bool(flag),
        Some(Value::IntValue(number)) => number.into(),
        Some(Value::DoubleValue(number)) => serde_json::Number::from_f64(number)
            .map_or_else(|| Json::String(not_finite(number).to_owned()), Json::Number),
        Some(Value::BytesValue(bytes)) => Json::String(STANDARD.encode(bytes)),
        Some(Value::ArrayValue(array)) => {
            array.values.into_iter().map(|value| inner(Some(value))).collect()
        }
        Some(Value::KvlistValue(list)) => Json::Object(
            list.values.into_iter().map(|pair| (pair.key, inner(pair.value))).collect(),
        ),
        // An index into the table that profiles carry; traces have none.
        Some(Value::StringValueStrindex(_)) | None => Json::Null,
    }
}

/// JSON has no such numbers; protobuf's JSON writes them as these texts.
fn not_finite(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// The value as text, for columns that are texts whatever was sent.
pub(super) fn text(value: &AttributeValue) -> String {
    value.to_string()
}

/// The value as an integer; some senders write numbers as texts.
pub(super) fn integer(value: &AttributeValue) -> Option<i64> {
    match value {
        AttributeValue::Int(number) => Some(*number),
        AttributeValue::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
