//! Converts rows for ClickHouse: adds ClickHouse's own columns and encodes an Arrow stream.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::error::ArrowError;
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use bytes::Bytes;
use spanwise_model::schema::column;

use super::schema::{DAY, INSERT_ID};

const DAY_NANO: i64 = 86_400_000_000_000;
/// Without a maximum age, the partition of a row may be at most this many days older than its file.
const PAST_DAYS: i64 = 30;
/// Maximum partitions for the rows of one file.
const MOST_PAST_DAYS: i64 = 400;

/// The partitions (days) that rows of one file may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Days {
    /// The day on which the file was written, since 1970.
    written: i64,
    first: i64,
}

impl Days {
    /// The days for a file that was written at this time, with this retention time. They do not
    /// depend on the current time. So a row that is sent twice gets the same partition, where
    /// ClickHouse recognises it.
    pub(super) fn of(written_unix_nano: i64, retain_seconds: Option<u64>) -> Self {
        let written = written_unix_nano.div_euclid(DAY_NANO);
        let kept = retain_seconds.and_then(|seconds| i64::try_from(seconds / 86_400 + 1).ok());
        let past = kept.unwrap_or(PAST_DAYS).min(MOST_PAST_DAYS);
        Self { written, first: written - past }
    }

    /// The day of a row: the day of its start, or the file's day if the start is implausible.
    fn day(self, start_unix_nano: i64) -> i32 {
        let day = start_unix_nano.div_euclid(DAY_NANO);
        let day = if (self.first..=self.written + 1).contains(&day) { day } else { self.written };
        i32::try_from(day).unwrap_or(0)
    }
}

/// The stream of a batch. Each row gets its day and the insert's id.
pub(super) fn stream(batch: &RecordBatch, days: Days, insert_id: u64) -> Result<Bytes, ArrowError> {
    let starts: &Int64Array = batch
        .column_by_name(column::START_UNIX_NANO)
        .and_then(|array| array.as_primitive_opt::<Int64Type>())
        .ok_or_else(|| ArrowError::SchemaError("there is no start".to_owned()))?;
    let day: Date32Array = starts.values().iter().map(|start| Some(days.day(*start))).collect();
    let id = UInt64Array::from(vec![insert_id; batch.num_rows()]);
    let mut fields = batch.schema().fields().to_vec();
    fields.push(Arc::new(Field::new(DAY, DataType::Date32, false)));
    fields.push(Arc::new(Field::new(INSERT_ID, DataType::UInt64, false)));
    let mut columns = batch.columns().to_vec();
    columns.extend([Arc::new(day) as ArrayRef, Arc::new(id)]);
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?;
    let options =
        IpcWriteOptions::default().try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    let mut out = Vec::new();
    let mut writer = StreamWriter::try_new_with_options(&mut out, &batch.schema(), options)?;
    writer.write(&batch)?;
    writer.finish()?;
    drop(writer);
    Ok(out.into())
}

/// The statement that inserts such a stream.
pub(super) fn insert_statement(table: &str) -> String {
    let schema = spanwise_model::schema::span_schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    format!("INSERT INTO {table} ({}, {DAY}, {INSERT_ID}) FORMAT ArrowStream", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_makes_no_sense_makes_no_partition() {
        let written = 20_000 * DAY_NANO + 5;
        let days = Days::of(written, Some(7 * 86_400));
        assert_eq!(days.day(written), 20_000);
        assert_eq!(days.day(written - DAY_NANO), 19_999);
        assert_eq!(days.day(written + DAY_NANO), 20_001);
        assert_eq!(days.day(written - 8 * DAY_NANO), 19_992);
        for start in [0, -1, i64::MIN, i64::MAX, written + 2 * DAY_NANO, written - 9 * DAY_NANO] {
            assert_eq!(days.day(start), 20_000, "{start}");
        }
        let partitions = |retain| {
            let days = Days::of(written, retain);
            let starts = (0..10_000).map(|day| day * DAY_NANO * 4);
            starts.map(|start| days.day(start)).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert!(partitions(None) < 32);
        assert!(partitions(Some(u64::MAX)) < 403);
    }
}
