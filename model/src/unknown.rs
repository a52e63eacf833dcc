//! How spans of the agent say what it did not see. What they say otherwise is then only what is
//! known of it.

/// The attribute that says so of how the span ended.
pub const STATUS: &str = "spanwise.status";
/// The attribute that says so of what was asked for.
pub const OPERATION: &str = "spanwise.operation";
/// Their value.
pub const UNKNOWN: &str = "unknown";
