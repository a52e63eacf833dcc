//! OTLP over gRPC and over HTTP: the way of a request, the same for both.

pub(crate) mod coalesce;
pub(super) mod grpc;
pub(super) mod http;

use std::sync::Arc;

use bytes::Bytes;
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{Rejections, decode_json, decode_protobuf};

use super::pipeline::{self, Taken};
use super::shared::Shared;
use crate::limits::Limits;
use crate::transport::budget::Lease;
use crate::transport::failure::Failure;

/// Counts spans of both.
const SPANS: &str = "otlp_spans_accepted";

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
    let is_small = encoding == Encoding::Identity && bytes.len() <= pipeline::LARGE_BYTES;
    let taken = match format {
        Format::Protobuf if is_small => coalesce::take(shared, bytes, lease).await?,
        Format::Protobuf => alone(shared, encoding, bytes, lease).await?,
        Format::Json => {
            let decode = |bytes: &[u8], limits: &Limits| Ok(decode_json(bytes, &limits.otlp)?);
            pipeline::take(shared, encoding, bytes, lease, SPANS, decode).await?
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
    pipeline::take(shared, encoding, bytes, lease, SPANS, decode).await
}
