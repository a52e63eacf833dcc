//! Decodes Flight messages to span batches.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Int32Type, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow::ipc::{Message, MessageHeader, root_as_message};
use arrow_flight::FlightData;
use bytes::Bytes;
use spanwise_model::schema::column;
use spanwise_model::{Capture, Evidence, Kind, SpanRows, Status};

use super::encode::schema_message;
use super::templates::{Templates, sent_schema, template_values};
use super::{FlightError, Origin, PutMetadata, Secret};
use crate::inspect::{self, Layout};

/// Limits of one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlightLimits {
    /// Maximum bytes of one message on the wire.
    pub message_bytes: usize,
    /// Maximum uncompressed bytes of one batch with its dictionaries.
    pub batch_bytes: usize,
}

impl Default for FlightLimits {
    fn default() -> Self {
        Self { message_bytes: 32 << 20, batch_bytes: 256 << 20 }
    }
}

/// The contents of a message.
#[derive(Debug)]
pub enum Put {
    /// Spans.
    Batch {
        /// The batch's origin.
        origin: Origin,
        /// Its rows.
        rows: SpanRows,
        /// Facts that were sent with the batch.
        facts: Option<Bytes>,
    },
    /// Facts about the agent, as JSON, without spans.
    Facts {
        /// The agent's run.
        source: [u8; 16],
        /// The JSON text, not checked yet.
        facts: Bytes,
    },
}

/// Decodes one stream.
pub struct PutDecoder {
    limits: FlightLimits,
    /// Whether the schema was received.
    started: bool,
    /// The secret that was sent with the schema.
    secret: Option<Secret>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Uncompressed bytes since the last batch.
    pending_bytes: usize,
    templates: Arc<Templates>,
    row_layout: Layout,
    text_layout: Layout,
    template_layout: Layout,
}

/// The schema message that every agent of this version sends, and its contents: the schema with its
/// dictionary ids. The last id is that of the templates.
struct OwnSchema {
    header: Bytes,
    schema: SchemaRef,
    templates_id: i64,
}

static OWN_SCHEMA: LazyLock<OwnSchema> = LazyLock::new(|| {
    let header = schema_message().data_header;
    let schema = root_as_message(&header)
        .ok()
        .and_then(|message| message.header_as_schema())
        .map(fb_to_schema)
        .expect("this program has just encoded it");
    let is_dictionary = |field: &&Arc<Field>| matches!(field.data_type(), DataType::Dictionary(..));
    let dictionaries = schema.fields().iter().filter(is_dictionary).count();
    OwnSchema { header, schema: Arc::new(schema), templates_id: dictionaries as i64 - 1 }
});

impl PutDecoder {
    /// A decoder at the start of a stream. All streams share `templates`.
    pub fn new(limits: FlightLimits, templates: Arc<Templates>) -> Self {
        let texts = Arc::new(Field::new("values", DataType::Utf8, true));
        Self {
            limits,
            started: false,
            secret: None,
            dictionaries: HashMap::new(),
            pending_bytes: 0,
            templates,
            row_layout: Layout::new(sent_schema().fields()),
            text_layout: Layout::new([&texts]),
            template_layout: Layout::new([&template_values()]),
        }
    }

    /// The secret from the first message.
    pub const fn secret(&self) -> Option<Secret> {
        self.secret
    }

    /// Decodes the stream's next message.
    ///
    /// # Errors
    /// See [`FlightError`]. The stream must end then.
    pub fn push(&mut self, data: FlightData) -> Result<Option<Put>, FlightError> {
        if data.data_body.len() > self.limits.message_bytes {
            return Err(FlightError::TooLarge {
                what: "bytes of a message",
                limit: self.limits.message_bytes,
            });
        }
        if data.data_header.is_empty() {
            let metadata = PutMetadata::decode(&data.app_metadata)?;
            let source = metadata.origin.source;
            return Ok(metadata.facts.map(|facts| Put::Facts { source, facts }));
        }
        // The checks above cover every known way in which Arrow's reader panics on invalid input.
        // If there is another, the panic ends this stream with an error.
        catch_unwind(AssertUnwindSafe(|| self.arrow_message(data)))
            .unwrap_or_else(|_| Err(FlightError::malformed("Arrow could not read the message")))
    }

    fn arrow_message(&mut self, data: FlightData) -> Result<Option<Put>, FlightError> {
        let header = data.data_header.clone();
        let message = root_as_message(&header).map_err(FlightError::malformed)?;
        match message.header_type() {
            MessageHeader::Schema => self.schema(&header, &data.app_metadata).map(|()| None),
            MessageHeader::DictionaryBatch => self.dictionary(&message, data).map(|()| None),
            MessageHeader::RecordBatch => self.rows(&message, data).map(Some),
            other => Err(FlightError::malformed(format_args!(
                "a message of type {}",
                other.variant_name().unwrap_or("unknown")
            ))),
        }
    }

    /// Arrow's schema reader panics on many unknown schemas. So only one exact schema message is
    /// accepted, and others are not parsed.
    fn schema(&mut self, header: &Bytes, secret: &[u8]) -> Result<(), FlightError> {
        if *header != OWN_SCHEMA.header {
            return Err(FlightError::Schema);
        }
        let secret = match secret.try_into() {
            Ok(secret) => Some(Secret::of(secret)),
            Err(_) if secret.is_empty() => None,
            Err(_) => return Err(FlightError::malformed("a secret has 32 bytes")),
        };
        if self.started && secret != self.secret {
            return Err(FlightError::malformed("a stream has one secret"));
        }
        self.secret = secret;
        self.started = true;
        self.forget_dictionaries();
        Ok(())
    }

