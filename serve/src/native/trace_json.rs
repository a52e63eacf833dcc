//! A page of a trace as JSON, written in parts.

use spanwise_api::{Nano, TraceHead};
use spanwise_query::{PageRange, TraceTree};

use super::convert;
use super::span_json::SpanCells;

/// A part is sent from this size on.
const PART_BYTES: usize = 256 << 10;

/// A page as one text.
///
/// # Errors
/// If the page cannot be written as JSON.
pub(super) fn page(
    tree: &TraceTree,
    page: PageRange,
    further_warning: Option<String>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut json = Vec::new();
    write(tree, page, further_warning, |part| json.append(part))?;
    Ok(json)
}

/// Spans of a tree by their positions, as one array of at most so many bytes, with so many children
/// of each at most; also how many of the positions are in it.
pub(crate) fn spans(
    tree: &TraceTree,
    positions: &[usize],
    most_bytes: usize,
    most_children: usize,
) -> (Vec<u8>, usize) {
    let mut cells: Vec<SpanCells<'_>> = tree.batches.iter().map(SpanCells::of).collect();
    let mut json = vec![b'['];
    for (written, position) in positions.iter().enumerate() {
        let (node, before) = (&tree.trace.nodes[*position], json.len());
        if written > 0 {
            json.push(b',');
        }
        let cells = &mut cells[node.row.at.batch as usize];
        cells.write_with_children(&tree.trace, node, most_children, &mut json);
        if json.len() >= most_bytes {
            json.truncate(before);
            json.push(b']');
            return (json, written);
        }
    }
    json.push(b']');
    (json, positions.len())
}

/// Passes a page in parts to `send`, which takes the buffer's contents.
///
/// # Errors
/// The errors of [`page`].
pub(super) fn write(
    tree: &TraceTree,
    page: PageRange,
    further_warning: Option<String>,
    mut send: impl FnMut(&mut Vec<u8>),
) -> Result<(), serde_json::Error> {
    let count = tree.len();
    let positions = page.positions(count);
    let next_after = (positions.end < count).then_some(positions.end as u64);
    let first = positions.start as u64;
    let nodes = &tree.trace.nodes[positions];
    let roots = nodes.iter().filter(|node| node.parent.is_none());
    let mut json = serde_json::to_vec(&TraceHead {
        trace_id: tree.trace.trace_id.to_string(),
        start_unix_nano: Nano(tree.start_unix_nano),
        duration_nano: Nano(tree.duration_nano),
        roots: roots.map(|node| node.row.span_id.to_string()).collect(),
        services: tree.services.iter().cloned().map(convert::service).collect(),
        clocks: tree.clocks.iter().map(convert::clock).collect(),
        warnings: tree.warnings.iter().cloned().chain(further_warning).collect(),
        span_count: (count + tree.left_out) as u64,
        error_count: tree.error_count as u64,
        depth: tree.depth as u64,
        complete: tree.complete,
        first,
        next_after,
        snapshot: tree.snapshot.clone(),
    })?;
    // The spans are the last member of the object.
    json.pop();
    json.extend_from_slice(b",\"spans\":[");
    let mut cells: Vec<SpanCells<'_>> = tree.batches.iter().map(SpanCells::of).collect();
    for (index, node) in nodes.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        // The batches are those from which the rows were read.
        cells[node.row.at.batch as usize].write(&tree.trace, node, &mut json);
        if json.len() >= PART_BYTES {
            send(&mut json);
        }
    }
    json.extend_from_slice(b"]}");
    send(&mut json);
    Ok(())
}
