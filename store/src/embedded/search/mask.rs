//! Evaluates predicates on rows.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp;
use arrow::compute::{and, is_not_null, is_null, not};
use arrow::datatypes::Int32Type;
use arrow::error::ArrowError;
use spanwise_model::schema::column;
use spanwise_model::{SpanRows, Status};

use super::condition;
use crate::contract::{Predicate, TimeRange};
use crate::embedded::keys::{in_range, starts};

/// The columns that the predicate reads.
pub(crate) fn columns(predicate: &Predicate) -> Vec<&'static str> {
    let mut columns = vec![column::START_UNIX_NANO];
    let mut need = |needed: bool, name| columns.extend(needed.then_some(name));
    need(predicate.service.is_some(), column::SERVICE);
    need(predicate.operation.is_some(), column::OPERATION);
    let duration = predicate.min_duration_nano.or(predicate.max_duration_nano).is_some();
    need(duration, column::DURATION_NANO);
    need(predicate.status.is_some(), column::STATUS);
    let anywhere = !predicate.anywhere.is_empty();
    need(!predicate.attributes.is_empty() || anywhere, column::ATTRIBUTES);
    need(!predicate.attributes.is_empty() || anywhere, column::RESOURCE);
    need(anywhere, column::EVENTS);
    need(anywhere, column::LINKS);
    need(predicate.assembled, column::ASSEMBLED_TRACE_ID);
    need(predicate.root, column::ASSEMBLED_PARENT);
    columns
}

/// The rows with this text. In a dictionary, each text is compared once.
pub(crate) fn equals(column: &ArrayRef, text: &str) -> Result<BooleanArray, ArrowError> {
    let dictionary = column.as_dictionary_opt::<Int32Type>();
    let values = dictionary.and_then(|array| array.values().as_string_opt::<i32>());
    let (Some(dictionary), Some(values)) = (dictionary, values) else {
        return cmp::eq(column, &StringArray::new_scalar(text));
    };
    let equal: Vec<bool> = values.iter().map(|value| value == Some(text)).collect();
    let keys = dictionary.keys();
    let is_equal = |row| {
        let key = usize::try_from(keys.value(row)).ok().filter(|_| keys.is_valid(row));
        key.and_then(|key| equal.get(key)).is_some_and(|equal| *equal)
    };
    Ok(BooleanBuffer::collect_bool(keys.len(), is_equal).into())
}

fn column_of<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, ArrowError> {
    batch
        .column_by_name(name)
        .ok_or_else(|| ArrowError::SchemaError(format!("there is no column {name}")))
}

/// The rows or shapes that match the part of the predicate on shapes' columns.
pub(crate) fn of_shapes(
    batch: &RecordBatch,
    predicate: &Predicate,
) -> Result<BooleanArray, ArrowError> {
    let mut mask: BooleanArray = BooleanBuffer::new_set(batch.num_rows()).into();
    let is = |name: &str, text: &str| equals(column_of(batch, name)?, text);
    if let Some(service) = &predicate.service {
        mask = and(&mask, &is(column::SERVICE, service)?)?;
    }
    if let Some(operation) = &predicate.operation {
        mask = and(&mask, &is(column::OPERATION, operation)?)?;
    }
    match predicate.status {
        // A span without an error status counts as successful.
        Some(Status::Ok) => mask = and(&mask, &not(&is(column::STATUS, Status::Error.as_str())?)?)?,
        Some(status) => mask = and(&mask, &is(column::STATUS, status.as_str())?)?,
        None => {}
    }
    Ok(mask)
}

/// The rows in memory that match the predicate.
pub(crate) fn of_rows_in_memory(
    rows: &SpanRows,
    predicate: &Predicate,
    time: TimeRange,
) -> Result<BooleanArray, ArrowError> {
    let of_columns =
        Predicate { attributes: Vec::new(), anywhere: Vec::new(), ..predicate.clone() };
    let mut mask = of_rows(rows.columns(), &of_columns, time)?;
    for wanted in &predicate.attributes {
        mask = and(&mask, &condition::of_rows_in_memory(rows, wanted)?)?;
    }
    for wanted in &predicate.anywhere {
        mask = and(&mask, &condition::of_rows_in_memory_anywhere(rows, wanted)?)?;
    }
    Ok(mask)
}

/// The rows that match the predicate.
pub(crate) fn of_rows(
    batch: &RecordBatch,
    predicate: &Predicate,
    time: TimeRange,
) -> Result<BooleanArray, ArrowError> {
    let column = |name: &str| column_of(batch, name);
    let mut mask: BooleanArray = match starts(batch) {
        Some(starts) => {
            let starts = starts.values();
            BooleanBuffer::collect_bool(starts.len(), |row| in_range(starts[row], time)).into()
        }
        None => return Err(ArrowError::SchemaError("there is no start".to_owned())),
    };
    let mut also = |more: BooleanArray| -> Result<(), ArrowError> {
        mask = and(&mask, &more)?;
        Ok(())
    };
    also(of_shapes(batch, predicate)?)?;
    if let Some(least) = predicate.min_duration_nano {
        also(cmp::gt_eq(column(column::DURATION_NANO)?, &Int64Array::new_scalar(least))?)?;
    }
    if let Some(most) = predicate.max_duration_nano {
        also(cmp::lt_eq(column(column::DURATION_NANO)?, &Int64Array::new_scalar(most))?)?;
    }
    for wanted in &predicate.attributes {
        also(condition::of_rows(batch, wanted)?)?;
    }
    for wanted in &predicate.anywhere {
        also(condition::of_rows_anywhere(batch, wanted)?)?;
    }
    if predicate.assembled {
        also(is_not_null(column(column::ASSEMBLED_TRACE_ID)?)?)?;
    }
    if predicate.root {
        also(is_null(column(column::ASSEMBLED_PARENT)?)?)?;
    }
    Ok(mask)
}
