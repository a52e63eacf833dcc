//! Reads request bodies within limits.

use std::time::Duration;

use ::http::HeaderMap;
use ::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};
use axum::body::{Body, HttpBody as _};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use spanwise_wire::compression::{DecompressError, Encoding, decompress};
use tokio::time::timeout;

use super::Transport;
use super::budget::Lease;
use super::failure::Failure;
use crate::limits::Limits;

/// Reads a request's body, if its headers permit. `checked` is the receiver's own check of the
/// headers; its value is returned with the body.
pub(crate) async fn receive<T>(
    transport: &Transport,
    checked: Result<T, Failure>,
    headers: &HeaderMap,
    body: Body,
) -> Result<(T, Encoding, Bytes, Lease), Failure> {
    let limits = &transport.limits;
    match checked.and_then(|checked| Ok((checked, announced(headers, limits)?))) {
        Ok((checked, encoding)) => {
            let mut lease = transport.budget.lease();
            let bytes = read(body, limits.body_bytes, limits, &mut lease).await?;
            Ok((checked, encoding, bytes, lease))
        }
        Err(failure) => {
            // A client that waits for "100 Continue" has not sent the body.
            if !headers.contains_key(EXPECT) {
                discard(body).await;
            }
            Err(failure)
        }
    }
}

/// Checks the headers that describe the body.
fn announced(headers: &HeaderMap, limits: &Limits) -> Result<Encoding, Failure> {
    let encoding = headers.get(CONTENT_ENCODING).map_or(Some(""), |value| value.to_str().ok());
    let encoding = encoding.and_then(Encoding::from_header).ok_or_else(|| {
        Failure::Unsupported("Content-Encoding must be gzip, zstd or identity".to_owned())
    })?;
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse::<u64>().ok());
    if length.is_some_and(|length| length > limits.body_bytes as u64) {
        return Err(too_large(limits.body_bytes));
    }
    Ok(encoding)
}

/// Maximum memory that is allocated for the announced length alone.
const ANNOUNCED_BYTES: usize = 1 << 20;

/// Reads a body of at most `limit_bytes`.
pub(crate) async fn read(
    mut body: Body,
    limit_bytes: usize,
    limits: &Limits,
    lease: &mut Lease,
) -> Result<Bytes, Failure> {
    let whole = async {
        // The announced length is not fully trusted, because the body may never arrive.
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let mut bytes = BytesMut::with_capacity(announced.min(ANNOUNCED_BYTES));
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Failure::BrokenOff(format!("the body ended before its end: {error}"))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            if bytes.len() + data.len() > limit_bytes {
                return Err(too_large(limit_bytes));
            }
            if !lease.grow(data.len()) {
                return Err(Failure::NoMemory { retry_after: limits.retry_after });
            }
            bytes.extend_from_slice(&data);
        }
        Ok(bytes.freeze())
    };
    timeout(limits.body_time, whole).await.unwrap_or(Err(Failure::TimedOut))
}

/// The error for a body that is too large.
fn too_large(limit_bytes: usize) -> Failure {
    Failure::TooLarge(format!(
        "the request body is larger than {limit_bytes} bytes; send smaller batches"
    ))
}

/// Reads and discards the rest of a refused body. A client that writes everything before it reads
/// can then see the response.
async fn discard(mut body: Body) {
    const MOST_BYTES: usize = 256 << 20;
    const LONGEST: Duration = Duration::from_secs(5);
    let _ = timeout(LONGEST, async {
        let mut total = 0;
        while let Some(Ok(frame)) = body.frame().await {
            total += frame.data_ref().map_or(0, Bytes::len);
            if total > MOST_BYTES {
                break;
            }
        }
    })
    .await;
}

/// Decompresses a body and reserves memory for its growth.
pub(crate) fn unpack(
    encoding: Encoding,
    bytes: Bytes,
    limits: &Limits,
    lease: &mut Lease,
) -> Result<Bytes, Failure> {
    if encoding == Encoding::Identity {
        return Ok(bytes);
    }
    decompress(encoding, &bytes, limits.decompressed_bytes, |more| lease.grow(more))
        .map(Bytes::from)
        .map_err(|error| match error {
            DecompressError::TooLarge { .. } => Failure::TooLarge(error.to_string()),
            DecompressError::NoRoom => Failure::NoMemory { retry_after: limits.retry_after },
            DecompressError::Malformed { .. } => Failure::Malformed(error.to_string()),
        })
}
