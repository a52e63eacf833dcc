//! OTAP over gRPC: streams of Arrow batches from OpenTelemetry collectors.
//!
//! A batch is acknowledged when it is durable. Meanwhile, the next batches are read and decoded, up
//! to [`Limits::otap_batches`] for each stream. Then reading stops, and HTTP/2 flow control slows
//! the sender down.
//!
//! [`Limits::otap_batches`]: crate::Limits::otap_batches

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::http::header::CONTENT_TYPE;
use ::http::{HeaderMap, HeaderValue};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http_body::Frame;
use http_body_util::StreamBody;
use spanwise_wire::otap::{Batch, BatchStatus, Broken, OtapError, StatusCode, StreamDecoder};
use spanwise_wire::rpc_status::{RpcCode, RpcStatus};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::otlp::grpc::instead;
use super::pipeline::{self, PipelineResult};
use super::shared::Shared;
use crate::transport::budget::Lease;
use crate::transport::failure::Failure;
use crate::transport::messages::{Messages, RawMessage};
use crate::transport::refusals::Caller;
use crate::transport::shutting_down;
use crate::transport::stream_limit::StreamPermit;
use crate::transport::{body, unary};

const BATCHES: &str = "otap_batches";
const ORPHANS: &str = "otap_rows_dropped_no_owner";
const SPANS: &str = "otap_spans_accepted";
const STREAMS_BROKEN: &str = "otap_streams_broken";
const STREAMS_OPENED: &str = "otap_streams_opened";
const STREAMS_OUTGROWN: &str = "otap_streams_outgrown";
const STREAMS_REFUSED: &str = "otap_streams_refused";

/// Counters of this receiver.
pub(in crate::receivers) const COUNTERS: [&str; 7] =
    [BATCHES, ORPHANS, SPANS, STREAMS_BROKEN, STREAMS_OPENED, STREAMS_OUTGROWN, STREAMS_REFUSED];

/// Timeout for writing the end of a stream.
const FAREWELL: Duration = Duration::from_secs(2);

type Frames = mpsc::Sender<Result<Frame<Bytes>, Infallible>>;

/// `ArrowTracesService/ArrowTraces`.
pub(crate) async fn traces(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let from = Caller::new("OTAP", request.extensions());
    if let Some(answer) = unary::not_grpc(&shared, from, &request, || instead(&shared)) {
        return answer;
    }
    let (parts, body) = request.into_parts();
    let named = match unary::named_encoding(&parts.headers, || instead(&shared)) {
        Ok(named) => named,
        Err(failure) => {
            shared.refused(from, &failure);
            return unary::failed(failure.rpc_status());
        }
    };
    let Some(permit) = shared.otap_streams.take(from.peer.map(|peer| peer.0.ip())) else {
        shared.counters.add(STREAMS_REFUSED, 1);
        return unary::failed(RpcStatus {
            code: RpcCode::ResourceExhausted,
            message: "as many OTAP streams are open as are allowed; retry later".to_owned(),
            retry_after: Some(shared.limits.retry_after),
        });
    };
    shared.counters.add(STREAMS_OPENED, 1);
    let (frames, answers) = mpsc::channel(shared.limits.otap_batches.max(1));
    let stream = BatchStream {
        decoder: Some(StreamDecoder::new(shared.limits.otap)),
        kept: shared.otap_kept.lease(),
        waiting: Arc::new(Semaphore::new(shared.limits.otap_batches)),
        shared,
        from,
        frames,
        _permit: permit,
    };
    tokio::spawn(stream.run(Messages::new(body, named)));
    let mut response = Response::new(Body::new(StreamBody::new(ReceiverStream::new(answers))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(unary::GRPC_ACCEPT_ENCODING, unary::ACCEPTED);
    response
}

struct BatchStream {
    shared: Arc<Shared>,
    from: Caller,
    /// `None` while a batch is being decoded, and after a batch that broke the stream.
    decoder: Option<StreamDecoder>,
    /// Memory reserved for the decoder's dictionaries.
    kept: Lease,
    /// One permit for each batch that may wait to become durable.
    waiting: Arc<Semaphore>,
    frames: Frames,
    _permit: StreamPermit,
}

/// Why the server ends a stream before its sender does.
struct End(RpcStatus);

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        let status = failure.rpc_status();
        // If the next stream may succeed, uses the code for which senders open one.
        let code = match code(&failure) {
            StatusCode::Unavailable => RpcCode::Unavailable,
            _ => status.code,
        };
        Self(RpcStatus { code, ..status })
    }
}

impl BatchStream {
    async fn run(mut self, mut messages: Messages) {
        let end = self.batches(&mut messages).await;
        // Batches in progress are answered before the stream ends.
        let all = u32::try_from(self.shared.limits.otap_batches).unwrap_or(u32::MAX);
        let _ = self.waiting.acquire_many(all).await;
        let status = match end {
            Ok(()) => tonic::Status::ok(""),
            Err(End(status)) => {
                tracing::debug!(reason = status.message, "an OTAP stream is ended");
                status.into()
            }
        };
        let mut trailers = HeaderMap::new();
        // Fails if a message is not a valid header value. It is then omitted.
        if status.add_header(&mut trailers).is_err() {
            let _ = tonic::Status::new(status.code(), "").add_header(&mut trailers);
        }
        let _ = self.frames.send(Ok(Frame::trailers(trailers))).await;
        // Dropping the body before the end is written would reset the call.
        let _ = timeout(FAREWELL, self.frames.closed()).await;
    }

