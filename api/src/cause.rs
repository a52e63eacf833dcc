//! `GET /api/v1/cause`

use serde::{Deserialize, Serialize};

use crate::{Nano, Range};

/// Who is suspected of having made a range of time unlike the time before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Causes {
    /// What began or ended with the range: calls, versions, services.
    pub changes: Vec<CauseChange>,
    /// Whether the range was found, because none was given.
    pub found: bool,
    /// The range that is explained.
    pub range: Range,
    /// Spans of the range that were compared.
    pub spans: u64,
    /// Whether a suspect stands out. If none does, nothing is known to be wrong.
    pub stands_out: bool,
    /// The answer in one or two sentences.
    pub summary: String,
    /// Suspects, the most suspected first.
    pub suspects: Vec<CauseSuspect>,
    /// From the first to the last of the usual ranges; null if there are none.
    pub usual_range: Option<Range>,
    /// How many usual ranges it was compared with.
    pub usual_ranges: u64,
    /// Spans of the usual ranges.
    pub usual_spans: u64,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// A service that is suspected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CauseSuspect {
    /// Values of attributes that slow or failed spans have, and others do not.
    pub attributes: Vec<CauseAttribute>,
    /// Traces that show it, the worst first.
    pub bad_traces: Vec<CauseTrace>,
    /// About when it began; null if that is not known.
    pub began_unix_nano: Option<Nano>,
    /// Services that call it.
    pub callers: Vec<String>,
    /// What speaks against it, the strongest first.
    pub evidence: Vec<CauseEvidence>,
    /// The operation that the strongest evidence is of; null if it is of no single one.
    pub operation: Option<String>,
    /// The hosts, pods or processes where it is seen.
    pub places: Vec<String>,
    /// The share of what is unusual that it explains; more than 1 if it explains it in several
    /// ways.
    pub score: f64,
    /// The service.
    pub service: String,
    /// Whether it stands out.
    pub stands_out: bool,
    /// Traces of the usual ranges, to compare with.
    pub usual_traces: Vec<CauseTrace>,
}

/// Evidence against a suspect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CauseEvidence {
    /// What it is of.
    pub kind: CauseKind,
    /// A sentence for people.
    pub text: String,
    /// The usual value.
    pub usual: f64,
    /// Milliseconds, calls for each run, or the share from 0 to 1 that failed or had retransmits.
    pub value: f64,
}

/// What evidence is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CauseKind {
    /// Time that an operation itself took.
    OwnTime,
    /// Time between a caller and the service that answers.
    TimeBetween,
    /// Calls for each run of an operation.
    Calls,
    /// Failures that no failed call explains.
    Errors,
    /// Calls between two services that had retransmits.
    Retransmits,
}

/// A value of an attribute that separates bad spans from good ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CauseAttribute {
    /// The share, from 0 to 1, of bad spans that have it.
    pub bad_share: f64,
    /// The share, from 0 to 1, of good spans that have it.
    pub good_share: f64,
    /// The attribute.
    pub key: String,
    /// The value.
    pub value: String,
}

/// An example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CauseTrace {
    /// What it shows, such as `210 ms`.
    pub shows: String,
    /// The start of the span that shows it.
    pub start_unix_nano: Nano,
    /// The trace's id.
    pub trace_id: String,
}

/// Something that began or ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CauseChange {
    /// The service that changed.
    pub service: String,
    /// When it was first seen; null for what ended.
    pub since_unix_nano: Option<Nano>,
    /// A sentence for people.
    pub text: String,
}
