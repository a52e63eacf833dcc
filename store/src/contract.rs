//! The contract of every store.

mod condition;
mod count;

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use serde::Serialize;
use spanwise_model::{Assembled, SpanId, SpanRows, Status, TraceId};

use crate::embedded::DerivedFiles;
use crate::room::AnswerRoom;
pub use condition::{AttributeCondition, AttributeTest, Number};
pub(crate) use condition::{DOUBLE, INT, JSON, typed_text};
pub(crate) use count::Counts;
pub use count::{Counting, RowCounts, RowTotal};

/// Stores span rows durably and finds them.
#[async_trait]
pub trait Store: Send + Sync {
    /// Makes a batch of the span schema durable and findable. When this returns, the rows survive
    /// `kill -9`. A batch whose `origin` was already stored is not stored again. Within a batch of
    /// application spans, with or without an origin, a row is not stored again if it has a trace id
    /// and a stored row has the same trace, span, start, duration, kind, service and operation: it
    /// is the same span, sent twice.
    ///
    /// # Errors
    /// [`StoreError::Full`] if memory or disk is full: the sender must retry later. Nothing of a
    /// refused batch is kept.
    async fn append(&self, rows: SpanRows, origin: Option<Origin>) -> Result<Appended, StoreError>;

    /// Sets the assembled columns of appended rows. Rows that are already in immutable files stay
    /// unchanged (readers join them by their keys).
    async fn annotate(&self, rows: &[Assembled]) -> Result<(), StoreError>;

    /// Batches that were appended before the store was last closed or killed and have no assembled
    /// columns yet.
    fn unsettled(&self) -> Vec<Unsettled>;

    /// All rows with any of the keys, with all columns, in no particular order.
    async fn find_by_keys(
        &self,
        keys: &[Key],
        time: TimeRange,
    ) -> Result<Vec<RecordBatch>, StoreError>;

    /// The same rows with only the columns and attributes of the outline. They have the full span
    /// schema, but anything that is not requested may be null, or missing in a map or list.
    async fn find_outlines(
        &self,
        keys: &[Key],
        time: TimeRange,
        _outline: &Outline,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        self.find_by_keys(keys, time).await
    }

    /// Rows that match the query's predicate, in its order.
    async fn find(&self, query: &Query) -> Result<Vec<RecordBatch>, StoreError>;

    /// How many rows there are, by words that they have, in each interval.
    ///
    /// # Errors
    /// [`StoreError::Limit`] where there is too much to count.
    async fn count_rows(
        &self,
        counting: &Counting,
        limits: SqlLimits,
    ) -> Result<Vec<RowCounts>, StoreError> {
        counting.check()?;
        let mut counts = Counts::new(counting);
        for batch in self.own_sql(&counting.statement(), limits).await? {
            counts.add(&batch, counting.columns.len())?;
        }
        Ok(counts.finish())
    }

    /// How many rows there are by words of these columns, which are some of
    /// [`RowTotal::COLUMNS`], and when the last of them started.
    ///
    /// # Errors
    /// If rows cannot be read.
    async fn total_rows(
        &self,
        columns: &[&'static str],
        limits: SqlLimits,
    ) -> Result<Vec<RowTotal>, StoreError> {
        let mut totals = Vec::new();
        for batch in self.own_sql(&RowTotal::statement(columns), limits).await? {
            totals.extend(RowTotal::read(&batch, columns.len())?);
        }
        Ok(totals)
    }

    /// The names of all attributes of rows that started in this time; perhaps also of rows that
    /// are stored beside them. `None` where rows must be read to know them.
    async fn attribute_names(
        &self,
        _time: TimeRange,
    ) -> Result<Option<AttributeNames>, StoreError> {
        Ok(None)
    }

    /// All values that rows, or their resources, have of an attribute, with their types
    /// ([`spanwise_model::AttributeValue::type_number`]), of rows as [`Self::attribute_names`] has
    /// them. `None` where rows must be read to know them: those have values of their own, or
    /// events, links or the instrumentation scope may have the attribute.
    async fn attribute_values(
        &self,
        _key: &str,
        _time: TimeRange,
    ) -> Result<Option<AttributeValues>, StoreError> {
        Ok(None)
    }

    /// Runs one read-only SQL statement that somebody has typed, over the table
    /// `spans`. Whatever it says, it does not hurt the program. A store that keeps
    /// its rows elsewhere may show the newest ones a few seconds late.
    async fn sql(&self, statement: &str, limits: SqlLimits) -> Result<SqlAnswer, StoreError>;

    /// The same with table functions that are computed here. A store that keeps its rows elsewhere
    /// does not know them.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] where the statement calls a function that the store does not know.
    async fn sql_with(
        &self,
        statement: &str,
        functions: Arc<dyn SqlFunctions>,
        limits: SqlLimits,
    ) -> Result<SqlAnswer, StoreError>;

    /// Runs a trusted statement of the program itself. It does not wait for users' statements.
    async fn own_sql(
        &self,
        statement: &str,
        limits: SqlLimits,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        Ok(self.sql(statement, limits).await?.batches)
    }

    /// Drops rows that started before this time, as far as whole files contain only such rows. A
    /// start in the future counts as the time of arrival.
    async fn drop_before(&self, unix_nano: i64) -> Result<(), StoreError>;

    /// Deletes the rows of the selection that were appended before this call. When this returns, no
    /// answer contains them, also after `kill -9`. Their bytes leave the disk soon after. Rows
    /// appended later are not affected.
    ///
    /// # Errors
    /// If the deletion cannot be made durable. Nothing is deleted then.
    async fn delete(&self, selection: &Selection) -> Result<Deleted, StoreError>;

    /// Writes rows in memory to files if possible, and closes files. The store accepts no more
    /// rows.
    async fn close(&self) -> Result<(), StoreError>;

    /// Current statistics of the store.
    fn status(&self) -> StoreStatus;

    /// Files of bytes that were derived from rows, beside the rows; `None` where the store keeps
    /// none.
    fn derived(&self) -> Option<Arc<DerivedFiles>> {
        None
    }
}

/// What a part of derived bytes is, as whoever derived it names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DerivedPartName {
    /// What it is.
    pub kind: u32,
    /// What it is about.
    pub id: u64,
}

