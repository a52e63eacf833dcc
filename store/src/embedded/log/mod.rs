//! The write-ahead log: one segment for each generation. One thread writes it and makes all waiting
//! records durable with one sync (group commit).

pub(super) mod columns;
pub(super) mod record;
pub(super) mod replay;
pub(super) mod templates;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use ahash::AHashSet;
use arrow::array::UInt32Array;
use arrow::error::ArrowError;
use parking_lot::Mutex;
use rustix::io::Errno;
use tokio::sync::oneshot;

use crate::contract::StoreError;
use crate::embedded::duplicates::seen::RecentIdentities;
use crate::embedded::keys::starts;
use crate::embedded::upkeep::now_unix_nano;
use crate::embedded::{fault, private};
use record::Record;

const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Maximum bytes written before a sync, to bound the waiting time.
const GROUP_BYTES: usize = 32 << 20;
/// How long records are collected for one sync if several senders are active: about the duration of
/// a sync. A longer time saves few syncs, because each sender waits for its response before it
/// sends again.
const GATHER: Duration = Duration::from_millis(3);
/// Buffer capacity that is kept for the next group.
const KEPT_BYTES: usize = 4 << 20;

/// Callbacks of the log's thread. They run before the caller of [`Wal::append`] gets the result.
pub(super) trait LogObserver: Send {
    /// The record is durable. It takes `bytes` in this generation's segment. `twice` of its rows
    /// were left out because their spans were already stored.
    fn durable(&self, record: Record, twice: u64, bytes: u64, generation: u64);

    /// Nothing of the record was stored.
    fn refused(&self, record: &Record, error: &StoreError);

    /// Stored rows were deleted. `seen` must be reduced to what is stored.
    fn look_again(&self, seen: &mut RecentIdentities);
}

/// Which rows of a record were stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoredRows {
    /// All.
    All,
    /// The rows with these indexes. The spans of the others were already stored.
    Rows(Vec<u32>),
}

type Done = oneshot::Sender<Result<StoredRows, StoreError>>;

enum Command {
    Append { record: Record, bytes: Vec<u8>, identities: Option<Vec<u64>>, done: Done },
    Rotate { done: oneshot::Sender<()> },
    LookAgain { done: oneshot::Sender<()> },
    Close,
}

/// The handle of the log's writer. Dropping it writes everything that waits.
pub(super) struct Wal {
    commands: mpsc::Sender<Command>,
    open: Arc<AtomicU64>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The path of a generation's segment.
pub(super) fn segment_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{generation:012}.log"))
}

/// The generations with a segment, oldest first.
pub(super) fn segments(directory: &Path) -> io::Result<Vec<u64>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let generation: Option<u64> =
            name.to_str().and_then(|name| name.strip_suffix(".log")?.parse().ok());
        found.extend(generation);
    }
    found.sort_unstable();
    Ok(found)
}

impl Wal {
    /// Starts the writer. Segments have at most `segment_rows` rows, unless one record has more.
    /// The first segment is created with the first record, so that a store also opens on a full
    /// disk.
    pub(super) fn start(
        directory: PathBuf,
        generation: u64,
        segment_rows: usize,
        min_free_bytes: u64,
        seen: RecentIdentities,
        observer: Box<dyn LogObserver>,
    ) -> io::Result<Self> {
        let (commands, queue) = mpsc::channel();
        let open = Arc::new(AtomicU64::new(generation));
        let writer = Writer {
            directory,
            segment: None,
            rows: 0,
            segment_rows,
            open: Arc::clone(&open),
            min_free_bytes,
            observer,
            seen,
            defined: AHashSet::new(),
        };
        let thread = std::thread::Builder::new()
            .name("write-ahead-log".to_owned())
            .spawn(move || writer.run(&queue))?;
        Ok(Self { commands, open, thread: Mutex::new(Some(thread)) })
    }

