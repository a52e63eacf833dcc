//! Request bodies, read within their bounds.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use spanwise_wire::compression::{DecompressError, Encoding, decompress};
use tokio::time::timeout;

use crate::budget::Lease;
use crate::failure::Failure;
use crate::limits::Limits;

/// Reads a body of at most `limit_bytes`.
pub(crate) async fn read(
    mut body: Body,
    limit_bytes: usize,
    limits: &Limits,
    lease: &mut Lease,
) -> Result<Bytes, Failure> {
    let whole = async {
        let mut bytes = BytesMut::new();
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

/// That a body is too large.
pub(crate) fn too_large(limit_bytes: usize) -> Failure {
    Failure::TooLarge(format!(
        "the request body is larger than {limit_bytes} bytes; send smaller batches"
    ))
}

/// Reads the rest of a body that is refused, so that a sender who writes all
/// of it before it reads gets to see the answer. Nothing is kept.
pub(crate) async fn discard(mut body: Body) {
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

/// Decompresses a body, accounting for what it grows to.
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
