//! One record of the write-ahead log: a batch, its number and its origin.
//!
//! ```text
//! length u32 | crc32 of the body u32 | body
//! body: version u8 | has origin u8 | source 16 | sequence u64 | batch u64 | rows
//! rows: length u32 | columns (see [`columns`]), by zstd where that makes them shorter
//!       in versions 1 and 2: zstd(Arrow IPC stream)
//! ```
//! All integers little-endian.

use std::cell::RefCell;
use std::io::Cursor;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::FieldRef;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;

use spanwise_model::schema::span_schema;

use super::chunk::batch_bytes;
use super::columns;
use crate::contract::Origin;

const VERSION: u8 = 3;
/// The last version whose rows are an Arrow IPC stream. Version 1 had all its
/// columns, version 2 those with a value.
const VERSION_IPC: u8 = 2;
/// A log is written once and read at most once, so that little time for it is
/// worth more than few bytes.
const ZSTD_LEVEL: i32 = -20;
const HEAD_BYTES: usize = 8;
const BODY_HEAD_BYTES: usize = 2 + 16 + 8 + 8;
/// No batch is anywhere near this large; a longer length is damage.
pub(super) const MAX_RECORD_BYTES: usize = 1 << 30;

/// A batch as the log holds it.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) batch: u64,
    pub(super) origin: Option<Origin>,
    pub(super) rows: RecordBatch,
    /// Memory of the rows.
    pub(super) memory_bytes: u64,
}

/// Why a record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
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
    pub(super) fn encode(&self) -> Result<Vec<u8>, ArrowError> {
        ROOM.with_borrow_mut(|room| {
            let packed = room.pack(&self.rows)?;
            self.framed(VERSION, packed)
        })
    }

    fn framed(&self, version: u8, rows: &[u8]) -> Result<Vec<u8>, ArrowError> {
        let mut body = Vec::with_capacity(HEAD_BYTES + BODY_HEAD_BYTES + rows.len());
        body.extend_from_slice(&[0; HEAD_BYTES]);
        body.push(version);
        body.push(u8::from(self.origin.is_some()));
        body.extend_from_slice(&self.origin.map_or([0; 16], |origin| origin.source));
        body.extend_from_slice(&self.origin.map_or(0, |origin| origin.sequence).to_le_bytes());
        body.extend_from_slice(&self.batch.to_le_bytes());
        body.extend_from_slice(rows);
        let length = record_length(body.len() - HEAD_BYTES)?;
        let checksum = crc32fast::hash(&body[HEAD_BYTES..]);
        body[..4].copy_from_slice(&length.to_le_bytes());
        body[4..8].copy_from_slice(&checksum.to_le_bytes());
        Ok(body)
    }

    /// How long the record at the start of `bytes` says that it is.
    pub(super) fn claimed_length(bytes: &[u8]) -> Option<usize> {
        let length = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
        (BODY_HEAD_BYTES..=MAX_RECORD_BYTES).contains(&length).then(|| HEAD_BYTES + length)
    }

    /// The record at the start of `bytes`, and its length; `None` at the end.
    pub(super) fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, Damage> {
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
        if !(1..=VERSION).contains(&body[0]) {
            return Err(Damage::Content);
        }
        let mut source = [0; 16];
        source.copy_from_slice(&body[2..18]);
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&body[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let origin = (body[1] == 1).then(|| Origin { source, sequence: number(18) });
        let packed = &body[BODY_HEAD_BYTES..];
        let rows = if body[0] <= VERSION_IPC { unpack_ipc(packed) } else { unpack(packed) };
        let rows = rows.map_err(|_| Damage::Content)?;
        let memory_bytes = batch_bytes(&rows);
        let record = Self { batch: number(26), origin, rows, memory_bytes };
        Ok(Some((record, HEAD_BYTES + length)))
    }
}

fn record_length(bytes: usize) -> Result<u32, ArrowError> {
    let length = u32::try_from(bytes).ok().filter(|_| bytes <= MAX_RECORD_BYTES);
    length.ok_or_else(|| ArrowError::InvalidArgumentError("the batch is too large".to_owned()))
}

/// What it takes to pack batches, kept by each thread that does.
#[derive(Default)]
struct Room {
    columns: Vec<u8>,
    packed: Vec<u8>,
    compressor: Option<zstd::bulk::Compressor<'static>>,
}

/// Longer than batches of usual size; what a longer one took is given back.
const KEPT_BYTES: usize = 4 << 20;

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

