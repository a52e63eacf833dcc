//! What the receivers take at most.

use std::time::Duration;

use spanwise_wire::flight::FlightLimits;
use spanwise_wire::otap::OtapLimits;
use spanwise_wire::otlp;

/// Limits of the receivers. All are per process, not per sender, unless said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request body as it comes.
    pub body_bytes: usize,
    /// Bytes of one request body when decompressed.
    pub decompressed_bytes: usize,
    /// Bytes of all requests that are being read, decoded or stored.
    pub in_flight_bytes: usize,
    /// What one request of spans may hold, whichever its format.
    pub otlp: otlp::Limits,
    /// What one agent's stream may send.
    pub flight: FlightLimits,
    /// Agents' streams at a time.
    pub flight_streams: usize,
    /// What one batch of a collector's OTAP stream may hold.
    pub otap: OtapLimits,
    /// Collectors' streams at a time.
    pub otap_streams: usize,
    /// Batches of one stream that are being decoded or stored; no more are read.
    pub otap_batches: usize,
    /// Bytes of dictionaries that one stream may keep; one that keeps more is
    /// ended, and begins anew.
    pub otap_kept_bytes: usize,
    /// The same of all streams.
    pub otap_all_kept_bytes: usize,
    /// Connections at a time, per port.
    pub connections: usize,
    /// Connections at a time from one address, per port.
    pub connections_per_address: usize,
    /// Connections at a time, at all ports.
    pub all_connections: usize,
    /// Longest time for a request's header to arrive, and for the first request to come.
    pub header_time: Duration,
    /// Longest time for a request's body to arrive.
    pub body_time: Duration,
    /// Longest time between two requests of a connection.
    pub idle_time: Duration,
    /// Longest time in which a peer reads nothing of its answer.
    pub write_time: Duration,
    /// Agents' and collectors' streams at a time from one address.
    pub streams_per_address: usize,
    /// What all agents may tell of themselves, in bytes of memory, about.
    pub facts_bytes: usize,
    /// Longest time that open requests are waited for when shutting down.
    pub drain_time: Duration,
    /// What a sender is told to wait when memory is short.
    pub retry_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            decompressed_bytes: 64 << 20,
            in_flight_bytes: 512 << 20,
            otlp: otlp::Limits::default(),
            flight: FlightLimits::default(),
            flight_streams: 256,
            otap: OtapLimits::default(),
            otap_streams: 256,
            otap_batches: 8,
            otap_kept_bytes: 64 << 20,
            otap_all_kept_bytes: 256 << 20,
            connections: 1024,
            connections_per_address: 512,
            all_connections: 6144,
            header_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(300),
            write_time: Duration::from_secs(30),
            streams_per_address: 64,
            facts_bytes: 16 << 20,
            drain_time: Duration::from_secs(3),
            retry_after: Duration::from_secs(1),
        }
    }
}
