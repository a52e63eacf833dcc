//! The receivers put together.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use axum::Router;
use serde::Serialize;
use spanwise_wire::flight::Templates;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tonic::service::Routes;
use tonic::transport::Server;

use crate::agents::{AgentStatus, Agents};
use crate::budget::Budget;
use crate::connections;
use crate::counters::Counters;
use crate::flight::Flight;
use crate::limits::Limits;
use crate::marking::Marking;
use crate::places::Places;
use crate::sink::Sink;
use crate::together::Gathering;
use crate::{ThriftProtocol, grpc, http, jaeger_grpc, jaeger_http, jaeger_udp, zipkin};

/// The receivers. Clones are handles to the same ones.
#[derive(Clone)]
pub struct Ingest {
    shared: Arc<Shared>,
}

/// What all requests share.
pub(crate) struct Shared {
    pub(crate) sink: Arc<dyn Sink>,
    pub(crate) limits: Limits,
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

/// A receiver that stopped by itself.
#[derive(Debug, thiserror::Error)]
#[error("the receiver stopped: {0}")]
pub struct IngestError(#[from] tonic::transport::Error);

/// What the receivers did and hold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IngestStatus {
    /// Everything counted since the start, by name.
    pub counters: BTreeMap<String, u64>,
    /// Bytes of requests that are being read, decoded or stored.
    pub in_flight_bytes: usize,
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
    /// Receivers that hand batches to `sink`.
    pub fn new(sink: Arc<dyn Sink>, limits: Limits) -> Self {
        let processors = available_parallelism().map_or(2, Into::into);
        let counters = Arc::new(Counters::new());
        Self {
            shared: Arc::new(Shared {
                sink: Arc::new(Marking::new(sink, Arc::clone(&counters))),
                limits,
                counters,
                agents: Agents::default(),
                budget: Budget::new(limits.in_flight_bytes),
                decoders: Semaphore::new(processors),
                gathering: Gathering::default(),
                flight_streams: Places::new(limits.flight_streams),
                templates: Arc::default(),
                otap_streams: Places::new(limits.otap_streams),
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
        self.serve(Server::builder(), routes, listener, shutdown).await
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
        let routes = Routes::from(self.http_router());
        self.serve(Server::builder().accept_http1(true), routes, listener, shutdown).await
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
        let routes = Routes::from(zipkin::router(Arc::clone(&self.shared)));
        self.serve(Server::builder().accept_http1(true), routes, listener, shutdown).await
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
        let routes = Routes::from(jaeger_grpc::router(Arc::clone(&self.shared)));
        self.serve(Server::builder(), routes, listener, shutdown).await
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
        let routes = Routes::from(jaeger_http::router(Arc::clone(&self.shared)));
        self.serve(Server::builder().accept_http1(true), routes, listener, shutdown).await
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
        server: Server,
        routes: Routes,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), IngestError> {
        let drain_time = self.shared.limits.drain_time;
        let mut closing = self.shared.closing.subscribe();
        let late = async {
            // The sender lives as long as `self`.
            let _ = closing.wait_for(|closing| *closing).await;
            tokio::time::sleep(drain_time).await;
        };
        let shared = Arc::clone(&self.shared);
        let shutdown = async move {
            shutdown.await;
            shared.closing.send_replace(true);
        };
        let serving = server
            // A sender that vanished without a word is noticed.
            .http2_keepalive_interval(Some(Duration::from_secs(20)))
            .http2_keepalive_timeout(Some(Duration::from_secs(10)))
            .max_concurrent_streams(128)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .add_routes(routes)
            .serve_with_incoming_shutdown(
                connections::accept(listener, Arc::clone(&self.shared)),
                shutdown,
            );
        tokio::select! {
            result = serving => Ok(result?),
            () = late => Ok(()),
        }
    }

    /// What was received, refused and lost so far.
    pub fn status(&self) -> IngestStatus {
        IngestStatus {
            counters: self.shared.counters.snapshot(),
            in_flight_bytes: self.shared.budget.used(),
            flight_streams: self.shared.flight_streams.open(),
            otap_streams: self.shared.otap_streams.open(),
            otap_kept_bytes: self.shared.otap_kept.used(),
            agents: self.shared.agents.snapshot(),
        }
    }
}
