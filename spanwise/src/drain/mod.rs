//! Sends what native programs record while they run. One thread for each directory.
//!
//! A batch is written to a file with the checkpoint that holds after it, then sent, then the
//! checkpoint is written. After a kill, the batch is sent again under the same number, and the
//! server stores a number once. Spans cannot be told apart otherwise: read again, their times may
//! differ by nanoseconds, since the program's clock is known better by then.

mod journal;
mod lives;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use spanwise_model::schema::span_schema;
use spanwise_native::{FollowCounts, Following, Given, otlp};
use spanwise_wire::flight::{Origin, Upload, UploadError};
use spanwise_wire::otlp::{Limits, decode_protobuf};

use crate::otlp::{Endpoint, EndpointUrl, SendError, Signal};
use journal::{Batch, Journal, Message};

/// Rows of one message to the server.
const ROWS: usize = 8192;
/// Pauses between looks at rings in which nothing happens.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How long an attempt to reach the server may take until it is seen whether to stop.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long log records and metrics wait for their endpoint before they are given up.
const OTHER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a stop waits for what is being sent. It is sent again after the next start.
const STOP: Duration = Duration::from_secs(3);
/// Pause after a failure that may last.
const RETRY: Duration = Duration::from_secs(2);

/// What is drained, and where to.
#[derive(Debug, Clone)]
pub(crate) struct DrainConfig {
    pub(crate) directories: Vec<PathBuf>,
    /// The server's URL.
    pub(crate) server: String,
    pub(crate) logs_to: Option<EndpointUrl>,
    pub(crate) metrics_to: Option<EndpointUrl>,
    /// This machine's name.
    pub(crate) host: String,
}

/// What was sent, and what was not, by directory.
pub(crate) type DrainCounts = Arc<Mutex<BTreeMap<PathBuf, Counts>>>;

/// Counters of a directory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    followed: FollowCounts,
    spans_sent: u64,
    spans_refused: u64,
    logs_sent: u64,
    logs_unsent: u64,
    points_sent: u64,
    points_unsent: u64,
    unreadable: u64,
}

/// The counters of all directories, by name.
pub(crate) fn counters(counts: &DrainCounts) -> BTreeMap<String, u64> {
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for counts in counts.lock().values() {
        let Counts { followed, .. } = counts;
        for (name, count) in [
            ("native_spans_sent", counts.spans_sent),
            ("native_spans_refused", counts.spans_refused),
            ("native_spans_open", followed.open),
            ("native_spans_overwritten", followed.overwritten),
            ("native_spans_damaged", followed.damaged),
            ("native_spans_dropped_full", followed.dropped_full),
            ("native_spans_dropped_depth", followed.dropped_depth),
            ("native_records_dropped_signal", followed.dropped_signal),
            ("native_ends_dropped", followed.dropped_ends),
            ("native_extras_dropped", followed.dropped_extras),
            ("native_ends_misused", followed.misused),
            ("native_attributes_late", followed.late_extras),
            ("native_detached_beyond_bounds", followed.beyond_bounds),
            ("native_threads_without_ring", followed.threads_refused),
            ("native_processes", followed.processes),
            ("native_rings", followed.rings),
            ("native_logs_sent", counts.logs_sent),
            ("native_logs_unsent", counts.logs_unsent),
            ("native_points_sent", counts.points_sent),
            ("native_points_unsent", counts.points_unsent),
            ("native_parts_unreadable", counts.unreadable),
        ] {
            *sum.entry(name.to_owned()).or_default() += count;
        }
    }
    sum
}

/// Threads that drain.
pub(crate) struct Drains {
    threads: Vec<(Sender<()>, JoinHandle<()>)>,
    counts: DrainCounts,
}

