//! Requests for another port, and unknown pages.

use std::net::SocketAddr;

use spanwise_serve::Receivers;

use super::*;

/// A server that reports its receivers' addresses.
struct Listening;

impl StatusSource for Listening {
    fn status(&self) -> ServerParts {
        ServerParts::default()
    }

    fn receivers(&self) -> Receivers {
        let at = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        Receivers {
            otlp_grpc: at(14_317),
            otlp_http: at(14_318),
            zipkin: at(19_411),
            ..Receivers::default()
        }
    }
}

async fn listening() -> Api {
    let mut api = Api::empty().await;
    let store = Arc::clone(&api.store) as Arc<dyn Store>;
    api.router = router(ApiState { store, status: Arc::new(Listening), keys: Arc::default() });
    api
}

#[tokio::test]
async fn spans_at_the_wrong_port_are_told_where_they_belong() {
    let api = listening().await;
    for (method, path, said) in [
        ("POST", "/v1/traces", "port 14318, path /v1/traces"),
        ("POST", "/v1/traces/", "port 14318, path /v1/traces"),
        ("POST", "//v1/traces", "port 14318, path /v1/traces"),
        ("POST", "/v1/trace", "port 14318, path /v1/traces"),
        ("GET", "/v1/traces", "port 14318"),
        ("PUT", "/v1/traces", "port 14318"),
        ("POST", "/v1/metrics", "only traces"),
        ("POST", "/v1/logs", "only traces"),
        ("POST", "/api/v2/spans", "port 19411, path /api/v2/spans"),
        ("POST", "/api/v1/spans", "port 19411, path /api/v1/spans"),
        ("POST", "/api/traces?format=jaeger.thrift", "switched off"),
        ("DELETE", "/nothing/here", "the UI is at /"),
        ("GET", "/nothing", "the UI is at /"),
        ("OPTIONS", "/nothing", "the UI is at /"),
        ("GET", "/trace/a/b", "the UI is at /"),
        ("POST", "/api/v1/nothing", "under /api/v1"),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .body(Body::from("x"))
            .expect("valid");
        let (status, headers, body) = api.ask(request).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{method} {path}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json", "{method} {path}");
        let problem: Value = serde_json::from_slice(&body).expect("JSON");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(said), "{method} {path}: {detail}");
    }
}

#[tokio::test]
async fn grpc_at_the_wrong_port_gets_a_status_of_its_own() {
    let api = listening().await;
    for (path, said) in [
        ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", "port 14317"),
        ("/arrow.flight.protocol.FlightService/DoPut", "port 14317"),
        ("/jaeger.api_v2.CollectorService/PostSpans", "switched off"),
        ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "only traces"),
        ("/", "port 14317"),
    ] {
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/grpc")
            .body(Body::empty())
            .expect("valid");
        let (status, headers, body) = api.ask(request).await;
        assert_eq!((status, body.len()), (StatusCode::OK, 0), "{path}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/grpc");
        assert_eq!(headers["grpc-status"], "12");
        let message = headers["grpc-message"].to_str().expect("a text");
        assert!(message.contains(said), "{path}: {message}");
    }
}

#[tokio::test]
async fn a_known_path_says_which_methods_are_for_it() {
    let api = listening().await;
    for (method, path, allowed) in [
        ("POST", "/", "GET, HEAD"),
        ("POST", "/map", "GET, HEAD"),
        ("DELETE", "/trace/abc", "GET, HEAD"),
        ("PUT", "/index.html", "GET, HEAD"),
        ("POST", "/api/v1/search", "GET,HEAD"),
        ("DELETE", "/api/v1/sql", "GET,HEAD,POST"),
        ("GET", "/api/v1/services/cart", "DELETE"),
        ("POST", "/metrics", "GET,HEAD"),
    ] {
        let request =
            Request::builder().method(method).uri(path).body(Body::empty()).expect("valid");
        let (status, headers, body) = api.ask(request).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        assert_eq!(headers[header::ALLOW], allowed, "{method} {path}");
        let problem: Value = serde_json::from_slice(&body).expect("JSON");
        assert!(problem["detail"].as_str().expect("a detail").contains(method));
    }
}

#[tokio::test]
async fn heads_of_pages_are_those_of_the_pages() {
    let api = listening().await;
    for path in ["/", "/map", "/status", "/trace/abc", "/index.html"] {
        let get = Request::get(path).body(Body::empty()).expect("valid");
        let head = Request::head(path).body(Body::empty()).expect("valid");
        let (status, of_page, page) = api.ask(get).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        let (status, headers, body) = api.ask(head).await;
        assert_eq!((status, body.len()), (StatusCode::OK, 0), "{path}");
        assert_eq!(headers[header::CONTENT_TYPE], of_page[header::CONTENT_TYPE]);
        assert_eq!(headers[header::CONTENT_LENGTH], page.len().to_string().as_str());
    }
}
