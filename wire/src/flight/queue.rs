//! The queue of unacknowledged batches.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_flight::FlightData;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{EncodedBatch, Secret, SenderCounters};

/// A batch that waits for acknowledgement.
pub(super) struct Pending {
    pub(super) sequence: u64,
    pub(super) spans: u64,
    pub(super) encoded: EncodedBatch,
}

/// Shared by callers that add batches and the task that sends them.
pub(super) struct Queue {
    limit_bytes: usize,
    state: Mutex<State>,
    /// Notified when there is something to send, or at shutdown.
    pub(super) work: Notify,
    /// Notified when everything is acknowledged or dropped.
    pub(super) drained: Notify,
}

struct State {
    /// Ordered by sequence.
    batches: VecDeque<Arc<Pending>>,
    bytes: usize,
    /// The last sequence sent on the current stream.
    sent: u64,
    facts: Option<Bytes>,
    facts_version: u64,
    closed: bool,
    counters: SenderCounters,
}

/// What a stream must send next.
pub(super) enum Next {
    Batch(Arc<Pending>),
    Facts { version: u64, facts: Bytes },
    Wait,
    End,
}

impl Queue {
    pub(super) fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            state: Mutex::new(State {
                batches: VecDeque::new(),
                bytes: 0,
                sent: 0,
                facts: None,
                facts_version: 0,
                closed: false,
                counters: SenderCounters::default(),
            }),
            work: Notify::new(),
            drained: Notify::new(),
        }
    }

    pub(super) fn counters(&self) -> SenderCounters {
        let state = self.state.lock();
        SenderCounters {
            queue_batches: state.batches.len() as u64,
            queue_spans: state.batches.iter().map(|batch| batch.spans).sum(),
            queue_bytes: state.bytes as u64,
            ..state.counters
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut SenderCounters)) {
        change(&mut self.state.lock().counters);
    }

    /// Whether a batch with this many spans is accepted. Counts the spans, and also counts them as
    /// dropped if there is certainly no room.
    pub(super) fn admit(&self, spans: u64) -> bool {
        let mut state = self.state.lock();
        state.counters.spans_offered += spans;
        if state.closed {
            state.counters.spans_dropped_shutdown += spans;
            return false;
        }
        if state.bytes >= self.limit_bytes {
            state.counters.spans_dropped_queue_full += spans;
            return false;
        }
        true
    }

    /// Adds a batch, or drops it if the queue is full. The newest batch is dropped, so that
    /// accepted batches are certain to be sent.
    pub(super) fn push(&self, batch: Pending) {
        let mut state = self.state.lock();
        let bytes = state.bytes + batch.encoded.bytes;
        if state.closed {
            state.counters.spans_dropped_shutdown += batch.spans;
        } else if bytes > self.limit_bytes {
            state.counters.spans_dropped_queue_full += batch.spans;
        } else {
            state.bytes = bytes;
            state.batches.push_back(Arc::new(batch));
            drop(state);
            self.work.notify_one();
        }
    }

    pub(super) fn set_facts(&self, facts: Bytes) {
        let mut state = self.state.lock();
        state.facts = Some(facts);
        state.facts_version += 1;
        drop(state);
        self.work.notify_one();
    }

    /// What follows after the batch `after`, on a stream that has sent facts up to `facts_version`.
    pub(super) fn next(&self, after: u64, facts_version: u64) -> Next {
        let mut state = self.state.lock();
        if let Some(facts) = state.facts.clone().filter(|_| state.facts_version != facts_version) {
            return Next::Facts { version: state.facts_version, facts };
        }
        let index = state.batches.partition_point(|batch| batch.sequence <= after);
        match state.batches.get(index).cloned() {
            Some(batch) => {
                state.sent = batch.sequence;
                state.counters.batches_sent += 1;
                state.counters.bytes_sent += batch.encoded.bytes as u64;
                Next::Batch(batch)
            }
            None if state.closed => Next::End,
            None => Next::Wait,
        }
    }

    /// Starts a new stream, on which nothing was sent yet.
    pub(super) fn rewind(&self) {
        self.state.lock().sent = 0;
    }

    /// Removes every batch up to `sequence` that was sent. Returns their number.
    pub(super) fn acknowledge(&self, sequence: u64) -> u64 {
        let mut state = self.state.lock();
        let sequence = sequence.min(state.sent);
        let mut count = 0;
        while let Some(batch) = state.batches.pop_front_if(|batch| batch.sequence <= sequence) {
            state.bytes -= batch.encoded.bytes;
            state.counters.batches_acknowledged += 1;
            state.counters.spans_acknowledged += batch.spans;
            count += 1;
        }
        let drained = state.batches.is_empty();
        drop(state);
        if drained {
            self.drained.notify_waiters();
        }
        count
    }

    /// Drops the first batch if it was sent on this stream, because the server could not read it
    /// and would fail again. Returns `false` if no batch was sent.
    pub(super) fn drop_rejected(&self) -> bool {
        let mut state = self.state.lock();
        let sent = state.sent;
        let Some(batch) = state.batches.pop_front_if(|batch| batch.sequence <= sent) else {
            return false;
        };
        state.bytes -= batch.encoded.bytes;
        state.counters.spans_dropped_rejected += batch.spans;
        true
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_one();
    }

    pub(super) fn is_done(&self) -> bool {
        let state = self.state.lock();
        state.closed && state.batches.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().batches.is_empty()
    }

    /// Drops all waiting batches.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        let left: u64 = state.batches.drain(..).map(|batch| batch.spans).sum();
        state.bytes = 0;
        state.counters.spans_dropped_shutdown += left;
    }
}

/// The messages of one stream: the schema, then facts and batches as they arrive, starting with the
/// first unacknowledged batch.
pub(super) fn messages(
    queue: Arc<Queue>,
    source: [u8; 16],
    secret: Secret,
) -> impl futures::Stream<Item = FlightData> + Send + 'static {
    struct Cursor {
        queue: Arc<Queue>,
        ready: VecDeque<FlightData>,
        after: u64,
        facts_version: u64,
    }
    queue.rewind();
    let cursor = Cursor {
        queue,
        ready: VecDeque::from([super::first_message(secret)]),
        after: 0,
        facts_version: 0,
    };
    futures::stream::unfold(cursor, move |mut cursor| async move {
        loop {
            if let Some(message) = cursor.ready.pop_front() {
                return Some((message, cursor));
            }
            match cursor.queue.next(cursor.after, cursor.facts_version) {
                Next::Batch(batch) => {
                    cursor.after = batch.sequence;
                    cursor.ready.extend(batch.encoded.messages.iter().cloned());
                }
                Next::Facts { version, facts } => {
                    cursor.facts_version = version;
                    cursor.ready.push_back(super::encode::facts_message(source, facts));
                }
                Next::Wait => cursor.queue.work.notified().await,
                Next::End => return None,
            }
        }
    })
}
