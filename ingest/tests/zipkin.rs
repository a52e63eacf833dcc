//! Zipkin's collector on a real socket.

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::client::{gzip, post};
use common::thrift::{Value, text};
use common::{Memory, Server};
use spanwise_ingest::Limits;

const JSON: (&str, &str) = ("content-type", "application/json");
const GZIP: (&str, &str) = ("content-encoding", "gzip");
const V2: &str = r#"[{"traceId":"1","id":"2","name":"two","timestamp":1}]"#;
const V1: &str = r#"[{"traceId":"1","id":"2","name":"one","timestamp":1}]"#;

fn thrift() -> Vec<u8> {
    let fields = [(1, Value::I64(1)), (3, text("thrift")), (4, Value::I64(2))];
    Value::List(vec![Value::Struct(fields.to_vec())]).binary()
}

/// `ListOfSpans` of one span with trace id, id and name.
fn protobuf() -> Vec<u8> {
    let span = [&[0x0a, 8][..], &[1; 8], &[0x1a, 8], &[2; 8], &[0x2a, 5], b"proto"].concat();
    [&[0x0a, u8::try_from(span.len()).unwrap()][..], &span].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_form_arrives() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let thrift_type = ("content-type", "application/x-thrift");
    for (path, headers, body) in [
        ("/api/v2/spans", vec![JSON], V2.as_bytes().to_vec()),
        (
            "/api/v2/spans",
            vec![("content-type", "application/json; charset=utf-8"), GZIP],
            gzip(V2.as_bytes()),
        ),
        ("/api/v2/spans", vec![], V2.as_bytes().to_vec()),
        ("/api/v2/spans", vec![("content-type", "application/x-protobuf")], protobuf()),
        ("/api/v1/spans", vec![JSON], V1.as_bytes().to_vec()),
        ("/api/v1/spans", vec![thrift_type, GZIP], gzip(&thrift())),
        ("/api/v2/spans", vec![JSON], b"[]".to_vec()),
    ] {
        let answer = post(server.zipkin, path, &headers, body).await;
        assert_eq!((answer.status, answer.text().as_str()), (202, ""), "{path} {headers:?}");
    }
    assert_eq!(memory.operations(), ["two", "two", "two", "proto", "one", "thrift"]);
    assert_eq!(server.counter("zipkin_spans_accepted"), 6);
    assert_eq!(server.counter("zipkin_requests"), 7);
    assert_eq!(server.ingest.status().in_flight_bytes, 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_and_counted() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    // A partial refusal.
    let mixed = r#"[{"traceId":"1","id":"2","name":"good"},{"traceId":"0","id":"2"}]"#;
    let answer = post(server.zipkin, "/api/v2/spans", &[JSON], mixed).await;
    assert_eq!(answer.status, 202);
    assert!(answer.text().starts_with("1 span was not taken: 1 with an invalid trace id"));
    // A complete refusal.
    let answer = post(server.zipkin, "/api/v2/spans", &[JSON], r#"[{"id":"2"}]"#).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("invalid trace id"), "{}", answer.text());
    assert_eq!(server.counter("spans_rejected_invalid_trace_id"), 2);
    let answer = post(server.zipkin, "/api/v2/spans", &[JSON], "{}").await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("no Zipkin v2 JSON list"), "{}", answer.text());
    assert_eq!(server.counter("requests_malformed"), 2);

    let typed = [("content-type", "application/x-thrift")];
    let answer = post(server.zipkin, "/api/v2/spans", &typed, thrift()).await;
    assert_eq!(answer.status, 415);
    assert!(answer.text().contains("application/x-protobuf"), "{}", answer.text());
    // Content types that a web page may send without permission are refused.
    for kind in ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"] {
        let answer = post(server.zipkin, "/api/v2/spans", &[("content-type", kind)], V2).await;
        assert_eq!(answer.status, 415, "{kind}");
    }
    let answer = post(server.zipkin, "/api/v3/spans", &[JSON], V2).await;
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("POST /api/v2/spans"), "{}", answer.text());
    let answer = post(server.zipkin, "/api/v2/spans", &[JSON], vec![b' '; 65 << 20]).await;
    assert_eq!(answer.status, 413);
    assert_eq!(memory.operations(), ["good"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_says_when_to_come_again() {
    let memory = Arc::new(Memory::default());
    memory.full.store(true, Ordering::SeqCst);
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let answer = post(server.zipkin, "/api/v2/spans", &[JSON], V2).await;
    assert_eq!((answer.status, &answer.headers["retry-after"]), (429, &"1".parse().unwrap()));
    assert!(answer.text().contains("free some space"));
    memory.full.store(false, Ordering::SeqCst);
    assert_eq!(post(server.zipkin, "/api/v2/spans", &[JSON], V2).await.status, 202);
    server.stop().await;
}
