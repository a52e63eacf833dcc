//! Decodes one gRPC stream of batches.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use super::ipc::{IpcStream, Room};
use super::message::Message;
use super::payload::Payload;
use super::tables::Tables;
use super::{OtapError, OtapLimits, spans};
use crate::otlp::Decoded;

/// A batch. The stream can continue after it, even if it was rejected.
#[derive(Debug)]
pub struct Batch {
    /// Its id on the stream.
    pub id: i64,
    /// Its rows, or why it was rejected.
    pub decoded: Result<Decoded, OtapError>,
    /// Number of rows in its tables (attributes, events, links) that were left out because their
    /// owner is not in the batch.
    pub orphans: usize,
}

/// An undecodable batch. Later batches on the stream cannot be decoded either, because they may
/// refer to dictionaries in this one.
#[derive(Debug)]
pub struct Broken {
    /// Its id, if that could be decoded.
    pub id: Option<i64>,
    /// The error.
    pub error: OtapError,
}

/// Decodes the batches of one stream.
pub struct StreamDecoder {
    limits: OtapLimits,
    streams: [IpcStream; Payload::COUNT],
}

impl StreamDecoder {
    /// A decoder at the start of a stream.
    pub fn new(limits: OtapLimits) -> Self {
        Self { limits, streams: std::array::from_fn(|_| IpcStream::default()) }
    }

    /// Bytes of dictionaries kept for later batches.
    pub fn kept_bytes(&self) -> usize {
        self.streams.iter().map(IpcStream::bytes).sum()
    }

    /// Decodes the stream's next message, a `BatchArrowRecords`.
    ///
    /// # Errors
    /// [`Broken`]. The stream must end then. If only the rows are invalid, the error is in
    /// [`Batch::decoded`], and the stream can continue. Single invalid spans are counted in
    /// [`Decoded::rejections`].
    pub fn decode(&mut self, message: &Bytes) -> Result<Batch, Broken> {
        let mut id = None;
        // The checks above cover every known way in which Arrow's reader panics on invalid input.
        // If there is another, the panic ends this stream with an error.
        let tables = catch_unwind(AssertUnwindSafe(|| self.tables(message, &mut id)))
            .unwrap_or_else(|_| Err(unreadable()));
        let tables = match tables {
            Ok(tables) => tables,
            Err(error) => return Err(Broken { id, error }),
        };
        let decoded = catch_unwind(AssertUnwindSafe(|| spans::rows(&tables, &self.limits)))
            .unwrap_or_else(|_| Err(unreadable()));
        let (decoded, orphans) = match decoded {
            Ok((decoded, orphans)) => (Ok(decoded), orphans),
            Err(error) => (Err(error), 0),
        };
        Ok(Batch { id: id.unwrap_or_default(), decoded, orphans })
    }

    fn tables(&mut self, message: &Bytes, id: &mut Option<i64>) -> Result<Tables, OtapError> {
        let message = Message::read(message, id)?;
        // Protobuf omits fields that are zero.
        id.get_or_insert(message.batch_id);
        let mut room = Room::new(&self.limits);
        let mut tables = Tables::default();
        for part in message.payloads {
            let stream = &mut self.streams[part.payload as usize];
            let table = stream.read(part.payload, &part.schema_id, &part.record, &mut room)?;
            tables.set(part.payload, table);
        }
        Ok(tables)
    }
}

fn unreadable() -> OtapError {
    OtapError::malformed("the message", "Arrow could not read it")
}
