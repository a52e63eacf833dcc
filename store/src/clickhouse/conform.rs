//! Converts rows from ClickHouse's types to those of the span schema.
//!
//! ClickHouse returns plain texts for dictionaries, other names for the parts of maps and lists,
//! and different nullability.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use spanwise_model::schema::span_schema;

/// Converts the batch to this schema. Its columns are in the same order.
pub(super) fn to_schema(
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    if batch.num_columns() != schema.fields().len() {
        return Err(ArrowError::SchemaError(format!(
            "{} columns came where {} were asked for",
            batch.num_columns(),
            schema.fields().len()
        )));
    }
    let fields = schema.fields().iter();
    let columns: Vec<ArrayRef> = fields
        .zip(batch.columns())
        .map(|(field, array)| to_field(array, field))
        .collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// Converts the answer to a user's statement. Columns of spans get the schema's types, as in every
/// store. Other columns stay.
pub(super) fn spans_where_they_are(batch: RecordBatch) -> RecordBatch {
    let spans = span_schema();
    let given = batch.schema();
    let pairs = given.fields().iter().zip(batch.columns());
    let (fields, columns): (Vec<FieldRef>, Vec<ArrayRef>) = pairs
        .map(|(field, array)| {
            let same = spans.field_with_name(field.name()).ok();
            let like = same.filter(|span| is_alike(array.data_type(), span.data_type()));
            let fits = like.filter(|span| span.is_nullable() || array.null_count() == 0);
            match fits.and_then(|span| Some((span, to_field(array, span).ok()?))) {
                Some((span, array)) => (Arc::new(span.clone()), array),
                None => (Arc::clone(field), Arc::clone(array)),
            }
        })
        .unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(Schema::new(fields));
    RecordBatch::try_new_with_options(schema, columns, &options).unwrap_or(batch)
}

/// Whether a column of this type can be a span column, rather than another value with the same
/// name.
fn is_alike(given: &DataType, wanted: &DataType) -> bool {
    match (given, wanted) {
        (DataType::Utf8, DataType::Dictionary(_, value)) => **value == DataType::Utf8,
        (DataType::Map(..), DataType::Map(..)) | (DataType::List(_), DataType::List(_)) => true,
        _ => given == wanted,
    }
}

fn to_field(array: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    let array = to_type(array, field.data_type())?;
    if !field.is_nullable() && array.null_count() > 0 {
        return Err(ArrowError::SchemaError(format!("{} is null in some rows", field.name())));
    }
    Ok(array)
}

fn to_type(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), wanted) {
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let map = array.as_map();
            let pairs =
                to_type(&(Arc::new(map.entries().clone()) as ArrayRef), entries.data_type())?;
            let pairs = pairs.as_struct().clone();
            let (field, nulls) = (Arc::clone(entries), map.nulls().cloned());
            Ok(Arc::new(MapArray::try_new(field, map.offsets().clone(), pairs, nulls, *sorted)?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let values = to_field(list.values(), item)?;
            let (item, nulls) = (Arc::clone(item), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(item, list.offsets().clone(), values, nulls)?))
        }
        (DataType::Struct(given), DataType::Struct(fields)) if given.len() == fields.len() => {
            let parts = array.as_struct();
            let columns = fields
                .iter()
                .zip(parts.columns())
                .map(|(field, column)| to_field(column, field))
                .collect::<Result<Vec<_>, _>>()?;
            let nulls = parts.nulls().cloned();
            let parts =
                StructArray::try_new_with_length(fields.clone(), columns, nulls, parts.len())?;
            Ok(Arc::new(parts))
        }
        _ => cast(array, wanted),
    }
}