    async fn batches(&mut self, messages: &mut Messages) -> Result<(), End> {
        let mut closing = self.shared.closing.subscribe();
        loop {
            let Ok(permit) = Arc::clone(&self.waiting).acquire_owned().await else { return Ok(()) };
            let framed = tokio::select! {
                // Only between messages, so that a batch in progress gets its reply.
                () = shutting_down(&mut closing) => {
                    return Err(End(RpcStatus::new(
                        RpcCode::Unavailable,
                        "the server is shutting down; reconnect",
                    )));
                }
                framed = messages.next(&self.shared) => framed,
            };
            let framed = match framed {
                Ok(Some(framed)) => framed,
                Ok(None) => return Ok(()),
                Err(failure) => {
                    self.shared.refused(self.from, &failure);
                    return Err(failure.into());
                }
            };
            self.shared.counters.add(BATCHES, 1);
            let (batch, lease) = match self.decode(framed).await {
                Ok(decoded) => decoded,
                Err((id, failure)) => {
                    self.shared.refused(self.from, &failure);
                    self.shared.counters.add(STREAMS_BROKEN, 1);
                    if let Some(id) = id {
                        answer(&self.frames, refusal(id, &failure)).await;
                    }
                    return Err(failure.into());
                }
            };
            let (shared, frames) = (Arc::clone(&self.shared), self.frames.clone());
            let from = self.from;
            tokio::spawn(async move {
                let status = take(&shared, from, batch, lease).await;
                answer(&frames, status).await;
                drop(permit);
            });
            self.account_for_dictionaries()?;
        }
    }

    /// Decodes a message. After an error the stream cannot continue.
    async fn decode(
        &mut self,
        framed: RawMessage,
    ) -> Result<(Batch, Lease), (Option<i64>, Failure)> {
        let limits = self.shared.limits;
        let gone = || (None, Failure::Internal("an OTAP stream without its decoder".to_owned()));
        let permit = self.shared.decoders.acquire().await.map_err(|_| gone())?;
        let mut decoder = self.decoder.take().ok_or_else(gone)?;
        let RawMessage { encoding, bytes, mut lease } = framed;
        // Runs outside the runtime's threads, because a small message can cause much work.
        let decode = move || {
            let decoded = body::unpack(encoding, bytes, &limits, &mut lease)
                .map_err(|failure| (None, failure))
                .and_then(|bytes| {
                    decoder.decode(&bytes).map_err(|Broken { id, error }| (id, error.into()))
                });
            decoded.map(|batch| (decoder, batch, lease))
        };
        let (decoder, batch, lease) = tokio::task::spawn_blocking(decode)
            .await
            .map_err(|error| (None, Failure::Internal(format!("decoding failed: {error}"))))??;
        drop(permit);
        self.decoder = Some(decoder);
        Ok((batch, lease))
    }

    /// Ends a stream whose dictionaries exceed their limits. The next stream starts without any.
    fn account_for_dictionaries(&mut self) -> Result<(), End> {
        let bytes = self.decoder.as_ref().map_or(0, StreamDecoder::kept_bytes);
        if bytes <= self.shared.limits.otap_kept_bytes && self.kept.resize(bytes) {
            return Ok(());
        }
        self.shared.counters.add(STREAMS_OUTGROWN, 1);
        Err(End(RpcStatus::new(
            RpcCode::Unavailable,
            format!(
                "the stream's dictionaries have grown to {bytes} bytes, for which there is no \
                 room; reconnect and begin anew"
            ),
        )))
    }
}

/// Passes a batch to the sink and returns its status.
async fn take(shared: &Shared, from: Caller, batch: Batch, lease: Lease) -> BatchStatus {
    let orphans = u64::try_from(batch.orphans).unwrap_or(u64::MAX);
    shared.counters.add(ORPHANS, orphans);
    let taken = async {
        let (rows, rejections) = pipeline::counted(shared, batch.decoded?);
        let spans = pipeline::accept(shared, rows, lease, SPANS).await?;
        PipelineResult { spans, rejections }.some()
    };
    match taken.await {
        // The message lists rejected parts.
        Ok(rejections) => {
            let message = rejections.message().unwrap_or_default();
            if !message.is_empty() {
                shared.refused_in_part(from, &message);
            }
            BatchStatus::new(batch.id, StatusCode::Ok, message)
        }
        Err(failure) => {
            shared.refused(from, &failure);
            refusal(batch.id, &failure)
        }
    }
}

fn refusal(batch_id: i64, failure: &Failure) -> BatchStatus {
    BatchStatus::new(batch_id, code(failure), failure.rpc_status().message)
}

/// The Collector's exporter retries only on UNAVAILABLE. RESOURCE_EXHAUSTED would need a delay,
/// which a `BatchStatus` cannot carry.
const fn code(failure: &Failure) -> StatusCode {
    match failure {
        Failure::TooLarge(_) => StatusCode::ResourceExhausted,
        Failure::Malformed(_) | Failure::Unsupported(_) | Failure::Protocol(_) => {
            StatusCode::InvalidArgument
        }
        Failure::NoMemory { .. }
        | Failure::Refused { .. }
        | Failure::TimedOut
        | Failure::BrokenOff(_)
        | Failure::Internal(_) => StatusCode::Unavailable,
    }
}

/// Sends a status. Ignores that the sender may be gone.
async fn answer(frames: &Frames, status: BatchStatus) {
    let _ = frames.send(Ok(Frame::data(unary::framed(&status.to_protobuf())))).await;
}

impl From<OtapError> for Failure {
    fn from(error: OtapError) -> Self {
        match error {
            OtapError::Malformed { .. } => Self::Malformed(error.to_string()),
            OtapError::TooLarge { .. } => Self::TooLarge(error.to_string()),
            OtapError::Model(_) => Self::Internal(error.to_string()),
        }
    }
}
