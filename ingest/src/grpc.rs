//! OTLP over gRPC.
//!
//! The one unary call is framed by hand (gRPC "PROTOCOL-HTTP2"): the message
//! stays bytes until its size and what it may grow to are accounted for, which
//! generated services do not offer.

use std::sync::Arc;

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderMap, HeaderName, HeaderValue};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{Rejections, response_protobuf};
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};

use crate::body;
use crate::counters;
use crate::failure::Failure;
use crate::otlp::{self, Format};
use crate::server::Shared;

const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
const METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Bytes before a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The TraceService, and plain words for the services that are not here.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route(TRACES, post(export))
        .route(LOGS, post(only_traces))
        .route(METRICS, post(only_traces))
        .fallback(unknown)
        .with_state(shared)
}

async fn only_traces() -> Response {
    failed(RpcStatus::new(
        RpcCode::Unimplemented,
        "Spanwise takes traces only; turn off the exporter of this signal \
         (OTEL_LOGS_EXPORTER=none, OTEL_METRICS_EXPORTER=none)",
    ))
}

async fn unknown() -> Response {
    failed(RpcStatus::new(
        RpcCode::Unimplemented,
        "this port takes the OTLP TraceService and Arrow Flight DoPut",
    ))
}

async fn export(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    shared.counters.add(counters::OTLP_GRPC_REQUESTS, 1);
    match take(&shared, request).await {
        Ok(rejections) => succeeded(&rejections),
        Err(failure) => {
            shared.counters.add(failure.counter(), 1);
            tracing::debug!(?failure, "an OTLP/gRPC request was not taken");
            failed(failure.rpc_status())
        }
    }
}

async fn take(shared: &Shared, request: Request) -> Result<Rejections, Failure> {
    let (parts, body) = request.into_parts();
    let named = named_encoding(&parts.headers)?;
    let mut lease = shared.budget.lease();
    let limit = shared.limits.body_bytes + PREFIX_BYTES;
    let bytes = body::read(body, limit, &shared.limits, &mut lease).await?;
    let (compressed, message) = unframed(&bytes)?;
    let encoding = if compressed { named } else { Encoding::Identity };
    otlp::take(shared, Format::Protobuf, encoding, message, lease).await
}

fn named_encoding(headers: &HeaderMap) -> Result<Encoding, Failure> {
    let is_grpc =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
            value == "application/grpc" || value.starts_with("application/grpc+proto")
        });
    if !is_grpc {
        return Err(Failure::Unsupported(
            "this port speaks gRPC (content-type application/grpc); OTLP over HTTP has its own \
             port, by default 4318"
                .to_owned(),
        ));
    }
    let name = headers.get(GRPC_ENCODING).map_or(Some(""), |value| value.to_str().ok());
    name.and_then(Encoding::from_header).ok_or_else(|| {
        Failure::Unsupported("grpc-encoding must be gzip, zstd or identity".to_owned())
    })
}

/// The one message of a unary call.
fn unframed(bytes: &Bytes) -> Result<(bool, Bytes), Failure> {
    let malformed = |reason: String| Failure::Malformed(format!("the gRPC message: {reason}"));
    let (prefix, _) = bytes
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or_else(|| malformed(format!("{} bytes are no message", bytes.len())))?;
    let [flag, length @ ..] = *prefix;
    let (length, have) = (u32::from_be_bytes(length), bytes.len() - PREFIX_BYTES);
    if usize::try_from(length) != Ok(have) {
        return Err(malformed(format!("it claims {length} bytes and has {have}")));
    }
    match flag {
        0 => Ok((false, bytes.slice(PREFIX_BYTES..))),
        1 => Ok((true, bytes.slice(PREFIX_BYTES..))),
        other => Err(malformed(format!("unknown compression flag {other}"))),
    }
}

fn succeeded(rejections: &Rejections) -> Response {
    let message = response_protobuf(rejections);
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(0);
    // The message is a count and a sentence: far below 4 GiB.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(&message);
    let trailers = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static("0"))]);
    let body = Full::new(frame.freeze()).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn failed(status: RpcStatus) -> Response {
    let mut response = tonic::Status::from(status).into_http::<Body>();
    response
        .headers_mut()
        .insert(GRPC_ACCEPT_ENCODING, HeaderValue::from_static("identity,gzip,zstd"));
    response
}
