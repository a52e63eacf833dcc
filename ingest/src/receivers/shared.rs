//! State that all receivers share.

use std::ops::Deref;
use std::sync::Arc;
use std::thread::available_parallelism;

use spanwise_wire::flight::Templates;
use tokio::sync::Semaphore;

use super::flight::agents::Agents;
use super::jvm_settings::JvmSettings;
use super::otlp::coalesce::Gathering;
use super::{Receiver, ReceiverAddresses};
use crate::sink::Sink;
use crate::transport::Transport;
use crate::transport::budget::Budget;
use crate::transport::stream_limit::StreamLimit;

/// State that all receivers share, besides that of all ports.
pub(crate) struct Shared {
    pub(crate) transport: Arc<Transport>,
    pub(crate) sink: Arc<dyn Sink>,
    /// Addresses of the receivers, for clients that use the wrong one.
    addresses: ReceiverAddresses,
    /// Limits the number of requests that are decoded concurrently.
    pub(crate) decoders: Semaphore,
    pub(crate) gathering: Gathering,
    pub(crate) agents: Agents,
    /// Limit of agents' streams.
    pub(crate) flight_streams: StreamLimit,
    /// Attribute templates of agents' spans.
    pub(crate) templates: Arc<Templates>,
    /// Limit of collectors' streams.
    pub(crate) otap_streams: StreamLimit,
    /// Memory for what collectors' streams keep between batches.
    pub(crate) otap_kept: Budget,
    /// What JVM agents are told.
    pub(crate) jvm_settings: JvmSettings,
}

impl Deref for Shared {
    type Target = Transport;

    fn deref(&self) -> &Transport {
        &self.transport
    }
}

impl Shared {
    pub(crate) fn new(
        transport: Arc<Transport>,
        sink: Arc<dyn Sink>,
        addresses: ReceiverAddresses,
        jvm_settings: JvmSettings,
    ) -> Self {
        let limits = &transport.limits;
        let processors = available_parallelism().map_or(2, Into::into);
        Self {
            sink,
            addresses,
            decoders: Semaphore::new(processors),
            gathering: Gathering::default(),
            agents: Agents::new(limits.facts_bytes, Arc::clone(&transport.counters)),
            flight_streams: StreamLimit::new(limits.flight_streams, limits.streams_per_address),
            templates: Arc::default(),
            otap_streams: StreamLimit::new(limits.otap_streams, limits.streams_per_address),
            otap_kept: Budget::new(limits.otap_all_kept_bytes),
            jvm_settings,
            transport,
        }
    }

    /// A sentence with the receiver's address.
    pub(crate) fn where_is(&self, receiver: &Receiver) -> String {
        self.addresses.where_is(receiver)
    }
}
