//! What the store does by itself: it closes generations, makes files of them,
//! merges small files, and lets old ones go.

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
use clock::{Ahead, utc};

const LOOK_EVERY: Duration = Duration::from_millis(250);
/// After a file could not be written or merged, the next attempt waits.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// When what failed may be tried again.
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

/// Why files are let go, and how that is counted.
struct Why {
    reason: &'static str,
    files: &'static str,
    rows: &'static str,
    bytes: &'static str,
}

const BY_AGE: Why = Why {
    reason: "they are older than retain.age",
    files: "files_dropped_by_age",
    rows: "rows_dropped_by_age",
    bytes: "bytes_dropped_by_age",
};
const BY_SIZE: Why = Why {
    reason: "they are the oldest beyond retain.bytes",
    files: "files_dropped_by_size",
    rows: "rows_dropped_by_size",
    bytes: "bytes_dropped_by_size",
};

/// What is in some files.
struct Amount {
    files: u64,
    rows: u64,
    bytes: u64,
    /// The earliest and the latest start.
    starts: (i64, i64),
}

impl Amount {
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

impl std::fmt::Display for Amount {
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

/// About how long, for people.
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
                // One is written, one waits for assembly, and one takes rows.
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
        // Deleted rows of a spool go with their file, which is not for long.
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

    /// Makes files of all generations whose rows have been assembled; the
    /// others wait in the log for the next start.
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

    /// Makes a file of a generation; whether that went well.
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
                // Where this fails, the next start sees that it is done with.
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
                // They learn that waiting does not help.
                self.room.notify_waiters();
                false
            }
        }
    }

    /// Makes one file of some neighbours; false where that failed.
    async fn merge(&self) -> bool {
        let _gate = self.moving.lock().await;
        let window = levels::window(self.config.retain_age);
        let run = levels::next(&self.state.lock().files, window);
        let count = run.len() as u64;
        self.make_one(run, "files_merged", count).await
    }

    /// Writes one file that has deleted rows anew without them; false where
    /// that failed.
    async fn rewrite_without_deleted(&self) -> bool {
        let _gate = self.moving.lock().await;
        let file = self.state.lock().files.iter().find(|file| file.is_outdated()).cloned();
        self.make_one(file.into_iter().collect(), "files_rewritten_without_deleted", 1).await
    }

    /// Makes one file of a run of neighbours, and counts that; false where that
    /// failed.
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
                // A part may have been let go meanwhile; then its rows go too.
                let all_there =
                    run.iter().all(|part| state.files.iter().any(|other| Arc::ptr_eq(other, part)));
                if !all_there {
                    file.iter().for_each(SpanFile::doom);
                    return true;
                }
                for part in &run {
                    state.forget(part);
                    match &file {
                        // It is where the part was.
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

    /// Lets go of what is older or more than what is to be kept.
    fn retire(&self) {
        let machine_unix_nano = now_unix_nano();
        // Without a bound, the clock is noted all the same: there may be one later.
        let keep = self.config.retain_age.unwrap_or(Duration::MAX);
        let mut clock = self.clock.lock();
        let ahead = clock.look(machine_unix_nano, keep);
        let now_unix_nano = clock.now_unix_nano();
        drop(clock);
        if let Some(keep) = self.config.retain_age {
            let keep = i64::try_from(keep.as_nanos()).unwrap_or(i64::MAX);
            self.drop_files_before(now_unix_nano.saturating_sub(keep));
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
    }

    /// Says what a clock that is not believed would have deleted, by what it calls old.
    fn tell_of_clock(&self, ahead: Option<Ahead>, before_unix_nano: i64) {
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
            Amount::of(&old),
            about(ahead.for_another),
            self.config.directory.join(clock::CONFIRMATION).display(),
        );
        if state.clock_trouble.is_none() {
            tracing::warn!("{trouble}");
            state.count("clock_jumps_ahead", 1);
        }
        state.clock_trouble = Some(trouble);
    }

    /// Lets go of files all of whose rows started before this time.
    pub(super) fn drop_files_before(&self, unix_nano: i64) {
        let mut state = self.state.lock();
        let old: Vec<Arc<SpanFile>> =
            state.files.iter().filter(|file| file.newest() < unix_nano).cloned().collect();
        self.retire_files(&mut state, &old, &BY_AGE);
    }

    /// Lets go of files, counts what is in them, and says so.
    fn retire_files(&self, state: &mut State, old: &[Arc<SpanFile>], why: &Why) {
        if old.is_empty() {
            return;
        }
        let amount = Amount::of(old);
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

    /// Reads files through, and sets those aside that cannot be read; whether
    /// there were any.
    pub(super) async fn set_broken_aside(&self, files: &[Arc<SpanFile>]) -> bool {
        let mut any = false;
        for file in files {
            if !file.is_local() {
                // Whether objects are as they were uploaded is seen when they are
                // read; to read all of them would take long.
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
                // No word about the file: too many are open, say.
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
                // The copy is damaged; the objects are there.
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

/// Since when the one file that some become has rows that are nowhere else. What
/// was written anew without deleted rows is to be uploaded at once: until then
/// object storage still has these rows.
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

/// Work that reads or writes files. A panic in it is a failure like others: the
/// readers of damaged files are not beyond one.
pub(super) async fn blocking<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(fault::engine(format!("{what} failed"))(error)),
    }
}
