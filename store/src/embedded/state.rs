//! The state of the store: rows in memory, files, stored origins, and problems. One lock protects
//! all of it, so that a reader sees each generation exactly once.

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

/// Maximum warnings for the operator. Older ones are only in the log output.
const MAX_WARNINGS: usize = 50;

pub(super) struct State {
    pub(super) recent: Recent,
    /// Oldest generation first.
    pub(super) files: Vec<Arc<SpanFile>>,
    /// Files that no answer reads until their deleted rows are known, because they cannot be read
    /// now.
    pub(super) hidden: Vec<Arc<SpanFile>>,
    pub(super) origins: Origins,
    pub(super) deletions: Deletions,
    /// Whether there are files that only another version can read.
    pub(super) has_unreadable_files: bool,
    /// Batches that are being written to the log.
    pub(super) pending: HashSet<Origin>,
    /// Memory of these batches.
    pub(super) pending_bytes: u64,
    /// Memory of the batches that wait for room.
    pub(super) waiting_bytes: u64,
    /// When and why a batch was last refused; `None` after a batch was stored.
    refusal: Option<(Instant, String)>,
    /// Why no file could be written; `None` after a file was written.
    pub(super) file_trouble: Option<String>,
    /// Why spans are kept that are too old by the host's clock; `None` if the clock is trusted.
    pub(super) clock_trouble: Option<String>,
    counters: BTreeMap<&'static str, u64>,
    warnings: Vec<String>,
}

/// A refusal is shown until spans are stored again, or for this long, since its sender may never
/// return.
const REFUSAL_SHOWN: Duration = Duration::from_secs(120);

/// The data for a query.
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

    /// Records that a batch was refused because the store was full or failed.
    pub(super) fn refused(&mut self, reason: &str) {
        if self.refusal.is_none() {
            tracing::warn!("new spans are refused: {reason}");
        }
        self.refusal = Some((Instant::now(), reason.to_owned()));
    }

    /// Records that a batch was stored.
    pub(super) fn record_stored(&mut self) {
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

    /// Adds an existing file at startup, without rows that were deleted since it was written.
    pub(super) fn take_file(&mut self, file: Arc<SpanFile>) {
        match delete::apply(&file, &self.deletions.after(file.deletions)) {
            Ok(_) => self.files.push(file),
            Err(_) if file.may_be_away() => self.hidden.push(file),
            Err(error) => self.set_file_aside(&file, &error.to_string()),
        }
    }

    /// Inserts a file at its position in the order.
    pub(super) fn put(&mut self, file: Arc<SpanFile>) {
        let place = self.files.partition_point(|other| other.generations.0 < file.generations.0);
        self.files.insert(place, file);
    }

    /// Records a damaged file, which is not served any more.
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

    /// Removes a file from the list. Returns whether it was there.
    pub(super) fn forget(&mut self, file: &Arc<SpanFile>) -> bool {
        let before = self.files.len();
        self.files.retain(|other| !Arc::ptr_eq(other, file));
        self.files.len() < before
    }

    /// Start of the oldest row.
    pub(super) fn oldest_start(&self) -> Option<i64> {
        let oldest_in_files = self.files.iter().filter_map(|file| file.oldest_unix_nano).min();
        oldest_in_files.into_iter().chain(self.recent.oldest_start()).min()
    }

    pub(super) fn status(&self) -> StoreStatus {
        let oldest = self.oldest_start();
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
