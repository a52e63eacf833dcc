//! Helpers for tests of several formats.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

use spanwise_model::{Span, SpanBatch};
use spanwise_wire::otlp::Decoded;

pub mod otap;
pub mod thrift;

/// The rows of a batch.
pub fn rows(decoded: Decoded) -> Vec<Span> {
    SpanBatch::try_from(decoded.batch).unwrap().spans().collect::<Result<_, _>>().unwrap()
}
