//! Every endpoint, asked over a real store that holds an assembled shop.

use std::io::Read;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use spanwise_assemble::{Window, WindowConfig};
use spanwise_model::{
    AttributeValue, Capture, ClockFault, Evidence, Kind, Span, SpanBatchBuilder, SpanId, Status,
    TraceId, protocol,
};
use spanwise_serve::{ApiState, StatusSource, router};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore};
use spanwise_store::{Appended, Store};
use tempfile::TempDir;
use tower::ServiceExt;

#[path = "api/elsewhere.rs"]
mod elsewhere;
#[path = "api/large.rs"]
mod large;
#[path = "api/lists.rs"]
mod lists;
#[path = "api/words.rs"]
mod words;

const MS: i64 = 1_000_000;
const HEADER_TRACE: TraceId = TraceId([0xab; 16]);

struct Parts;

impl StatusSource for Parts {
    fn status(&self) -> Value {
        json!({
            "version": "1.2.3", "uptime_seconds": 1.5, "server": {},
            "agent": {"state": "off", "reason": "no right to load BPF", "counters": {}},
            "ingest": {}, "warnings": ["the agent is off"],
        })
    }
}

struct Api {
    router: Router,
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
        let state =
            ApiState { store: Arc::clone(&store) as Arc<dyn Store>, status: Arc::new(Parts) };
        Self { router: router(state), store, _directory: directory }
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

    /// Stores spans and what assembly finds of them.
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

    /// Asks as the command line and the UI do.
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

    /// The detail of the problem that comes back.
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
                // A failed request's duration is told negative, to tell them apart.
                nano.expect("digits") / MS * if failed { -1 } else { 1 }
            })
            .collect()
    }
}

#[tokio::test]
async fn services_and_operations() {
    let api = Api::shop().await;
    let answer = api.get("services").await;
    let names: Vec<_> = answer["services"].as_array().expect("a list").iter().collect();
    assert_eq!(names.len(), 2);
    assert_eq!(
        (&names[0]["name"], &names[0]["spans"], &names[0]["errors"]),
        (&json!("cart"), &json!(6), &json!(1))
    );
    assert_eq!(names[0]["kinds"], json!(["client-process", "server-process"]));
    assert!(names[1]["last_seen_unix_nano"].as_str().expect("text").parse::<i64>().is_ok());

    let answer = api.get("operations?service=cart").await;
    let operations = answer["operations"].as_array().expect("a list");
    assert!(operations.contains(&json!({"name": "SELECT", "kind": "client", "spans": 3})));
    assert_eq!(operations.len(), 2);
    let none = api.get("operations?service=it%27s").await;
    assert_eq!(none, json!({"operations": []}), "a quote in a name is only a quote");
}

#[tokio::test]
async fn search_by_everything() {
    let api = Api::shop().await;
    assert_eq!(api.found("").await, [-20, 300, 20], "newest first");
    assert_eq!(api.found("limit=2").await, [-20, 300]);
    assert_eq!(api.found("service=cart").await.len(), 3);
    assert_eq!(api.found("service=nobody").await.len(), 0);
    assert_eq!(api.found("operation=SELECT&service=cart").await.len(), 3);
    assert_eq!(api.found("status=error").await, [-20]);
    assert_eq!(api.found("status=ok").await, [300, 20]);
    assert_eq!(api.found("status=ok&service=cart&limit=1").await, [300]);
    // Of the trace where no span is named, else of the span.
    assert_eq!(api.found("min_duration=100ms").await, [300]);
    assert_eq!(api.found("max_duration=0.1s").await, [-20, 20]);
    assert_eq!(api.found("status=error&min_duration=15ms").await, [-20]);
    assert_eq!(api.found("operation=SELECT&min_duration=15ms").await.len(), 0);
    assert_eq!(api.found("attribute=url.path%3D%2Fcart").await.len(), 3);
    assert_eq!(api.found("attribute=url.path%3D%2Fcart&attribute=url.path%3D%2Fx").await.len(), 0);
    assert_eq!(api.found("start=-2h&end=-1h").await.len(), 0);

    let answer = api.get("search?status=error").await;
    let trace = &answer["traces"][0];
    assert_eq!(trace["trace_id"], HEADER_TRACE.to_string());
    assert_eq!(
        trace["root"],
        json!({"service": "web", "operation": "GET /", "kind": "server", "capture": "server-process"})
    );
    assert_eq!((&trace["spans"], &trace["errors"]), (&json!(4), &json!(1)));
    assert_eq!(trace["protocols"], json!(["http", "postgresql"]));
    assert_eq!((&trace["uncertain_links"], &trace["doubtful"]), (&json!(1), &json!(false)));
    assert_eq!(trace["complete"], false, "the caller's span, which the header names, is not here");
    assert_eq!(
        trace["error"],
        json!({"service": "cart", "operation": "SELECT", "status_code": null, "text": "23505",
               "side": "client"})
    );
    assert_eq!(answer["older_end_unix_nano"], json!(null));
}

