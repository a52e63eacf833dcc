//! Counters of a sender.

use serde::Serialize;

/// Counters of one [`super::FlightSender`] since its start. The `queue_*` fields are what currently
/// waits for acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SenderCounters {
    /// Batches sent, including each retry.
    pub batches_sent: u64,
    /// Compressed bytes of sent batches.
    pub bytes_sent: u64,
    /// Batches that the server acknowledged as durable.
    pub batches_acknowledged: u64,
    /// Spans of acknowledged batches.
    pub spans_acknowledged: u64,
    /// Spans passed to the sender.
    pub spans_offered: u64,
    /// Spans dropped because the queue was full.
    pub spans_dropped_queue_full: u64,
    /// Spans dropped because the server could not read them.
    pub spans_dropped_rejected: u64,
    /// Spans dropped because they could not be encoded.
    pub spans_dropped_encoding: u64,
    /// Spans that were passed during shutdown or still waited at its end.
    pub spans_dropped_shutdown: u64,
    /// Facts dropped because they were too long.
    pub facts_dropped_too_long: u64,
    /// Connections opened.
    pub connections: u64,
    /// Failed attempts to connect.
    pub connections_failed: u64,
    /// Streams that broke.
    pub streams_lost: u64,
    /// Number of times that the server was full.
    pub refusals: u64,
    /// Batches in the queue.
    pub queue_batches: u64,
    /// Spans in the queue.
    pub queue_spans: u64,
    /// Compressed bytes in the queue.
    pub queue_bytes: u64,
}

impl SenderCounters {
    /// Spans dropped for any reason.
    pub const fn spans_dropped(&self) -> u64 {
        self.spans_dropped_queue_full
            + self.spans_dropped_rejected
            + self.spans_dropped_encoding
            + self.spans_dropped_shutdown
    }
}
