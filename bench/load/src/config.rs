//! Configuration of a load.

use std::ops::RangeInclusive;

use crate::profile::Profile;
use crate::tags::Tags;

/// Configuration of a load.
#[derive(Debug, Clone)]
pub struct LoadConfig {
    /// The profile.
    pub profile: Profile,
    /// Loads with the same seed are equal.
    pub seed: u64,
    /// Exact number of spans.
    pub spans: u64,
    /// Number of spans in a trace.
    pub trace_spans: RangeInclusive<u64>,
    /// Start of the first trace.
    pub start_unix_nano: i64,
    /// The last trace starts before this.
    pub end_unix_nano: i64,
    /// Maximum traces in [`LoadSummary`](crate::LoadSummary).
    pub known_traces: usize,
    /// Additional labels.
    pub tags: Tags,
    /// Number of spans in a request.
    pub batch_spans: RangeInclusive<u64>,
}

impl LoadConfig {
    /// An SDK sends a batch when it has 512 spans, or after some seconds.
    pub const BATCH_SPANS: RangeInclusive<u64> = 100..=512;
}

/// Why the configuration is invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// The end is not after the start.
    Time,
    /// Even one trace is larger, or no combination of trace sizes gives this number of spans.
    Spans,
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Time => "the time of a load must end after it starts",
            Self::Spans => {
                "no whole number of traces makes this many spans; ask for more spans, or allow \
                 smaller traces, of 2 spans at least"
            }
        })
    }
}

impl std::error::Error for LoadError {}
