//! Figures of the last time, from counts that only grow.

use std::collections::{BTreeMap, VecDeque};

use spanwise_model::{Kind, Status};

use super::broken::{Forecasts, StrongEdge};
use super::error_kinds::ErrorKinds;
use crate::red::{Native, RedSnapshot, USER};

/// Parts of the window that are told apart.
const PARTS: i64 = 10;
/// The share of windows in which an edge must have had calls to be missed in one.
const LEAST_PRESENT: f64 = 0.75;

/// How long figures are kept.
#[derive(Debug, Clone, Copy)]
pub struct HistoryConfig {
    /// The time that a rule is about, up to now.
    pub window_nano: i64,
    /// The time before it, which edges and errors are compared with.
    pub before_nano: i64,
}

/// What rules are about.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// The length of time.
    pub seconds: f64,
    /// Services with requests.
    pub services: BTreeMap<String, ServiceFigures>,
    /// Calls by client and server. Of the time before, all that were ever seen; with 0 calls if they
    /// were not there most of the time.
    pub calls: BTreeMap<(String, String), u64>,
    /// Failures by service and kind.
    pub errors: BTreeMap<(String, String), ErrorFigures>,
    /// Rates of entrances by service.
    pub entrances: BTreeMap<String, Entrance>,
    /// What they are expected to be.
    pub forecasts: Forecasts,
    /// Strong dependencies.
    pub strong: Vec<StrongEdge>,
}

/// The requests to a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceFigures {
    /// Requests.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// The 95th percentile of their durations.
    pub p95_nano: i64,
}

/// The failures of a kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorFigures {
    /// How many.
    pub count: u64,
    /// An operation that failed so.
    pub operation: String,
}

/// The rate of an entrance.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Entrance {
    /// Runs per second.
    pub per_second: f64,
    /// The length of time.
    pub seconds: f64,
}

/// Counts of parts of the time, the newest last.
#[derive(Debug, Default)]
struct Slots {
    /// What was counted in all.
    total: u64,
    first_unix_nano: i64,
    slots: VecDeque<(i64, u64)>,
}

impl Slots {
    /// Takes the total that was counted up to now.
    fn total(&mut self, total: u64, now: i64, part_nano: i64, keep_nano: i64) {
        let more = total.saturating_sub(self.total);
        self.total = total;
        while self.slots.front().is_some_and(|(at, _)| now - at > keep_nano) {
            self.slots.pop_front();
        }
        if more == 0 {
            return;
        }
        if self.first_unix_nano == 0 {
            self.first_unix_nano = now;
        }
        match self.slots.back_mut() {
            Some((at, count)) if at.div_euclid(part_nano) == now.div_euclid(part_nano) => {
                *count += more;
            }
            _ => self.slots.push_back((now, more)),
        }
    }

    fn between(&self, from: i64, to: i64) -> u64 {
        let within = self.slots.iter().filter(|(at, _)| *at > from && *at <= to);
        within.map(|(_, count)| count).sum()
    }
}

/// Durations in buckets of [`Native`] at the finest resolution, named by their ends.
type Buckets = BTreeMap<i32, u64>;

#[derive(Debug, Default)]
struct OfService {
    requests: Slots,
    /// What was counted in all, by operation, so that a histogram that has become coarser is
    /// compared with itself.
    native: Vec<Native>,
    errors_total: u64,
    /// Errors and durations of the window.
    parts: VecDeque<(i64, u64, Buckets)>,
}

/// Figures of the last time.
#[derive(Debug)]
pub struct History {
    config: HistoryConfig,
    began_unix_nano: i64,
    services: BTreeMap<String, OfService>,
    edges: BTreeMap<(String, String), Slots>,
    errors: BTreeMap<(String, String), (Slots, String)>,
    last_unix_nano: i64,
}

impl History {
    /// Nothing counted yet.
    pub const fn new(config: HistoryConfig, began_unix_nano: i64) -> Self {
        Self {
            config,
            began_unix_nano,
            services: BTreeMap::new(),
            edges: BTreeMap::new(),
            errors: BTreeMap::new(),
            last_unix_nano: began_unix_nano,
        }
    }

    /// Until when nothing is known of the time before.
    pub const fn learning_until_unix_nano(&self) -> i64 {
        self.began_unix_nano + self.config.window_nano + self.config.before_nano
    }

    /// Takes what was counted up to now.
    pub fn add(&mut self, red: &RedSnapshot, kinds: &ErrorKinds, now: i64) {
        let HistoryConfig { window_nano, before_nano } = self.config;
        let (part, keep) = ((window_nano / PARTS).max(1), window_nano + before_nano);
        let mut requests: BTreeMap<&str, (u64, u64, Vec<&Native>)> = BTreeMap::new();
        for series in &red.spans {
            let (kind, status) = series.kind_and_status();
            if kind == Kind::Server {
                let of = requests.entry(&series.first).or_default();
                of.0 += series.durations.count;
                of.1 += if status == Status::Error { series.durations.count } else { 0 };
                of.2.push(&series.durations.native);
            }
        }
        for (name, (count, errors, native)) in requests {
            let of = self.services.entry(name.to_owned()).or_default();
            of.requests.total(count, now, part, keep);
            let mut buckets = Buckets::new();
            for (place, native) in native.iter().enumerate() {
                // Series are only ever added at the end.
                difference(native, of.native.get(place), &mut buckets);
            }
            of.native = native.into_iter().cloned().collect();
            let more = errors.saturating_sub(of.errors_total);
            of.errors_total = errors;
            of.parts.push_back((now, more, buckets));
            while of.parts.front().is_some_and(|(at, ..)| now - at > window_nano) {
                of.parts.pop_front();
            }
        }
        let mut calls: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for series in &red.edges {
            *calls.entry((&series.first, &series.second)).or_default() += series.durations.count;
        }
        for ((client, server), count) in calls {
            let slots = self.edges.entry((client.to_owned(), server.to_owned())).or_default();
            slots.total(count, now, part, keep);
        }
        for (kind, counted) in &kinds.kinds {
            let (slots, operation) = self.errors.entry(kind.clone()).or_default();
            slots.total(counted.count, now, part, keep);
            operation.clone_from(&counted.operation);
        }
        self.last_unix_nano = now;
    }

