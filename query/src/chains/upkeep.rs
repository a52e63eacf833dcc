//! Makes rollups, one at a time: minutes as they end, hours of older minutes, and again what was
//! removed because rows were deleted or came late.
//!
//! A rollup that is missing is made, from what a live stage counted or else from spans. So whatever
//! goes wrong, it is enough to remove a file. One to which rows came late is outdated: it counts as
//! missing, and is read until it is made again. That is durable before late rows can leave the log,
//! so a crash loses no correction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use spanwise_analyze::Labels;
use spanwise_analyze::rollup::Minute;
use spanwise_assemble::Trace;
use spanwise_model::TraceId;
use spanwise_store::embedded::{DerivedFile, DerivedFiles};
use spanwise_store::{Order, Predicate, Query, StoreError, TimeRange};

use super::read::outline;
use super::rollups::{derived_parts, merge_file};
use crate::traceql::Bounds;
use crate::{Queries, QueryError, on_blocking_thread};

const MINUTE_NANO: i64 = 60_000_000_000;
const HOUR_NANO: i64 = 60 * MINUTE_NANO;
/// A minute is made so long after its end, when its spans have arrived and are assembled.
const SETTLE_NANO: i64 = MINUTE_NANO / 2;
/// Minutes become hours after so many whole hours.
const HOURS_IN_MINUTES: i64 = 2;
/// A minute to which something came late is made again so long afterwards, when the trace has
/// settled: more may come.
const AGAIN_NANO: i64 = MINUTE_NANO / 4;
/// Rows that are older than this have no rollups.
const OLDEST_NANO: i64 = 400 * 24 * HOUR_NANO;
/// Traces that are looked up together because rows of them came late.
const TRACES_TOGETHER: usize = 500;
/// Traces that changed are looked for so far back.
const CHANGED_NANO: i64 = 24 * HOUR_NANO;
const UNBOUNDED: Bounds = Bounds { time: Duration::MAX, traces: usize::MAX, spans: usize::MAX };

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollupWork {
    /// A minute, which the live stage had counted.
    CountedMinute,
    /// A minute, from spans.
    MinuteOfSpans,
    /// An hour, of its minutes.
    Hour,
    /// An hour without runs.
    EmptyHour,
    /// Something that is to be done again, because rows were deleted or came late meanwhile.
    Refused,
    /// There was nothing to do.
    Nothing,
}

/// Marks times to which something came late. Their rollups are made again.
pub struct RollupMarks {
    files: Arc<DerivedFiles>,
    /// Minutes that are not made before a time.
    waiting: Mutex<BTreeMap<i64, i64>>,
}

impl RollupMarks {
    /// Says, durably, that the rollup of a time is outdated. It is made again from spans.
    ///
    /// # Errors
    /// If that cannot be kept.
    pub fn mark(&self, unix_nano: i64, now_unix_nano: i64) -> Result<(), StoreError> {
        let minute = span_of(minute_of(unix_nano), MINUTE_NANO);
        let again = now_unix_nano.saturating_add(AGAIN_NANO);
        let mut waiting = self.waiting.lock();
        // Where rows come all the time, it is made again and again.
        waiting.entry(minute.from_unix_nano).or_insert(again);
        for file in self.files.list(minute) {
            waiting.entry(file.from_unix_nano).or_insert(again);
        }
        drop(waiting);
        // Also where there is none: it may be about to be written.
        self.files.outdate(minute)
    }

    /// [`DerivedFiles::removals`].
    pub fn removals(&self) -> u64 {
        self.files.removals()
    }

    /// The end of the newest rollup.
    pub fn end_unix_nano(&self) -> Option<i64> {
        self.files.list(TimeRange::ALL).last().map(|file| file.to_unix_nano)
    }

    fn is_waiting(&self, time: TimeRange) -> bool {
        let waiting = self.waiting.lock();
        waiting.range(time.from_unix_nano..time.to_unix_nano).next().is_some()
    }
}

