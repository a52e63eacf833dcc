//! All receivers together.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use serde::Serialize;
use spanwise_keys::KeyRules;
use tokio::net::{TcpListener, UdpSocket};

use crate::counters::Counters;
use crate::limits::Limits;
use crate::marking::Marking;
use crate::receivers::flight::agents::AgentStatus;
use crate::receivers::jvm_settings::JvmSettings;
use crate::receivers::shared::Shared;
use crate::receivers::{
    RECEIVERS, Receiver, ReceiverAddresses, Service, serve_datagrams, storage_writer,
};
use crate::sink::Sink;
use crate::transport::Transport;
use crate::transport::ports::{self, Allowed, Speaks};

/// The receivers. Clones share their state.
#[derive(Clone)]
pub struct Ingest {
    shared: Arc<Shared>,
}

/// A socket on which a receiver is served.
#[derive(Debug)]
pub enum Socket {
    /// For connections.
    Tcp(TcpListener),
    /// For datagrams.
    Udp(UdpSocket),
}

/// Why a port could not be served.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// Accepting connections failed.
    #[error("the port cannot be served: {0}")]
    Io(#[from] std::io::Error),
    /// The receiver uses datagrams and the socket connections, or the reverse.
    #[error("{0} cannot be served on a port of the other transport")]
    WrongTransport(&'static str),
}

/// The state and the counters of the receivers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IngestStatus {
    /// All counters since the start, by name.
    pub counters: BTreeMap<String, u64>,
    /// Bytes of requests that are being read, decoded or stored.
    pub in_flight_bytes: usize,
    /// Open connections to all ports.
    pub connections: usize,
    /// Open streams of agents.
    pub flight_streams: usize,
    /// Open OTAP streams of collectors.
    pub otap_streams: usize,
    /// Bytes of these streams' dictionaries.
    pub otap_kept_bytes: usize,
    /// Agents that have sent something, the most recently active first.
    pub agents: Vec<AgentStatus>,
}

impl Ingest {
    /// Receivers that pass batches to `sink` and accept none from web pages.
    pub fn new(sink: Arc<dyn Sink>, limits: Limits) -> Self {
        Self::with(
            sink,
            limits,
            Allowed::default(),
            ReceiverAddresses::default(),
            None,
            Arc::default(),
        )
    }

    /// Like [`Self::new`], with additional allowed hosts and origins, and with addresses for
    /// clients that use the wrong port. `jvm_settings` is the file of
    /// what JVM agents are told. `keys` are the rules of business keys.
    pub fn with(
        sink: Arc<dyn Sink>,
        limits: Limits,
        allowed: Allowed,
        addresses: ReceiverAddresses,
        jvm_settings: Option<PathBuf>,
        keys: Arc<KeyRules>,
    ) -> Self {
        let names = RECEIVERS.map(|receiver| receiver.counters.concat()).concat();
        let counters = Arc::new(Counters::new(&names));
        let sink = Arc::new(Marking::new(sink, Arc::clone(&counters), keys));
        let transport = Transport::new(limits, allowed, counters, addresses.where_otlp_is());
        Self {
            shared: Arc::new(Shared::new(
                Arc::new(transport),
                sink,
                addresses,
                JvmSettings::new(jvm_settings),
            )),
        }
    }

    /// The HTTP router of a receiver, for use elsewhere; `None` if it receives datagrams.
    pub fn router(&self, receiver: &Receiver) -> Option<Router> {
        match receiver.service {
            Service::Http(router) => Some(router(Arc::clone(&self.shared))),
            Service::Datagrams(_) => None,
        }
    }

    /// Serves a receiver until `shutdown` completes. Then it ends streams, and waits for open
    /// requests and for spans that wait for the store ([`Limits::drain_time`]).
    ///
    /// # Errors
    /// If the receiver stops by itself, or the socket has the wrong transport.
    pub async fn serve(
        &self,
        receiver: &'static Receiver,
        socket: Socket,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        self.serve_beside(receiver, socket, Router::new(), shutdown).await
    }

    /// As [`Self::serve`], where the port answers to other routes, too: clients ask some systems
    /// where they send their spans.
    ///
    /// # Errors
    /// As [`Self::serve`].
    pub async fn serve_beside(
        &self,
        receiver: &'static Receiver,
        socket: Socket,
        beside: Router,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let shared = Arc::clone(&self.shared);
        match (receiver.service, socket) {
            (Service::Http(router), Socket::Tcp(listener)) => {
                let transport = Arc::clone(&shared.transport);
                let (name, routes) = (receiver.title, router(shared).merge(beside));
                ports::serve(name, Speaks::Spans, transport, listener, routes, shutdown).await?;
            }
            (Service::Datagrams(protocol), Socket::Udp(socket)) => {
                serve_datagrams(shared, socket, protocol, shutdown).await;
            }
            _ => return Err(IngestError::WrongTransport(receiver.title)),
        }
        Ok(())
    }

    /// Serves the UI and the API over HTTP/1.1, with the same limits and counters for connections.
    ///
    /// # Errors
    /// If the listener has no address.
    pub async fn serve_api(
        &self,
        listener: TcpListener,
        router: Router,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let transport = Arc::clone(&self.shared.transport);
        Ok(ports::serve("UI and API", Speaks::Pages, transport, listener, router, shutdown).await?)
    }

    /// Serves questions by HTTP and gRPC, likewise. Spans are taken there, too, as a program does
    /// that writes to what it reads from ([`Self::storage_writer`]).
    ///
    /// # Errors
    /// Where the listener has no address.
    pub async fn serve_queries(
        &self,
        name: &'static str,
        listener: TcpListener,
        router: Router,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let transport = Arc::clone(&self.shared.transport);
        Ok(ports::serve(name, Speaks::Queries, transport, listener, router, shutdown).await?)
    }

    /// What a Jaeger writes to its remote storage by, in both versions.
    pub fn storage_writer(&self) -> Router {
        storage_writer(Arc::clone(&self.shared))
    }

    /// What was received, refused and lost so far.
    pub fn status(&self) -> IngestStatus {
        IngestStatus {
            counters: self.shared.counters.snapshot(),
            in_flight_bytes: self.shared.budget.used(),
            connections: self.shared.house.open(),
            flight_streams: self.shared.flight_streams.open(),
            otap_streams: self.shared.otap_streams.open(),
            otap_kept_bytes: self.shared.otap_kept.used(),
            agents: self.shared.agents.snapshot(),
        }
    }
}
