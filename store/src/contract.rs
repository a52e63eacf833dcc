//! The contract that every store fulfils.

mod condition;
mod count;

use std::ops::Deref;
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use serde::Serialize;
use spanwise_model::{Assembled, SpanId, SpanRows, Status, TraceId};

use crate::room::AnswerRoom;
pub use condition::{AttributeCondition, AttributeTest, Number};
pub(crate) use condition::{DOUBLE, INT, JSON, typed_text};
pub(crate) use count::Counts;
pub use count::{Counting, RowCounts};

/// Takes span rows durably and finds them again.
#[async_trait]
pub trait Store: Send + Sync {
    /// Makes a batch of the span schema durable and findable. When this
    /// returns, the rows survive `kill -9`. A batch whose `origin` was taken
    /// before is not stored again. Of a batch of applications' spans, with an origin or
    /// without, a row is not stored again that names a trace and agrees with a stored one
    /// in trace, span, start, duration, kind, service and operation: it is the same span,
    /// sent twice.
    ///
    /// # Errors
    /// [`StoreError::Full`] where memory or disk has no room: the sender shall
    /// come again later. Nothing of a refused batch is kept.
    async fn append(&self, rows: SpanRows, origin: Option<Origin>) -> Result<Appended, StoreError>;

    /// Sets the assembled columns of rows appended before. Rows that have
    /// already moved to immutable files are left as they are (a reader joins
    /// them by their keys).
    async fn annotate(&self, rows: &[Assembled]) -> Result<(), StoreError>;

    /// Batches that were appended before the store was last closed or killed
    /// and are not yet annotated.
    fn unsettled(&self) -> Vec<Unsettled>;

    /// All rows that have any of the keys, whole, in no order.
    async fn find_by_keys(
        &self,
        keys: &[Key],
        time: TimeRange,
    ) -> Result<Vec<RecordBatch>, StoreError>;

    /// The same rows, of which only this is wanted. They have the span schema all
    /// the same; what is not wanted of them may be null, or left out of a map or
    /// list.
    async fn find_outlines(
        &self,
        keys: &[Key],
        time: TimeRange,
        _outline: &Outline,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        self.find_by_keys(keys, time).await
    }

    /// Rows that fulfil the query's predicate, in its order.
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

    /// Runs one read-only SQL statement that somebody has typed, over the table
    /// `spans`. Whatever it says, it does not hurt the program. A store that keeps
    /// its rows elsewhere may show the newest ones a few seconds late.
    async fn sql(&self, statement: &str, limits: SqlLimits) -> Result<SqlAnswer, StoreError>;

    /// The same for a statement of the program itself, which is known to be
    /// harmless: it does not wait for what people have typed.
    async fn own_sql(
        &self,
        statement: &str,
        limits: SqlLimits,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        Ok(self.sql(statement, limits).await?.batches)
    }

    /// Forgets every row that started before this time, as far as whole files
    /// hold only such rows. A start in the future counts as the time at which
    /// the row came.
    async fn drop_before(&self, unix_nano: i64) -> Result<(), StoreError>;

    /// Forgets the rows that the selection names and that were appended before
    /// this was called. When it returns, no answer holds them any more, also
    /// after `kill -9`; their bytes leave the disk soon after. Rows that are
    /// appended later are not touched.
    ///
    /// # Errors
    /// Where the deletion cannot be made durable: then nothing is deleted.
    async fn delete(&self, selection: &Selection) -> Result<Deleted, StoreError>;

    /// Writes what is in memory to its final form where it can, and closes
    /// files; the store takes no more rows.
    async fn close(&self) -> Result<(), StoreError>;

    /// Figures about the store now.
    fn status(&self) -> StoreStatus;
}

/// Where a batch came from, to recognise one that is sent twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The sender: one run of one agent.
    pub source: [u8; 16],
    /// The sender's number for the batch; grows by one per batch.
    pub sequence: u64,
}

/// What became of an appended batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// Stored under this number, which [`spanwise_model::RowRef`] refers to.
    Stored {
        /// The batch's number.
        batch: u64,
    },
    /// Some of its spans were stored before. The others are, under this number:
    /// [`spanwise_model::RowRef`] counts only these.
    Partly {
        /// The batch's number.
        batch: u64,
        /// The places in the appended batch of the rows that are stored, in order.
        rows: Vec<u32>,
    },
    /// Its origin was stored before, or all its spans were; there is nothing to do.
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

/// A value by which rows are found at once.
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
}

/// Start times from `from_unix_nano` up to, not including, `to_unix_nano`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    /// First start time.
    pub from_unix_nano: i64,
    /// First start time past the range.
    pub to_unix_nano: i64,
}

impl TimeRange {
    /// Everything.
    pub const ALL: Self = Self { from_unix_nano: i64::MIN, to_unix_nano: i64::MAX };
}

