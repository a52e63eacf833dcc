//! `GET /api/v1/chains`, `/chains/{id}`, `/depends`, `/entrances` and `/sources`

use serde::{Deserialize, Serialize};

use crate::Nano;

/// Chains: runs of one entrance with nearly the same calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChainList {
    /// The chains, most runs first.
    pub chains: Vec<ChainSummary>,
    /// What was read for the answer.
    pub observed: ObservedRuns,
    /// How many chains there are; the list may be shorter.
    pub total: u64,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// The runs that an answer is about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ObservedRuns {
    /// The share, from 0 to 1, of these runs that were counted in rollups. The others were read
    /// from spans.
    pub covered_by_rollups: f64,
    /// All runs from here on were read; the start of the range if none are missing.
    pub covered_from_unix_nano: Nano,
    /// The end of the range that was asked for.
    pub end_unix_nano: Nano,
    /// Runs that are counted.
    pub runs: u64,
    /// Runs that are not counted because their shapes are too rare and too many.
    pub runs_folded: u64,
    /// Traces that are not counted because parents are missing or doubtful, or because they are
    /// too deep or have too many different paths.
    pub runs_left_out: u64,
    /// Spans that were read. Runs in rollups need none.
    pub spans: u64,
    /// The start of the range that was asked for. A long range that begins in a rollup begins with
    /// that rollup.
    pub start_unix_nano: Nano,
    /// The length of time that rates are computed over: from the first run on.
    pub window_seconds: f64,
}

/// A chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChainSummary {
    /// The share, from 0 to 1, of runs whose entrance failed.
    pub error_share: f64,
    /// Runs whose entrance failed.
    pub errors: u64,
    /// The slowest failed run, as the id of its trace.
    pub failed_trace: Option<String>,
    /// Start of the first run.
    pub first_unix_nano: Nano,
    /// Its id: that of the shape with most runs. Any shape's id finds the chain.
    pub id: String,
    /// Start of the last run.
    pub last_unix_nano: Nano,
    /// The entrance's operation.
    pub operation: String,
    /// The median duration of runs.
    pub p50_nano: Nano,
    /// The 95th percentile of durations.
    pub p95_nano: Nano,
    /// The 99th percentile of durations.
    pub p99_nano: Nano,
    /// Different paths from the entrance to a call.
    pub paths: u64,
    /// Runs.
    pub runs: u64,
    /// Runs per second.
    pub runs_per_second: f64,
    /// The entrance's service.
    pub service: String,
    /// Different services that are called, with the entrance's.
    pub services: u64,
    /// How many shapes are merged in it.
    pub shapes: u64,
    /// The share, from 0 to 1, of all runs.
    pub share: f64,
    /// The slowest run, as the id of its trace.
    pub slow_trace: String,
    /// A run that did not fail and took about as long as the median, as the id of its trace.
    pub typical_trace: Option<String>,
}

/// A chain with its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChainPage {
    /// Its calls, in depth-first order, those with most calls first.
    pub calls: Vec<ChainCall>,
    /// The chain.
    pub chain: ChainSummary,
    /// What was read for the answer.
    pub observed: ObservedRuns,
    /// How many different paths there are; the list of calls may be shorter.
    pub total: u64,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// Calls of a chain by one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChainCall {
    /// Calls in all runs.
    pub calls: u64,
    /// Whether the rest of the run depends on it.
    pub chain_dependency: DependencyVerdict,
    /// CR: how often a run calls it.
    pub cr: f64,
    /// Whether its caller depends on it.
    pub dependency: DependencyVerdict,
    /// DR: how often its caller calls it, for each call of that caller; 1 for the entrance.
    pub dr: f64,
    /// Calls that failed.
    pub errors: u64,
    /// 0 for the entrance.
    pub level: u64,
    /// LR: its share, from 0 to 1, of the chain's response time.
    pub lr: f64,
    /// The mean time of a call in which none of its own calls ran.
    pub mean_self_nano: Nano,
    /// The called operation.
    pub operation: String,
    /// The share, from 0 to 1, of runs with such a call.
    pub present_share: f64,
    /// The called service; the protocol of what was called and not captured.
    pub service: String,
}