#[tokio::test]
async fn a_search_goes_on_where_the_last_answer_stopped() {
    let api = Api::empty().await;
    let start = now() - 60_000 * MS;
    for number in 1..=12u32 {
        let mut spans =
            request(u64::from(number) * 100, start + i64::from(number) * MS, 20, number % 4 == 0);
        if number % 3 == 0 {
            // Another host's clock: the trace begins before rows of older traces do.
            spans[3].start_unix_nano -= 7 * MS;
        }
        api.add(&spans).await;
    }
    for (search, all) in
        [("limit=1", 12), ("limit=2", 12), ("limit=5", 12), ("limit=2&status=ok", 9)]
    {
        let (mut found, mut end) = (std::collections::BTreeSet::new(), "now".to_owned());
        for _ in 0..40 {
            let answer = api.get(&format!("search?{search}&end={end}")).await;
            let traces = answer["traces"].as_array().expect("a list").iter();
            found.extend(traces.map(|trace| trace["trace_id"].to_string()));
            match answer["older_end_unix_nano"].as_str() {
                Some(older) => end = older.to_owned(),
                None => break,
            }
        }
        assert_eq!(found.len(), all, "{search}");
    }
}

#[tokio::test]
async fn an_answer_says_when_it_passes_over_company_of_one_nanosecond() {
    let api = Api::empty().await;
    let start = now() - 60_000 * MS;
    for number in 1..=12u64 {
        api.add(&[span(number * 100, Capture::ServerProcess, "web", "GET /", start, 20)]).await;
    }
    let older = |answer: &serde_json::Value| {
        answer["older_end_unix_nano"].as_str().expect("more").to_owned()
    };
    let first = api.get("search?limit=5").await;
    assert_eq!(first["covered"]["complete"], true, "it goes on with the same nanosecond");
    let second = api.get(&format!("search?limit=5&end={}", older(&first))).await;
    assert_eq!(second["covered"]["complete"], false);
    let warning = second["warnings"][0].as_str().expect("a warning");
    assert!(
        warning.contains("the very same nanosecond") && warning.contains("`limit`"),
        "{warning}"
    );
    // It ends all the same, and with room for all nothing is passed over.
    let third = api.get(&format!("search?limit=5&end={}", older(&second))).await;
    assert_eq!((&third["older_end_unix_nano"], &third["traces"]), (&json!(null), &json!([])));
    let all = api.get("search?limit=20").await;
    assert_eq!((all["traces"].as_array().map(Vec::len), &all["warnings"]), (Some(12), &json!([])));
}

#[tokio::test]
async fn bad_parameters_are_refused_with_an_example() {
    let api = Api::empty().await;
    for (path, name, example) in [
        ("search?min_duration=10", "min_duration", "10ms"),
        ("search?max_duration=soon", "max_duration", "1.5s"),
        ("search?start=yesterday", "start", "-15m"),
        ("search?end=2026-13-01", "end", "2026-11-26T09:30:00Z"),
        ("search?sort=best", "sort", "slowest"),
        ("search?start=now&end=-1h", "start", "end"),
        ("search?limit=0", "limit", "1 to 500"),
        ("search?limit=501", "limit", "1 to 500"),
        ("search?status=bad", "status", "error or ok"),
        ("search?attribute=%3Dx", "attribute", "http.request.method=POST"),
        ("search?attribute=x%3Efast", "x>fast", "no number"),
        ("attributes/values", "key", "http.request.method"),
        ("attributes?nothing=1", "nothing", "prefix"),
        ("search?servce=x", "servce", "service"),
        ("graph?end=never", "end", "now"),
        ("traces/xyz", "xyz", "32 hexadecimal"),
        ("traces/00000000000000ff?limit=0", "limit", "1 to 20000"),
        ("traces/00000000000000ff?after=-1", "after", "next_after"),
        ("traces/00000000000000ff?around=x", "around", "16 hexadecimal"),
        ("traces/00000000000000ff?download=perhaps", "download", "1 or 0"),
        ("sql", "query", "SELECT"),
        ("sql?query=DROP%20TABLE%20spans", "", "SELECT"),
        ("sql?query=SELECT%20nothing%20FROM%20spans", "nothing", ""),
    ] {
        let detail = api.refused(path, StatusCode::BAD_REQUEST).await;
        assert!(detail.contains(name) && detail.contains(example), "{path}: {detail}");
    }
    let detail = api.refused("nothing", StatusCode::NOT_FOUND).await;
    assert!(detail.contains("/api/v1"), "{detail}");
}

