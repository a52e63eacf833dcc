//! The embedded store: a write-ahead log, rows in memory, and Parquet files.
//!
//! A batch is written to the log of the open generation. When it is durable, it is added to memory
//! and the sender is acknowledged. A generation is closed when it is old or large enough. When its
//! rows are assembled, it becomes a file and its log is removed. Generations become files in order.
//! So at any moment, and after any crash, a generation is either in the log or in one file.
//!
//! ```text
//! DIRECTORY/lock                 held by the process that has the store open
//! DIRECTORY/wal/GENERATION.log   batches that are not in files
//! DIRECTORY/deletions            requested deletions that still affect a file or the log
//! DIRECTORY/spans/FIRST-LAST.parquet   generations FIRST to LAST
//! DIRECTORY/derived/FROM-TO      bytes derived from rows of this time; see [`derived`]
//! DIRECTORY/heads, DIRECTORY/cache     files in object storage; see `remote`
//! DIRECTORY/clock.json           the last known time; see [`upkeep::clock`]
//! DIRECTORY/spool.json           what another store has taken; see [`EmbeddedConfig::spool`]
//! ```

mod config;
mod derived;
mod duplicates;
mod fault;
mod files;
mod keys;
mod log;
mod parallel;
mod private;
mod recent;
mod remote;
mod search;
mod sql;
mod state;
mod upkeep;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::RecordBatch;
use async_trait::async_trait;
use parking_lot::Mutex;
use spanwise_model::{Assembled, SpanBatch, SpanRows};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub use config::{EmbeddedConfig, ObjectStorageConfig};
pub use derived::{DerivedFile, DerivedFiles};
#[cfg(feature = "clickhouse")]
pub(crate) use fault::engine;
pub use sql::{SqlWorker, run_sql_worker};
#[cfg(feature = "clickhouse")]
pub(crate) use upkeep::spool::SpoolFile;

use crate::contract::{
    Appended, AttributeNames, AttributeValues, Counting, Deleted, Key, Origin, Outline, Query,
    RowCounts, RowTotal, Selection, SqlAnswer, SqlFunctions, SqlLimits, Store, StoreError,
    StoreStatus, TimeRange, Unsettled,
};
use duplicates::identity::Identities;
use duplicates::resent::RowsToStore;
use duplicates::seen::{CoverageStart, RecentIdentities};
use files::{SpanFile, listing, reader, writer};
use keys::{KeySet, starts};
use log::record::Record;
use log::replay::{self, Next};
use log::{LogObserver, StoredRows, Wal};
use recent::chunk::{Chunk, compact, rows_bytes};
use remote::Remote;
use state::State;
use upkeep::clock::Clock;
use upkeep::deletions::Deletions;
use upkeep::spool::Note;
use upkeep::{blocking, now_unix_nano};

/// The embedded store. See the module's description.
pub struct EmbeddedStore {
    config: EmbeddedConfig,
    spans: PathBuf,
    log: PathBuf,
    // Declared before the lock, so that the log has ended when the directory is unlocked.
    wal: Arc<Wal>,
    state: Arc<Mutex<State>>,
    /// Notified when rows have left memory.
    room: Notify,
    sql: sql::Engine,
    note: Mutex<Note>,
    next_batch: AtomicU64,
    closing: AtomicBool,
    maintenance: Mutex<Option<JoinHandle<()>>>,
    remote: Option<Arc<Remote>>,
    upkeep: Mutex<Option<JoinHandle<()>>>,
    identities: Arc<Identities>,
    covered: CoverageStart,
    clock: Mutex<Clock>,
    derived: Arc<DerivedFiles>,
    /// Held while rows move to a file, and while rows are deleted.
    moving: tokio::sync::Mutex<()>,
    /// Locks the directory for this process.
    lock: Mutex<Option<File>>,
}

impl EmbeddedStore {
    /// Opens the directory, replays its log, and starts the background tasks. Needs a Tokio
    /// runtime.
    ///
    /// # Errors
    /// If the directory cannot be created, read or written, or another process has it open. Damaged
    /// logs and files are not errors: everything readable is served, and [`Store::status`] reports
    /// the rest.
    pub async fn open(config: EmbeddedConfig) -> Result<Arc<Self>, StoreError> {
        let store = blocking("opening the store", move || Self::open_now(config)).await?;
        let store = Arc::new(store);
        let task = tokio::spawn(upkeep::run(Arc::downgrade(&store)));
        *store.maintenance.lock() = Some(task);
        if let Some(remote) = store.remote.clone() {
            let task = tokio::spawn(remote::run(Arc::downgrade(&store), remote));
            *store.upkeep.lock() = Some(task);
        }
        Ok(store)
    }

