//! A sink that stores in memory, and receivers on free ports.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part of this")]

pub mod client;
#[path = "../../../wire/tests/support/otap.rs"]
pub mod otap;
#[path = "../../../wire/tests/support/thrift.rs"]
pub mod thrift;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use parking_lot::Mutex;
use spanwise_ingest::{
    AGENTS, Allowed, Ingest, Limits, Origin, RECEIVERS, Receiver, ReceiverAddresses, Refused, Sink,
    Socket,
};
use spanwise_model::{SpanBatch, SpanRows};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The contents of a store. It outlives servers.
#[derive(Default)]
pub struct Memory {
    pub batches: Mutex<Vec<(Option<Origin>, RecordBatch)>>,
    pub origins: Mutex<HashSet<Origin>>,
    pub duplicates: Mutex<u64>,
    pub full: AtomicBool,
    /// Larger batches are refused permanently; 0 means no limit.
    pub most_rows: AtomicUsize,
    /// Time that storing a batch takes.
    pub delay: Mutex<Duration>,
}

#[async_trait]
impl Sink for Memory {
    async fn accept(&self, rows: SpanRows, origin: Option<Origin>) -> Result<(), Refused> {
        let batch = rows.whole().expect("a batch");
        let delay = *self.delay.lock();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        if self.full.load(Ordering::SeqCst) {
            return Err(Refused::Later {
                reason: "the data directory is full; free some space".to_owned(),
                retry_after: Duration::from_millis(50),
            });
        }
        let most_rows = self.most_rows.load(Ordering::SeqCst);
        if most_rows > 0 && batch.num_rows() > most_rows {
            return Err(Refused::TooLarge { reason: format!("more than {most_rows} rows") });
        }
        if origin.is_some_and(|origin| !self.origins.lock().insert(origin)) {
            *self.duplicates.lock() += 1;
            return Ok(());
        }
        self.batches.lock().push((origin, batch));
        Ok(())
    }
}

impl Memory {
    /// Operations of all spans in order of arrival.
    pub fn operations(&self) -> Vec<String> {
        let batches = self.batches.lock();
        batches
            .iter()
            .flat_map(|(_, batch)| {
                let batch = SpanBatch::try_from(batch.clone()).unwrap();
                batch.spans().map(|span| span.unwrap().operation).collect::<Vec<_>>()
            })
            .collect()
    }
}

pub struct Server {
    pub ingest: Ingest,
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    pub zipkin: SocketAddr,
    pub jaeger_grpc: SocketAddr,
    pub jaeger_http: SocketAddr,
    pub jaeger_udp_compact: SocketAddr,
    pub jaeger_udp_binary: SocketAddr,
    stop: Vec<oneshot::Sender<()>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    pub async fn start(sink: Arc<Memory>, limits: Limits) -> Self {
        Self::start_at(sink, limits, loopback()).await
    }

    /// Receivers with this gRPC address.
    pub async fn start_at(sink: Arc<Memory>, limits: Limits, grpc: SocketAddr) -> Self {
        let mut sockets = Vec::new();
        for receiver in RECEIVERS {
            let at = if receiver.setting == AGENTS.setting { grpc } else { loopback() };
            let (socket, address) = match receiver.is_udp() {
                true => {
                    let socket = UdpSocket::bind(at).await.unwrap();
                    let address = socket.local_addr().unwrap();
                    (Socket::Udp(socket), address)
                }
                false => {
                    let listener = TcpListener::bind(at).await.unwrap();
                    let address = listener.local_addr().unwrap();
                    (Socket::Tcp(listener), address)
                }
            };
            sockets.push((receiver, socket, address));
        }
        let mut bound = sockets.iter().map(|(_, _, address)| Ok::<_, ()>(Some(*address)));
        let addresses = ReceiverAddresses::try_from_fn(|_| bound.next().unwrap()).unwrap();
        let ingest =
            Ingest::with(sink, limits, Allowed::default(), addresses, None, Arc::default());
        let (mut stop, mut tasks) = (Vec::new(), Vec::new());
        for (receiver, socket, _) in sockets {
            let (tell, told) = oneshot::channel::<()>();
            let ingest = ingest.clone();
            tasks.push(tokio::spawn(async move {
                ingest.serve(receiver, socket, async { drop(told.await) }).await.unwrap();
            }));
            stop.push(tell);
        }
        let at = |key| addresses.of(Receiver::named(key).unwrap()).unwrap();
        Self {
            ingest,
            grpc: at("otlp_grpc"),
            http: at("otlp_http"),
            zipkin: at("zipkin"),
            jaeger_grpc: at("jaeger_grpc"),
            jaeger_http: at("jaeger_http"),
            jaeger_udp_compact: at("jaeger_udp_compact"),
            jaeger_udp_binary: at("jaeger_udp_binary"),
            stop,
            tasks,
        }
    }

    /// Shuts down as on a signal.
    pub async fn stop(self) {
        drop(self.stop);
        for task in self.tasks {
            task.await.unwrap();
        }
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.ingest.status().counters[name]
    }
}

/// Any free port.
pub fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// A request with this many spans. Their operations are numbers.
pub fn request(spans: u64) -> ExportTraceServiceRequest {
    let spans = (1..=spans)
        .map(|number| Span {
            trace_id: vec![1; 16],
            span_id: number.to_be_bytes().to_vec(),
            name: number.to_string(),
            ..Default::default()
        })
        .collect();
    let service = KeyValue {
        key: "service.name".into(),
        value: Some(AnyValue { value: Some(Value::StringValue("shop".into())) }),
        ..Default::default()
    };
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes: vec![service], ..Default::default() }),
            scope_spans: vec![ScopeSpans { spans, ..Default::default() }],
            ..Default::default()
        }],
    }
}

/// Waits until a condition holds, for at most ten seconds.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within ten seconds: {what}");
}
