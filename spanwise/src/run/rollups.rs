//! Rollups: figures of minutes and hours, made while traces settle.
//!
//! Assembly hands over rows and their places, which is cheap. A task of its own counts traces, reads
//! those again that changed, and writes files. What it does not get done is made from spans later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use spanwise_analyze::rollup::{LiveConfig, LiveCounters, LiveRollup};
use spanwise_model::Assembled;
use spanwise_query::{Queries, QueryError, RollupMarks, RollupUpkeep, RollupWork};
use spanwise_store::{Store, Unsettled};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Files are looked after so often.
const STEP_EVERY: Duration = Duration::from_secs(1);
/// Time to wait after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Traces that are counted while assembly waits.
const TRACES_AT_ONCE: usize = 200;
/// Traces that are read again at once.
const CHANGED_AT_ONCE: usize = 500;
const MINUTE_NANO: i64 = 60_000_000_000;

/// What rollups cost and lack.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RollupCounters {
    pub(crate) live: LiveCounters,
    pub(crate) minutes_counted: u64,
    pub(crate) minutes_of_spans: u64,
    pub(crate) hours: u64,
    pub(crate) failures: u64,
}

/// What assembly and the task share.
pub(crate) struct Rollups {
    live: Mutex<LiveRollup>,
    marks: Arc<RollupMarks>,
    began: Instant,
    counters: Mutex<RollupCounters>,
}

fn now_unix_nano() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

impl Rollups {
    /// Makes rollups of what is in the store from now on; `None` where the store keeps none.
    pub(crate) fn start(store: Arc<dyn Store>) -> Option<(Arc<Self>, RollupTask)> {
        let upkeep = RollupUpkeep::new(Queries::new(store))?;
        let marks = upkeep.marks();
        let stored = marks.end_unix_nano().unwrap_or(i64::MIN);
        let live = LiveRollup::new(LiveConfig::default(), now_unix_nano(), stored);
        let rollups = Arc::new(Self {
            live: Mutex::new(live),
            marks,
            began: Instant::now(),
            counters: Mutex::default(),
        });
        let closing = CancellationToken::new();
        let task = Task { rollups: Arc::clone(&rollups), upkeep, removals: BTreeMap::new() };
        let task = tokio::spawn(task.run(closing.clone()));
        Some((rollups, RollupTask { task, closing }))
    }

    fn now_nano(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Takes the rows of a stored batch.
    pub(crate) fn push(&self, batch: &Unsettled) {
        let pushed = self.live.lock().push(batch.batch, &batch.rows, self.now_nano());
        if let Err(error) = pushed {
            tracing::error!(batch = batch.batch, %error, "a batch is missing in rollups");
        }
    }

    /// Takes places of rows in traces. Called before the store gets them: a rollup that they change
    /// is removed before they can leave the log.
    pub(crate) fn place(&self, results: &[Assembled]) {
        if results.is_empty() {
            return;
        }
        let late = self.live.lock().place(results, self.now_nano());
        self.mark(late);
    }

    /// What rollups cost and lack.
    pub(crate) fn counters(&self) -> RollupCounters {
        RollupCounters { live: self.live.lock().counters, ..*self.counters.lock() }
    }

    fn mark(&self, minutes: Vec<i64>) {
        for minute in minutes {
            if let Err(error) = self.marks.mark(minute, now_unix_nano()) {
                self.counters.lock().failures += 1;
                tracing::warn!("a rollup that late spans change cannot be removed: {error}");
            }
        }
    }

    /// Counts settled traces. Assembly waits only for a part of them.
    fn settle(&self) {
        loop {
            let (late, more) = self.live.lock().settle(self.now_nano(), TRACES_AT_ONCE);
            self.mark(late);
            if !more {
                return;
            }
        }
    }
}

/// The running task.
pub(crate) struct RollupTask {
    task: JoinHandle<()>,
    closing: CancellationToken,
}

impl RollupTask {
    /// Ends. Minutes that are not stored are made from spans by the next start.
    pub(crate) async fn finish(self) {
        self.closing.cancel();
        self.task.abort();
        // An aborted task is no failure.
        drop(self.task.await);
    }
}

struct Task {
    rollups: Arc<Rollups>,
    upkeep: RollupUpkeep,
    /// Removals of files before a minute began.
    removals: BTreeMap<i64, u64>,
}

impl Task {
    async fn run(mut self, closing: CancellationToken) {
        let mut step_at = Instant::now() + STEP_EVERY;
        let mut told = String::new();
        loop {
            tokio::select! {
                () = closing.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            self.note_removals();
            let rollups = Arc::clone(&self.rollups);
            // Building trees takes long, and this thread's connections must not wait.
            drop(tokio::task::spawn_blocking(move || rollups.settle()).await);
            if Instant::now() < step_at {
                continue;
            }
            let began = Instant::now();
            let work = match self.read_again().await {
                Ok(()) => self.step().await,
                Err(error) => Err(error),
            };
            step_at = match work {
                Ok(RollupWork::Nothing) => Instant::now() + STEP_EVERY,
                // Half of the time is for others.
                Ok(_) => Instant::now() + began.elapsed(),
                Err(error) => {
                    self.rollups.counters.lock().failures += 1;
                    let error = error.to_string();
                    if told != error {
                        tracing::warn!("rollups are not made, and figures are of spans: {error}");
                    }
                    told = error;
                    Instant::now() + RETRY_AFTER
                }
            };
        }
    }

    fn note_removals(&mut self) {
        let next = now_unix_nano().div_euclid(MINUTE_NANO) + 1;
        let removals = self.rollups.marks.removals();
        self.removals.entry(next * MINUTE_NANO).or_insert(removals);
        while self.removals.len() > 60 {
            self.removals.pop_first();
        }
    }

    async fn read_again(&self) -> Result<(), QueryError> {
        let rollups = &self.rollups;
        let now_nano = rollups.now_nano();
        let changed = rollups.live.lock().take_changed(now_nano, CHANGED_AT_ONCE);
        self.upkeep
            .read_again(&changed, now_unix_nano(), |id, found| {
                rollups.live.lock().recount(id, found, rollups.now_nano())
            })
            .await
    }

    async fn step(&self) -> Result<RollupWork, QueryError> {
        let counted = |minute: i64| {
            let figures = self.rollups.live.lock().take(minute, self.rollups.now_nano())?;
            Some((figures, *self.removals.get(&minute)?))
        };
        let work = self.upkeep.step(now_unix_nano(), counted).await?;
        let mut counters = self.rollups.counters.lock();
        match work {
            RollupWork::CountedMinute => counters.minutes_counted += 1,
            RollupWork::MinuteOfSpans => counters.minutes_of_spans += 1,
            RollupWork::Hour | RollupWork::EmptyHour => counters.hours += 1,
            RollupWork::Refused | RollupWork::Nothing => {}
        }
        Ok(work)
    }
}
