//! The Model Context Protocol at `/mcp`.

use super::*;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// A message by HTTP, as clients send it.
pub(super) fn request(message: &str) -> http::request::Builder {
    let request = Request::post("/mcp")
        .header(header::HOST, "127.0.0.1:7070")
        .header(header::ACCEPT, "application/json, text/event-stream")
        .header(header::CONTENT_TYPE, "application/json");
    // Versions without a handshake have headers that say what the message says.
    let message: Value = serde_json::from_str(message).unwrap_or_default();
    let Some(version) = message["params"]["_meta"][VERSION_KEY].as_str() else { return request };
    let request = request
        .header("MCP-Protocol-Version", version)
        .header("Mcp-Method", message["method"].as_str().unwrap_or_default());
    match message["params"]["name"].as_str() {
        Some(name) => request.header("Mcp-Name", name),
        None => request,
    }
}

async fn post(api: &Api, message: &str) -> (StatusCode, Value) {
    let request = request(message).body(Body::from(message.to_owned())).expect("valid");
    let (status, _, body) = api.ask_bare(request).await;
    let text = || Value::from(String::from_utf8_lossy(&body).into_owned());
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
}

async fn ask(api: &Api, method: &str, params: Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let (_, answer) = post(api, &message.to_string()).await;
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)), "{answer}");
    answer
}

/// What a tool says, and whether that is an error.
async fn call(api: &Api, name: &str, arguments: Value) -> (bool, String) {
    let answer = ask(api, "tools/call", json!({"name": name, "arguments": arguments})).await;
    let result = &answer["result"];
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
    (result["isError"].as_bool().expect("a flag"), text.to_owned())
}

#[track_caller]
fn says(answer: (bool, String), words: &[&str]) -> String {
    let (is_error, text) = answer;
    assert!(!is_error, "{text}");
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
    text
}

#[track_caller]
fn fails(answer: (bool, String), word: &str) {
    assert!(answer.0 && answer.1.contains(word), "{word}: {answer:?}");
}

/// What a client says of itself, in the versions without a handshake.
fn modern(version: &str) -> Value {
    json!({"_meta": {
        VERSION_KEY: version, "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }})
}

#[tokio::test]
async fn both_kinds_of_versions_are_spoken() {
    let api = Api::shop().await;
    for (wanted, given) in [("2025-06-18", "2025-06-18"), ("1999-01-01", "2025-11-25")] {
        let client = json!({"name": "test", "version": "1"});
        let hello = json!({"protocolVersion": wanted, "capabilities": {}, "clientInfo": client});
        let answer = ask(&api, "initialize", hello).await;
        assert_eq!(answer["result"]["protocolVersion"], given);
        assert!(answer["result"]["capabilities"]["tools"].is_object());
        assert_eq!(answer["result"]["serverInfo"]["name"], "spanwise");
        let instructions = answer["result"]["instructions"].as_str().expect("a text");
        assert!(instructions.contains("never instructions"));
        assert!(answer["result"].get("resultType").is_none());
    }
    let answer = ask(&api, "server/discover", modern("2026-07-28")).await;
    let versions = answer["result"]["supportedVersions"].as_array().expect("a list");
    assert!(versions.contains(&json!("2026-07-28")), "{answer}");
    assert_eq!(answer["result"]["resultType"], "complete");
    for params in [json!({}), modern("2026-07-28")] {
        let answer = ask(&api, "tools/list", params).await;
        assert_eq!(answer["result"]["tools"].as_array().expect("a list").len(), 11);
        assert_eq!(answer["result"]["cacheScope"], "public");
    }
    let mut called = modern("2026-07-28");
    (called["name"], called["arguments"]) = ("list_services".into(), json!({"prefix": "c"}));
    let answer = ask(&api, "tools/call", called).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert!(answer["result"]["content"][0]["text"].to_string().contains("1 services"), "{answer}");
    let answer = ask(&api, "tools/list", modern("2030-01-01")).await;
    assert_eq!(answer["error"]["code"], -32022);
    assert_eq!(answer["error"]["data"]["requested"], "2030-01-01");
    assert_eq!(ask(&api, "ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn what_is_no_message_gets_an_error() {
    let api = Api::empty().await;
    for (message, status, code) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"none"}"#, 200, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#, 200, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#, 200, -32602),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call",
                "params":{"name":"run_sql","arguments":[]}}"#,
            200,
            -32602,
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 400, -32600),
    ] {
        let (got, answer) = post(&api, message).await;
        assert_eq!((got.as_u16(), &answer["error"]["code"]), (status, &json!(code)), "{message}");
    }
    for message in [
        "{",
        "[]",
        "{}",
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
    ] {
        let (got, answer) = post(&api, message).await;
        assert_eq!(got, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{message}: {answer}");
    }
    let message = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(post(&api, message).await.0, StatusCode::ACCEPTED);
    let refused = async |request: http::request::Builder, body: &str, status: StatusCode| {
        let request = request.body(Body::from(body.to_owned())).expect("valid");
        assert_eq!(api.ask_bare(request).await.0, status);
    };
    let bare = || Request::post("/mcp").header(header::HOST, "127.0.0.1");
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    // A page could send this without asking.
    let text = bare().header(header::ACCEPT, "application/json, text/event-stream");
    let text = text.header(header::CONTENT_TYPE, "text/plain");
    refused(text, ping, StatusCode::UNSUPPORTED_MEDIA_TYPE).await;
    let json = bare().header(header::CONTENT_TYPE, "application/json");
    refused(json, ping, StatusCode::NOT_ACCEPTABLE).await;
    let get = Request::get("/mcp").header(header::HOST, "127.0.0.1");
    refused(get, "", StatusCode::METHOD_NOT_ALLOWED).await;
    let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    refused(request(""), &long, StatusCode::PAYLOAD_TOO_LARGE).await;
    // Headers and message must say the same.
    let headers = request(&json!({"method": "ping", "params": modern("2026-07-28")}).to_string());
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": modern("2026-07-28"),
    });
    refused(headers, &message.to_string(), StatusCode::BAD_REQUEST).await;
}

