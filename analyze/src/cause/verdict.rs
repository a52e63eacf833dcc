//! Who is suspected, and by what evidence.

use ahash::AHashMap;

use super::deviation::{Deviation, Floor, quantile};
use super::{CauseRange, Item, Work, Worker};
use crate::names::{Name, Names};

/// Spans that an item must have in a range.
const LEAST_SPANS: usize = 4;
/// What deviates less than this is usual.
const NOTABLE: f64 = 3.0;
/// Added time counts fully from here on.
const FULL: f64 = 20.0;
/// Changes of what services do: notable, and counting fully.
const NOTABLE_WORK: f64 = 4.0;
const FULL_WORK: f64 = 12.0;
/// A suspect stands out if its time deviates by this, or what it does or its errors by
/// [`CLEAR_WORK`].
const CLEAR: f64 = 10.0;
const CLEAR_WORK: f64 = 6.0;
/// Variation that is always taken for granted.
const TIME: Floor = Floor { share: 0.1, least: 0.05 };
const WORK: Floor = Floor { share: 0.03, least: 0.01 };
const ERRORS: Floor = Floor { share: 0.1, least: 0.002 };
const LOSSES: Floor = Floor { share: 0.1, least: 0.001 };
/// The least deviation of calls for each span that is assumed.
const LEAST_CALLS_DEVIATION: f64 = 0.3;

/// Who is suspected of having made a range unusual.
#[derive(Debug, Clone, Default)]
pub struct CauseVerdict {
    /// Services, the most suspected first.
    pub suspects: Vec<Suspect>,
    /// Ranges that it was compared with.
    pub usual_ranges: usize,
    /// Milliseconds of added time for a thousand spans, of all services.
    pub added_ms_per_thousand: f64,
}

/// A service that is suspected.
#[derive(Debug, Clone)]
pub struct Suspect {
    /// The service.
    pub service: String,
    /// The share of what is unusual that it explains; more than 1 if it explains it in several ways.
    pub score: f64,
    /// Whether it stands out. If no suspect does, nothing is known to be wrong.
    pub stands_out: bool,
    /// What speaks for it, the strongest first.
    pub evidence: Vec<Evidence>,
}

/// What speaks for a suspect.
#[derive(Debug, Clone, PartialEq)]
pub enum Evidence {
    /// An operation took more time of its own.
    OwnTime {
        /// The operation.
        operation: String,
        /// The database that took the time, where the suspect is the client that it took it for.
        store: Option<String>,
        /// Its median in milliseconds, and the usual one.
        ms: f64,
        /// See [`Self::OwnTime::ms`].
        usual_ms: f64,
        /// The distance in units of usual variation.
        score: f64,
    },
    /// More time passed between a caller and the service that answers.
    TimeBetween {
        /// The caller.
        client: String,
        /// The service that answers.
        server: String,
        /// The median in milliseconds, and the usual one.
        ms: f64,
        /// See [`Self::TimeBetween::ms`].
        usual_ms: f64,
        /// The distance in units of usual variation.
        score: f64,
    },
    /// An operation made more or fewer calls for each of its spans.
    Calls {
        /// The operation.
        operation: String,
        /// Calls for each span, and the usual number.
        calls: f64,
        /// See [`Self::Calls::calls`].
        usual_calls: f64,
        /// The distance in units of usual variation; negative if there are fewer.
        score: f64,
    },
    /// An operation failed more often by itself.
    Errors {
        /// The operation.
        operation: String,
        /// The database that failed, where the suspect is the client that asked it.
        store: Option<String>,
        /// The share of its spans that failed, and the usual share.
        share: f64,
        /// See [`Self::Errors::share`].
        usual_share: f64,
        /// The distance in units of usual variation.
        score: f64,
    },
    /// More calls between two services had retransmits.
    Retransmits {
        /// The caller.
        client: String,
        /// The service that answers.
        server: String,
        /// The share of the calls, and the usual share.
        share: f64,
        /// See [`Self::Retransmits::share`].
        usual_share: f64,
        /// The distance in units of usual variation.
        score: f64,
    },
}

impl Evidence {
    /// The distance from what is usual, in units of usual variation.
    pub const fn score(&self) -> f64 {
        match self {
            Self::OwnTime { score, .. }
            | Self::TimeBetween { score, .. }
            | Self::Calls { score, .. }
            | Self::Errors { score, .. }
            | Self::Retransmits { score, .. } => *score,
        }
    }
}

