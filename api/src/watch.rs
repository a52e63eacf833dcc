//! `GET /api/v1/watch`

use serde::{Deserialize, Serialize};

use crate::{Count, Nano};

/// The rules that the server watches, and how they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Watch {
    /// The time before the window, which edges and errors are compared with.
    pub before_seconds: f64,
    /// Failures that were not counted for `new-error`, because there are too many kinds of them or
    /// too many at a time.
    pub errors_left_out: Count,
    /// The mean time that an evaluation took.
    pub evaluation_milliseconds: f64,
    /// Evaluations since the start.
    pub evaluations: Count,
    /// How often rules are evaluated.
    pub every_seconds: f64,
    /// The rules, as they are configured.
    pub rules: Vec<WatchRule>,
    /// What limits the answer.
    pub warnings: Vec<String>,
    /// Where alerts are told; null if nowhere.
    pub webhook: Option<Webhook>,
    /// The time that a rule is about, up to now.
    pub window_seconds: f64,
}

/// A rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatchRule {
    /// What breaks it now, the oldest first.
    pub alerts: Vec<WatchAlert>,
    /// The rule, as it was written.
    pub rule: String,
    /// Since when it is in this state.
    pub since_unix_nano: Nano,
    /// How it is.
    pub state: WatchState,
    /// Why it is not evaluated, or until when it learns; null otherwise.
    pub why: Option<String>,
}

/// How a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WatchState {
    /// It holds.
    Holds,
    /// It is broken.
    Broken,
    /// It compares with the time before, of which not enough is known yet.
    Learning,
    /// It cannot be evaluated.
    Unknown,
}

/// What breaks a rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WatchAlert {
    /// What the value must not be beyond, or what was expected.
    pub bound: f64,
    /// Since when.
    pub since_unix_nano: Nano,
    /// The service, `CLIENT -> SERVER`, or the service and kind of error.
    pub subject: String,
    /// A sentence for people.
    pub text: String,
    /// Seconds, a share from 0 to 1, calls, or calls per second.
    pub value: f64,
}

/// Where alerts are told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Webhook {
    /// Alerts that were given up: too many waited, or it did not take them often enough.
    pub dropped: Count,
    /// Requests that failed; each is tried again some times.
    pub failures: Count,
    /// Why the last one failed; null if it did not.
    pub last_error: Option<String>,
    /// Alerts that were told.
    pub told: Count,
    /// Where, without password and query.
    pub url: String,
    /// Alerts that wait.
    pub waiting: Count,
}