    /// Makes a record durable, without the rows whose identities were already stored. The
    /// [`LogObserver`] gets the result even if the caller does not wait for it.
    pub(super) async fn append(
        &self,
        record: Record,
        bytes: Vec<u8>,
        identities: Option<Vec<u64>>,
    ) -> Result<StoredRows, StoreError> {
        let (done, answer) = oneshot::channel();
        // If the writer has ended, the queue is gone and waiting for the result fails.
        let _ = self.commands.send(Command::Append { record, bytes, identities, done });
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Starts a new generation with the next record.
    pub(super) async fn rotate(&self) {
        let (done, answer) = oneshot::channel();
        let _ = self.commands.send(Command::Rotate { done });
        let _ = answer.await;
    }

    /// Announces that stored rows were deleted, so that their spans may be stored again. When the
    /// returned future completes, they may.
    pub(super) fn look_again(&self) -> impl Future<Output = ()> + Send + use<> {
        let (done, answer) = oneshot::channel();
        let _ = self.commands.send(Command::LookAgain { done });
        async move {
            let _ = answer.await;
        }
    }

    /// The generation of the next record, or an earlier one.
    pub(super) fn open_generation(&self) -> u64 {
        self.open.load(Ordering::Acquire)
    }

    /// Writes everything that waits, and ends.
    pub(super) fn close(&self) {
        let _ = self.commands.send(Command::Close);
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.close();
    }
}

/// The error for senders while the store closes.
pub(super) fn closed() -> StoreError {
    StoreError::Full { reason: "the store is closing".to_owned(), retry_after: RETRY_AFTER }
}

struct Segment {
    file: File,
    bytes: u64,
}

struct Writer {
    directory: PathBuf,
    segment: Option<Segment>,
    /// Rows in the segment, including those about to be written.
    rows: usize,
    segment_rows: usize,
    open: Arc<AtomicU64>,
    min_free_bytes: u64,
    observer: Box<dyn LogObserver>,
    seen: RecentIdentities,
    /// Templates that are defined in the segment.
    defined: AHashSet<u64>,
}

/// A record that is being written.
struct Waiting {
    record: Record,
    stored: StoredRows,
    /// Identities of the rows to be stored.
    identities: Vec<u64>,
    /// Number of rows that are left out.
    twice: u64,
    bytes: u64,
    done: Done,
}

impl Writer {
    fn run(mut self, queue: &mpsc::Receiver<Command>) {
        let mut buffer = Vec::new();
        // Whether several senders were active when the last group was written.
        let mut several = false;
        // The first record of the next segment.
        let mut ahead: Option<Command> = None;
        while let Some((first, came_meanwhile)) =
            ahead.take().map(|command| (command, true)).or_else(|| next_command(queue))
        {
            buffer.clear();
            buffer.shrink_to(KEPT_BYTES);
            // Does not delay a single sender that waits for each response.
            if (several || came_meanwhile) && matches!(first, Command::Append { .. }) {
                std::thread::sleep(GATHER);
            }
            let mut waiting: Vec<Waiting> = Vec::new();
            let mut next = Some(first);
            let mut after = None;
            // All waiting commands are written and synced together.
            while let Some(command) = next.take() {
                match command {
                    Command::Append { ref record, .. } if !self.has_room(record) => {
                        ahead = Some(command);
                    }
                    Command::Append { record, bytes, identities, done } => {
                        let identities = identities.unwrap_or_default();
                        waiting.extend(self.add(record, bytes, identities, done, &mut buffer));
                        if buffer.len() < GROUP_BYTES {
                            next = queue.try_recv().ok();
                        }
                    }
                    other => after = Some(other),
                }
            }
            several = waiting.len() > 1;
            if !waiting.is_empty() {
                self.commit(&buffer, waiting);
            }
            if ahead.is_some() {
                self.abandon_segment();
            }
            match after {
                Some(Command::Rotate { done }) => {
                    self.abandon_segment();
                    let _ = done.send(());
                }
                Some(Command::LookAgain { done }) => {
                    self.observer.look_again(&mut self.seen);
                    let _ = done.send(());
                }
                Some(Command::Close) => break,
                _ => {}
            }
        }
        // Commands that were sent after `Close` get an error.
        for command in queue.try_iter() {
            if let Command::Append { record, done, .. } = command {
                self.observer.refused(&record, &closed());
                let _ = done.send(Err(closed()));
            }
        }
    }