    fn open_now(config: EmbeddedConfig) -> Result<Self, StoreError> {
        let (spans, log) = (config.directory.join("spans"), config.directory.join("wal"));
        for directory in [&config.directory, &spans, &log] {
            private::create_directory(directory).map_err(fault::io(format!(
                "cannot make the directory {}; choose one that can be written",
                directory.display()
            )))?;
        }
        File::open(&config.directory).and_then(|directory| directory.sync_all()).map_err(
            fault::io(format!("cannot read the directory {}", config.directory.display())),
        )?;
        let lock = lock(&config.directory)?;
        let remote = match &config.object_storage {
            Some(object_storage) => Some(Remote::open(&config.directory, object_storage)?),
            None => {
                remote::refuse_without(&config.directory)?;
                None
            }
        };
        let found = listing::open(&spans, remote.as_ref())?;
        let mut state = State::new(Deletions::open(&config.directory)?);
        private::tighten(&config.directory).into_iter().for_each(|warning| state.warn(warning));
        state.has_unreadable_files = !found.unreadable.is_empty();
        for (path, reason) in &found.broken {
            state.count("files_broken_set_aside", 1);
            state.warn(files::broken_warning(path, reason));
        }
        for (path, reason) in &found.unreadable {
            state.count("files_unreadable", 1);
            state.warn(format!(
                "{} is left as it is, and its spans are missing from answers: {reason}",
                path.display()
            ));
        }
        let (mut note, warning) = Note::open(&config.directory)?;
        if let Some(warning) = warning {
            state.count("spool_notes_broken", 1);
            state.warn(warning);
        }
        if config.spool {
            note.name(&config.directory)?;
        }
        state.origins.restore(&note.origins);
        for file in found.files {
            // The file was released, but a crash prevented its removal.
            if note.has_released(file.generations.1) {
                file.doom();
                continue;
            }
            state.origins.restore(&file.origins);
            state.deletions.continue_after(file.deletions);
            state.take_file(file);
        }
        // A deletion must never affect later rows.
        let after_deletions = state.deletions.through_generation() + 1;
        let generation = found.next_generation.max(note.next_generation()).max(after_deletions);
        let next = Next { generation, batch: 1 };
        let identities = Identities::new();
        let next = replay::replay(&log, next, &note, &identities, &mut state)?;
        for deletion in state.deletions.list().to_vec() {
            state.recent.delete(&deletion).map_err(fault::engine("cannot read the log's rows"))?;
        }
        let written = state.files.iter().chain(&state.hidden).map(|file| file.written_unix_nano);
        let written = written.filter(|written| *written < i64::MAX).max();
        let clock = Clock::open(&config.directory, written, now_unix_nano());
        let derived = Arc::new(DerivedFiles::open(&config.directory)?);
        let identities = Arc::new(identities);
        let mut seen = RecentIdentities::new(config.recent_max_bytes, i64::MIN);
        let covered = seen.covered();
        let state = Arc::new(Mutex::new(state));
        let observer =
            StateObserver { state: Arc::clone(&state), identities: Arc::clone(&identities) };
        observer.look_again(&mut seen);
        let observer = Box::new(observer);
        // Each row group has its own columns, shapes and look-ups. So a generation has at most one
        // row group.
        let rows = writer::ROW_GROUP_ROWS;
        let wal =
            Wal::start(log.clone(), next.generation, rows, config.min_free_bytes, seen, observer)
                .map_err(fault::io("cannot start the log's thread"))?;
        let sql = sql::Engine::new(config.sql_worker.clone());
        Ok(Self {
            config,
            spans,
            log,
            wal: Arc::new(wal),
            state,
            room: Notify::new(),
            sql,
            note: Mutex::new(note),
            next_batch: AtomicU64::new(next.batch),
            closing: AtomicBool::new(false),
            maintenance: Mutex::new(None),
            remote,
            upkeep: Mutex::new(None),
            identities,
            covered,
            clock: Mutex::new(clock),
            derived,
            moving: tokio::sync::Mutex::new(()),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Rows with any of the keys: complete from memory, complete or as an outline from files.
    async fn look_up(
        &self,
        keys: &[Key],
        time: TimeRange,
        outline: Option<&Outline>,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let set = KeySet::new(keys);
        let (recent, files) = {
            let mut state = self.state.lock();
            (state.recent.find(keys, &set, time), state.files_in(time))
        };
        let mut found = recent.map_err(fault::engine("cannot read rows in memory"))?;
        if files.is_empty() {
            return Ok(found);
        }
        let (looked, outline_wanted) = (files.clone(), outline.cloned());
        let look = move || {
            let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
            let outline = outline_wanted.as_ref();
            let is_of_many = outline.is_some() || set.assembled.len() > 1;
            let threads = remote::threads(&looked, is_of_many);
            let found = parallel::each(&looked, threads, |file| {
                reader::find_by_keys(file, &set, time, outline)
            });
            for (file, found) in looked.into_iter().zip(found) {
                match found {
                    Ok(more) => rows.extend(more),
                    Err(_) => unreadable.push(file),
                }
            }
            Ok((rows, unreadable))
        };
        match blocking("looking up keys", look).await {
            Ok((rows, unreadable)) => {
                found.extend(rows);
                self.set_broken_aside(&unreadable).await;
                let is_empty = found.iter().all(|batch| batch.num_rows() == 0);
                self.left_out(&unreadable, is_empty)?;
                Ok(found)
            }
            // Reading a file failed. Without the broken file, it may succeed.
            Err(error) if !self.set_broken_aside(&files).await => Err(error),
            Err(_) => Box::pin(self.look_up(keys, time, outline)).await,
        }
    }
}

impl EmbeddedStore {
    /// A snapshot of all rows.
    fn snapshot(&self) -> Result<state::Snapshot, StoreError> {
        self.state.lock().snapshot(TimeRange::ALL)
    }

    /// Returns `Ok` if a broken file caused the error and was set aside, so that the statement can
    /// be tried again. Otherwise returns the error.
    async fn without_broken(&self, error: StoreError) -> Result<(), StoreError> {
        if !matches!(error, StoreError::Engine { .. }) {
            return Err(error);
        }
        let files = self.state.lock().files_in(TimeRange::ALL);
        if self.set_broken_aside(&files).await {
            return Ok(());
        }
        match &self.remote {
            Some(remote) if remote.is_away() => Err(self.away()),
            _ => Err(error),
        }
    }
}

/// Adds rows to memory once the log has made them durable.
struct StateObserver {
    state: Arc<Mutex<State>>,
    identities: Arc<Identities>,
}

impl StateObserver {
    /// Removes a batch from the pending ones.
    fn arrived(state: &mut State, bytes: u64, origin: Option<Origin>) {
        state.pending_bytes = state.pending_bytes.saturating_sub(bytes);
        if let Some(origin) = origin {
            state.pending.remove(&origin);
        }
    }
}

impl LogObserver for StateObserver {
    fn durable(&self, mut record: Record, twice: u64, bytes: u64, generation: u64) {
        let (reserved_bytes, origin) = (record.memory_bytes, record.origin);
        record.rows = compact(&record.rows);
        if twice > 0 {
            record.memory_bytes = rows_bytes(&record.rows);
        }
        // Readers wait for the lock, so the chunk is prepared before taking it.
        let chunk = Chunk::new(record);
        let mut state = self.state.lock();
        Self::arrived(&mut state, reserved_bytes, origin);
        if let Some(origin) = origin {
            state.origins.take(origin);
        }
        state.record_stored();
        if twice > 0 {
            state.count("spans_duplicate", twice);
        }
        if twice == 0 || chunk.raw.num_rows() > 0 {
            state.recent.add(chunk, bytes, generation);
        }
    }

    fn look_again(&self, seen: &mut RecentIdentities) {
        let state = self.state.lock();
        // Starts in the future, from clocks that were ahead, must not make all other spans late.
        let newest = state.files.iter().map(|file| file.newest()).max();
        seen.forget(newest.unwrap_or(i64::MIN).min(now_unix_nano()));
        let there = state.recent.rows_there();
        drop(state);
        for rows in there {
            if let (Some(starts), Some(identities)) = (starts(&rows), self.identities.of(&rows)) {
                seen.take(&identities, starts.values(), now_unix_nano());
            }
        }
    }

    fn refused(&self, record: &Record, error: &StoreError) {
        let mut state = self.state.lock();
        Self::arrived(&mut state, record.memory_bytes, record.origin);
        state.count("batches_refused_log_unwritten", 1);
        match error {
            StoreError::Full { reason, .. } => state.refused(reason),
            other => state.refused(&other.to_string()),
        }
    }
}

fn lock(directory: &Path) -> Result<File, StoreError> {
    let path = directory.join("lock");
    let file = private::options().create(true).truncate(false).write(true).open(&path).map_err(
        fault::io(format!(
            "cannot write in {}; choose a directory that can be",
            directory.display()
        )),
    )?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Invalid(format!(
            "{} is in use by another spanwise; stop that one, or choose another directory",
            directory.display()
        ))),
        Err(error) => Err(fault::io(format!("cannot lock {}", path.display()))(error.into())),
    }
}

impl EmbeddedStore {
    async fn user_sql(
        &self,
        statement: &str,
        functions: Option<Arc<dyn SqlFunctions>>,
        limits: SqlLimits,
    ) -> Result<SqlAnswer, StoreError> {
        let snapshot = || self.snapshot();
        match self.sql.run(snapshot, statement, functions.clone(), limits).await {
            Err(error) => self.without_broken(error).await?,
            answer => return answer,
        }
        self.sql.run(snapshot, statement, functions, limits).await
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn append(&self, rows: SpanRows, origin: Option<Origin>) -> Result<Appended, StoreError> {
        if self.closing.load(Ordering::Acquire) {
            return Err(log::closed());
        }
        let columns = SpanBatch::try_from(rows.columns().clone())
            .map_err(|error| StoreError::Invalid(format!("the batch holds no spans: {error}")))?
            .into_record_batch();
        let rows = rows.with_columns(columns);
        let RowsToStore { rows, identities, kept } = self.without_stored(rows, origin).await?;
        if kept.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Appended::Duplicate);
        }
        let memory_bytes = rows_bytes(&rows);
        if self.admit(memory_bytes, origin).await?.is_none() {
            return Ok(Appended::Duplicate);
        }
        let number = self.next_batch.fetch_add(1, Ordering::Relaxed);
        let record = Record { batch: number, origin, rows, memory_bytes };
        // There is no await between the reservation and the log, which releases it. So a cancelled
        // caller does not leak the reservation.
        let bytes = match record.encode() {
            Ok(bytes) => bytes,
            Err(error) => {
                StateObserver::arrived(&mut self.state.lock(), memory_bytes, origin);
                return Err(fault::engine("cannot encode a batch for the log")(error));
            }
        };
        let stored = match (self.wal.append(record, bytes, identities).await?, kept) {
            (StoredRows::All, None) => return Ok(Appended::Stored { batch: number }),
            (StoredRows::All, Some(kept)) => kept,
            (StoredRows::Rows(rows), None) => rows,
            (StoredRows::Rows(rows), Some(kept)) => {
                rows.into_iter().map(|row| kept[row as usize]).collect()
            }
        };
        Ok(match stored.is_empty() {
            true => Appended::Duplicate,
            false => Appended::Partly { batch: number, rows: stored },
        })
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
        self.look_up(keys, time, None).await
    }

