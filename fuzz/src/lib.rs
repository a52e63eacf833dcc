//! Shared parts of the fuzz targets.

pub mod otap;
pub mod processes;
pub mod program;
pub mod traceql;
pub mod traffic;

use std::path::PathBuf;

use spanwise_model::SpanBatch;
use spanwise_wire::otlp::Decoded;

/// Reads every row of a batch. Every accepted row must be intact.
pub fn rows(decoded: Decoded) {
    let count = decoded.batch.num_rows();
    let batch = SpanBatch::try_from(decoded.batch).expect("decoders make the span schema");
    let spans: Vec<_> = batch.spans().collect::<Result<_, _>>().expect("decoders make valid rows");
    assert_eq!(spans.len(), count);
}

/// A new directory for readers of files, in memory if the system has such a place.
pub fn directory(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let directory = parent.join(format!("spanwise-fuzz-{name}-{}", std::process::id()));
    // One that an earlier process of this number left is of no use.
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir(&directory).expect("a directory can be made");
    directory
}