    fn dictionary(&mut self, message: &Message<'_>, data: FlightData) -> Result<(), FlightError> {
        let schema = self.known_schema()?;
        let dictionary = message
            .header_as_dictionary_batch()
            .ok_or_else(|| FlightError::malformed("a dictionary message without a dictionary"))?;
        let values = dictionary
            .data()
            .ok_or_else(|| FlightError::malformed("a dictionary without values"))?;
        if dictionary.isDelta() {
            return Err(FlightError::malformed("delta dictionaries are not taken"));
        }
        let layout = match dictionary.id() == OWN_SCHEMA.templates_id {
            true => &self.template_layout,
            false => &self.text_layout,
        };
        let most = self.limits.batch_bytes;
        self.account(inspect::check(&values, &data.data_body, layout, most)?)?;
        read_dictionary(
            &aligned(data.data_body),
            dictionary,
            &schema,
            &mut self.dictionaries,
            &message.version(),
        )
        .map_err(FlightError::malformed)
    }

    fn rows(&mut self, message: &Message<'_>, data: FlightData) -> Result<Put, FlightError> {
        let metadata = PutMetadata::decode(&data.app_metadata)?;
        if metadata.origin.sequence == 0 {
            return Err(FlightError::malformed("batches are numbered from 1"));
        }
        let schema = self.known_schema()?;
        let header = message
            .header_as_record_batch()
            .ok_or_else(|| FlightError::malformed("a batch message without a batch"))?;
        self.account(inspect::check(
            &header,
            &data.data_body,
            &self.row_layout,
            self.limits.batch_bytes,
        )?)?;
        let body = aligned(data.data_body);
        let batch = RecordBatchDecoder::try_new(
            &body,
            header,
            schema,
            &self.dictionaries,
            &message.version(),
        )
        .and_then(RecordBatchDecoder::read_record_batch)
        .map_err(FlightError::malformed)?;
        self.forget_dictionaries();
        check_cells(&batch)?;
        check_attributes(&batch)?;
        let rows = self.templates.rows(&batch)?;
        Ok(Put::Batch { origin: metadata.origin, rows, facts: metadata.facts })
    }

    fn known_schema(&self) -> Result<SchemaRef, FlightError> {
        self.started
            .then(|| Arc::clone(&OWN_SCHEMA.schema))
            .ok_or_else(|| FlightError::malformed("the stream does not begin with a schema"))
    }

    fn account(&mut self, bytes: usize) -> Result<(), FlightError> {
        self.pending_bytes = self.pending_bytes.saturating_add(bytes);
        if self.pending_bytes > self.limits.batch_bytes {
            return Err(FlightError::TooLarge {
                what: "bytes of a batch",
                limit: self.limits.batch_bytes,
            });
        }
        Ok(())
    }

    /// Every batch contains its own dictionaries, so none is kept between batches.
    fn forget_dictionaries(&mut self) {
        self.dictionaries.clear();
        self.pending_bytes = 0;
    }
}

/// The body at an address that is aligned for Arrow. Copied if necessary.
fn aligned(body: Bytes) -> Buffer {
    if body.as_ptr().align_offset(align_of::<i64>()) == 0 {
        Buffer::from(body)
    } else {
        Buffer::from(body.as_ref())
    }
}

/// Checks what the types do not guarantee: values of closed vocabularies, and span ids that are not
/// zero.
fn check_cells(batch: &RecordBatch) -> Result<(), FlightError> {
    words::<Kind>(batch, column::KIND)?;
    words::<Status>(batch, column::STATUS)?;
    words::<Capture>(batch, column::CAPTURE)?;
    words::<Evidence>(batch, column::EVIDENCE)?;
    let ids = batch
        .column_by_name(column::SPAN_ID)
        .and_then(|ids| ids.as_fixed_size_binary_opt())
        .ok_or_else(|| FlightError::malformed("no span ids"))?;
    if ids.iter().flatten().any(|id| id.iter().all(|byte| *byte == 0)) {
        return Err(FlightError::malformed("a span id is all zero"));
    }
    Ok(())
}

/// Maximum attributes of one span. More than any receiver keeps.
pub(super) const MOST_ATTRIBUTES: usize = (1 << 16) + 64;

/// Checks that no span has excessive attributes, which would cost every reader of its rows.
fn check_attributes(batch: &RecordBatch) -> Result<(), FlightError> {
    let maps = batch.column_by_name(column::ATTRIBUTES).and_then(|maps| maps.as_map_opt());
    let offsets = maps.map_or(&[][..], |maps| maps.value_offsets());
    let is_too_much = |pair: &[i32]| {
        usize::try_from(pair[1] - pair[0]).is_ok_and(|count| count > MOST_ATTRIBUTES)
    };
    match offsets.windows(2).any(is_too_much) {
        true => Err(FlightError::TooLarge { what: "attributes of a span", limit: MOST_ATTRIBUTES }),
        false => Ok(()),
    }
}

fn words<T: FromStr>(batch: &RecordBatch, name: &'static str) -> Result<(), FlightError>
where
    T::Err: std::fmt::Display,
{
    let texts = batch
        .column_by_name(name)
        .and_then(|array| array.as_dictionary_opt::<Int32Type>())
        .ok_or_else(|| FlightError::malformed(format_args!("no column `{name}`")))?;
    let values = texts.values().as_string_opt::<i32>().ok_or_else(|| {
        FlightError::malformed(ArrowError::SchemaError(format!("column `{name}` holds no texts")))
    })?;
    for value in values.iter().flatten() {
        value
            .parse::<T>()
            .map_err(|error| FlightError::malformed(format_args!("column `{name}`: {error}")))?;
    }
    // A null in the dictionary would make a row null although its key is not.
    if values.null_count() > 0 {
        return Err(FlightError::malformed(format_args!("column `{name}` has null words")));
    }
    Ok(())
}
