//! The embedded store: a write-ahead log, rows in memory, Parquet files.
//!
//! A batch goes to the log of the open generation, and into memory once it is
//! durable. A generation that is old or large enough is closed; when its rows
//! have been assembled it becomes a Parquet file, and its log is deleted.

mod config;
mod files;
mod query;
mod recent;
mod record;
mod wal;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use parking_lot::Mutex;
use spanwise_model::Assembled;
use tokio::task::JoinHandle;

pub use config::EmbeddedConfig;

use crate::contract::{
    Appended, Key, Origin, Query, SqlLimits, Store, StoreError, StoreStatus, TimeRange, Unsettled,
};
use files::{Origins, SpanFile};
use recent::{Recent, batch_bytes};
use record::Record;
use wal::Wal;

const RETRY_AFTER: Duration = Duration::from_secs(2);
const MAINTAIN_EVERY: Duration = Duration::from_millis(250);
/// Files below this size are merged with their neighbours.
const SMALL_FILE_BYTES: u64 = 4 << 20;
const MERGE_FILES: usize = 8;
/// A merged or retired file stays this long for queries that still read it.
const LINGER: Duration = Duration::from_secs(30);
/// Senders remembered, to recognise a batch that comes twice.
const MAX_ORIGINS: usize = 10_000;

/// See the module.
pub struct EmbeddedStore {
    config: EmbeddedConfig,
    spans: PathBuf,
    log: PathBuf,
    wal: Wal,
    state: Arc<Mutex<State>>,
    next_batch: AtomicU64,
    maintenance: Mutex<Option<JoinHandle<()>>>,
    /// Holds the directory for this process.
    _lock: File,
}

struct State {
    recent: Recent,
    files: Vec<SpanFile>,
    origins: HashMap<[u8; 16], u64>,
    counters: BTreeMap<&'static str, u64>,
    warnings: Vec<String>,
    lingering: Vec<(Instant, PathBuf)>,
}

impl State {
    fn count(&mut self, name: &'static str, by: u64) {
        *self.counters.entry(name).or_default() += by;
    }

    fn took(&mut self, origin: Option<Origin>) {
        if let Some(origin) = origin
            && (self.origins.len() < MAX_ORIGINS || self.origins.contains_key(&origin.source))
        {
            let last = self.origins.entry(origin.source).or_default();
            *last = origin.sequence.max(*last);
        }
    }

    fn knows(&self, origin: Option<Origin>) -> bool {
        origin.is_some_and(|origin| {
            self.origins.get(&origin.source).is_some_and(|last| origin.sequence <= *last)
        })
    }

    fn origins_text(&self) -> Origins {
        self.origins.iter().map(|(source, last)| (hex(source), *last)).collect()
    }
}

fn hex(source: &[u8; 16]) -> String {
    source.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32).map(u128::to_be_bytes)
}

fn io(context: String) -> impl FnOnce(std::io::Error) -> StoreError {
    move |source| StoreError::Io { context, source }
}

