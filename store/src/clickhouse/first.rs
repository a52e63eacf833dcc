//! The first rows of several results.

use arrow::array::RecordBatch;
use arrow::compute::{
    SortColumn, SortOptions, concat_batches, lexsort_to_indices, take_record_batch,
};
use arrow::error::ArrowError;
use spanwise_model::schema::column;

use crate::contract::Order;

/// The columns that define the order, in descending order.
pub(super) const fn columns(order: Order) -> &'static [&'static str] {
    match order {
        Order::NewestFirst => &[column::START_UNIX_NANO],
        Order::LongestFirst => &[column::DURATION_NANO, column::START_UNIX_NANO],
    }
}

/// The first rows in this order. The batches have the same columns, including those of the order.
pub(super) fn first(
    batches: Vec<RecordBatch>,
    order: Order,
    limit: usize,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let Some(first) = batches.first() else { return Ok(batches) };
    let rows = concat_batches(&first.schema(), &batches)?;
    let options = Some(SortOptions { descending: true, nulls_first: false });
    let by = columns(order).iter().map(|name| match rows.column_by_name(name) {
        Some(values) => Ok(SortColumn { values: values.clone(), options }),
        None => Err(ArrowError::SchemaError(format!("there is no {name}"))),
    });
    let places = lexsort_to_indices(&by.collect::<Result<Vec<_>, _>>()?, Some(limit))?;
    Ok(vec![take_record_batch(&rows, &places)?])
}
