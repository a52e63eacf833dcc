//! The protocol between server and worker: frames with a JSON message and optionally a batch as an
//! Arrow stream.
//!
//! ```text
//! length of the message u32 | length of the rows u64 | message | rows
//! ```

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::table::Scan;
use crate::contract::StoreError;
use crate::embedded::fault;

/// Maximum bytes of a message without its rows. The largest is a statement.
const MOST_MESSAGE_BYTES: usize = 1 << 20;

/// A worker's task.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) statement: String,
    /// Names of the server's table functions.
    pub(super) functions: Vec<String>,
    pub(super) rows: usize,
    pub(super) memory_bytes: usize,
    pub(super) answer_bytes: usize,
    pub(super) timeout_ms: u64,
}

impl Job {
    pub(super) const fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }
}

/// Messages from the worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    /// Starts a scan. Scans are numbered in this order.
    Scan(Scan),
    /// Requests the next batch of a scan.
    Next(usize),
    /// Ends a scan early.
    Close(usize),
    /// Requests the rows of a table function.
    Call { name: String, arguments: Vec<String> },
    /// Rows of the answer.
    Answer,
    /// The answer is complete.
    Done { truncated: bool },
    /// The statement failed.
    Failed(Failure),
}

/// Responses to a worker's request for a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// Rows follow.
    Batch,
    /// This many rows without columns.
    Rows(usize),
    /// The scan has no more rows.
    End,
    /// The function refuses its arguments.
    Refused(Failure),
}

/// Why a statement failed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    Invalid(String),
    Limit(String),
    Other(String),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Invalid(reason) => Self::Invalid(reason),
            Failure::Limit(reason) => Self::Limit(reason),
            Failure::Other(reason) => {
                fault::io("the process for the statement failed")(io::Error::other(reason))
            }
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(reason) => Self::Invalid(reason),
            StoreError::Limit(reason) => Self::Limit(reason),
            other => Self::Other(other.to_string()),
        }
    }
}

/// Sends a message with encoded rows, or with none.
pub(super) fn send<M: Serialize>(to: &mut impl Write, message: &M, rows: &[u8]) -> io::Result<()> {
    let message = serde_json::to_vec(message)?;
    let mut frame = Vec::with_capacity(12 + message.len());
    frame.extend(u32::try_from(message.len()).map_err(io::Error::other)?.to_le_bytes());
    frame.extend((rows.len() as u64).to_le_bytes());
    frame.extend(message);
    to.write_all(&frame)?;
    to.write_all(rows)
}

/// Receives a message with at most `most_bytes` of rows. `None` if the other side has ended.
pub(super) fn receive<M: DeserializeOwned>(
    from: &mut impl Read,
    most_bytes: usize,
) -> io::Result<Option<(M, Vec<u8>)>> {
    let mut lengths = [0; 12];
    match from.read_exact(&mut lengths) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let [a, b, c, d, rest @ ..] = lengths;
    let message_bytes = u32::from_le_bytes([a, b, c, d]) as usize;
    let rows_bytes = usize::try_from(u64::from_le_bytes(rest)).unwrap_or(usize::MAX);
    if message_bytes > MOST_MESSAGE_BYTES || rows_bytes > most_bytes {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    let message = serde_json::from_slice(&exactly(from, message_bytes)?)?;
    Ok(Some((message, exactly(from, rows_bytes)?)))
}

fn exactly(from: &mut impl Read, bytes: usize) -> io::Result<Vec<u8>> {
    let mut read = Vec::with_capacity(bytes);
    from.take(bytes as u64).read_to_end(&mut read)?;
    if read.len() < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) }
}

/// Encodes a batch as its own stream. The receiver then has it in one buffer, with no more memory
/// than it keeps.
pub(super) fn encode(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(batch)?;
    writer.into_inner()
}

/// Decodes a batch.
///
/// # Errors
/// If the bytes are not an Arrow stream.
pub(super) fn decode(bytes: Vec<u8>) -> Result<RecordBatch, ArrowError> {
    let mut buffer = Buffer::from_vec(bytes);
    let mut decoder = StreamDecoder::new();
    decoder
        .decode(&mut buffer)?
        .ok_or_else(|| ArrowError::IpcError("a stream without a batch".to_owned()))
}

/// This many rows without columns.
pub(super) fn no_columns(rows: usize) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
}