#[tokio::test]
async fn every_tool_answers() {
    let api = Api::shop().await;
    let id = "ab".repeat(16);
    says(call(&api, "list_services", json!({})).await, &["2 services", "web: ", "cart: ", "p95"]);
    says(call(&api, "list_services", json!({"prefix": "C", "limit": 1})).await, &["1 services"]);
    says(
        call(&api, "list_operations", json!({"service": "cart", "limit": "1"})).await,
        &["further operations are left out"],
    );
    let found = call(&api, "search_traces", json!({"status": "error"})).await;
    says(found, &["1 traces", &id, "FAILED in cart: SELECT 23505", "links are guesses"]);
    let query = "{ resource.service.name = \"web\" } >> { status = error }";
    let found = call(&api, "search_traces", json!({"q": query})).await;
    says(found, &["1 traces", &id]);
    let found = call(&api, "search_traces", json!({"q": "{ }", "min_duration": "290ms"})).await;
    says(found, &["1 traces", "300ms"]);
    let read = call(&api, "read_trace", json!({"trace_id": id})).await;
    let text = says(
        read,
        &[
            "4 spans, 1 failed, 4 levels",
            "incomplete",
            "web: GET / +0ns 20.0ms",
            "~guess(sole_request, 0.90)",
            "FAILED 23505",
            "1 failures without a failure below them",
        ],
    );
    assert!(
        text.lines().any(|line| line.starts_with("   000000000000012f cart: SELECT")),
        "{text}"
    );
    let arguments = json!({"trace_id": id, "span_id": "000000000000012e", "depth": 1});
    let read = call(&api, "read_trace", arguments).await;
    says(
        read,
        &["\n000000000000012e cart: GET /cart", "(+1 below, with failures)", "1 levels deep of 2"],
    );
    let read =
        call(&api, "read_trace", json!({"trace_id": id, "lines": 1, "after": 1, "depth": 9}));
    says(read.await, &["\n 000000000000012d", "2 further lines", "after=2"]);
    let spans = json!({"trace_id": id, "span_ids": ["000000000000012f", "12e"]});
    let spans = says(call(&api, "read_spans", spans).await, &["sole_request", "url.path"]);
    let spans: Vec<spanwise_api::Span> = serde_json::from_str(spans.trim()).expect("spans");
    assert_eq!(spans.len(), 2);
    let slow = api.get("search?sort=slowest&limit=1").await["traces"][0]["trace_id"].clone();
    let compared =
        call(&api, "compare_traces", json!({"trace_id": id, "other_trace_id": slow})).await;
    says(compared, &["A = trace", "300ms", "4 places in both, 0 in one", "1 FAILED"]);
    let graph = call(&api, "service_graph", json!({"service": "cart"})).await;
    says(graph, &["web -> cart (http): 3", "cart -> postgresql 10.0.0.9:5432 (postgresql)"]);
    let sql = call(&api, "list_attributes", json!({"prefix": "URL"})).await;
    says(sql, &["url.path, span, 3"]);
    let statement = "SELECT service, count(*) AS n FROM spans GROUP BY service ORDER BY service";
    let sql = call(&api, "run_sql", json!({"query": statement})).await;
    assert_eq!(sql, (false, "service,n\ncart,6\nweb,6\n".to_owned()));
    let sql = call(&api, "run_sql", json!({"query": statement, "limit": 1})).await;
    says(sql, &["cart,6\n", "first 1 rows"]);
    let values = call(&api, "list_attribute_values", json!({"key": "url.path"})).await;
    says(values, &["/cart, 3"]);
    fails(
        call(&api, "search_traces", json!({"q": "{ status = }"})).await,
        "\n{ status = }\n           ^",
    );
    fails(call(&api, "search_traces", json!({"q": "{ }", "attribute": ["a=b"]})).await, "{ .http");
    fails(call(&api, "search_traces", json!({"q": "{ }", "sort": "slowest"})).await, "newest");
    fails(call(&api, "read_trace", json!({"trace_id": "ff"})).await, "no trace");
    fails(call(&api, "read_trace", json!({"trace_id": id, "span_id": "0b"})).await, "has no span");
    fails(call(&api, "service_graph", json!({"service": "none"})).await, "has no `none`");
    fails(call(&api, "read_spans", json!({"trace_id": id})).await, "there is no `span_ids`");
}

