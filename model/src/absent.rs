//! Columns of which no row has a value: most columns of most batches.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, new_empty_array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;

use crate::schema::span_schema;

/// Whether any row has a value of a column.
pub fn has_values(array: &dyn Array) -> bool {
    let none = |offsets: &[i32]| offsets.first() == offsets.last();
    match array.data_type() {
        DataType::List(_) => !none(array.as_list::<i32>().value_offsets()),
        DataType::Map(..) => !none(array.as_map().value_offsets()),
        _ => array.null_count() < array.len(),
    }
}

/// A column of so many rows, none of which has a value.
///
/// # Errors
/// Where rows must have one.
pub fn without_values(field: &Field, rows: usize) -> Result<ArrayRef, ArrowError> {
    match field.data_type() {
        DataType::List(item) if !field.is_nullable() => {
            let none = new_empty_array(item.data_type());
            let offsets = OffsetBuffer::new_zeroed(rows);
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, none, None)?))
        }
        DataType::Map(entry, ordered) if !field.is_nullable() => {
            let none = new_empty_array(entry.data_type());
            let offsets = OffsetBuffer::new_zeroed(rows);
            let none = none.as_struct().clone();
            let maps = MapArray::try_new(Arc::clone(entry), offsets, none, None, *ordered)?;
            Ok(Arc::new(maps))
        }
        data_type => Ok(new_null_array(data_type, rows)),
    }
}

/// As [`without_values`], of the column of the span schema at this place. All batches
/// of usual size share one array of it.
///
/// # Errors
/// As [`without_values`].
pub fn shared_without_values(place: usize, rows: usize) -> Result<ArrayRef, ArrowError> {
    const SHARED_ROWS: usize = 4096;
    static SHARED: LazyLock<Vec<Option<ArrayRef>>> = LazyLock::new(|| {
        let schema = span_schema();
        schema.fields().iter().map(|field| without_values(field, SHARED_ROWS).ok()).collect()
    });
    match SHARED.get(place) {
        Some(Some(shared)) if rows <= SHARED_ROWS => Ok(shared.slice(0, rows)),
        _ => without_values(span_schema().field(place), rows),
    }
}
