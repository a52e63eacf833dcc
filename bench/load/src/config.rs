//! What a load shall be like.

use std::ops::RangeInclusive;

use crate::profile::Profile;
use crate::tags::Tags;

/// What a load shall be like.
#[derive(Debug, Clone)]
pub struct LoadConfig {
    /// What it is like.
    pub profile: Profile,
    /// Loads of one seed are equal.
    pub seed: u64,
    /// Number of spans, exactly.
    pub spans: u64,
    /// Spans of a trace.
    pub trace_spans: RangeInclusive<u64>,
    /// Start of the first trace.
    pub start_unix_nano: i64,
    /// The last trace starts before this.
    pub end_unix_nano: i64,
    /// Traces to be kept in [`LoadSummary`](crate::LoadSummary), at most.
    pub known_traces: usize,
    /// Labels beside what there is anyway.
    pub tags: Tags,
    /// Spans of a request.
    pub batch_spans: RangeInclusive<u64>,
}

impl LoadConfig {
    /// An SDK's batch is full at 512, or sent half full after some seconds.
    pub const BATCH_SPANS: RangeInclusive<u64> = 100..=512;
}

/// Why there is no such load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadError {
    /// The end is not after the start.
    Time,
    /// Not one trace is as small as that, or a range of sizes from which this
    /// number of spans cannot be made up.
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
