//! OTLP over gRPC and HTTP: the common part of both.

pub(crate) mod coalesce;
pub(super) mod grpc;
pub(super) mod http;

use std::sync::Arc;

use bytes::Bytes;
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{Rejections, decode_json, decode_protobuf};

use super::pipeline::{self, PipelineResult};
use super::shared::Shared;
use crate::limits::Limits;
use crate::transport::budget::Lease;
use crate::transport::failure::Failure;

/// Counter of spans from both.
const SPANS: &str = "otlp_spans_accepted";

/// The encoding of a request's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Protobuf,
    Json,
}

/// Accepts a request's body. Returns the rejected spans.
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

/// Accepts the body of a protobuf request without combining it with others.
pub(crate) async fn alone(
    shared: &Shared,
    encoding: Encoding,
    bytes: Bytes,
    lease: Lease,
) -> Result<PipelineResult, Failure> {
    let decode = |bytes: &[u8], limits: &Limits| Ok(decode_protobuf(bytes, &limits.otlp)?);
    pipeline::take(shared, encoding, bytes, lease, SPANS, decode).await
}
