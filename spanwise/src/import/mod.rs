//! `spanwise import`: sends files of spans to a running server.
//!
//! Spans are sent like an agent's: over Arrow Flight, in batches that the server acknowledges when
//! they are durable, and recognises when they are sent again. A batch is named after its own bytes.
//! So an interrupted import is completed by running the same command again, and no span is stored
//! twice.

mod batches;
mod progress;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use spanwise_wire::files::{FileError, FileLimits, Records, open};
use spanwise_wire::flight::{Upload, UploadError};
use tokio::sync::mpsc;

use crate::failure::Failure;
use crate::flags::ImportFlags;
use crate::terminal::harmless;
use batches::{Batches, NamedBatch};
use progress::{Outcome, Progress};

/// How long to wait for a server that is unreachable or full.
const PATIENCE: Duration = Duration::from_secs(60);
/// Batches that are read ahead.
const AHEAD: usize = 2;
/// Maximum broken records that are reported individually.
const MOST_NAMED: u64 = 5;

/// Imports the files one after the other.
///
/// # Errors
/// If the server cannot be reached or refuses the spans; and, at the end, if any file could not be
/// read completely.
pub(crate) fn run(flags: &ImportFlags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the input/output runtime")?;
    runtime.block_on(async {
        let mut upload = Upload::new(&flags.server, PATIENCE)
            .map_err(|error| Failure::Usage(format!("--server: {error}")))?;
        let salt = if flags.again { now_unix_nano().unsigned_abs() } else { 0 };
        let mut failed = 0;
        for path in &flags.files {
            let name = harmless(&path.display().to_string());
            match import(path, &name, salt, &mut upload).await? {
                outcome if outcome.is_whole() => {}
                _ => failed += 1,
            }
        }
        match failed {
            0 => Ok(()),
            1 if flags.files.len() == 1 => Err(Failure::cannot("the file was not read whole")),
            _ => Err(Failure::cannot(format_args!(
                "{failed} of {} files were not read whole",
                flags.files.len()
            ))),
        }
    })
}

/// Messages of the reading thread.
enum Step {
    Batch(NamedBatch),
    Broken(FileError),
}

/// Sends OTLP that is made while it is read, as `import` sends a file.
///
/// # Errors
/// As for [`run`].
pub(crate) fn stream(server: &str, name: &str, input: Box<dyn Read + Send>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start the input/output runtime")?;
    runtime.block_on(async {
        let mut upload = Upload::new(server, PATIENCE)
            .map_err(|error| Failure::Usage(format!("--server: {error}")))?;
        let outcome = import_input(input, None, name, 0, &mut upload).await?;
        if outcome.is_whole() { Ok(()) } else { Err(Failure::cannot("not all spans are stored")) }
    })
}

async fn import(
    path: &Path,
    name: &str,
    salt: u64,
    upload: &mut Upload,
) -> Result<Outcome, Failure> {
    match input(path) {
        Ok((input, size)) => import_input(input, size, name, salt, upload).await,
        Err(error) => {
            eprintln!("{name}: {error}");
            Ok(Outcome::unreadable())
        }
    }
}

async fn import_input(
    input: Input,
    size: Option<u64>,
    name: &str,
    salt: u64,
    upload: &mut Upload,
) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::default();
    let read = Arc::new(AtomicU64::new(0));
    let counted = CountedInput { input, read: Arc::clone(&read) };
    let (give, mut take) = mpsc::channel(AHEAD);
    // Reading and decoding run on another thread.
    let reading = tokio::task::spawn_blocking(move || {
        let records = match open(counted, FileLimits::default()) {
            Ok(records) => records,
            Err(error) => {
                let _ = give.blocking_send(Step::Broken(error));
                return;
            }
        };
        steps(records, salt, &give);
    });
    let mut progress = Progress::new(name, size, read);
    while let Some(step) = take.recv().await {
        match step {
            Step::Batch(batch) => {
                send(upload, &batch).await.map_err(|error| stopped(name, &error))?;
                outcome.add(&batch);
                progress.show(&outcome);
            }
            Step::Broken(error) => {
                outcome.broken += 1;
                if outcome.broken <= MOST_NAMED {
                    progress.clear();
                    eprintln!("{name}: {}", harmless(&error.to_string()));
                }
            }
        }
    }
    reading
        .await
        .map_err(|error| Failure::cannot(format_args!("{name}: reading failed: {error}")))?;
    progress.clear();
    eprintln!("{name}: {}", outcome.summary());
    Ok(outcome)
}

/// Reads a file to its end, or until the receiver is gone.
fn steps(records: Records, salt: u64, give: &mpsc::Sender<Step>) {
    let mut batches = Batches::new(salt);
    for record in records {
        let given = match record {
            Ok(record) => {
                batches.push(record);
                Ok(())
            }
            Err(error) => give.blocking_send(Step::Broken(error)),
        };
        if given.is_err() || !full(&mut batches, give) {
            return;
        }
    }
    batches.finish();
    full(&mut batches, give);
}

/// Sends complete batches. Returns `false` if the receiver is gone.
fn full(batches: &mut Batches, give: &mpsc::Sender<Step>) -> bool {
    let Some(batch) = batches.ready() else { return true };
    let step = match batch {
        Ok(batch) => Step::Batch(batch),
        Err(error) => Step::Broken(error),
    };
    give.blocking_send(step).is_ok()
}

async fn send(upload: &mut Upload, batch: &NamedBatch) -> Result<(), UploadError> {
    for (origin, rows) in batch.parts() {
        upload.put(&rows.into(), origin).await?;
    }
    Ok(())
}

fn stopped(name: &str, error: &UploadError) -> Failure {
    let advice = match error {
        UploadError::Setup(_) => "this is a mistake of the program",
        UploadError::Away { .. } => {
            "start it with `spanwise up` (or `spanwise server`), or name another with --server; \
             then run the same command again: it goes on, and stores nothing twice"
        }
        UploadError::Full { .. } => {
            "run the same command again when there is room: it goes on, and stores nothing twice"
        }
        UploadError::Refused { .. } => "run program and server of the same version",
    };
    Failure::cannot(format_args!("{name}: {}; {advice}", harmless(&error.to_string())))
}

type Input = Box<dyn Read + Send>;

/// The file, or standard input for `-`, and its size if known.
fn input(path: &Path) -> Result<(Input, Option<u64>), String> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdin()), None));
    }
    let file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let metadata = file.metadata().map_err(|error| format!("cannot be read: {error}"))?;
    if metadata.is_dir() {
        return Err("is a directory; name the files in it".to_owned());
    }
    Ok((Box::new(file), metadata.is_file().then_some(metadata.len())))
}

/// Counts the bytes read from the (compressed) file.
struct CountedInput {
    input: Input,
    read: Arc<AtomicU64>,
}

impl Read for CountedInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(into)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

fn now_unix_nano() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}
