//! Statements that people type, run by DataFusion.
//!
//! Each runs on a thread of its own, with its own runtime and a large stack: a
//! statement that takes long or is nested deeply hurts no one else.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::execution::context::{SQLOptions, SessionContext};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionConfig;
use tokio::sync::{Semaphore, oneshot};

use super::attribute::AttributeFunction;
use super::fault;
use super::state::Snapshot;
use super::table::SpanTable;
use crate::contract::{MAX_STATEMENT_BYTES, SqlLimits, StoreError};

/// Statements that run at the same time. Others wait, within their time.
const AT_ONCE: usize = 4;
/// Only what is used of it takes memory.
const STACK_BYTES: usize = 512 << 20;

/// Runs statements.
pub(super) struct Engine {
    room: Arc<Semaphore>,
}

impl Engine {
    pub(super) fn new() -> Self {
        Self { room: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Runs one statement over the table `spans`.
    pub(super) async fn run(
        &self,
        snapshot: Snapshot,
        statement: &str,
        limits: SqlLimits,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        if statement.len() > MAX_STATEMENT_BYTES {
            return Err(StoreError::Invalid(format!(
                "the statement is {} bytes long; at most {MAX_STATEMENT_BYTES} are allowed",
                statement.len()
            )));
        }
        let late = || {
            StoreError::Limit(format!(
                "it took longer than {:?}; ask for fewer columns or a shorter time",
                limits.timeout
            ))
        };
        let waited = async {
            // The semaphore is never closed.
            let room = Arc::clone(&self.room).acquire_owned().await.ok();
            let (done, answer) = oneshot::channel();
            let statement = statement.to_owned();
            std::thread::Builder::new()
                .name("sql".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let _ = done.send(run(snapshot, &statement, limits));
                    drop(room);
                })
                .map_err(fault::io("cannot start a thread for the statement"))?;
            answer.await.unwrap_or_else(|_| {
                Err(fault::engine("the statement could not be run")("the engine gave up"))
            })
        };
        tokio::time::timeout(limits.timeout, waited).await.unwrap_or_else(|_| Err(late()))
    }
}

fn run(
    snapshot: Snapshot,
    statement: &str,
    limits: SqlLimits,
) -> Result<Vec<RecordBatch>, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(fault::io("cannot start the SQL engine"))?;
    runtime.block_on(async {
        // No one waits any more after this; it only has to end.
        match tokio::time::timeout(limits.timeout, execute(snapshot, statement, limits)).await {
            Ok(answer) => answer.map_err(refused),
            Err(_) => Err(StoreError::Limit("it took too long".to_owned())),
        }
    })
}

async fn execute(
    snapshot: Snapshot,
    statement: &str,
    limits: SqlLimits,
) -> Result<Vec<RecordBatch>, DataFusionError> {
    let mut config = SessionConfig::new().with_target_partitions(1).with_information_schema(true);
    // Columns keep the types of the span schema.
    config.options_mut().execution.parquet.schema_force_view_types = false;
    config.options_mut().execution.parquet.pushdown_filters = true;
    // Full memory ends a statement, rather than to fill the disk.
    let no_spill = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_limit(limits.memory_bytes, 1.0)
        .with_disk_manager_builder(no_spill)
        .build_arc()?;
    let context = SessionContext::new_with_config_rt(config, runtime);
    context.register_udf(ScalarUDF::from(AttributeFunction::new()));
    context.register_table("spans", Arc::new(SpanTable::new(snapshot)))?;
    let read_only =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let frame = context.sql_with_options(statement, read_only).await?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let mut batches = frame.limit(0, Some(limits.rows))?.collect().await?;
    if batches.is_empty() {
        // The columns are told even where there are no rows.
        batches.push(RecordBatch::new_empty(schema));
    }
    Ok(batches)
}

/// Whose fault an error is: the asker's, a limit's, or ours.
fn refused(error: DataFusionError) -> StoreError {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(reason) => StoreError::Limit(format!(
            "it needs more memory than a statement may take; ask for less ({})",
            reason.lines().next().unwrap_or_default()
        )),
        DataFusionError::ArrowError(cause, _)
            if matches!(
                **cause,
                ArrowError::ParquetError(_)
                    | ArrowError::IoError(..)
                    | ArrowError::ExternalError(_)
            ) =>
        {
            fault::engine("the statement failed")(error)
        }
        DataFusionError::ParquetError(_)
        | DataFusionError::IoError(_)
        | DataFusionError::Internal(_)
        | DataFusionError::External(_)
        | DataFusionError::ExecutionJoin(_) => fault::engine("the statement failed")(error),
        _ => StoreError::Invalid(format!(
            "{}. One SELECT over the table `spans` can be run",
            error.strip_backtrace().trim_end_matches('.')
        )),
    }
}
