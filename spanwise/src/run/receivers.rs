//! A task for every receiver's listener.

use anyhow::Context as _;
use spanwise_ingest::{Ingest, Receiver, Socket};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Serves all receivers on these threads, until `stopping`.
pub(super) fn spawn(
    tasks: &mut JoinSet<Result<(), Failure>>,
    threads: &Handle,
    ingest: &Ingest,
    receivers: Vec<(&'static Receiver, Socket)>,
    stopping: &CancellationToken,
) {
    for (receiver, socket) in receivers {
        let (ingest, stop) = (ingest.clone(), stopping.clone().cancelled_owned());
        let serving =
            async move { Ok(ingest.serve(receiver, socket, stop).await.context(receiver.title)?) };
        tasks.spawn_on(serving, threads);
    }
}
