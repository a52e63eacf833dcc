//! Limits of the receivers.

use std::time::Duration;

use spanwise_wire::flight::FlightLimits;
use spanwise_wire::otap::OtapLimits;
use spanwise_wire::otlp;

/// Limits of the receivers. They apply to the whole process, not to each sender, unless stated
/// otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a request body on the wire.
    pub body_bytes: usize,
    /// Maximum bytes of a decompressed request body.
    pub decompressed_bytes: usize,
    /// Maximum bytes of all requests that are being read, decoded or stored.
    pub in_flight_bytes: usize,
    /// Limits of one request of spans, in any format.
    pub otlp: otlp::Limits,
    /// Limits of one agent's stream.
    pub flight: FlightLimits,
    /// Maximum concurrent streams of agents.
    pub flight_streams: usize,
    /// Limits of one batch of a collector's OTAP stream.
    pub otap: OtapLimits,
    /// Maximum concurrent streams of collectors.
    pub otap_streams: usize,
    /// Maximum batches of one stream that are being decoded or stored. No more are read meanwhile.
    pub otap_batches: usize,
    /// Maximum bytes of dictionaries of one stream. A stream that exceeds it is ended, and its
    /// sender starts a new one.
    pub otap_kept_bytes: usize,
    /// Maximum bytes of dictionaries of all streams.
    pub otap_all_kept_bytes: usize,
    /// Maximum concurrent connections to a port.
    pub connections: usize,
    /// Maximum concurrent connections to a port from one address.
    pub connections_per_address: usize,
    /// Maximum concurrent connections to all ports.
    pub all_connections: usize,
    /// Timeout for a request's header, and for the first request of a connection.
    pub header_time: Duration,
    /// Timeout for a request's body.
    pub body_time: Duration,
    /// Timeout between two requests of a connection.
    pub idle_time: Duration,
    /// Timeout for a peer that does not read its response.
    pub write_time: Duration,
    /// Maximum concurrent streams of agents and collectors from one address.
    pub streams_per_address: usize,
    /// Maximum bytes of memory for the facts that all agents report about themselves,
    /// approximately.
    pub facts_bytes: usize,
    /// Maximum time that shutdown waits for open requests.
    pub drain_time: Duration,
    /// Retry delay that senders are told when memory is short.
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
