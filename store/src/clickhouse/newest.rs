//! The newest rows of several answers.

use arrow::array::RecordBatch;
use arrow::compute::{SortOptions, concat_batches, sort_to_indices, take_record_batch};
use arrow::error::ArrowError;
use spanwise_model::schema::column;

/// The rows with the latest starts, the newest first. The batches have the same
/// columns, the start among them.
pub(super) fn newest(
    batches: Vec<RecordBatch>,
    limit: usize,
) -> Result<Vec<RecordBatch>, ArrowError> {
    let Some(first) = batches.first() else { return Ok(batches) };
    let rows = concat_batches(&first.schema(), &batches)?;
    let Some(starts) = rows.column_by_name(column::START_UNIX_NANO) else {
        return Err(ArrowError::SchemaError("there is no start".to_owned()));
    };
    let descending = SortOptions { descending: true, nulls_first: false };
    let order = sort_to_indices(starts, Some(descending), Some(limit))?;
    Ok(vec![take_record_batch(&rows, &order)?])
}
