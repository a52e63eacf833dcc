//! Shared parts of the fuzz targets.

pub mod otap;
pub mod processes;
pub mod program;
pub mod traceql;
pub mod traffic;

use spanwise_model::SpanBatch;
use spanwise_wire::otlp::Decoded;

/// Reads every row of a batch. Every accepted row must be intact.
pub fn rows(decoded: Decoded) {
    let count = decoded.batch.num_rows();
    let batch = SpanBatch::try_from(decoded.batch).expect("decoders make the span schema");
    let spans: Vec<_> = batch.spans().collect::<Result<_, _>>().expect("decoders make valid rows");
    assert_eq!(spans.len(), count);
}
