//! A task for every receiver's listener.

use anyhow::Context as _;
use axum::Router;
use spanwise_ingest::{Ingest, Receiver, Socket};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// The receiver at whose port questions are answered, too, as at the port of a Zipkin.
const ZIPKIN: &str = "listen.zipkin";

/// Serves them all, on these threads, until `stopping`; beside Zipkin's, Zipkin's API.
pub(super) fn spawn(
    tasks: &mut JoinSet<Result<(), Failure>>,
    threads: &Handle,
    ingest: &Ingest,
    receivers: Vec<(&'static Receiver, Socket)>,
    zipkin: &Router,
    stopping: &CancellationToken,
) {
    for (receiver, socket) in receivers {
        let (ingest, stop) = (ingest.clone(), stopping.clone().cancelled_owned());
        let beside = if receiver.setting == ZIPKIN { zipkin.clone() } else { Router::new() };
        let serving = async move {
            let served = ingest.serve_beside(receiver, socket, beside, stop).await;
            Ok(served.context(receiver.title)?)
        };
        tasks.spawn_on(serving, threads);
    }
}