#[tokio::test]
async fn a_trace_comes_in_pages() {
    let api = Api::shop().await;
    let path = format!("traces/{HEADER_TRACE}");
    let whole = api.get(&path).await;
    assert_eq!((&whole["span_count"], &whole["next_after"]), (&json!(4), &json!(null)));
    let (mut spans, mut roots, mut after) = (Vec::new(), Vec::new(), Some(0));
    while let Some(from) = after {
        let page = api.get(&format!("{path}?limit=3&after={from}")).await;
        for same in ["trace_id", "start_unix_nano", "duration_nano", "services", "warnings"] {
            assert_eq!(page[same], whole[same], "is said of the whole trace");
        }
        spans.extend(page["spans"].as_array().expect("a list").clone());
        roots.extend(page["roots"].as_array().expect("a list").clone());
        after = page["next_after"].as_u64();
        assert_eq!(after, (from == 0).then_some(3));
    }
    assert_eq!((json!(spans), json!(roots)), (whole["spans"].clone(), whole["roots"].clone()));
    let beyond = api.get(&format!("{path}?after=99")).await;
    assert_eq!((&beyond["spans"], &beyond["next_after"]), (&json!([]), &json!(null)));
}

#[tokio::test]
async fn pages_are_of_one_tree_and_say_where_they_are_not() {
    let api = Api::shop().await;
    let path = format!("traces/{HEADER_TRACE}");
    let first = api.get(&format!("{path}?limit=2")).await;
    let snapshot = first["snapshot"].as_str().expect("a text");
    let next = format!("{path}?limit=2&after=2&snapshot={snapshot}");
    let second = api.get(&next).await;
    for same in ["snapshot", "warnings"] {
        assert_eq!(second[same], first[same]);
    }

    // A span comes: the tree that was begun is gone on with, another is of all.
    let mut late = span(999, Capture::App, "late", "comes", now(), 1);
    late.trace_id = Some(HEADER_TRACE);
    api.add(&[late]).await;
    assert_eq!(api.get(&next).await, second);
    let anew = api.get(&format!("{path}?limit=2")).await;
    assert_eq!((&first["span_count"], &anew["span_count"]), (&json!(4), &json!(5)));
    assert_ne!(anew["snapshot"], first["snapshot"]);
    let plain = api.get(&format!("{path}?limit=2&after=2")).await;
    assert_eq!(plain["span_count"], json!(5), "who names no tree is shown what there is");

    // A tree that is not there any more is not taken for the one that is.
    let other = api.get(&format!("{path}?limit=2&after=2&snapshot=0123")).await;
    assert_eq!(other["span_count"], json!(5));
    let warnings = other["warnings"].to_string();
    assert!(warnings.contains("has changed"), "{warnings}");
    let right = anew["snapshot"].as_str().expect("a text");
    let same = api.get(&format!("{path}?limit=3&after=2&snapshot={right}")).await;
    assert!(!same["warnings"].to_string().contains("has changed"), "{same}");

    // What is deleted is not shown, whichever tree is named.
    let deletion = Request::delete("/api/v1/services/late").body(Body::empty());
    assert_eq!(api.ask(deletion.expect("a request")).await.0, StatusCode::OK);
    for snapshot in [snapshot, right] {
        let page = api.get(&format!("{path}?limit=2&after=2&snapshot={snapshot}")).await;
        assert_eq!(page["span_count"], json!(4));
        let warned = page["warnings"].to_string().contains("has changed");
        assert_eq!(warned, snapshot == right, "four spans are the tree that was first");
    }
}

