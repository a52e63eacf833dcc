//! Columns without any value, which are most columns of most batches.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, new_empty_array, new_null_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;

use crate::schema::span_schema;

/// Whether any row has a value in a column.
pub fn has_values(array: &dyn Array) -> bool {
    let none = |offsets: &[i32]| offsets.first() == offsets.last();
    match array.data_type() {
        DataType::List(_) => !none(array.as_list::<i32>().value_offsets()),
        DataType::Map(..) => !none(array.as_map().value_offsets()),
        _ => array.null_count() < array.len(),
    }
}

/// A column of nulls.
///
/// # Errors
/// If the field is not nullable.
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

/// Number of rows of the shared columns.
const SHARED_ROWS: usize = 4096;

/// For each nullable column of the span schema, a column of nulls.
static SHARED: LazyLock<Vec<Option<ArrayRef>>> = LazyLock::new(|| {
    let schema = span_schema();
    schema.fields().iter().map(|field| without_values(field, SHARED_ROWS).ok()).collect()
});

/// Like [`without_values`], for the column with this index of the span schema. All batches of
/// normal size share one array of nulls.
///
/// # Errors
/// The errors of [`without_values`].
pub fn shared_without_values(place: usize, rows: usize) -> Result<ArrayRef, ArrowError> {
    match SHARED.get(place) {
        Some(Some(shared)) if rows <= SHARED_ROWS => Ok(shared.slice(0, rows)),
        _ => without_values(span_schema().field(place), rows),
    }
}

/// Whether this is the shared array of the column with this index, which takes no memory of its
/// own.
pub fn is_shared(place: usize, array: &dyn Array) -> bool {
    let start = |array: &dyn Array| match array.data_type() {
        DataType::List(_) => Some(array.as_list::<i32>().offsets().inner().inner().as_ptr()),
        DataType::Map(..) => Some(array.as_map().offsets().inner().inner().as_ptr()),
        _ => array.nulls().map(|nulls| nulls.inner().inner().as_ptr()),
    };
    let shared = SHARED.get(place).and_then(Option::as_ref);
    shared.is_some_and(|shared| start(shared).is_some() && start(shared) == start(array))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_known_and_nothing_else() {
        for (place, field) in span_schema().fields().iter().enumerate() {
            let shared = shared_without_values(place, 3).unwrap();
            assert!(is_shared(place, &shared) && !has_values(&shared), "{field}");
            let own = without_values(field, 3).unwrap();
            assert!(!is_shared(place, &own) && !has_values(&own), "{field}");
            let large = shared_without_values(place, SHARED_ROWS + 1).unwrap();
            assert!(!is_shared(place, &large), "{field}");
            assert_eq!(large.len(), SHARED_ROWS + 1);
        }
    }
}
