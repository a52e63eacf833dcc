//! OTLP over HTTP on a real socket.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use common::client::{self, Answer, gzip};
use common::{Memory, Server, request};
use http_body_util::BodyExt;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use spanwise_ingest::{Ingest, Limits, Receiver, Sink};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::ServiceExt;

const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
const JSON: (&str, &str) = ("content-type", "application/json");

async fn post(server: &Server, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
    client::post(server.http, path, headers, body).await
}

const JSON_SPAN: &str = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[
    {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"j"},
    {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"ee","name":"bad"}]}]}]}"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_encoding_arrives() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let body = request(2).encode_to_vec();
    let zstd = zstd::stream::encode_all(body.as_slice(), 3).unwrap();
    for (headers, body) in [
        (vec![PROTOBUF], body.clone()),
        (vec![PROTOBUF, ("content-encoding", "gzip")], gzip(&body)),
        (vec![PROTOBUF, ("content-encoding", "zstd")], zstd),
        (vec![PROTOBUF, ("content-encoding", "identity")], body),
    ] {
        let answer = post(&server, "/v1/traces", &headers, body).await;
        assert_eq!(answer.status, 200, "{headers:?}");
        assert_eq!(answer.headers["content-type"], "application/x-protobuf");
        let response = ExportTraceServiceResponse::decode(answer.body).unwrap();
        assert_eq!(response.partial_success, None);
    }
    let json = [("content-type", "application/json; charset=utf-8")];
    let answer = post(&server, "/v1/traces", &json, JSON_SPAN.into()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["partialSuccess"]["rejectedSpans"], "1");
    assert_eq!(memory.operations(), ["1", "2", "1", "2", "1", "2", "1", "2", "j"]);
    assert_eq!(server.counter("otlp_spans_accepted"), 9);
    assert_eq!(server.counter("spans_rejected_invalid_span_id"), 1);
    assert_eq!(server.ingest.status().in_flight_bytes, 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_told_what_is_wrong_and_hurt_nobody() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let good = request(3).encode_to_vec();

    // Wrong lengths. The error has the request's encoding.
    let answer = post(&server, "/v1/traces", &[PROTOBUF], good[..good.len() - 3].to_vec()).await;
    assert_eq!(
        (answer.status, &answer.headers["content-type"]),
        (400, &PROTOBUF.1.parse().unwrap())
    );
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(text.contains("resource_spans") || text.contains("bytes"), "{text}");
    let answer = post(&server, "/v1/traces", &[JSON], b"{\"resourceSpans\":".to_vec()).await;
    assert_eq!((answer.status, answer.json()["code"].as_i64()), (400, Some(3)));

    // Random bytes with a compression header.
    let encoded = [PROTOBUF, ("content-encoding", "gzip")];
    assert_eq!(post(&server, "/v1/traces", &encoded, good.clone()).await.status, 400);
    assert_eq!(server.counter("requests_malformed"), 3);

    // Unsupported types and encodings.
    let answer = post(&server, "/v1/traces", &[("content-type", "text/plain")], vec![1]).await;
    assert_eq!(answer.status, 415);
    assert!(answer.json()["message"].as_str().unwrap().contains("application/x-protobuf"));
    let encoded = [PROTOBUF, ("content-encoding", "br")];
    assert_eq!(post(&server, "/v1/traces", &encoded, good.clone()).await.status, 415);

    // Other signals.
    for path in ["/v1/logs", "/v1/metrics"] {
        let answer = post(&server, path, &[JSON], b"{}".to_vec()).await;
        assert_eq!(answer.status, 404);
        assert!(answer.json()["message"].as_str().unwrap().contains("traces only"));
    }

    assert_eq!(post(&server, "/v1/traces", &[PROTOBUF], good).await.status, 200);
    assert_eq!(memory.operations(), ["1", "2", "3"]);
    server.stop().await;
}

/// The routes of OTLP over HTTP.
fn otlp(ingest: &Ingest) -> axum::Router {
    let receiver = Receiver::named("otlp_http").unwrap();
    ingest.router(receiver).unwrap()
}

/// The responses to concurrent requests.
async fn at_once(ingest: &Ingest, bodies: Vec<Vec<u8>>) -> Vec<(u16, Bytes)> {
    let answers = bodies.into_iter().map(|body| {
        let request = http::Request::post("/v1/traces").header(PROTOBUF.0, PROTOBUF.1);
        let answer = otlp(ingest).oneshot(request.body(Body::from(body)).unwrap());
        tokio::spawn(async move {
            let (parts, body) = answer.await.unwrap().into_parts();
            (parts.status.as_u16(), body.collect().await.unwrap().to_bytes())
        })
    });
    let answers: Vec<_> = answers.collect();
    futures::future::join_all(answers).await.into_iter().map(Result::unwrap).collect()
}

