//! Connections and requests, whatever is spoken on them: ports and their bounds, bodies,
//! gRPC's framing, answers, and why a request is refused.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod failure;
pub(crate) mod kernel_drops;
pub(crate) mod messages;
pub(crate) mod plain;
pub(crate) mod ports;
pub(crate) mod refusals;
pub(crate) mod stream_limit;
pub(crate) mod unary;
mod warnings;

use std::sync::Arc;

use tokio::sync::watch;

use crate::counters::Counters;
use crate::limits::Limits;
use budget::Budget;
use ports::{Allowed, House};
use warnings::WarningLimit;

/// What all ports and all requests share.
pub(crate) struct Transport {
    pub(crate) limits: Limits,
    pub(crate) allowed: Allowed,
    /// Connections at all ports.
    pub(crate) house: Arc<House>,
    pub(crate) counters: Arc<Counters>,
    /// Bytes of requests that are being read, decoded or stored.
    pub(crate) budget: Budget,
    /// Set once: long-lived streams shall end.
    pub(crate) closing: watch::Sender<bool>,
    /// Where spans are received, as a sentence for those who send them to another port.
    pub(crate) spans_elsewhere: String,
    warnings: WarningLimit,
}

impl Transport {
    pub(crate) fn new(
        limits: Limits,
        allowed: Allowed,
        counters: Arc<Counters>,
        spans_elsewhere: String,
    ) -> Self {
        Self {
            house: Arc::new(House::new(limits.all_connections)),
            budget: Budget::new(limits.in_flight_bytes),
            closing: watch::Sender::new(false),
            warnings: WarningLimit::default(),
            limits,
            allowed,
            counters,
            spans_elsewhere,
        }
    }
}

/// Waits until long-lived streams shall end.
pub(crate) async fn shutting_down(closing: &mut watch::Receiver<bool>) {
    // An error says that the receivers are gone, which comes to the same.
    let _ = closing.wait_for(|closing| *closing).await;
}