    /// Whether the segment has room for the record's rows.
    fn has_room(&self, record: &Record) -> bool {
        self.rows == 0 || self.rows + record.rows.num_rows() <= self.segment_rows
    }

    /// The next record starts a new segment.
    fn abandon_segment(&mut self) {
        self.defined.clear();
        self.rows = 0;
        if self.segment.take().is_some() {
            self.open.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Appends a record, without rows whose spans were already stored.
    fn add(
        &mut self,
        mut record: Record,
        mut bytes: Vec<u8>,
        mut identities: Vec<u64>,
        done: Done,
        buffer: &mut Vec<u8>,
    ) -> Option<Waiting> {
        let start = buffer.len();
        let kept = self.new_rows(&record, &identities);
        let (mut twice, mut stored) = (0, StoredRows::All);
        if let Some(rows) = kept {
            twice = (identities.len() - rows.len()) as u64;
            identities = rows.iter().map(|row| identities[*row as usize]).collect();
            match encode_some(&mut record, &rows) {
                Ok(of_some) => bytes = of_some,
                Err(error) => return self.refuse(&record, &identities, done, error),
            }
            stored = StoredRows::Rows(rows);
        }
        if record.rows.num_rows() > 0 || twice == 0 {
            if let Err(error) = self.define(&record, buffer) {
                buffer.truncate(start);
                return self.refuse(&record, &identities, done, error);
            }
            buffer.extend_from_slice(&bytes);
        }
        self.rows += record.rows.num_rows();
        let bytes = (buffer.len() - start) as u64;
        Some(Waiting { record, stored, identities, twice, bytes, done })
    }

    /// The indexes of rows with new spans, or `None` if all are new.
    fn new_rows(&mut self, record: &Record, identities: &[u64]) -> Option<Vec<u32>> {
        let starts = starts(record.rows.columns()).filter(|_| !identities.is_empty())?;
        self.seen.take(identities, starts.values(), now_unix_nano())
    }

    fn refuse(
        &mut self,
        record: &Record,
        identities: &[u64],
        done: Done,
        error: ArrowError,
    ) -> Option<Waiting> {
        let error = fault::engine("cannot encode a batch for the log")(error);
        self.seen.take_back(identities);
        self.observer.refused(record, &error);
        let _ = done.send(Err(error));
        None
    }

    /// Defines the templates of a record that the segment does not contain yet.
    fn define(&mut self, record: &Record, buffer: &mut Vec<u8>) -> Result<(), ArrowError> {
        let Some(templated) = record.rows.templated() else { return Ok(()) };
        let templates = templated.templates().iter();
        let new: Vec<_> =
            templates.filter(|template| self.defined.insert(template.id())).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        Record::put_templates(&new, buffer).inspect_err(|_| self.defined.clear())
    }

    fn commit(&mut self, buffer: &[u8], waiting: Vec<Waiting>) {
        let generation = self.open.load(Ordering::Acquire);
        match self.write(buffer) {
            Ok(()) => {
                for Waiting { record, stored, twice, bytes, done, .. } in waiting {
                    self.observer.durable(record, twice, bytes, generation);
                    let _ = done.send(Ok(stored));
                }
            }
            Err(error) => {
                self.undo();
                for Waiting { record, identities, done, .. } in waiting {
                    self.seen.take_back(&identities);
                    let error = self.failure(&error);
                    self.observer.refused(&record, &error);
                    let _ = done.send(Err(error));
                }
            }
        }
    }

    fn write(&mut self, buffer: &[u8]) -> Result<(), DiskProblem> {
        if buffer.is_empty() {
            // Everything that waits was already durable.
            return Ok(());
        }
        let disk = rustix::fs::statvfs(&self.directory).map_err(io::Error::from)?;
        let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
        if free_bytes < self.min_free_bytes.saturating_add(buffer.len() as u64) {
            return Err(DiskProblem::TooLittleFree { free_bytes });
        }
        if self.segment.is_none() {
            let path = segment_path(&self.directory, self.open.load(Ordering::Acquire));
            // A file with this name can only be left over from a failed attempt.
            let file = private::create(&path)?;
            File::open(&self.directory)?.sync_all()?;
            self.segment = Some(Segment { file, bytes: 0 });
        }
        if let Some(segment) = &mut self.segment {
            segment.file.write_all(buffer)?;
            segment.file.sync_data()?;
            segment.bytes += buffer.len() as u64;
        }
        Ok(())
    }

    /// Removes the bytes of a failed write. Nothing of a refused batch may reappear after a restart
    /// or precede later records.
    fn undo(&mut self) {
        use std::io::{Seek, SeekFrom};
        // Some definitions are removed. Defining a template twice is harmless.
        self.defined.clear();
        let Some(segment) = &mut self.segment else { return };
        let undone = segment
            .file
            .set_len(segment.bytes)
            .and_then(|()| segment.file.seek(SeekFrom::Start(segment.bytes)))
            .and_then(|_| segment.file.sync_data());
        if let Err(error) = undone {
            tracing::warn!("cannot take back a failed write to the log: {error}");
            self.abandon_segment();
        }
    }

    fn failure(&self, trouble: &DiskProblem) -> StoreError {
        let place = self.directory.display();
        let full = |reason| StoreError::Full { reason, retry_after: RETRY_AFTER };
        match trouble {
            DiskProblem::TooLittleFree { free_bytes } => full(format!(
                "only {} MiB are free on the disk of {place}, and {} MiB of it are to stay free; \
                 free some space or keep fewer spans",
                free_bytes >> 20,
                self.min_free_bytes >> 20
            )),
            DiskProblem::System(error) if is_full(error) => full(format!(
                "the disk of {place} is full ({error}); free some space or keep fewer spans"
            )),
            DiskProblem::System(error) => {
                // `io::Error` cannot be cloned for all waiting callers.
                let source = io::Error::new(error.kind(), error.to_string());
                fault::io(format!("cannot write the log in {place}"))(source)
            }
        }
    }
}

/// Reduces a record to the rows with these indexes. Returns its bytes.
fn encode_some(record: &mut Record, rows: &[u32]) -> Result<Vec<u8>, ArrowError> {
    record.rows = record.rows.take(&UInt32Array::from(rows.to_vec()))?;
    record.encode()
}

/// The next command, and whether it was already queued. `None` at the end.
fn next_command(queue: &mpsc::Receiver<Command>) -> Option<(Command, bool)> {
    match queue.try_recv() {
        Ok(command) => Some((command, true)),
        Err(_) => queue.recv().ok().map(|command| (command, false)),
    }
}

enum DiskProblem {
    TooLittleFree { free_bytes: u64 },
    System(io::Error),
}

impl From<io::Error> for DiskProblem {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

fn is_full(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT];
    error.raw_os_error().is_some_and(|number| full.iter().any(|e| e.raw_os_error() == number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::log::record::tests::record;

    /// The generation and number of rows of each record.
    #[derive(Clone, Default)]
    struct RecordingObserver(Arc<Mutex<Vec<(u64, usize)>>>);

    impl LogObserver for RecordingObserver {
        fn durable(&self, record: Record, _: u64, _: u64, generation: u64) {
            self.0.lock().push((generation, record.rows.num_rows()));
        }

        fn refused(&self, _: &Record, error: &StoreError) {
            panic!("refused: {error}");
        }

        fn look_again(&self, _: &mut RecentIdentities) {}
    }

    #[tokio::test]
    async fn a_segment_has_so_many_rows_or_one_record() {
        let directory = tempfile::tempdir().expect("a directory");
        let observer = RecordingObserver::default();
        let wal = Wal::start(
            directory.path().to_owned(),
            7,
            10,
            0,
            RecentIdentities::new(0, 0),
            Box::new(observer.clone()),
        );
        let wal = wal.expect("started");
        // Appended at once, so that one group spans several segments.
        let records = [5, 5, 1, 5, 11, 1, 5];
        let appended = records.map(|rows| wal.append(record(rows, None), vec![1; 8], None));
        for result in futures::future::join_all(appended).await {
            result.expect("durable");
        }
        let expected = [(7, 5), (7, 5), (8, 1), (8, 5), (9, 11), (10, 1), (10, 5)];
        assert_eq!(*observer.0.lock(), expected);
        assert_eq!(segments(directory.path()).expect("listed"), [7, 8, 9, 10]);
    }
}
