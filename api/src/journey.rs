//! `GET /api/v1/journey`

use serde::{Deserialize, Serialize};

use crate::Nano;

/// What happened for one business key: a logical chain, over services and traces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Journey {
    /// Time in which some step ran.
    pub busy_nano: Nano,
    /// All spans from here on were read; the start of the range if none are missing.
    pub covered_from_unix_nano: Nano,
    /// The end of the range that was asked for.
    pub end_unix_nano: Nano,
    /// Long times without steps.
    pub gaps: Vec<JourneyGap>,
    /// How the key went from one service to another without a call that is waited for.
    pub hand_offs: Vec<JourneyHandOff>,
    /// Whether keys of this name are hashed. `value` is then the hash.
    pub hashed: bool,
    /// The key's name.
    pub key: String,
    /// Names of keys that are configured, or that spans of this time have.
    pub known_keys: Vec<String>,
    /// Spans with the key that were read.
    pub spans: u64,
    /// The start of the range that was asked for.
    pub start_unix_nano: Nano,
    /// What services did for the key, by time.
    pub steps: Vec<JourneyStep>,
    /// How many steps there are; the list may be shorter.
    pub total_steps: u64,
    /// How many traces there are; the list may be shorter.
    pub total_traces: u64,
    /// The traces, in the order in which they first have the key.
    pub traces: Vec<JourneyTrace>,
    /// The value, as it is stored.
    pub value: String,
    /// What limits the answer.
    pub warnings: Vec<String>,
}

/// What one service did for a key in one go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JourneyStep {
    /// 1, or more if steps before it of the same service and operation failed and this one does it
    /// again.
    pub attempt: u64,
    /// The length of the first span.
    pub duration_nano: Nano,
    /// The error of the first span.
    pub error: Option<String>,
    /// Whether the first span failed.
    pub failed: bool,
    /// Whether it began with a message.
    pub is_message: bool,
    /// The operation of the first span.
    pub operation: String,
    /// The service.
    pub service: String,
    /// The first span.
    pub span_id: String,
    /// Spans with the key.
    pub spans: u64,
    /// The start of the first span.
    pub start_unix_nano: Nano,
    /// The protocol's own status code, such as that of HTTP.
    pub status_code: Option<i32>,
    /// The trace.
    pub trace_id: String,
}

/// A long time without steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JourneyGap {
    /// The place in `steps`, from 0, of the step after which it begins: the one that ended last.
    pub after: u64,
    /// The place of the step that ends it.
    pub before: u64,
    /// Its length.
    pub duration_nano: Nano,
}

/// The key goes from one service to another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JourneyHandOff {
    /// From the start of the one to the start of the other.
    pub duration_nano: Nano,
    /// How it is known.
    pub evidence: JourneyEvidence,
    /// The place in `steps`, from 0, of the step that came before.
    pub from: u64,
    /// The place of the step that goes on.
    pub to: u64,
}

/// How a hand-off is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JourneyEvidence {
    /// The two are linked: one received the message that the other sent, or says so itself.
    Link,
    /// It goes on with a message, within the same trace.
    Message,
    /// It goes on with a message. That the step before has sent it is a guess.
    MessageInTime,
    /// It only follows in time, which is a guess.
    Time,
}

/// A trace with the key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JourneyTrace {
    /// From its first start to its last end.
    pub duration_nano: Nano,
    /// Spans that failed.
    pub errors: u64,
    /// The operation of its root; null if that is missing.
    pub operation: Option<String>,
    /// The service of its root.
    pub service: Option<String>,
    /// All services in it, busiest first.
    pub services: Vec<String>,
    /// All spans, with the key or without.
    pub spans: u64,
    /// Its first start.
    pub start_unix_nano: Nano,
    /// Steps in it.
    pub steps: u64,
    /// Its id.
    pub trace_id: String,
}