/// What is known of a service.
#[derive(Default)]
struct Case {
    added: f64,
    time: f64,
    work: f64,
    errors: f64,
    losses: f64,
    evidence: Vec<(f64, Evidence)>,
}

/// An unusual item.
struct Unusual {
    item: Item,
    median: Deviation,
    score: f64,
    added: f64,
}

impl CauseVerdict {
    /// Compares a range with others of the same length.
    pub fn of<'a>(
        range: &CauseRange,
        others: impl IntoIterator<Item = &'a CauseRange>,
        names: &Names,
    ) -> Self {
        let others: Vec<&CauseRange> = others.into_iter().filter(|other| other.spans > 0).collect();
        let mut cases: AHashMap<Name, Case> = AHashMap::new();
        let unusual = unusual_times(range, &others);
        let hops = Hops::of(range, |item| unusual.iter().any(|one| one.item == item));
        let stores = Stores::of(range, &unusual);
        let mut total = 0.0;
        for Unusual { item, median, score, added } in &unusual {
            if *added <= 0.0 {
                continue;
            }
            let (ms, usual_ms, score) = (median.value, median.usual, *score);
            let (whose, evidence) = match *item {
                Item::Own { service, operation } => {
                    let operation = names.text(operation).to_owned();
                    (service, Evidence::OwnTime { operation, store: None, ms, usual_ms, score })
                }
                Item::Stored { store, operation, client } => {
                    let whose = stores.whose(store, client);
                    let operation = names.text(operation).to_owned();
                    let store = (whose != store).then(|| names.text(store).to_owned());
                    (whose, Evidence::OwnTime { operation, store, ms, usual_ms, score })
                }
                Item::Between { client, server } => {
                    let text = |name| names.text(name).to_owned();
                    let (from, to) = (text(client), text(server));
                    let between =
                        Evidence::TimeBetween { client: from, server: to, ms, usual_ms, score };
                    (hops.whose(client, server), between)
                }
            };
            let case = cases.entry(whose).or_default();
            case.added += added;
            case.time = case.time.max(score);
            case.evidence.push((*added, evidence));
            total += added;
        }
        work(range, &others, names, &mut cases);
        losses(range, &others, names, &mut cases);
        let mut suspects: Vec<Suspect> =
            cases.into_iter().map(|(name, case)| case.suspect(names.text(name), total)).collect();
        suspects.sort_by(|one, other| {
            other.score.total_cmp(&one.score).then_with(|| one.service.cmp(&other.service))
        });
        Self { suspects, usual_ranges: others.len(), added_ms_per_thousand: total }
    }
}

/// Items that take more time than usual by at least two of median, mean and 95th percentile.
fn unusual_times(range: &CauseRange, others: &[&CauseRange]) -> Vec<Unusual> {
    let mut unusual = Vec::new();
    for (item, times) in &range.times {
        if times.len() < LEAST_SPANS {
            continue;
        }
        let of_others: Vec<&Vec<f64>> = others
            .iter()
            .filter_map(|other| other.times.get(item))
            .filter(|times| times.len() >= LEAST_SPANS)
            .collect();
        let deviation = |figure: &dyn Fn(&[f64]) -> f64, error: f64| {
            let mut usual: Vec<f64> = of_others.iter().map(|times| figure(times)).collect();
            Deviation::of(figure(times), &mut usual, TIME, error)
        };
        let at = |share: f64| move |times: &[f64]| quantile(&mut times.to_vec(), share);
        let Some(median) = deviation(&at(0.5), 0.0) else { continue };
        let Some(tail) = deviation(&at(0.95), 0.0) else { continue };
        let Some(average) = deviation(&mean, standard_error(times)) else { continue };
        let mut scores = [median.score, tail.score, average.score];
        scores.sort_unstable_by(f64::total_cmp);
        let score = scores[1];
        if score > NOTABLE {
            let spans = times.len() as f64 / range.spans.max(1) as f64 * 1e3;
            let added = (average.value - average.usual) * spans;
            unusual.push(Unusual { item: *item, median, score, added });
        }
    }
    unusual.sort_unstable_by_key(|one| one.item);
    unusual
}