impl EmbeddedStore {
    /// Opens the directory, replays its log, and begins to write.
    ///
    /// # Errors
    /// Where the directory cannot be made, read or written, or another process
    /// has it open. Damaged logs and files are no error: what can be read is
    /// served, and [`Store::status`] tells of the rest.
    pub async fn open(config: EmbeddedConfig) -> Result<Arc<Self>, StoreError> {
        let opening = config.clone();
        let store = tokio::task::spawn_blocking(move || Self::open_now(opening))
            .await
            .map_err(|error| io("opening the store".to_owned())(std::io::Error::other(error)))??;
        let store = Arc::new(store);
        let weak = Arc::downgrade(&store);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(MAINTAIN_EVERY).await;
                let Some(store) = weak.upgrade() else { return };
                store.maintain(false).await;
            }
        });
        *store.maintenance.lock() = Some(task);
        Ok(store)
    }

    fn open_now(config: EmbeddedConfig) -> Result<Self, StoreError> {
        let (spans, log) = (config.directory.join("spans"), config.directory.join("wal"));
        for directory in [&spans, &log] {
            fs::create_dir_all(directory)
                .map_err(io(format!("cannot make the directory {}", directory.display())))?;
        }
        let lock = lock(&config.directory)?;
        let mut state = State {
            recent: Recent::new(),
            files: Vec::new(),
            origins: HashMap::new(),
            counters: BTreeMap::new(),
            warnings: Vec::new(),
            lingering: Vec::new(),
        };
        let found = files::open(&spans)?;
        for (path, reason) in found.broken {
            state.count("files_broken_set_aside", 1);
            state.warnings.push(format!(
                "{} is damaged ({reason}) and was renamed to .broken; its spans are missing from \
                 answers",
                path.display()
            ));
        }
        for file in &found.files {
            for (source, last) in &file.origins {
                if let Some(source) = unhex(source) {
                    state.took(Some(Origin { source, sequence: *last }));
                }
            }
        }
        state.files = found.files;
        let (next_generation, next_batch) = replay(&log, &mut state)?;
        for warning in &state.warnings {
            tracing::warn!("{warning}");
        }
        let state = Arc::new(Mutex::new(state));
        let durable = {
            let state = Arc::clone(&state);
            Box::new(move |record: Record, bytes, generation| {
                let mut state = state.lock();
                state.took(record.origin);
                state.recent.add(record, bytes, generation);
            })
        };
        let wal = Wal::start(log.clone(), next_generation, config.min_free_bytes, durable)
            .map_err(io(format!("cannot write in {}", log.display())))?;
        Ok(Self {
            config,
            spans,
            log,
            wal,
            state,
            next_batch: AtomicU64::new(next_batch),
            maintenance: Mutex::new(None),
            _lock: lock,
        })
    }

    /// Closes, writes, merges and retires, as far as it is time.
    async fn maintain(&self, closing: bool) {
        let rotate = {
            let state = self.state.lock();
            state.recent.open_generation().is_some_and(|open| {
                closing
                    || open.log_bytes >= self.config.generation_max_bytes
                    || open.opened.elapsed() >= self.config.generation_max_age
            })
        };
        if rotate && let Ok(closed) = self.wal.rotate().await {
            self.state.lock().recent.close(closed);
        }
        while let Some(generation) = self.next_to_write(closing) {
            if !self.write_generation(generation).await {
                break;
            }
        }
        if !closing {
            self.merge().await;
            self.retire();
        }
    }

    fn next_to_write(&self, closing: bool) -> Option<u64> {
        let deadline = self.config.settle_deadline;
        self.state.lock().recent.ready(|generation| {
            generation.settled()
                || (!closing && generation.closed.is_some_and(|at| at.elapsed() >= deadline))
        })
    }

    /// Turns a generation into a file; whether that went well.
    async fn write_generation(&self, generation: u64) -> bool {
        let (rows, origins) = {
            let mut state = self.state.lock();
            (state.recent.rows_of(generation), state.origins_text())
        };
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => {
                self.warn("generations_unwritten", format!("cannot read rows in memory: {error}"));
                return false;
            }
        };
        let directory = self.spans.clone();
        let written = tokio::task::spawn_blocking(move || {
            files::write(&directory, (generation, generation), &rows, origins)
        })
        .await;
        match written {
            Ok(Ok(file)) => {
                {
                    let mut state = self.state.lock();
                    state.files.extend(file);
                    state.recent.remove(generation);
                    state.warnings.retain(|warning| !warning.starts_with(UNWRITTEN));
                }
                let _ = fs::remove_file(wal::segment_path(&self.log, generation));
                true
            }
            Ok(Err(error)) => {
                self.warn("generations_unwritten", format!("{UNWRITTEN}: {error}"));
                false
            }
            Err(error) => {
                self.warn("generations_unwritten", format!("{UNWRITTEN}: {error}"));
                false
            }
        }
    }

    fn warn(&self, counter: &'static str, warning: String) {
        let mut state = self.state.lock();
        state.count(counter, 1);
        if !state.warnings.contains(&warning) {
            tracing::warn!("{warning}");
            state
                .warnings
                .retain(|old| !(old.starts_with(UNWRITTEN) && warning.starts_with(UNWRITTEN)));
            state.warnings.push(warning);
        }
    }

    /// Makes one file of a run of small neighbours.
    async fn merge(&self) {
        let run: Vec<SpanFile> = {
            let state = self.state.lock();
            let mut run: Vec<SpanFile> = Vec::new();
            for file in &state.files {
                if file.bytes >= SMALL_FILE_BYTES {
                    run.clear();
                    continue;
                }
                run.push(file.clone());
                if run.len() == MERGE_FILES {
                    break;
                }
            }
            if run.len() < MERGE_FILES {
                return;
            }
            run
        };
        let generations = (run[0].generations.0, run[MERGE_FILES - 1].generations.1);
        let mut origins = Origins::new();
        for (source, last) in run.iter().flat_map(|file| &file.origins) {
            let entry = origins.entry(source.clone()).or_default();
            *entry = (*entry).max(*last);
        }
        let directory = self.spans.clone();
        let parts = run.clone();
        let merged = tokio::task::spawn_blocking(move || {
            let rows = files::read(&parts)?;
            files::write(&directory, generations, &rows, origins)
        })
        .await;
        match merged {
            Ok(Ok(Some(file))) => {
                let mut state = self.state.lock();
                let gone = |other: &SpanFile| run.iter().any(|part| part.path == other.path);
                state.files.retain(|other| !gone(other));
                state.files.push(file);
                state.files.sort_by_key(|file| file.generations.0);
                let now = Instant::now();
                state.lingering.extend(run.into_iter().map(|part| (now, part.path)));
                state.count("files_merged", MERGE_FILES as u64);
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => {
                tracing::warn!("{error}");
                self.set_broken_aside(&run).await;
            }
            Err(error) => tracing::warn!("merging files failed: {error}"),
        }
    }

    /// Removes what is older or larger than what is to be kept.
    fn retire(&self) {
        let horizon = self.config.retain_age.and_then(|age| {
            let then = SystemTime::now().checked_sub(age)?.duration_since(UNIX_EPOCH).ok()?;
            i64::try_from(then.as_nanos()).ok()
        });
        let mut state = self.state.lock();
        let mut total: u64 = state.files.iter().map(|file| file.bytes).sum();
        let (mut gone, mut kept) = (Vec::new(), Vec::new());
        for file in std::mem::take(&mut state.files) {
            let old = horizon.is_some_and(|horizon| file.max_start_unix_nano < horizon);
            let large = self.config.retain_bytes.is_some_and(|most| total > most);
            if old || large {
                total -= file.bytes;
                gone.push(file);
            } else {
                kept.push(file);
            }
        }
        state.files = kept;
        for file in gone {
            state.count("files_retired", 1);
            state.count("rows_retired", file.rows);
            state.lingering.push((Instant::now(), file.path));
        }
        state.lingering.retain(|(since, path)| {
            let keep = since.elapsed() < LINGER;
            if !keep {
                let _ = fs::remove_file(path);
            }
            keep
        });
    }

    fn files(&self, time: TimeRange) -> Vec<SpanFile> {
        self.state.lock().files.iter().filter(|file| file.overlaps(time)).cloned().collect()
    }

    /// Looks for files whose pages cannot be read; whether there were any.
    async fn set_broken_aside(&self, files: &[SpanFile]) -> bool {
        let files = files.to_vec();
        let check = move || -> Vec<PathBuf> {
            let broken = files.into_iter().filter(|file| !files::is_sound(&file.path));
            broken.map(|file| file.path).collect()
        };
        let broken = tokio::task::spawn_blocking(check).await.unwrap_or_default();
        for path in &broken {
            files::set_aside(path);
            self.state.lock().files.retain(|file| file.path != *path);
            self.warn(
                "files_broken_set_aside",
                format!(
                    "{} is damaged and was renamed to .broken; its spans are missing from answers",
                    path.display()
                ),
            );
        }
        !broken.is_empty()
    }
}