// On one thread, so that all requests arrive before the first is decoded.
#[tokio::test]
async fn of_requests_that_come_at_once_each_is_told_its_own() {
    let memory = Arc::new(Memory::default());
    let ingest = Ingest::new(Arc::clone(&memory) as Arc<dyn Sink>, Limits::default());
    let good = request(3).encode_to_vec();
    let mut partly = request(2);
    partly.resource_spans[0].scope_spans[0].spans[0].span_id = vec![1; 3];
    let kinds = [good.clone(), good[..good.len() - 3].to_vec(), partly.encode_to_vec()];
    let bodies = std::iter::repeat_n(kinds, 7).flatten().collect();
    let answers = at_once(&ingest, bodies).await;
    for (place, (status, body)) in answers.into_iter().enumerate() {
        let response = || ExportTraceServiceResponse::decode(body).unwrap().partial_success;
        match place % 3 {
            0 => assert_eq!((status, response()), (200, None)),
            1 => assert_eq!(status, 400),
            _ => {
                assert_eq!(status, 200);
                assert_eq!(response().unwrap().rejected_spans, 1);
            }
        }
    }
    let expected = std::iter::repeat_n(["1", "2", "3", "2"], 7).flatten();
    assert_eq!(memory.operations(), expected.collect::<Vec<_>>());
    // The requests between two unreadable ones are one batch.
    assert_eq!(memory.batches.lock().len(), 8);
    let counters = ingest.status().counters;
    assert_eq!(counters["otlp_spans_accepted"], 28);
    assert_eq!(counters["spans_rejected_invalid_span_id"], 7);
    assert_eq!(counters["requests_malformed"], 7);
    assert_eq!(ingest.status().in_flight_bytes, 0);

    // If the store refuses a combined batch as too large, only requests that are too large
    // themselves fail.
    memory.most_rows.store(3, Ordering::SeqCst);
    let bodies = [2, 4, 3].map(|spans| request(spans).encode_to_vec()).to_vec();
    let statuses = at_once(&ingest, bodies).await.into_iter().map(|(status, _)| status);
    assert_eq!(statuses.collect::<Vec<_>>(), [200, 413, 200]);
    assert_eq!(memory.batches.lock().len(), 10);

    memory.full.store(true, Ordering::SeqCst);
    let statuses = at_once(&ingest, vec![good; 3]).await.into_iter().map(|(status, _)| status);
    assert_eq!(statuses.collect::<Vec<_>>(), [429; 3]);
    assert_eq!(ingest.status().in_flight_bytes, 0);
}

