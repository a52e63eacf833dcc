//! What breaks a rule.

use std::collections::BTreeMap;

use super::history::{Entrance, Figures};
use super::rule::Rule;
use crate::forecast::Forecast;

/// Requests that a share of errors or a percentile must be of.
const LEAST_REQUESTS: u64 = 20;
/// Calls, and failures, from which on a new edge or kind of error is there.
const LEAST_NEW: u64 = 3;
/// Calls that an edge must be expected to have to be missed: none of so many is no chance.
const LEAST_EXPECTED: f64 = 10.0;
/// Failures that a strong dependency must be known from, and how sure it must be.
const LEAST_FAILURES: u64 = 20;
const LEAST_CONFIDENCE: f64 = 0.9;
/// The same of a forecast.
const LEAST_FORECAST_CONFIDENCE: f64 = 0.3;
/// Standard deviations that a share of errors must be above its bound to be surely above it.
const DEVIATIONS: f64 = 2.0;
/// The most alerts of a rule. More tell nothing new.
const MOST_ALERTS: usize = 100;

/// A rule that is broken, and by what.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// The rule, as it was written.
    pub rule: String,
    /// The service, `CLIENT -> SERVER`, or the service and kind of error.
    pub subject: String,
    /// A sentence for people.
    pub text: String,
    /// The figure.
    pub value: f64,
    /// What it must not be beyond, or what it was before.
    pub bound: f64,
}

/// A strong dependency.
#[derive(Debug, Clone, PartialEq)]
pub struct StrongEdge {
    /// What calls, and what is called.
    pub edge: (String, String),
    /// Failures that it is known from.
    pub failures: u64,
    /// How sure it is.
    pub confidence: f64,
}

impl Rule {
    /// What breaks the rule now. `before` are the figures of the time before; without them, nothing
    /// is new and nothing has vanished.
    pub fn broken(&self, written: &str, now: &Figures, before: Option<&Figures>) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let mut alert = |subject: String, text: String, value: f64, bound: f64| {
            if alerts.len() < MOST_ALERTS {
                alerts.push(Alert { rule: written.to_owned(), subject, text, value, bound });
            }
        };
        let is_of =
            |asked: &Option<String>, name: &str| asked.as_ref().is_none_or(|asked| asked == name);
        match self {
            Self::Latency { service, most_nano } => {
                for (name, figures) in &now.services {
                    if is_of(service, name)
                        && figures.requests >= LEAST_REQUESTS
                        && figures.p95_nano > *most_nano
                    {
                        let (p95, most) = (duration(figures.p95_nano), duration(*most_nano));
                        let text = format!(
                            "the 95th percentile of {} requests to {name} is {p95}, above {most}",
                            figures.requests
                        );
                        let seconds = |nano: i64| nano as f64 / 1e9;
                        alert(name.clone(), text, seconds(figures.p95_nano), seconds(*most_nano));
                    }
                }
            }
            Self::Errors { service, most } => {
                for (name, figures) in &now.services {
                    let share = figures.errors as f64 / figures.requests.max(1) as f64;
                    if is_of(service, name)
                        && figures.requests >= LEAST_REQUESTS
                        && surely(share, figures.requests) > *most
                    {
                        let text = format!(
                            "{} of {} requests to {name} failed, above {}",
                            percent(share),
                            figures.requests,
                            percent(*most)
                        );
                        alert(name.clone(), text, share, *most);
                    }
                }
            }
            Self::NewEdge => {
                let Some(before) = before.filter(|before| !before.calls.is_empty()) else {
                    return Vec::new();
                };
                for ((client, server), calls) in &now.calls {
                    let is_new = *calls >= LEAST_NEW
                        && !before.calls.contains_key(&(client.clone(), server.clone()));
                    if is_new {
                        let text = format!(
                            "{client} calls {server} ({calls} times), which it did not before"
                        );
                        alert(edge(client, server), text, *calls as f64, 0.0);
                    }
                }
            }
            Self::VanishedEdge => {
                let Some(before) = before else { return Vec::new() };
                for ((client, server), calls) in &before.calls {
                    if now.calls.contains_key(&(client.clone(), server.clone())) {
                        continue;
                    }
                    let expected = *calls as f64 * load(client, now, before);
                    if expected >= LEAST_EXPECTED {
                        let text = format!(
                            "{client} does not call {server} any more: {expected:.0} calls were \
                             expected"
                        );
                        alert(edge(client, server), text, 0.0, expected);
                    }
                }
            }
            Self::NewError { service } => {
                let Some(before) = before else { return Vec::new() };
                // All that a new service does is new.
                let is_known = |name: &String| {
                    before.services.get(name).is_some_and(|of| of.requests > 0)
                        || before.errors.keys().any(|(service, _)| service == name)
                };
                for ((name, kind), errors) in &now.errors {
                    let is_new = is_of(service, name)
                        && is_known(name)
                        && errors.count >= LEAST_NEW
                        && !before.errors.contains_key(&(name.clone(), kind.clone()));
                    if is_new {
                        let text = format!(
                            "{name} fails with `{kind}` ({} times), which it did not before; for \
                             example in {}",
                            errors.count, errors.operation
                        );
                        alert(format!("{name}: {kind}"), text, errors.count as f64, 0.0);
                    }
                }
            }
            Self::Weak { service } => {
                for strong in &now.strong {
                    let (client, server) = &strong.edge;
                    if server == service
                        && strong.failures >= LEAST_FAILURES
                        && strong.confidence >= LEAST_CONFIDENCE
                    {
                        let text = format!(
                            "{client} does nothing more if {server} fails, which is meant to be \
                             weak: seen in {} failures, {} sure",
                            strong.failures,
                            percent(strong.confidence)
                        );
                        alert(edge(client, server), text, strong.confidence, LEAST_CONFIDENCE);
                    }
                }
            }
            Self::Rate { service, is_above, share } => {
                for (name, forecast) in &now.forecasts {
                    let none = Entrance { per_second: 0.0, seconds: now.seconds };
                    let rate = now.entrances.get(name).copied().unwrap_or(none);
                    if is_of(service, name)
                        && forecast.confidence >= LEAST_FORECAST_CONFIDENCE
                        && is_off(rate.per_second, rate.seconds, forecast, *is_above, *share)
                    {
                        let text = format!(
                            "{name} is entered {:.2} times a second, {} of the {:.2} that are \
                             expected",
                            rate.per_second,
                            percent(rate.per_second / forecast.per_second.max(f64::MIN_POSITIVE)),
                            forecast.per_second
                        );
                        alert(name.clone(), text, rate.per_second, forecast.per_second * share);
                    }
                }
            }
        }
        alerts
    }
}

