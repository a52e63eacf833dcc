//! What the store holds at one moment: rows in memory, files, what was taken
//! from whom, and what went wrong. One lock guards all of it, so that a reader
//! never sees a generation twice or not at all.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::contract::{Origin, StoreError, StoreStatus, TimeRange};
use crate::embedded::duplicates::origins::Origins;
use crate::embedded::files::{SpanFile, broken_warning};
use crate::embedded::recent::Recent;
use crate::embedded::recent::chunk::View;
use crate::embedded::upkeep::delete;
use crate::embedded::upkeep::deletions::Deletions;
use crate::embedded::{fault, keys};

/// Warnings kept for the operator; older ones are in the process's own log.
const MAX_WARNINGS: usize = 50;

pub(super) struct State {
    pub(super) recent: Recent,
    /// Oldest generation first.
    pub(super) files: Vec<Arc<SpanFile>>,
    /// Files that no answer reads until what was deleted of them is known: they
    /// cannot be read now.
    pub(super) hidden: Vec<Arc<SpanFile>>,
    pub(super) origins: Origins,
    pub(super) deletions: Deletions,
    /// Whether there are files that only another version can read.
    pub(super) has_unreadable_files: bool,
    /// Batches on their way through the log.
    pub(super) pending: HashSet<Origin>,
    /// Memory of all batches on that way.
    pub(super) pending_bytes: u64,
    /// Memory of the batches that wait for room.
    pub(super) waiting_bytes: u64,
    /// When and why a batch was last refused; `None` once one was taken.
    refusal: Option<(Instant, String)>,
    /// Why no file could be written; `None` once one was.
    pub(super) file_trouble: Option<String>,
    /// Why spans are kept that are old by the clock; `None` where it is believed.
    pub(super) clock_trouble: Option<String>,
    counters: BTreeMap<&'static str, u64>,
    warnings: Vec<String>,
}

/// A refusal is shown until spans are taken again, or this long: its sender may
/// never come back.
const REFUSAL_SHOWN: Duration = Duration::from_secs(120);

/// What a query reads.
pub(super) struct Snapshot {
    pub(super) recent: Vec<Arc<View>>,
    pub(super) files: Vec<Arc<SpanFile>>,
}

impl State {
    pub(super) fn new(deletions: Deletions) -> Self {
        Self {
            recent: Recent::new(),
            files: Vec::new(),
            hidden: Vec::new(),
            origins: Origins::default(),
            deletions,
            has_unreadable_files: false,
            pending: HashSet::new(),
            pending_bytes: 0,
            waiting_bytes: 0,
            refusal: None,
            file_trouble: None,
            clock_trouble: None,
            counters: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    pub(super) fn count(&mut self, name: &'static str, by: u64) {
        if by > 0 {
            *self.counters.entry(name).or_default() += by;
        }
    }

    pub(super) fn warn(&mut self, warning: String) {
        tracing::warn!("{warning}");
        if self.warnings.len() >= MAX_WARNINGS {
            self.warnings.remove(0);
        }
        self.warnings.push(warning);
    }

    /// Notes that a batch was refused for want of room, or because of a failure.
    pub(super) fn refused(&mut self, reason: &str) {
        if self.refusal.is_none() {
            tracing::warn!("new spans are refused: {reason}");
        }
        self.refusal = Some((Instant::now(), reason.to_owned()));
    }

    /// Notes that a batch was taken.
    pub(super) fn taken(&mut self) {
        self.refusal = None;
    }

    pub(super) fn files_in(&self, time: TimeRange) -> Vec<Arc<SpanFile>> {
        self.files.iter().filter(|file| keys::overlaps(file.starts, time)).cloned().collect()
    }

    /// Rows in memory and files that may have rows in the range.
    pub(super) fn snapshot(&mut self, time: TimeRange) -> Result<Snapshot, StoreError> {
        let recent =
            self.recent.snapshot(time).map_err(fault::engine("cannot read rows in memory"))?;
        Ok(Snapshot { recent, files: self.files_in(time) })
    }

    /// Adds a file that was there at the start, without what was deleted since
    /// it was written.
    pub(super) fn take_file(&mut self, file: Arc<SpanFile>) {
        match delete::apply(&file, &self.deletions.after(file.deletions)) {
            Ok(_) => self.files.push(file),
            Err(_) if file.may_be_away() => self.hidden.push(file),
            Err(error) => self.set_file_aside(&file, &error.to_string()),
        }
    }

    /// Puts a file among the others, at its place.
    pub(super) fn put(&mut self, file: Arc<SpanFile>) {
        let place = self.files.partition_point(|other| other.generations.0 < file.generations.0);
        self.files.insert(place, file);
    }

    /// Tells of a file that is not served any more, since it is damaged.
    pub(super) fn set_file_aside(&mut self, file: &Arc<SpanFile>, reason: &str) {
        file.set_aside();
        self.count("files_broken_set_aside", 1);
        self.warn(match file.damage() {
            Some(damage) => format!(
                "a file in object storage is damaged ({damage}); it is left there, and its \
                 spans are missing from answers. Restore the object, and rename {}.head.broken \
                 in the data directory's heads",
                file.name().unwrap_or_default()
            ),
            None => broken_warning(&file.path, reason),
        });
    }

    /// Whether the rows of a generation are in a file.
    pub(super) fn is_in_a_file(&self, generation: u64) -> bool {
        self.files.iter().chain(&self.hidden).any(|file| file.holds(generation))
    }

    /// Takes a file out of the list; whether it was there.
    pub(super) fn forget(&mut self, file: &Arc<SpanFile>) -> bool {
        let before = self.files.len();
        self.files.retain(|other| !Arc::ptr_eq(other, file));
        self.files.len() < before
    }

    pub(super) fn status(&self) -> StoreStatus {
        let oldest_in_files = self.files.iter().filter_map(|file| file.oldest_unix_nano).min();
        let oldest = oldest_in_files.into_iter().chain(self.recent.oldest_start()).min();
        let refusal = self.refusal.as_ref().filter(|(at, _)| at.elapsed() < REFUSAL_SHOWN);
        let refusal = refusal.map(|(_, reason)| format!("new spans are refused: {reason}"));
        StoreStatus {
            kind: "embedded",
            recent_rows: self.recent.rows(),
            recent_bytes: self.recent.bytes(),
            wal_bytes: self.recent.log_bytes(),
            files: self.files.len() as u64,
            file_rows: self.files.iter().map(|file| file.rows).sum(),
            file_bytes: self.files.iter().map(|file| file.bytes).sum(),
            oldest_unix_nano: oldest.unwrap_or(0),
            counters: self.counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            warnings: refusal
                .into_iter()
                .chain(self.file_trouble.clone())
                .chain(self.clock_trouble.clone())
                .chain(self.warnings.iter().cloned())
                .collect(),
            object_storage: None,
        }
    }
}
