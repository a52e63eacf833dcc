//! Users' statements, executed by DataFusion.
//!
//! A scalar function can request any amount of memory, and a single call can run for minutes. The
//! engine limits neither. So each statement runs in its own process, which the kernel limits
//! ([`confine`]) and which can be killed ([`process`]). The process contains only the engine. It
//! requests rows through a pipe ([`wire`], [`worker`]).
//!
//! The program's own statements are trusted. They run on a thread of this process and do not wait
//! for users' statements.

mod answer;
mod attribute;
mod confine;
mod depth;
mod functions;
mod keys;
mod process;
mod scan;
mod statement;
mod table;
mod wire;
mod words;
mod worker;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use tokio::sync::oneshot;

pub use process::SqlWorker;
pub use worker::run_sql_worker;

use crate::contract::{
    MAX_ANSWER_BYTES, MAX_STATEMENT_BYTES, SqlAnswer, SqlFunctions, SqlLimits, StoreError,
};
use crate::embedded::fault;
use crate::embedded::state::Snapshot;
use crate::room::{AnswerRoom, Rooms};
use process::{Ending, LimitedRows};
use scan::Local;
use statement::{Bounds, STACK_BYTES};
use wire::Job;

/// Maximum statements that run, or whose answers are in memory. Others wait within their timeout.
const AT_ONCE: usize = 2;
/// The same for the program's own statements.
const OWN_AT_ONCE: usize = 4;

/// A statement that is not stopped at its deadline stops itself this much later.
const LATER: Duration = Duration::from_millis(500);

/// Runs SQL statements.
pub(super) struct Engine {
    worker: Option<SqlWorker>,
    rooms: Rooms,
    own_rooms: Rooms,
}

impl Engine {
    /// Without a worker, all statements run in this process.
    pub(super) fn new(worker: Option<SqlWorker>) -> Self {
        Self { worker, rooms: Rooms::new(AT_ONCE), own_rooms: Rooms::new(OWN_AT_ONCE) }
    }

    /// Runs a user's statement over a snapshot of the table `spans`.
    pub(super) async fn run(
        &self,
        snapshot: impl FnOnce() -> Result<Snapshot, StoreError>,
        statement: &str,
        functions: Option<Arc<dyn SqlFunctions>>,
        limits: SqlLimits,
    ) -> Result<SqlAnswer, StoreError> {
        let deadline = Instant::now() + limits.timeout;
        if statement.len() > MAX_STATEMENT_BYTES {
            return Err(StoreError::Invalid(format!(
                "the statement is {} bytes long; at most {MAX_STATEMENT_BYTES} are allowed",
                statement.len()
            )));
        }
        let room = self.rooms.take(limits.timeout).await?;
        let rows = Local::new(snapshot()?, functions);
        let ending = Arc::new(Ending::default());
        // The caller may be cancelled at any time.
        let _guard = EndOnDrop(Arc::clone(&ending));
        let job = Job { functions: rows.function_names(), ..job(statement, limits, deadline) };
        let worker = self.worker.clone();
        let work = move || match &worker {
            Some(worker) => process::run(worker, &rows, &job, &ending),
            None => run_in_process(rows, &job),
        };
        let ((batches, truncated), room) =
            on_a_thread(room, deadline, limits.timeout, work).await?;
        Ok(SqlAnswer { batches, truncated, room })
    }

    /// Runs one of the program's own statements in this process.
    pub(super) async fn run_own(
        &self,
        snapshot: impl FnOnce() -> Result<Snapshot, StoreError>,
        statement: &str,
        limits: SqlLimits,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let deadline = Instant::now() + limits.timeout;
        let room = self.own_rooms.take(limits.timeout).await?;
        let rows = Local::new(snapshot()?, None);
        let job = job(statement, limits, deadline);
        let work = move || run_in_process(rows, &job);
        let ((batches, _), _) = on_a_thread(room, deadline, limits.timeout, work).await?;
        Ok(batches)
    }
}

struct EndOnDrop(Arc<Ending>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn job(statement: &str, limits: SqlLimits, deadline: Instant) -> Job {
    // The caller's timeout comes first and ends the job.
    let left = deadline.saturating_duration_since(Instant::now()) + LATER;
    Job {
        statement: statement.to_owned(),
        functions: Vec::new(),
        rows: limits.rows,
        memory_bytes: limits.memory_bytes,
        answer_bytes: MAX_ANSWER_BYTES,
        timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Runs a statement in this process, where only the engine's own limits apply.
fn run_in_process(rows: Local, job: &Job) -> Result<LimitedRows, StoreError> {
    let bounds = Bounds { rows: job.rows, memory_bytes: job.memory_bytes, timeout: job.timeout() };
    let mut room = answer::Room::new(job.answer_bytes);
    let mut batches = Vec::new();
    let mut take = |batch: RecordBatch| -> Result<bool, StoreError> {
        let (rows, is_all) = room.fit(&batch)?;
        batches.push(rows);
        Ok(is_all)
    };
    let truncated = statement::run(Arc::new(rows), &job.statement, bounds, &mut take)?;
    Ok((batches, truncated))
}

/// Runs work on a thread until the deadline. The thread keeps the slot until it ends, and returns
/// it with its result.
async fn on_a_thread<T: Send + 'static>(
    room: AnswerRoom,
    deadline: Instant,
    timeout: Duration,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<(T, AnswerRoom), StoreError> {
    let (done, answer) = oneshot::channel();
    std::thread::Builder::new()
        .name("sql".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let _ = done.send(work().map(|answer| (answer, room)));
        })
        .map_err(fault::io("cannot start a thread for the statement"))?;
    match tokio::time::timeout_at(deadline.into(), answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(fault::engine("the statement could not be run")("the engine gave up")),
        Err(_) => Err(words::too_slow(timeout)),
    }
}
