//! Every endpoint, with a real store that contains an assembled shop.

mod bounds;
mod catalogue;
mod deletion;
mod graph;
mod jaeger;
mod large;
mod lists;
mod mcp;
mod one_set;
mod parameters;
mod safety;
mod search;
mod shapes;
mod sql;
mod status;
mod tempo;
mod trace;
mod ui;
mod words;
mod wrong_port;
mod zipkin;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use spanwise_api::Agent;
use spanwise_assemble::{Window, WindowConfig};
use spanwise_model::{
    AttributeValue, Capture, ClockFault, Evidence, Kind, Span, SpanBatchBuilder, SpanId, Status,
    TraceId, protocol,
};
use spanwise_serve::{ApiState, ServerParts, StatusSource, Surfaces, router, surfaces};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore};
use spanwise_store::{Appended, Store};
use tempfile::TempDir;
use tower::ServiceExt;

const MS: i64 = 1_000_000;
const HEADER_TRACE: TraceId = TraceId([0xab; 16]);

struct Parts;

impl StatusSource for Parts {
    fn status(&self) -> ServerParts {
        ServerParts {
            agent: Agent::Off { reason: "no right to load BPF".to_owned() },
            uptime_seconds: 1.5,
            version: "1.2.3".to_owned(),
            warnings: vec!["the agent is off".to_owned()],
            ..ServerParts::default()
        }
    }
}

struct Api {
    router: Router,
    /// Jaeger's port.
    jaeger: Router,
    store: Arc<EmbeddedStore>,
    _directory: TempDir,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_nanos()).expect("before 2262")
}

fn span(number: u64, capture: Capture, service: &str, name: &str, start: i64, ms: i64) -> Span {
    let kind = match capture {
        Capture::ClientProcess => Kind::Client,
        _ => Kind::Server,
    };
    let id = SpanId::from_u64(number).expect("not zero");
    let mut span = Span::new(id, capture, kind, service, name, start, ms * MS);
    span.host = Some("host".into());
    span.process_id = service.bytes().next().map(u32::from);
    span.protocol = Some(protocol::HTTP.into());
    span
}

/// A request that takes `ms`: web calls cart over HTTP, cart asks PostgreSQL.
fn request(first: u64, start: i64, ms: i64, failed: bool) -> Vec<Span> {
    let seq = u32::try_from(first).expect("small") * 10;
    let fragment = first;
    let mut served = span(first, Capture::ServerProcess, "web", "GET /", start, ms);
    served.fragment_id = Some(fragment);
    let mut call = span(first + 1, Capture::ClientProcess, "web", "GET /cart", start + MS, ms - 2);
    call.fragment_id = Some(fragment);
    (call.evidence, call.confidence) = (Some(Evidence::Thread), Some(1.0));
    let mut cart =
        span(first + 2, Capture::ServerProcess, "cart", "GET /cart", start + 2 * MS, ms - 4);
    for side in [&mut call, &mut cart] {
        (side.request_tcp_seq, side.response_tcp_seq) = (Some(seq), Some(seq + 1));
    }
    cart.fragment_id = Some(fragment + 1);
    cart.attributes =
        vec![("url.path".into(), "/cart".into()), ("big".into(), AttributeValue::Int(i64::MAX))];
    let mut query = span(first + 3, Capture::ClientProcess, "cart", "SELECT", start + 3 * MS, 1);
    query.protocol = Some(protocol::POSTGRESQL.into());
    query.fragment_id = Some(fragment + 1);
    (query.evidence, query.confidence) = (Some(Evidence::SoleRequest), Some(0.9));
    query.flow.server_address = Some("10.0.0.9".into());
    query.flow.server_port = Some(5432);
    if failed {
        query.status = Status::Error;
        query.error = Some("23505".into());
    }
    vec![served, call, cart, query]
}

