//! What native programs record: spans, logs and metrics, and what was lost of them.

/// A span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Trace id.
    pub trace_id: u128,
    /// Span id.
    pub span_id: u64,
    /// The parent's id, or zero.
    pub parent_id: u64,
    /// Call site.
    pub site: u16,
    /// Kind, if it is not the site's.
    pub kind: u8,
    /// Status code.
    pub status: u8,
    /// W3C trace flags.
    pub trace_flags: u8,
    /// Whether the parent is in another process or thread.
    pub remote_parent: bool,
    /// Whether it had not ended.
    pub open: bool,
    /// Unix time in nanoseconds.
    pub start_ns: u64,
    /// Unix time in nanoseconds; of an open span, the last time that is known of its thread.
    pub end_ns: u64,
    /// Where its attributes, events and links are in `Piece::extras`.
    pub extras: (u32, u32),
}

/// A log record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// Unix time in nanoseconds.
    pub time_ns: u64,
    /// OpenTelemetry's severity number.
    pub severity: u8,
    /// Trace id, or zero.
    pub trace_id: u128,
    /// Span id, or zero.
    pub span_id: u64,
    /// Attributes in the ring's form.
    pub attributes: Vec<u64>,
}

/// A point of a metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricPoint {
    /// Instrument.
    pub instrument: u16,
    /// Unix time in nanoseconds.
    pub time_ns: u64,
    /// Start of the sum.
    pub start_ns: u64,
    /// What follows in the record.
    pub words: Vec<u64>,
}

/// A record of a detached span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detached {
    /// Begin or end.
    Span(Span),
    /// Attributes of a span.
    Attributes(u64, Vec<u64>),
}

/// What became of a ring's spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Complete spans that were read.
    pub read: u64,
    /// Spans that had not ended.
    pub open: u64,
    /// Overwritten, or in segments that were deleted.
    pub overwritten: u64,
    /// In blocks that are damaged or missing.
    pub damaged: u64,
    /// Not started, because the ring was full.
    pub dropped_full: u64,
    /// Not started, because 64 were open.
    pub dropped_depth: u64,
    /// Made by a signal handler in the middle of a record.
    pub dropped_signal: u64,
    /// Ends without room.
    pub dropped_ends: u64,
    /// Attributes, events, links, logs and metrics without room.
    pub dropped_extras: u64,
    /// Spans ended twice, or by another thread.
    pub misused: u64,
}
