//! Cells of result batches as JSON values.

use std::fmt;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::Value;
use spanwise_api::exact::is_exact;
use spanwise_store::MAX_ANSWER_BYTES;

/// One cell. A text is truncated at the maximum length of an answer, or at the deadline.
pub(super) fn cell(array: &ArrayRef, row: usize, deadline: Instant) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        // An array of this type has no mask of nulls.
        DataType::Null => Value::Null,
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Float32 => f64::from(array.as_primitive::<Float32Type>().value(row)).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Int64 => {
            let number = array.as_primitive::<Int64Type>().value(row);
            if is_exact(number) { number.into() } else { number.to_string().into() }
        }
        DataType::UInt64 => {
            let number = array.as_primitive::<UInt64Type>().value(row);
            i64::try_from(number)
                .ok()
                .filter(|number| is_exact(*number))
                .map_or_else(|| number.to_string().into(), Value::from)
        }
        kind => {
            let options = FormatOptions::default();
            let mut text = Limited { text: String::new(), parts: 0, deadline };
            if let Ok(formatter) = ArrayFormatter::try_new(array, &options) {
                // The only possible error is that of `Limited`.
                let _ = formatter.value(row).write(&mut text);
            }
            let Limited { text, .. } = text;
            if kind.is_integer() {
                return text.parse::<i64>().map_or_else(|_| text.into(), Value::from);
            }
            text.into()
        }
    }
}

/// A text with limits on length and time: a list may have a million elements, or the same long
/// value a million times.
struct Limited {
    text: String,
    parts: u32,
    deadline: Instant,
}

impl fmt::Write for Limited {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        /// The clock is read after this many parts.
        const PARTS: u32 = 4096;
        self.parts = self.parts.wrapping_add(1);
        let is_late = self.parts.is_multiple_of(PARTS) && Instant::now() > self.deadline;
        if is_late || self.text.len() + part.len() > MAX_ANSWER_BYTES {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}
