//! The SQL functions `attribute(attributes, 'key')` and `resource_attribute(resource, 'key')`. They
//! return texts, or null if the key is missing.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use serde_json::Value;

use crate::embedded::search::attribute::texts;

/// The name of the first function.
pub(super) const ATTRIBUTE: &str = "attribute";

/// The argument of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum AttributeSource {
    /// The map of a span's attributes.
    Span,
    /// The JSON object of a span's resource.
    Resource,
}

/// One of the two functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AttributeFunction {
    of: AttributeSource,
    signature: Signature,
}

impl AttributeFunction {
    pub(super) fn of_spans() -> Self {
        Self {
            of: AttributeSource::Span,
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }

    pub(super) fn of_resources() -> Self {
        Self {
            of: AttributeSource::Resource,
            signature: Signature::variadic_any(Volatility::Immutable),
        }
    }

    fn misused(&self) -> DataFusionError {
        DataFusionError::Plan(match self.of {
            AttributeSource::Span => "attribute takes the attribute column and one key as a text: \
                         attribute(attributes, 'http.route')"
                .to_owned(),
            AttributeSource::Resource => {
                "resource_attribute takes the resource column and one key as a text: \
                             resource_attribute(resource, 'deployment.environment')"
                    .to_owned()
            }
        })
    }

    fn values(&self, column: &ArrayRef, key: &str) -> Option<ArrayRef> {
        match self.of {
            AttributeSource::Span => {
                let mut found = StringBuilder::new();
                found.extend(texts(column.as_map_opt()?, key)?);
                Some(Arc::new(found.finish()))
            }
            AttributeSource::Resource => of_resources(column, key),
        }
    }
}

const fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
}

fn key_of(argument: &ColumnarValue) -> Option<&str> {
    let ColumnarValue::Scalar(key) = argument else { return None };
    key_in(key)
}

/// The key of a literal.
pub(super) fn key_in(literal: &ScalarValue) -> Option<&str> {
    match literal {
        ScalarValue::Dictionary(_, value) => value.try_as_str().flatten(),
        plain => plain.try_as_str().flatten(),
    }
}

/// Parses each distinct object once.
fn of_resources(column: &ArrayRef, key: &str) -> Option<ArrayRef> {
    let Some(rows) = column.as_dictionary_opt::<Int32Type>() else {
        let objects = cast(column, &DataType::Utf8).ok()?;
        let found = objects.as_string_opt::<i32>()?.iter();
        let found: StringArray = found.map(|object| member(object?, key)).collect();
        return Some(Arc::new(found));
    };
    let objects = cast(rows.values(), &DataType::Utf8).ok()?;
    let objects = objects.as_string_opt::<i32>()?.iter();
    let values: Vec<Option<String>> = objects.map(|object| member(object?, key)).collect();
    let mut found = StringBuilder::new();
    found.extend(rows.keys().iter().map(|row| values.get(row? as usize)?.as_deref()));
    Some(Arc::new(found.finish()))
}

/// The text of a member of a JSON object.
fn member(object: &str, key: &str) -> Option<String> {
    let Value::Object(mut members) = serde_json::from_str(object).ok()? else { return None };
    match members.remove(key)? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

impl ScalarUDFImpl for AttributeFunction {
    fn name(&self) -> &str {
        match self.of {
            AttributeSource::Span => ATTRIBUTE,
            AttributeSource::Resource => "resource_attribute",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        let [column, key] = arguments else { return Err(self.misused()) };
        let is_right = match (self.of, column) {
            (AttributeSource::Span, column) => matches!(column, DataType::Map(..)),
            (AttributeSource::Resource, DataType::Dictionary(_, value)) => is_text(value),
            (AttributeSource::Resource, plain) => is_text(plain),
        };
        if is_right && is_text(key) { Ok(DataType::Utf8) } else { Err(self.misused()) }
    }

    fn invoke_with_args(
        &self,
        arguments: ScalarFunctionArgs,
    ) -> Result<ColumnarValue, DataFusionError> {
        let [column, key] = arguments.args.as_slice() else { return Err(self.misused()) };
        let key = key_of(key).ok_or_else(|| self.misused())?;
        let column = column.to_array(arguments.number_rows)?;
        let values = self.values(&column, key).ok_or_else(|| self.misused())?;
        Ok(ColumnarValue::Array(values))
    }
}
