//! The agent's sender: one long-lived connection that reconnects by itself.

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

/// The server's address, and the sender's limits.
#[derive(Debug, Clone)]
pub struct SenderConfig {
    /// The server's URL, for example `http://127.0.0.1:4317`.
    pub server: String,
    /// Maximum bytes of compressed batches that wait for acknowledgement.
    pub queue_bytes: usize,
    /// First pause after a failure. It doubles with each further failure.
    pub shortest_pause: Duration,
    /// Maximum pause.
    pub longest_pause: Duration,
    /// Timeout for opening a connection.
    pub connect_timeout: Duration,
}

impl SenderConfig {
    /// Default settings for this server.
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

/// Why a sender could not be created. An unreachable server is not an error.
#[derive(Debug, thiserror::Error)]
pub enum SenderError {
    /// The address is invalid.
    #[error("`{server}` is no server address; write it like http://127.0.0.1:4317 ({reason})")]
    Address {
        /// The given address.
        server: String,
        /// The problem.
        reason: String,
    },
    /// Arrow was built without something that the encoder needs.
    #[error("cannot encode batches: {0}")]
    Encoder(#[from] arrow::error::ArrowError),
    /// There is no tokio runtime.
    #[error("the sender must be spawned within a tokio runtime")]
    Runtime,
}

/// Sends span batches to the server in the background. Clones share one connection and one queue.
#[derive(Clone)]
pub struct FlightSender {
    shared: Arc<Shared>,
}

struct Shared {
    source: [u8; 16],
    next_sequence: AtomicU64,
    /// Its lock also ensures that batches are queued in the order of their sequence numbers.
    encoder: Mutex<Encoder>,
    queue: Arc<Queue>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl FlightSender {
    /// Starts the background task on the current tokio runtime.
    ///
    /// # Errors
    /// If the address is invalid or there is no runtime; never because the server is unreachable.
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

    /// The id of this run of the sender.
    pub fn source(&self) -> [u8; 16] {
        self.shared.source
    }

    /// Queues a batch of rows. Never waits for the server. If the queue is full, the batch is
    /// dropped and counted.
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

    /// Sets the facts that the server shows about this agent. They are sent now and on every new
    /// connection.
    pub fn set_facts(&self, facts: &serde_json::Value) {
        let text = facts.to_string();
        if PutMetadata::facts_fit(text.len()) {
            self.shared.queue.set_facts(Bytes::from(text));
        } else {
            self.shared.queue.count(|counters| counters.facts_dropped_too_long += 1);
        }
    }

    /// The current counters.
    pub fn counters(&self) -> SenderCounters {
        self.shared.queue.counters()
    }

    /// Stops accepting batches, waits until all are acknowledged, at most until `deadline`, and
    /// ends. Remaining batches are dropped and counted.
    pub async fn shutdown(&self, deadline: Duration) -> SenderCounters {
        let queue = &self.shared.queue;
        queue.close();
        let task = self.shared.task.lock().take();
        let drained = async {
            loop {
                let drained = queue.drained.notified();
                tokio::pin!(drained);
                // Registered before the check, so that no notification is missed.
                drained.as_mut().enable();
                if queue.is_empty() {
                    break;
                }
                drained.await;
            }
        };
        let _ = timeout(deadline, drained).await;
        if let Some(mut task) = task {
            // The server has everything. It may still be closing the stream.
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
        // Detects a server that vanished within 15 seconds.
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

/// Why a stream ended.
enum StreamEnd {
    /// Everything is sent and the sender is shutting down.
    Done,
    /// The server is full.
    Refused { retry_after: Duration, reason: String },
    /// The server cannot read the first unacknowledged batch.
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
                    // The outer error only says "transport error".
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

    /// Opens streams on a connection until it breaks.
    async fn use_connection(&self, mut client: FlightServiceClient<Channel>, failures: &mut u32) {
        while !self.queue.is_done() {
            let began = Instant::now();
            let (ended, acknowledged) = self.stream(&mut client).await;
            // If the server accepted a batch or kept the connection for long, the failures are
            // over.
            if acknowledged > 0 || began.elapsed() > self.config.longest_pause {
                *failures = 0;
            }
            match ended {
                StreamEnd::Done => return,
                // Everything was sent, so the end is not a failure.
                _ if self.queue.is_done() => return,
                StreamEnd::Refused { retry_after, reason } => {
                    self.queue.count(|counters| counters.refusals += 1);
                    tracing::debug!(?retry_after, reason, "the server has no room");
                    sleep(retry_after.max(self.config.shortest_pause)).await;
                }
                StreamEnd::Rejected(status) if self.queue.drop_rejected() => {
                    tracing::warn!(
                        reason = status.message(),
                        "the server could not read a batch; it is dropped"
                    );
                }
                StreamEnd::Lost(status) | StreamEnd::Rejected(status) => {
                    self.queue.count(|counters| counters.streams_lost += 1);
                    self.report_failure(*failures, status.message());
                    self.pause(*failures).await;
                    *failures += 1;
                    return;
                }
            }
        }
    }

    /// Runs one DoPut. Returns why it ended and how many batches were acknowledged.
    async fn stream(&self, client: &mut FlightServiceClient<Channel>) -> (StreamEnd, u64) {
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
                        return (StreamEnd::Refused { retry_after, reason }, acknowledged);
                    }
                    Err(error) => {
                        let status = tonic::Status::internal(error.to_string());
                        return (StreamEnd::Lost(status), acknowledged);
                    }
                },
                Ok(None) if self.queue.is_done() => return (StreamEnd::Done, acknowledged),
                Ok(None) => {
                    let status = tonic::Status::unavailable("the server ended the stream");
                    return (StreamEnd::Lost(status), acknowledged);
                }
                Err(status) => return (self.ended(status), acknowledged),
            }
        }
    }

    fn ended(&self, status: tonic::Status) -> StreamEnd {
        match status.code() {
            // tonic returns OUT_OF_RANGE for a message beyond its limit.
            Code::InvalidArgument | Code::OutOfRange => StreamEnd::Rejected(status),
            Code::ResourceExhausted => StreamEnd::Refused {
                retry_after: crate::rpc_status::RpcStatus::retry_after_in_details(status.details())
                    .unwrap_or(self.config.longest_pause)
                    .min(Duration::from_secs(60)),
                reason: status.message().to_owned(),
            },
            _ => StreamEnd::Lost(status),
        }
    }

    /// Logs the first of consecutive failures as a warning, and the others at a lower level.
    fn report_failure(&self, failures: u32, cause: &str) {
        let server = &self.config.server;
        if failures == 0 {
            tracing::warn!(server, cause, "the server cannot be reached; spans wait");
        } else {
            tracing::debug!(server, cause, failures, "the server cannot be reached");
        }
    }

    /// Waits for a random half to whole of the doubled pause, so that many agents do not reconnect
    /// at once.
    async fn pause(&self, failures: u32) {
        let full = self
            .config
            .shortest_pause
            .saturating_mul(1 << failures.min(16))
            .min(self.config.longest_pause);
        sleep(full.mul_f64(rand::random_range(0.5..=1.0))).await;
    }
}

/// An error with its causes on one line.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