#[tokio::test]
async fn a_trace_by_any_of_its_ids() {
    let api = Api::shop().await;
    let by_header = api.get(&format!("traces/{HEADER_TRACE}")).await;
    assert_eq!(by_header, api.get("traces/000000000000012f").await, "span 303");
    let spans = by_header["spans"].as_array().expect("a list");
    let shape: Vec<_> = spans
        .iter()
        .map(|span| {
            (span["span_id"].as_str().expect("text"), span["parent"].as_str(), &span["depth"])
        })
        .collect();
    assert_eq!(
        shape,
        [
            ("000000000000012c", None, &json!(0)),
            ("000000000000012d", Some("000000000000012c"), &json!(1)),
            ("000000000000012e", Some("000000000000012d"), &json!(2)),
            ("000000000000012f", Some("000000000000012e"), &json!(3)),
        ]
    );
    assert_eq!(by_header["roots"], json!(["000000000000012c"]));
    assert_eq!(spans[1]["children"], json!(["000000000000012e"]));
    assert_eq!(spans[2]["evidence"], "tcp_sequence");
    assert_eq!(spans[2]["confidence"], 1.0);
    assert_eq!(spans[2]["self_nano"], (15 * MS).to_string());
    assert_eq!(spans[3]["evidence"], "sole_request");
    assert_eq!(spans[3]["error"], "23505");
    assert_eq!(spans[3].get("trace_state"), None, "nulls are left out");
    assert_eq!(
        spans[2]["attributes"],
        json!([
            {"key": "url.path", "type": "string", "value": "/cart"},
            {"key": "big", "type": "int", "value": i64::MAX.to_string()},
        ])
    );
    // The caller's span, which the header names, is not here.
    let warning = by_header["warnings"][0].as_str().expect("a text");
    assert!(warning.contains("00000000000003e7"), "{warning}");

    let detail = api.refused(&format!("traces/{}", TraceId([1; 16])), StatusCode::NOT_FOUND).await;
    assert!(detail.contains("retention"), "{detail}");
}

#[tokio::test]
async fn what_is_deleted_is_in_no_answer() {
    let api = Api::shop().await;
    let delete = async |path: &str| {
        let request =
            Request::delete(format!("/api/v1/{path}")).body(Body::empty()).expect("valid");
        let (status, _, body) = api.ask(request).await;
        (status, serde_json::from_slice::<Value>(&body).expect("JSON"))
    };
    let (status, answer) = delete(&format!("traces/{HEADER_TRACE}")).await;
    assert_eq!((status, &answer["deleted_spans"]), (StatusCode::OK, &json!(4)));
    api.refused(&format!("traces/{HEADER_TRACE}"), StatusCode::NOT_FOUND).await;
    assert_eq!(api.found("").await.len(), 2);
    let (_, answer) = delete("services/cart").await;
    assert_eq!(answer["deleted_spans"], 4);
    let services = api.get("services").await;
    let names: Vec<&Value> =
        services["services"].as_array().expect("a list").iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["web"]);
    let (_, answer) = delete("services/cart").await;
    assert_eq!(answer["deleted_spans"], 0);
    let (status, problem) = delete("traces/zz").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(problem["detail"].as_str().expect("a detail").contains("32 hexadecimal digits"));
}

#[tokio::test]
async fn rows_that_nothing_has_assembled_are_joined_when_asked_for() {
    let api = Api::empty().await;
    let spans = request(100, now(), 20, false);
    // In two batches, of which assembly saw neither.
    api.append(&spans[2..]).await;
    api.append(&spans[..2]).await;
    let trace = api.get("traces/0000000000000067").await;
    assert_eq!(trace["spans"].as_array().expect("a list").len(), 4);
    assert_eq!(trace["roots"], json!(["0000000000000064"]));
    let id = trace["trace_id"].as_str().expect("a text").to_owned();
    // The id that was made leads back, though no row has it.
    assert_eq!(api.get(&format!("traces/{id}")).await, trace);
}

