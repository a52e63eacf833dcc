//! `GET /api/v1/graph`

use serde::{Deserialize, Serialize};

use crate::Nano;

/// The service graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Graph {
    /// Who calls whom.
    pub edges: Vec<GraphEdge>,
    /// Services, databases, brokers and what else is called.
    pub nodes: Vec<GraphNode>,
    /// What limits the answer.
    pub warnings: Vec<String>,
    /// The length of time that rates are computed over.
    pub window_seconds: f64,
}

/// Calls from one node to another by one protocol. Messages go from the producer to the
/// broker, and from the broker to the consumer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GraphEdge {
    /// The share, from 0 to 1, of calls whose link to the other side is certain.
    pub certain_share: f64,
    /// The calling node.
    pub client: String,
    /// The share, from 0 to 1, of calls that failed.
    pub error_share: f64,
    /// Calls that failed.
    pub errors: u64,
    /// What kernels saw of the connections; missing if no kernel saw any of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<EdgeNetwork>,
    /// The median duration.
    pub p50_nano: Nano,
    /// The 95th percentile of durations.
    pub p95_nano: Nano,
    /// The 99th percentile of durations.
    pub p99_nano: Nano,
    /// The protocol; empty if it is unknown.
    pub protocol: String,
    /// Calls.
    pub requests: u64,
    /// Calls per second.
    pub requests_per_second: f64,
    /// The called node.
    pub server: String,
}

/// What kernels saw of the connections of calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EdgeNetwork {
    /// Calls whose connections a kernel saw. Of others nothing is known.
    pub calls: u64,
    /// The 95th percentile of the time that it took to open a connection, if any was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_p95_nano: Option<Nano>,
    /// Calls that opened their connections.
    pub connects: u64,
    /// The slowest calls of which something was sent again. Only with `service` and `steps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<ResentCall>,
    /// Calls of which at least one segment was sent again, by either side.
    pub resent_calls: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// The median of the connections' smoothed round trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_p50_nano: Option<Nano>,
    /// The same over time. Only with `service` and `steps`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<NetworkStep>,
}

/// What kernels saw of the connections of the calls that started in a step of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct NetworkStep {
    /// Calls whose connections a kernel saw.
    pub calls: u64,
    /// The 95th percentile of the time that it took to open a connection, if any was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_p95_nano: Option<Nano>,
    /// Calls of which at least one segment was sent again.
    pub resent_calls: u64,
    /// Segments that were sent again.
    pub retransmits: u64,
    /// The median of the connections' smoothed round trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_p50_nano: Option<Nano>,
    /// When the step begins.
    pub start_unix_nano: Nano,
}

/// A call of which something was sent again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ResentCall {
    /// How long it took.
    pub duration_nano: Nano,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// The calling span. `GET /traces/{id}` takes it, too.
    pub span_id: String,
    /// When it started.
    pub start_unix_nano: Nano,
}

/// Something that calls or is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GraphNode {
    /// Requests that failed.
    pub errors: u64,
    /// What it is.
    pub kind: NodeKind,
    /// The service's name; `PROTOCOL ADDRESS:PORT` for a node that was not captured itself.
    pub name: String,
    /// The median duration of requests.
    pub p50_nano: Nano,
    /// The 95th percentile of durations.
    pub p95_nano: Nano,
    /// Protocols by which it was called.
    pub protocols: Vec<String>,
    /// Requests that it received.
    pub requests: u64,
    /// OpenTelemetry's name of a database, cache or broker: `mysql`, `kafka`.
    pub system: Option<String>,
}

/// What a node of the graph is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    /// A program that serves requests.
    Service,
    /// A database.
    Database,
    /// A cache.
    Cache,
    /// A message broker.
    Broker,
    /// Anything else that was called and not captured.
    External,
}
