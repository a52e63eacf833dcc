//! The JVM agent's batches on a real socket.

mod common;

use std::sync::Arc;

use common::client::post;
use common::{Memory, Server};
use spanwise_ingest::Limits;

/// A batch with one server span, as docs/jvm-format.md has it.
fn batch() -> Vec<u8> {
    let mut bytes =
        b"SWJ\x01\x01\x05\x02\x01\x0cservice.name\x04shop\x02\x03GET\x02/a\x01".to_vec();
    bytes.extend_from_slice(&[7; 16]);
    bytes.extend_from_slice(&[1, 1, 8, 1, 2, 0, 200, 1, 0]);
    bytes.extend_from_slice(&[1; 8]);
    bytes.extend_from_slice(&[0, 9]);
    bytes
}

const TYPE: (&str, &str) = ("content-type", "application/x-spanwise-jvm");

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_arrives() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let answer = post(server.http, "/v1/jvm", &[TYPE], batch()).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, ""));
    assert_eq!(memory.operations(), ["GET /a"]);
    for (name, count) in [
        ("jvm_requests", 1),
        ("jvm_spans_accepted", 1),
        ("jvm_spans_dropped_ring_full", 5),
        ("jvm_spans_dropped_too_deep", 2),
    ] {
        assert_eq!(server.counter(name), count, "{name}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let mut short = batch();
    short.pop();
    let answer = post(server.http, "/v1/jvm", &[TYPE], short).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("it ends too early"), "{}", answer.text());
    let json = ("content-type", "application/json");
    let answer = post(server.http, "/v1/jvm", &[json], batch()).await;
    assert_eq!(answer.status, 415);
    assert!(memory.operations().is_empty());
    assert_eq!(server.counter("jvm_spans_dropped_ring_full"), 0);
    server.stop().await;
}
