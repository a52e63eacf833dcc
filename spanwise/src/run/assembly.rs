//! The assembly task: stored rows go into the window, and the results go back to the store.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use spanwise_analyze::red::{Now, Red, RedCounters};
use spanwise_api::{self as api, Count, HostClock};
use spanwise_assemble::{ClockDifference, Window, WindowConfig};
use spanwise_model::Assembled;
use spanwise_store::{Store, Unsettled};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::rollups::{RollupCounters, Rollups};
use super::watch::Watch;

const POLL_EVERY: Duration = Duration::from_millis(100);
/// Maximum batches that wait for the window. Beyond it, senders wait.
const QUEUE_BATCHES: usize = 64;
/// Batches added between two polls of the window.
const AT_ONCE: usize = 16;

/// The status of assembly for the status page.
#[derive(Debug, Default)]
pub(crate) struct AssemblyStatus(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    window: spanwise_assemble::WindowCounters,
    rows_held: usize,
    rows_unreadable: u64,
    rows_unannotated: u64,
    clocks: Vec<ClockDifference<Arc<str>>>,
    red: RedCounters,
    rollups: RollupCounters,
}

impl AssemblyStatus {
    /// A warning for each pair of hosts whose clocks differ enough to affect traces.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let state = self.0.lock();
        let notable = state.clocks.iter().filter(|clock| clock.is_notable());
        let said = |clock: &ClockDifference<_>| {
            format!(
                "{clock}: traces across them show times that do not fit together; set the clocks by NTP"
            )
        };
        notable.map(said).collect()
    }

    /// The status of assembly.
    pub(crate) fn snapshot(&self) -> api::Assembly {
        let state = self.0.lock();
        let counters = counters(&state).map(|(name, count)| (name.to_owned(), Count::from(count)));
        api::Assembly {
            clocks: state.clocks.iter().map(clock).collect(),
            counters: counters.into(),
            rows_held: state.rows_held.into(),
        }
    }
}

fn counters(state: &State) -> [(&'static str, u64); 25] {
    [
        ("rows", state.window.rows),
        ("results", state.window.told),
        ("results_changed", state.window.changed),
        ("groups_evicted_window_full", state.window.groups_evicted),
        ("groups_cut_too_large", state.window.groups_too_large),
        ("calls_linked_by_timing", state.window.timing.linked),
        ("calls_without_likely_request", state.window.timing.unclear),
        ("calls_not_timed_too_many", state.window.timing.skipped),
        ("rows_unreadable", state.rows_unreadable),
        ("rows_unannotated_store_failed", state.rows_unannotated),
        ("metrics_spans_folded", state.red.spans_folded),
        ("metrics_calls_folded", state.red.edges_folded),
        ("metrics_traces_counted_early", state.red.traces_counted_early),
        ("metrics_traces_reopened", state.red.traces_reopened),
        ("metrics_spans_changed_late", state.red.spans_changed_late),
        ("metrics_spans_not_assembled", state.red.spans_not_assembled),
        ("rollup_traces", state.rollups.live.traces),
        ("rollup_traces_read_again", state.rollups.live.changed),
        ("rollup_minutes_changed_late", state.rollups.live.late),
        ("rollup_rows_let_go", state.rollups.live.rows_let_go),
        ("rollup_minutes_given_up", state.rollups.live.minutes_given_up),
        ("rollup_minutes_counted", state.rollups.minutes_counted),
        ("rollup_minutes_from_spans", state.rollups.minutes_of_spans),
        ("rollup_hours", state.rollups.hours),
        ("rollup_failures", state.rollups.failures),
    ]
}

fn clock(clock: &ClockDifference<Arc<str>>) -> HostClock {
    HostClock {
        ahead_nano: Count(clock.ahead_nano),
        exchanges: clock.exchanges.into(),
        host: clock.host.to_string(),
        reference: clock.reference.to_string(),
        uncertainty_nano: Count(clock.uncertainty_nano),
    }
}

/// The running task.
pub(crate) struct Assembly {
    task: JoinHandle<()>,
    closing: CancellationToken,
    status: Arc<AssemblyStatus>,
}

impl Assembly {
    /// Starts assembly on these threads, beginning with stored batches that are not assembled yet.
    /// Newly stored batches are sent to the returned queue. Their spans are counted in `red` and in
    /// rollups, and watched.
    pub(crate) fn start(
        store: Arc<dyn Store>,
        links_by_timing: bool,
        red: Option<Arc<Mutex<Red>>>,
        rollups: Option<Arc<Rollups>>,
        watch: Option<Arc<Watch>>,
        threads: &Handle,
    ) -> (Self, mpsc::Sender<Unsettled>) {
        let (queue, batches) = mpsc::channel(QUEUE_BATCHES);
        let status = Arc::<AssemblyStatus>::default();
        let closing = CancellationToken::new();
        let task = Task {
            store,
            window: Window::new(WindowConfig { links_by_timing, ..WindowConfig::default() }),
            began: Instant::now(),
            status: Arc::clone(&status),
            red,
            rollups,
            watch,
        };
        let task = threads.spawn(task.run(batches, closing.clone()));
        (Self { task, closing, status }, queue)
    }

    pub(crate) fn status(&self) -> Arc<AssemblyStatus> {
        Arc::clone(&self.status)
    }

    /// Accepts no more batches, stores all results, and ends.
    pub(crate) async fn finish(self) {
        self.closing.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "assembly ended badly; it is done again at the next start");
        }
    }
}

