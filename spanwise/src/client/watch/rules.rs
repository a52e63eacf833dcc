//! Rules, and what of a graph breaks them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use spanwise_api::{Graph, GraphEdge, GraphNode};
use spanwise_query::duration_nano;

use crate::client::graph::percent;
use crate::terminal::{counted, duration};

/// Requests that a share of errors or a percentile must be of.
const LEAST_REQUESTS: u64 = 20;
/// Calls from which on an edge is there, and that it must have had to be missed.
const LEAST_NEW: u64 = 3;
const LEAST_GONE: u64 = 20;

/// The forms of a rule, for messages.
pub(super) const FORMS: &str = "`latency SERVICE > 250ms` (95th percentile), `errors SERVICE > 5%`, \
                                `new-edge` or `vanished-edge`; `*` stands for every service";

/// What must not happen.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Rule {
    /// The 95th percentile of requests to a service.
    Latency { service: Option<String>, most_nano: i64 },
    /// The share of requests to a service that fail.
    Errors { service: Option<String>, most: f64 },
    /// A call between two services that there was none of before.
    NewEdge,
    /// Calls between two services that there are none of any more.
    VanishedEdge,
}

/// A rule that is broken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Alert {
    /// The rule, as it was written.
    pub(super) rule: String,
    /// The service, or `CLIENT -> SERVER`.
    pub(super) subject: String,
    /// A sentence for people.
    pub(super) text: String,
}

impl Rule {
    pub(super) fn read(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let service = |name: &str| (name != "*").then(|| name.to_owned());
        match words[..] {
            ["new-edge"] => Some(Self::NewEdge),
            ["vanished-edge"] => Some(Self::VanishedEdge),
            ["latency", name, ">", most] => {
                let most_nano = duration_nano(most).filter(|nano| *nano > 0)?;
                Some(Self::Latency { service: service(name), most_nano })
            }
            ["errors", name, ">", most] => {
                let percent: f64 = most.strip_suffix('%')?.trim_end().parse().ok()?;
                let is_share = (0.0..100.0).contains(&percent);
                is_share.then(|| Self::Errors { service: service(name), most: percent / 100.0 })
            }
            _ => None,
        }
    }

    /// What breaks the rule now. `before` is the graph of the time before; without one, nothing is
    /// new and nothing has vanished.
    pub(super) fn broken(&self, written: &str, now: &Graph, before: Option<&Graph>) -> Vec<Alert> {
        let alert =
            |subject: String, text: String| Alert { rule: written.to_owned(), subject, text };
        let nodes = |service: &Option<String>| {
            let service = service.clone();
            now.nodes.iter().filter(move |node| {
                service.as_ref().is_none_or(|service| *service == node.name)
                    && node.requests >= LEAST_REQUESTS
            })
        };
        match self {
            Self::Latency { service, most_nano } => nodes(service)
                .filter(|node| node.p95_nano.0 > *most_nano)
                .map(|node| {
                    let text = format!(
                        "the 95th percentile of {} is {}, above {}",
                        node.name,
                        duration(node.p95_nano.0),
                        duration(*most_nano)
                    );
                    alert(node.name.clone(), text)
                })
                .collect(),
            Self::Errors { service, most } => nodes(service)
                .filter(|node| error_share(node) > *most)
                .map(|node| {
                    let text = format!(
                        "{} of {} to {} failed, above {}",
                        percent(error_share(node)),
                        counted(node.requests, "request", "requests"),
                        node.name,
                        percent(*most)
                    );
                    alert(node.name.clone(), text)
                })
                .collect(),
            Self::NewEdge | Self::VanishedEdge => {
                let Some(before) = before.filter(|before| !before.edges.is_empty()) else {
                    return Vec::new();
                };
                let (now, before) = (calls(&now.edges), calls(&before.edges));
                let is_new = *self == Self::NewEdge;
                let (those, others, least) = match is_new {
                    true => (now, before, LEAST_NEW),
                    false => (before, now, LEAST_GONE),
                };
                those
                    .iter()
                    .filter(|(edge, calls)| **calls >= least && !others.contains_key(*edge))
                    .map(|((client, server), _)| {
                        let text = match is_new {
                            true => format!("{client} calls {server}, which it did not before"),
                            false => format!("{client} does not call {server} any more"),
                        };
                        alert(format!("{client} -> {server}"), text)
                    })
                    .collect()
            }
        }
    }

    /// Whether it needs the time before.
    pub(super) const fn compares(&self) -> bool {
        matches!(self, Self::NewEdge | Self::VanishedEdge)
    }
}

fn error_share(node: &GraphNode) -> f64 {
    node.errors as f64 / node.requests.max(1) as f64
}