    async fn find_outlines(
        &self,
        keys: &[Key],
        time: TimeRange,
        outline: &Outline,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        self.look_up(keys, time, Some(outline)).await
    }

    async fn find(&self, query: &Query) -> Result<Vec<RecordBatch>, StoreError> {
        let snapshot = self.state.lock().snapshot(search::time_of_rows(query))?;
        let files: Vec<Arc<SpanFile>> = snapshot.files.clone();
        let asked = query.clone();
        let look = move || search::find(&snapshot, &asked).map_err(fault::engine("cannot search"));
        match blocking("searching", look).await {
            Ok(found) => {
                let broken: Vec<_> = found.unreadable.into_iter().map(|(file, _)| file).collect();
                self.set_broken_aside(&broken).await;
                self.left_out(&broken, found.rows.iter().all(|batch| batch.num_rows() == 0))?;
                Ok(found.rows)
            }
            Err(error) if !self.set_broken_aside(&files).await => Err(error),
            Err(_) => Box::pin(self.find(query)).await,
        }
    }

    async fn count_rows(
        &self,
        counting: &Counting,
        _limits: SqlLimits,
    ) -> Result<Vec<RowCounts>, StoreError> {
        counting.check()?;
        let snapshot = self.state.lock().snapshot(counting.time)?;
        let asked = counting.clone();
        let count = move || search::count::count(&snapshot, &asked);
        let counted = blocking("counting", count).await?;
        self.set_broken_aside(&counted.unreadable).await;
        let is_empty = counted.counts.is_empty();
        self.left_out(&counted.unreadable, is_empty)?;
        Ok(counted.counts)
    }

