//! The sender: one long-lived connection that comes back by itself.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use bytes::Bytes;
use parking_lot::Mutex;
use spanwise_model::SpanRows;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

use super::encode::Encoder;
use super::queue::{Pending, Queue, messages};
use super::{Origin, PutMetadata, PutReply, Secret, SenderCounters};

/// How to reach the server, and what may wait for it.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// The server, for example `http://127.0.0.1:4317`.
    pub server: String,
    /// Most bytes of batches that wait for acknowledgement, compressed.
    pub queue_bytes: usize,
    /// First pause after a failure; it doubles with each further one.
    pub shortest_pause: Duration,
    /// Longest pause.
    pub longest_pause: Duration,
    /// Longest time for a connection to open.
    pub connect_timeout: Duration,
}

impl SenderConfig {
    /// The defaults, for this server.
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            queue_bytes: 16 << 20,
            shortest_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// Why a sender could not be set up. A server that is away is no such error.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// The address is none.
    #[error("`{server}` is no server address; write it like http://127.0.0.1:4317 ({reason})")]
    Address {
        /// What was given.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Arrow lacks what the encoder needs.
    #[error("cannot encode batches: {0}")]
    Encoder(#[from] arrow::error::ArrowError),
    /// Not called from within a tokio runtime.
    #[error("the sender must be spawned within a tokio runtime")]
    Runtime,
}

/// Sends span batches to the server in the background. Clones share one
/// connection and one queue.
#[derive(Clone)]
pub struct FlightSender {
    shared: Arc<Shared>,
}

struct Shared {
    source: [u8; 16],
    next_sequence: AtomicU64,
    /// Also keeps sequences in the order in which batches are queued.
    encoder: Mutex<Encoder>,
    queue: Arc<Queue>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl FlightSender {
    /// Starts the background task on the current tokio runtime.
    ///
    /// # Errors
    /// Where the address cannot be read or there is no runtime; never because
    /// the server is away.
    pub fn spawn(config: SenderConfig) -> Result<Self, SenderError> {
        let endpoint = endpoint(&config)?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| SenderError::Runtime)?;
        let source: [u8; 16] = rand::random();
        let secret = Secret::of(rand::random());
        let queue = Arc::new(Queue::new(config.queue_bytes));
        let worker = Worker { endpoint, config, source, secret, queue: Arc::clone(&queue) };
        let task = runtime.spawn(worker.run());
        Ok(Self {
            shared: Arc::new(Shared {
                source,
                next_sequence: AtomicU64::new(1),
                encoder: Mutex::new(Encoder::new()?),
                queue,
                task: Mutex::new(Some(task)),
            }),
        })
    }

    /// Names this run of this sender to the server.
    pub fn source(&self) -> [u8; 16] {
        self.shared.source
    }

    /// Queues a batch of rows. Never waits for the server; where the
    /// queue is full, the batch is dropped and counted.
    pub fn send(&self, rows: &SpanRows) {
        let shared = &self.shared;
        let spans = rows.num_rows() as u64;
        if spans == 0 || !shared.queue.admit(spans) {
            return;
        }
        let mut encoder = shared.encoder.lock();
        let sequence = shared.next_sequence.fetch_add(1, Ordering::Relaxed);
        match encoder.encode(rows, Origin { source: shared.source, sequence }) {
            Ok(encoded) => shared.queue.push(Pending { sequence, spans, encoded }),
            Err(error) => {
                tracing::warn!(%error, spans, "a batch could not be encoded and is dropped");
                shared.queue.count(|counters| counters.spans_dropped_encoding += spans);
            }
        }
    }

    /// Sets what the server shall show about this agent: sent now, and anew on
    /// every connection.
    pub fn set_facts(&self, facts: &serde_json::Value) {
        let text = facts.to_string();
        if PutMetadata::facts_fit(text.len()) {
            self.shared.queue.set_facts(Bytes::from(text));
        } else {
            self.shared.queue.count(|counters| counters.facts_dropped_too_long += 1);
        }
    }

    /// What was sent and lost so far.
    pub fn counters(&self) -> SenderCounters {
        self.shared.queue.counters()
    }

    /// Takes no more batches, waits until all are acknowledged, but no longer
    /// than `deadline`, and ends. What is left is dropped and counted.
    pub async fn shutdown(&self, deadline: Duration) -> SenderCounters {
        let queue = &self.shared.queue;
        queue.close();
        let task = self.shared.task.lock().take();
        let drained = async {
            loop {
                let drained = queue.drained.notified();
                tokio::pin!(drained);
                // Registered before the check, so that nothing is missed.
                drained.as_mut().enable();
                if queue.is_empty() {
                    break;
                }
                drained.await;
            }
        };
        let _ = timeout(deadline, drained).await;
        if let Some(mut task) = task {
            // The server has everything; it may still be closing the stream.
            if timeout(Duration::from_millis(200), &mut task).await.is_err() {
                task.abort();
            }
        }
        queue.abandon();
        self.counters()
    }
}

pub(super) fn endpoint(config: &SenderConfig) -> Result<Endpoint, SenderError> {
    let address = |reason: String| SenderError::Address { server: config.server.clone(), reason };
    let endpoint =
        Endpoint::from_shared(config.server.clone()).map_err(|error| address(error.to_string()))?;
    match endpoint.uri().scheme_str() {
        Some("http") if endpoint.uri().host().is_some() => {}
        Some("http") => return Err(address("it names no host".to_owned())),
        _ => return Err(address("only http:// is spoken".to_owned())),
    }
    Ok(endpoint
        .connect_timeout(config.connect_timeout)
        .tcp_nodelay(true)
        // A server that vanished without a word is noticed within 15 seconds.
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(true))
}

struct Worker {
    endpoint: Endpoint,
    config: SenderConfig,
    source: [u8; 16],
    secret: Secret,
    queue: Arc<Queue>,
}

/// How a stream ended.
enum Ended {
    /// All is sent and the sender is shut down.
    Done,
    /// The server has no room.
    Refused { retry_after: Duration, reason: String },
    /// The server cannot read the first batch that is not acknowledged.
    Rejected(tonic::Status),
    /// The connection or the server is gone.
    Lost(tonic::Status),
}

impl Worker {
    async fn run(self) {
        let mut failures = 0;
        while !self.queue.is_done() {
            let client = match self.connect().await {
                Ok(client) => client,
                Err(error) => {
                    self.queue.count(|counters| counters.connections_failed += 1);
                    // The error itself says no more than "transport error".
                    let cause = error.source().map_or_else(|| error.to_string(), describe);
                    self.report_failure(failures, &cause);
                    self.pause(failures).await;
                    failures += 1;
                    continue;
                }
            };
            self.queue.count(|counters| counters.connections += 1);
            self.use_connection(client, &mut failures).await;
        }
        self.queue.drained.notify_waiters();
    }

    async fn connect(&self) -> Result<FlightServiceClient<Channel>, tonic::transport::Error> {
        Ok(FlightServiceClient::new(self.endpoint.connect().await?))
    }

    /// Streams on a connection until it breaks.
    async fn use_connection(&self, mut client: FlightServiceClient<Channel>, failures: &mut u32) {
        while !self.queue.is_done() {
            let began = Instant::now();
            let (ended, acknowledged) = self.stream(&mut client).await;
            // A server that took something, or held the line, is well.
            if acknowledged > 0 || began.elapsed() > self.config.longest_pause {
                *failures = 0;
            }
            match ended {
                Ended::Done => return,
                // Nothing is left to be sent, so nothing failed.
                _ if self.queue.is_done() => return,
                Ended::Refused { retry_after, reason } => {
                    self.queue.count(|counters| counters.refusals += 1);
                    tracing::debug!(?retry_after, reason, "the server has no room");
                    sleep(retry_after.max(self.config.shortest_pause)).await;
                }
                Ended::Rejected(status) if self.queue.drop_rejected() => {
                    tracing::warn!(
                        reason = status.message(),
                        "the server could not read a batch; it is dropped"
                    );
                }
                Ended::Lost(status) | Ended::Rejected(status) => {
                    self.queue.count(|counters| counters.streams_lost += 1);
                    self.report_failure(*failures, status.message());
                    self.pause(*failures).await;
                    *failures += 1;
                    return;
                }
            }
        }
    }

    /// Runs one DoPut; returns how it ended and how many batches the server
    /// took meanwhile.
    async fn stream(&self, client: &mut FlightServiceClient<Channel>) -> (Ended, u64) {
        let mut acknowledged = 0;
        let request = messages(Arc::clone(&self.queue), self.source, self.secret);
        let mut replies = match client.do_put(request).await {
            Ok(response) => response.into_inner(),
            Err(status) => return (self.ended(status), 0),
        };
        loop {
            match replies.message().await {
                Ok(Some(result)) => match PutReply::decode(&result.app_metadata) {
                    Ok(PutReply::Durable { sequence }) => {
                        acknowledged += self.queue.acknowledge(sequence);
                    }
                    Ok(PutReply::Refused { retry_after, reason, .. }) => {
                        return (Ended::Refused { retry_after, reason }, acknowledged);
                    }
                    Err(error) => {
                        let status = tonic::Status::internal(error.to_string());
                        return (Ended::Lost(status), acknowledged);
                    }
                },
                Ok(None) if self.queue.is_done() => return (Ended::Done, acknowledged),
                Ok(None) => {
                    let status = tonic::Status::unavailable("the server ended the stream");
                    return (Ended::Lost(status), acknowledged);
                }
                Err(status) => return (self.ended(status), acknowledged),
            }
        }
    }

    fn ended(&self, status: tonic::Status) -> Ended {
        match status.code() {
            // Out of range is what tonic answers to a message past its limit.
            Code::InvalidArgument | Code::OutOfRange => Ended::Rejected(status),
            Code::ResourceExhausted => Ended::Refused {
                retry_after: crate::rpc_status::RpcStatus::retry_after_in_details(status.details())
                    .unwrap_or(self.config.longest_pause)
                    .min(Duration::from_secs(60)),
                reason: status.message().to_owned(),
            },
            _ => Ended::Lost(status),
        }
    }

    /// Says the first failure of a row loudly, the others softly.
    fn report_failure(&self, failures: u32, cause: &str) {
        let server = &self.config.server;
        if failures == 0 {
            tracing::warn!(server, cause, "the server cannot be reached; spans wait");
        } else {
            tracing::debug!(server, cause, failures, "the server cannot be reached");
        }
    }

    /// Waits between half and all of the doubled pause, so that many agents do
    /// not come back at once.
    async fn pause(&self, failures: u32) {
        let full = self
            .config
            .shortest_pause
            .saturating_mul(1 << failures.min(16))
            .min(self.config.longest_pause);
        sleep(full.mul_f64(rand::random_range(0.5..=1.0))).await;
    }
}

/// An error and its causes in one line.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
