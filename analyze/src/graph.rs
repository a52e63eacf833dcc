//! The service graph: who calls whom, how often, how well and how fast.

use std::collections::{BTreeMap, BTreeSet};

use ahash::AHashMap;
use spanwise_model::{Capture, Evidence, Kind, SpanId, protocol};

use crate::quantile::quantile;

/// What the graph needs of a span.
#[derive(Debug, Clone)]
pub struct Call {
    /// `span_id`.
    pub span_id: SpanId,
    /// `assembled_parent`.
    pub parent: Option<SpanId>,
    /// `service`.
    pub service: String,
    /// `kind`.
    pub kind: Kind,
    /// `capture`.
    pub capture: Capture,
    /// `protocol`.
    pub protocol: Option<String>,
    /// Whether `status` is an error.
    pub error: bool,
    /// `duration_nano`.
    pub duration_nano: i64,
    /// `confidence`.
    pub confidence: Option<f32>,
    /// `server_address:server_port`, where known.
    pub server: Option<String>,
}

/// A service graph.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// Its nodes, by name.
    pub nodes: Vec<GraphNode>,
    /// Its edges, by names and protocol.
    pub edges: Vec<GraphEdge>,
}

/// Something that is called, or calls.
#[derive(Debug, Clone)]
pub struct GraphNode {
    /// The service, or `PROTOCOL ADDRESS:PORT` of what was not seen itself.
    pub name: String,
    /// `service`, `database`, `cache` or `external`.
    pub kind: &'static str,
    /// Protocols that it was called by.
    pub protocols: Vec<String>,
    /// What was asked of it.
    pub figures: Figures,
}

/// Calls from one node to another by one protocol.
#[derive(Debug, Clone)]
pub struct GraphEdge {
    /// Who calls.
    pub client: String,
    /// Who is called.
    pub server: String,
    /// By which protocol; empty where unknown.
    pub protocol: String,
    /// How it went, as the caller saw it.
    pub figures: Figures,
    /// Calls whose link to the other side is certain, as a share.
    pub certain_share: f64,
}

/// Rate, errors and durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Requests.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// Median duration.
    pub p50_nano: i64,
    /// 95th percentile.
    pub p95_nano: i64,
    /// 99th percentile.
    pub p99_nano: i64,
}

#[derive(Default)]
struct Tally {
    durations: Vec<i64>,
    errors: u64,
    certain: u64,
}

impl Tally {
    fn count(&mut self, call: &Call, certain: bool) {
        self.durations.push(call.duration_nano);
        self.errors += u64::from(call.error);
        self.certain += u64::from(certain);
    }

    fn figures(&mut self) -> Figures {
        self.durations.sort_unstable();
        Figures {
            requests: self.durations.len() as u64,
            errors: self.errors,
            p50_nano: quantile(&self.durations, 0.5),
            p95_nano: quantile(&self.durations, 0.95),
            p99_nano: quantile(&self.durations, 0.99),
        }
    }
}

