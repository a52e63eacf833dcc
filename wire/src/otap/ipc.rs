//! One table's Arrow IPC stream. Each batch contains a part of it (Arrow columnar format, "IPC
//! Streaming Format" and "Encapsulated message format").

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow::ipc::{Message, MessageHeader, root_as_message};
use bytes::Bytes;

use super::payload::Payload;
use super::{OtapError, OtapLimits, schema};
use crate::inspect::{self, InspectError, Layout};

/// The remaining limits of a batch, over all its tables.
#[derive(Debug)]
pub(super) struct Room {
    bytes: usize,
    rows: usize,
    limits: OtapLimits,
}

impl Room {
    pub(super) const fn new(limits: &OtapLimits) -> Self {
        Self { bytes: limits.batch_bytes, rows: limits.table_rows, limits: *limits }
    }

    /// Converts the error of a check.
    fn inspected(&self, payload: Payload, error: InspectError) -> OtapError {
        match error {
            InspectError::Malformed(reason) => OtapError::malformed(payload.name(), reason),
            InspectError::TooLarge { what, .. } => {
                OtapError::TooLarge { what, limit: self.limits.batch_bytes }
            }
        }
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), OtapError> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(OtapError::TooLarge {
            what: "bytes of columns",
            limit: self.limits.batch_bytes,
        })?;
        Ok(())
    }

    fn take_rows(&mut self, rows: i64) -> Result<(), OtapError> {
        let left = usize::try_from(rows).ok().and_then(|rows| self.rows.checked_sub(rows));
        self.rows = left
            .ok_or(OtapError::TooLarge { what: "rows of tables", limit: self.limits.table_rows })?;
        Ok(())
    }
}

/// The stream of one table.
#[derive(Default)]
pub(super) struct IpcStream {
    /// The id of the sender's schema.
    schema_id: String,
    /// `None` before the first message.
    known: Option<Known>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Bytes of each dictionary.
    dictionary_bytes: HashMap<i64, usize>,
}

/// A schema, and the expected form of its messages.
struct Known {
    schema: SchemaRef,
    rows: Layout,
    dictionaries: HashMap<i64, Layout>,
}

/// The first bytes of an encapsulated message (Arrow 0.15 and later).
const CONTINUATION: [u8; 4] = [0xff; 4];

impl IpcStream {
    /// Bytes of dictionaries kept for later batches.
    pub(super) fn bytes(&self) -> usize {
        self.dictionary_bytes.values().sum()
    }

    /// Decodes a batch's part of the stream. Returns nothing if it contains no rows. After an error
    /// the stream cannot continue.
    ///
    /// A new schema id ends the stream and begins another, as in the producer
    /// (`arrow_record/producer.go`, and the specification's "Schema Reset"). So a table never has
    /// more than one open stream.
    pub(super) fn read(
        &mut self,
        payload: Payload,
        schema_id: &str,
        record: &Bytes,
        room: &mut Room,
    ) -> Result<Option<RecordBatch>, OtapError> {
        if self.schema_id != schema_id {
            *self = Self { schema_id: schema_id.to_owned(), ..Self::default() };
        }
        let mut rest = record.clone();
        let mut table = None;
        while !rest.is_empty() {
            let Some(metadata) = next_metadata(&mut rest)
                .map_err(|reason| OtapError::malformed(payload.name(), reason))?
            else {
                // The end of the stream. A schema must follow.
                self.known = None;
                continue;
            };
            let message = root_as_message(&metadata)
                .map_err(|error| OtapError::malformed(payload.name(), error))?;
            let body = next_body(&message, &mut rest)
                .map_err(|reason| OtapError::malformed(payload.name(), reason))?;
            match message.header_type() {
                MessageHeader::Schema => self
                    .begin(&message)
                    .map_err(|reason| OtapError::malformed(payload.name(), reason))?,
                MessageHeader::DictionaryBatch => {
                    self.dictionary(payload, &message, &body, room)?;
                }
                MessageHeader::RecordBatch if table.is_none() => {
                    table = Some(self.rows(payload, &message, body, room)?);
                }
                // The Go consumer reads one record batch, and ids are differences within one record
                // batch only.
                MessageHeader::RecordBatch => {
                    return Err(OtapError::malformed(payload.name(), "more than one record batch"));
                }
                other => {
                    let name = other.variant_name().unwrap_or("unknown");
                    return Err(OtapError::malformed(
                        payload.name(),
                        format!("a message of type {name}"),
                    ));
                }
            }
        }
        Ok(table)
    }

    fn begin(&mut self, message: &Message<'_>) -> Result<(), String> {
        let schema = message.header_as_schema().ok_or("a schema message without a schema")?;
        let schema = schema::read(schema)?;
        let mut dictionaries = HashMap::new();
        each_dictionary(&schema, &mut |id, values| {
            let values = Arc::new(Field::new("values", values.clone(), true));
            dictionaries.insert(id, Layout::new([&values]));
        });
        let rows = Layout::new(schema.fields());
        self.known = Some(Known { schema: Arc::new(schema), rows, dictionaries });
        self.dictionaries.clear();
        self.dictionary_bytes.clear();
        Ok(())
    }

