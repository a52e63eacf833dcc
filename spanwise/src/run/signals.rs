//! The signals that end the program.

use std::io::IsTerminal as _;

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

/// Does this on each SIGHUP. Where a person started the program in a terminal,
/// that signal says that the terminal is gone, and ends the program as ever.
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
