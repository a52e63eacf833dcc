//! Checks of a message's Arrow header before Arrow decodes its body.
//!
//! Arrow's reader trusts buffer positions and claimed uncompressed lengths (it
//! slices and allocates by them), so they are checked here against the body
//! and a limit. What the values then say, Arrow validates itself.

use arrow::datatypes::{DataType, FieldRef};
use arrow::ipc::{CompressionType, RecordBatch as Header};

use super::FlightError;

/// A node of a column tree, in the order in which Arrow writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// A struct, which the span schema never lets be null.
    Struct,
    /// Anything else.
    Other,
}

/// The nodes of these fields, and the number of their buffers.
pub(super) fn layout<'a>(fields: impl IntoIterator<Item = &'a FieldRef>) -> (Vec<Node>, usize) {
    let (mut nodes, mut buffers) = (Vec::new(), 0);
    for field in fields {
        add(field.data_type(), &mut nodes, &mut buffers);
    }
    (nodes, buffers)
}

fn add(data_type: &DataType, nodes: &mut Vec<Node>, buffers: &mut usize) {
    match data_type {
        DataType::Struct(children) => {
            nodes.push(Node::Struct);
            *buffers += 1;
            children.iter().for_each(|child| add(child.data_type(), nodes, buffers));
        }
        DataType::List(child) | DataType::Map(child, _) => {
            nodes.push(Node::Other);
            *buffers += 2;
            add(child.data_type(), nodes, buffers);
        }
        DataType::Utf8 => {
            nodes.push(Node::Other);
            *buffers += 3;
        }
        // Numbers, fixed-size bytes, and the keys of dictionaries.
        _ => {
            nodes.push(Node::Other);
            *buffers += 2;
        }
    }
}

/// Checks a header against its body; returns the bytes that decoding it takes.
pub(super) fn check(
    header: &Header<'_>,
    body: &[u8],
    layout: &(Vec<Node>, usize),
    limit_bytes: usize,
) -> Result<usize, FlightError> {
    if let Some(compression) = header.compression() {
        // An LZ4 frame may grow past the length that it claims; agents use zstd.
        if compression.codec() != CompressionType::ZSTD {
            return Err(FlightError::malformed("only zstd compression is taken"));
        }
    }
    let nodes = header.nodes().ok_or_else(|| FlightError::malformed("no field nodes"))?;
    let buffers = header.buffers().ok_or_else(|| FlightError::malformed("no buffers"))?;
    if nodes.len() != layout.0.len() || buffers.len() != layout.1 {
        return Err(FlightError::malformed(format_args!(
            "{} field nodes and {} buffers, where the schema has {} and {}",
            nodes.len(),
            buffers.len(),
            layout.0.len(),
            layout.1
        )));
    }
    count(header.length(), limit_bytes)?;
    for (node, kind) in nodes.iter().zip(&layout.0) {
        let length = count(node.length(), limit_bytes)?;
        let nulls = count(node.null_count(), limit_bytes)?;
        if nulls > length || (*kind == Node::Struct && nulls > 0) {
            return Err(FlightError::malformed(format_args!(
                "{nulls} nulls among {length} values"
            )));
        }
    }
    let mut total = 0_usize;
    for buffer in buffers {
        let bytes = buffer_bytes(buffer.offset(), buffer.length(), body)?;
        let mut needed = bytes.len();
        if header.compression().is_some() && !bytes.is_empty() {
            let (prefix, _) = bytes
                .split_first_chunk()
                .ok_or_else(|| FlightError::malformed("a compressed buffer without its length"))?;
            // -1 says that the rest is not compressed.
            let claimed = i64::from_le_bytes(*prefix);
            if claimed != -1 {
                needed = needed.max(count(claimed, usize::MAX)?);
            }
        }
        total = total.saturating_add(needed);
        if total > limit_bytes {
            return Err(FlightError::TooLarge { what: "bytes of values", limit: limit_bytes });
        }
    }
    Ok(total)
}

fn buffer_bytes(offset: i64, length: i64, body: &[u8]) -> Result<&[u8], FlightError> {
    let range = || {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        body.get(start..end)
    };
    range().ok_or_else(|| {
        FlightError::malformed(format_args!(
            "a buffer at {offset} with {length} bytes lies outside the body of {} bytes",
            body.len()
        ))
    })
}

fn count(value: i64, limit: usize) -> Result<usize, FlightError> {
    usize::try_from(value)
        .ok()
        .filter(|count| *count <= limit)
        .ok_or_else(|| FlightError::malformed(format_args!("a count of {value}")))
}