    fn dictionary(
        &mut self,
        payload: Payload,
        message: &Message<'_>,
        body: &Bytes,
        room: &mut Room,
    ) -> Result<(), OtapError> {
        let malformed = |reason: &str| OtapError::malformed(payload.name(), reason);
        let known = self.known.as_ref().ok_or_else(|| malformed(NO_SCHEMA))?;
        let dictionary = message
            .header_as_dictionary_batch()
            .ok_or_else(|| malformed("a dictionary message without a dictionary"))?;
        let values = dictionary.data().ok_or_else(|| malformed("a dictionary without values"))?;
        let id = dictionary.id();
        let layout = known
            .dictionaries
            .get(&id)
            .ok_or_else(|| malformed("a dictionary that no column has"))?;
        let bytes = inspect::check(&values, body, layout, room.bytes)
            .map_err(|error| room.inspected(payload, error))?;
        // A delta dictionary is appended to the previous one.
        let before = match self.dictionary_bytes.get(&id) {
            Some(before) if dictionary.isDelta() => *before,
            _ => 0,
        };
        room.take_bytes(bytes.saturating_add(before))?;
        // Copied, so that a dictionary does not keep the whole message in memory.
        let body = Buffer::from(body.as_ref());
        read_dictionary(
            &body,
            dictionary,
            &known.schema,
            &mut self.dictionaries,
            &message.version(),
        )
        .map_err(|error| OtapError::malformed(payload.name(), error))?;
        self.dictionary_bytes.insert(id, before + bytes);
        Ok(())
    }

    fn rows(
        &self,
        payload: Payload,
        message: &Message<'_>,
        body: Bytes,
        room: &mut Room,
    ) -> Result<RecordBatch, OtapError> {
        let malformed = |reason: &str| OtapError::malformed(payload.name(), reason);
        let known = self.known.as_ref().ok_or_else(|| malformed(NO_SCHEMA))?;
        let header = message
            .header_as_record_batch()
            .ok_or_else(|| malformed("a batch message without a batch"))?;
        let bytes = inspect::check(&header, &body, &known.rows, room.bytes)
            .map_err(|error| room.inspected(payload, error))?;
        room.take_bytes(bytes)?;
        room.take_rows(header.length())?;
        RecordBatchDecoder::try_new(
            &Buffer::from(body),
            header,
            Arc::clone(&known.schema),
            &self.dictionaries,
            &message.version(),
        )
        .and_then(RecordBatchDecoder::read_record_batch)
        .map_err(|error| OtapError::malformed(payload.name(), error))
    }
}

const NO_SCHEMA: &str = "its stream does not begin with a schema; \
    a schema_id that was not used before, or was left, begins one";

/// Calls `take` with each dictionary's id and value type.
fn each_dictionary(schema: &Schema, take: &mut impl FnMut(i64, &DataType)) {
    fn visit(field: &Field, take: &mut impl FnMut(i64, &DataType)) {
        match field.data_type() {
            DataType::Struct(fields) => fields.iter().for_each(|field| visit(field, take)),
            DataType::Dictionary(_, values) => {
                // Deprecated, but the only way to get the id.
                #[allow(deprecated)]
                if let Some(id) = field.dict_id() {
                    take(id, values);
                }
            }
            _ => {}
        }
    }
    schema.fields().iter().for_each(|field| visit(field, take));
}

/// Removes the next message's metadata from `rest`. Returns nothing at the end of the stream.
fn next_metadata(rest: &mut Bytes) -> Result<Option<Bytes>, String> {
    let prefix = rest.first_chunk::<8>().copied().ok_or("it ends in the middle of a message")?;
    let [a, b, c, d, length @ ..] = prefix;
    if [a, b, c, d] != CONTINUATION {
        return Err("no Arrow IPC message".to_owned());
    }
    let length = usize::try_from(i32::from_le_bytes(length)).map_err(|_| "a negative length")?;
    let _ = rest.split_to(prefix.len());
    if length == 0 {
        return Ok(None);
    }
    if length > rest.len() {
        return Err(format!("a message of {length} bytes, of which {} are there", rest.len()));
    }
    Ok(Some(rest.split_to(length)))
}

/// Removes a message's body from `rest`.
fn next_body(message: &Message<'_>, rest: &mut Bytes) -> Result<Bytes, String> {
    let length = message.bodyLength();
    let fits = usize::try_from(length).ok().filter(|length| *length <= rest.len());
    let length =
        fits.ok_or_else(|| format!("a body of {length} bytes, of which {} are there", rest.len()))?;
    Ok(rest.split_to(length))
}
