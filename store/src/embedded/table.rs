//! The table `spans` for SQL: rows in memory and files of one moment.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
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
use datafusion::physical_plan::union::UnionExec;
use futures::StreamExt as _;
use spanwise_model::schema::{column, span_schema};

use super::chunk::View;
use super::files::SpanFile;
use super::keys::overlaps;
use super::layout::Wanted;
use super::reader;
use super::state::Snapshot;
use crate::contract::TimeRange;

/// Rows of a file that are in memory at once.
const READ_ROWS: usize = 16 * 1024;

/// See the module.
#[derive(Debug)]
pub(super) struct SpanTable {
    recent: Arc<Vec<Arc<View>>>,
    files: Arc<Vec<Arc<SpanFile>>>,
}

impl SpanTable {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        Self { recent: Arc::new(snapshot.recent), files: Arc::new(snapshot.files) }
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
        let all: Vec<usize> = (0..span_schema().fields().len()).collect();
        let places = projection.cloned().unwrap_or(all);
        let schema = Arc::new(span_schema().project(&places)?);
        let recent = Memory {
            views: Arc::clone(&self.recent),
            schema: Arc::clone(&schema),
            places: places.into(),
        };
        let files = Scan {
            files: Arc::clone(&self.files),
            time: time(filters),
            schema: Arc::clone(&schema),
        };
        let streams: [Arc<dyn PartitionStream>; 2] = [Arc::new(recent), Arc::new(files)];
        let streamed = streams.map(|stream| {
            let (schema, none) = (Arc::clone(&schema), std::iter::empty());
            let exec = StreamingTableExec::try_new(schema, vec![stream], None, none, false, limit)?;
            Ok(Arc::new(exec) as Arc<dyn ExecutionPlan>)
        });
        UnionExec::try_new(streamed.into_iter().collect::<Result<_, DataFusionError>>()?)
    }
}

/// The times in which all rows lie that pass some filters, all of which hold.
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

/// Some columns of the rows in memory.
#[derive(Debug, Clone)]
struct Memory {
    views: Arc<Vec<Arc<View>>>,
    schema: SchemaRef,
    /// Of the columns in the schema of spans.
    places: Arc<[usize]>,
}

impl Memory {
    /// Its `number`-th batch.
    fn read(&self, number: usize) -> Result<RecordBatch, DataFusionError> {
        Ok(self.views[number].rows.project(&self.places).map_err(ArrowError::from)?)
    }
}

impl PartitionStream for Memory {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let memory = self.clone();
        let read = move |number| {
            let memory = memory.clone();
            async move {
                // As for files.
                tokio::task::yield_now().await;
                memory.read(number)
            }
        };
        let stream = futures::stream::iter(0..self.views.len()).then(read);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}

/// Some columns of the rows of all files.
#[derive(Debug)]
struct Scan {
    files: Arc<Vec<Arc<SpanFile>>>,
    time: TimeRange,
    schema: SchemaRef,
}

/// Rows of a file that are read together.
struct Part {
    file: Arc<SpanFile>,
    rows: Vec<Range<usize>>,
}

impl Scan {
    fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        for file in self.files.iter() {
            let blocks = file.index.blocks.iter();
            let blocks = blocks.filter(|block| overlaps(block.starts, self.time));
            let (mut rows, mut count) = (Vec::new(), 0);
            for block in blocks {
                rows.push(block.first_row..block.first_row + block.rows);
                count += block.rows;
                if count >= READ_ROWS {
                    parts.push(Part { file: Arc::clone(file), rows: std::mem::take(&mut rows) });
                    count = 0;
                }
            }
            parts.extend((count > 0).then(|| Part { file: Arc::clone(file), rows }));
        }
        parts
    }

    fn read(part: &Part, schema: &SchemaRef) -> Result<Vec<RecordBatch>, DataFusionError> {
        let rows = reader::left(&part.file, &part.rows);
        if schema.fields().is_empty() {
            let count = rows.iter().map(ExactSizeIterator::len).sum();
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            let rows = RecordBatch::try_new_with_options(Arc::clone(schema), vec![], &options)?;
            return Ok(vec![rows]);
        }
        let columns: Vec<&'static str> =
            column::ALL.iter().copied().filter(|name| schema.index_of(name).is_ok()).collect();
        let read = reader::read(&part.file, &rows, &Wanted::columns(&columns))?;
        // In the order that was asked for.
        let order: Result<Vec<usize>, _> = match read.first() {
            Some(first) => {
                schema.fields().iter().map(|f| first.schema_ref().index_of(f.name())).collect()
            }
            None => Ok(Vec::new()),
        };
        let order = order?;
        read.iter().map(|batch| Ok(batch.project(&order)?)).collect()
    }
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let read = move |part: Part| {
            let schema = Arc::clone(&schema);
            async move {
                // Statements run on a thread of their own, which may wait for a
                // disk, but must look at the clock from time to time.
                tokio::task::yield_now().await;
                futures::stream::iter(match Self::read(&part, &schema) {
                    Ok(batches) => batches.into_iter().map(Ok).collect(),
                    Err(error) => vec![Err(error)],
                })
            }
        };
        let stream = futures::stream::iter(self.parts()).then(read).flatten();
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream))
    }
}
