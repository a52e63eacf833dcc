//! Arrow Flight `DoPut` from agent to server: one long-lived stream of span
//! batches, each acknowledged when it is durable.
//!
//! On the stream, agent to server: one schema message, whose `app_metadata` is the agent's
//! [`Secret`], then for each batch its
//! dictionaries and its record batch. Every batch carries all of its
//! dictionaries, so it can be sent again on another connection as it is, and what
//! its spans' attributes have in common is one of them (`templates.rs`). The
//! record batch message's `app_metadata` names the batch (see [`PutMetadata`]);
//! a message with no Arrow header at all carries facts about the agent.
//! Server to agent: a [`PutReply`] in each `PutResult`'s `app_metadata`.

mod client;
mod counters;
mod decode;
mod encode;
mod metadata;
mod pack;
mod queue;
mod templates;
mod upload;

pub use client::{FlightSender, SenderConfig, SenderError};
pub use counters::SenderCounters;
pub use decode::{FlightLimits, Put, PutDecoder};
pub use encode::{EncodedBatch, Encoder, first_message, schema_message};
pub use metadata::{ContentName, Origin, PutMetadata, PutReply, Secret};
pub use templates::Templates;
pub use upload::{Upload, UploadError};

use crate::inspect::InspectError;
use crate::rpc_status::{RpcCode, RpcStatus};

/// Why a message was not taken. The stream ends with it.
#[derive(Debug, thiserror::Error)]
pub enum FlightError {
    /// The bytes are not what the format asks for.
    #[error("malformed Flight message: {0}")]
    Malformed(String),
    /// A message is larger than allowed, or would become so.
    #[error("Flight message too large: {what} (limit {limit}); send smaller batches")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit that it passes.
        limit: usize,
    },
    /// The schema is not this version's.
    #[error(
        "the sender's span schema differs from the server's; \
         run agent and server of the same version"
    )]
    Schema,
}

impl FlightError {
    fn malformed(reason: impl ToString) -> Self {
        Self::Malformed(reason.to_string())
    }
}

impl From<InspectError> for FlightError {
    fn from(error: InspectError) -> Self {
        match error {
            InspectError::Malformed(reason) => Self::Malformed(reason),
            InspectError::TooLarge { what, limit } => Self::TooLarge { what, limit },
        }
    }
}

impl From<FlightError> for tonic::Status {
    fn from(error: FlightError) -> Self {
        match error {
            FlightError::Malformed(_) | FlightError::TooLarge { .. } => {
                RpcStatus::new(RpcCode::InvalidArgument, error.to_string()).into()
            }
            FlightError::Schema => Self::failed_precondition(error.to_string()),
        }
    }
}
