//! Rules that are watched as spans come.
//!
//! Services and calls are counted anyway for `/metrics/spans`; of each batch, only failed spans are
//! looked at for kinds of errors. A task takes these counts every few seconds and evaluates the
//! rules. What needs more, forecasts and strong dependencies, is read seldom and under bounds.

mod outbox;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use serde_json::json;
use spanwise_analyze::red::Red;
use spanwise_analyze::watch::{
    Alerts, ErrorKinds, Forecasts, History, HistoryConfig, OpenAlert, Rule, StrongEdge,
};
use spanwise_analyze::{Dependency, Verdict};
use spanwise_api::{self as api, Nano};
use spanwise_query::traceql::Bounds;
use spanwise_query::{Queries, QueryError, RateHistory, RunFigures, now_unix_nano};
use spanwise_store::{Store, TimeRange};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::WatchSettings;
use outbox::Outbox;

/// Strong dependencies are looked for so often, in the runs of the last hour.
const STRONG_EVERY: Duration = Duration::from_secs(60);
const STRONG_NANO: i64 = 3_600_000_000_000;
/// What one such look may read.
const STRONG_BOUNDS: Bounds =
    Bounds { time: Duration::from_secs(5), traces: 50_000, spans: 500_000 };
/// The history of rates is read so often.
const RATES_EVERY: Duration = Duration::from_secs(600);

/// The rules, and how they are.
pub(crate) struct Watch {
    settings: WatchSettings,
    red: Arc<Mutex<Red>>,
    kinds: Option<Mutex<ErrorKinds>>,
    state: Mutex<State>,
    outbox: Option<Arc<Outbox>>,
}

struct State {
    alerts: Alerts,
    /// State of each rule, and since when.
    rules: Vec<(api::WatchState, i64)>,
    learning_until_unix_nano: i64,
    is_learning: bool,
    evaluations: u64,
    spent: Duration,
    warnings: Vec<String>,
}

/// The running tasks.
pub(crate) struct WatchTask {
    tasks: Vec<JoinHandle<()>>,
    closing: CancellationToken,
}

impl WatchTask {
    /// Ends. What the webhook was not told yet is not told any more.
    pub(crate) async fn finish(self) {
        self.closing.cancel();
        for task in self.tasks {
            task.abort();
            drop(task.await);
        }
    }
}

