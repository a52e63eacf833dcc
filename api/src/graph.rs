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
