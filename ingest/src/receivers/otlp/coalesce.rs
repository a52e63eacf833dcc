//! Combines small OTLP requests that arrive at about the same time into one batch. For store and
//! assembly, a batch costs as much as a hundred of its spans.
//!
//! All requests that have arrived when a processor becomes free are decoded together, so batches
//! grow under load. A request waits only for senders that were answered less than a moment ago,
//! because a sender with more data sends it then. If there are none, it does not wait.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use spanwise_model::SpanRows;
use spanwise_wire::compression::Encoding;
use spanwise_wire::otlp::{OtlpError, Part, Together, decode_protobuf_together};
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::SPANS;
use crate::receivers::pipeline::{self, DecodeFailure, PipelineResult};
use crate::receivers::shared::Shared;
use crate::transport::budget::Lease;
use crate::transport::failure::Failure;

/// Maximum bytes of requests that are decoded together, which takes about a millisecond. A larger
/// request is decoded alone.
const MOST_BYTES: usize = 1 << 20;

/// A sender that was answered within this time may send again. No request waits longer than this
/// for others.
const SENDS_AGAIN: Duration = Duration::from_millis(2);

/// Requests that wait for a processor.
#[derive(Default)]
pub(crate) struct Gathering {
    state: Mutex<State>,
    /// Notified when there is nothing left to wait for.
    complete: Notify,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    bytes: usize,
    /// Arrival of the first waiting request.
    since: Option<Instant>,
    /// Senders that were answered and have not sent since, and until when they are expected.
    expected: usize,
    expected_until: Option<Instant>,
}

struct Waiting {
    body: Bytes,
    /// Memory reserved for the body.
    lease: Lease,
    answer: oneshot::Sender<Result<PipelineResult, Failure>>,
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl State {
    /// Adds a request. Returns whether none was waiting before.
    fn add(&mut self, request: Waiting, now: Instant) -> bool {
        self.expected = self.expected.saturating_sub(1);
        self.bytes += request.body.len();
        self.waiting.push(request);
        let is_first = self.waiting.len() == 1;
        if is_first {
            self.since = Some(now);
        }
        is_first
    }

    /// Records that this many senders were answered.
    fn answered(&mut self, count: usize, now: Instant) {
        if self.expected_until.is_none_or(|until| until < now) {
            self.expected = 0;
        }
        self.expected += count;
        self.expected_until = Some(now + SENDS_AGAIN);
    }

    /// Until when to wait for more requests, if waiting makes sense.
    fn wait_until(&self, now: Instant) -> Option<Instant> {
        if self.is_complete() {
            return None;
        }
        let patience = self.since? + SENDS_AGAIN;
        Some(patience.min(self.expected_until?)).filter(|until| *until > now)
    }

    const fn is_complete(&self) -> bool {
        self.expected == 0 || self.bytes >= MOST_BYTES
    }
}

impl Gathering {
    /// Adds a request. Returns whether none was waiting before.
    fn add(&self, request: Waiting) -> bool {
        let mut state = self.state();
        let is_first = state.add(request, Instant::now());
        if state.is_complete() {
            self.complete.notify_one();
        }
        is_first
    }

    /// Records that this many senders were answered.
    fn answered(&self, count: usize) {
        self.state().answered(count, Instant::now());
    }

