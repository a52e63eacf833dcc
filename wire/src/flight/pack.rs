//! Encodes a batch as Arrow messages with LZ4: its complete dictionaries, then its rows.
//!
//! Arrow's own writer gives an equivalent result. But it copies each column into a compressor that
//! it allocates and clears for each column, which took up to half of the encoding time.

use arrow::array::{Array as _, ArrayData, RecordBatch};
use arrow::datatypes::DataType;
use arrow::ipc::{
    BodyCompressionBuilder, BodyCompressionMethod, Buffer, CompressionType, DictionaryBatchBuilder,
    FieldNode, MessageBuilder, MessageHeader, MetadataVersion, RecordBatchBuilder,
};
use arrow_flight::FlightData;
use flatbuffers::FlatBufferBuilder;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use crate::inspect::NOT_COMPRESSED;

/// Alignment for the widest values. Arrow's usual 64 bytes would mostly be padding, because a batch
/// has about a hundred buffers.
pub(super) const ALIGNMENT: usize = 8;

/// The header of a frame with independent blocks of at most 64 KiB, without checksums (LZ4 Frame
/// Format 1.6.4): magic number, FLG, BD and header checksum.
const FRAME_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
/// Slightly smaller than 64 KiB, so that the compressor can use its smaller table.
const BLOCK_BYTES: usize = (64 << 10) - 2;
/// Flag in a block's length: the block is not compressed.
const BLOCK_NOT_COMPRESSED: u32 = 1 << 31;

/// Encodes batches and reuses its memory.
pub(super) struct Packer {
    compressor: Compressor,
    header: FlatBufferBuilder<'static>,
    /// Bytes of the previous batch's rows.
    usual_bytes: usize,
}

impl Default for Packer {
    fn default() -> Self {
        let compressor = Compressor {
            table: CompressTable::small(),
            block: vec![0; get_maximum_output_size(BLOCK_BYTES)],
        };
        Self { compressor, header: FlatBufferBuilder::new(), usual_bytes: 0 }
    }
}

impl Packer {
    /// The messages of a batch. Returns `None` if the batch is a slice of its columns, or has a
    /// column type that spans do not use.
    pub(super) fn pack(&mut self, batch: &RecordBatch) -> Option<Vec<FlightData>> {
        let columns: Vec<ArrayData> =
            batch.columns().iter().map(|column| column.to_data()).collect();
        // In the order of their ids, which follow the order of the schema.
        let dictionaries: Vec<&ArrayData> =
            columns.iter().filter(|column| is_dictionary(column)).map(values_of).collect();
        if !columns.iter().chain(dictionaries.iter().copied()).all(is_whole) {
            return None;
        }
        let ids = 0..dictionaries.len() as i64;
        let mut messages: Vec<FlightData> = ids
            .zip(dictionaries)
            .map(|(id, values)| {
                self.message(Some(id), values.len(), std::slice::from_ref(values), 0)
            })
            .collect();
        let rows = self.message(None, batch.num_rows(), &columns, self.usual_bytes);
        self.usual_bytes = rows.data_body.len();
        messages.push(rows);
        Some(messages)
    }

    /// The message for some columns, or for a dictionary's values.
    fn message(
        &mut self,
        dictionary: Option<i64>,
        rows: usize,
        columns: &[ArrayData],
        usual_bytes: usize,
    ) -> FlightData {
        let mut body = Body {
            compressor: &mut self.compressor,
            bytes: Vec::with_capacity(usual_bytes + usual_bytes / 8),
            nodes: Vec::new(),
            buffers: Vec::new(),
        };
        columns.iter().for_each(|column| body.column(column));
        let Body { bytes, nodes, buffers, .. } = body;
        let header = self.header(dictionary, rows, bytes.len(), &nodes, &buffers);
        FlightData::new().with_data_header(header).with_data_body(bytes)
    }

    fn header(
        &mut self,
        dictionary: Option<i64>,
        rows: usize,
        body_bytes: usize,
        nodes: &[FieldNode],
        buffers: &[Buffer],
    ) -> Vec<u8> {
        let to = &mut self.header;
        to.reset();
        let mut compression = BodyCompressionBuilder::new(to);
        compression.add_method(BodyCompressionMethod::BUFFER);
        compression.add_codec(CompressionType::LZ4_FRAME);
        let compression = compression.finish();
        let buffers = to.create_vector(buffers);
        let nodes = to.create_vector(nodes);
        let mut batch = RecordBatchBuilder::new(to);
        batch.add_length(rows as i64);
        batch.add_nodes(nodes);
        batch.add_buffers(buffers);
        batch.add_compression(compression);
        let batch = batch.finish();
        let (header_type, header) = match dictionary {
            None => (MessageHeader::RecordBatch, batch.as_union_value()),
            Some(id) => {
                let mut values = DictionaryBatchBuilder::new(to);
                values.add_id(id);
                values.add_data(batch);
                (MessageHeader::DictionaryBatch, values.finish().as_union_value())
            }
        };
        let mut message = MessageBuilder::new(to);
        message.add_version(MetadataVersion::V5);
        message.add_header_type(header_type);
        message.add_bodyLength(body_bytes as i64);
        message.add_header(header);
        let message = message.finish();
        to.finish(message, None);
        to.finished_data().to_vec()
    }
}