#[tokio::test]
async fn the_graph_has_rates_errors_and_durations() {
    let api = Api::shop().await;
    let graph = api.get("graph?start=-10m").await;
    let edges = graph["edges"].as_array().expect("a list");
    let edge = |client: &str| edges.iter().find(|edge| edge["client"] == client).expect("there");
    assert_eq!(edges.len(), 2);
    assert_eq!((&edge("web")["server"], &edge("web")["requests"]), (&json!("cart"), &json!(3)));
    assert_eq!(edge("web")["certain_share"], 1.0);
    assert_eq!(edge("web")["p99_nano"], (298 * MS).to_string());
    assert_eq!(edge("cart")["server"], "postgresql 10.0.0.9:5432");
    assert_eq!(edge("cart")["errors"], 1);
    let nodes = graph["nodes"].as_array().expect("a list");
    let kinds: Vec<_> =
        nodes.iter().map(|node| json!([node["name"], node["kind"], node["system"]])).collect();
    let database = json!(["postgresql 10.0.0.9:5432", "database", "postgresql"]);
    assert!(
        kinds.contains(&database) && kinds.contains(&json!(["web", "service", null])),
        "{kinds:?}"
    );
    assert!(graph["window_seconds"].as_f64().expect("a number") >= 50.0);
}