impl Watch {
    /// Watches the rules; `None` if there are none.
    pub(crate) fn start(
        settings: &WatchSettings,
        red: &Arc<Mutex<Red>>,
        store: &Arc<dyn Store>,
    ) -> Option<(Arc<Self>, WatchTask)> {
        let rules = &settings.rules.0;
        if rules.is_empty() {
            return None;
        }
        let now = now_unix_nano();
        let nano = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 8);
        let config = HistoryConfig {
            window_nano: nano(settings.window.0),
            before_nano: nano(settings.before.0),
        };
        let history = History::new(config, now);
        let has_kinds = rules.iter().any(|(_, rule)| matches!(rule, Rule::NewError { .. }));
        let outbox = settings.webhook.0.as_ref();
        let outbox = outbox.map(|url| Outbox::new(url.clone(), settings.webhook_tries.0));
        let watch = Arc::new(Self {
            settings: settings.clone(),
            red: Arc::clone(red),
            kinds: has_kinds.then(Mutex::default),
            state: Mutex::new(State {
                alerts: Alerts::default(),
                rules: vec![(api::WatchState::Holds, now); rules.len()],
                learning_until_unix_nano: history.learning_until_unix_nano(),
                is_learning: true,
                evaluations: 0,
                spent: Duration::ZERO,
                warnings: Vec::new(),
            }),
            outbox: outbox.clone(),
        });
        let closing = CancellationToken::new();
        let task = Task {
            watch: Arc::clone(&watch),
            queries: Queries::new(Arc::clone(store)),
            history,
            strong: (None, Vec::new()),
            rates: (None, RateHistory::default()),
        };
        let mut tasks = vec![tokio::spawn(task.run(closing.clone()))];
        tasks.extend(outbox.map(|outbox| tokio::spawn(outbox.run())));
        Some((watch, WatchTask { tasks, closing }))
    }

    /// Looks at the spans of a new batch.
    pub(crate) fn push(&self, batch: u64, rows: &RecordBatch) {
        let Some(kinds) = &self.kinds else { return };
        if let Err(error) = kinds.lock().push(rows) {
            tracing::error!(batch, %error, "the errors of a batch are not watched");
        }
    }

    /// The rules, and how they are.
    pub(crate) fn answer(&self) -> api::Watch {
        let settings = &self.settings;
        let state = self.state.lock();
        let rules =
            settings.rules.0.iter().zip(&state.rules).map(|((text, rule), (how, since))| {
                let firing = state.alerts.of(text).filter(|open| open.is_firing);
                let mut alerts: Vec<api::WatchAlert> = firing.map(alert).collect();
                alerts.sort_by_key(|alert| alert.since_unix_nano.0);
                let learns = rule.compares() && state.is_learning;
                let until = Duration::from_nanos(
                    state
                        .learning_until_unix_nano
                        .saturating_sub(now_unix_nano())
                        .max(0)
                        .unsigned_abs(),
                );
                api::WatchRule {
                    alerts,
                    rule: text.clone(),
                    since_unix_nano: Nano(*since),
                    state: *how,
                    why: learns.then(|| {
                        format!(
                            "it compares with the time before, and learns it for another {} s",
                            until.as_secs()
                        )
                    }),
                }
            });
        let evaluations = state.evaluations;
        api::Watch {
            before_seconds: settings.before.0.as_secs_f64(),
            errors_left_out: self.kinds.as_ref().map_or(0, |kinds| kinds.lock().left_out).into(),
            evaluation_milliseconds: state.spent.as_secs_f64() * 1e3 / evaluations.max(1) as f64,
            evaluations: evaluations.into(),
            every_seconds: settings.every.0.as_secs_f64(),
            rules: rules.collect(),
            warnings: state.warnings.clone(),
            webhook: self.outbox.as_ref().map(|outbox| outbox.answer()),
            window_seconds: settings.window.0.as_secs_f64(),
        }
    }

    fn has(&self, is_it: fn(&Rule) -> bool) -> bool {
        self.settings.rules.0.iter().any(|(_, rule)| is_it(rule))
    }
}

fn alert(open: &OpenAlert) -> api::WatchAlert {
    api::WatchAlert {
        bound: open.alert.bound,
        since_unix_nano: Nano(open.since_unix_nano),
        subject: open.alert.subject.clone(),
        text: open.alert.text.clone(),
        value: open.alert.value,
    }
}

struct Task {
    watch: Arc<Watch>,
    queries: Queries,
    history: History,
    strong: (Option<Instant>, Vec<StrongEdge>),
    rates: (Option<Instant>, RateHistory),
}

impl Task {
    async fn run(mut self, closing: CancellationToken) {
        let mut timer = tokio::time::interval(self.watch.settings.every.0);
        timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        timer.tick().await;
        loop {
            tokio::select! {
                () = closing.cancelled() => return,
                _ = timer.tick() => {}
            }
            let mut warnings = Vec::new();
            if let Err(error) = self.read_strong().await {
                warnings.push(format!("strong dependencies are not known: {error}"));
            }
            if let Err(error) = self.read_rates().await {
                warnings.push(format!("rates of former hours are not known: {error}"));
            }
            // Copying the counts takes milliseconds with thousands of series.
            tokio::task::block_in_place(|| self.evaluate(warnings));
        }
    }

