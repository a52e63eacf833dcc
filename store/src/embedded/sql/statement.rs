//! Runs one statement with DataFusion over any source of rows.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DataFusionError;
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{LogicalPlan, ScalarUDF};
use datafusion::prelude::SessionConfig;
use futures::StreamExt as _;

use super::attribute::AttributeFunction;
use super::functions::ServerFunction;
use super::table::{Source, SpanTable};
use super::{depth, keys, words};
use crate::contract::StoreError;
use crate::embedded::fault;

/// Stack size for planning and execution. Statements deeper than [`depth`] allows could overflow
/// it.
pub(super) const STACK_BYTES: usize = 64 << 20;

/// Limits of a statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Maximum rows of the answer.
    pub(super) rows: usize,
    /// Memory that the engine counts: what it keeps between batches.
    pub(super) memory_bytes: usize,
    /// The statement is stopped at the first batch after this time.
    pub(super) timeout: Duration,
}

/// Receives the batches of an answer. Returns `false` to stop.
pub(super) type BatchReceiver<'a> = dyn FnMut(RecordBatch) -> Result<bool, StoreError> + 'a;

/// Runs a statement on this thread, which needs [`STACK_BYTES`] of stack. Returns whether there
/// were more rows than the limit.
pub(super) fn run(
    source: Arc<dyn Source>,
    statement: &str,
    bounds: Bounds,
    take: &mut BatchReceiver<'_>,
) -> Result<bool, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(fault::io("cannot start the SQL engine"))?;
    runtime.block_on(async {
        let executed = execute(source, statement, bounds, take);
        tokio::time::timeout(bounds.timeout, executed)
            .await
            .unwrap_or_else(|_| Err(words::too_slow(bounds.timeout)))
    })
}

async fn execute(
    source: Arc<dyn Source>,
    statement: &str,
    bounds: Bounds,
    take: &mut BatchReceiver<'_>,
) -> Result<bool, StoreError> {
    let asked = plan(source, statement, bounds).await?;
    let mut left = bounds.rows;
    let mut rows = asked.frame.execute_stream().await.map_err(words::refused)?;
    let schema = rows.schema();
    let mut is_empty = true;
    while let Some(batch) = rows.next().await {
        let mut batch = batch.map_err(words::refused)?;
        if asked.is_explained {
            batch = line_by_line(&batch).map_err(words::refused)?;
        }
        let more = batch.num_rows() > left;
        let batch = batch.slice(0, batch.num_rows().min(left));
        left -= batch.num_rows();
        is_empty &= batch.num_rows() == 0;
        if (batch.num_rows() > 0 && !take(batch)?) || more {
            return Ok(true);
        }
    }
    if is_empty {
        // Returns the columns even if there are no rows.
        take(RecordBatch::new_empty(schema))?;
    }
    Ok(false)
}

struct PlannedStatement {
    frame: DataFrame,
    /// Whether the answer is a query plan (EXPLAIN).
    is_explained: bool,
}

async fn plan(
    source: Arc<dyn Source>,
    statement: &str,
    bounds: Bounds,
) -> Result<PlannedStatement, StoreError> {
    let table = Arc::new(SpanTable::new(Arc::clone(&source)));
    let context = context(Arc::clone(&table), bounds).map_err(words::refused)?;
    for name in source.functions() {
        let function = ServerFunction::new(&name, Arc::clone(&source));
        context.register_udtf(&name, Arc::new(function));
    }
    let state = context.state();
    let dialect = &state.config_options().sql_parser.dialect;
    let statement = state.sql_to_statement(statement, dialect).map_err(words::refused)?;
    depth::check(&statement).map_err(StoreError::Invalid)?;
    let plan = state.statement_to_plan(statement).await.map_err(words::refused)?;
    let read_only =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    read_only.verify_plan(&plan).map_err(words::refused)?;
    if let Some(keys) = keys::read_by(&plan) {
        table.only_attributes(keys);
    }
    let is_explained = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    let frame = context.execute_logical_plan(plan).await.map_err(words::refused)?;
    // One row more than requested shows whether there are more. An explanation is one row.
    let frame = match is_explained {
        true => frame,
        false => {
            let most = bounds.rows.saturating_add(1);
            frame.limit(0, Some(most)).map_err(words::refused)?
        }
    };
    Ok(PlannedStatement { frame, is_explained })
}

fn context(table: Arc<SpanTable>, bounds: Bounds) -> Result<SessionContext, DataFusionError> {
    let config = SessionConfig::new().with_target_partitions(1).with_information_schema(true);
    // A statement that exceeds its memory ends. It does not spill to the disk.
    let no_spill = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(bounds.memory_bytes, 1.0)
        .with_disk_manager_builder(no_spill)
        .build_arc()?;
    let context = SessionContext::new_with_config_rt(config, runtime);
    context.register_udf(ScalarUDF::from(AttributeFunction::of_spans()));
    context.register_udf(ScalarUDF::from(AttributeFunction::of_resources()));
    context.register_table("spans", table)?;
    Ok(context)
}

/// The plans of an explanation with one row for each line, for display in a table.
fn line_by_line(batch: &RecordBatch) -> Result<RecordBatch, DataFusionError> {
    let [kinds, plans] = batch.columns() else { return Ok(batch.clone()) };
    let (Some(kinds), Some(plans)) = (kinds.as_string_opt::<i32>(), plans.as_string_opt::<i32>())
    else {
        return Ok(batch.clone());
    };
    let lines = (0..batch.num_rows()).flat_map(|row| {
        let kind = kinds.value(row);
        let plan = if plans.is_null(row) { "" } else { plans.value(row) };
        plan.lines().map(move |line| (kind, line))
    });
    let (kinds, plans): (Vec<&str>, Vec<&str>) = lines.unzip();
    let fields = batch.schema_ref().fields().iter();
    let fields: Vec<Field> =
        fields.map(|field| Field::new(field.name(), DataType::Utf8, false)).collect();
    let columns: Vec<ArrayRef> =
        vec![Arc::new(StringArray::from(kinds)), Arc::new(StringArray::from(plans))];
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}
