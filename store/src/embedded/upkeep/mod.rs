//! Background work of the store: closes generations, writes files, merges small files, and removes
//! old ones.

pub(super) mod clock;
pub(super) mod delete;
pub(super) mod deletions;
pub(super) mod levels;
pub(super) mod spool;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use spanwise_model::SpanRows;

use crate::contract::StoreError;
use crate::embedded::duplicates::origins::{TakenRanges, unite};
use crate::embedded::files::SpanFile;
use crate::embedded::files::writer::Notes;
use crate::embedded::files::{reader, writer};
use crate::embedded::state::State;
use crate::embedded::{EmbeddedStore, fault, log};
use clock::{UntrustedClock, utc};

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Time to wait after a file could not be written or merged.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// When failed work may be tried again.
#[derive(Default)]
pub(super) struct Pauses {
    write: Option<Instant>,
    rewrite: Option<Instant>,
    merge: Option<Instant>,
}

fn is_over(pause: &mut Option<Instant>) -> bool {
    if pause.is_some_and(|until| Instant::now() < until) {
        return false;
    }
    *pause = None;
    true
}

fn pause() -> Option<Instant> {
    Instant::now().checked_add(RETRY_AFTER)
}

/// The reason for removing files, and its counter.
struct RemovalReason {
    reason: &'static str,
    files: &'static str,
    rows: &'static str,
    bytes: &'static str,
}

const BY_AGE: RemovalReason = RemovalReason {
    reason: "they are older than retain.age",
    files: "files_dropped_by_age",
    rows: "rows_dropped_by_age",
    bytes: "bytes_dropped_by_age",
};
const BY_SIZE: RemovalReason = RemovalReason {
    reason: "they are the oldest beyond retain.bytes",
    files: "files_dropped_by_size",
    rows: "rows_dropped_by_size",
    bytes: "bytes_dropped_by_size",
};

/// The contents of some files.
struct FileTotals {
    files: u64,
    rows: u64,
    bytes: u64,
    /// The earliest and the latest start.
    starts: (i64, i64),
}

impl FileTotals {
    fn of(files: &[Arc<SpanFile>]) -> Self {
        let oldest = files.iter().map(|file| file.oldest_unix_nano.unwrap_or(file.starts.0));
        Self {
            files: files.len() as u64,
            rows: files.iter().map(|file| file.rows).sum(),
            bytes: files.iter().map(|file| file.bytes).sum(),
            starts: (
                oldest.min().unwrap_or(0),
                files.iter().map(|file| file.newest()).max().unwrap_or(0),
            ),
        }
    }
}

impl std::fmt::Display for FileTotals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let s = |count: u64| if count == 1 { "" } else { "s" };
        write!(
            f,
            "{} span{} in {} file{} ({} bytes, started from {} to {})",
            self.rows,
            s(self.rows),
            self.files,
            s(self.files),
            self.bytes,
            utc(self.starts.0),
            utc(self.starts.1)
        )
    }
}

/// An approximate duration, for display.
fn about(duration: Duration) -> String {
    let minutes = duration.as_secs().div_ceil(60);
    match minutes {
        0..120 => format!("{minutes} min"),
        120..2880 => format!("{} h", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    }
}

/// Runs until the store is closed or dropped.
pub(super) async fn run(store: std::sync::Weak<EmbeddedStore>) {
    let mut pauses = Pauses::default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(store) = store.upgrade() else { return };
        if store.closing.load(Ordering::Acquire) {
            return;
        }
        store.maintain(&mut pauses).await;
    }
}

impl EmbeddedStore {
    async fn maintain(&self, pauses: &mut Pauses) {
        let rotate = self.state.lock().recent.open_generation().is_some_and(|open| {
            open.log_bytes >= self.config.generation_max_bytes
                // A third of memory each: one generation is written, one waits for assembly, and
                // one is open.
                || open.bytes() >= self.config.recent_max_bytes / 3
                || open.opened.elapsed() >= self.config.generation_max_age
        });
        if rotate {
            self.wal.rotate().await;
        }
        while is_over(&mut pauses.write)
            && let Some(generation) = self.next_to_write(self.config.settle_deadline)
        {
            if !self.write_generation(generation).await {
                pauses.write = pause();
            }
        }
        if !self.config.spool && is_over(&mut pauses.merge) && !self.merge().await {
            pauses.merge = pause();
        }
        // A spool's files are removed soon anyway.
        if !self.config.spool
            && is_over(&mut pauses.rewrite)
            && !self.rewrite_without_deleted().await
        {
            pauses.rewrite = pause();
        }
        self.retire();
        self.clock.lock().note(false);
        self.prune_deletions();
    }

    /// Writes files of all generations that are completely assembled. The others remain in the log
    /// for the next start.
    pub(crate) async fn write_settled(&self) {
        self.wal.rotate().await;
        while let Some(generation) = self.next_to_write(Duration::MAX) {
            if !self.write_generation(generation).await {
                break;
            }
        }
    }