impl Graph {
    /// The graph of these spans. A call counts once: where the kernel saw an
    /// SDK's call, the kernel's view of it counts.
    pub fn of(calls: &[Call]) -> Self {
        let by_id: AHashMap<SpanId, usize> =
            calls.iter().enumerate().map(|(i, call)| (call.span_id, i)).collect();
        let mut children: AHashMap<usize, Vec<usize>> = AHashMap::new();
        for (i, call) in calls.iter().enumerate() {
            if let Some(&parent) = call.parent.and_then(|parent| by_id.get(&parent)) {
                children.entry(parent).or_default().push(i);
            }
        }
        let child_of = |i: usize, capture: Capture| {
            let found = children.get(&i)?.iter().find(|&&child| calls[child].capture == capture);
            found.map(|&child| &calls[child])
        };
        let mut nodes: BTreeMap<String, (Tally, BTreeSet<String>, bool)> = BTreeMap::new();
        let mut edges: BTreeMap<(String, String, String), Tally> = BTreeMap::new();
        for (i, call) in calls.iter().enumerate() {
            let protocol = call.protocol.clone().unwrap_or_default();
            if counts_as_served(call, &by_id, calls) {
                let (tally, protocols, seen) = nodes.entry(call.service.clone()).or_default();
                tally.count(call, true);
                protocols.extend(call.protocol.clone());
                *seen = true;
            }
            let calls_out = call.kind == Kind::Client
                && !(call.capture == Capture::App && child_of(i, Capture::ClientProcess).is_some());
            if !calls_out {
                continue;
            }
            nodes.entry(call.service.clone()).or_default().2 = true;
            let callee = child_of(i, Capture::ServerProcess).or_else(|| {
                child_of(i, Capture::App).filter(|child| child.service != call.service)
            });
            let (server, certain) = match callee {
                Some(callee) => {
                    (callee.service.clone(), callee.confidence >= Some(Evidence::CERTAIN))
                }
                None => {
                    let place = call.server.clone().unwrap_or_else(|| "unknown".to_owned());
                    let name = format!("{protocol} {place}").trim().to_owned();
                    let (tally, protocols, _) = nodes.entry(name.clone()).or_default();
                    tally.count(call, false);
                    protocols.extend(call.protocol.clone());
                    (name, false)
                }
            };
            edges.entry((call.service.clone(), server, protocol)).or_default().count(call, certain);
        }
        Self {
            nodes: nodes
                .into_iter()
                .map(|(name, (mut tally, protocols, seen))| GraphNode {
                    kind: node_kind(&protocols, seen),
                    name,
                    protocols: protocols.into_iter().collect(),
                    figures: tally.figures(),
                })
                .collect(),
            edges: edges
                .into_iter()
                .map(|((client, server, protocol), mut tally)| GraphEdge {
                    client,
                    server,
                    protocol,
                    certain_share: tally.certain as f64 / tally.durations.len().max(1) as f64,
                    figures: tally.figures(),
                })
                .collect(),
        }
    }
}

/// A request that the service answered: seen by the kernel, or by an SDK where
/// the kernel did not see it.
fn counts_as_served(call: &Call, by_id: &AHashMap<SpanId, usize>, calls: &[Call]) -> bool {
    match call.capture {
        Capture::ServerProcess => true,
        Capture::App if call.kind == Kind::Server => {
            let parent = call.parent.and_then(|parent| by_id.get(&parent)).map(|&i| &calls[i]);
            parent.is_none_or(|parent| parent.capture != Capture::ServerProcess)
        }
        _ => false,
    }
}

fn node_kind(protocols: &BTreeSet<String>, seen: bool) -> &'static str {
    if protocols.contains(protocol::POSTGRESQL) {
        "database"
    } else if protocols.contains(protocol::REDIS) {
        "cache"
    } else if seen {
        "service"
    } else {
        "external"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: u64, parent: Option<u64>, service: &str, capture: Capture, kind: Kind) -> Call {
        Call {
            span_id: SpanId::from_u64(id).expect("not zero"),
            parent: parent.and_then(SpanId::from_u64),
            service: service.into(),
            kind,
            capture,
            protocol: Some(protocol::HTTP.into()),
            error: false,
            duration_nano: 10,
            confidence: Some(1.0),
            server: Some("10.0.0.1:80".into()),
        }
    }

    #[test]
    fn a_call_seen_three_ways_is_one_edge() {
        let graph = Graph::of(&[
            call(1, None, "a", Capture::App, Kind::Client),
            call(2, Some(1), "a", Capture::ClientProcess, Kind::Client),
            call(3, Some(2), "b", Capture::ServerProcess, Kind::Server),
            call(4, Some(3), "b", Capture::App, Kind::Server),
        ]);
        assert_eq!(graph.edges.len(), 1);
        let edge = &graph.edges[0];
        assert_eq!((edge.client.as_str(), edge.server.as_str()), ("a", "b"));
        assert_eq!((edge.figures.requests, edge.certain_share), (1, 1.0));
        let b = graph.nodes.iter().find(|node| node.name == "b").expect("a node");
        assert_eq!(b.figures.requests, 1);
    }

    #[test]
    fn what_was_not_seen_itself_is_named_by_its_address() {
        let mut query = call(1, None, "a", Capture::ClientProcess, Kind::Client);
        query.protocol = Some(protocol::POSTGRESQL.into());
        query.error = true;
        let graph = Graph::of(&[query]);
        let node = graph.nodes.iter().find(|node| node.name != "a").expect("the database");
        assert_eq!((node.name.as_str(), node.kind), ("postgresql 10.0.0.1:80", "database"));
        assert_eq!((node.figures.errors, graph.edges[0].certain_share), (1, 0.0));
    }
}
