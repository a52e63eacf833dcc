//! Ranges of time.

use serde::{Deserialize, Serialize};

use crate::Nano;

/// Start times from `start_unix_nano` up to, not including, `end_unix_nano`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Range {
    /// The end.
    pub end_unix_nano: Nano,
    /// The start.
    pub start_unix_nano: Nano,
}

/// The range that an answer holds for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CoveredRange {
    /// Whether everything in this range was examined. It is false where the search reached
    /// one of its limits.
    pub complete: bool,
    /// The end.
    pub end_unix_nano: Nano,
    /// The start.
    pub start_unix_nano: Nano,
}
