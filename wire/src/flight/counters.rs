//! What a sender did, counted by name.

use serde::Serialize;

/// Counters of one [`super::FlightSender`] since it was spawned; the `queue_*`
/// fields are what waits for acknowledgement now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SenderCounters {
    /// Batches put on a stream, each attempt counted.
    pub batches_sent: u64,
    /// Bytes of them, compressed.
    pub bytes_sent: u64,
    /// Batches that the server said to be durable.
    pub batches_acknowledged: u64,
    /// Spans of them.
    pub spans_acknowledged: u64,
    /// Spans given to the sender.
    pub spans_offered: u64,
    /// Spans dropped because as much as may wait was waiting.
    pub spans_dropped_queue_full: u64,
    /// Spans dropped because the server could not read them.
    pub spans_dropped_rejected: u64,
    /// Spans dropped because they could not be encoded.
    pub spans_dropped_encoding: u64,
    /// Spans given or still waiting when the sender was shut down.
    pub spans_dropped_shutdown: u64,
    /// Facts dropped because they were too long.
    pub facts_dropped_too_long: u64,
    /// Connections made.
    pub connections: u64,
    /// Attempts to connect that failed.
    pub connections_failed: u64,
    /// Streams that broke.
    pub streams_lost: u64,
    /// Times that the server said it had no room.
    pub refusals: u64,
    /// Batches waiting.
    pub queue_batches: u64,
    /// Spans of them.
    pub queue_spans: u64,
    /// Bytes of them, compressed.
    pub queue_bytes: u64,
}

impl SenderCounters {
    /// Spans dropped, for whatever reason.
    pub const fn spans_dropped(&self) -> u64 {
        self.spans_dropped_queue_full
            + self.spans_dropped_rejected
            + self.spans_dropped_encoding
            + self.spans_dropped_shutdown
    }
}
