//! Logs refused requests, because the server's operator may not run the senders.

use ::http::Extensions;

use super::Transport;
use super::failure::Failure;
use super::ports::Peer;
use crate::counters;

/// The source of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    /// The protocol, such as `OTLP/HTTP`.
    pub(crate) protocol: &'static str,
    pub(crate) peer: Option<Peer>,
}

impl Caller {
    pub(crate) fn new(protocol: &'static str, extensions: &Extensions) -> Self {
        Self { protocol, peer: extensions.get::<Peer>().copied() }
    }

    fn address(&self) -> String {
        self.peer.map_or_else(|| "somebody".to_owned(), |peer| peer.0.to_string())
    }
}

impl Transport {
    /// Counts and logs a refused request.
    pub(crate) fn refused(&self, from: Caller, failure: &Failure) {
        let counter = failure.counter();
        self.counters.add(counter, 1);
        if let Some(more) = self.warnings.due(from.protocol, counter) {
            let reason = failure.rpc_status().message;
            tracing::warn!(
                "{} from {} was not taken: {reason}{more}",
                from.protocol,
                from.address()
            );
        }
    }

    /// Logs a partial refusal, which is already counted.
    pub(crate) fn refused_in_part(&self, from: Caller, message: &str) {
        if let Some(more) = self.warnings.due(from.protocol, "in part") {
            tracing::warn!("{} from {}: {message}{more}", from.protocol, from.address());
        }
    }

    /// Counts and logs a request for an unknown path or service.
    pub(crate) fn not_here(&self, from: Caller, path: &str, instead: &str) {
        self.counters.add(counters::REQUESTS_WRONG_PATH, 1);
        if let Some(more) = self.warnings.due(from.protocol, counters::REQUESTS_WRONG_PATH) {
            tracing::warn!(
                "{} from {} came to `{}`, where nothing is: {instead}{more}",
                from.protocol,
                from.address(),
                shown(path)
            );
        }
    }
}

/// A shortened path for messages. It has no control characters, since it is part of a URI.
pub(crate) fn shown(path: &str) -> &str {
    const BYTES: usize = 100;
    &path[..path.floor_char_boundary(BYTES)]
}
