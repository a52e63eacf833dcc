//! The way of an OTLP request, the same for both protocols.

use bytes::Bytes;
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{Rejections, decode_json, decode_protobuf};

use crate::budget::Lease;
use crate::counters;
use crate::failure::Failure;
use crate::server::Shared;
use crate::take;

/// How a request's message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Protobuf,
    Json,
}

/// Takes a request's body; returns what of it was rejected.
pub(crate) async fn take(
    shared: &Shared,
    format: Format,
    encoding: Encoding,
    bytes: Bytes,
    lease: Lease,
) -> Result<Rejections, Failure> {
    let taken =
        take::take(shared, encoding, bytes, lease, counters::OTLP_SPANS, move |bytes, limits| {
            Ok(match format {
                Format::Protobuf => decode_protobuf(bytes, &limits.otlp)?,
                Format::Json => decode_json(bytes, &limits.otlp)?,
            })
        });
    Ok(taken.await?.rejections)
}