/// Bytes that were derived from rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedPart {
    /// Its name, which no other part of a file has.
    pub name: DerivedPartName,
    /// Its bytes, which the store does not understand.
    pub bytes: Vec<u8>,
}

/// The origin of a batch, to recognise one that is sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The sender: one run of one agent.
    pub source: [u8; 16],
    /// The sender's batch number, which increases by one for each batch.
    pub sequence: u64,
}

/// The result of appending a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// The batch was stored with this number, which [`spanwise_model::RowRef`] refers to.
    Stored {
        /// The batch's number.
        batch: u64,
    },
    /// Some of its spans were already stored. The others are stored with this number, and
    /// [`spanwise_model::RowRef`] counts only these.
    Partly {
        /// The batch's number.
        batch: u64,
        /// The indexes, in the appended batch, of the rows that were stored, ascending.
        rows: Vec<u32>,
    },
    /// The batch's origin or all its spans were already stored. Nothing was done.
    Duplicate,
}

/// A batch that waits for assembly.
#[derive(Debug, Clone)]
pub struct Unsettled {
    /// The batch's number.
    pub batch: u64,
    /// Its rows.
    pub rows: SpanRows,
}

/// An indexed value by which rows are found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// `assembled_trace_id`.
    AssembledTrace(TraceId),
    /// `trace_id`.
    Trace(TraceId),
    /// `span_id`.
    Span(SpanId),
    /// `fragment_id`.
    Fragment(u64),
    /// `request_tcp_seq` and `response_tcp_seq` together.
    TcpSequences(u32, u32),
    /// `x_request_id`.
    XRequestId(String),
    /// One of the messages in `logical_key`.
    Message(String),
}

/// Start times from `from_unix_nano` up to, not including, `to_unix_nano`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// Earliest start.
    pub from_unix_nano: i64,
    /// End of the range; a row that starts at this time is outside.
    pub to_unix_nano: i64,
}

impl TimeRange {
    /// All times.
    pub const ALL: Self = Self { from_unix_nano: i64::MIN, to_unix_nano: i64::MAX };
}

/// A filter on rows. All given fields must match.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Predicate {
    /// `service` equals this.
    pub service: Option<String>,
    /// `operation` equals this.
    pub operation: Option<String>,
    /// Minimum of `duration_nano`.
    pub min_duration_nano: Option<i64>,
    /// Maximum of `duration_nano`.
    pub max_duration_nano: Option<i64>,
    /// `status` equals this.
    pub status: Option<Status>,
    /// All of these conditions hold.
    pub attributes: Vec<AttributeCondition>,
    /// All of these hold of values anywhere in the row: besides those that
    /// `attributes` are asked of, values of its instrumentation scope (`otel.scope.KEY`),
    /// of its events and of its links. Only what asks for one value that passes.
    pub anywhere: Vec<AttributeCondition>,
    /// `assembled_trace_id` is known.
    pub assembled: bool,
    /// `assembled_parent` is null: the row is the root of its trace.
    pub root: bool,
    /// A hint: rows that certainly have no such row above them need not be found.
    pub above: Option<Above>,
}

/// Rows above a row in its trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Above {
    /// One of them fulfils one of these. Stores may look at services, operations and status only.
    pub any: Vec<Predicate>,
    /// Only the parent counts.
    pub only_parent: bool,
    /// The trace is put together of rows that start in this time, which contains the query's.
    pub within: TimeRange,
}

/// Which rows to return, how many, and which columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The filter.
    pub predicate: Predicate,
    /// The range of start times.
    pub time: TimeRange,
    /// Requested columns, by name; all if empty.
    pub columns: Vec<&'static str>,
    /// Of the column of attributes, only these keys are needed. Others may be there, too. All if
    /// `None`.
    pub keys: Option<Vec<String>>,
    /// Maximum rows to return.
    pub limit: usize,
    /// The order of rows. If there are more than `limit`, the first ones are returned.
    pub order: Order,
}

