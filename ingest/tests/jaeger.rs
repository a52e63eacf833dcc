//! Jaeger's collector and agent ports on real sockets.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::client::{gzip, post};
use common::thrift::{Value, call, text};
use common::{Memory, Server, until};
use prost::Message;
use spanwise_ingest::Limits;
use spanwise_wire::rpc_status::RpcStatus;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;
use tonic::codec::CompressionEncoding;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

const THRIFT: (&str, &str) = ("content-type", "application/x-thrift");

/// A `Batch` of spans with these operations.
fn batch(operations: &[&str]) -> Value {
    let span = |operation: &&str| {
        Value::Struct(vec![(1, Value::I64(1)), (3, Value::I64(2)), (5, text(operation))])
    };
    let process = Value::Struct(vec![(1, text("shop"))]);
    let spans = operations.iter().map(span).collect();
    Value::Struct(vec![(1, process), (2, Value::List(spans))])
}

/// The needed part of `PostSpansRequest`.
#[derive(Clone, PartialEq, Message)]
struct PostSpans {
    #[prost(message, optional, tag = "1")]
    batch: Option<Batch>,
}

#[derive(Clone, PartialEq, Message)]
struct Batch {
    #[prost(message, repeated, tag = "1")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    operation_name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Nothing {}

fn request(operations: &[&str]) -> PostSpans {
    let spans = operations.iter().map(|operation| Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        operation_name: (*operation).to_owned(),
    });
    PostSpans { batch: Some(Batch { spans: spans.collect() }) }
}

async fn call_grpc<M: Message + 'static>(
    to: SocketAddr,
    path: &'static str,
    request: M,
) -> Result<(), Status> {
    let channel = Endpoint::from_shared(format!("http://{to}")).unwrap().connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel).send_compressed(CompressionEncoding::Gzip);
    client.ready().await.unwrap();
    let codec = ProstCodec::<M, Nothing>::default();
    let path = http::uri::PathAndQuery::from_static(path);
    client.unary(Request::new(request), path, codec).await.map(drop)
}

const POST_SPANS: &str = "/jaeger.api_v2.CollectorService/PostSpans";

#[tokio::test(flavor = "multi_thread")]
async fn grpc_is_taken_and_refused_in_words() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    call_grpc(server.jaeger_grpc, POST_SPANS, request(&["one", "two"])).await.unwrap();
    let mut wrong = request(&["bad"]);
    wrong.batch.as_mut().unwrap().spans[0].span_id.clear();
    let status = call_grpc(server.jaeger_grpc, POST_SPANS, wrong).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("invalid span id"), "{}", status.message());
    let sampling = "/jaeger.api_v2.SamplingManager/GetSamplingStrategy";
    let status = call_grpc(server.jaeger_grpc, sampling, request(&[])).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("JAEGER_SAMPLER_TYPE"), "{}", status.message());

    memory.full.store(true, Ordering::SeqCst);
    let status = call_grpc(server.jaeger_grpc, POST_SPANS, request(&["three"])).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(RpcStatus::retry_after_in_details(status.details()).is_some());
    assert_eq!(memory.operations(), ["one", "two"]);
    assert_eq!(server.counter("jaeger_spans_accepted"), 2);
    assert_eq!(server.counter("jaeger_grpc_requests"), 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jaeger_writes_to_its_storage() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let listener = TcpListener::bind(common::loopback()).await.unwrap();
    let at = listener.local_addr().unwrap();
    let ingest = server.ingest.clone();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(async move {
        let writer = ingest.storage_writer();
        ingest.serve_queries("storage", listener, writer, async { drop(stopped.await) }).await
    });
    // A batch with one span has the bytes of a `WriteSpanRequest`.
    let span = request(&["one"]).batch.unwrap().spans.remove(0);
    let write = |span: Span| Batch { spans: vec![span] };
    let path = "/jaeger.storage.v1.SpanWriterPlugin/WriteSpan";
    call_grpc(at, path, write(span.clone())).await.unwrap();
    let wrong = Span { span_id: Vec::new(), ..span };
    let status = call_grpc(at, path, write(wrong)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    call_grpc(at, path, common::request(2)).await.unwrap();
    assert_eq!(memory.operations(), ["one", "1", "2"]);
    drop(stop);
    serving.await.unwrap().unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thrift_over_http_is_taken_and_refused_in_words() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let path = "/api/traces?format=jaeger.thrift";
    let bytes = batch(&["one"]).binary();
    for (headers, body) in [
        (vec![THRIFT], bytes.clone()),
        (vec![("content-type", "application/vnd.apache.thrift.binary")], bytes.clone()),
        (vec![THRIFT, ("content-encoding", "gzip")], gzip(&bytes)),
    ] {
        assert_eq!(post(server.jaeger_http, path, &headers, body).await.status, 202);
    }
    let cut = bytes[..bytes.len() - 3].to_vec();
    let answer = post(server.jaeger_http, path, &[THRIFT], cut).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("no Jaeger thrift Batch: the batch"), "{}", answer.text());
    let json = [("content-type", "application/json")];
    assert_eq!(post(server.jaeger_http, path, &json, "{}").await.status, 415);
    memory.full.store(true, Ordering::SeqCst);
    let answer = post(server.jaeger_http, path, &[THRIFT], bytes).await;
    assert_eq!((answer.status, &answer.headers["retry-after"]), (429, &"1".parse().unwrap()));
    assert_eq!(memory.operations(), ["one", "one", "one"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_are_taken_in_both_protocols() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (binary, compact) = call("emitBatch", &batch(&["both", "both"]));
    client.send_to(b"noise", server.jaeger_udp_compact).await.unwrap();
    client.send_to(&binary, server.jaeger_udp_compact).await.unwrap();
    client.send_to(&compact, server.jaeger_udp_compact).await.unwrap();
    client.send_to(&binary, server.jaeger_udp_binary).await.unwrap();
    until("both batches are there", || memory.operations().len() == 4).await;
    until("all is counted", || server.counter("jaeger_udp_datagrams") == 4).await;
    assert_eq!(server.counter("jaeger_udp_datagrams_rejected"), 2);
    assert_eq!(server.counter("jaeger_spans_accepted"), 4);
    assert_eq!(server.ingest.status().in_flight_bytes, 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn datagrams_wait_for_the_store_and_the_surplus_is_counted() {
    let memory = Arc::new(Memory::default());
    memory.full.store(true, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (_, compact) = call("emitBatch", &batch(&["span"]));
    for number in 0..4000 {
        client.send_to(&compact, server.jaeger_udp_compact).await.unwrap();
        if number % 50 == 0 {
            // Slow enough that spans are dropped here and not in the kernel.
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
    let told = || {
        let count = |name| server.counter(name);
        let dropped = count("jaeger_udp_datagrams_dropped_queue_full");
        (count("jaeger_udp_datagrams") + count("jaeger_udp_datagrams_dropped_kernel"), dropped)
    };
    until("every datagram is counted", || told().0 == 4000).await;
    let (_, dropped) = told();
    assert!((1000..4000).contains(&dropped), "{dropped} were dropped");
    assert!(memory.operations().is_empty());
    memory.full.store(false, Ordering::SeqCst);
    let kept = || server.counter("jaeger_udp_datagrams") - dropped;
    until("what waited is there", || memory.operations().len() as u64 == kept()).await;
    server.stop().await;
}