// A combined batch takes about a millisecond to decode.
#[tokio::test]
async fn many_requests_at_once_are_several_batches() {
    let memory = Arc::new(Memory::default());
    let ingest = Ingest::new(Arc::clone(&memory) as Arc<dyn Sink>, Limits::default());
    let body = request(10_000).encode_to_vec();
    assert!((350_000..500_000).contains(&body.len()), "{}", body.len());
    let answers = at_once(&ingest, vec![body; 5]).await;
    assert!(answers.into_iter().all(|(status, _)| status == 200));
    let rows: Vec<usize> = memory.batches.lock().iter().map(|(_, rows)| rows.num_rows()).collect();
    assert_eq!(rows, [20_000, 20_000, 10_000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_100_mb_is_refused_in_words() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    // One client announces the length, and one does not.
    let answer = post(&server, "/v1/traces", &[PROTOBUF], vec![0; 100 << 20]).await;
    assert_eq!(answer.status, 413);
    assert!(String::from_utf8_lossy(&answer.body).contains("send smaller batches"));

    let mut stream = TcpStream::connect(server.http).await.unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = stream.into_split();
    let writing = tokio::spawn(async move {
        let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
        // The server may close the connection before everything is written.
        for _ in 0..100 {
            if writer.write_all(&chunk).await.is_err() {
                break;
            }
        }
    });
    let mut answer = vec![0; 12];
    reader.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
    drop(reader);
    writing.await.unwrap();

    assert_eq!(server.counter("requests_too_large"), 2);
    assert!(memory.operations().is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bomb_is_refused() {
    let server = Server::start(Arc::default(), Limits::default()).await;
    let zeros = vec![0; 80 << 20];
    let zstd = zstd::stream::encode_all(zeros.as_slice(), 1).unwrap();
    for (encoding, bomb) in [("gzip", gzip(&zeros)), ("zstd", zstd)] {
        assert!(bomb.len() < 1 << 20);
        let headers = [PROTOBUF, ("content-encoding", encoding)];
        let answer = post(&server, "/v1/traces", &headers, bomb).await;
        assert_eq!(answer.status, 413, "{encoding}");
        assert!(String::from_utf8_lossy(&answer.body).contains("when decompressed"));
    }
    assert_eq!(server.ingest.status().in_flight_bytes, 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_be_stored_is_not_asked_for_again() {
    let memory = Arc::new(Memory::default());
    memory.most_rows.store(1, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let answer = post(&server, "/v1/traces", &[PROTOBUF], request(2).encode_to_vec()).await;
    assert_eq!(answer.status, 413);
    assert!(String::from_utf8_lossy(&answer.body).contains("more than 1 rows"));
    assert!(!answer.headers.contains_key("retry-after"));
    assert_eq!(post(&server, "/v1/traces", &[JSON], JSON_SPAN.into()).await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_says_when_to_come_again() {
    let memory = Arc::new(Memory::default());
    memory.full.store(true, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let answer = post(&server, "/v1/traces", &[JSON], JSON_SPAN.into()).await;
    assert_eq!((answer.status, &answer.headers["retry-after"]), (429, &"1".parse().unwrap()));
    let json = answer.json();
    assert_eq!(json["code"], 8);
    assert!(json["message"].as_str().unwrap().contains("free some space"));
    assert_eq!(server.counter("requests_refused_store"), 1);
    memory.full.store(false, Ordering::SeqCst);
    assert_eq!(post(&server, "/v1/traces", &[JSON], JSON_SPAN.into()).await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_in_flight_is_bounded_and_counted() {
    let memory = Arc::new(Memory::default());
    *memory.delay.lock() = Duration::from_millis(500);
    let limits = Limits { in_flight_bytes: 1_000_000, ..Limits::default() };
    let server = Server::start(Arc::clone(&memory), limits).await;
    let answer = post(&server, "/v1/traces", &[PROTOBUF], vec![0; 2_000_000]).await;
    assert_eq!(answer.status, 429);
    assert_eq!(server.counter("requests_refused_memory"), 1);
    // All memory is released.
    assert_eq!(server.ingest.status().in_flight_bytes, 0);
    let small = request(1).encode_to_vec();
    assert_eq!(post(&server, "/v1/traces", &[PROTOBUF], small).await.status, 200);
    server.stop().await;
}

/// Begins a body and never finishes it.
async fn begin_body(server: &Server) -> TcpStream {
    let mut slow = TcpStream::connect(server.http).await.unwrap();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: localhost\r\n\
                content-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    slow
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_silent_senders_are_let_go() {
    let limits = Limits {
        body_time: Duration::from_millis(200),
        header_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = Server::start(Arc::default(), limits).await;
    let mut silent = TcpStream::connect(server.http).await.unwrap();
    let mut slow = begin_body(&server).await;
    let mut answer = vec![0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 408");
    let mut nothing = [0; 16];
    let closed = tokio::time::timeout(Duration::from_secs(20), silent.read(&mut nothing)).await;
    assert_eq!(closed.unwrap().unwrap_or(0), 0);
    assert_eq!(server.counter("requests_timed_out"), 1);
    assert_eq!(server.counter("connections_closed_idle"), 1);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_too_many_is_closed_at_once_and_those_before_it_are_served() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = Server::start(Arc::default(), limits).await;
    let slow = [begin_body(&server).await, begin_body(&server).await];
    common::until("both are asked", || server.counter("otlp_http_requests") == 2).await;
    let mut third = TcpStream::connect(server.http).await.unwrap();
    assert_eq!(third.read(&mut [0; 16]).await.unwrap_or(0), 0);
    assert_eq!(server.counter("connections_refused"), 1);
    drop(slow);
    common::until("both places are free", || server.ingest.status().connections == 0).await;
    let body = request(1).encode_to_vec();
    assert_eq!(post(&server, "/v1/traces", &[PROTOBUF], body).await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_times_are_kept_marked_and_counted() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = i64::try_from(now.as_nanos()).unwrap();
    let hour = 3_600_000_000_000;
    let times = [
        (now - hour, now),
        (5, now),
        (now + hour, now + 2 * hour),
        (now - hour, now - 2 * hour),
        (now - 30 * hour, now),
    ];
    let spans = times.map(|(start, end)| {
        serde_json::json!({
            "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
            "name": "op", "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end.to_string(),
        })
    });
    let body = serde_json::json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
    let answer = post(&server, "/v1/traces", &[JSON], body.to_string().into()).await;
    assert_eq!((answer.status, answer.json()), (200, serde_json::json!({})));
    let batch = memory.batches.lock()[0].1.clone();
    let batch = spanwise_model::SpanBatch::try_from(batch).unwrap();
    let spans: Vec<_> = batch.spans().map(Result::unwrap).collect();
    let marks: Vec<_> = spans
        .iter()
        .map(|span| span.clock_fault().map_or("right", |fault| fault.as_str()))
        .collect();
    assert_eq!(marks, ["right", "past", "future", "negative", "long"]);
    assert_eq!(spans[3].duration_nano, 0);
    assert_eq!(spans[4].duration_nano, 30 * hour);
    let counters = server.ingest.status().counters;
    for fault in ["past", "future", "negative", "long"] {
        assert_eq!(counters[&format!("spans_clock_{fault}")], 1, "{fault}");
    }
}
