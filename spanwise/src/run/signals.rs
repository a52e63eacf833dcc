//! The signals that end the program.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Cancels the returned token on SIGINT or SIGTERM. A second one ends the
/// program at once: whoever asks twice does not want to wait.
pub(crate) fn watch() -> Result<CancellationToken, Failure> {
    let hear = |kind| signal(kind).context("cannot listen for signals");
    let (mut interrupt, mut terminate) =
        (hear(SignalKind::interrupt())?, hear(SignalKind::terminate())?);
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        let name = next(&mut interrupt, &mut terminate).await;
        tracing::info!("{name}: stopping; once more to stop at once");
        told.cancel();
        next(&mut interrupt, &mut terminate).await;
        // What was acknowledged is on disk; nothing else is worth the wait.
        std::process::exit(130);
    });
    Ok(stop)
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}