    async fn read_strong(&mut self) -> Result<(), QueryError> {
        let is_due = self.strong.0.is_none_or(|read| read.elapsed() >= STRONG_EVERY);
        if !is_due || !self.watch.has(|rule| matches!(rule, Rule::Weak { .. })) {
            return Ok(());
        }
        self.strong.0 = Some(Instant::now());
        let now = now_unix_nano();
        let time = TimeRange { from_unix_nano: now - STRONG_NANO, to_unix_nano: now };
        let runs = self.queries.observed_runs(time, STRONG_BOUNDS, RunFigures::Chains).await?;
        let strengths = runs.chains.strengths().into_iter();
        let strong = strengths.filter_map(|((caller, called), strength)| {
            let Verdict { dependency, failures, confidence, .. } = strength.follow.verdict();
            (dependency == Dependency::Strong).then_some(StrongEdge {
                edge: (caller.service, called.service),
                failures,
                confidence,
            })
        });
        self.strong.1 = strong.collect();
        Ok(())
    }

    async fn read_rates(&mut self) -> Result<(), QueryError> {
        let is_due = self.rates.0.is_none_or(|read| read.elapsed() >= RATES_EVERY);
        if is_due && self.watch.has(|rule| matches!(rule, Rule::Rate { .. })) {
            self.rates.0 = Some(Instant::now());
            self.rates.1 = self.queries.rate_history().await?;
        }
        Ok(())
    }

    fn evaluate(&mut self, warnings: Vec<String>) {
        let began = Instant::now();
        let watch = Arc::clone(&self.watch);
        let now = now_unix_nano();
        let red = watch.red.lock().snapshot();
        match &watch.kinds {
            Some(kinds) => self.history.add(&red, &kinds.lock(), now),
            None => self.history.add(&red, &ErrorKinds::default(), now),
        }
        let (mut window, before) = (self.history.window(), self.history.before());
        window.strong.clone_from(&self.strong.1);
        window.forecasts = self.forecasts(now, window.entrances.keys());
        let rules = &watch.settings.rules.0;
        let found =
            rules.iter().flat_map(|(text, rule)| rule.broken(text, &window, before.as_ref()));
        let found = found.collect();
        let mut state = watch.state.lock();
        let (began_now, ended_now) = state.alerts.follow(found, now);
        let State { alerts, rules: states, .. } = &mut *state;
        for ((text, rule), (how, since)) in rules.iter().zip(states) {
            let is_broken = alerts.of(text).any(|open| open.is_firing);
            let needs_forecast = matches!(rule, Rule::Rate { .. }) && window.forecasts.is_empty();
            let is = match is_broken {
                true => api::WatchState::Broken,
                false if rule.compares() && before.is_none() => api::WatchState::Learning,
                false if needs_forecast => api::WatchState::Unknown,
                false => api::WatchState::Holds,
            };
            if *how != is {
                (*how, *since) = (is, now);
            }
        }
        state.is_learning = before.is_none();
        state.warnings = warnings;
        state.evaluations += 1;
        state.spent += began.elapsed();
        drop(state);
        for (status, alerts) in [("firing", began_now), ("resolved", ended_now)] {
            for open in alerts {
                tell(&watch, status, &open, now);
            }
        }
    }

    /// What the entrances are expected to get in this hour.
    fn forecasts<'a>(&self, now: i64, entrances: impl Iterator<Item = &'a String>) -> Forecasts {
        let forecast = |name: &String| Some((name.clone(), self.rates.1.service(name, now)?));
        entrances.filter_map(forecast).collect()
    }
}

fn tell(watch: &Watch, status: &str, open: &OpenAlert, now: i64) {
    let alert = &open.alert;
    tracing::info!(rule = alert.rule, subject = alert.subject, "{status}: {}", alert.text);
    if let Some(outbox) = &watch.outbox {
        outbox.put(json!({
            "rule": alert.rule,
            "status": status,
            "subject": alert.subject,
            "text": alert.text,
            "value": alert.value,
            "bound": alert.bound,
            "since_unix_nano": open.since_unix_nano.to_string(),
            "time_unix_nano": now.to_string(),
        }));
    }
}
