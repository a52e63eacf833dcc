//! `GET /api/v1/bottlenecks` and `/api/v1/capacity`

use serde::{Deserialize, Serialize};

use crate::{Nano, ObservedRuns, OperationName};

/// Where runs spend their time, and what they do too often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bottlenecks {
    /// Callers that make ten or more calls at a time, the most first.
    pub fan_outs: Vec<FanOut>,
    /// What was read for the answer.
    pub observed: ObservedRuns,
    /// Five or more calls of one operation by one caller, one after another ("N+1"), the most
    /// time first.
    pub repeated: Vec<RepeatedCalls>,
    /// Calls that were made again because they failed, the most time first.
    pub retried: Vec<RetriedCalls>,
    /// Calls one after another that could run at the same time: proven ones first, then by the
    /// time that it would save.
    pub sequential: Vec<SequentialCalls>,
    /// Where time is spent, the most time of the critical path first.
    pub shares: Vec<TimeShare>,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// The time of an operation below a caller, in runs of an entrance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TimeShare {
    /// The operation.
    pub called: OperationName,
    /// Its caller; null for the entrance.
    pub caller: Option<OperationName>,
    /// Calls.
    pub calls: u64,
    /// The share, from 0 to 1, of the time of its entrance's runs that is this operation's own time
    /// on the critical path.
    pub critical_share: f64,
    /// The entrance of the runs.
    pub entrance: OperationName,
    /// The mean time of a call in which none of its own calls ran.
    pub mean_self_nano: Nano,
}

/// Many calls of one operation by one caller, one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RepeatedCalls {
    /// The operation that is called again and again.
    pub called: OperationName,
    /// The caller.
    pub caller: OperationName,
    /// How many calls of the caller did so.
    pub callers: u64,
    /// Calls that they made.
    pub calls: u64,
    /// The entrance of the runs.
    pub entrance: OperationName,
    /// A trace with the most.
    pub example_trace: String,
    /// The most of one caller.
    pub most: u64,
    /// The share, from 0 to 1, of the time of its entrance's runs that these calls took.
    pub share: f64,
}

/// Calls that were made again because they failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RetriedCalls {
    /// Failed calls that another attempt followed.
    pub attempts: u64,
    /// The operation that is called again.
    pub called: OperationName,
    /// The caller.
    pub caller: OperationName,
    /// All calls.
    pub calls: u64,
    /// The entrance of the runs.
    pub entrance: OperationName,
    /// A trace with the most attempts.
    pub example_trace: String,
    /// The most attempts of one call.
    pub most: u64,
    /// How often another attempt did not fail.
    pub rescued: u64,
    /// The share, from 0 to 1, of the time of its entrance's runs until the next attempts.
    pub share: f64,
}

/// Many calls at a time by one caller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FanOut {
    /// Who makes them.
    pub caller: OperationName,
    /// How many of its calls did so.
    pub callers: u64,
    /// The entrance of the runs.
    pub entrance: OperationName,
    /// A trace with the most.
    pub example_trace: String,
    /// The most at a time.
    pub most: u64,
}

/// Two calls of one caller, one after another, which could run at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SequentialCalls {
    /// How often the later one was called although the earlier one had failed.
    pub after_failure: u64,
    /// The caller.
    pub caller: OperationName,
    /// The entrance of the runs.
    pub entrance: OperationName,
    /// The trace in which it would save most.
    pub example_trace: String,
    /// The call that is the earlier one, more often.
    pub first: OperationName,
    /// Whether either order was seen, or calls after failures. Otherwise the second call may need
    /// what the first one answers.
    pub proven: bool,
    /// How often they ran in the less frequent order.
    pub reversed: u64,
    /// The share, from 0 to 1, of the time of its entrance's runs that running them at the same
    /// time would save at most.
    pub saved_share: f64,
    /// The other call.
    pub second: OperationName,
    /// How often one began after the end of the other.
    pub times: u64,
}

/// The load that changed rates of entrances would cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Capacity {
    /// The entrances with their rates, most runs first.
    pub entrances: Vec<ScaledEntrance>,
    /// The moment that rates are forecast for; null if that was not asked for.
    pub forecast_unix_nano: Option<Nano>,
    /// What was read for the answer.
    pub observed: ObservedRuns,
    /// Operations; those that are furthest above their peaks first.
    pub operations: Vec<PredictedLoad>,
    /// The length of the intervals of peaks.
    pub peak_seconds: f64,
    /// Services and databases, with all their operations; in the same order.
    pub services: Vec<PredictedLoad>,
    /// How many operations there are; the list may be shorter.
    pub total: u64,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// The rate of an entrance, now and changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScaledEntrance {
    /// By what the rate is multiplied.
    pub factor: f64,
    /// What is forecast for it, before changes; null if nothing is.
    pub forecast: Option<RateForecast>,
    /// Runs per second now.
    pub now_per_second: f64,
    /// The operation.
    pub operation: String,
    /// Runs per second that are assumed.
    pub predicted_per_second: f64,
    /// The service.
    pub service: String,
}

/// The forecast of a rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RateForecast {
    /// How sure it is, from 0 to 1: less from few hours, and from hours that differ.
    pub confidence: f64,
    /// What former rates were rarely above, scaled likewise.
    pub high_per_second: f64,
    /// Former hours that it is made from.
    pub hours: u64,
    /// What former rates were rarely below.
    pub low_per_second: f64,
    /// What it is made from.
    pub method: ForecastMethod,
    /// Runs per second.
    pub per_second: f64,
}

/// What a forecast is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ForecastMethod {
    /// The same hour of three or more former weeks.
    FormerWeeks,
    /// The same hour of three or more former days.
    FormerDays,
    /// The line through the last hours, up to a day of them.
    Trend,
    /// The last hour, because fewer than three are known: a guess.
    AsNow,
}

/// A predicted load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PredictedLoad {
    /// How many calls are busy with work of their own at a time now, in the mean.
    pub busy_now: f64,
    /// The same with the changed rates, if calls take as long as now.
    pub busy_predicted: f64,
    /// The chains that cause most of it, ten at most.
    pub chains: Vec<LoadPart>,
    /// Calls per second now.
    pub now_per_second: f64,
    /// The operation; null for a whole service.
    pub operation: Option<String>,
    /// The highest rate that was observed.
    pub peak_per_second: f64,
    /// The start of the interval with that rate.
    pub peak_unix_nano: Nano,
    /// Calls per second with the changed rates.
    pub predicted_per_second: f64,
    /// The service; the protocol of what was called and not captured.
    pub service: String,
    /// The predicted rate as a part of the peak: above 1 nobody has seen such a load.
    pub to_peak: f64,
}

/// The part of a load that a chain causes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LoadPart {
    /// The chain's id.
    pub id: String,
    /// The entrance's operation.
    pub operation: String,
    /// Calls per second with the changed rates.
    pub predicted_per_second: f64,
    /// The entrance's service.
    pub service: String,
}