    /// The figures of the window up to now.
    pub fn window(&self) -> Figures {
        let now = self.last_unix_nano;
        let from = now - self.config.window_nano;
        let length = (now - from.max(self.began_unix_nano)).max(1);
        let seconds = length as f64 / 1e9;
        let mut figures = Figures { seconds, ..Figures::default() };
        for (name, of) in &self.services {
            let requests = of.requests.between(from, now);
            if requests == 0 {
                continue;
            }
            let mut all = Buckets::new();
            let mut errors = 0;
            for (_, failed, buckets) in of.parts.iter().filter(|(at, ..)| *at > from) {
                errors += failed;
                for (bucket, count) in buckets {
                    *all.entry(*bucket).or_default() += count;
                }
            }
            let p95_nano = quantile_nano(&all, 0.95);
            let of_window = ServiceFigures { requests, errors, p95_nano };
            figures.services.insert(name.clone(), of_window);
        }
        for ((client, server), slots) in &self.edges {
            let calls = slots.between(from, now);
            if client == USER {
                let entrance = Entrance { per_second: calls as f64 / seconds, seconds };
                figures.entrances.insert(server.clone(), entrance);
            } else if calls > 0 {
                figures.calls.insert((client.clone(), server.clone()), calls);
            }
        }
        for (kind, (slots, operation)) in &self.errors {
            let count = slots.between(from, now);
            if count > 0 {
                let operation = operation.clone();
                figures.errors.insert(kind.clone(), ErrorFigures { count, operation });
            }
        }
        figures
    }

    /// The figures of the time before the window; `None` while it is not known yet.
    pub fn before(&self) -> Option<Figures> {
        let now = self.last_unix_nano;
        if now < self.learning_until_unix_nano() {
            return None;
        }
        let HistoryConfig { window_nano, before_nano } = self.config;
        let to = now - window_nano;
        let from = to - before_nano;
        let mut figures = Figures { seconds: before_nano as f64 / 1e9, ..Figures::default() };
        for (name, of) in &self.services {
            let requests = of.requests.between(from, to);
            let of_before = ServiceFigures { requests, ..ServiceFigures::default() };
            figures.services.insert(name.clone(), of_before);
        }
        let windows = (before_nano / window_nano.max(1)).max(1);
        for (edge, slots) in self.edges.iter().filter(|((client, _), _)| client != USER) {
            if slots.first_unix_nano == 0 || slots.first_unix_nano > to {
                continue;
            }
            let present = (0..windows)
                .filter(|window| {
                    let end = to - window * window_nano;
                    slots.between(end - window_nano, end) > 0
                })
                .count();
            let is_steady = present as f64 >= LEAST_PRESENT * windows as f64;
            let calls = if is_steady { slots.between(from, to) } else { 0 };
            figures.calls.insert(edge.clone(), calls);
        }
        let old = |slots: &Slots| slots.first_unix_nano != 0 && slots.first_unix_nano <= to;
        for (kind, (slots, operation)) in self.errors.iter().filter(|(_, (slots, _))| old(slots)) {
            let count = slots.between(from, to);
            let operation = operation.clone();
            figures.errors.insert(kind.clone(), ErrorFigures { count, operation });
        }
        Some(figures)
    }
}

/// Adds what a histogram has counted since it was like `before`.
fn difference(now: &Native, before: Option<&Native>, buckets: &mut Buckets) {
    let mut old = Buckets::new();
    if let Some(before) = before {
        for (end, count) in before.ends() {
            // It may have become coarser since.
            *old.entry(now.end_of(end)).or_default() += count;
        }
    }
    for (end, count) in now.ends() {
        let more = count.saturating_sub(old.get(&end).copied().unwrap_or(0));
        if more > 0 {
            *buckets.entry(end).or_default() += more;
        }
    }
}

/// A quantile of durations above zero, between the ends of its bucket.
fn quantile_nano(buckets: &Buckets, share: f64) -> i64 {
    let total: u64 = buckets.values().sum();
    let wanted = share * total as f64;
    let mut below = 0.0;
    for (end, count) in buckets {
        let count = *count as f64;
        if below + count >= wanted {
            let part = if count > 0.0 { (wanted - below) / count } else { 1.0 };
            let seconds = ((f64::from(*end) - 1.0 + part) / 8.0).exp2();
            return (seconds * 1e9) as i64;
        }
        below += count;
    }
    0
}