/// Of the calls between services, those that are unusual.
#[derive(Default)]
struct Hops(AHashMap<Name, (f64, f64)>);

impl Hops {
    fn of(range: &CauseRange, is_unusual: impl Fn(Item) -> bool) -> Self {
        let mut hops = Self::default();
        for (item, times) in &range.times {
            if let Item::Between { client, server } = item
                && times.len() >= LEAST_SPANS
            {
                let is_unusual = is_unusual(*item);
                for end in [client, server] {
                    let (all, own) = hops.0.entry(*end).or_default();
                    *all += 1.0;
                    *own += f64::from(u8::from(is_unusual));
                }
            }
        }
        hops
    }

    /// How well a service explains that calls are unusual: nearly all that it has a part in are,
    /// and they are many.
    fn power(&self, service: Name) -> f64 {
        self.0.get(&service).map_or(0.0, |(all, own)| own / all * own.ln_1p())
    }

    /// To whom the time between two services is charged: the one that answers, unless the caller
    /// explains it better, and explains more calls that are unusual.
    fn whose(&self, client: Name, server: Name) -> Name {
        let unusual = |service: Name| self.0.get(&service).map_or(0.0, |(_, unusual)| *unusual);
        let is_client =
            self.power(client) > self.power(server) && unusual(client) > unusual(server);
        if is_client { client } else { server }
    }
}

/// Of what databases do for their clients, the share that is unusual.
#[derive(Default)]
struct Stores(AHashMap<Name, (f64, f64)>);

impl Stores {
    fn of(range: &CauseRange, unusual: &[Unusual]) -> Self {
        let mut stores = Self::default();
        for (item, times) in &range.times {
            if let Item::Stored { store, .. } = item
                && times.len() >= LEAST_SPANS
            {
                stores.add(*store, unusual.iter().any(|one| one.item == *item && one.added > 0.0));
            }
        }
        stores
    }

    fn add(&mut self, store: Name, is_unusual: bool) {
        let (all, unusual) = self.0.entry(store).or_default();
        *all += 1.0;
        *unusual += f64::from(u8::from(is_unusual));
    }

    /// If less than half of what a database does is unusual, it is the matter of the client that
    /// asks for it: of its query, its index, its locks.
    fn whose(&self, store: Name, client: Name) -> Name {
        let is_general = self.0.get(&store).is_some_and(|(all, unusual)| unusual * 2.0 >= *all);
        if is_general { store } else { client }
    }
}

/// Adds what services do unlike usually: numbers of calls, and errors.
fn work(
    range: &CauseRange,
    others: &[&CauseRange],
    names: &Names,
    cases: &mut AHashMap<Name, Case>,
) {
    let least = LEAST_SPANS as f64;
    let others_of = |worker: &Worker| -> Vec<&Work> {
        let work = others.iter().filter_map(|other| other.work.get(worker));
        work.filter(|work| work.spans >= least).collect()
    };
    let errors_of = |work: &Work, of_others: &[&Work]| {
        let share = |work: &Work| work.own_errors / work.spans;
        let mut usual: Vec<f64> = of_others.iter().map(|work| share(work)).collect();
        let own = share(work);
        // One failure more or less says nothing.
        let error = ((own * (1.0 - own)).max(1.0 / work.spans) / work.spans).sqrt();
        Deviation::of(own, &mut usual, ERRORS, error).filter(|errors| errors.score > NOTABLE_WORK)
    };
    let done = || range.work.iter().filter(|(_, work)| work.spans >= least);
    let mut stores = Stores::default();
    for (worker, work) in done().filter(|(worker, _)| worker.client.is_some()) {
        stores.add(worker.service, errors_of(work, &others_of(worker)).is_some());
    }
    for (worker, work) in done() {
        let Worker { service, operation, client } = *worker;
        let of_others = others_of(worker);
        let text = || names.text(operation).to_owned();
        if let Some(errors) = errors_of(work, &of_others) {
            let whose = client.map_or(service, |client| stores.whose(service, client));
            let case = cases.entry(whose).or_default();
            case.errors = case.errors.max(errors.score);
            let evidence = Evidence::Errors {
                operation: text(),
                store: (whose != service).then(|| names.text(service).to_owned()),
                share: errors.value,
                usual_share: errors.usual,
                score: errors.score,
            };
            case.evidence.push((0.0, evidence));
        }
        let mut usual: Vec<f64> = of_others.iter().map(|work| work.calls_per_span()).collect();
        let error =
            |spans: f64| 2.0 * work.calls_deviation().max(LEAST_CALLS_DEVIATION) / spans.sqrt();
        let all = Deviation::of(work.calls_per_span(), &mut usual, WORK, error(work.spans));
        let calls = all.and_then(|all| match work.unhindered() {
            _ if all.score >= 0.0 => Some(all),
            (spans, _) if spans < least => None,
            (spans, calls) => Deviation::of(calls / spans, &mut usual, WORK, error(spans)),
        });
        if let Some(calls) = calls {
            let case = cases.entry(service).or_default();
            case.work = case.work.max(calls.score.abs());
            if calls.score.abs() <= NOTABLE_WORK {
                continue;
            }
            let evidence = Evidence::Calls {
                operation: text(),
                calls: calls.value,
                usual_calls: calls.usual,
                score: calls.score,
            };
            case.evidence.push((0.0, evidence));
        }
    }
}

