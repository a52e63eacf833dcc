//! Limits the size of answers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;

use crate::contract::StoreError;
use crate::embedded::fault;

/// The remaining capacity of an answer.
#[derive(Debug)]
pub(super) struct Room {
    most_bytes: usize,
    left_bytes: usize,
    is_empty: bool,
}

impl Room {
    pub(super) const fn new(most_bytes: usize) -> Self {
        Self { most_bytes, left_bytes: most_bytes, is_empty: true }
    }

    /// As many of the batch's first rows as fit, and whether these are all.
    ///
    /// # Errors
    /// If not even the first row of the answer fits.
    pub(super) fn fit(&mut self, batch: &RecordBatch) -> Result<(RecordBatch, bool), StoreError> {
        let unreadable = "cannot measure the answer";
        let batch = without_views(batch).map_err(fault::engine(unreadable))?;
        let mut rows = batch.num_rows();
        loop {
            let part = batch.slice(0, rows);
            let bytes = bytes(&part).map_err(fault::engine(unreadable))?;
            if bytes <= self.left_bytes {
                self.left_bytes -= bytes;
                self.is_empty &= rows == 0;
                return Ok((part, rows == batch.num_rows()));
            }
            if rows <= 1 {
                if self.is_empty {
                    return Err(StoreError::Limit(format!(
                        "one row of its answer takes more than {} MiB; take a part of its \
                         columns, for instance with left(column, 1000)",
                        self.most_bytes >> 20
                    )));
                }
                return Ok((batch.slice(0, 0), false));
            }
            rows /= 2;
        }
    }
}

/// Bytes of these rows and the dictionaries that they need.
fn bytes(rows: &RecordBatch) -> Result<usize, ArrowError> {
    // Overhead of a column. Empty columns use memory, too.
    const COLUMN_BYTES: usize = 64;
    let sizes = rows.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    sizes.map(|size| size.map(|bytes| bytes + COLUMN_BYTES)).sum()
}

/// Converts string views to plain strings, which do not refer to bytes of other rows.
fn without_views(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let plain = |kind: &DataType| match kind {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        _ => None,
    };
    if batch.columns().iter().all(|column| plain(column.data_type()).is_none()) {
        return Ok(batch.clone());
    }
    let schema = batch.schema();
    let columns = batch.columns().iter().map(|column| match plain(column.data_type()) {
        Some(kind) => cast(column, &kind),
        None => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    let fields = schema.fields().iter().zip(&columns).map(|(field, column)| {
        Field::new(field.name(), column.data_type().clone(), field.is_nullable())
    });
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)
}
