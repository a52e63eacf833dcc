//! `BatchStatus` (`arrow_service.proto`): the response to a batch.

use prost::Message;

/// The result of a batch.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BatchStatus {
    /// The batch's id.
    #[prost(int64, tag = "1")]
    pub batch_id: i64,
    /// A [`StatusCode`].
    #[prost(int32, tag = "2")]
    pub status_code: i32,
    /// A message for people.
    #[prost(string, tag = "3")]
    pub status_message: String,
}

/// Status codes for senders. The Collector's exporter knows these four and ends its stream on any
/// other (`exporter/otelarrowexporter`, `internal/arrow/stream.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusCode {
    /// The batch is durable.
    Ok = 0,
    /// The batch is invalid. Retrying does not help.
    InvalidArgument = 3,
    /// The batch exceeds the size limit. The exporter drops it.
    ResourceExhausted = 8,
    /// A temporary error. The exporter retries.
    Unavailable = 14,
}

impl BatchStatus {
    /// A status.
    pub fn new(batch_id: i64, code: StatusCode, message: impl Into<String>) -> Self {
        Self { batch_id, status_code: code as i32, status_message: message.into() }
    }

    /// Encodes it as protobuf.
    pub fn to_protobuf(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}
