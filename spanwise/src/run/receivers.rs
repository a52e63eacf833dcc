//! A task for every listener that takes spans.

use std::fmt::Display;
use std::future::Future;

use anyhow::Context as _;
use spanwise_ingest::{Ingest, ThriftProtocol};
use tokio::net::UdpSocket;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::listen::Receivers;
use crate::failure::Failure;

/// Serves them all, on these threads, until `stopping`.
pub(super) fn spawn(
    tasks: &mut JoinSet<Result<(), Failure>>,
    threads: &Handle,
    ingest: &Ingest,
    receivers: Receivers,
    stopping: &CancellationToken,
) {
    let stopped = || stopping.clone().cancelled_owned();
    macro_rules! serve {
        ($listener:expr, $serve:ident, $what:literal) => {
            if let Some(listener) = $listener {
                let (ingest, stop) = (ingest.clone(), stopped());
                let serving = async move { ingest.$serve(listener, stop).await };
                tasks.spawn_on(named($what, serving), threads);
            }
        };
    }
    serve!(Some(receivers.otlp_grpc), serve_grpc, "gRPC");
    serve!(Some(receivers.otlp_http), serve_http, "OTLP over HTTP");
    serve!(receivers.zipkin, serve_zipkin, "Zipkin");
    serve!(receivers.jaeger_grpc, serve_jaeger_grpc, "Jaeger over gRPC");
    serve!(receivers.jaeger_http, serve_jaeger_http, "Jaeger over HTTP");
    let mut serve_udp = |socket: Option<UdpSocket>, protocol| {
        if let Some(socket) = socket {
            let (ingest, stop) = (ingest.clone(), stopped());
            let serving = async move {
                ingest.serve_jaeger_udp(socket, protocol, stop).await;
                Ok(())
            };
            tasks.spawn_on(serving, threads);
        }
    };
    serve_udp(receivers.jaeger_udp_compact, ThriftProtocol::Compact);
    serve_udp(receivers.jaeger_udp_binary, ThriftProtocol::Binary);
}

/// A receiver's end, with its name where it failed.
async fn named<E>(
    what: impl Display + Send + Sync + 'static,
    serving: impl Future<Output = Result<(), E>>,
) -> Result<(), Failure>
where
    E: std::error::Error + Send + Sync + 'static,
{
    Ok(serving.await.context(what)?)
}
