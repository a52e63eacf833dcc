//! One gRPC stream of batches.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use super::ipc::{IpcStream, Room};
use super::message::Message;
use super::payload::Payload;
use super::tables::Tables;
use super::{OtapError, OtapLimits, spans};
use crate::otlp::Decoded;

/// A batch, which leaves its stream whole.
#[derive(Debug)]
pub struct Batch {
    /// Names it on its stream.
    pub id: i64,
    /// Its rows, or why there are none.
    pub decoded: Result<Decoded, OtapError>,
    /// Rows of its tables (attributes, events, links) that belong to nothing in
    /// it, and are left out.
    pub orphans: usize,
}

/// A batch that cannot be read; nor can those that follow on its stream, as they
/// refer to dictionaries that it may have brought.
#[derive(Debug)]
pub struct Broken {
    /// Names it, where as much of it can be read.
    pub id: Option<i64>,
    /// What is wrong with it.
    pub error: OtapError,
}

/// Reads the batches of one stream.
pub struct StreamDecoder {
    limits: OtapLimits,
    streams: [IpcStream; Payload::COUNT],
}

impl StreamDecoder {
    /// A decoder at the start of a stream.
    pub fn new(limits: OtapLimits) -> Self {
        Self { limits, streams: std::array::from_fn(|_| IpcStream::default()) }
    }

    /// Bytes of dictionaries that are kept for the batches to come.
    pub fn kept_bytes(&self) -> usize {
        self.streams.iter().map(IpcStream::bytes).sum()
    }

    /// Reads the stream's next message, a `BatchArrowRecords`.
    ///
    /// # Errors
    /// [`Broken`]; the stream shall end then. Where only its rows are wrong, the
    /// error is in [`Batch::decoded`], and the stream can go on; single spans
    /// that are wrong are counted in [`Decoded::rejections`].
    pub fn decode(&mut self, message: &Bytes) -> Result<Batch, Broken> {
        let mut id = None;
        // The checks before cover every way in which Arrow's reader is known to
        // panic on bad input; should there be another, it ends this stream with
        // an error like any other malformed message.
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
        // A field that is zero is not sent.
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