impl Drains {
    /// Starts a thread for each directory.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(crate) fn start(config: &DrainConfig) -> anyhow::Result<Self> {
        let counts = DrainCounts::default();
        let mut threads = Vec::new();
        for dir in &config.directories {
            let (stop, stopping) = channel();
            let (dir, config, counts) = (dir.clone(), config.clone(), Arc::clone(&counts));
            let thread = std::thread::Builder::new()
                .name("native".to_owned())
                .spawn(move || run(&dir, &config, &counts, &stopping))
                .context("cannot start a thread for native programs")?;
            threads.push((stop, thread));
        }
        Ok(Self { threads, counts })
    }

    pub(crate) fn counts(&self) -> DrainCounts {
        Arc::clone(&self.counts)
    }

    /// Stops. What is not sent is sent after the next start.
    pub(crate) fn stop(self) {
        let stop = |(stop, thread): (Sender<()>, JoinHandle<()>)| {
            drop(stop);
            thread
        };
        let threads: Vec<JoinHandle<()>> = self.threads.into_iter().map(stop).collect();
        let until = Instant::now() + STOP;
        while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Waits. `false` if it is time to stop.
fn pause(stopping: &Receiver<()>, time: Duration) -> bool {
    matches!(stopping.recv_timeout(time), Err(RecvTimeoutError::Timeout))
}

fn run(dir: &Path, config: &DrainConfig, counts: &DrainCounts, stopping: &Receiver<()>) {
    counts.lock().insert(dir.to_owned(), Counts::default());
    let mut said = String::new();
    loop {
        let problem = match Drain::open(dir, config, counts) {
            Ok(Some(mut drain)) => {
                tracing::info!("native programs are followed in {}", dir.display());
                said.clear();
                match drain.run(stopping) {
                    Ok(()) => return,
                    Err(error) => format!("{error:#}"),
                }
            }
            // The programs make it.
            Ok(None) => format!("{} does not exist yet", dir.display()),
            Err(error) => format!("{error:#}"),
        };
        if problem != said {
            tracing::warn!("native programs are not followed: {problem}");
            said = problem;
        }
        if !pause(stopping, RETRY) {
            return;
        }
    }
}

/// A directory that is drained.
struct Drain<'a> {
    dir: &'a Path,
    /// Holds the lock.
    _lock: File,
    following: Following,
    journal: Journal,
    waiting: Option<Batch>,
    runtime: tokio::runtime::Runtime,
    upload: Upload,
    logs: Option<Endpoint>,
    metrics: Option<Endpoint>,
    counts: &'a DrainCounts,
}

