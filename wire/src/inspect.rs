//! Checks a message's Arrow header before Arrow decodes the body.
//!
//! Arrow's reader trusts buffer positions and claimed uncompressed lengths: it slices and allocates
//! accordingly. So they are checked here against the body and a limit. Arrow itself validates the
//! values.

use std::io::{self, Read};

use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::ipc::{CompressionType, RecordBatch as Header};
use lz4_flex::frame::FrameDecoder;

/// In place of a compressed buffer's length: the buffer is not compressed.
pub(crate) const NOT_COMPRESSED: i64 = -1;

/// Accepted compressions of buffers.
const TAKEN: [CompressionType; 2] = [CompressionType::ZSTD, CompressionType::LZ4_FRAME];

/// Why a message is not passed to Arrow.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InspectError {
    /// The header contradicts the body or the schema.
    #[error("{0}")]
    Malformed(String),
    /// The message would exceed the limit.
    #[error("{what} (limit {limit})")]
    TooLarge {
        /// What exceeds the limit.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

impl InspectError {
    fn malformed(reason: impl ToString) -> Self {
        Self::Malformed(reason.to_string())
    }
}

/// A node of a column tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    /// Whether it is a struct that the schema declares as not null.
    required_struct: bool,
    /// Index of the validity buffer, which is the first of the node's buffers.
    validity: usize,
}

/// The nodes and buffers of some columns, in Arrow's order.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    nodes: Vec<Node>,
    /// For each buffer, the bytes of one value.
    widths: Vec<usize>,
}

impl Layout {
    /// The layout of these columns.
    pub(crate) fn new<'a>(fields: impl IntoIterator<Item = &'a FieldRef>) -> Self {
        let mut layout = Self::default();
        fields.into_iter().for_each(|field| layout.add(field));
        layout
    }

    fn add(&mut self, field: &Field) {
        let data_type = field.data_type();
        let required_struct = matches!(data_type, DataType::Struct(_)) && !field.is_nullable();
        self.nodes.push(Node { required_struct, validity: self.widths.len() });
        self.widths.push(1);
        match data_type {
            DataType::Struct(children) => children.iter().for_each(|child| self.add(child)),
            DataType::List(child) | DataType::Map(child, _) => {
                self.widths.push(size_of::<i32>());
                self.add(child);
            }
            DataType::Utf8 | DataType::Binary => self.widths.extend([size_of::<i32>(), 1]),
            DataType::Dictionary(key, _) => self.widths.push(key.primitive_width().unwrap_or(1)),
            // Numbers and fixed-size binary values.
            other => self.widths.push(other.primitive_width().unwrap_or(1)),
        }
    }
}

/// Checks a header against its body. Returns the number of bytes that decoding needs.
pub(crate) fn check(
    header: &Header<'_>,
    body: &[u8],
    layout: &Layout,
    limit_bytes: usize,
) -> Result<usize, InspectError> {
    let compression = header.compression().map(|compression| compression.codec());
    if compression.is_some_and(|codec| !TAKEN.contains(&codec)) {
        return Err(InspectError::malformed("only zstd and LZ4 compression are taken"));
    }
    // Buffer counts of view types, which the span schema does not use.
    if header.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
        return Err(InspectError::malformed("buffers of types that the schema does not have"));
    }
    let nodes = header.nodes().ok_or_else(|| InspectError::malformed("no field nodes"))?;
    let buffers = header.buffers().ok_or_else(|| InspectError::malformed("no buffers"))?;
    if nodes.len() != layout.nodes.len() || buffers.len() != layout.widths.len() {
        return Err(InspectError::malformed(format_args!(
            "{} field nodes and {} buffers, where the schema has {} and {}",
            nodes.len(),
            buffers.len(),
            layout.nodes.len(),
            layout.widths.len()
        )));
    }
    let mut total = 0_usize;
    let mut lengths = Vec::with_capacity(layout.widths.len());
    for (buffer, width) in buffers.iter().zip(&layout.widths) {
        let bytes = buffer_bytes(buffer.offset(), buffer.length(), body)?;
        let length = uncompressed_length(bytes, compression.is_some())?;
        total = total.saturating_add(length.max(bytes.len()));
        if total > limit_bytes {
            return Err(InspectError::TooLarge { what: "bytes of values", limit: limit_bytes });
        }
        if compression == Some(CompressionType::LZ4_FRAME) {
            keeps_to_length(bytes, length)?;
        }
        if length % width != 0 {
            return Err(InspectError::malformed(format_args!(
                "a buffer of {length} bytes holds values of {width} bytes"
            )));
        }
        lengths.push(length);
    }
    count(header.length(), limit_bytes)?;
    for (node, known) in nodes.iter().zip(&layout.nodes) {
        let length = count(node.length(), limit_bytes)?;
        let nulls = count(node.null_count(), limit_bytes)?;
        let bitmap_fits = lengths[known.validity] >= length.div_ceil(8);
        if nulls > length || (nulls > 0 && (known.required_struct || !bitmap_fits)) {
            return Err(InspectError::malformed(format_args!(
                "{nulls} nulls among {length} values"
            )));
        }
    }
    Ok(total)
}

/// The uncompressed length of a buffer. A compressed buffer begins with it.
fn uncompressed_length(bytes: &[u8], compressed: bool) -> Result<usize, InspectError> {
    if !compressed || bytes.is_empty() {
        return Ok(bytes.len());
    }
    let (prefix, rest) = bytes
        .split_first_chunk()
        .ok_or_else(|| InspectError::malformed("a compressed buffer without its length"))?;
    match i64::from_le_bytes(*prefix) {
        NOT_COMPRESSED => Ok(rest.len()),
        claimed => count(claimed, usize::MAX),
    }
}

/// Arrow stops zstd at the claimed length, but decodes LZ4 to its end, however far that is. So LZ4
/// is decoded twice.
fn keeps_to_length(buffer: &[u8], claimed: usize) -> Result<(), InspectError> {
    let Some((prefix, frame)) = buffer.split_first_chunk() else { return Ok(()) };
    if i64::from_le_bytes(*prefix) == NOT_COMPRESSED {
        return Ok(());
    }
    let mut values = FrameDecoder::new(frame).take(claimed as u64 + 1);
    let length = io::copy(&mut values, &mut io::sink()).map_err(InspectError::malformed)?;
    if length != claimed as u64 {
        return Err(InspectError::malformed(format_args!(
            "an LZ4 frame that claims {claimed} bytes has another length"
        )));
    }
    Ok(())
}

fn buffer_bytes(offset: i64, length: i64, body: &[u8]) -> Result<&[u8], InspectError> {
    let range = || {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        body.get(start..end)
    };
    range().ok_or_else(|| {
        InspectError::malformed(format_args!(
            "a buffer at {offset} with {length} bytes lies outside the body of {} bytes",
            body.len()
        ))
    })
}

fn count(value: i64, limit: usize) -> Result<usize, InspectError> {
    usize::try_from(value)
        .ok()
        .filter(|count| *count <= limit)
        .ok_or_else(|| InspectError::malformed(format_args!("a count of {value}")))
}
