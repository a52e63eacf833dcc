//! The worker: a process that runs one statement and ends. It has no rows, and requests them batch
//! by batch.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use parking_lot::Mutex;
use rustix::fs::{FileType, fstat};

use super::answer::Room;
use super::statement::{self, Bounds, STACK_BYTES};
use super::table::{Batches, Scan, Source};
use super::wire::{self, Failure, FromWorker, Job, ToWorker};
use super::{confine, words};
use crate::contract::StoreError;
use crate::embedded::fault;

/// Runs the statement that the server sends. The process must do nothing else before or after. A
/// program that uses a [`SqlWorker`](super::SqlWorker) calls this when it is started as one, with
/// standard input and output.
#[must_use]
pub fn run_sql_worker(input: OwnedFd, output: OwnedFd) -> ExitCode {
    match work(input, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spanwise: cannot run a statement: {error}");
            ExitCode::FAILURE
        }
    }
}

fn work(input: OwnedFd, output: OwnedFd) -> io::Result<()> {
    if FileType::from_raw_mode(fstat(&input)?.st_mode) != FileType::Fifo {
        return Err(io::Error::other("only the server can start what runs statements"));
    }
    confine::end_with_parent()?;
    let (mut input, output) = (File::from(input), File::from(output));
    let Some((job, _)) = wire::receive::<Job>(&mut input, 0)? else { return Ok(()) };
    confine::confine(job.memory_bytes, job.timeout())?;
    let link = Arc::new(Mutex::new(Link { input, output, scans: 0 }));
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    let thread = thread.spawn(move || answer(&link, &job))?;
    thread.join().map_err(|_| io::Error::other("the engine gave up"))?
}

fn answer(link: &Arc<Mutex<Link>>, job: &Job) -> io::Result<()> {
    confine::open_nothing_more()?;
    let bounds = Bounds {
        rows: job.rows,
        // The remaining memory is for what the engine does not count: batches in progress, plans
        // and the stack.
        memory_bytes: job.memory_bytes / 8 * 5,
        timeout: job.timeout(),
    };
    let mut room = Room::new(job.answer_bytes);
    let mut take = |batch: RecordBatch| -> Result<bool, StoreError> {
        let (rows, is_all) = room.fit(&batch)?;
        let rows = wire::encode(&rows).map_err(fault::engine("cannot encode the answer"))?;
        let sent = wire::send(&mut link.lock().output, &FromWorker::Answer, &rows);
        sent.map_err(fault::io("cannot answer"))?;
        Ok(is_all)
    };
    let functions = job.functions.clone();
    let source = Arc::new(RemoteRows { link: Arc::clone(link), functions });
    let ran = || statement::run(source, &job.statement, bounds, &mut take);
    let ran = catch_unwind(AssertUnwindSafe(ran)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(words::gave_up(said.unwrap_or_default()))
    });
    let end = match ran {
        Ok(truncated) => FromWorker::Done { truncated },
        Err(error) => FromWorker::Failed(Failure::from(error)),
    };
    wire::send(&mut link.lock().output, &end, &[])
}

/// The connection to the server.
#[derive(Debug)]
struct Link {
    input: File,
    output: File,
    scans: usize,
}

/// The server's rows.
#[derive(Debug)]
struct RemoteRows {
    link: Arc<Mutex<Link>>,
    functions: Vec<String>,
}

impl Source for RemoteRows {
    fn scan(&self, scan: &Scan) -> Batches {
        let mut link = self.link.lock();
        let number = link.scans;
        link.scans += 1;
        match wire::send(&mut link.output, &FromWorker::Scan(scan.clone()), &[]) {
            Ok(()) => Box::new(ScanBatches { link: Arc::clone(&self.link), scan: number }),
            Err(error) => Box::new(std::iter::once(Err(error.into()))),
        }
    }

    fn functions(&self) -> Vec<String> {
        self.functions.clone()
    }

    fn call(&self, name: &str, arguments: &[String]) -> Result<RecordBatch, DataFusionError> {
        let mut link = self.link.lock();
        let (name, arguments) = (name.to_owned(), arguments.to_vec());
        wire::send(&mut link.output, &FromWorker::Call { name, arguments }, &[])?;
        let answer = wire::receive::<ToWorker>(&mut link.input, usize::MAX)?;
        match answer.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))? {
            (ToWorker::Batch, rows) => Ok(wire::decode(rows)?),
            (ToWorker::Refused(failure), _) => Err(words::of_function(failure.into())),
            (ToWorker::Rows(_) | ToWorker::End, _) => {
                Err(io::Error::from(io::ErrorKind::InvalidData).into())
            }
        }
    }
}

/// The batches of a scan.
struct ScanBatches {
    link: Arc<Mutex<Link>>,
    scan: usize,
}

impl ScanBatches {
    fn ask(&self) -> Result<Option<RecordBatch>, DataFusionError> {
        let mut link = self.link.lock();
        wire::send(&mut link.output, &FromWorker::Next(self.scan), &[])?;
        // The server is trusted, and the process's memory is limited.
        let answer = wire::receive::<ToWorker>(&mut link.input, usize::MAX)?;
        let (said, rows) = answer.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        Ok(match said {
            ToWorker::Batch => Some(wire::decode(rows)?),
            ToWorker::Rows(count) => Some(wire::no_columns(count)?),
            ToWorker::End => None,
            ToWorker::Refused(failure) => return Err(words::of_function(failure.into())),
        })
    }
}

impl Drop for ScanBatches {
    fn drop(&mut self) {
        // If the server does not listen any more, the process is about to end.
        let _ = wire::send(&mut self.link.lock().output, &FromWorker::Close(self.scan), &[]);
    }
}

impl Iterator for ScanBatches {
    type Item = Result<RecordBatch, DataFusionError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.ask().transpose()
    }
}