    /// Waits for senders that may be about to send.
    async fn gathered(&self) {
        let wait_until = || self.state().wait_until(Instant::now());
        while let Some(until) = wait_until() {
            let _ = timeout_at(until, self.complete.notified()).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The requests that have waited longest, and whether others remain.
    fn next(&self) -> (Vec<Waiting>, bool) {
        let mut state = self.state();
        let mut bytes = 0;
        let fit = state.waiting.iter().take_while(|request| {
            bytes += request.body.len();
            bytes <= MOST_BYTES
        });
        let count = fit.count().max(1).min(state.waiting.len());
        let rest = state.waiting.split_off(count);
        let next = std::mem::replace(&mut state.waiting, rest);
        state.bytes = state.waiting.iter().map(|request| request.body.len()).sum();
        (next, !state.waiting.is_empty())
    }
}

/// Accepts the body of an OTLP request in protobuf.
pub(crate) async fn take(
    shared: &Arc<Shared>,
    body: Bytes,
    lease: Lease,
) -> Result<PipelineResult, Failure> {
    let (answer, answered) = oneshot::channel();
    if shared.gathering.add(Waiting { body, lease, answer }) {
        decode_next(Arc::clone(shared));
    }
    let gone = |_| Err(Failure::Internal("decoding failed".to_owned()));
    answered.await.unwrap_or_else(gone)
}

/// Starts a task that decodes waiting requests.
fn decode_next(shared: Arc<Shared>) {
    let decode: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(decode(shared));
    tokio::spawn(decode);
}

async fn decode(shared: Arc<Shared>) {
    // Lets all connections read their data first.
    yield_now().await;
    shared.gathering.gathered().await;
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
        // In a task of its own, because it waits for the store.
        tokio::spawn(hand_over(Arc::clone(&shared), requests, decoded));
    }
}

/// Passes the rows of requests to the sink, and answers all of them.
async fn hand_over(
    shared: Arc<Shared>,
    requests: Vec<Waiting>,
    decoded: Result<(SpanRows, Vec<Part>), OtlpError>,
) {
    let taken = match decoded {
        Ok((batch, parts)) => {
            let lease = shared.budget.lease();
            let accepted = pipeline::accept(&shared, batch, lease, SPANS).await;
            accepted.map(|_| parts)
        }
        Err(error) => Err(DecodeFailure::from(error).explained(&shared)),
    };
    shared.gathering.answered(requests.len());
    match taken {
        Ok(parts) => {
            for (request, part) in requests.into_iter().zip(parts) {
                pipeline::count(&shared, &part.rejections, &part.left_out);
                let taken = PipelineResult { spans: part.rows as u64, rejections: part.rejections };
                // The sender may have disconnected.
                let _ = request.answer.send(Ok(taken));
            }
        }
        // The requests were combined by chance, so each is tried alone.
        Err(Failure::TooLarge(_)) if requests.len() > 1 => {
            for Waiting { body, lease, answer } in requests {
                let taken = super::alone(&shared, Encoding::Identity, body, lease).await;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::budget::Budget;

    fn request(bytes: usize) -> Waiting {
        let lease = Budget::new(usize::MAX).lease();
        Waiting { body: vec![0; bytes].into(), lease, answer: oneshot::channel().0 }
    }

    #[test]
    fn only_who_was_just_answered_is_waited_for() {
        let now = Instant::now();
        let later = now + SENDS_AGAIN / 2;
        let mut state = State::default();
        assert!(state.add(request(10), now));
        assert_eq!(state.wait_until(now), None, "nobody was answered");

        let mut state = State::default();
        state.answered(3, now);
        assert!(state.add(request(10), later));
        assert_eq!(state.wait_until(later), Some(now + SENDS_AGAIN), "two may send");
        assert_eq!(state.wait_until(now + SENDS_AGAIN), None, "they did not");
        assert!(!state.add(request(10), later));
        assert!(!state.add(request(10), later));
        assert_eq!(state.wait_until(later), None, "all have sent");
    }

    #[test]
    fn answers_without_end_hold_no_request_back() {
        let now = Instant::now();
        let mut state = State::default();
        state.add(request(10), now);
        state.answered(3, now + SENDS_AGAIN / 2);
        assert_eq!(state.wait_until(now + SENDS_AGAIN / 2), Some(now + SENDS_AGAIN));
        state.answered(3, now + SENDS_AGAIN);
        assert_eq!(state.wait_until(now + SENDS_AGAIN), None);
        assert_eq!(state.expected, 6);
        state.answered(1, now + SENDS_AGAIN * 3);
        assert_eq!(state.expected, 1, "the others have gone");
    }

    #[test]
    fn a_batch_that_is_large_enough_waits_for_nobody() {
        let now = Instant::now();
        let gathering = Gathering::default();
        gathering.state().answered(9, now);
        for _ in 0..3 {
            gathering.state().add(request(MOST_BYTES / 2 - 1), now);
        }
        assert_eq!(gathering.state().wait_until(now), None);
        let (next, others_wait) = gathering.next();
        assert_eq!((next.len(), others_wait), (2, true));
        assert_eq!(gathering.state().bytes, MOST_BYTES / 2 - 1);
        assert!(gathering.state().wait_until(now).is_some());
        assert_eq!(gathering.next().0.len(), 1);
    }
}
