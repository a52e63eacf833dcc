//! OTAP streams of the reference producer against the receiver, with a client made of tonic's
//! parts.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use common::otap::{BatchArrowRecords, NAMES, PLAIN, recorded};
use common::{Memory, Server, until};
use http::uri::PathAndQuery;
use prost::Message;
use spanwise_ingest::Limits;
use spanwise_wire::otap::{BatchStatus, StatusCode};
use spanwise_wire::otlp;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status, Streaming};

/// Number of spans in the recorded batches.
const SPANS: [usize; 8] = [3, 31, 31, 6, 6, 300, 4, 31];

fn batches(name: &str) -> Vec<BatchArrowRecords> {
    let decode = |bytes| BatchArrowRecords::decode(bytes).unwrap();
    recorded(name).into_iter().map(|recorded| decode(recorded.otap)).collect()
}

/// One stream.
struct Stream {
    send: Option<mpsc::Sender<BatchArrowRecords>>,
    answers: Streaming<BatchStatus>,
}

impl Stream {
    async fn open(server: &Server) -> Result<Self, Status> {
        Self::open_with(server, "ArrowTracesService/ArrowTraces", None).await
    }

    async fn open_with(
        server: &Server,
        method: &str,
        encoding: Option<CompressionEncoding>,
    ) -> Result<Self, Status> {
        let endpoint = Endpoint::from_shared(format!("http://{}", server.grpc)).unwrap();
        let mut grpc = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
        if let Some(encoding) = encoding {
            grpc = grpc.send_compressed(encoding);
        }
        grpc.ready().await.unwrap();
        let (send, sent) = mpsc::channel(64);
        let path = format!("/opentelemetry.proto.experimental.arrow.v1.{method}");
        let answers = grpc
            .streaming(
                Request::new(ReceiverStream::new(sent)),
                PathAndQuery::try_from(path).unwrap(),
                tonic_prost::ProstCodec::<BatchArrowRecords, BatchStatus>::default(),
            )
            .await?
            .into_inner();
        Ok(Self { send: Some(send), answers })
    }

    async fn send(&self, batch: &BatchArrowRecords) {
        self.send.as_ref().unwrap().send(batch.clone()).await.unwrap();
    }

    /// The next status: batch, code, message.
    async fn answer(&mut self) -> (i64, i32, String) {
        let status = self.answers.message().await.unwrap().expect("an answer");
        (status.batch_id, status.status_code, status.status_message)
    }

    /// Sends a batch and waits for its status.
    async fn taken(&mut self, batch: &BatchArrowRecords) -> (i32, String) {
        self.send(batch).await;
        let (id, code, message) = self.answer().await;
        assert_eq!(id, batch.batch_id);
        (code, message)
    }

    /// The status that ends the stream, after the sender has ended it.
    async fn end(mut self) -> Option<Status> {
        self.send = None;
        match self.answers.message().await {
            Ok(None) => None,
            Ok(Some(answer)) => panic!("no end but {answer:?}"),
            Err(status) => Some(status),
        }
    }
}

const OK: i32 = StatusCode::Ok as i32;

