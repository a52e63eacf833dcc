//! The server's side of a worker process: starts it, sends rows, ends it.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use parking_lot::Mutex;

use super::scan::{Cursor, Local};
use super::wire::{self, FromWorker, Job, ToWorker};
use super::{confine, words};
use crate::contract::StoreError;
use crate::embedded::fault;

/// Overhead of an answer's messages beyond the counted bytes.
const SLACK_BYTES: usize = 16 << 20;
/// Maximum scans in progress in one statement. Each holds some rows.
const MOST_SCANS: usize = 64;
/// Maximum bytes of a dying worker's stderr that are read.
const LAST_WORDS_BYTES: u64 = 8 << 10;

/// How to start the worker process. The program must call [`run_sql_worker`](super::run_sql_worker)
/// and do nothing else.
#[derive(Debug, Clone)]
pub struct SqlWorker {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The complete environment.
    pub environment: Vec<(String, String)>,
}

impl SqlWorker {
    fn start(&self) -> io::Result<Child> {
        // Uses pipes, because an agent on this host would report messages on sockets as calls.
        Command::new(&self.program)
            .arg0("spanwise")
            .args(&self.arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }
}

/// Lets another thread end a worker.
#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<Lifetime>);

#[derive(Debug, Default)]
struct Lifetime {
    child: Option<Child>,
    is_over: bool,
}

impl Ending {
    /// Ends the worker, even if it is only about to start.
    pub(super) fn end(&self) {
        let mut lifetime = self.0.lock();
        lifetime.is_over = true;
        if let Some(child) = &mut lifetime.child {
            let _ = child.kill();
        }
    }

    fn began(&self, mut child: Child) {
        let mut lifetime = self.0.lock();
        if lifetime.is_over {
            let _ = child.kill();
        }
        lifetime.child = Some(child);
    }

    fn reap(&self) -> Option<(ExitStatus, String)> {
        let mut child = self.0.lock().child.take()?;
        // Has no effect on a worker that has already ended.
        let _ = child.kill();
        let status = child.wait().ok()?;
        let mut said = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            let _ = stderr.take(LAST_WORDS_BYTES).read_to_end(&mut said);
        }
        Some((status, String::from_utf8_lossy(&said).into_owned()))
    }
}

/// The rows of an answer, and whether there were more.
pub(super) type LimitedRows = (Vec<RecordBatch>, bool);

/// Runs a statement in a worker. The calling thread must live as long as the worker.
pub(super) fn run(
    worker: &SqlWorker,
    rows: &Local,
    job: &Job,
    ending: &Ending,
) -> Result<LimitedRows, StoreError> {
    confine::leave_processors_to_others();
    let started = worker.start();
    let mut child = started.map_err(fault::io("cannot start a process for the statement"))?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    ending.began(child);
    let converse = || match pipes {
        Some((to, from)) => converse(to, from, rows, job),
        None => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
    };
    // Reading a damaged file may panic. The worker must be reaped anyway.
    let answered = catch_unwind(AssertUnwindSafe(converse)).unwrap_or_else(|_| {
        Err(WorkerError::Refused(fault::engine("the statement failed")("a reader gave up")))
    });
    let ended = ending.reap();
    match answered {
        Ok(answered) => Ok(answered),
        Err(WorkerError::Refused(error)) => Err(error),
        Err(WorkerError::Gone(error)) => {
            tracing::debug!(%error, ?ended, "a worker for SQL has gone");
            Err(ended.map_or_else(|| words::too_complex(""), |(status, said)| died(status, &said)))
        }
    }
}

enum WorkerError {
    /// The worker does not respond any more.
    Gone(io::Error),
    Refused(StoreError),
}

impl From<io::Error> for WorkerError {
    fn from(error: io::Error) -> Self {
        Self::Gone(error)
    }
}

impl From<DataFusionError> for WorkerError {
    fn from(error: DataFusionError) -> Self {
        Self::Refused(words::refused(error))
    }
}