/// Whether a rate is beyond its bound, beyond what former rates were, and not by chance.
fn is_off(rate: f64, seconds: f64, forecast: &Forecast, is_above: bool, share: f64) -> bool {
    let bound = forecast.per_second * share;
    let (low, high) = forecast.range;
    let expected = bound * seconds;
    let chance = DEVIATIONS * expected.max(1.0).sqrt() / seconds.max(1e-9);
    match is_above {
        true => rate > bound.max(high) + chance && rate * seconds >= LEAST_EXPECTED,
        false => rate < bound.min(low) - chance && forecast.per_second * seconds >= LEAST_EXPECTED,
    }
}

/// How much of the load of the time before a service has now: its own requests, or the length of
/// time where it has none.
fn load(service: &str, now: &Figures, before: &Figures) -> f64 {
    let requests = |figures: &Figures| figures.services.get(service).map(|it| it.requests);
    match (requests(now), requests(before)) {
        (now, Some(before)) if before > 0 => now.unwrap_or(0) as f64 / before as f64,
        _ if before.seconds > 0.0 => now.seconds / before.seconds,
        _ => 0.0,
    }
}

/// What a share is at least, as sure as two standard deviations (Wilson's interval).
fn surely(share: f64, count: u64) -> f64 {
    let (count, z) = (count as f64, DEVIATIONS);
    let middle = share + z * z / (2.0 * count);
    let off = z * (share * (1.0 - share) / count + z * z / (4.0 * count * count)).sqrt();
    (middle - off) / (1.0 + z * z / count)
}

fn edge(client: &str, server: &str) -> String {
    format!("{client} -> {server}")
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if percent >= 10.0 => format!("{percent:.0}%"),
        percent => format!("{percent:.1}%"),
    }
}

fn duration(nano: i64) -> String {
    match nano {
        nano if nano < 1_000_000 => format!("{:.0} µs", nano as f64 / 1e3),
        nano if nano < 1_000_000_000 => format!("{:.1} ms", nano as f64 / 1e6),
        nano => format!("{:.2} s", nano as f64 / 1e9),
    }
}

/// Forecasts by entrance.
pub type Forecasts = BTreeMap<String, Forecast>;
