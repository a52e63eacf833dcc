//! Signal handling.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Cancels the returned token on SIGINT or SIGTERM. A second signal exits at once.
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
        // Acknowledged data is on disk, and nothing else is worth waiting for.
        std::process::exit(130);
    });
    Ok(stop)
}

/// Runs `work` on each SIGHUP. In a terminal session, SIGHUP means that the terminal is gone, and
/// still ends the program.
pub(crate) fn on_hang_up(mut work: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    if std::io::stdin().is_terminal() {
        return Ok(());
    }
    let mut hang_up = signal(SignalKind::hangup()).context("cannot listen for signals")?;
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            work();
        }
    });
    Ok(())
}

async fn next(interrupt: &mut Signal, terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
    }
}
