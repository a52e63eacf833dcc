//! Errors

use serde::{Deserialize, Serialize};

/// The body of every answer that is an error (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Problem {
    /// Always `about:blank`.
    pub r#type: String,
    /// What is wrong, in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, and what to do about it.
    pub detail: String,
}
