//! Ports of all protocols: who may connect, for how long, and how often.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::client::{Answer, post};
use common::{Memory, Server, until};
use spanwise_ingest::{Allowed, Ingest, Limits, ReceiverAddresses};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const JSON: (&str, &str) = ("content-type", "application/json");
const SPANS: &str = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[
    {"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"op"}]}]}]}"#;

/// Everything that is received until the connection closes.
async fn talk(to: std::net::SocketAddr, text: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer));
    let _ = read.await.expect("closed");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_that_are_not_listed_send_nothing() {
    let memory = Arc::new(Memory::default());
    let server = Server::start(Arc::clone(&memory), Limits::default()).await;
    let forged: [&[(&str, &str)]; 4] = [
        &[JSON, ("origin", "https://evil.example")],
        &[JSON, ("origin", "null")],
        &[JSON, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")],
        &[JSON, ("host", "evil.example:4318")],
    ];
    for headers in forged {
        for port in [server.http, server.zipkin, server.jaeger_http, server.grpc] {
            let Answer { status, .. } = post(port, "/v1/traces", headers, SPANS).await;
            assert!(status == 403 || status == 421, "{headers:?}: {status}");
        }
    }
    assert_eq!(server.counter("requests_refused_origin"), 12);
    assert_eq!(server.counter("requests_refused_host"), 4);
    assert!(memory.operations().is_empty());
    assert_eq!(post(server.http, "/v1/traces/", &[JSON], SPANS).await.status, 200);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_paths_methods_and_protocols_are_named() {
    let server = Server::start(Arc::default(), Limits::default()).await;
    let [grpc, http, zipkin, jaeger] =
        [server.grpc, server.http, server.zipkin, server.jaeger_http]
            .map(|at| at.port().to_string());
    for (port, path, word) in [
        (server.http, "/v1/trace", "POST /v1/traces"),
        (server.http, "/v1/v1/traces", "POST /v1/traces"),
        (server.http, "//v1/traces", "POST /v1/traces"),
        (server.http, "/api/v2/spans", &*zipkin),
        (server.http, "/api/traces", &jaeger),
        (server.zipkin, "/v1/traces", "POST /api/v2/spans"),
        (server.jaeger_http, "/v1/traces", "POST /api/traces"),
    ] {
        let answer = post(port, path, &[JSON], SPANS).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.text().contains(word), "{path}: {}", answer.text());
    }
    assert_eq!(server.counter("requests_wrong_path"), 7);
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    for (port, path) in [
        (server.http, "/v1/traces"),
        (server.zipkin, "/api/v2/spans"),
        (server.jaeger_http, "/api/traces"),
    ] {
        let answer = talk(port, &get(path)).await.to_lowercase();
        assert!(answer.starts_with("http/1.1 405") && answer.contains("allow: post"), "{answer}");
        assert!(answer.contains(&format!("post {path}")), "{answer}");
    }
    let headers = [("content-type", "application/grpc")];
    let export = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let answer = post(server.http, export, &headers, vec![0; 5]).await;
    assert_eq!(answer.headers["grpc-status"], "12");
    assert!(answer.headers["grpc-message"].to_str().unwrap().contains(&grpc));
    // The body may belong to another receiver, too.
    let protobuf = ("content-type", "application/x-protobuf");
    for (port, header, body, word) in [
        (server.http, JSON, &br#"[{"traceId":"1","id":"1"}]"#[..], &zipkin),
        (server.http, protobuf, b"\0\0\0\0\x03\x0a\x01\xff", &grpc),
    ] {
        let answer = post(port, "/v1/traces", &[header], body.to_vec()).await;
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains(word), "{}", answer.text());
    }
    for (port, word) in [(server.grpc, &http), (server.jaeger_grpc, &jaeger)] {
        let answer = post(port, "/v1/traces", &[JSON], SPANS).await;
        assert!(answer.text().contains(word), "{}", answer.text());
    }
    let hello = "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}";
    for port in [server.http, server.grpc, server.zipkin] {
        assert!(talk(port, hello).await.contains("speaks no TLS"));
    }
    assert_eq!(server.counter("connections_of_other_protocol"), 3);
    server.stop().await;
}

/// An API port on which every path reads the body and responds.
async fn api(limits: Limits, allowed: Allowed) -> (Ingest, std::net::SocketAddr) {
    let ingest = Ingest::with(
        Arc::new(Memory::default()),
        limits,
        allowed,
        ReceiverAddresses::default(),
        None,
        Arc::default(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().fallback(async |body: bytes::Bytes| body);
    let serving = ingest.clone();
    tokio::spawn(async move {
        serving.serve_api(listener, router, std::future::pending()).await.unwrap();
    });
    (ingest, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_answers_to_its_names_and_pages() {
    let allowed = Allowed {
        hosts: vec!["traces.example.org".into()],
        api_origins: vec!["https://tools.example.org".into()],
        receiver_origins: vec!["https://shop.example.org".into()],
    };
    let (ingest, api) = api(Limits::default(), allowed).await;
    let own = format!("http://{api}");
    for (headers, status) in [
        (&[("host", "evil.example")][..], 421),
        (&[("host", "traces.example.org")], 200),
        (&[("origin", "https://shop.example.org")], 403),
        (&[("origin", "https://tools.example.org")], 200),
        (&[("origin", own.as_str())], 200),
    ] {
        let answer = post(api, "/api/v1/search", headers, "x").await;
        assert_eq!(answer.status, status, "{headers:?}");
        if status != 200 {
            assert_eq!(answer.headers["content-type"], "application/problem+json");
            assert!(answer.json()["detail"].as_str().unwrap().contains("server.allowed_"));
        }
    }
    assert!(talk(api, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.contains("speaks HTTP/1.1"));
    assert_eq!(ingest.status().counters["requests_refused_host"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_takes_too_long_is_let_go_and_others_are_served_meanwhile() {
    let limits = Limits {
        connections: 20,
        connections_per_address: 20,
        header_time: Duration::from_secs(5),
        body_time: Duration::from_millis(300),
        idle_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let (ingest, api) = api(limits, Allowed::default()).await;
    let count = |name: &str| ingest.status().counters[name];
    // Incomplete headers occupy all slots.
    let mut slow = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(api).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: loc").await.unwrap();
        slow.push(stream);
    }
    until("all are there", || ingest.status().connections == 20).await;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!(post(api, "/", &[], "x").await.status, 200, "one of them made room");
    assert_eq!(count("connections_evicted"), 1);
    until("they are closed", || count("connections_closed_header_late") >= 19).await;
    // A body that never arrives, and an idle connection.
    let head = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n";
    assert!(talk(api, head).await.starts_with("HTTP/1.1 4"));
    let whole = "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nx";
    assert!(talk(api, whole).await.starts_with("HTTP/1.1 200"));
    assert!(count("connections_closed_idle") >= 1);
    until("every place is free", || ingest.status().connections == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_is_too_long_is_answered_with_a_sentence() {
    let server = Server::start(Arc::default(), Limits::default()).await;
    for (bytes, status) in [(70_000, "414"), (1_000_000, "431")] {
        let query = "x".repeat(bytes);
        let request = format!("GET /api/search?q={query} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let mut stream = TcpStream::connect(server.http).await.unwrap();
        // The rest is not read.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = vec![0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read(&mut answer));
        let read = read.await.expect("answered").unwrap_or(0);
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert!(answer.ends_with("write a shorter query\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
        assert_eq!(head.matches("content-length").count(), 1, "{answer}");
    }
    server.stop().await;
}