const UNWRITTEN: &str = "spans stay in memory and in the log, for no file can be written";

fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("lock");
    let context = || format!("cannot write in {}", directory.display());
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(io(context()))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(
        |_| {
            StoreError::Invalid(format!(
                "{} is in use by another spanwise; stop it, or choose another directory",
                directory.display()
            ))
        },
    )?;
    Ok(file)
}

/// Reads the log back into memory; the next generation and batch numbers.
fn replay(log: &Path, state: &mut State) -> Result<(u64, u64), StoreError> {
    let context = || format!("cannot read the log in {}", log.display());
    let mut next_batch = 1;
    let mut next_generation =
        state.files.iter().map(|file| file.generations.1 + 1).max().unwrap_or(1);
    for generation in wal::segments(log).map_err(io(context()))? {
        next_generation = next_generation.max(generation + 1);
        let path = wal::segment_path(log, generation);
        let done = state
            .files
            .iter()
            .any(|file| (file.generations.0..=file.generations.1).contains(&generation));
        if done {
            fs::remove_file(&path).map_err(io(context()))?;
            continue;
        }
        let replay = wal::replay(&path).map_err(io(context()))?;
        if let Some((damage, bytes)) = replay.damage {
            state.count("log_bytes_damaged", bytes);
            state.count("log_segments_damaged", 1);
            state.warnings.push(format!(
                "{}: {damage} after {} sound bytes; the {bytes} bytes that follow were cut off. \
                 After a crash that is a batch that was not acknowledged; otherwise look at the \
                 disk",
                path.display(),
                replay.sound_bytes
            ));
        }
        if replay.records.is_empty() {
            fs::remove_file(&path).map_err(io(context()))?;
            continue;
        }
        let each = replay.sound_bytes / replay.records.len() as u64;
        for record in replay.records {
            next_batch = next_batch.max(record.batch + 1);
            state.took(record.origin);
            state.recent.add(record, each, generation);
        }
        state.recent.close(generation);
    }
    Ok((next_generation, next_batch))
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn append(
        &self,
        batch: RecordBatch,
        origin: Option<Origin>,
    ) -> Result<Appended, StoreError> {
        {
            let mut state = self.state.lock();
            if state.knows(origin) {
                state.count("batches_duplicate", 1);
                return Ok(Appended::Duplicate);
            }
            if state.recent.bytes + batch_bytes(&batch) > self.config.recent_max_bytes {
                state.count("batches_refused_memory_full", 1);
                return Err(StoreError::Full {
                    reason: format!(
                        "{} MiB of spans wait in memory for files to be written",
                        state.recent.bytes >> 20
                    ),
                    retry_after: RETRY_AFTER,
                });
            }
        }
        let number = self.next_batch.fetch_add(1, Ordering::Relaxed);
        let appended = self.wal.append(Record { batch: number, origin, rows: batch }).await;
        if let Err(error) = appended {
            self.state.lock().count("batches_refused_log", 1);
            return Err(error);
        }
        Ok(Appended::Stored { batch: number })
    }

    async fn annotate(&self, rows: &[Assembled]) -> Result<(), StoreError> {
        self.state.lock().recent.annotate(rows);
        Ok(())
    }

    fn unsettled(&self) -> Vec<Unsettled> {
        self.state.lock().recent.unsettled()
    }

    async fn find_by_keys(
        &self,
        keys: &[Key],
        time: TimeRange,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let (recent, files) = {
            // One moment for both: a generation must not be seen twice or not at all.
            let mut state = self.state.lock();
            let files: Vec<SpanFile> =
                state.files.iter().filter(|file| file.overlaps(time)).cloned().collect();
            (state.recent.find(keys, time), files)
        };
        let mut found = recent.map_err(|error| StoreError::Engine {
            context: "cannot read rows in memory".to_owned(),
            source: Box::new(error),
        })?;
        match query::by_keys(&files, keys, time).await {
            Ok(stored) => found.extend(stored),
            Err(error) => {
                if !self.set_broken_aside(&files).await {
                    return Err(error);
                }
                found.extend(query::by_keys(&self.files(time), keys, time).await?);
            }
        }
        Ok(found)
    }

    async fn find(&self, query: &Query) -> Result<Vec<RecordBatch>, StoreError> {
        let (recent, files) = self.snapshot(query.time)?;
        match query::find(recent, &files, query).await {
            Err(error) if !self.set_broken_aside(&files).await => Err(error),
            Err(_) => {
                let (recent, files) = self.snapshot(query.time)?;
                query::find(recent, &files, query).await
            }
            found => found,
        }
    }

    async fn sql(
        &self,
        statement: &str,
        limits: SqlLimits,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let (recent, files) = self.snapshot(TimeRange::ALL)?;
        match query::sql(recent, &files, statement, limits).await {
            Err(StoreError::Engine { .. }) if self.set_broken_aside(&files).await => {
                let (recent, files) = self.snapshot(TimeRange::ALL)?;
                query::sql(recent, &files, statement, limits).await
            }
            answer => answer,
        }
    }

    async fn drop_before(&self, unix_nano: i64) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let files = std::mem::take(&mut state.files);
        let (gone, kept) =
            files.into_iter().partition(|file: &SpanFile| file.max_start_unix_nano < unix_nano);
        state.files = kept;
        let now = Instant::now();
        state.lingering.extend(gone.into_iter().map(|file| (now, file.path)));
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        let task = self.maintenance.lock().take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
        self.maintain(true).await;
        self.wal.close();
        for (_, path) in self.state.lock().lingering.drain(..) {
            let _ = fs::remove_file(path);
        }
        Ok(())
    }

    fn status(&self) -> StoreStatus {
        let state = self.state.lock();
        StoreStatus {
            kind: "embedded",
            recent_rows: state.recent.rows,
            recent_bytes: state.recent.bytes,
            wal_bytes: state.recent.log_bytes(),
            files: state.files.len() as u64,
            file_rows: state.files.iter().map(|file| file.rows).sum(),
            file_bytes: state.files.iter().map(|file| file.bytes).sum(),
            oldest_unix_nano: state
                .files
                .iter()
                .map(|file| file.min_start_unix_nano)
                .min()
                .unwrap_or(0),
            counters: state.counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            warnings: state.warnings.clone(),
        }
    }
}

impl EmbeddedStore {
    /// Rows in memory and the files beside them, of one moment.
    fn snapshot(&self, time: TimeRange) -> Result<(Vec<RecordBatch>, Vec<SpanFile>), StoreError> {
        let mut state = self.state.lock();
        let files = state.files.iter().filter(|file| file.overlaps(time)).cloned().collect();
        let recent = state.recent.snapshot().map_err(|error| StoreError::Engine {
            context: "cannot read rows in memory".to_owned(),
            source: Box::new(error),
        })?;
        Ok((recent, files))
    }
}