/// Calls by client and server, over all protocols.
fn calls(edges: &[GraphEdge]) -> BTreeMap<(&str, &str), u64> {
    let mut calls = BTreeMap::new();
    for edge in edges {
        *calls.entry((edge.client.as_str(), edge.server.as_str())).or_default() += edge.requests;
    }
    calls
}

/// Alerts that are on.
#[derive(Debug, Default)]
pub(super) struct Alerts(BTreeSet<Alert>);

impl Alerts {
    /// Those that begin and those that end. One whose text alone has changed goes on.
    pub(super) fn follow(&mut self, now: Vec<Alert>) -> (Vec<Alert>, Vec<Alert>) {
        let key = |alert: &Alert| (alert.rule.clone(), alert.subject.clone());
        let (on, before): (BTreeSet<_>, BTreeSet<_>) =
            (now.iter().map(key).collect(), self.0.iter().map(key).collect());
        let began = now.iter().filter(|alert| !before.contains(&key(alert))).cloned().collect();
        let ended = self.0.iter().filter(|alert| !on.contains(&key(alert))).cloned().collect();
        self.0 = now.into_iter().collect();
        (began, ended)
    }
}

#[cfg(test)]
mod tests {
    use spanwise_api::{Nano, NodeKind};

    use super::*;

    fn graph(edges: &[(&str, &str, u64)], nodes: &[(&str, u64, u64, i64)]) -> Graph {
        let edge = |(client, server, requests): &(&str, &str, u64)| GraphEdge {
            certain_share: 1.0,
            client: (*client).to_owned(),
            error_share: 0.0,
            errors: 0,
            p50_nano: Nano(1),
            p95_nano: Nano(1),
            p99_nano: Nano(1),
            protocol: "http".to_owned(),
            requests: *requests,
            requests_per_second: 1.0,
            server: (*server).to_owned(),
        };
        let node = |(name, requests, errors, p95): &(&str, u64, u64, i64)| GraphNode {
            errors: *errors,
            kind: NodeKind::Service,
            name: (*name).to_owned(),
            p50_nano: Nano(1),
            p95_nano: Nano(*p95),
            protocols: Vec::new(),
            requests: *requests,
            system: None,
        };
        Graph {
            edges: edges.iter().map(edge).collect(),
            nodes: nodes.iter().map(node).collect(),
            warnings: Vec::new(),
            window_seconds: 60.0,
        }
    }

    fn subjects(rule: &str, now: &Graph, before: Option<&Graph>) -> Vec<String> {
        let broken = Rule::read(rule).expect("a rule").broken(rule, now, before);
        broken.into_iter().map(|alert| alert.subject).collect()
    }

    #[test]
    fn rules_are_broken_by_what_they_say() {
        let ms = 1_000_000;
        let now = graph(
            &[("web", "cart", 50), ("web", "ads", 9)],
            &[("cart", 100, 7, 300 * ms), ("web", 100, 1, 10 * ms), ("rare", 3, 3, 900 * ms)],
        );
        let before = graph(&[("web", "cart", 500), ("web", "stock", 80)], &[]);
        assert_eq!(subjects("latency cart > 250ms", &now, None), ["cart"]);
        assert_eq!(subjects("latency * > 5ms", &now, None), ["cart", "web"]);
        assert!(subjects("latency cart > 1s", &now, None).is_empty());
        assert_eq!(subjects("errors * > 5%", &now, None), ["cart"]);
        assert_eq!(subjects("new-edge", &now, Some(&before)), ["web -> ads"]);
        assert_eq!(subjects("vanished-edge", &now, Some(&before)), ["web -> stock"]);
        assert!(subjects("new-edge", &now, None).is_empty(), "nothing is known of before");
        assert!(subjects("new-edge", &now, Some(&graph(&[], &[]))).is_empty());
        for wrong in
            ["", "latency cart", "latency cart > 0ms", "errors cart > 5", "errors a > 200%"]
        {
            assert_eq!(Rule::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_alert_begins_once_and_ends_once() {
        let alert = |text: &str| Alert {
            rule: "r".to_owned(),
            subject: "s".to_owned(),
            text: text.to_owned(),
        };
        let mut alerts = Alerts::default();
        assert_eq!(alerts.follow(vec![alert("a")]), (vec![alert("a")], Vec::new()));
        assert_eq!(alerts.follow(vec![alert("b")]), (Vec::new(), Vec::new()));
        assert_eq!(alerts.follow(Vec::new()), (Vec::new(), vec![alert("b")]));
        assert_eq!(alerts.follow(Vec::new()), (Vec::new(), Vec::new()));
    }
}
