//! `GET /api/v1/traces/{id}`

use serde::{Deserialize, Serialize};

use crate::{Nano, ServiceShare, Span};

/// A page of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TracePage {
    /// What is known of the whole trace, and where the page is in it.
    #[serde(flatten)]
    pub head: TraceHead,
    /// The spans of the page, in depth-first order.
    pub spans: Vec<Span>,
}

/// Everything of a page but its spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TraceHead {
    /// The trace's id.
    pub trace_id: String,
    /// The earliest start.
    pub start_unix_nano: Nano,
    /// From the earliest start to the latest end.
    pub duration_nano: Nano,
    /// Ids of the spans of this page that have no parent.
    pub roots: Vec<String>,
    /// Services of the whole trace, the busiest first.
    pub services: Vec<ServiceShare>,
    /// How far the clocks of the trace's hosts differ.
    pub clocks: Vec<ClockDifference>,
    /// What is wrong with the trace, or limits the answer.
    pub warnings: Vec<String>,
    /// Spans of the whole trace.
    pub span_count: u64,
    /// Failed spans of the whole trace.
    pub error_count: u64,
    /// Levels of the whole trace.
    pub depth: u64,
    /// Whether the parent of every span is present.
    pub complete: bool,
    /// The position of the page's first span in the depth-first order.
    pub first: u64,
    /// The `after` of the next page; null on the last page.
    pub next_after: Option<u64>,
    /// Identifies the spans that the page is of; to be sent with the next page's `after`.
    pub snapshot: String,
}

/// How far a host's clock is ahead of another's, computed from the calls between them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClockDifference {
    /// The difference; negative if the host's clock is behind.
    pub ahead_nano: Nano,
    /// Calls that were compared.
    pub exchanges: u64,
    /// The host.
    pub host: String,
    /// Whether the difference is large enough to show in the trace.
    pub notable: bool,
    /// The host that it is compared with.
    pub reference: String,
    /// The most that the difference can be wrong by.
    pub uncertainty_nano: Nano,
}
