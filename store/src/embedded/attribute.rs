//! Values of the attribute map by key, for searches and as the SQL function
//! `attribute(attributes, 'key')`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// The text of each row's attribute of this key.
pub(super) fn texts<'a>(
    maps: &'a MapArray,
    key: &'a str,
) -> Option<impl Iterator<Item = Option<&'a str>>> {
    let keys = maps.keys().as_string_opt::<i32>()?;
    let values = maps.values().as_struct_opt()?.column_by_name("value")?.as_string_opt::<i32>()?;
    let offsets = maps.value_offsets();
    Some((0..maps.len()).map(move |row| {
        let mut entries = offsets[row] as usize..offsets[row + 1] as usize;
        let entry = entries.find(|&entry| keys.value(entry) == key)?;
        maps.is_valid(row).then(|| values.value(entry))
    }))
}

/// The SQL function. Null where the row has no such attribute.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AttributeFunction {
    signature: Signature,
}

impl AttributeFunction {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

fn misused() -> DataFusionError {
    DataFusionError::Plan(
        "attribute takes the attribute column and one key as a text: \
         attribute(attributes, 'http.route')"
            .to_owned(),
    )
}

fn key_of(argument: &ColumnarValue) -> Option<&str> {
    let ColumnarValue::Scalar(key) = argument else { return None };
    match key {
        ScalarValue::Dictionary(_, value) => value.try_as_str().flatten(),
        plain => plain.try_as_str().flatten(),
    }
}

impl ScalarUDFImpl for AttributeFunction {
    fn name(&self) -> &str {
        "attribute"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType, DataFusionError> {
        match arguments {
            [DataType::Map(..), DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8] => {
                Ok(DataType::Utf8)
            }
            _ => Err(misused()),
        }
    }

    fn invoke_with_args(
        &self,
        arguments: ScalarFunctionArgs,
    ) -> Result<ColumnarValue, DataFusionError> {
        let [maps, key] = arguments.args.as_slice() else { return Err(misused()) };
        let key = key_of(key).ok_or_else(misused)?;
        let maps = maps.to_array(arguments.number_rows)?;
        let maps = maps.as_map_opt().ok_or_else(misused)?;
        let mut found = StringBuilder::new();
        found.extend(texts(maps, key).ok_or_else(misused)?);
        Ok(ColumnarValue::Array(Arc::new(found.finish()) as ArrayRef))
    }
}
