//! Why a question has no answer.

use spanwise_model::{ModelError, SpanId, TraceId, WrittenId};
use spanwise_store::StoreError;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// No span with this id is stored, neither of a trace nor by itself.
    #[error("{}", missing(.0))]
    TraceNotFound(WrittenId),
    /// The trace is stored, and has no such span.
    #[error("the trace {trace} has no span {span}, as far as it is here")]
    SpanNotFound {
        /// The trace, as it was asked for.
        trace: TraceId,
        /// The span.
        span: SpanId,
    },
    /// The store failed, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored rows are no spans.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The work on the answer did not end.
    #[error("{what}: {source}")]
    Interrupted {
        /// The work.
        what: &'static str,
        /// Why it did not end.
        source: tokio::task::JoinError,
    },
}

fn missing(id: &WrittenId) -> String {
    match id {
        WrittenId::Trace(id) => format!(
            "no span of {id} is stored; it may have been older than the retention, or not have \
             arrived yet: try again in a few seconds"
        ),
        WrittenId::TraceOrSpan(_, id) => format!(
            "no trace with the id {id}, and no span, is stored; where these are the last 16 digits \
             of a longer trace id, write all 32; else it may have been older than the retention, \
             or not have arrived yet: try again in a few seconds"
        ),
    }
}
