//! Services and operations, with sums over their spans.

use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use spanwise_model::{Capture, Kind, ModelError, Status};
use spanwise_store::SqlLimits;

use crate::{Queries, QueryError};

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(10), rows: 10_000, memory_bytes: 512 << 20 };

/// The stored spans of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTotal {
    /// The service.
    pub name: String,
    /// Where its spans were captured.
    pub captures: Vec<Capture>,
    /// Its spans.
    pub spans: u64,
    /// Those that failed.
    pub errors: u64,
    /// The latest start.
    pub last_seen_unix_nano: i64,
}

/// The stored spans of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationTotal {
    /// The operation.
    pub name: String,
    /// The kind of its spans.
    pub kind: Kind,
    /// Its spans.
    pub spans: u64,
}

impl Queries {
    /// All services with stored spans, by name.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn services(&self) -> Result<Vec<ServiceTotal>, QueryError> {
        // Every store has the counts of these columns, or few values to read for them.
        let statement = "SELECT service, capture, status, count(*) AS spans, \
             max(start_unix_nano) AS last_seen \
             FROM spans GROUP BY service, capture, status ORDER BY service, capture";
        let batches = self.store.own_sql(statement, LIMITS).await?;
        let mut services: Vec<ServiceTotal> = Vec::new();
        for batch in &batches {
            let [service, capture, status] = texts(batch, [0, 1, 2])?;
            let [spans, last_seen] = integers(batch, [3, 4])?;
            for row in 0..batch.num_rows() {
                let name = service.value(row);
                // The rows are sorted: those of one service follow each other.
                if services.last().is_none_or(|last| last.name != name) {
                    services.push(ServiceTotal {
                        name: name.to_owned(),
                        captures: Vec::new(),
                        spans: 0,
                        errors: 0,
                        last_seen_unix_nano: i64::MIN,
                    });
                }
                let Some(total) = services.last_mut() else { continue };
                if let Ok(capture) = capture.value(row).parse()
                    && total.captures.last() != Some(&capture)
                {
                    total.captures.push(capture);
                }
                let spans = spans.value(row).unsigned_abs();
                let failed = status.value(row) == Status::Error.as_str();
                total.spans += spans;
                total.errors += if failed { spans } else { 0 };
                total.last_seen_unix_nano = total.last_seen_unix_nano.max(last_seen.value(row));
            }
        }
        Ok(services)
    }

    /// The operations of a service, or of all services, those with most spans first.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn operations(
        &self,
        service: Option<&str>,
    ) -> Result<Vec<OperationTotal>, QueryError> {
        let filter = service
            .map(|service| format!("WHERE service = '{}'", service.replace('\'', "''")))
            .unwrap_or_default();
        let statement = format!(
            "SELECT operation, kind, count(*) AS spans FROM spans {filter} \
             GROUP BY operation, kind ORDER BY spans DESC, operation LIMIT 1000"
        );
        let batches = self.store.own_sql(&statement, LIMITS).await?;
        let mut operations = Vec::new();
        for batch in &batches {
            let [operation, kind] = texts(batch, [0, 1])?;
            let [spans] = integers(batch, [2])?;
            operations.extend((0..batch.num_rows()).map(|row| OperationTotal {
                name: operation.value(row).to_owned(),
                kind: kind.value(row).parse().unwrap_or(Kind::Internal),
                spans: spans.value(row).unsigned_abs(),
            }));
        }
        Ok(operations)
    }
}

/// Columns of texts, whatever form the store gives them.
pub(crate) fn texts<const N: usize>(
    batch: &RecordBatch,
    columns: [usize; N],
) -> Result<[StringArray; N], ModelError> {
    let texts = |array: &ArrayRef| array.as_string_opt::<i32>().cloned();
    columns_as(batch, columns, &DataType::Utf8, texts)
}

/// Columns of integers, whatever form the store gives them.
pub(crate) fn integers<const N: usize>(
    batch: &RecordBatch,
    columns: [usize; N],
) -> Result<[Int64Array; N], ModelError> {
    let integers = |array: &ArrayRef| array.as_primitive_opt::<Int64Type>().cloned();
    columns_as(batch, columns, &DataType::Int64, integers)
}

/// Columns of numbers, whatever form the store gives them.
pub(crate) fn floats<const N: usize>(
    batch: &RecordBatch,
    columns: [usize; N],
) -> Result<[Float64Array; N], ModelError> {
    let floats = |array: &ArrayRef| array.as_primitive_opt::<Float64Type>().cloned();
    columns_as(batch, columns, &DataType::Float64, floats)
}

fn columns_as<A: Array, const N: usize>(
    batch: &RecordBatch,
    columns: [usize; N],
    data_type: &DataType,
    array: impl Fn(&ArrayRef) -> Option<A>,
) -> Result<[A; N], ModelError> {
    const CHANGED: ModelError = ModelError::Column { column: "of the store's own sums" };
    let read = |at: usize| -> Result<A, ModelError> {
        let column = batch.columns().get(at).ok_or(CHANGED)?;
        array(&cast(column, data_type)?).ok_or(CHANGED)
    };
    let read: Vec<A> = columns.into_iter().map(read).collect::<Result<_, _>>()?;
    read.try_into().map_err(|_| CHANGED)
}