/// What rows shall be like; every given field must hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Predicate {
    /// `service` is this.
    pub service: Option<String>,
    /// `operation` is this.
    pub operation: Option<String>,
    /// `duration_nano` at least.
    pub min_duration_nano: Option<i64>,
    /// `duration_nano` at most.
    pub max_duration_nano: Option<i64>,
    /// `status` is this.
    pub status: Option<Status>,
    /// All of these hold.
    pub attributes: Vec<AttributeCondition>,
    /// All of these hold of values anywhere in the row: besides those that
    /// `attributes` are asked of, values of its instrumentation scope (`otel.scope.KEY`),
    /// of its events and of its links. Only what asks for one value that passes.
    pub anywhere: Vec<AttributeCondition>,
    /// `assembled_trace_id` is known.
    pub assembled: bool,
    /// `assembled_parent` is null: the row is the root of its trace.
    pub root: bool,
}

/// Which rows, how many, and what of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// What rows shall be like.
    pub predicate: Predicate,
    /// When they shall have started.
    pub time: TimeRange,
    /// Columns wanted, by name; all where empty.
    pub columns: Vec<&'static str>,
    /// The most rows to return.
    pub limit: usize,
    /// Which of them come first, and are returned where there are more.
    pub order: Order,
}

/// An order of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// By their starts, the latest first.
    #[default]
    NewestFirst,
    /// By their durations, the longest first; of equal ones the latest start.
    LongestFirst,
}

/// What is wanted of rows that are not wanted whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// Columns, by name. That of attributes only has the ones below.
    pub columns: Vec<&'static str>,
    /// Keys of attributes.
    pub attributes: Vec<String>,
}

/// What is to be forgotten on request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All rows of one trace: whose `assembled_trace_id` or `trace_id` is this.
    Trace(TraceId),
    /// All rows whose `service` is this.
    Service(String),
}

/// What was forgotten on request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// Rows that were there and are gone.
    pub rows: u64,
}

/// Bounds for a statement that a person typed.
#[derive(Debug, Clone, Copy)]
pub struct SqlLimits {
    /// The statement is given up after this time.
    pub timeout: Duration,
    /// The most rows to return.
    pub rows: usize,
    /// The most memory that the statement may take.
    pub memory_bytes: usize,
}

/// What a statement gave.
#[derive(Debug)]
pub struct SqlAnswer {
    /// The rows. There is a batch also where there are none, which has the columns.
    pub batches: Vec<RecordBatch>,
    /// There were more rows than may be returned, or than [`MAX_ANSWER_BYTES`] hold.
    pub truncated: bool,
    /// To be kept for as long as the rows are.
    pub room: AnswerRoom,
}

impl Deref for SqlAnswer {
    type Target = [RecordBatch];

    fn deref(&self) -> &[RecordBatch] {
        &self.batches
    }
}

/// What an answer to a statement may take in memory.
pub const MAX_ANSWER_BYTES: usize = 64 << 20;

/// Longer statements are refused.
pub(crate) const MAX_STATEMENT_BYTES: usize = 64 << 10;

/// Figures about a store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StoreStatus {
    /// Name of the implementation.
    pub kind: &'static str,
    /// Rows not yet in files.
    pub recent_rows: u64,
    /// Memory that they take.
    pub recent_bytes: u64,
    /// Bytes of write-ahead log.
    pub wal_bytes: u64,
    /// Immutable files.
    pub files: u64,
    /// Rows in them.
    pub file_rows: u64,
    /// Bytes of them.
    pub file_bytes: u64,
    /// Start of the oldest row held; 0 where there is none.
    pub oldest_unix_nano: i64,
    /// Named counters of everything that was refused, dropped, repaired or
    /// found broken since the start.
    pub counters: Vec<(String, u64)>,
    /// What an operator should know now, each a sentence that says what to do.
    pub warnings: Vec<String>,
    /// Files in object storage; `None` where they stay on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_storage: Option<ObjectStorageStatus>,
}

/// Which files are where. `files` and `file_bytes` of the store are those of both
/// places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ObjectStorageStatus {
    /// The bucket and prefix.
    pub url: String,
    /// Files that are there.
    pub remote_files: u64,
    /// Bytes of them.
    pub remote_bytes: u64,
    /// Files that are only on this machine yet.
    pub waiting_files: u64,
    /// Bytes of them.
    pub waiting_bytes: u64,
    /// Disk that copies of what is there take.
    pub cache_bytes: u64,
    /// Disk that they may take.
    pub cache_max_bytes: u64,
    /// Files that are to be removed there.
    pub leaving_files: u64,
    /// Files that are not served until it is known what was deleted of them.
    pub hidden_files: u64,
}

/// Why a store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No room now.
    #[error("the store has no room: {reason}; retry in {retry_after:?}")]
    Full {
        /// What is full, and what would help.
        reason: String,
        /// When it may be worth trying again.
        retry_after: Duration,
    },
    /// The asker's mistake.
    #[error("{0}")]
    Invalid(String),
    /// What holds the rows cannot be reached, or cannot answer now.
    #[error("the store cannot answer now: {reason}")]
    Unavailable {
        /// Why, and what would help.
        reason: String,
    },
    /// A statement ran into one of its limits.
    #[error("the query was stopped: {0}")]
    Limit(String),
    /// The store's files or the system failed.
    #[error("{context}: {source}")]
    Io {
        /// What was being done, to which file.
        context: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Anything that Arrow, Parquet or DataFusion reported.
    #[error("{context}: {source}")]
    Engine {
        /// What was being done.
        context: String,
        /// What the engine said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