    fn next_to_write(&self, settle_deadline: Duration) -> Option<u64> {
        let mut state = self.state.lock();
        state.recent.close_before(self.wal.open_generation());
        let (number, oldest) = state.recent.oldest()?;
        let closed = oldest.closed?;
        (oldest.is_settled() || closed.elapsed() >= settle_deadline).then_some(number)
    }

    /// Writes the file of a generation. Returns whether it succeeded.
    async fn write_generation(&self, generation: u64) -> bool {
        let _gate = self.moving.lock().await;
        let (contents, deletions) = {
            let mut state = self.state.lock();
            (state.recent.contents(generation), state.deletions.last_number())
        };
        let directory = self.spans.clone();
        let written = blocking("writing a file", move || {
            let (views, origins) = contents.map_err(fault::engine("cannot read rows in memory"))?;
            let rows: Vec<SpanRows> = views.iter().map(|view| view.rows.clone()).collect();
            let notes = Notes { origins, deletions, written_unix_nano: now_unix_nano() };
            writer::write(&directory, (generation, generation), &rows, &notes)
        })
        .await;
        let mut state = self.state.lock();
        match written {
            Ok(file) => {
                state.files.extend(file.map(Arc::new));
                state.recent.remove(generation);
                state.file_trouble = None;
                drop(state);
                self.room.notify_waiters();
                let path = log::segment_path(&self.log, generation);
                // If this fails, the next start removes it.
                if let Err(error) = std::fs::remove_file(&path) {
                    tracing::warn!("cannot remove {}: {error}", path.display());
                }
                true
            }
            Err(error) => {
                state.count("file_writes_failed", 1);
                let trouble = format!(
                    "spans stay in memory and in the log, because no file can be written \
                     ({error}); free some space, or see that the directory can be written"
                );
                if state.file_trouble.as_ref() != Some(&trouble) {
                    tracing::warn!("{trouble}");
                }
                state.file_trouble = Some(trouble);
                drop(state);
                // Waiting batches are told that waiting does not help.
                self.room.notify_waiters();
                false
            }
        }
    }

    /// Merges one group of consecutive files. Returns `false` on failure.
    async fn merge(&self) -> bool {
        let _gate = self.moving.lock().await;
        let window = levels::window(self.config.retain_age);
        let run = levels::next(&self.state.lock().files, window);
        let count = run.len() as u64;
        self.make_one(run, "files_merged", count).await
    }

    /// Rewrites one file without its deleted rows. Returns `false` on failure.
    async fn rewrite_without_deleted(&self) -> bool {
        let _gate = self.moving.lock().await;
        let file = self.state.lock().files.iter().find(|file| file.is_outdated()).cloned();
        self.make_one(file.into_iter().collect(), "files_rewritten_without_deleted", 1).await
    }

    /// Merges consecutive files and counts it. Returns `false` on failure.
    async fn make_one(&self, run: Vec<Arc<SpanFile>>, name: &'static str, by: u64) -> bool {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return true };
        let generations = (first.generations.0, last.generations.1);
        let deletions = self.state.lock().deletions.last_number();
        let directory = self.spans.clone();
        let parts = run.clone();
        let made = blocking("merging files", move || {
            let mut origins = TakenRanges::new();
            parts.iter().for_each(|part| unite(&mut origins, &part.origins));
            let written = parts.iter().map(|part| part.written_unix_nano).max();
            let written_unix_nano = written.unwrap_or_else(now_unix_nano);
            let notes = Notes { origins, deletions, written_unix_nano };
            writer::merge(&directory, generations, &parts, &notes)
        })
        .await;
        match made {
            Ok(mut file) => {
                if let Some(file) = &mut file {
                    file.waits_since = waits_since(&run);
                }
                let mut state = self.state.lock();
                // A part may have been removed meanwhile. Then the merged file must not be used.
                let all_there =
                    run.iter().all(|part| state.files.iter().any(|other| Arc::ptr_eq(other, part)));
                if !all_there {
                    file.iter().for_each(SpanFile::doom);
                    return true;
                }
                for part in &run {
                    state.forget(part);
                    match &file {
                        // The new file has the part's name.
                        Some(file) if file.path == part.path => part.supersede(),
                        _ => part.doom(),
                    }
                }
                if let Some(file) = file {
                    state.put(Arc::new(file));
                }
                state.count(name, by);
                true
            }
            Err(error) => {
                tracing::warn!("files stay as they are: {error}");
                self.set_broken_aside(&run).await;
                false
            }
        }
    }

