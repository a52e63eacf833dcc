//! Sends batches one by one and waits for each. For callers that keep their spans and can send them
//! again, which an agent cannot.

use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use spanwise_model::SpanRows;
use tokio::time::{Instant, sleep};
use tonic::Code;
use tonic::transport::Channel;

use super::client::{SenderConfig, SenderError, describe, endpoint};
use super::encode::Encoder;
use super::{Origin, PutReply, schema_message};

/// Pauses between attempts to reach a server.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Why a batch was not stored.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The address is invalid, or batches cannot be encoded.
    #[error(transparent)]
    Setup(#[from] SenderError),
    /// The server was unreachable for too long.
    #[error("{server} cannot be reached: {reason}")]
    Away {
        /// Its address.
        server: String,
        /// The last attempt's error.
        reason: String,
    },
    /// The server was full for too long.
    #[error("{server} takes nothing now: {reason}")]
    Full {
        /// Its address.
        server: String,
        /// Its last reply.
        reason: String,
    },
    /// The server refuses this batch permanently.
    #[error("{server} refused spans: {reason}")]
    Refused {
        /// Its address.
        server: String,
        /// Its reply.
        reason: String,
    },
}

/// A connection over which batches are sent.
pub struct Upload {
    server: String,
    client: FlightServiceClient<Channel>,
    encoder: Encoder,
    patience: Duration,
}

/// The result of one attempt.
enum Attempt {
    Stored,
    Later { after: Duration, reason: String },
    Lost(String),
    Never(String),
}

impl Upload {
    /// Prepares an upload to this server, for example `http://127.0.0.1:4317`. It gives up when the
    /// server accepts nothing for `patience`. It connects with the first batch.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn new(server: &str, patience: Duration) -> Result<Self, UploadError> {
        let channel = endpoint(&SenderConfig::new(server))?.connect_lazy();
        Ok(Self {
            server: server.to_owned(),
            client: FlightServiceClient::new(channel),
            encoder: Encoder::new().map_err(SenderError::from)?,
            patience,
        })
    }

    /// Sends a batch of rows and returns when it is durable. A batch whose origin the server knows
    /// is not stored again.
    ///
    /// # Errors
    /// If the server is unreachable, full, or refuses the batch.
    pub async fn put(&mut self, rows: &SpanRows, origin: Origin) -> Result<(), UploadError> {
        let encoded = self.encoder.encode(rows, origin).map_err(SenderError::from)?;
        let mut messages = vec![schema_message()];
        messages.extend(encoded.messages);
        let began = Instant::now();
        let mut pause = SHORTEST_PAUSE;
        loop {
            let attempt = self.attempt(messages.clone()).await;
            let late = began.elapsed() > self.patience;
            let server = || self.server.clone();
            match attempt {
                Attempt::Stored => return Ok(()),
                Attempt::Never(reason) => {
                    return Err(UploadError::Refused { server: server(), reason });
                }
                Attempt::Later { reason, .. } if late => {
                    return Err(UploadError::Full { server: server(), reason });
                }
                Attempt::Lost(reason) if late => {
                    return Err(UploadError::Away { server: server(), reason });
                }
                Attempt::Later { after, .. } => sleep(after.max(SHORTEST_PAUSE)).await,
                Attempt::Lost(_) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn attempt(&mut self, messages: Vec<arrow_flight::FlightData>) -> Attempt {
        let mut replies = match self.client.do_put(futures::stream::iter(messages)).await {
            Ok(response) => response.into_inner(),
            Err(status) => return failed(&status),
        };
        match replies.message().await {
            Ok(Some(result)) => match PutReply::decode(&result.app_metadata) {
                Ok(PutReply::Durable { .. }) => Attempt::Stored,
                Ok(PutReply::Refused { retry_after, reason, .. }) => {
                    Attempt::Later { after: retry_after, reason }
                }
                Err(error) => Attempt::Never(error.to_string()),
            },
            Ok(None) => Attempt::Lost("it ended the connection without an answer".to_owned()),
            Err(status) => failed(&status),
        }
    }
}

fn failed(status: &tonic::Status) -> Attempt {
    let reason =
        std::error::Error::source(status).map_or_else(|| status.message().to_owned(), describe);
    match status.code() {
        Code::ResourceExhausted => Attempt::Later {
            after: crate::rpc_status::RpcStatus::retry_after_in_details(status.details())
                .unwrap_or(LONGEST_PAUSE),
            reason,
        },
        Code::InvalidArgument
        | Code::OutOfRange
        | Code::FailedPrecondition
        | Code::Unimplemented => Attempt::Never(reason),
        _ => Attempt::Lost(reason),
    }
}