    async fn total_rows(
        &self,
        columns: &[&'static str],
        _limits: SqlLimits,
    ) -> Result<Vec<RowTotal>, StoreError> {
        let snapshot = self.state.lock().snapshot(TimeRange::ALL)?;
        let columns = columns.to_vec();
        let total = move || search::totals::total(&snapshot, &columns);
        let totals = blocking("counting", total).await?;
        self.set_broken_aside(&totals.unreadable).await;
        self.left_out(&totals.unreadable, totals.totals.is_empty())?;
        Ok(totals.totals)
    }

    async fn attribute_names(&self, time: TimeRange) -> Result<Option<AttributeNames>, StoreError> {
        let snapshot = self.state.lock().snapshot(time)?;
        let names = move || Ok(search::names::names(&snapshot, time));
        let answer = blocking("looking for names", names).await?;
        self.set_broken_aside(&answer.unreadable).await;
        self.left_out(&answer.unreadable, answer.found.is_none())?;
        Ok(answer.found)
    }

    async fn attribute_values(
        &self,
        key: &str,
        time: TimeRange,
    ) -> Result<Option<AttributeValues>, StoreError> {
        let snapshot = self.state.lock().snapshot(time)?;
        let key = key.to_owned();
        let values = move || Ok(search::names::values(&snapshot, &key, time));
        let answer = blocking("looking for values", values).await?;
        self.set_broken_aside(&answer.unreadable).await;
        self.left_out(&answer.unreadable, answer.found.is_none())?;
        Ok(answer.found)
    }

    async fn sql(&self, statement: &str, limits: SqlLimits) -> Result<SqlAnswer, StoreError> {
        self.user_sql(statement, None, limits).await
    }

    async fn sql_with(
        &self,
        statement: &str,
        functions: Arc<dyn SqlFunctions>,
        limits: SqlLimits,
    ) -> Result<SqlAnswer, StoreError> {
        self.user_sql(statement, Some(functions), limits).await
    }

    async fn own_sql(
        &self,
        statement: &str,
        limits: SqlLimits,
    ) -> Result<Vec<RecordBatch>, StoreError> {
        let snapshot = || self.snapshot();
        match self.sql.run_own(snapshot, statement, limits).await {
            Err(error) => self.without_broken(error).await?,
            answer => return answer,
        }
        self.sql.run_own(snapshot, statement, limits).await
    }

    async fn drop_before(&self, unix_nano: i64) -> Result<(), StoreError> {
        self.drop_files_before(unix_nano);
        Ok(())
    }

    async fn delete(&self, selection: &Selection) -> Result<Deleted, StoreError> {
        if self.closing.load(Ordering::Acquire) {
            return Err(log::closed());
        }
        self.forget(selection).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.closing.store(true, Ordering::Release);
        let task = self.maintenance.lock().take();
        if let Some(task) = task {
            // The task checks `closing` before it begins anything.
            let _ = task.await;
            self.write_settled().await;
            self.clock.lock().note(true);
        }
        // Files that are not uploaded yet remain on the disk.
        if let Some(task) = self.upkeep.lock().take() {
            task.abort();
        }
        let wal = Arc::clone(&self.wal);
        blocking("closing the log", move || {
            wal.close();
            Ok(())
        })
        .await?;
        self.lock.lock().take();
        Ok(())
    }

    fn status(&self) -> StoreStatus {
        let mut status = self.state.lock().status();
        if let Some(remote) = &self.remote {
            let of_remote = self.remote_status(remote);
            status.counters.extend(remote.counters());
            let warnings = remote.warnings(&of_remote);
            status.warnings.splice(..0, warnings);
            status.object_storage = Some(of_remote);
        }
        status.counters.extend(self.derived.counters());
        status.warnings.extend(self.derived.warnings());
        status
    }

    fn derived(&self) -> Option<Arc<DerivedFiles>> {
        (!self.config.spool).then(|| Arc::clone(&self.derived))
    }
}