#[tokio::test(flavor = "multi_thread")]
async fn every_batch_is_answered_once() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    for (name, encoding) in [
        (NAMES[0], None),
        (NAMES[0], Some(CompressionEncoding::Zstd)),
        (NAMES[0], Some(CompressionEncoding::Gzip)),
        (NAMES[1], None),
    ] {
        let method = "ArrowTracesService/ArrowTraces";
        let mut stream = Stream::open_with(&server, method, encoding).await.unwrap();
        let batches = batches(name);
        for batch in &batches {
            stream.send(batch).await;
        }
        let mut answered = Vec::new();
        for _ in &batches {
            let (id, code, message) = stream.answer().await;
            assert_eq!((code, message.as_str()), (OK, ""));
            answered.push(id);
        }
        answered.sort_unstable();
        assert_eq!(answered, (0..8).collect::<Vec<_>>());
        assert!(stream.end().await.is_none());
    }
    assert_eq!(memory.operations().len(), 4 * SPANS.iter().sum::<usize>());
    assert_eq!(server.counter("otap_streams_opened"), 4);
    assert_eq!(server.counter("otap_batches"), 4 * 8);
    assert_eq!(server.counter("otap_spans_accepted"), 4 * 412);
    assert_eq!(server.counter("otap_rows_dropped_no_owner"), 0);
    until("no stream is left", || {
        let status = server.ingest.status();
        (status.otap_streams, status.otap_kept_bytes, status.in_flight_bytes) == (0, 0, 0)
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_is_told_and_the_stream_goes_on() {
    let memory = Arc::new(Memory::default());
    memory.full.store(true, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let mut stream = Stream::open(&server).await.unwrap();
    let batches = batches(PLAIN);
    let (code, message) = stream.taken(&batches[0]).await;
    assert_eq!(code, StatusCode::Unavailable as i32);
    assert!(message.contains("free some space"), "{message}");
    memory.full.store(false, Ordering::SeqCst);
    for batch in &batches[1..] {
        assert_eq!(stream.taken(batch).await, (OK, String::new()));
    }
    assert!(stream.end().await.is_none());
    assert_eq!(memory.operations().len(), 412 - SPANS[0]);
    assert_eq!(server.counter("requests_refused_store"), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_too_many_spans_is_refused_alone() {
    let spans = otlp::Limits { spans: 40, ..otlp::Limits::default() };
    let mut limits = Limits::default();
    limits.otap.spans = spans;
    let server = Server::start(Arc::default(), limits).await;
    let mut stream = Stream::open(&server).await.unwrap();
    for (batch, spans) in batches(PLAIN).iter().zip(SPANS) {
        let (code, message) = stream.taken(batch).await;
        if spans > 40 {
            assert_eq!(code, StatusCode::ResourceExhausted as i32);
            assert!(message.contains("send smaller batches"), "{message}");
        } else {
            assert_eq!((code, message), (OK, String::new()));
        }
    }
    assert_eq!(server.counter("requests_too_large"), 1);
    assert_eq!(server.counter("otap_streams_broken"), 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_cannot_be_read_ends_its_stream() {
    let server = Server::start(Arc::default(), Limits::default()).await;
    let batches = batches(PLAIN);
    for (damage, part) in [
        (0, "no Arrow IPC message"),
        (1, "type 30 is none of a stream of traces"),
        (2, "does not begin with a schema"),
    ] {
        let mut stream = Stream::open(&server).await.unwrap();
        assert_eq!(stream.taken(&batches[0]).await.0, OK);
        let mut broken = batches[1].clone();
        match damage {
            0 => broken.arrow_payloads[0].record[0] = 0,
            1 => broken.arrow_payloads[0].r#type = 30,
            _ => broken.arrow_payloads[0] = batches[2].arrow_payloads[0].clone(),
        }
        if damage == 2 {
            broken.arrow_payloads[0].schema_id = "another".into();
        }
        let (code, message) = stream.taken(&broken).await;
        assert_eq!(code, StatusCode::InvalidArgument as i32);
        assert!(message.contains(part), "{message}");
        let status = stream.end().await.unwrap();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(part), "{status}");
    }
    assert_eq!(server.counter("otap_streams_broken"), 3);
    assert_eq!(server.counter("requests_malformed"), 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_spans_are_left_out_and_named_in_the_answer() {
    let server = Server::start(Arc::default(), Limits::default()).await;
    let mut stream = Stream::open(&server).await.unwrap();
    let mut batch = batches(PLAIN).remove(0);
    let mut without_trace = || {
        let trace_id = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let record = &mut batch.arrow_payloads[0].record;
        let place = record.windows(16).position(|bytes| bytes == trace_id).unwrap();
        record[place..place + 16].fill(0);
        batch.clone()
    };
    let (code, message) = stream.taken(&without_trace()).await;
    assert_eq!(code, OK);
    assert!(message.contains("1 span was not taken"), "{message}");
    // On a stream of its own, whose first batch it is.
    let mut stream = Stream::open(&server).await.unwrap();
    let (_, all) = (without_trace(), without_trace());
    assert_eq!(stream.taken(&all).await.0, StatusCode::InvalidArgument as i32);
    assert_eq!(server.counter("spans_rejected_invalid_trace_id"), 4);
    assert_eq!(server.counter("otap_streams_broken"), 0);
    assert!(stream.end().await.is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_read_than_may_wait() {
    let memory = Arc::new(Memory::default());
    *memory.delay.lock() = Duration::from_millis(300);
    let limits = Limits { otap_batches: 2, ..Limits::default() };
    let server = Server::start(Arc::clone(&memory), limits).await;
    let mut stream = Stream::open(&server).await.unwrap();
    let batches = batches(PLAIN);
    for batch in &batches {
        stream.send(batch).await;
    }
    until("two are read", || server.counter("otap_batches") == 2).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(server.counter("otap_batches"), 2);
    for _ in &batches {
        assert_eq!(stream.answer().await.1, OK);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_keeps_too_much_begins_anew() {
    let limits = Limits { otap_kept_bytes: 1_000, ..Limits::default() };
    let server = Server::start(Arc::default(), limits).await;
    let mut stream = Stream::open(&server).await.unwrap();
    let batches = batches(PLAIN);
    assert_eq!(stream.taken(&batches[0]).await.0, OK);
    assert_eq!(stream.taken(&batches[1]).await.0, OK);
    let status = stream.end().await.unwrap();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("begin anew"), "{status}");
    assert_eq!(server.counter("otap_streams_outgrown"), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_streams_as_are_allowed() {
    let limits = Limits { otap_streams: 1, ..Limits::default() };
    let server = Server::start(Arc::default(), limits).await;
    let first = Stream::open(&server).await.unwrap();
    let Err(status) = Stream::open(&server).await else { panic!("two streams") };
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(server.counter("otap_streams_refused"), 1);
    assert!(first.end().await.is_none());
    until("the place is free", || server.ingest.status().otap_streams == 0).await;
    Stream::open(&server).await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_too_large_ends_the_stream() {
    let limits = Limits { body_bytes: 10_000, ..Limits::default() };
    let server = Server::start(Arc::default(), limits).await;
    let mut stream = Stream::open(&server).await.unwrap();
    let batches = batches(PLAIN);
    assert_eq!(stream.taken(&batches[0]).await.0, OK);
    stream.send(&batches[1]).await;
    let status = stream.end().await.unwrap();
    assert!(status.message().contains("larger than 10000 bytes"), "{status}");
    assert_eq!(server.counter("requests_too_large"), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_streams_after_their_answers() {
    let memory = Arc::new(Memory::default());
    *memory.delay.lock() = Duration::from_millis(200);
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let mut stream = Stream::open(&server).await.unwrap();
    stream.send(&batches(PLAIN)[0]).await;
    until("it is read", || server.counter("otap_batches") == 1).await;
    let (answered, ()) = tokio::join!(
        async {
            let answer = stream.answer().await;
            (answer.1, stream.end().await.unwrap())
        },
        server.stop(),
    );
    assert_eq!(answered.0, OK);
    assert_eq!(answered.1.code(), Code::Unavailable, "{}", answered.1);
    assert_eq!(memory.operations().len(), SPANS[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_signals_are_refused_in_words() {
    let server = Server::start(Arc::default(), Limits::default()).await;
    for method in ["ArrowLogsService/ArrowLogs", "ArrowMetricsService/ArrowMetrics"] {
        let Err(status) = Stream::open_with(&server, method, None).await else {
            panic!("{method} is taken")
        };
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains("traces only"), "{status}");
    }
    server.stop().await;
}
