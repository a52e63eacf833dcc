//! Small OTLP requests that come at about the same time become one batch: to the
//! store and to assembly a batch costs as much as a hundred of its spans.
//!
//! Nobody is waited for. What has arrived by the time that a processor is free to
//! decode is decoded at once, so batches grow where there is much to do.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use spanwise_model::SpanRows;
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{OtlpError, Part, Together, decode_protobuf_together};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::budget::Lease;
use crate::counters;
use crate::failure::Failure;
use crate::otlp;
use crate::server::Shared;
use crate::take::{self, Taken};

/// Bytes of requests that are decoded at once, in about a millisecond. One that is
/// larger by itself is by itself.
const MOST_BYTES: usize = 1 << 20;

/// Requests that wait for a processor.
#[derive(Default)]
pub(crate) struct Gathering {
    waiting: Mutex<Vec<Waiting>>,
}

struct Waiting {
    body: Bytes,
    /// For the body.
    lease: Lease,
    answer: oneshot::Sender<Result<Taken, Failure>>,
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Gathering {
    /// Whether nobody waited before.
    fn add(&self, request: Waiting) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(request);
        waiting.len() == 1
    }

    /// Those who have waited longest, and whether others still do.
    fn next(&self) -> (Vec<Waiting>, bool) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let fit = waiting.iter().take_while(|request| {
            bytes += request.body.len();
            bytes <= MOST_BYTES
        });
        let count = fit.count().max(1).min(waiting.len());
        let rest = waiting.split_off(count);
        let next = std::mem::replace(&mut *waiting, rest);
        (next, !waiting.is_empty())
    }
}

/// Takes the body of an OTLP request in protobuf.
pub(crate) async fn take(
    shared: &Arc<Shared>,
    body: Bytes,
    lease: Lease,
) -> Result<Taken, Failure> {
    let (answer, answered) = oneshot::channel();
    if shared.gathering.add(Waiting { body, lease, answer }) {
        decode_next(Arc::clone(shared));
    }
    let gone = |_| Err(Failure::Internal("decoding failed".to_owned()));
    answered.await.unwrap_or_else(gone)
}

/// Has a task decode those that wait.
fn decode_next(shared: Arc<Shared>) {
    let decode: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(decode(shared));
    tokio::spawn(decode);
}

async fn decode(shared: Arc<Shared>) {
    // Behind all who have something to read.
    yield_now().await;
    let Ok(permit) = shared.decoders.acquire().await else { return };
    let (requests, others_wait) = shared.gathering.next();
    if others_wait {
        decode_next(Arc::clone(&shared));
    }
    let batches = decode_protobuf_together(&requests, &shared.limits.otlp);
    drop(permit);
    let mut requests = requests.into_iter();
    for Together { requests: count, decoded } in batches {
        let requests = requests.by_ref().take(count).collect();
        // By itself: it waits for the store.
        tokio::spawn(hand_over(Arc::clone(&shared), requests, decoded));
    }
}

/// Hands the rows of requests to the sink, and tells all of them what became of it.
async fn hand_over(
    shared: Arc<Shared>,
    requests: Vec<Waiting>,
    decoded: Result<(SpanRows, Vec<Part>), OtlpError>,
) {
    let taken = match decoded {
        Ok((batch, parts)) => {
            let lease = shared.budget.lease();
            let accepted = take::accept(&shared, batch, lease, counters::OTLP_SPANS).await;
            accepted.map(|_| parts)
        }
        Err(error) => Err(error.into()),
    };
    match taken {
        Ok(parts) => {
            for (request, part) in requests.into_iter().zip(parts) {
                take::count(&shared, &part.rejections, part.dropped_links);
                let taken = Taken { spans: part.rows as u64, rejections: part.rejections };
                // Who has hung up is told nothing.
                let _ = request.answer.send(Ok(taken));
            }
        }
        // They are together by chance.
        Err(Failure::TooLarge(_)) if requests.len() > 1 => {
            for Waiting { body, lease, answer } in requests {
                let taken = otlp::alone(&shared, Encoding::Identity, body, lease).await;
                let _ = answer.send(taken);
            }
        }
        Err(failure) => {
            for request in requests {
                let _ = request.answer.send(Err(failure.clone()));
            }
        }
    }
}