/// Makes rollups. See the module.
pub struct RollupUpkeep {
    queries: Queries,
    files: Arc<DerivedFiles>,
    marks: Arc<RollupMarks>,
}

/// The minute that a time is in, by its start.
const fn minute_of(unix_nano: i64) -> i64 {
    unix_nano.div_euclid(MINUTE_NANO).saturating_mul(MINUTE_NANO)
}

const fn span_of(start: i64, length: i64) -> TimeRange {
    TimeRange { from_unix_nano: start, to_unix_nano: start.saturating_add(length) }
}

impl RollupUpkeep {
    /// `None` where the store keeps no rollups.
    pub fn new(queries: Queries) -> Option<Self> {
        let files = queries.store.derived()?;
        let waiting = Mutex::default();
        let marks = Arc::new(RollupMarks { files: Arc::clone(&files), waiting });
        Some(Self { queries, files, marks })
    }

    /// Where late rows are marked.
    pub fn marks(&self) -> Arc<RollupMarks> {
        Arc::clone(&self.marks)
    }

    /// The end of the newest minute that is made at this time.
    pub const fn settled_unix_nano(now_unix_nano: i64) -> i64 {
        minute_of(now_unix_nano.saturating_sub(SETTLE_NANO))
    }

    /// Reads traces again that changed, and gives each to `recount`, which returns minutes to mark.
    ///
    /// # Errors
    /// Where the store cannot answer.
    pub async fn read_again(
        &self,
        traces: &[TraceId],
        now_unix_nano: i64,
        mut recount: impl FnMut(TraceId, Option<(&Trace, &Labels<'_>)>) -> Vec<i64>,
    ) -> Result<(), QueryError> {
        for part in traces.chunks(TRACES_TOGETHER) {
            let around = TimeRange {
                from_unix_nano: now_unix_nano.saturating_sub(CHANGED_NANO),
                to_unix_nano: now_unix_nano,
            };
            let ids = part.iter().copied();
            let mut gathered = self.queries.gather(ids, around, Some(&outline())).await?;
            let trees: Vec<_> = part.iter().map(|id| (*id, gathered.take(id))).collect();
            let labels = Labels::of(&gathered.batches)?;
            for (id, tree) in trees {
                for minute in recount(id, tree.as_ref().map(|tree| (tree, &labels))) {
                    self.marks.mark(minute, now_unix_nano)?;
                }
            }
        }
        Ok(())
    }

    /// Does what is most urgent: missing minutes of the last hours, then hours from the newest back.
    /// `counted` gives the figures of a minute by its start, if a live stage has all of it, with
    /// [`DerivedFiles::removals`] of before it was begun.
    ///
    /// # Errors
    /// Where the store cannot answer or write.
    pub async fn step(
        &self,
        now_unix_nano: i64,
        mut counted: impl FnMut(i64) -> Option<(Minute, u64)>,
    ) -> Result<RollupWork, QueryError> {
        self.marks.waiting.lock().retain(|_, until| *until > now_unix_nano);
        let oldest = self.queries.store.status().oldest_unix_nano;
        if oldest == 0 {
            return Ok(RollupWork::Nothing);
        }
        let oldest =
            oldest.max(now_unix_nano.saturating_sub(OLDEST_NANO)).max(self.files.floor_unix_nano());
        let settled = Self::settled_unix_nano(now_unix_nano);
        let this_hour = now_unix_nano.div_euclid(HOUR_NANO) * HOUR_NANO;
        let hours_end = this_hour - HOURS_IN_MINUTES * HOUR_NANO;
        let first = minute_of(oldest).max(hours_end);
        // The oldest first: a live stage gives them in their order.
        if let Some(minute) = self.missing(first, settled).into_iter().next() {
            return self.make(minute, counted(minute)).await;
        }
        let mut hour = hours_end - HOUR_NANO;
        while hour.saturating_add(HOUR_NANO) > oldest && hour >= self.files.floor_unix_nano() {
            let time = span_of(hour, HOUR_NANO);
            let files = self.files.list(time);
            if files.as_slice() != [time] {
                let missing = self.missing(hour, hour + HOUR_NANO);
                if missing.is_empty() && !files.is_empty() && !self.marks.is_waiting(time) {
                    return self.merge(time, files).await;
                }
                if files.is_empty() && !self.marks.is_waiting(time) && self.is_empty(time).await? {
                    let since = self.files.removals();
                    return self.put(time, Minute::default(), since, RollupWork::EmptyHour).await;
                }
                if let Some(minute) = missing.into_iter().next_back() {
                    return self.make(minute, None).await;
                }
            }
            hour -= HOUR_NANO;
        }
        Ok(RollupWork::Nothing)
    }

    /// Starts of minutes from `first` to `end` that have no file and need not wait.
    fn missing(&self, first: i64, end: i64) -> Vec<i64> {
        if first >= end {
            return Vec::new();
        }
        let files = self.files.list(TimeRange { from_unix_nano: first, to_unix_nano: end });
        let waiting = self.marks.waiting.lock();
        let mut files = files.into_iter().peekable();
        let mut missing = Vec::new();
        let mut minute = first;
        while minute < end {
            while files.peek().is_some_and(|file| file.to_unix_nano <= minute) {
                files.next();
            }
            let is_there = files.peek().is_some_and(|file| file.from_unix_nano <= minute);
            if !is_there && !waiting.contains_key(&minute) {
                missing.push(minute);
            }
            minute += MINUTE_NANO;
        }
        missing
    }

    async fn make(
        &self,
        minute: i64,
        counted: Option<(Minute, u64)>,
    ) -> Result<RollupWork, QueryError> {
        let time = span_of(minute, MINUTE_NANO);
        if let Some((figures, since)) = counted {
            return self.put(time, figures, since, RollupWork::CountedMinute).await;
        }
        let since = self.files.removals();
        let (_, figures) = self.queries.read_traces(time, UNBOUNDED, Minute::default()).await?;
        self.put(time, figures, since, RollupWork::MinuteOfSpans).await
    }

    async fn merge(
        &self,
        time: TimeRange,
        parts: Vec<TimeRange>,
    ) -> Result<RollupWork, QueryError> {
        let since = self.files.removals();
        let files = Arc::clone(&self.files);
        let merge = move || {
            let mut hour = Minute::default();
            for part in parts {
                merge_file(&files, DerivedFile::fresh(part), &mut hour, |_| true)?;
            }
            hour.join_rare_shapes();
            Some(hour)
        };
        match on_blocking_thread("merging rollups", merge).await? {
            Some(hour) => self.put(time, hour, since, RollupWork::Hour).await,
            // One was damaged. It is made again.
            None => Ok(RollupWork::Refused),
        }
    }

    async fn put(
        &self,
        time: TimeRange,
        figures: Minute,
        since: u64,
        done: RollupWork,
    ) -> Result<RollupWork, QueryError> {
        let files = Arc::clone(&self.files);
        let put = move || files.put(time, &derived_parts(&figures), since);
        let is_written = on_blocking_thread("writing a rollup", put).await??;
        Ok(if is_written { done } else { RollupWork::Refused })
    }

    /// Whether no trace starts in this time.
    async fn is_empty(&self, time: TimeRange) -> Result<bool, QueryError> {
        let query = Query {
            predicate: Predicate { assembled: true, root: true, ..Predicate::default() },
            time,
            columns: vec![spanwise_model::schema::column::START_UNIX_NANO],
            keys: None,
            limit: 1,
            order: Order::NewestFirst,
        };
        let found = self.queries.store.find(&query).await?;
        Ok(found.iter().all(|batch| batch.num_rows() == 0))
    }
}