fn converse(
    mut to: ChildStdin,
    mut from: ChildStdout,
    rows: &Local,
    job: &Job,
) -> Result<LimitedRows, WorkerError> {
    wire::send(&mut to, job, &[])?;
    let (mut scans, mut begun) = (HashMap::<usize, Cursor>::new(), 0);
    // While the worker computes, the next batch is prepared.
    let mut ahead: Option<(usize, ReadyMessage)> = None;
    let mut left_bytes = job.answer_bytes.saturating_add(SLACK_BYTES);
    let mut answer = Vec::new();
    loop {
        let (said, body) = wire::receive::<FromWorker>(&mut from, left_bytes)?
            .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        match said {
            FromWorker::Scan(_) if scans.len() >= MOST_SCANS => {
                return Err(WorkerError::Refused(words::too_complex("")));
            }
            FromWorker::Scan(scan) => {
                scans.insert(begun, rows.cursor(&scan)?);
                begun += 1;
            }
            FromWorker::Close(scan) => {
                scans.remove(&scan);
                ahead.take_if(|(of, _)| *of == scan);
            }
            FromWorker::Next(scan) => {
                let cursor = scans.get_mut(&scan);
                let cursor = cursor.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
                let (message, batch) = match ahead.take_if(|(of, _)| *of == scan) {
                    Some((_, ready)) => ready,
                    None => ready(cursor)?,
                };
                wire::send(&mut to, &message, &batch)?;
                if ahead.is_none() && !matches!(message, ToWorker::End) {
                    ahead = Some((scan, ready(cursor)?));
                }
            }
            FromWorker::Call { name, arguments } => {
                let (message, batch) = match rows.call(&name, &arguments) {
                    Ok(rows) => {
                        (ToWorker::Batch, wire::encode(&rows).map_err(DataFusionError::from)?)
                    }
                    Err(error) => (ToWorker::Refused(error.into()), Vec::new()),
                };
                wire::send(&mut to, &message, &batch)?;
            }
            FromWorker::Answer => {
                left_bytes -= body.len();
                answer.push(wire::decode(body).map_err(DataFusionError::from)?);
            }
            FromWorker::Done { truncated } => return Ok((answer, truncated)),
            FromWorker::Failed(failure) => {
                return Err(WorkerError::Refused(failure.into()));
            }
        }
    }
}

type ReadyMessage = (ToWorker, Vec<u8>);

fn ready(cursor: &mut Cursor) -> Result<ReadyMessage, DataFusionError> {
    Ok(match cursor.next().transpose()? {
        None => (ToWorker::End, Vec::new()),
        Some(rows) if rows.num_columns() == 0 => (ToWorker::Rows(rows.num_rows()), Vec::new()),
        Some(rows) => (ToWorker::Batch, wire::encode(&rows)?),
    })
}

/// The error for a worker that died by itself.
fn died(status: ExitStatus, said: &str) -> StoreError {
    const SIGKILL: i32 = rustix::process::Signal::KILL.as_raw();
    const SIGXCPU: i32 = rustix::process::Signal::XCPU.as_raw();
    let is_out_of_memory = said.contains("memory allocation of") || said.contains("os error 12");
    match status.signal() {
        _ if is_out_of_memory => words::too_much_memory(),
        _ if said.contains("overflowed its stack") => words::too_complex(""),
        Some(SIGXCPU) => StoreError::Limit("it took too much processor time".to_owned()),
        // Only the kernel sends this signal, when memory runs out.
        Some(SIGKILL) => words::too_much_memory(),
        Some(_) => words::too_complex(""),
        None => failed(format!("{status}: {}", said.trim())),
    }
}

/// The error does not mention rows, since those are read in this process.
fn failed(reason: String) -> StoreError {
    fault::io("the process for the statement failed")(io::Error::other(reason))
}
