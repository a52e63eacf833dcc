//! The steps of every request: decompress, decode, store.

use bytes::Bytes;
use spanwise_model::SpanRows;
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{Decoded, OtlpError, Rejections};
use spanwise_wire::{DecodeError, LeftOut, MeantFor};

use super::shared::Shared;
use super::{otlp, zipkin};
use crate::limits::Limits;
use crate::sink::Refused;
use crate::transport::body;
use crate::transport::budget::Lease;
use crate::transport::failure::Failure;

/// Larger bodies are decoded outside the runtime's threads.
pub(crate) const LARGE_BYTES: usize = 512 * 1024;

/// The result for a request's spans.
#[derive(Debug)]
pub(crate) struct PipelineResult {
    /// Number of spans that are now durable.
    pub(crate) spans: u64,
    /// Rejected spans by reason.
    pub(crate) rejections: Rejections,
}

impl PipelineResult {
    /// For protocols without partial success: a failure if spans were rejected and none was stored.
    pub(crate) fn some(self) -> Result<Rejections, Failure> {
        match self.rejections.message() {
            Some(message) if self.spans == 0 => Err(Failure::Malformed(message)),
            _ => Ok(self.rejections),
        }
    }
}

/// Accepts a request's body, which `decode` decodes. `counter` counts its spans.
pub(crate) async fn take<D>(
    shared: &Shared,
    encoding: Encoding,
    bytes: Bytes,
    mut lease: Lease,
    counter: &'static str,
    decode: D,
) -> Result<PipelineResult, Failure>
where
    D: FnOnce(&[u8], &Limits) -> Result<Decoded, DecodeFailure> + Send + 'static,
{
    let limits = shared.limits;
    // At most as many at a time as there are processors. The memory limit for decoding applies to
    // each request only.
    let permit = shared.decoders.acquire().await.map_err(|_| shutting_down())?;
    let large = bytes.len() > LARGE_BYTES || encoding != Encoding::Identity;
    let decode = move || -> Result<(Decoded, Lease), DecodeFailure> {
        let bytes = body::unpack(encoding, bytes, &limits, &mut lease)?;
        Ok((decode(&bytes, &limits)?, lease))
    };
    let decoded = if large {
        tokio::task::spawn_blocking(decode)
            .await
            .map_err(|error| Failure::Internal(format!("decoding failed: {error}")))?
    } else {
        decode()
    };
    let (decoded, lease) = decoded.map_err(|undecoded| undecoded.explained(shared))?;
    drop(permit);
    hand_over(shared, decoded, lease, counter).await
}

/// Counts decoded spans and passes them to the sink.
async fn hand_over(
    shared: &Shared,
    decoded: Decoded,
    lease: Lease,
    counter: &'static str,
) -> Result<PipelineResult, Failure> {
    let (batch, rejections) = counted(shared, decoded);
    let spans = accept(shared, batch, lease, counter).await?;
    Ok(PipelineResult { spans, rejections })
}

/// Counts what was rejected or left out of a request.
pub(crate) fn counted(shared: &Shared, decoded: Decoded) -> (SpanRows, Rejections) {
    let Decoded { batch, rejections, left_out } = decoded;
    count(shared, &rejections, &left_out);
    (batch, rejections)
}

pub(crate) fn count(shared: &Shared, rejections: &Rejections, left_out: &LeftOut) {
    shared.counters.add_left_out(left_out);
    shared.counters.add_rejections(rejections);
}

/// Passes a batch to the sink. Returns the number of its spans.
pub(crate) async fn accept(
    shared: &Shared,
    batch: SpanRows,
    mut lease: Lease,
    counter: &'static str,
) -> Result<u64, Failure> {
    let spans = batch.num_rows() as u64;
    if spans > 0 {
        if !lease.grow(batch.memory_bytes()) {
            return Err(Failure::NoMemory { retry_after: shared.limits.retry_after });
        }
        shared.sink.accept(batch, None).await.map_err(|refused| match refused {
            Refused::Later { reason, retry_after } => Failure::Refused { reason, retry_after },
            Refused::TooLarge { reason } => Failure::TooLarge(reason),
        })?;
        shared.counters.add(counter, spans);
    }
    Ok(spans)
}

/// A body that could not be decoded.
#[derive(Debug)]
pub(crate) struct DecodeFailure {
    failure: Failure,
    meant_for: Option<MeantFor>,
}

impl DecodeFailure {
    /// Adds a hint where the body belongs, if it belongs elsewhere.
    pub(crate) fn explained(self, shared: &Shared) -> Failure {
        let receiver = match self.meant_for {
            None => return self.failure,
            Some(MeantFor::OtlpGrpc) => &otlp::grpc::RECEIVER,
            Some(MeantFor::Zipkin) => &zipkin::RECEIVER,
        };
        match self.failure {
            Failure::Malformed(reason) => {
                Failure::Malformed(format!("{reason}; {}", shared.where_is(receiver)))
            }
            other => other,
        }
    }
}

impl From<Failure> for DecodeFailure {
    fn from(failure: Failure) -> Self {
        Self { failure, meant_for: None }
    }
}

impl From<OtlpError> for DecodeFailure {
    fn from(error: OtlpError) -> Self {
        let text = error.to_string();
        match error {
            OtlpError::Malformed { meant_for, .. } => {
                Self { failure: Failure::Malformed(text), meant_for }
            }
            OtlpError::TooLarge { .. } => Failure::TooLarge(text).into(),
            OtlpError::Model(_) => Failure::Internal(text).into(),
        }
    }
}

impl From<DecodeError> for DecodeFailure {
    fn from(error: DecodeError) -> Self {
        let text = error.to_string();
        match error {
            DecodeError::Malformed { meant_for, .. } => {
                Self { failure: Failure::Malformed(text), meant_for }
            }
            DecodeError::TooLarge { .. } => Failure::TooLarge(text).into(),
            DecodeError::Model(_) => Failure::Internal(text).into(),
        }
    }
}

fn shutting_down() -> Failure {
    Failure::Refused {
        reason: "the server is shutting down".to_owned(),
        retry_after: std::time::Duration::from_secs(1),
    }
}