impl Api {
    async fn empty() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = EmbeddedConfig::new(directory.path().join("data"));
        let store = EmbeddedStore::open(config).await.expect("a store");
        let state = ApiState {
            store: Arc::clone(&store) as Arc<dyn Store>,
            status: Arc::new(Parts),
            keys: Arc::default(),
        };
        let Surfaces { pages: router, jaeger, .. } = surfaces(state);
        Self { router, jaeger, store, _directory: directory }
    }

    /// Three requests: a fast one, a slow one and one that fails.
    async fn shop() -> Self {
        let api = Self::empty().await;
        let start = now() - 60_000 * MS;
        let mut spans = request(100, start, 20, false);
        spans.extend(request(200, start + 1_000 * MS, 300, false));
        let mut failed = request(300, start + 2_000 * MS, 20, true);
        for span in &mut failed[..1] {
            span.trace_id = Some(HEADER_TRACE);
            span.parent_span_id = SpanId::from_u64(999);
        }
        spans.extend(failed);
        api.add(&spans).await;
        api
    }

    /// Stores spans and the results of assembly.
    async fn add(&self, spans: &[Span]) {
        let batch = self.append(spans).await;
        let rows = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        let mut window = Window::new(WindowConfig::default());
        assert_eq!(window.push(batch, &rows.into(), 0).expect("spans"), 0);
        self.store.annotate(&window.flush(0)).await.expect("annotated");
    }

    async fn append(&self, spans: &[Span]) -> u64 {
        let rows = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        match self.store.append(rows.into(), None).await.expect("stored") {
            Appended::Stored { batch } => batch,
            other => panic!("its spans are new: {other:?}"),
        }
    }

    /// Sends a request like the command line and the UI.
    async fn ask(&self, mut request: Request<Body>) -> (StatusCode, http::HeaderMap, Vec<u8>) {
        request.headers_mut().insert("spanwise-request", http::HeaderValue::from_static("test"));
        self.ask_bare(request).await
    }

    async fn ask_bare(&self, request: Request<Body>) -> (StatusCode, http::HeaderMap, Vec<u8>) {
        let response = self.router.clone().oneshot(request).await.expect("never fails");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes().to_vec();
        (head.status, head.headers, body)
    }

    /// What another system's API answers.
    async fn other(&self, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).body(Body::empty()).expect("valid");
        let (status, _, body) = self.ask_bare(request).await;
        let text = || Value::from(String::from_utf8_lossy(&body).into_owned());
        (status, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
    }

    #[track_caller]
    fn get(&self, path: &str) -> impl Future<Output = Value> {
        let request = Request::get(format!("/api/v1/{path}")).body(Body::empty()).expect("valid");
        async move {
            let (status, _, body) = self.ask(request).await;
            let text = String::from_utf8_lossy(&body).into_owned();
            assert_eq!(status, StatusCode::OK, "{text}");
            serde_json::from_slice(&body).expect("JSON")
        }
    }

    /// The detail of the returned problem.
    async fn refused(&self, path: &str, status: StatusCode) -> String {
        let request = Request::get(format!("/api/v1/{path}")).body(Body::empty()).expect("valid");
        let (got, headers, body) = self.ask(request).await;
        assert_eq!(got, status, "{path}: {}", String::from_utf8_lossy(&body));
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        let problem: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(problem["status"], status.as_u16());
        problem["detail"].as_str().expect("a detail").to_owned()
    }

    async fn found(&self, search: &str) -> Vec<i64> {
        let answer = self.get(&format!("search?{search}")).await;
        let traces = answer["traces"].as_array().expect("a list").iter();
        traces
            .map(|trace| {
                let nano = trace["duration_nano"].as_str().expect("text").parse::<i64>();
                let failed = trace["status"] == "error";
                // The durations of failed requests are returned as negative, to distinguish them.
                nano.expect("digits") / MS * if failed { -1 } else { 1 }
            })
            .collect()
    }
}
