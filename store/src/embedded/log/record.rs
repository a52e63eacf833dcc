//! A record of the write-ahead log: a batch with its number and origin, or the templates that later
//! batches refer to.
//!
//! ```text
//! length u32 | crc32 of the body u32 | body
//! body: version u8 | has origin u8 | source 16 | sequence u64 | batch u64 | content
//! content: length u32 | packed, compressed with zstd if that is shorter
//! packed: rows (see [`templates`]); in version 5: templates
//!         in version 3: columns (see [`columns`])
//! in versions 1 and 2 the content is zstd(Arrow IPC stream)
//! ```
//! All integers are little-endian.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::FieldRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;

use spanwise_model::schema::span_schema;
use spanwise_model::{SpanRows, Template};

use super::templates::TemplatesByNumber;
use super::{columns, templates};
use crate::contract::Origin;
use crate::embedded::recent::chunk::rows_bytes;

const VERSION: u8 = 4;
/// Templates instead of a batch.
const VERSION_TEMPLATES: u8 = 5;
/// Columns, without templates.
const VERSION_COLUMNS: u8 = 3;
/// The last version with an Arrow IPC stream. Version 1 had all columns, version 2 only those with
/// values.
const VERSION_IPC: u8 = 2;
/// A log is written once and read at most once. So speed matters more than size.
const ZSTD_LEVEL: i32 = -20;
const HEAD_BYTES: usize = 8;
const BODY_HEAD_BYTES: usize = 2 + 16 + 8 + 8;
/// No batch is nearly this large. A longer length means damage.
pub(crate) const MAX_RECORD_BYTES: usize = 1 << 30;

/// A batch in the log.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) batch: u64,
    pub(crate) origin: Option<Origin>,
    pub(crate) rows: SpanRows,
    /// Memory of the rows.
    pub(crate) memory_bytes: u64,
}

/// The contents of a record.
#[derive(Debug)]
pub(crate) enum Entry {
    Batch(Record),
    /// Templates. The decoder has added them to the known ones.
    Templates,
}

/// Why a record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("a record's length is impossible")]
    Length,
    #[error("it ends in the midst of a record")]
    Truncated,
    #[error("a record's checksum is wrong")]
    Checksum,
    #[error("a record cannot be decoded")]
    Content,
}

impl Record {
    /// The record's bytes.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, ArrowError> {
        ROOM.with_borrow_mut(|room| {
            let packed = room.pack(|bytes| templates::write_rows(&self.rows, bytes))?;
            let mut record = Vec::with_capacity(HEAD_BYTES + BODY_HEAD_BYTES + packed.len());
            frame((VERSION, self.origin, self.batch), packed, &mut record)?;
            Ok(record)
        })
    }

    /// Appends a record of templates.
    pub(crate) fn put_templates(
        templates: &[Arc<Template>],
        to: &mut Vec<u8>,
    ) -> Result<(), ArrowError> {
        ROOM.with_borrow_mut(|room| {
            let packed = room.pack(|bytes| {
                templates::write(templates, bytes);
                Ok(())
            })?;
            frame((VERSION_TEMPLATES, None, 0), packed, to)
        })
    }

    /// Whether `bytes` begins with a complete and intact record.
    pub(crate) fn is_sound(bytes: &[u8]) -> bool {
        body(bytes).is_ok_and(|body| body.is_some())
    }

    /// The length that the header of the record at the start of `bytes` states.
    pub(crate) fn claimed_length(bytes: &[u8]) -> Option<usize> {
        let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
        (BODY_HEAD_BYTES..=MAX_RECORD_BYTES).contains(&length).then(|| HEAD_BYTES + length)
    }

    /// Decodes the record at the start of `bytes` and returns it with its length. `None` at the
    /// end. `known` has the templates that earlier records of the segment defined.
    pub(crate) fn decode(
        bytes: &[u8],
        known: &mut TemplatesByNumber,
    ) -> Result<Option<(Entry, usize)>, Damage> {
        let Some(body) = body(bytes)? else { return Ok(None) };
        let length = HEAD_BYTES + body.len();
        let mut source = [0; 16];
        source.copy_from_slice(&body[2..18]);
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&body[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let origin = (body[1] == 1).then(|| Origin { source, sequence: number(18) });
        let content = &body[BODY_HEAD_BYTES..];
        let rows = match body[0] {
            1..=VERSION_IPC => unpack_ipc(content).map(SpanRows::from),
            VERSION_COLUMNS => unpack(content).and_then(|bytes| Ok(columns::read(&bytes)?.into())),
            VERSION => unpack(content).and_then(|bytes| templates::read_rows(&bytes, known)),
            VERSION_TEMPLATES => {
                let read = unpack(content).and_then(|bytes| templates::read(&bytes, known));
                read.map_err(|_| Damage::Content)?;
                return Ok(Some((Entry::Templates, length)));
            }
            _ => return Err(Damage::Content),
        };
        let rows = rows.map_err(|_| Damage::Content)?;
        let memory_bytes = rows_bytes(&rows);
        let record = Self { batch: number(26), origin, rows, memory_bytes };
        Ok(Some((Entry::Batch(record), length)))
    }
}

