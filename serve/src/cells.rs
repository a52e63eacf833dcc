//! Cells of result batches as JSON values.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::Value;

/// The integers that a JSON number holds exactly.
const EXACT: u64 = 1 << 53;

/// All rows of the batches, each as its cells.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            rows.push(batch.columns().iter().map(|column| cell(column, row)).collect());
        }
    }
    rows
}

fn cell(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Float32 => f64::from(array.as_primitive::<Float32Type>().value(row)).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Int64 => {
            let number = array.as_primitive::<Int64Type>().value(row);
            if number.unsigned_abs() > EXACT { number.to_string().into() } else { number.into() }
        }
        DataType::UInt64 => {
            let number = array.as_primitive::<UInt64Type>().value(row);
            if number > EXACT { number.to_string().into() } else { number.into() }
        }
        kind => {
            let options = FormatOptions::default();
            let text = ArrayFormatter::try_new(array, &options)
                .map(|formatter| formatter.value(row).to_string())
                .unwrap_or_default();
            if kind.is_integer() {
                return text.parse::<i64>().map_or_else(|_| text.into(), Value::from);
            }
            text.into()
        }
    }
}
