//! The program's log on standard error, one line for each event.

use tracing_subscriber::EnvFilter;

use crate::config::Loaded;
use crate::failure::Failure;
use crate::terminal::log_colours;

/// The SDK of assistants' protocol logs several lines for each message. A filter that names it
/// comes after this one, and counts.
const QUIET: &str = "rmcp=error";

/// Starts the log, and logs warnings about the configuration.
pub(crate) fn start(loaded: &Loaded) -> Result<(), Failure> {
    let filter = format!("{QUIET},{}", loaded.config.root.log);
    let filter = EnvFilter::try_new(filter).map_err(|error| {
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
