//! `GET /api/v1/search`

use serde::{Deserialize, Serialize};
use spanwise_model::{Capture, Kind};

use crate::{CoveredRange, Nano, Range};

/// Traces that were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SearchAnswer {
    /// Why nothing was found, and what to do.
    pub advice: Vec<String>,
    /// The range that the order holds for.
    pub covered: CoveredRange,
    /// The `cursor` of the next page; null if there is none, and in other orders than
    /// `newest`.
    pub next_cursor: Option<String>,
    /// The `end` with which the search for older traces continues; null if there are none,
    /// and in other orders than `newest`.
    pub older_end_unix_nano: Option<Nano>,
    /// The range that was searched.
    pub searched: Range,
    /// The order of the traces.
    pub sort: Sort,
    /// The traces.
    pub traces: Vec<TraceSummary>,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// A line of an answer in lines (`Accept: application/x-ndjson`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SearchLine {
    /// A trace that was found.
    Trace(Box<TraceSummary>),
    /// What follows the traces. An answer without it was broken off.
    End(SearchEnd),
}

/// What follows the traces of an answer in lines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SearchEnd {
    /// Why nothing was found, and what to do.
    pub advice: Vec<String>,
    /// The range that was searched for these traces.
    pub covered: CoveredRange,
    /// The `cursor` with which the search continues; null if there are no more traces.
    pub next_cursor: Option<String>,
    /// The traces before this line.
    pub traces: u64,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// An order of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// The latest start first.
    #[default]
    Newest,
    /// The longest duration first.
    Slowest,
    /// Most failed spans first.
    Errors,
    /// Most spans first.
    Largest,
}

/// A trace of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TraceSummary {
    /// Whether the parent of every span is present.
    pub complete: bool,
    /// Whether a link is unsure enough for a warning: its confidence is below 0.8, or a
    /// span could belong to several requests.
    pub doubtful: bool,
    /// From the earliest start to the latest end.
    pub duration_nano: Nano,
    /// The failure that is nearest to the cause; null if nothing failed.
    pub error: Option<TraceError>,
    /// Spans that failed.
    pub errors: u64,
    /// Protocols, by name.
    pub protocols: Vec<String>,
    /// The first root.
    pub root: Option<RootSpan>,
    /// Services, the busiest first.
    pub services: Vec<ServiceShare>,
    /// Its spans.
    pub spans: u64,
    /// The earliest start.
    pub start_unix_nano: Nano,
    /// Whether a span failed.
    pub status: Outcome,
    /// The trace's id.
    pub trace_id: String,
    /// Links that are not certain.
    pub uncertain_links: u64,
}

/// Whether a span of a trace failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// No span failed.
    Ok,
    /// A span failed.
    Error,
}

/// The root of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RootSpan {
    /// Where it was captured.
    #[cfg_attr(test, schemars(with = "crate::vocabulary::Capture"))]
    pub capture: Capture,
    /// Its kind.
    #[cfg_attr(test, schemars(with = "crate::vocabulary::SpanKind"))]
    pub kind: Kind,
    /// Its name.
    pub operation: String,
    /// Its service.
    pub service: String,
}

/// The part of a service in a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ServiceShare {
    /// The time of its spans that no child of them covers.
    pub busy_nano: Nano,
    /// Its spans that failed.
    pub errors: u64,
    /// The service.
    pub name: String,
    /// Its spans.
    pub spans: u64,
}

/// The deepest failed span of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TraceError {
    /// The span's name.
    pub operation: String,
    /// The service of the span. For an answer that only the caller treats as a failure, such
    /// as HTTP's 404, it is the service that gave the answer.
    pub service: String,
    /// The side of the exchange that the span is on.
    pub side: Option<ErrorSide>,
    /// The protocol's status code.
    pub status_code: Option<i32>,
    /// The error's text.
    pub text: Option<String>,
}

/// A side of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ErrorSide {
    /// It made the request.
    Client,
    /// It answered the request.
    Server,
}