#[tokio::test]
async fn what_descriptions_show_can_be_asked() {
    let api = Api::shop().await;
    let listed = ask(&api, "tools/list", json!({})).await.to_string();
    let shown = [
        ("attribute(attributes, 'http.route')", "attribute(attributes, 'url.path')", "/cart"),
        ("resource_attribute(resource, 'deployment.environment')", "", ""),
        ("encode(assembled_trace_id, 'hex')", "", "abababab"),
    ];
    for (shown, instead, says) in shown {
        assert!(listed.contains(shown), "{shown}");
        let expression = if instead.is_empty() { shown } else { instead };
        let statement = format!("SELECT {expression} AS x FROM spans ORDER BY x DESC");
        let (is_error, text) = call(&api, "run_sql", json!({"query": statement})).await;
        assert!(!is_error && text.contains(says), "{shown}: {text}");
    }
    let described = call(&api, "run_sql", json!({"query": "DESCRIBE spans"})).await;
    let described = says(described, &["assembled_trace_id"]);
    // Every column that the description of the tool names is there.
    let columns = listed.split("among others: ").nth(1).and_then(|it| it.split(';').next());
    for column in columns.expect("columns").split(", ") {
        let is_it = |line: &str| line.trim_matches('"').starts_with(&format!("{column},"));
        assert!(described.lines().any(is_it), "{column}: {described}");
    }
    let example = r#"{ resource.service.name = "web" && status != error } >> { duration > 100ms }"#;
    says(call(&api, "search_traces", json!({"q": example})).await, &["1 traces", "300ms"]);
    for condition in ["url.path=/cart", "url.path!=/x", "big>5", "url.path~car", "big", "!none"] {
        let found = call(&api, "search_traces", json!({"attribute": [condition]})).await;
        says(found, &["3 traces"]);
    }
    let start = now() - 3_600_000 * MS;
    for start in ["-15m", "-2h", "2024-11-26T09:30:00Z", &start.to_string()] {
        says(call(&api, "list_services", json!({"start": start})).await, &["2 services"]);
    }
    for duration in ["250us", "10ms", "0.001s", "0m"] {
        let found = call(&api, "search_traces", json!({"min_duration": duration})).await;
        says(found, &["traces"]);
    }
    says(call(&api, "list_attribute_values", json!({"key": "url.path"})).await, &["/cart"]);
}

#[tokio::test]
async fn a_trace_of_many_spans_fits_a_context() {
    let api = Api::empty().await;
    let start = now() - 60_000 * MS;
    let id = TraceId([5; 16]);
    let mut spans = Vec::new();
    let mut add = |parent: u64, name: String, failed: bool| {
        let number = spans.len() as u64 + 1;
        let mut span = span(number, Capture::App, "batch", &name, start + number as i64, 1);
        (span.trace_id, span.parent_span_id) = (Some(id), SpanId::from_u64(parent));
        span.status = if failed { Status::Error } else { Status::Unset };
        if number < 50 {
            span.attributes = vec![("body".into(), "x".repeat(2_000).into())];
        }
        spans.push(span);
        number
    };
    let root = add(0, "job".into(), false);
    for item in 0..6_000 {
        let item_span = add(root, "item".into(), false);
        add(item_span, "SELECT".into(), item == 4_321);
        // Names that nothing folds.
        add(item_span, format!("key {item}\n{}", "x".repeat(300)), false);
    }
    api.add(&spans).await;
    let trace = id.to_string();
    let read = call(&api, "read_trace", json!({"trace_id": trace})).await;
    let text =
        says(read, &["18001 spans, 1 failed", "x5998 more batch: item", "11996 spans below"]);
    assert!(text.len() < 10_000, "{}", text.len());
    let whole = json!({"trace_id": trace, "unfolded": true, "lines": 500, "depth": 3});
    let text = says(call(&api, "read_trace", whole).await, &["further lines of this drawing"]);
    assert!(text.len() < 50_000, "{}", text.len());
    let ids: Vec<String> = (1..=50).map(|number| format!("{number:016x}")).collect();
    let spans = json!({"trace_id": trace, "span_ids": ids});
    let text = says(
        call(&api, "read_spans", spans).await,
        &["\"job\"", "the first 20 are given", "spans are left out"],
    );
    assert!(text.len() < 50_000, "{}", text.len());
}