impl Room {
    /// The rows as they stand in a record.
    fn pack(&mut self, rows: &RecordBatch) -> Result<&[u8], ArrowError> {
        let Self { columns, packed, compressor } = self;
        columns.clear();
        columns.shrink_to(KEPT_BYTES);
        columns::write(rows, columns)?;
        let length = record_length(columns.len())?.to_le_bytes();
        let start = length.len();
        let most = start + zstd::zstd_safe::compress_bound(columns.len());
        if packed.len() < most || packed.len() > KEPT_BYTES {
            packed.resize(most, 0);
            packed.shrink_to(KEPT_BYTES.max(most));
        }
        packed[..start].copy_from_slice(&length);
        let compressor = match compressor {
            Some(compressor) => compressor,
            None => compressor.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
        };
        let mut end = start + compressor.compress_to_buffer(&columns[..], &mut packed[start..])?;
        if end - start >= columns.len() {
            end = start + columns.len();
            packed[start..end].copy_from_slice(columns);
        }
        Ok(&packed[..end])
    }
}

fn unpack(packed: &[u8]) -> Result<RecordBatch, ArrowError> {
    let short = || ArrowError::ParseError("a record without rows".to_owned());
    let (length, packed) = packed.split_first_chunk().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    if packed.len() == length {
        return columns::read(packed);
    }
    columns::read(&zstd::bulk::decompress(packed, length.min(MAX_RECORD_BYTES))?)
}

fn unpack_ipc(packed: &[u8]) -> Result<RecordBatch, ArrowError> {
    let stream = zstd::stream::decode_all(packed)?;
    let mut batches = StreamReader::try_new(Cursor::new(stream), None)?;
    let none = || ArrowError::ParseError("a record without a batch".to_owned());
    with_all_columns(&batches.next().ok_or_else(none)??)
}

/// The rows with those columns, too, that were left out.
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
pub(super) mod tests {
    use super::*;
    use arrow::array::Array;
    use arrow::ipc::writer::StreamWriter;
    use proptest::prelude::*;
    use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId};

    pub(in super::super) fn record(rows: u64, origin: Option<Origin>) -> Record {
        let spans: Vec<Span> = (1..=rows)
            .map(|id| {
                let id = SpanId::from_u64(id).expect("not zero");
                Span::new(id, Capture::App, Kind::Internal, "service", "operation", 1, 2)
            })
            .collect();
        let rows = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        Record { batch: 7, origin, memory_bytes: batch_bytes(&rows), rows }
    }

    /// As version 2 wrote it.
    fn encode_as_ipc(record: &Record) -> Vec<u8> {
        let columns = record.rows.columns().iter().enumerate();
        let valued = columns.filter(|(_, array)| array.null_count() < array.len());
        let valued: Vec<usize> = valued.map(|(index, _)| index).collect();
        let rows = record.rows.project(&valued).expect("its columns");
        let mut writer = StreamWriter::try_new(Vec::new(), &rows.schema()).expect("a schema");
        writer.write(&rows).expect("written");
        let stream = writer.into_inner().expect("finished");
        let packed = zstd::bulk::compress(&stream, -3).expect("packed");
        record.framed(VERSION_IPC, &packed).expect("framed")
    }

    #[test]
    fn records_of_earlier_versions_are_read() {
        let record = record(20, Some(Origin { source: [3; 16], sequence: 9 }));
        let mut bytes = encode_as_ipc(&record);
        for version in [VERSION_IPC, 1] {
            bytes[HEAD_BYTES] = version;
            let checksum = crc32fast::hash(&bytes[HEAD_BYTES..]);
            bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
            let (back, length) = Record::decode(&bytes).expect("sound").expect("one record");
            assert_eq!(length, bytes.len());
            assert_eq!(back.rows, record.rows);
            assert_eq!((back.batch, back.origin), (record.batch, record.origin));
        }
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
            let mut bytes = record.encode().expect("encodes");
            let (back, length) = Record::decode(&bytes).expect("sound").expect("one record");
            prop_assert_eq!(length, bytes.len());
            prop_assert_eq!(back.rows, record.rows);
            prop_assert_eq!((back.batch, back.origin), (7, origin));
            for cut in 1..bytes.len() {
                prop_assert!(Record::decode(&bytes[..cut]).is_err());
            }
            let at = flip.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(Record::decode(&bytes).is_err());
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Record::decode(&bytes);
        }
    }
}
