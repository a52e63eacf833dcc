//! What a server and its worker say to each other: frames of a message in JSON and,
//! where it brings rows, a batch as a stream of Arrow's.
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

/// A message without its rows; a statement is the largest.
const MOST_MESSAGE_BYTES: usize = 1 << 20;

/// What the worker is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) statement: String,
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

/// What the worker says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromWorker {
    /// It begins a scan. Scans are numbered as they begin.
    Scan(Scan),
    /// It wants the next batch of a scan.
    Next(usize),
    /// It wants no more of it.
    Close(usize),
    /// Rows of the answer.
    Answer,
    /// There are no more.
    Done { truncated: bool },
    /// The statement failed.
    Failed(Failure),
}

/// What a worker is answered when it wants a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// Some rows.
    Batch,
    /// So many rows of no columns.
    Rows(usize),
    /// There are no more.
    End,
}

/// Why a statement failed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    Invalid(String),
    Limit(String),
    Other(String),
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

/// Sends a message with rows, encoded before, or none.
pub(super) fn send<M: Serialize>(to: &mut impl Write, message: &M, rows: &[u8]) -> io::Result<()> {
    let message = serde_json::to_vec(message)?;
    let mut frame = Vec::with_capacity(12 + message.len());
    frame.extend(u32::try_from(message.len()).map_err(io::Error::other)?.to_le_bytes());
    frame.extend((rows.len() as u64).to_le_bytes());
    frame.extend(message);
    to.write_all(&frame)?;
    to.write_all(rows)
}

/// Receives a message with at most so many bytes of rows; `None` where the other
/// side has ended.
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

/// A batch as a stream of its own, so that whoever receives it has its memory in
/// one piece, and no more of it than is kept.
pub(super) fn encode(batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), batch.schema_ref())?;
    writer.write(batch)?;
    writer.into_inner()
}

/// The batch of such a stream.
///
/// # Errors
/// Where it is none.
pub(super) fn decode(bytes: Vec<u8>) -> Result<RecordBatch, ArrowError> {
    let mut buffer = Buffer::from_vec(bytes);
    let mut decoder = StreamDecoder::new();
    decoder
        .decode(&mut buffer)?
        .ok_or_else(|| ArrowError::IpcError("a stream without a batch".to_owned()))
}

/// So many rows of no columns.
pub(super) fn no_columns(rows: usize) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)
}