impl<'a> Drain<'a> {
    fn open(
        dir: &'a Path,
        config: &DrainConfig,
        counts: &'a DrainCounts,
    ) -> anyhow::Result<Option<Self>> {
        let shown = dir.display();
        if !dir.exists() {
            return Ok(None);
        }
        let lock = File::open(dir).with_context(|| format!("{shown}"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).with_context(|| {
            format!("{shown} is drained by another agent; give each agent directories of its own")
        })?;
        let (journal, checkpoint, waiting) = Journal::open(dir)?;
        let resource = vec![("host.name".to_owned(), config.host.clone())];
        let following = Following::open(dir, resource, checkpoint.as_deref())
            .map_err(|error| anyhow::anyhow!("{}: {error}", journal.checkpoint_path().display()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the input/output runtime")?;
        let upload = {
            let _entered = runtime.enter();
            Upload::new(&config.server, PATIENCE)?
        };
        let endpoint = |url: &Option<EndpointUrl>| url.clone().map(Endpoint::new).transpose();
        Ok(Some(Self {
            dir,
            _lock: lock,
            following,
            journal,
            waiting,
            runtime,
            upload,
            logs: endpoint(&config.logs_to)?,
            metrics: endpoint(&config.metrics_to)?,
            counts,
        }))
    }

    /// Until it is to stop.
    fn run(&mut self, stopping: &Receiver<()>) -> anyhow::Result<()> {
        if let Some(batch) = self.waiting.take() {
            // What an earlier agent read, and may have sent.
            if !self.send(&batch, stopping)? {
                return Ok(());
            }
            let state = self.journal.take(batch)?;
            self.following =
                Following::open(self.dir, self.following.resource().to_vec(), Some(&state))
                    .map_err(|error| anyhow::anyhow!("{}: {error}", self.dir.display()))?;
        }
        let mut idle = SHORTEST_PAUSE;
        let mut told = Instant::now();
        loop {
            let (given, more) = self.following.poll(&mut lives::lives);
            let nothing = given.is_empty();
            if !nothing {
                let batch = self.batch(given)?;
                if !self.send(&batch, stopping)? {
                    return Ok(());
                }
                self.journal.take(batch)?;
                self.following.accepted();
            }
            let problems = self.following.take_problems();
            for problem in problems.iter().take(10) {
                tracing::warn!("{}: {problem}", self.dir.display());
            }
            if !nothing || !problems.is_empty() || told.elapsed() > LONGEST_PAUSE {
                told = Instant::now();
                let followed = self.following.counts();
                self.count(|counts| {
                    counts.followed = followed;
                    counts.unreadable += problems.len() as u64;
                });
            }
            idle = if nothing { (idle * 2).min(LONGEST_PAUSE) } else { SHORTEST_PAUSE };
            if !pause(stopping, if more { Duration::ZERO } else { idle }) {
                return Ok(());
            }
        }
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(self.counts.lock().entry(self.dir.to_owned()).or_default());
    }

    /// Makes messages, and writes them to the disk.
    fn batch(&mut self, given: Vec<Given>) -> anyhow::Result<Batch> {
        let mut messages = Vec::new();
        for Given { piece, process } in given {
            let Some(process) = self.following.process(&process) else { continue };
            let mut add = |signal, items: u64, bytes| {
                if items > 0 {
                    messages.push(Message { signal, items, bytes });
                }
            };
            let mut bytes = Vec::new();
            let spans = otlp::traces(process, &piece, |_| true, &mut bytes);
            add(Signal::Traces, spans, bytes);
            let mut bytes = Vec::new();
            if self.logs.is_some() {
                otlp::logs(process, &piece.logs, &mut bytes);
            }
            add(Signal::Logs, piece.logs.len() as u64, bytes);
            let mut bytes = Vec::new();
            if self.metrics.is_some() {
                otlp::metrics(process, &piece.metrics, &mut bytes);
            }
            add(Signal::Metrics, piece.metrics.len() as u64, bytes);
        }
        let checkpoint = self.following.checkpoint();
        self.journal.write(messages, &checkpoint)
    }

    /// Sends a batch. `false` if it is to stop before the server has it.
    fn send(&mut self, batch: &Batch, stopping: &Receiver<()>) -> anyhow::Result<bool> {
        let (rows, rejected) = rows(&batch.messages)?;
        let (mut sent, mut refused) = (0, rejected);
        for (part, from) in (0..rows.num_rows()).step_by(ROWS).enumerate() {
            let slice = rows.slice(from, ROWS.min(rows.num_rows() - from));
            let count = slice.num_rows() as u64;
            let origin = Origin { source: batch.source, sequence: batch.sequence + part as u64 };
            let mut said = false;
            let slice = slice.into();
            loop {
                match self.runtime.block_on(self.upload.put(&slice, origin)) {
                    Ok(()) => {
                        sent += count;
                        break;
                    }
                    Err(error @ (UploadError::Refused { .. } | UploadError::Setup(_))) => {
                        tracing::error!("spans of native programs are lost: {error}");
                        refused += count;
                        break;
                    }
                    Err(error) => {
                        if !said {
                            tracing::warn!("spans of native programs wait: {error}");
                        }
                        said = true;
                    }
                }
                if !pause(stopping, SHORTEST_PAUSE) {
                    return Ok(false);
                }
            }
        }
        self.count(|counts| {
            counts.spans_sent += sent;
            counts.spans_refused += refused;
        });
        for message in &batch.messages {
            let endpoint = match message.signal {
                Signal::Traces => continue,
                Signal::Logs => &mut self.logs,
                Signal::Metrics => &mut self.metrics,
            };
            let taken = endpoint.as_mut().is_some_and(|endpoint| {
                let sent = endpoint.send(message.signal, &message.bytes, OTHER_PATIENCE);
                if let Err(SendError::Away(reason) | SendError::Refused(reason)) = &sent {
                    tracing::warn!("records of native programs are lost: {reason}");
                }
                sent.is_ok()
            });
            let (items, signal) = (message.items, message.signal);
            self.count(|counts| {
                *match (signal, taken) {
                    (Signal::Logs, true) => &mut counts.logs_sent,
                    (Signal::Logs, false) => &mut counts.logs_unsent,
                    (_, true) => &mut counts.points_sent,
                    (_, false) => &mut counts.points_unsent,
                } += items;
            });
        }
        Ok(true)
    }
}

/// The spans of messages as rows, and how many are none.
fn rows(messages: &[Message]) -> anyhow::Result<(RecordBatch, u64)> {
    let (mut batches, mut rejected) = (Vec::new(), 0);
    for message in messages.iter().filter(|message| message.signal == Signal::Traces) {
        match decode_protobuf(&message.bytes, &Limits::default()) {
            Ok(decoded) => {
                rejected += decoded.rejections.total();
                batches.push(decoded.batch.whole()?);
            }
            Err(error) => {
                tracing::error!("spans of a native program cannot be read: {error}");
                rejected += message.items;
            }
        }
    }
    Ok((concat_batches(&span_schema(), &batches)?, rejected))
}
