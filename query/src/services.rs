//! Services and operations, with sums over their spans.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use spanwise_model::schema::column;
use spanwise_model::{Capture, Kind, ModelError, Status};
use spanwise_store::SqlLimits;

use crate::{Queries, QueryError};

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(10), rows: 10_000, memory_bytes: 512 << 20 };

/// The most operations of an answer.
const MOST_OPERATIONS: usize = 10_000;

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
        let columns = [column::SERVICE, column::CAPTURE, column::STATUS];
        let mut totals = self.store.total_rows(&columns, LIMITS).await?;
        totals.sort_unstable_by(|one, other| one.words.cmp(&other.words));
        let mut services: Vec<ServiceTotal> = Vec::new();
        for total in totals {
            let [name, capture, status] = words(total.words)?;
            // They are sorted: those of one service follow each other.
            if services.last().is_none_or(|last| last.name != name) {
                services.push(ServiceTotal {
                    name,
                    captures: Vec::new(),
                    spans: 0,
                    errors: 0,
                    last_seen_unix_nano: i64::MIN,
                });
            }
            let Some(service) = services.last_mut() else { continue };
            if let Ok(capture) = capture.parse()
                && service.captures.last() != Some(&capture)
            {
                service.captures.push(capture);
            }
            service.spans += total.rows;
            service.errors += if status == Status::Error.as_str() { total.rows } else { 0 };
            service.last_seen_unix_nano =
                service.last_seen_unix_nano.max(total.last_start_unix_nano);
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
        let columns = [column::SERVICE, column::OPERATION, column::KIND];
        let mut sums: BTreeMap<(String, String), u64> = BTreeMap::new();
        for total in self.store.total_rows(&columns, LIMITS).await? {
            let [own, operation, kind] = words(total.words)?;
            if service.is_none_or(|service| service == own) {
                *sums.entry((operation, kind)).or_default() += total.rows;
            }
        }
        let mut operations: Vec<OperationTotal> = sums
            .into_iter()
            .map(|((name, kind), spans)| OperationTotal {
                name,
                kind: kind.parse().unwrap_or(Kind::Internal),
                spans,
            })
            .collect();
        operations.sort_by_key(|operation| Reverse(operation.spans));
        operations.truncate(MOST_OPERATIONS);
        Ok(operations)
    }
}

fn words<const N: usize>(words: Vec<String>) -> Result<[String; N], ModelError> {
    words.try_into().map_err(|_| ModelError::Column { column: "of the store's totals" })
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
