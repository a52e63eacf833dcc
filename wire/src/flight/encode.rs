//! Encodes span batches as Flight messages.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::writer::{
    DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
};
use arrow::ipc::{CompressionType, MetadataVersion};
use arrow_flight::{FlightData, FlightDescriptor};
use bytes::Bytes;
use spanwise_model::SpanRows;

use super::pack::{ALIGNMENT, Packer};
use super::templates::{sent_schema, to_sent};
use super::{Origin, PutMetadata, Secret};

/// Encodes batches. Keeps its compressor between batches.
pub struct Encoder {
    generator: IpcDataGenerator,
    options: IpcWriteOptions,
    context: IpcWriteContext,
    packer: Packer,
}

/// An encoded batch. It can be sent on any connection after the schema.
#[derive(Debug, Clone)]
pub struct EncodedBatch {
    /// Its messages: dictionaries, then the record batch.
    pub messages: Vec<FlightData>,
    /// Their bytes.
    pub bytes: usize,
}

/// The first message of an agent's stream: the schema of its rows and the agent's secret.
pub fn first_message(secret: Secret) -> FlightData {
    schema_message().with_app_metadata(secret.bytes().to_vec())
}

/// The first message of a stream whose batches are named after their content: the schema of its
/// rows.
pub fn schema_message() -> FlightData {
    let mut tracker = DictionaryTracker::new(false);
    let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(
        &sent_schema(),
        &mut tracker,
        &IpcWriteOptions::default(),
    );
    message(encoded).with_descriptor(FlightDescriptor::new_path(vec!["spans".to_owned()]))
}

impl Encoder {
    /// A new encoder.
    ///
    /// # Errors
    /// Where Arrow was built without LZ4.
    pub fn new() -> Result<Self, ArrowError> {
        Ok(Self {
            generator: IpcDataGenerator::default(),
            options: IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?
                .try_with_compression(Some(CompressionType::LZ4_FRAME))?,
            context: IpcWriteContext::default(),
            packer: Packer::default(),
        })
    }

    /// Encodes rows.
    ///
    /// # Errors
    /// If they do not have the span schema, or Arrow refuses them.
    pub fn encode(&mut self, rows: &SpanRows, origin: Origin) -> Result<EncodedBatch, ArrowError> {
        let batch = to_sent(rows)?;
        let mut messages = match self.packer.pack(&batch) {
            Some(messages) => messages,
            None => self.write(&batch)?,
        };
        if let Some(rows) = messages.last_mut() {
            rows.app_metadata = PutMetadata { origin, facts: None }.encode();
        }
        let bytes = messages
            .iter()
            .map(|m| m.data_header.len() + m.data_body.len() + m.app_metadata.len())
            .sum();
        Ok(EncodedBatch { messages, bytes })
    }

    /// Messages from Arrow's own writer, which supports sliced columns.
    fn write(&mut self, batch: &RecordBatch) -> Result<Vec<FlightData>, ArrowError> {
        // A tracker that has seen the schema but no batch. It assigns the same dictionary ids as
        // `schema_message`, and sends every dictionary.
        let mut tracker = DictionaryTracker::new(false);
        let _ = self.generator.schema_to_bytes_with_dictionary_tracker(
            &sent_schema(),
            &mut tracker,
            &self.options,
        );
        let (dictionaries, rows) =
            self.generator.encode(batch, &mut tracker, &self.options, &mut self.context)?;
        Ok(dictionaries.into_iter().chain([rows]).map(message).collect())
    }
}

/// A message with facts about the agent and without Arrow data.
pub(super) fn facts_message(source: [u8; 16], facts: Bytes) -> FlightData {
    let metadata = PutMetadata { origin: Origin { source, sequence: 0 }, facts: Some(facts) };
    FlightData::new().with_app_metadata(metadata.encode())
}

fn message(encoded: EncodedData) -> FlightData {
    FlightData::new().with_data_header(encoded.ipc_message).with_data_body(encoded.arrow_data)
}
