//! The program's own log: standard error, one line an event.

use tracing_subscriber::EnvFilter;

use crate::config::Loaded;
use crate::failure::Failure;
use crate::terminal::log_colours;

/// Starts the log, and says in it what the configuration had to be warned about.
pub(crate) fn start(loaded: &Loaded) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&loaded.config.root.log).map_err(|error| {
        Failure::Usage(format!(
            "log = \"{}\": {error}; write a level (error, warn, info, debug, trace) or a filter \
             such as info,spanwise_store=debug",
            loaded.config.root.log
        ))
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(log_colours())
        .with_target(false)
        .init();
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    Ok(())
}
