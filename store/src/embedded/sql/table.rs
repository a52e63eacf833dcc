//! The SQL table `spans` over any source of rows.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Operator, TableProviderFilterPushDown, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use serde::{Deserialize, Serialize};
use spanwise_model::schema::{column, span_schema};

use crate::contract::TimeRange;

/// A selection of columns and rows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Scan {
    /// Indexes of columns in the span schema, in the requested order.
    pub(super) places: Vec<usize>,
    /// Minimum and maximum start. The source may also return other rows.
    pub(super) starts: (i64, i64),
    /// Requested attribute keys; `None` means all. The source may also return others.
    pub(super) keys: Option<Vec<String>>,
}

impl Scan {
    pub(super) const fn time(&self) -> TimeRange {
        TimeRange { from_unix_nano: self.starts.0, to_unix_nano: self.starts.1 }
    }

    /// The schema of the selected columns.
    ///
    /// # Errors
    /// If a column does not exist.
    pub(super) fn schema(&self) -> Result<SchemaRef, DataFusionError> {
        Ok(Arc::new(span_schema().project(&self.places)?))
    }
}

/// Batches of a scan's rows.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, DataFusionError>> + Send>;

/// A source of rows.
pub(super) trait Source: fmt::Debug + Send + Sync {
    /// Starts a scan. It may block, so it runs on the statement's thread.
    fn scan(&self, scan: &Scan) -> Batches;

    /// The names of the server's table functions.
    fn functions(&self) -> Vec<String>;

    /// The rows of a table function. It may block, likewise.
    ///
    /// # Errors
    /// What the function says of its arguments.
    fn call(&self, name: &str, arguments: &[String]) -> Result<RecordBatch, DataFusionError>;
}

/// The table `spans`. See the module's description.
#[derive(Debug)]
pub(super) struct SpanTable {
    source: Arc<dyn Source>,
    keys: OnceLock<Vec<String>>,
}

impl SpanTable {
    pub(super) fn new(source: Arc<dyn Source>) -> Self {
        Self { source, keys: OnceLock::new() }
    }

    /// Announces that no other attributes are read.
    pub(super) fn only_attributes(&self, keys: Vec<String>) {
        let _ = self.keys.set(keys);
    }
}

#[async_trait]
impl TableProvider for SpanTable {
    fn schema(&self) -> SchemaRef {
        span_schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>, DataFusionError> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let all = || (0..span_schema().fields().len()).collect();
        let places = projection.cloned().unwrap_or_else(all);
        let time = time(filters);
        let starts = (time.from_unix_nano, time.to_unix_nano);
        let scan = Scan { places, starts, keys: self.keys.get().cloned() };
        let schema = scan.schema()?;
        let rows = Rows { source: Arc::clone(&self.source), scan, schema: Arc::clone(&schema) };
        let none = std::iter::empty();
        let exec =
            StreamingTableExec::try_new(schema, vec![Arc::new(rows)], None, none, false, limit)?;
        Ok(Arc::new(exec))
    }
}

/// The range of starts that all filters together allow.
fn time(filters: &[Expr]) -> TimeRange {
    let mut range = TimeRange::ALL;
    for filter in filters {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = filter else { continue };
        let (name, op, value) = match (left.as_ref(), right.as_ref()) {
            (Expr::Column(name), Expr::Literal(value, _)) => (name, Some(*op), value),
            (Expr::Literal(value, _), Expr::Column(name)) => (name, op.swap(), value),
            _ => continue,
        };
        let ScalarValue::Int64(Some(value)) = value else { continue };
        if name.name != column::START_UNIX_NANO {
            continue;
        }
        match op {
            Some(Operator::Gt | Operator::GtEq) => {
                range.from_unix_nano = range.from_unix_nano.max(*value);
            }
            Some(Operator::Lt | Operator::LtEq) => {
                range.to_unix_nano = range.to_unix_nano.min(value.saturating_add(1));
            }
            Some(Operator::Eq) => {
                range.from_unix_nano = range.from_unix_nano.max(*value);
                range.to_unix_nano = range.to_unix_nano.min(value.saturating_add(1));
            }
            _ => {}
        }
    }
    range
}

/// The rows of one scan.
#[derive(Debug)]
struct Rows {
    source: Arc<dyn Source>,
    scan: Scan,
    schema: SchemaRef,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = self.source.scan(&self.scan);
        let stream = futures::stream::unfold(batches, |mut batches| async move {
            // The thread may block for a batch, but must check the timeout between batches.
            tokio::task::yield_now().await;
            batches.next().map(|batch| (batch, batches))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}
