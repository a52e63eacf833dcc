//! Statements that people type, run by DataFusion.
//!
//! A scalar function can ask for any amount of memory, and one call of it can go on
//! for minutes; the engine bounds neither. So each statement runs in a process of
//! its own, which the system bounds ([`confine`]) and which can be killed
//! ([`process`]). It holds the engine and nothing else: rows come to it through a pipe,
//! as it asks for them ([`wire`], [`worker`]).
//!
//! Statements of the program itself are known to be harmless. They run on a thread
//! of this process, and wait for nobody's.

mod answer;
mod attribute;
mod confine;
mod depth;
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

use crate::contract::{MAX_ANSWER_BYTES, MAX_STATEMENT_BYTES, SqlAnswer, SqlLimits, StoreError};
use crate::embedded::fault;
use crate::embedded::state::Snapshot;
use crate::room::{AnswerRoom, Rooms};
use process::{Answered, Ending};
use scan::Local;
use statement::{Bounds, STACK_BYTES};
use wire::Job;

/// Statements that run, or whose answers are held, at the same time. Others wait,
/// within their time.
const AT_ONCE: usize = 2;
/// The same for those of the program itself.
const OWN_AT_ONCE: usize = 4;

/// What was not ended at its deadline ends by itself this much later.
const LATER: Duration = Duration::from_millis(500);

/// Runs statements.
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

    /// Runs a person's statement over the table `spans`, of which it takes a
    /// snapshot when it begins.
    pub(super) async fn run(
        &self,
        snapshot: impl FnOnce() -> Result<Snapshot, StoreError>,
        statement: &str,
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
        let rows = Local::new(snapshot()?);
        let ending = Arc::new(Ending::default());
        // Whoever asked may go away at any time.
        let _guard = EndOnDrop(Arc::clone(&ending));
        let job = job(statement, limits, deadline);
        let worker = self.worker.clone();
        let work = move || match &worker {
            Some(worker) => process::run(worker, &rows, &job, &ending),
            None => here(rows, &job),
        };
        let ((batches, truncated), room) =
            on_a_thread(room, deadline, limits.timeout, work).await?;
        Ok(SqlAnswer { batches, truncated, room })
    }

    /// Runs a statement of the program itself, in this process.
    pub(super) async fn run_own(
        &self,
        snapshot: impl FnOnce() -> Result<Snapshot, StoreError>,
        statement: &str,
        limits: SqlLimits,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let deadline = Instant::now() + limits.timeout;
        let room = self.own_rooms.take(limits.timeout).await?;
        let rows = Local::new(snapshot()?);
        let job = job(statement, limits, deadline);
        let work = move || here(rows, &job);
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
    // Whoever waits gives up first, and ends it.
    let left = deadline.saturating_duration_since(Instant::now()) + LATER;
    Job {
        statement: statement.to_owned(),
        rows: limits.rows,
        memory_bytes: limits.memory_bytes,
        answer_bytes: MAX_ANSWER_BYTES,
        timeout_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Runs a statement in this process, where only what the engine counts is bounded.
fn here(rows: Local, job: &Job) -> Result<Answered, StoreError> {
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

/// Works on a thread of its own until the deadline. The thread keeps the room until
/// it ends, and gives it back with its result.
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
