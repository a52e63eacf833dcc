//! Connections and requests of all protocols: ports and their limits, bodies, gRPC framing,
//! responses and errors.

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

/// State that all ports and requests share.
pub(crate) struct Transport {
    pub(crate) limits: Limits,
    pub(crate) allowed: Allowed,
    /// The connections of all ports.
    pub(crate) house: Arc<House>,
    pub(crate) counters: Arc<Counters>,
    /// Memory of requests that are being read, decoded or stored.
    pub(crate) budget: Budget,
    /// Set once, when long-lived streams must end.
    pub(crate) closing: watch::Sender<bool>,
    /// A sentence with the addresses for spans, for senders that use another port.
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

/// Waits until long-lived streams must end.
pub(crate) async fn shutting_down(closing: &mut watch::Receiver<bool>) {
    // An error means that the receivers are gone, which has the same effect.
    let _ = closing.wait_for(|closing| *closing).await;
}
