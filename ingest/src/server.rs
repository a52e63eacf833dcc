//! The receivers put together.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::thread::available_parallelism;

use arrow_flight::flight_service_server::FlightServiceServer;
use axum::Router;
use serde::Serialize;
use spanwise_wire::flight::Templates;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tonic::service::Routes;

use crate::agents::{AgentStatus, Agents};
use crate::budget::Budget;
use crate::counters::Counters;
use crate::flight::Flight;
use crate::limits::Limits;
use crate::marking::Marking;
use crate::places::Places;
use crate::ports::{Allowed, House, Speaks};
use crate::sink::Sink;
use crate::sparse::Sparse;
use crate::together::Gathering;
use crate::{ThriftProtocol, grpc, http, jaeger_grpc, jaeger_http, jaeger_udp, ports, zipkin};

/// The receivers. Clones are handles to the same ones.
#[derive(Clone)]
pub struct Ingest {
    shared: Arc<Shared>,
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) limits: Limits,
    pub(crate) allowed: Allowed,
    /// Connections at all ports.
    pub(crate) house: Arc<House>,
    /// What of refusals is logged.
    pub(crate) sparse: Sparse,
    pub(crate) counters: Arc<Counters>,
    pub(crate) agents: Agents,
    pub(crate) budget: Budget,
    /// Requests decoded at a time.
    pub(crate) decoders: Semaphore,
    pub(crate) gathering: Gathering,
    /// Agents' streams.
    pub(crate) flight_streams: Places,
    /// What the attributes of their spans have in common.
    pub(crate) templates: Arc<Templates>,
    /// Collectors' streams.
    pub(crate) otap_streams: Places,
    /// What collectors' streams keep between their batches.
    pub(crate) otap_kept: Budget,
    /// Set once: long-lived streams shall end.
    pub(crate) closing: watch::Sender<bool>,
}

/// Waits until long-lived streams shall end.
pub(crate) async fn shutting_down(closing: &mut watch::Receiver<bool>) {
    // An error says that the receivers are gone, which comes to the same.
    let _ = closing.wait_for(|closing| *closing).await;
}

/// A port that could not be served.
#[derive(Debug, thiserror::Error)]
#[error("the port cannot be served: {0}")]
pub struct IngestError(#[from] std::io::Error);

/// What the receivers did and hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IngestStatus {
    /// Everything counted since the start, by name.
    pub counters: BTreeMap<String, u64>,
    /// Bytes of requests that are being read, decoded or stored.
    pub in_flight_bytes: usize,
    /// Connections open now, at all ports.
    pub connections: usize,
    /// Agents' streams open now.
    pub flight_streams: usize,
    /// Collectors' OTAP streams open now.
    pub otap_streams: usize,
    /// Bytes of dictionaries that these streams keep.
    pub otap_kept_bytes: usize,
    /// Agents that sent something, the last seen first.
    pub agents: Vec<AgentStatus>,
}

impl Ingest {
    /// Receivers that hand batches to `sink`, and take none from web pages.
    pub fn new(sink: Arc<dyn Sink>, limits: Limits) -> Self {
        Self::with(sink, limits, Allowed::default())
    }

    /// As [`Self::new`], where more may ask.
    pub fn with(sink: Arc<dyn Sink>, limits: Limits, allowed: Allowed) -> Self {
        let processors = available_parallelism().map_or(2, Into::into);
        let counters = Arc::new(Counters::new());
        Self {
            shared: Arc::new(Shared {
                sink: Arc::new(Marking::new(sink, Arc::clone(&counters))),
                limits,
                allowed,
                house: Arc::new(House::new(limits.all_connections)),
                sparse: Sparse::default(),
                agents: Agents::new(limits.facts_bytes, Arc::clone(&counters)),
                counters,
                budget: Budget::new(limits.in_flight_bytes),
                decoders: Semaphore::new(processors),
                gathering: Gathering::default(),
                flight_streams: Places::new(limits.flight_streams, limits.streams_per_address),
                templates: Arc::default(),
                otap_streams: Places::new(limits.otap_streams, limits.streams_per_address),
                otap_kept: Budget::new(limits.otap_all_kept_bytes),
                closing: watch::Sender::new(false),
            }),
        }
    }

    /// OTLP over HTTP: `/v1/traces` and its siblings, to be served by
    /// [`Self::serve_http`] or mounted elsewhere.
    pub fn http_router(&self) -> Router {
        http::router(Arc::clone(&self.shared))
    }

    /// Serves OTLP and OTAP over gRPC and Arrow Flight on one listener until `shutdown`
    /// comes; then streams are ended and open requests waited for
    /// ([`Limits::drain_time`]).
    ///
    /// # Errors
    /// Where the receiver stops by itself.
    pub async fn serve_grpc(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let flight = FlightServiceServer::new(Flight { shared: Arc::clone(&self.shared) })
            // A body of the limit, its header and metadata.
            .max_decoding_message_size(self.shared.limits.flight.message_bytes + (1 << 20));
        let routes = Routes::from(grpc::router(Arc::clone(&self.shared))).add_service(flight);
        let routes = routes.into_axum_router();
        self.serve("OTLP over gRPC", routes, listener, shutdown).await
    }

    /// Serves OTLP over HTTP (1.1 and 2) until `shutdown` comes; then open
    /// requests are waited for ([`Limits::drain_time`]).
    ///
    /// # Errors
    /// Where the receiver stops by itself.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        self.serve("OTLP over HTTP", self.http_router(), listener, shutdown).await
    }

    /// Serves Zipkin's collector over HTTP until `shutdown` comes; then open
    /// requests are waited for ([`Limits::drain_time`]).
    ///
    /// # Errors
    /// Where the receiver stops by itself.
    pub async fn serve_zipkin(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let routes = zipkin::router(Arc::clone(&self.shared));
        self.serve("Zipkin", routes, listener, shutdown).await
    }

    /// Serves Jaeger's collector over gRPC; otherwise as [`Self::serve_zipkin`].
    ///
    /// # Errors
    /// Where the receiver stops by itself.
    pub async fn serve_jaeger_grpc(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let routes = jaeger_grpc::router(Arc::clone(&self.shared));
        self.serve("Jaeger over gRPC", routes, listener, shutdown).await
    }

    /// Serves Jaeger's collector over HTTP; otherwise as [`Self::serve_zipkin`].
    ///
    /// # Errors
    /// Where the receiver stops by itself.
    pub async fn serve_jaeger_http(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let routes = jaeger_http::router(Arc::clone(&self.shared));
        self.serve("Jaeger over HTTP", routes, listener, shutdown).await
    }

    /// Takes what Jaeger's clients send to their agent's UDP port, until
    /// `shutdown` comes; what waits then is still handed over
    /// ([`Limits::drain_time`]).
    pub async fn serve_jaeger_udp(
        &self,
        socket: UdpSocket,
        protocol: ThriftProtocol,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) {
        jaeger_udp::serve(Arc::clone(&self.shared), socket, protocol, shutdown).await;
    }

    async fn serve(
        &self,
        name: &'static str,
        router: Router,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let shared = Arc::clone(&self.shared);
        Ok(ports::serve(name, Speaks::Spans, shared, listener, router, shutdown).await?)
    }

    /// Serves the UI and the API by HTTP/1.1, with the same bounds on connections and times, and
    /// counted with them.
    ///
    /// # Errors
    /// Where the listener has no address.
    pub async fn serve_api(
        &self,
        listener: TcpListener,
        router: Router,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let shared = Arc::clone(&self.shared);
        Ok(ports::serve("UI and API", Speaks::Pages, shared, listener, router, shutdown).await?)
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