#[tokio::test]
async fn what_changes_or_costs_something_needs_a_header_that_pages_cannot_send() {
    let api = Api::shop().await;
    let bare = |request: http::request::Builder| {
        api.ask_bare(request.body(Body::from("SELECT 1")).expect("valid"))
    };
    for request in [
        Request::post("/api/v1/sql").header(header::CONTENT_TYPE, "text/plain"),
        Request::get("/api/v1/sql?query=SELECT+1"),
        Request::get("/api/v1/sql/?query=SELECT+1"),
        Request::delete("/api/v1/services/cart"),
        Request::delete(format!("/api/v1/traces/{HEADER_TRACE}")),
    ] {
        let (status, headers, body) = bare(request).await;
        let text = String::from_utf8_lossy(&body);
        assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert!(text.contains("Spanwise-Request"), "{text}");
    }
    // Every answer tells browsers what they may do with it, and nothing was deleted.
    for path in ["/api/v1/services", "/", "/search", "/api/v1/nothing", "/metrics"] {
        let (_, headers, _) = bare(Request::get(path)).await;
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().expect("a text");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
    assert_eq!(api.get("services").await["services"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn sql_by_get_and_post() {
    let api = Api::shop().await;
    let query = "SELECT service, count(*) AS n FROM spans GROUP BY service ORDER BY service";
    let post = Request::post("/api/v1/sql")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(json!({ "query": query }).to_string()))
        .expect("valid");
    let (status, _, body) = api.ask(post).await;
    assert_eq!(status, StatusCode::OK);
    let posted: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(posted["rows"], json!([["cart", 6], ["web", 6]]));
    assert_eq!(posted["columns"][1]["name"], "n");
    let got = api.get(&format!("sql?query={}", query.replace(' ', "+").replace('=', "%3D"))).await;
    assert_eq!(got["rows"], posted["rows"]);
}

#[tokio::test]
async fn sql_in_every_format() {
    let api = Api::shop().await;
    let query = "SELECT service, count(*) AS n FROM spans GROUP BY service ORDER BY service";
    let post = |path: &str, kind: &'static str, accept: &'static str, body: String| {
        let request = Request::post(format!("/api/v1/sql{path}"))
            .header(header::CONTENT_TYPE, kind)
            .header(header::ACCEPT, accept)
            .body(Body::from(body))
            .expect("valid");
        api.ask(request)
    };
    let (status, headers, body) = post("", "text/plain", "text/csv", query.to_owned()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CONTENT_TYPE], "text/csv; charset=utf-8; header=present");
    assert_eq!(String::from_utf8_lossy(&body), "service,n\r\ncart,6\r\nweb,6\r\n");
    let (_, headers, body) =
        post("?format=table", "application/json", "*/*", json!({"query": query}).to_string()).await;
    assert_eq!(headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    assert_eq!(String::from_utf8_lossy(&body), "service  n\ncart     6\nweb      6\n(2 rows)\n");

    let whole = json!({"query": "SELECT * FROM spans ORDER BY span_id", "format": "arrow"});
    let (status, headers, body) = post("", "application/json", "*/*", whole.to_string()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CONTENT_TYPE], "application/vnd.apache.arrow.stream");
    let reader = arrow::ipc::reader::StreamReader::try_new(body.as_slice(), None).expect("Arrow");
    assert_eq!(reader.schema().fields(), spanwise_model::schema::span_schema().fields());
    let rows: usize = reader.map(|batch| batch.expect("a batch").num_rows()).sum();
    assert_eq!(rows, 12);

    let many = "SELECT a.span_id FROM spans a, spans b, spans c, spans d";
    let (_, headers, body) =
        post("", "application/json", "*/*", json!({"query": many}).to_string()).await;
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(answer["rows"].as_array().expect("rows").len(), 10_000);
    assert_eq!(
        (&answer["truncated"], &headers["spanwise-truncated-rows"]),
        (&json!(true), &"10000".parse().expect("a value"))
    );
    let (_, headers, body) = post("?format=csv", "text/plain", "*/*", many.to_owned()).await;
    assert!(!headers.contains_key("spanwise-truncated-rows"));
    assert_eq!(body.iter().filter(|byte| **byte == b'\n').count(), 12 * 12 * 12 * 12 + 1);

    for (path, kind, body, said) in [
        ("?format=xml", "text/plain", query, "json, csv, arrow or table"),
        ("?fromat=csv", "text/plain", query, "no parameter `fromat`"),
        ("", "application/json", "", "there is no statement"),
        ("", "application/json", "{\"qurey\": \"\"}", "unknown field `qurey`"),
        ("", "text/plain", " ", "there is no statement"),
        ("", "text/plain", "DROP TABLE spans", "One SELECT"),
    ] {
        let (status, _, answer) = post(path, kind, "*/*", body.to_owned()).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path} {body}: {answer}");
        assert!(answer.contains(said), "{path} {body}: {answer}");
    }
}

#[tokio::test]
async fn sql_answers_are_bounded_in_bytes_in_every_format() {
    const MOST: usize = spanwise_store::MAX_ANSWER_BYTES;
    let api = Api::shop().await;
    let ask = |format: &str, query: &str| {
        let request = Request::post(format!("/api/v1/sql?format={format}"))
            .header(header::CONTENT_TYPE, "text/plain")
            .body(Body::from(query.to_owned()))
            .expect("valid");
        api.ask(request)
    };
    // Twenty rows of three megabytes; as JSON, each of them takes six times as many.
    let query = "SELECT repeat(chr(1), 3000000) AS t FROM spans a, spans b LIMIT 20";
    let (status, headers, body) = ask("json", query).await;
    assert_eq!(
        (status, &headers["spanwise-truncated-rows"]),
        (StatusCode::OK, &"3".parse().unwrap())
    );
    assert!(body.len() <= MOST + 1024, "{}", body.len());
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (answer["rows"].as_array().expect("rows").len(), &answer["truncated"]),
        (3, &json!(true))
    );
    let (_, headers, body) = ask("csv", query).await;
    assert!(!headers.contains_key("spanwise-truncated-rows"), "all of it has room");
    assert_eq!(body.len(), 3 + 20 * 3_000_002);
    let more = "SELECT repeat('x', 3000000) AS t FROM spans a, spans b";
    for format in ["csv", "arrow"] {
        let (_, headers, body) = ask(format, more).await;
        let rows: usize = headers["spanwise-truncated-rows"].to_str().unwrap().parse().unwrap();
        assert!((10..=22).contains(&rows) && body.len() <= MOST + 1024, "{format}: {rows}");
    }
    // Many columns of nothing take many bytes as text.
    let nulls: Vec<String> = (0..2_000).map(|n| format!("NULL AS n{n}")).collect();
    let query = format!("SELECT {} FROM spans a, spans b, spans c, spans d", nulls.join(", "));
    let (status, headers, body) = ask("table", &query).await;
    assert_eq!(status, StatusCode::OK);
    let rows: usize = headers["spanwise-truncated-rows"].to_str().unwrap().parse().unwrap();
    assert!((100..10_000).contains(&rows) && body.len() <= MOST + 1024, "{rows}");
    let (_, _, body) = ask("table", "EXPLAIN SELECT service FROM spans").await;
    let plan = String::from_utf8(body).expect("text");
    assert!(plan.contains("TableScan: spans projection=[service]\n"), "{plan}");
}