/// Appends a record with this version, origin and number.
fn frame(
    (version, origin, batch): (u8, Option<Origin>, u64),
    content: &[u8],
    to: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    let start = to.len();
    let length = record_length(BODY_HEAD_BYTES + content.len())?;
    to.extend_from_slice(&length.to_le_bytes());
    to.extend_from_slice(&[0; HEAD_BYTES - 4]);
    to.push(version);
    to.push(u8::from(origin.is_some()));
    to.extend_from_slice(&origin.map_or([0; 16], |origin| origin.source));
    to.extend_from_slice(&origin.map_or(0, |origin| origin.sequence).to_le_bytes());
    to.extend_from_slice(&batch.to_le_bytes());
    to.extend_from_slice(content);
    let checksum = crc32fast::hash(&to[start + HEAD_BYTES..]);
    to[start + 4..start + HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// The body of the record at the start of `bytes`. `None` at the end.
fn body(bytes: &[u8]) -> Result<Option<&[u8]>, Damage> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let head = bytes.first_chunk::<HEAD_BYTES>().ok_or(Damage::Truncated)?;
    let [l0, l1, l2, l3, c0, c1, c2, c3] = *head;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if !(BODY_HEAD_BYTES..=MAX_RECORD_BYTES).contains(&length) {
        return Err(Damage::Length);
    }
    let body = bytes.get(HEAD_BYTES..HEAD_BYTES + length).ok_or(Damage::Truncated)?;
    if crc32fast::hash(body) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Err(Damage::Checksum);
    }
    Ok(Some(body))
}

fn record_length(bytes: usize) -> Result<u32, ArrowError> {
    let length = u32::try_from(bytes).ok().filter(|_| bytes <= MAX_RECORD_BYTES);
    length.ok_or_else(|| ArrowError::InvalidArgumentError("the batch is too large".to_owned()))
}

/// Buffers for compression. Each thread keeps its own.
#[derive(Default)]
struct Room {
    plain: Vec<u8>,
    packed: Vec<u8>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

/// Larger than normal batches need. Buffers of larger batches are freed.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

impl Room {
    /// Compresses a record's content.
    fn pack(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), ArrowError>,
    ) -> Result<&[u8], ArrowError> {
        let Self { plain, packed, compressor } = self;
        plain.clear();
        plain.shrink_to(KEPT_BYTES);
        write(plain)?;
        let length = record_length(plain.len())?.to_le_bytes();
        let start = length.len();
        let most = start + zstd::zstd_safe::compress_bound(plain.len());
        if packed.len() < most || packed.len() > KEPT_BYTES {
            packed.resize(most, 0);
            packed.shrink_to(KEPT_BYTES.max(most));
        }
        packed[..start].copy_from_slice(&length);
        let compressor = match compressor {
            Some(compressor) => compressor,
            None => compressor.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
        };
        let mut end = start + compressor.compress_to_buffer(&plain[..], &mut packed[start..])?;
        if end - start >= plain.len() {
            end = start + plain.len();
            packed[start..end].copy_from_slice(plain);
        }
        Ok(&packed[..end])
    }
}

fn unpack(packed: &[u8]) -> Result<Cow<'_, [u8]>, ArrowError> {
    let short = || ArrowError::ParseError("a record without rows".to_owned());
    let (length, packed) = packed.split_first_chunk().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    if packed.len() == length {
        return Ok(packed.into());
    }
    Ok(zstd::bulk::decompress(packed, length.min(MAX_RECORD_BYTES))?.into())
}

fn unpack_ipc(packed: &[u8]) -> Result<RecordBatch, ArrowError> {
    let stream = zstd::stream::decode_all(packed)?;
    let mut batches = StreamReader::try_new(Cursor::new(stream), None)?;
    let none = || ArrowError::ParseError("a record without a batch".to_owned());
    with_all_columns(&batches.next().ok_or_else(none)??)
}

