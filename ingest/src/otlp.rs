//! The way of an OTLP request, the same for both protocols.

use std::sync::Arc;

use bytes::Bytes;
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{Rejections, decode_json, decode_protobuf};

use crate::budget::Lease;
use crate::counters;
use crate::failure::Failure;
use crate::limits::Limits;
use crate::server::Shared;
use crate::take::{self, Taken};
use crate::together;

/// How a request's message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Protobuf,
    Json,
}

/// Takes a request's body; returns what of it was rejected.
pub(crate) async fn take(
    shared: &Arc<Shared>,
    format: Format,
    encoding: Encoding,
    bytes: Bytes,
    lease: Lease,
) -> Result<Rejections, Failure> {
    let is_small = encoding == Encoding::Identity && bytes.len() <= take::LARGE_BYTES;
    let taken = match format {
        Format::Protobuf if is_small => together::take(shared, bytes, lease).await?,
        Format::Protobuf => alone(shared, encoding, bytes, lease).await?,
        Format::Json => {
            let decode = |bytes: &[u8], limits: &Limits| Ok(decode_json(bytes, &limits.otlp)?);
            take::take(shared, encoding, bytes, lease, counters::OTLP_SPANS, decode).await?
        }
    };
    Ok(taken.rejections)
}

/// Takes the body of a request in protobuf by itself.
pub(crate) async fn alone(
    shared: &Shared,
    encoding: Encoding,
    bytes: Bytes,
    lease: Lease,
) -> Result<Taken, Failure> {
    let decode = |bytes: &[u8], limits: &Limits| Ok(decode_protobuf(bytes, &limits.otlp)?);
    take::take(shared, encoding, bytes, lease, counters::OTLP_SPANS, decode).await
}
