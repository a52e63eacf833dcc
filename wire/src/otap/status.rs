//! `BatchStatus` (`arrow_service.proto`): the answer to a batch.

use prost::Message;

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct BatchStatus {
    /// The batch that is answered.
    #[prost(int64, tag = "1")]
    pub batch_id: i64,
    /// A [`StatusCode`].
    #[prost(int32, tag = "2")]
    pub status_code: i32,
    /// For people.
    #[prost(string, tag = "3")]
    pub status_message: String,
}

/// The codes that a sender is answered with. The Collector's exporter knows
/// these four and ends its stream on any other (`exporter/otelarrowexporter`,
/// `internal/arrow/stream.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusCode {
    /// The batch is durable.
    Ok = 0,
    /// It cannot be read, and could not a second time.
    InvalidArgument = 3,
    /// It is larger than a batch may be. The exporter drops what is answered so.
    ResourceExhausted = 8,
    /// Not now; the exporter tries again.
    Unavailable = 14,
}

impl BatchStatus {
    /// An answer.
    pub fn new(batch_id: i64, code: StatusCode, message: impl Into<String>) -> Self {
        Self { batch_id, status_code: code as i32, status_message: message.into() }
    }

    /// As protobuf.
    pub fn to_protobuf(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}