/// Whether a caller depends on a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DependencyVerdict {
    /// How sure the verdict is, from 0.5 to 1; 0 if it is unknown.
    pub confidence: f64,
    /// Failures that were observed, without those that were retried.
    pub failures: u64,
    /// The share, from 0 to 1, of these failures after which nothing that would follow was called.
    pub stopped_share: f64,
    /// The verdict.
    pub verdict: Dependency,
}

/// How a caller depends on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Dependency {
    /// If it fails, nothing that would follow is called.
    Strong,
    /// If it fails, some or all of what would follow is called.
    Weak,
    /// There are too few failures, or they do not agree.
    Unknown,
}

/// Which calls are strong and weak dependencies, over all chains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Dependencies {
    /// The edges, most failures first.
    pub edges: Vec<DependencyEdge>,
    /// What was read for the answer.
    pub observed: ObservedRuns,
    /// How many edges there are; the list may be shorter.
    pub total: u64,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// Calls from one operation to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DependencyEdge {
    /// What is called.
    pub called: OperationName,
    /// What calls it.
    pub caller: OperationName,
    /// Calls.
    pub calls: u64,
    /// Whether the caller depends on it.
    pub dependency: DependencyVerdict,
    /// Calls that failed.
    pub errors: u64,
}

/// An operation of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OperationName {
    /// The operation.
    pub operation: String,
    /// The service; the protocol of what was called and not captured.
    pub service: String,
}

/// Where load comes in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entrances {
    /// The entrances, most runs first.
    pub entrances: Vec<Entrance>,
    /// What was read for the answer.
    pub observed: ObservedRuns,
    /// What was read of the period before, which is as long.
    pub observed_before: ObservedRuns,
    /// How many entrances there are; the list may be shorter.
    pub total: u64,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// The first call of runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entrance {
    /// Calls for each run, with that of the entrance.
    pub calls_per_run: f64,
    /// Chains that begin with it.
    pub chains: u64,
    /// The share, from 0 to 1, of runs that failed.
    pub error_share: f64,
    /// Runs that failed.
    pub errors: u64,
    /// The operation.
    pub operation: String,
    /// The median duration of runs.
    pub p50_nano: Nano,
    /// The 95th percentile of durations.
    pub p95_nano: Nano,
    /// The 99th percentile of durations.
    pub p99_nano: Nano,
    /// Runs.
    pub runs: u64,
    /// Runs per second.
    pub runs_per_second: f64,
    /// Runs per second in the period before.
    pub runs_per_second_before: f64,
    /// The service.
    pub service: String,
    /// The change of the rate against the period before: 0.5 is half as many more; null if there
    /// was no run before.
    pub trend: Option<f64>,
}

/// Where the calls of a service or operation come from, and where they lead to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sources {
    /// What it calls, at any distance, the nearest first.
    pub called: Vec<Relation>,
    /// What calls it, at any distance, the nearest first.
    pub callers: Vec<Relation>,
    /// Its calls.
    pub calls: u64,
    /// Its calls per second.
    pub calls_per_second: f64,
    /// The chains that call it, those with most of its calls first.
    pub chains: Vec<SourceChain>,
    /// Its calls that failed.
    pub errors: u64,
    /// What was read for the answer.
    pub observed: ObservedRuns,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// An operation above or below another one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Relation {
    /// Of a caller: calls of the operation that it causes. Of a called one: its calls that the
    /// operation causes.
    pub calls: u64,
    /// The same for each second.
    pub calls_per_second: f64,
    /// The least number of calls between them: 1 for a direct caller.
    pub distance: u64,
    /// The operation.
    pub operation: String,
    /// The service.
    pub service: String,
}

/// A chain that calls an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SourceChain {
    /// Calls of the operation.
    pub calls: u64,
    /// How often a run calls it.
    pub cr: f64,
    /// The chain's id.
    pub id: String,
    /// The entrance's operation.
    pub operation: String,
    /// Runs of the chain.
    pub runs: u64,
    /// The entrance's service.
    pub service: String,
    /// The share, from 0 to 1, of all calls of the operation.
    pub share: f64,
}