struct Task {
    store: Arc<dyn Store>,
    window: Window,
    began: Instant,
    status: Arc<AssemblyStatus>,
    red: Option<Arc<Mutex<Red>>>,
    rollups: Option<Arc<Rollups>>,
    watch: Option<Arc<Watch>>,
}

impl Task {
    async fn run(mut self, mut batches: mpsc::Receiver<Unsettled>, closing: CancellationToken) {
        let unsettled = self.store.unsettled();
        if !unsettled.is_empty() {
            tracing::info!(batches = unsettled.len(), "assembling what the last run left");
        }
        for batch in unsettled {
            // The last run counted its spans.
            self.push(&batch);
            // Results are stored when they are due, so that the window stays small.
            self.poll().await;
        }
        let mut timer = tokio::time::interval(POLL_EVERY);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut received = Vec::with_capacity(AT_ONCE);
        loop {
            tokio::select! {
                // The timer comes first: results must not wait while many batches arrive.
                biased;
                _ = timer.tick() => self.poll().await,
                // Batches that are already stored are still added. Then the queue ends.
                () = closing.cancelled(), if !batches.is_closed() => batches.close(),
                count = batches.recv_many(&mut received, AT_ONCE) => {
                    if count == 0 {
                        break;
                    }
                    for batch in received.drain(..) {
                        self.count(&batch);
                        self.push(&batch);
                    }
                }
            }
        }
        let now = self.now_nano();
        let results = self.window.flush(now);
        self.store_results(results).await;
    }

    fn now_nano(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> Now {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_nano = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        Now { nano: self.now_nano(), unix_nano }
    }

    /// Counts the spans of a new batch.
    fn count(&self, batch: &Unsettled) {
        if let Some(watch) = &self.watch {
            watch.push(batch.batch, batch.rows.columns());
        }
        let Some(red) = &self.red else { return };
        let counted = red.lock().push(batch.batch, batch.rows.columns(), self.now());
        if let Err(error) = counted {
            tracing::error!(batch = batch.batch, %error, "the spans of a batch cannot be counted");
        }
    }

    fn push(&mut self, batch: &Unsettled) {
        if let Some(rollups) = &self.rollups {
            rollups.push(batch);
        }
        let now = self.now_nano();
        let unreadable = match self.window.push(batch.batch, &batch.rows, now) {
            Ok(0) => return,
            Ok(unreadable) => unreadable,
            Err(error) => {
                tracing::error!(batch = batch.batch, %error, "a stored batch cannot be read");
                batch.rows.num_rows() as u64
            }
        };
        tracing::error!(batch = batch.batch, unreadable, "stored rows cannot be assembled");
        self.status.0.lock().rows_unreadable += unreadable;
    }

    async fn poll(&mut self) {
        let now = self.now_nano();
        // Looking for likely links may take long, and this thread's connections must not wait.
        let results = tokio::task::block_in_place(|| self.window.poll(now));
        self.store_results(results).await;
    }

    async fn store_results(&mut self, results: Vec<Assembled>) {
        let counted = self.red.as_ref().map(|red| {
            let (mut red, now) = (red.lock(), self.now());
            red.place(&results, now);
            red.settle(now);
            red.counters()
        });
        if let Some(rollups) = &self.rollups {
            rollups.place(&results);
        }
        let annotated = match results.as_slice() {
            [] => Ok(()),
            results => self.store.annotate(results).await,
        };
        let failed = match annotated {
            Ok(()) => 0,
            Err(error) => {
                tracing::error!(%error, rows = results.len(), "assembled rows could not be kept");
                results.len() as u64
            }
        };
        let rollups = self.rollups.as_ref().map(|rollups| rollups.counters());
        let mut status = self.status.0.lock();
        status.rollups = rollups.unwrap_or_default();
        status.window = self.window.counters();
        status.rows_held = self.window.rows();
        status.clocks = self.window.clock_differences();
        status.red = counted.unwrap_or_default();
        status.rows_unannotated += failed;
    }
}