fn is_dictionary(data: &ArrayData) -> bool {
    matches!(data.data_type(), DataType::Dictionary(..))
}

/// The values of a dictionary column.
fn values_of(rows: &ArrayData) -> &ArrayData {
    &rows.child_data()[0]
}

/// Bytes of one value of a fixed-width type.
fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).ok(),
        DataType::Dictionary(key, _) => key.primitive_width(),
        other => other.primitive_width(),
    }
}

/// The offsets of a column of texts or lists.
fn offsets(data: &ArrayData) -> &[i32] {
    if data.is_empty() { &[] } else { &data.buffers()[0].typed_data::<i32>()[..=data.len()] }
}

/// Whether a column is not a slice.
fn is_whole(data: &ArrayData) -> bool {
    let begins = || offsets(data).first().is_none_or(|first| *first == 0);
    data.offset() == 0
        && match data.data_type() {
            DataType::Utf8 | DataType::Binary => begins(),
            DataType::List(_) | DataType::Map(..) => {
                let [child] = data.child_data() else { return false };
                let end = offsets(data).last().map_or(0, |end| *end as usize);
                begins() && child.len() == end && is_whole(child)
            }
            DataType::Struct(_) => {
                data.child_data().iter().all(|child| child.len() == data.len() && is_whole(child))
            }
            other => width(other).is_some(),
        }
}

/// A message body under construction.
struct Body<'a> {
    compressor: &'a mut Compressor,
    bytes: Vec<u8>,
    nodes: Vec<FieldNode>,
    buffers: Vec<Buffer>,
}

impl Body<'_> {
    /// Adds a column, which must not be a slice, and its children.
    fn column(&mut self, data: &ArrayData) {
        self.nodes.push(FieldNode::new(data.len() as i64, data.null_count() as i64));
        match data.nulls() {
            Some(nulls) if nulls.null_count() > 0 => self.buffer(&nulls.inner().sliced()),
            _ => self.buffer(&[]),
        }
        match data.data_type() {
            DataType::Utf8 | DataType::Binary => {
                let offsets = offsets(data);
                self.values(data, size_of_val(offsets));
                let end = offsets.last().map_or(0, |end| *end as usize);
                self.buffer(&data.buffers()[1][..end]);
            }
            DataType::List(_) | DataType::Map(..) => {
                self.values(data, size_of_val(offsets(data)));
            }
            DataType::Struct(_) => {}
            other => self.values(data, data.len() * width(other).unwrap_or(0)),
        }
        // A dictionary's values are a message of their own.
        if !is_dictionary(data) {
            data.child_data().iter().for_each(|child| self.column(child));
        }
    }

    /// Adds this many bytes of a column's first buffer.
    fn values(&mut self, data: &ArrayData, bytes: usize) {
        self.buffer(&data.buffers()[0][..bytes]);
    }

    fn buffer(&mut self, values: &[u8]) {
        let start = self.bytes.len();
        if !values.is_empty() {
            self.compressor.pack(values, &mut self.bytes);
        }
        self.buffers.push(Buffer::new(start as i64, (self.bytes.len() - start) as i64));
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

struct Compressor {
    table: CompressTable,
    /// Space for the longest block.
    block: Vec<u8>,
}

impl Compressor {
    /// Appends an Arrow buffer (Arrow Columnar Format, Compression): its length and a frame, or the
    /// uncompressed values if a frame would not be shorter.
    fn pack(&mut self, values: &[u8], to: &mut Vec<u8>) {
        let start = to.len();
        to.extend((values.len() as i64).to_le_bytes());
        to.extend(FRAME_HEADER);
        for block in values.chunks(BLOCK_BYTES) {
            match compress_into_with_table(block, &mut self.block, &mut self.table) {
                Ok(bytes) if bytes < block.len() => {
                    to.extend((bytes as u32).to_le_bytes());
                    to.extend_from_slice(&self.block[..bytes]);
                }
                _ => {
                    to.extend((block.len() as u32 | BLOCK_NOT_COMPRESSED).to_le_bytes());
                    to.extend_from_slice(block);
                }
            }
        }
        to.extend([0; 4]);
        if to.len() - start >= values.len() + size_of::<i64>() {
            to.truncate(start);
            to.extend(NOT_COMPRESSED.to_le_bytes());
            to.extend_from_slice(values);
        }
    }
}