/// Adds the columns that were omitted.
fn with_all_columns(rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = span_schema();
    let column = |field: &FieldRef| {
        let there = rows.column_by_name(field.name()).cloned();
        there.unwrap_or_else(|| new_null_array(field.data_type(), rows.num_rows()))
    };
    let columns = schema.fields().iter().map(column).collect();
    let count = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &count)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use arrow::array::Array;
    use arrow::ipc::writer::StreamWriter;
    use proptest::prelude::*;
    use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId};

    pub(crate) fn record(rows: u64, origin: Option<Origin>) -> Record {
        let spans: Vec<Span> = (1..=rows)
            .map(|id| {
                let id = SpanId::from_u64(id).expect("not zero");
                let (service, name) = ("service", "operation");
                let mut span = Span::new(id, Capture::App, Kind::Internal, service, name, 1, 2);
                span.attributes = vec![
                    ("shared".to_owned(), id.0[7].is_multiple_of(2).into()),
                    ("own".to_owned(), "x".repeat(300).into()),
                ];
                // Spans with many keys have no template.
                let many = (0..200).filter(|_| id.0[7] == 5);
                span.attributes.extend(many.map(|key| (format!("k{key}"), true.into())));
                span
            })
            .collect();
        // The builder starts using templates after some thousand rows.
        let mut builder = SpanBatchBuilder::sharing();
        spans.iter().cycle().take(5_000).for_each(|span| builder.push(span));
        builder.finish_rows().expect("rows");
        spans.iter().for_each(|span| builder.push(span));
        let rows = builder.finish_rows().expect("rows");
        assert!(!rows.templated().expect("templates").templates().is_empty());
        Record { batch: 7, origin, memory_bytes: rows_bytes(&rows), rows }
    }

    /// The contents of a segment that begins with this record.
    pub(crate) fn segment(record: &Record) -> Vec<u8> {
        let mut bytes = Vec::new();
        let templates = record.rows.templated().expect("templates").templates();
        Record::put_templates(templates, &mut bytes).expect("templates");
        bytes.extend(record.encode().expect("encodes"));
        bytes
    }

    /// The encoding of version 2.
    fn encode_as_ipc(record: &Record) -> Vec<u8> {
        let whole = whole(record);
        let columns = whole.columns().iter().enumerate();
        let valued = columns.filter(|(_, array)| array.null_count() < array.len());
        let valued: Vec<usize> = valued.map(|(index, _)| index).collect();
        let rows = whole.project(&valued).expect("its columns");
        let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema()).expect("a schema");
        writer.write(&rows).expect("written");
        let stream = writer.into_inner().expect("finished");
        let packed = zstd::bulk::compress(&stream, -3).expect("packed");
        let mut bytes = Vec::new();
        let head = (VERSION_IPC, record.origin, record.batch);
        frame(head, &packed, &mut bytes).expect("framed");
        bytes
    }

    /// The batch at the start of these bytes, and the length of its record.
    fn decoded(bytes: &[u8], known: &mut TemplatesByNumber) -> (Record, usize) {
        match Record::decode(bytes, known) {
            Ok(Some((Entry::Batch(record), length))) => (record, length),
            other => panic!("no batch: {other:?}"),
        }
    }

    fn whole(record: &Record) -> RecordBatch {
        record.rows.whole().expect("rows")
    }

    #[test]
    fn records_of_earlier_versions_are_read() {
        let record = record(20, Some(Origin { source: [3; 16], sequence: 9 }));
        let mut bytes = encode_as_ipc(&record);
        for version in [VERSION_IPC, 1] {
            bytes[HEAD_BYTES] = version;
            let checksum = crc32fast::hash(&bytes[HEAD_BYTES..]);
            bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
            let (back, length) = decoded(&bytes, &mut TemplatesByNumber::new());
            assert_eq!(length, bytes.len());
            assert_eq!(whole(&back), whole(&record));
            assert_eq!((back.batch, back.origin), (record.batch, record.origin));
        }
        let mut room = Room::default();
        let packed = room.pack(|bytes| columns::write(&whole(&record), bytes)).expect("packed");
        let mut bytes = Vec::new();
        frame((VERSION_COLUMNS, None, 3), packed, &mut bytes).expect("framed");
        let (back, _) = decoded(&bytes, &mut TemplatesByNumber::new());
        assert_eq!((whole(&back), back.batch), (whole(&record), 3));
    }

    proptest! {
        #[test]
        fn records_survive_and_damage_is_found(
            rows in 1u64..50,
            sequence in proptest::option::of(any::<u64>()),
            flip in any::<prop::sample::Index>(),
            bit in 0u8..8,
        ) {
            let origin = sequence.map(|sequence| Origin { source: [3; 16], sequence });
            let record = record(rows, origin);
            let segment = segment(&record);
            let mut known = TemplatesByNumber::new();
            let templates = Record::decode(&segment, &mut known).expect("sound").expect("a record");
            prop_assert!(matches!(templates.0, Entry::Templates));
            let mut bytes = segment[templates.1..].to_vec();
            let (back, length) = decoded(&bytes, &mut known);
            prop_assert_eq!(length, bytes.len());
            prop_assert_eq!(whole(&back), whole(&record));
            // The templates are unknown.
            prop_assert!(Record::decode(&bytes, &mut TemplatesByNumber::new()).is_err());
            prop_assert_eq!((back.batch, back.origin), (7, origin));
            for cut in 1..bytes.len() {
                prop_assert!(Record::decode(&bytes[..cut], &mut known).is_err());
            }
            let at = flip.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(Record::decode(&bytes, &mut known).is_err());
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Record::decode(&bytes, &mut TemplatesByNumber::new());
            let _ = templates::read(&bytes, &mut TemplatesByNumber::new());
            let _ = templates::read_rows(&bytes, &TemplatesByNumber::new());
        }
    }
}