/// Adds what the network lost of the calls between services.
fn losses(
    range: &CauseRange,
    others: &[&CauseRange],
    names: &Names,
    cases: &mut AHashMap<Name, Case>,
) {
    let least = LEAST_SPANS as f64;
    let mut found: Vec<(Item, Deviation)> = Vec::new();
    for (item, sent) in &range.sent {
        let of_others = others.iter().filter_map(|other| other.sent.get(item));
        let of_others = of_others.filter(|other| other.calls >= least);
        let mut usual: Vec<f64> = of_others.map(|other| other.repeated / other.calls).collect();
        let loss = Deviation::of_hits(sent.repeated, sent.calls, &mut usual, LOSSES);
        found.extend(loss.filter(|loss| loss.score > NOTABLE_WORK).map(|loss| (*item, loss)));
    }
    found.sort_unstable_by_key(|(item, _)| *item);
    let hops = Hops::of(range, |item| found.iter().any(|(lossy, _)| *lossy == item));
    for (item, loss) in found {
        let Item::Between { client, server } = item else { continue };
        let case = cases.entry(hops.whose(client, server)).or_default();
        case.losses = case.losses.max(loss.score);
        let evidence = Evidence::Retransmits {
            client: names.text(client).to_owned(),
            server: names.text(server).to_owned(),
            share: loss.value,
            usual_share: loss.usual,
            score: loss.score,
        };
        case.evidence.push((0.0, evidence));
    }
}

impl Work {
    /// The spans of which no call failed: after a failure, calls that would follow are not made,
    /// which is the matter of the one that failed.
    fn unhindered(&self) -> (f64, f64) {
        (self.spans - self.hindered, self.calls - self.hindered_calls)
    }

    fn calls_per_span(&self) -> f64 {
        self.calls / self.spans
    }

    /// The standard deviation of calls for each span.
    fn calls_deviation(&self) -> f64 {
        let mean = self.calls_per_span();
        (self.calls_squared / self.spans - mean * mean).max(0.0).sqrt()
    }
}

impl Case {
    fn suspect(self, service: &str, total: f64) -> Suspect {
        let Self { added, time, work, errors, losses, mut evidence } = self;
        let of_time = match total > 0.0 {
            true => added / total * (time.ln_1p() / FULL.ln_1p()).min(1.0),
            false => 0.0,
        };
        let of_work = |score: f64| match score > NOTABLE_WORK {
            true => (score / FULL_WORK).min(1.0),
            false => 0.0,
        };
        evidence.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        Suspect {
            service: service.to_owned(),
            // What is not notable orders those of whom nothing else is known.
            score: of_time
                + of_work(work)
                + of_work(errors)
                + of_work(losses)
                + 1e-3 * time.ln_1p()
                + 1e-4 * work,
            stands_out: time >= CLEAR
                || work >= CLEAR_WORK
                || errors >= CLEAR_WORK
                || losses >= CLEAR_WORK,
            evidence: evidence.into_iter().map(|(_, evidence)| evidence).collect(),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn standard_error(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    squares.sqrt() / values.len().max(1) as f64
}
