//! Unary gRPC calls with our own framing (gRPC "PROTOCOL-HTTP2"). The message stays encoded until
//! its size and possible growth are accounted for, which generated services do not support.

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderMap, HeaderName, HeaderValue};
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use spanwise_wire::compression::Encoding;
use spanwise_wire::rpc_status::RpcStatus;

use super::Transport;
use super::body;
use super::budget::Lease;
use super::failure::Failure;
use super::refusals::Caller;

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
pub(crate) const GRPC_ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Accepted compressions.
pub(crate) const ACCEPTED: HeaderValue = HeaderValue::from_static("identity,gzip,zstd");

/// Bytes before a message: the compression flag and the length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// Reads the message of a call. `instead` says where clients that do not speak gRPC should go.
pub(crate) async fn read(
    transport: &Transport,
    request: Request,
    instead: impl FnOnce() -> String,
) -> Result<(Encoding, Bytes, Lease), Failure> {
    let (parts, body) = request.into_parts();
    let named = named_encoding(&parts.headers, instead)?;
    let mut lease = transport.budget.lease();
    let limit = transport.limits.body_bytes + PREFIX_BYTES;
    let bytes = body::read(body, limit, &transport.limits, &mut lease).await?;
    let (flag, message) = unframed(&bytes)?;
    Ok((encoding(flag, named)?, message, lease))
}

/// The response to a request that is no gRPC call, in plain text.
pub(crate) fn not_grpc(
    transport: &Transport,
    from: Caller,
    request: &Request,
    instead: impl FnOnce() -> String,
) -> Option<Response> {
    let named = named_encoding(request.headers(), instead);
    let failure = match named {
        Err(failure) if !is_grpc(request.headers()) => failure,
        _ => return None,
    };
    transport.refused(from, &failure);
    let text = format!("{}\n", failure.rpc_status().message);
    Some((failure.http_status(), text).into_response())
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|value| {
        value == "application/grpc" || value.starts_with("application/grpc+proto")
    })
}

/// The compression of messages according to the call's headers.
pub(crate) fn named_encoding(
    headers: &HeaderMap,
    instead: impl FnOnce() -> String,
) -> Result<Encoding, Failure> {
    if !is_grpc(headers) {
        return Err(Failure::Unsupported(format!(
            "this port speaks gRPC (content-type application/grpc); {}",
            instead()
        )));
    }
    let name = headers.get(GRPC_ENCODING).map_or(Some(""), |value| value.to_str().ok());
    name.and_then(Encoding::from_header).ok_or_else(|| {
        Failure::Unsupported("grpc-encoding must be gzip, zstd or identity".to_owned())
    })
}

/// The compression of a message according to its flag.
pub(crate) fn encoding(flag: u8, named: Encoding) -> Result<Encoding, Failure> {
    match (flag, named) {
        (0, _) => Ok(Encoding::Identity),
        // gRPC "Compression": such a message is the caller's error, with status INTERNAL.
        (1, Encoding::Identity) => Err(Failure::Protocol(
            "the gRPC message has its compressed flag set, and the call names no grpc-encoding"
                .to_owned(),
        )),
        (1, named) => Ok(named),
        (other, _) => {
            Err(Failure::Protocol(format!("the gRPC message: unknown compression flag {other}")))
        }
    }
}

/// The only message of a unary call, and its flag.
fn unframed(bytes: &Bytes) -> Result<(u8, Bytes), Failure> {
    let malformed = |reason: String| Failure::Malformed(format!("the gRPC message: {reason}"));
    let (prefix, _) = bytes
        .split_first_chunk::<PREFIX_BYTES>()
        .ok_or_else(|| malformed(format!("{} bytes are no message", bytes.len())))?;
    let [flag, length @ ..] = *prefix;
    let (length, have) = (u32::from_be_bytes(length), bytes.len() - PREFIX_BYTES);
    if usize::try_from(length) != Ok(have) {
        return Err(malformed(format!("it claims {length} bytes and has {have}")));
    }
    Ok((flag, bytes.slice(PREFIX_BYTES..)))
}

/// A framed response message.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(0);
    // Response messages are a count and a sentence, far below 4 GiB.
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message);
    frame.freeze()
}

/// A successful response with this message.
pub(crate) fn succeeded(message: &[u8]) -> Response {
    let trailers = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static("0"))]);
    let body = Full::new(framed(message)).with_trailers(async { Some(Ok(trailers)) });
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// An error response.
pub(crate) fn failed(status: RpcStatus) -> Response {
    let mut response = tonic::Status::from(status).into_http::<Body>();
    response.headers_mut().insert(GRPC_ACCEPT_ENCODING, ACCEPTED);
    response
}
