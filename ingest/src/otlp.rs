//! The way of an OTLP request, the same for both protocols: decompress,
//! decode, hand over.

use bytes::Bytes;
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{Decoded, OtlpError, Rejections, decode_json, decode_protobuf};

use crate::body;
use crate::budget::Lease;
use crate::counters;
use crate::failure::Failure;
use crate::server::Shared;
use crate::sink::Refused;

/// How a request's message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Protobuf,
    Json,
}

/// Bytes from which decoding leaves the runtime's own threads.
const LARGE_BYTES: usize = 32 * 1024;

/// Takes a request's body; returns what of it was rejected.
pub(crate) async fn take(
    shared: &Shared,
    format: Format,
    encoding: Encoding,
    bytes: Bytes,
    mut lease: Lease,
) -> Result<Rejections, Failure> {
    let limits = shared.limits;
    // As many at a time as there are processors: what a request may grow to
    // while it is decoded is bounded per request only.
    let permit = shared.decoders.acquire().await.map_err(|_| shutting_down())?;
    let large = bytes.len() > LARGE_BYTES || encoding != Encoding::Identity;
    let decode = move || {
        let bytes = body::unpack(encoding, bytes, &limits, &mut lease)?;
        let decoded = match format {
            Format::Protobuf => decode_protobuf(&bytes, &limits.otlp),
            Format::Json => decode_json(&bytes, &limits.otlp),
        }
        .map_err(|error| match error {
            OtlpError::Malformed { .. } => Failure::Malformed(error.to_string()),
            OtlpError::TooLarge { .. } => Failure::TooLarge(error.to_string()),
            OtlpError::Model(_) => Failure::Internal(error.to_string()),
        })?;
        Ok((decoded, lease))
    };
    let (decoded, mut lease) = if large {
        tokio::task::spawn_blocking(decode)
            .await
            .map_err(|error| Failure::Internal(format!("decoding failed: {error}")))??
    } else {
        decode()?
    };
    drop(permit);

    let Decoded { batch, rejections, dropped_links } = decoded;
    if dropped_links > 0 {
        shared.counters.add(counters::LINKS_DROPPED, dropped_links);
    }
    shared.counters.add_rejections(&rejections);
    let spans = batch.num_rows() as u64;
    if spans > 0 {
        if !lease.grow(batch.get_array_memory_size()) {
            return Err(Failure::NoMemory { retry_after: limits.retry_after });
        }
        shared.sink.accept(batch, None).await.map_err(|refused| match refused {
            Refused::Later { reason, retry_after } => Failure::Refused { reason, retry_after },
            Refused::TooLarge { reason } => Failure::TooLarge(reason),
        })?;
        shared.counters.add(counters::OTLP_SPANS, spans);
    }
    Ok(rejections)
}

fn shutting_down() -> Failure {
    Failure::Refused {
        reason: "the server is shutting down".to_owned(),
        retry_after: std::time::Duration::from_secs(1),
    }
}
