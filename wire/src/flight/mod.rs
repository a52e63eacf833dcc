//! Arrow Flight `DoPut` from agent to server: one long-lived stream of span batches. Each batch is
//! acknowledged when it is durable.
//!
//! The agent sends one schema message, whose `app_metadata` is its [`Secret`]. Then it sends the
//! dictionaries and the record batch of each batch. Every batch contains all of its dictionaries,
//! so it can be sent again unchanged on another connection. One dictionary contains the attributes
//! that spans share (`templates.rs`). The `app_metadata` of the record batch message contains the
//! batch's origin (see [`PutMetadata`]). A message without an Arrow header contains facts about the
//! agent. The server sends a [`PutReply`] in the `app_metadata` of each `PutResult`.

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

/// Why a message was refused. The stream ends with it.
#[derive(Debug, thiserror::Error)]
pub enum FlightError {
    /// The bytes do not follow the format.
    #[error("malformed Flight message: {0}")]
    Malformed(String),
    /// A message exceeds a limit, or would when decoded.
    #[error("Flight message too large: {what} (limit {limit}); send smaller batches")]
    TooLarge {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The schema is not the one of this version.
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
