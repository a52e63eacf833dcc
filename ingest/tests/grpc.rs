//! OTLP over gRPC: a generated client against the receiver.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Criteria, Empty, HandshakeRequest, Ticket};
use common::{Memory, Server, request};
use http::uri::PathAndQuery;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use spanwise_ingest::Limits;
use spanwise_wire::rpc_status::RpcStatus;
use tonic::Code;
use tonic::codec::CompressionEncoding;
use tonic::transport::{Channel, Endpoint};

async fn channel(server: &Server) -> Channel {
    Endpoint::from_shared(format!("http://{}", server.grpc)).unwrap().connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_compression_arrives() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let client = TraceServiceClient::new(channel(&server).await);
    for mut client in [
        client.clone(),
        client.clone().send_compressed(CompressionEncoding::Gzip),
        client.clone().send_compressed(CompressionEncoding::Zstd),
    ] {
        let response = client.export(request(2)).await.unwrap().into_inner();
        assert_eq!(response.partial_success, None);
    }
    assert_eq!(memory.operations(), ["1", "2", "1", "2", "1", "2"]);

    let mut mixed = request(2);
    mixed.resource_spans[0].scope_spans[0].spans[0].trace_id.clear();
    let response = client.clone().export(mixed).await.unwrap().into_inner();
    let partial = response.partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 1);
    assert!(partial.error_message.contains("trace id"), "{}", partial.error_message);
    assert_eq!(server.counter("otlp_grpc_requests"), 4);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_are_all_answered() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let client = TraceServiceClient::new(channel(&server).await);
    let calls = (0..50).map(|_| {
        let mut client = client.clone();
        tokio::spawn(async move { client.export(request(200)).await.map(drop) })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    assert_eq!(memory.operations().len(), 10_000);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_says_when_to_come_again() {
    let memory = Arc::new(Memory::default());
    memory.full.store(true, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let mut client = TraceServiceClient::new(channel(&server).await);
    let status = client.export(request(1)).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("free some space"), "{status}");
    let delay = RpcStatus::retry_after_in_details(status.details());
    assert_eq!(delay, Some(Duration::from_millis(50)));
    memory.full.store(false, Ordering::SeqCst);
    client.export(request(1)).await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_is_not_worth_a_retry() {
    let limits = Limits { body_bytes: 10_000, ..Limits::default() };
    let server = Server::start(Arc::default(), limits).await;
    let mut client = TraceServiceClient::new(channel(&server).await);
    let status = client.export(request(1000)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("send smaller batches"), "{status}");
    // The connection still works.
    client.export(request(1)).await.unwrap();
    assert_eq!(server.counter("requests_too_large"), 1);
    server.stop().await;
}

/// Sends raw bytes as the body of a call. Returns the status.
async fn raw(server: &Server, content_type: &str, body: &[u8]) -> tonic::Status {
    use http_body_util::{BodyExt, Full};
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    let client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let request = http::Request::post(format!("http://{}{path}", server.grpc))
        .header("content-type", content_type)
        .header("te", "trailers")
        .body(Full::new(bytes::Bytes::copy_from_slice(body)))
        .unwrap();
    let (parts, body) = client.request(request).await.unwrap().into_parts();
    let trailers = body.collect().await.unwrap().trailers().cloned().unwrap_or_default();
    tonic::Status::from_header_map(&parts.headers)
        .or_else(|| tonic::Status::from_header_map(&trailers))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_frames_are_told_apart() {
    let server = Server::start(Arc::default(), Limits::default()).await;
    for (body, part) in [
        (&b""[..], "0 bytes are no message"),
        (&[0, 0, 0, 0, 9, 1], "claims 9 bytes and has 1"),
        (&[0, 0, 0, 0, 3, 0x0a, 5, 1], "claims 5 bytes"),
    ] {
        let status = raw(&server, "application/grpc", body).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        assert!(status.message().contains(part), "{status}");
    }
    // A protocol violation: a compressed message in a call without an encoding.
    for (body, part) in [
        (&[1, 0, 0, 0, 1, 9][..], "names no grpc-encoding"),
        (&[7, 0, 0, 0, 0], "compression flag 7"),
    ] {
        let status = raw(&server, "application/grpc", body).await;
        assert_eq!(status.code(), Code::Internal, "{status}");
        assert!(status.message().contains(part), "{status}");
    }
    // Clients that do not speak gRPC get a readable explanation, also over HTTP/1.1.
    let headers = [("content-type", "application/x-protobuf")];
    for path in ["/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"] {
        let answer = common::client::post(server.grpc, path, &headers, vec![1]).await;
        assert_eq!(answer.status, 415);
        assert!(answer.text().contains(&server.http.port().to_string()), "{}", answer.text());
    }
    let empty = raw(&server, "application/grpc+proto", &[0; 5]).await;
    assert_eq!(empty.code(), Code::Ok);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_calls_are_refused_in_words() {
    let server = Server::start(Arc::default(), Limits::default()).await;
    let channel = channel(&server).await;
    for service in ["logs.v1.LogsService", "metrics.v1.MetricsService"] {
        let mut grpc = tonic::client::Grpc::new(channel.clone());
        grpc.ready().await.unwrap();
        let path = format!("/opentelemetry.proto.collector.{service}/Export");
        let codec = tonic_prost::ProstCodec::<(), ()>::default();
        let path = PathAndQuery::try_from(path).unwrap();
        let status = grpc.unary(tonic::Request::new(()), path, codec).await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains("traces only"), "{status}");
    }
    let mut flight = FlightServiceClient::new(channel);
    let status = flight.do_get(Ticket::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert!(status.message().contains("DoPut"), "{status}");
    assert!(flight.list_flights(Criteria::default()).await.is_err());
    assert!(flight.list_actions(Empty {}).await.is_err());
    let hello = futures::stream::iter([HandshakeRequest::default()]);
    flight.handshake(hello).await.unwrap().into_inner().message().await.unwrap().unwrap();
    server.stop().await;
}