/// The order of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By start, latest first.
    #[default]
    NewestFirst,
    /// By duration, longest first; equal ones by start, latest first.
    LongestFirst,
}

/// A selection of columns and attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// Columns, by name. The column of attributes contains only the keys below.
    pub columns: Vec<&'static str>,
    /// Keys of attributes.
    pub attributes: Vec<String>,
}

/// Names of attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttributeNames {
    /// Those of rows themselves.
    pub own: BTreeSet<String>,
    /// Those of resources.
    pub resources: BTreeSet<String>,
}

/// Values of an attribute: types and texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttributeValues {
    /// Those of rows themselves.
    pub own: BTreeSet<(u8, String)>,
    /// Those of resources.
    pub resources: BTreeSet<(u8, String)>,
}

/// Rows to delete on request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All rows of one trace: `assembled_trace_id` or `trace_id` equals this.
    Trace(TraceId),
    /// All rows whose `service` equals this.
    Service(String),
}

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// Number of rows deleted.
    pub rows: u64,
}

/// Limits of a user's statement.
#[derive(Debug, Clone, Copy)]
pub struct SqlLimits {
    /// Timeout.
    pub timeout: Duration,
    /// Maximum rows to return.
    pub rows: usize,
    /// Maximum memory of the statement.
    pub memory_bytes: usize,
}

/// Table functions that statements may call, such as `chains('start=-1h')`.
pub trait SqlFunctions: Send + Sync {
    /// Their names.
    fn names(&self) -> &[&'static str];

    /// The rows of one. It blocks, and runs on a thread that may.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if it does not take these arguments.
    fn call(&self, name: &str, arguments: &[String]) -> Result<RecordBatch, StoreError>;

    /// What to do where a statement cannot call one.
    fn instead(&self, name: &str) -> String;
}

/// The result of a statement.
#[derive(Debug)]
pub struct SqlAnswer {
    /// The rows. If there are none, one empty batch holds the columns.
    pub batches: Vec<RecordBatch>,
    /// Whether there were more rows than the limit or [`MAX_ANSWER_BYTES`] allow.
    pub truncated: bool,
    /// Must be kept as long as the rows.
    pub room: AnswerRoom,
}

impl Deref for SqlAnswer {
    type Target = [RecordBatch];

    fn deref(&self) -> &[RecordBatch] {
        &self.batches
    }
}

/// Maximum memory of the answer to a statement.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Maximum length of a statement.
pub(crate) const MAX_STATEMENT_BYTES: usize = 64 << 10;

/// Statistics of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StoreStatus {
    /// Name of the implementation.
    pub kind: &'static str,
    /// Rows that are not in files yet.
    pub recent_rows: u64,
    /// Memory of recent rows.
    pub recent_bytes: u64,
    /// Bytes of the write-ahead log.
    pub wal_bytes: u64,
    /// Number of immutable files.
    pub files: u64,
    /// Rows in files.
    pub file_rows: u64,
    /// Bytes of files.
    pub file_bytes: u64,
    /// Start of the oldest row; 0 if there is none.
    pub oldest_unix_nano: i64,
    /// Named counters of everything that was refused, dropped, repaired or found broken since the
    /// start.
    pub counters: Vec<(String, u64)>,
    /// Warnings for the operator. Each is a sentence that says what to do.
    pub warnings: Vec<String>,
    /// Files in object storage; `None` if all files stay on this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_storage: Option<ObjectStorageStatus>,
}

/// Where files are stored. The store's `files` and `file_bytes` include both places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ObjectStorageStatus {
    /// Bucket and prefix.
    pub url: String,
    /// Files in object storage.
    pub remote_files: u64,
    /// Bytes in object storage.
    pub remote_bytes: u64,
    /// Files that are not uploaded yet.
    pub waiting_files: u64,
    /// Bytes of files that are not uploaded yet.
    pub waiting_bytes: u64,
    /// Disk space of cached copies.
    pub cache_bytes: u64,
    /// Maximum disk space of cached copies.
    pub cache_max_bytes: u64,
    /// Files that must still be removed from object storage.
    pub leaving_files: u64,
    /// Files that are not served until it is known which of their rows were deleted.
    pub hidden_files: u64,
}

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The store is full at the moment.
    #[error("the store has no room: {reason}; retry in {retry_after:?}")]
    Full {
        /// What is full, and what to do.
        reason: String,
        /// When to try again.
        retry_after: Duration,
    },
    /// The caller's mistake.
    #[error("{0}")]
    Invalid(String),
    /// The backend cannot be reached, or cannot answer at the moment.
    #[error("the store cannot answer now: {reason}")]
    Unavailable {
        /// The reason, and what to do.
        reason: String,
    },
    /// A statement exceeded one of its limits.
    #[error("the query was stopped: {0}")]
    Limit(String),
    /// An IO error of the store's files or the system.
    #[error("{context}: {source}")]
    Io {
        /// The operation and the file.
        context: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// An error of Arrow, Parquet or DataFusion.
    #[error("{context}: {source}")]
    Engine {
        /// The operation.
        context: String,
        /// The library's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