    /// Removes files beyond the limits of age and size.
    fn retire(&self) {
        let machine_unix_nano = now_unix_nano();
        // The time is recorded even without an age limit, because one may be set later.
        let keep = self.config.retain_age.unwrap_or(Duration::MAX);
        let mut clock = self.clock.lock();
        let ahead = clock.look(machine_unix_nano, keep);
        let now_unix_nano = clock.now_unix_nano();
        drop(clock);
        if let Some(keep) = self.config.retain_age {
            let keep = i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX);
            self.drop_files_before(now_unix_nano.saturating_sub(keep));
            self.derived.retire(now_unix_nano.saturating_sub(keep));
            self.tell_of_clock(ahead, machine_unix_nano.saturating_sub(keep));
        }
        let Some(most) = self.config.retain_bytes else { return };
        let mut state = self.state.lock();
        let mut bytes: u64 = state.files.iter().map(|file| file.bytes).sum();
        let beyond = |file: &&Arc<SpanFile>| {
            let is_beyond = bytes > most;
            bytes -= file.bytes.min(bytes);
            is_beyond
        };
        let old: Vec<Arc<SpanFile>> = state.files.iter().take_while(beyond).cloned().collect();
        self.retire_files(&mut state, &old, &BY_SIZE);
        let oldest = state.oldest_start();
        drop(state);
        if let Some(oldest) = oldest.filter(|_| !old.is_empty()) {
            self.derived.retire(oldest);
        }
    }

    /// Warns about an untrusted clock, and says what it would delete.
    fn tell_of_clock(&self, ahead: Option<UntrustedClock>, before_unix_nano: i64) {
        let mut state = self.state.lock();
        let is_old = |file: &&Arc<SpanFile>| file.newest() < before_unix_nano;
        let old: Vec<Arc<SpanFile>> = state.files.iter().filter(is_old).cloned().collect();
        let Some(ahead) = ahead.filter(|_| !old.is_empty()) else {
            state.clock_trouble = None;
            return;
        };
        let trouble = format!(
            "this machine's clock is {} ahead of what it was when the server last looked. By it, \
             {} are older than retain.age; they are kept for another {} of running, and then \
             deleted. If the clock is wrong, set it right. If it is right, and you do not want \
             to wait, make the file {}",
            about(ahead.by),
            FileTotals::of(&old),
            about(ahead.for_another),
            self.config.directory.join(clock::CONFIRMATION).display(),
        );
        if state.clock_trouble.is_none() {
            tracing::warn!("{trouble}");
            state.count("clock_jumps_ahead", 1);
        }
        state.clock_trouble = Some(trouble);
    }

    /// Removes files all of whose rows started before this time.
    pub(super) fn drop_files_before(&self, unix_nano: i64) {
        let mut state = self.state.lock();
        let old: Vec<Arc<SpanFile>> =
            state.files.iter().filter(|file| file.newest() < unix_nano).cloned().collect();
        self.retire_files(&mut state, &old, &BY_AGE);
    }

    /// Removes files, counts their contents, and logs it.
    fn retire_files(&self, state: &mut State, old: &[Arc<SpanFile>], why: &RemovalReason) {
        if old.is_empty() {
            return;
        }
        let amount = FileTotals::of(old);
        tracing::info!("{amount} are deleted: {}", why.reason);
        state.count(why.files, amount.files);
        state.count(why.rows, amount.rows);
        state.count(why.bytes, amount.bytes);
        for file in old {
            state.forget(file);
            file.doom_for_good();
        }
        drop(self.wal.look_again());
    }

    /// Reads files completely and sets unreadable ones aside. Returns whether there were any.
    pub(super) async fn set_broken_aside(&self, files: &[Arc<SpanFile>]) -> bool {
        let mut any = false;
        for file in files {
            if !file.is_local() {
                // Objects are verified whenever they are read. Reading all of them here would take
                // long.
                if let Some(damage) = file.damage() {
                    let mut state = self.state.lock();
                    if state.forget(file) {
                        state.set_file_aside(file, damage);
                        any = true;
                    }
                }
                continue;
            }
            let part = Arc::clone(file);
            if let Err(error) = std::fs::File::open(&file.path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                // An error of the system, such as too many open files, says nothing about the file.
                tracing::warn!("cannot open {}: {error}", file.path.display());
                continue;
            }
            let checked = blocking("checking a file", move || {
                let context = format!("cannot read {}", part.path.display());
                reader::check(&part).map_err(fault::engine(context))
            })
            .await;
            let Err(error) = checked else { continue };
            let mut state = self.state.lock();
            if file.remote().is_some() {
                // The local copy is damaged. The objects are used instead.
                tracing::warn!("{error}; it is read from object storage");
                state.count("remote_local_copies_broken", 1);
                file.drop_copy();
                any = true;
            } else if state.forget(file) {
                let reason = std::error::Error::source(&error).map(ToString::to_string);
                state.set_file_aside(file, &reason.unwrap_or(error.to_string()));
                any = true;
            }
        }
        if any {
            drop(self.wal.look_again());
        }
        any
    }
}

/// The time since which the merged file has rows that are not in object storage. A file that was
/// rewritten without deleted rows is uploaded at once, because object storage still contains these
/// rows.
fn waits_since(parts: &[Arc<SpanFile>]) -> SystemTime {
    if parts.iter().any(|part| part.remote().is_some() && part.is_outdated()) {
        return UNIX_EPOCH;
    }
    let waiting = parts.iter().filter(|part| part.remote().is_none());
    waiting.map(|part| part.waits_since).min().unwrap_or_else(SystemTime::now)
}

pub(super) fn now_unix_nano() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

/// Runs blocking work on files. A panic is treated like any error, because readers of damaged files
/// may panic.
pub(super) async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(fault::engine(format!("{what} failed"))(error)),
    }
}
