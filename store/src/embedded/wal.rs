//! The write-ahead log: one segment a generation, written by one thread that
//! makes all waiting records durable with one sync.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use super::record::{Damage, Record};
use crate::contract::StoreError;

const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Bytes written before one sync, at most, so that no one waits for long.
const GROUP_BYTES: usize = 32 << 20;

/// Takes a record once it is durable, with the generation that holds it.
pub(super) type Durable = Box<dyn FnMut(Record, u64, u64) + Send>;

enum Command {
    Append { record: Record, bytes: Vec<u8>, done: oneshot::Sender<Result<(), StoreError>> },
    Rotate { done: oneshot::Sender<Result<u64, StoreError>> },
    Close,
}

/// The log's writer.
pub(super) struct Wal {
    commands: mpsc::Sender<Command>,
    thread: parking_lot::Mutex<Option<JoinHandle<()>>>,
}

/// The path of a generation's segment.
pub(super) fn segment_path(directory: &Path, generation: u64) -> PathBuf {
    directory.join(format!("{generation:012}.log"))
}

/// The generations that have a segment, oldest first.
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

/// What a segment held.
pub(super) struct Replay {
    pub(super) records: Vec<Record>,
    /// Bytes of sound records.
    pub(super) sound_bytes: u64,
    /// What is wrong with the rest.
    pub(super) damage: Option<(Damage, u64)>,
}

/// Reads a segment up to its end or its first damage, and cuts the damage off.
pub(super) fn replay(path: &Path) -> io::Result<Replay> {
    let bytes = fs::read(path)?;
    let mut records = Vec::new();
    let mut at = 0;
    let damage = loop {
        match Record::decode(&bytes[at..]) {
            Ok(None) => break None,
            Ok(Some((record, length))) => {
                records.push(record);
                at += length;
            }
            Err(damage) => break Some((damage, (bytes.len() - at) as u64)),
        }
    };
    if damage.is_some() {
        // What was cut is kept beside, for whoever wants to look.
        fs::write(path.with_extension("damaged"), &bytes[at..])?;
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(at as u64)?;
        file.sync_all()?;
    }
    Ok(Replay { records, sound_bytes: at as u64, damage })
}

impl Wal {
    /// Starts to write a new segment of this generation.
    pub(super) fn start(
        directory: PathBuf,
        generation: u64,
        min_free_bytes: u64,
        durable: Durable,
    ) -> io::Result<Self> {
        let segment = Segment::create(&directory, generation)?;
        let (commands, queue) = mpsc::channel();
        let writer = Writer { directory, segment, min_free_bytes, durable };
        let thread =
            std::thread::Builder::new().name("wal".to_owned()).spawn(move || writer.run(&queue))?;
        Ok(Self { commands, thread: parking_lot::Mutex::new(Some(thread)) })
    }

    /// Makes a record durable.
    pub(super) async fn append(&self, record: Record) -> Result<(), StoreError> {
        let bytes = record.encode().map_err(|error| StoreError::Engine {
            context: "cannot encode a batch for the log".to_owned(),
            source: Box::new(error),
        })?;
        let (done, answer) = oneshot::channel();
        self.send(Command::Append { record, bytes, done })?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Begins a new generation; the number of the one that was closed.
    pub(super) async fn rotate(&self) -> Result<u64, StoreError> {
        let (done, answer) = oneshot::channel();
        self.send(Command::Rotate { done })?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    fn send(&self, command: Command) -> Result<(), StoreError> {
        self.commands.send(command).map_err(|_| closed())
    }

    /// Finishes what is waiting, and ends.
    pub(super) fn close(&self) {
        let _ = self.commands.send(Command::Close);
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

fn closed() -> StoreError {
    StoreError::Full { reason: "the store is closing".to_owned(), retry_after: RETRY_AFTER }
}

struct Segment {
    file: File,
    generation: u64,
    bytes: u64,
}

impl Segment {
    fn create(directory: &Path, generation: u64) -> io::Result<Self> {
        let path = segment_path(directory, generation);
        let file = OpenOptions::new().create_new(true).append(true).open(path)?;
        File::open(directory)?.sync_all()?;
        Ok(Self { file, generation, bytes: 0 })
    }
}

struct Writer {
    directory: PathBuf,
    segment: Segment,
    min_free_bytes: u64,
    durable: Durable,
}

type Waiting = (Record, u64, oneshot::Sender<Result<(), StoreError>>);

impl Writer {
    fn run(mut self, queue: &mpsc::Receiver<Command>) {
        while let Ok(first) = queue.recv() {
            let mut buffer = Vec::new();
            let mut waiting: Vec<Waiting> = Vec::new();
            let mut next = Some(first);
            let mut after = None;
            // Everything that waits goes into one write and one sync.
            while let Some(command) = next.take() {
                match command {
                    Command::Append { record, bytes, done } => {
                        waiting.push((record, bytes.len() as u64, done));
                        buffer.extend_from_slice(&bytes);
                        if buffer.len() < GROUP_BYTES {
                            next = queue.try_recv().ok();
                        }
                    }
                    other => after = Some(other),
                }
            }
            if !waiting.is_empty() {
                self.commit(&buffer, waiting);
            }
            match after {
                Some(Command::Rotate { done }) => {
                    let _ = done.send(self.rotate());
                }
                Some(Command::Close) => return,
                _ => {}
            }
        }
    }

    fn commit(&mut self, buffer: &[u8], waiting: Vec<Waiting>) {
        match self.write(buffer) {
            Ok(()) => {
                self.segment.bytes += buffer.len() as u64;
                for (record, bytes, done) in waiting {
                    (self.durable)(record, bytes, self.segment.generation);
                    let _ = done.send(Ok(()));
                }
            }
            Err(reason) => {
                // Nothing of a refused batch may come back after a restart.
                let undone = self.segment.file.set_len(self.segment.bytes);
                if undone.is_ok() {
                    let _ = self.segment.file.sync_data();
                }
                for (_, _, done) in waiting {
                    let reason = reason.clone();
                    let _ = done.send(Err(StoreError::Full { reason, retry_after: RETRY_AFTER }));
                }
            }
        }
    }

    fn write(&mut self, buffer: &[u8]) -> Result<(), String> {
        let place = self.directory.display();
        if let Ok(disk) = rustix::fs::statvfs(&self.directory) {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            if free < self.min_free_bytes.saturating_add(buffer.len() as u64) {
                return Err(format!(
                    "only {} MiB are free on the disk of {place}, and {} MiB are left to others; \
                     free some space or lower the retention",
                    free >> 20,
                    self.min_free_bytes >> 20
                ));
            }
        }
        let file = &mut self.segment.file;
        file.write_all(buffer).and_then(|()| file.sync_data()).map_err(|error| {
            format!("cannot write the log in {place}: {error}; free some space on its disk")
        })
    }

    fn rotate(&mut self) -> Result<u64, StoreError> {
        let closed = self.segment.generation;
        self.segment =
            Segment::create(&self.directory, closed + 1).map_err(|source| StoreError::Io {
                context: format!("cannot begin a log segment in {}", self.directory.display()),
                source,
            })?;
        Ok(closed)
    }
}