#[tokio::test]
async fn impossible_times_break_no_answer() {
    let api = Api::shop().await;
    let mark = |span: &mut Span, fault: ClockFault| {
        span.attributes.push((ClockFault::ATTRIBUTE.into(), fault.as_str().into()));
    };
    let start = now();
    let mut spans = Vec::new();
    for (number, from, length, fault) in [
        (1001, i64::MIN, i64::MAX, ClockFault::Past),
        (1002, 0, start, ClockFault::Past),
        (1003, i64::MAX, i64::MAX, ClockFault::Future),
        (1004, start, i64::MAX, ClockFault::Future),
    ] {
        let mut span = span(number, Capture::App, "odd", "op", from, 1);
        span.duration_nano = length;
        span.trace_id = Some(TraceId([u8::try_from(number - 900).expect("small"); 16]));
        mark(&mut span, fault);
        spans.push(span);
    }
    // One that has a place in time makes its trace's.
    let mut right = span(1005, Capture::App, "odd", "right", start - 50 * MS, 20);
    right.trace_id = Some(TraceId([102; 16]));
    spans.push(right);
    api.add(&spans).await;
    let trace = api.get(&format!("traces/{}", TraceId([102; 16]))).await;
    assert_eq!(trace["spans"].as_array().expect("spans").len(), 2);
    assert_eq!(trace["start_unix_nano"], (start - 50 * MS).to_string());
    assert_eq!(trace["duration_nano"], (20 * MS).to_string());
    assert!(trace["warnings"][0].as_str().expect("a warning").contains("before the year 2000"));
    // Page by page through all of time, every trace comes, and it ends.
    let mut end = i64::MAX.to_string();
    let mut found = std::collections::BTreeSet::new();
    for _ in 0..30 {
        let path = format!("search?start={}&end={end}&limit=1", i64::MIN);
        let page = api.get(&path).await;
        for trace in page["traces"].as_array().expect("a list") {
            found.insert(trace["trace_id"].as_str().expect("an id").to_owned());
        }
        match page["older_end_unix_nano"].as_str() {
            Some(older) => end = older.to_owned(),
            None => break,
        }
    }
    assert_eq!(found.len(), 3 + 4, "{found:?}");
    api.get("graph").await;
    api.get("services").await;
}

#[tokio::test]
async fn status_unites_the_parts_and_the_store() {
    let api = Api::shop().await;
    let status = api.get("status").await;
    assert_eq!(status["agent"]["state"], "off");
    assert_eq!(status["store"]["recent_rows"], 12);
    assert_eq!(status["warnings"][0], "the agent is off");
    assert_eq!(status["attention"], true, "there is a warning");
    let oldest = status["store"]["oldest_unix_nano"].as_str().expect("beyond 2^53, so a text");
    assert!(oldest.parse::<i64>().expect("digits") > 1 << 53);
    assert_eq!(status["counters"], json!([]));
}

#[tokio::test]
async fn answers_are_compressed_for_those_who_ask() {
    let api = Api::shop().await;
    let request = Request::get(format!("/api/v1/traces/{HEADER_TRACE}"))
        .header(header::ACCEPT_ENCODING, "gzip")
        .body(Body::empty())
        .expect("valid");
    let (_, headers, body) = api.ask(request).await;
    assert_eq!(headers[header::CONTENT_ENCODING], "gzip");
    let mut text = String::new();
    flate2::read::GzDecoder::new(body.as_slice()).read_to_string(&mut text).expect("gzip");
    assert!(text.contains("tcp_sequence"));
}

#[tokio::test]
async fn the_ui_answers_for_its_own_pages() {
    let api = Api::empty().await;
    let get = |path: &str| api.ask(Request::get(path).body(Body::empty()).expect("valid"));
    let (status, headers, index) = get("/").await;
    assert_eq!(status, StatusCode::OK);
    assert!(headers[header::CONTENT_TYPE].to_str().expect("text").starts_with("text/html"));
    assert_eq!(headers[header::CACHE_CONTROL], "no-cache");
    let (status, _, page) = get("/trace/abc").await;
    assert_eq!((status, page), (StatusCode::OK, index), "the UI finds its own way from there");
    let (status, ..) = get("/assets/gone-1a2b3c.js").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
