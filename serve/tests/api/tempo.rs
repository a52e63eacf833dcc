//! Tempo's API, as Grafana and others ask it.

use axum::body::Bytes;
use http::HeaderMap;

use super::*;

/// A trace of an SDK: web calls cart twice, of which one fails.
fn sdk(start: i64) -> Vec<Span> {
    let span = |number: u64, parent: u64, service: &str, name: &str, kind, at: i64, ms: i64| {
        let id = SpanId::from_u64(number).expect("not zero");
        let at = start + at * MS;
        let mut span = Span::new(id, Capture::App, kind, service, name, at, ms * MS);
        (span.trace_id, span.parent_span_id) = (Some(SDK_TRACE), SpanId::from_u64(parent));
        let zone: AttributeValue = "eu-1".into();
        let resource = [("service.name", &AttributeValue::from(service)), ("zone", &zone)];
        span.resource = spanwise_model::ResourceJson::from_attributes(resource);
        span.attributes.push(("otel.scope.name".into(), "lib".into()));
        span
    };
    let mut spans = vec![
        span(0xb1, 0, "web", "GET /cart", Kind::Server, 0, 100),
        span(0xb2, 0xb1, "web", "call", Kind::Client, 10, 30),
        span(0xb3, 0xb2, "cart", "load", Kind::Server, 12, 20),
        span(0xb4, 0xb2, "cart", "load", Kind::Server, 35, 50),
    ];
    spans[0].attributes.push(("http.response.status_code".into(), AttributeValue::Int(500)));
    let tags = r#"["a","b"]"#.to_owned();
    spans[2].attributes.push(("tags".into(), AttributeValue::Json(tags)));
    spans[3].status = Status::Error;
    spans[3].error = Some("no such item".into());
    spans[3].events.push(spanwise_model::Event {
        time_unix_nano: start + 36 * MS,
        name: "exception".into(),
        attributes: vec![("exception.type".into(), "KeyError".into())],
    });
    spans
}

/// Leading zeros are not shown.
const SDK_TRACE: TraceId = TraceId([0, 0xcd, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0xef]);
const SDK_ID: &str = "cd01010101010101010101010101ef";

struct Tempo {
    api: Api,
    start: i64,
}

impl Tempo {
    async fn new() -> Self {
        let api = Api::shop().await;
        let start = now() - 30_000 * MS;
        api.add(&sdk(start)).await;
        Self { api, start }
    }

    async fn ask(&self, path: &str, accept: &str) -> (StatusCode, HeaderMap, Vec<u8>) {
        let request = Request::get(format!("/tempo{path}")).header(header::ACCEPT, accept);
        self.api.ask_bare(request.body(Body::empty()).expect("valid")).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, _, body) = self.ask(path, "application/json").await;
        assert_eq!(status, StatusCode::OK, "{path}: {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).expect("JSON")
    }

    /// The traces that a query finds.
    async fn found(&self, query: &str) -> Vec<String> {
        let answer = self.get(&format!("/api/search?q={}", encoded(query))).await;
        let ids = answer["traces"].as_array().expect("a list").iter();
        ids.map(|trace| trace["traceID"].as_str().expect("an id").to_owned()).collect()
    }

    async fn refused(&self, path: &str) -> String {
        let (status, headers, body) = self.ask(path, "application/json").await;
        let body = String::from_utf8(body).expect("text");
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {body}");
        assert_eq!(headers[header::CONTENT_TYPE], "text/plain; charset=utf-8");
        body
    }
}

pub(super) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn echo_and_buildinfo_are_what_grafana_looks_for() {
    let tempo = Tempo::new().await;
    let (status, _, body) = tempo.ask("/api/echo", "*/*").await;
    assert_eq!((status, body.as_slice()), (StatusCode::OK, b"echo".as_slice()));
    let info = tempo.get("/api/status/buildinfo").await;
    assert_eq!(info["revision"], "spanwise-1.2.3");
    assert!(info["version"].as_str().expect("a version").split('.').count() == 3);
}

#[tokio::test]
async fn a_search_answers_as_tempo_does() {
    let tempo = Tempo::new().await;
    let query =
        encoded(r#"{ resource.service.name = "cart" && status = error && .zone = "eu-1" }"#);
    let answer = tempo.get(&format!("/api/search?q={query}&limit=5&spss=2")).await;
    let span = json!({
        "spanID": "00000000000000b4",
        "name": "load",
        "startTimeUnixNano": (tempo.start + 35 * MS).to_string(),
        "durationNanos": (50 * MS).to_string(),
        "attributes": [
            {"key": "service.name", "value": {"stringValue": "cart"}},
            {"key": "status", "value": {"stringValue": "error"}},
            {"key": "zone", "value": {"stringValue": "eu-1"}},
        ],
    });
    let set = json!({"spans": [span], "matched": 1});
    assert_eq!(
        answer,
        json!({
            "traces": [{
                "traceID": SDK_ID,
                "rootServiceName": "web",
                "rootTraceName": "GET /cart",
                "startTimeUnixNano": tempo.start.to_string(),
                "durationMs": 100,
                "spanSet": set,
                "spanSets": [set],
                "serviceStats": {
                    "cart": {"spanCount": 2, "errorCount": 1}, "web": {"spanCount": 2},
                },
            }],
            "metrics": {
                "inspectedTraces": 1, "inspectedSpans": "4", "completedJobs": 1, "totalJobs": 1,
            },
        })
    );
    let grouped = encoded(r#"{ .zone = "eu-1" } | by(resource.service.name) | count() > 1"#);
    let answer = tempo.get(&format!("/api/search?q={grouped}&spss=1")).await;
    let sets = answer["traces"][0]["spanSets"].as_array().expect("sets");
    assert_eq!(sets.len(), 2);
    assert_eq!(
        (&sets[0]["matched"], sets[0]["spans"].as_array().map(Vec::len)),
        (&json!(2), Some(1))
    );
    assert_eq!(
        sets[0]["attributes"],
        json!([
            {"key": "by(resource.service.name)", "value": {"stringValue": "web"}},
            {"key": "count()", "value": {"intValue": "2"}},
        ])
    );
    let nothing = tempo.get("/api/search?q=%7B.nothing%3D1%7D").await;
    assert_eq!(nothing["traces"], json!([]));
}

#[tokio::test]
async fn searches_in_every_way() {
    let tempo = Tempo::new().await;
    assert_eq!(tempo.found("{}").await.len(), 4);
    for query in [
        "{ .http.response.status_code >= 500 }",
        r#"{ .tags = "b" }"#,
        r#"{ event.exception.type = "KeyError" }"#,
        r#"{ .exception.type = "KeyError" }"#,
        r#"{ event:name = "exception" }"#,
        r#"{ statusMessage =~ "no such.*" }"#,
        r#"{ instrumentation:name = "lib" }"#,
        r#"{ resource.service.name = "web" } >> { status = error && resource.zone = "eu-1" }"#,
        r#"{ nestedSetParent < 0 && .zone != nil }"#,
        r#"{ trace:id = "cd01010101010101010101010101ef" }"#,
        r#"{ kind = server && name = "load" } | count() = 2"#,
    ] {
        assert_eq!(tempo.found(query).await, [SDK_ID], "{query}");
    }
    // Those without an SDK are among them, with what is known of them.
    assert_eq!(tempo.found(r#"{ span.spanwise.capture = "server-process" }"#).await.len(), 3);
    assert_eq!(tempo.found(r#"{ span.spanwise.evidence = "tcp_sequence" }"#).await.len(), 3);
    assert_eq!(tempo.found(r#"{ span.spanwise.server = "10.0.0.9:5432" }"#).await.len(), 3);
    for (parameters, count) in [
        ("tags=service.name%3Dcart", 4),
        ("tags=service.name%3DCA%20zone%3Deu", 1),
        ("tags=http.response.status_code%3D500", 1),
        ("tags=error%3Dtrue%20name%3Dload", 1),
        ("tags=name%3Dnothing", 0),
        ("minDuration=200ms", 1),
        ("minDuration=50ms&maxDuration=150ms", 1),
        ("limit=2", 2),
        ("q=%7B%7D&start=1&end=2", 0),
    ] {
        let answer = tempo.get(&format!("/api/search?{parameters}")).await;
        assert_eq!(answer["traces"].as_array().map(Vec::len), Some(count), "{parameters}");
    }
}

#[tokio::test]
async fn traces_come_whole_in_both_versions_and_formats() {
    let tempo = Tempo::new().await;
    let v1 = tempo.get(&format!("/api/traces/{SDK_ID}")).await;
    let v2 = tempo.get(&format!("/api/v2/traces/0{SDK_ID}")).await;
    assert_eq!(v1["batches"], v2["trace"]["resourceSpans"]);
    assert_eq!(v2.get("status"), None);
    let web = &v1["batches"][0];
    let text = |key: &str, text: &str| json!({"key": key, "value": {"stringValue": text}});
    assert_eq!(
        web["resource"],
        json!({"attributes": [text("service.name", "web"), text("zone", "eu-1")]})
    );
    assert_eq!(web["scopeSpans"][0]["scope"], json!({"name": "lib"}));
    let spans = web["scopeSpans"][0]["spans"].as_array().expect("spans");
    assert_eq!(
        spans[0],
        json!({
            "traceId": "AM0BAQEBAQEBAQEBAQEB7w==",
            "spanId": "AAAAAAAAALE=",
            "name": "GET /cart",
            "kind": "SPAN_KIND_SERVER",
            "startTimeUnixNano": tempo.start.to_string(),
            "endTimeUnixNano": (tempo.start + 100 * MS).to_string(),
            "attributes": [{"key": "http.response.status_code", "value": {"intValue": "500"}}],
            "status": {},
        })
    );
    assert_eq!(spans[1]["parentSpanId"], "AAAAAAAAALE=");
    let failed = v1["batches"][1]["scopeSpans"][0]["spans"].as_array().expect("spans");
    let failed = failed.iter().find(|span| span["spanId"] == "AAAAAAAAALQ=").expect("a span");
    assert_eq!(failed["status"], json!({"message": "no such item", "code": "STATUS_CODE_ERROR"}));
    assert_eq!(failed["events"][0]["name"], "exception");

    // Spans without an SDK have the parents that assembly found.
    let seen = tempo.get(&format!("/api/traces/{HEADER_TRACE}")).await;
    let all = seen["batches"].as_array().expect("a list").iter();
    let all: Vec<&Value> =
        all.flat_map(|batch| batch["scopeSpans"][0]["spans"].as_array().expect("spans")).collect();
    let query = all.iter().find(|span| span["name"] == "SELECT").expect("a query");
    let cart = all.iter().find(|span| span["spanId"] == query["parentSpanId"]).expect("its parent");
    assert_eq!(cart["name"], "GET /cart");
    let attributes = query["attributes"].as_array().expect("attributes");
    assert!(attributes.contains(&text("spanwise.evidence", "sole_request")), "{attributes:?}");
    assert!(attributes.contains(&text("spanwise.server", "10.0.0.9:5432")), "{attributes:?}");

    let (status, headers, v2) =
        tempo.ask(&format!("/api/v2/traces/{SDK_ID}"), "application/protobuf").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CONTENT_TYPE], "application/protobuf");
    let (_, _, v1) = tempo.ask(&format!("/api/traces/{SDK_ID}"), "application/protobuf").await;
    // The second version has the first as its first field.
    let length = v2.windows(v1.len()).position(|part| part == v1).expect("it is in it");
    assert_eq!((v2[0], length), (0x0a, 3));

    let (status, _, body) = tempo.ask("/api/traces/123", "application/json").await;
    assert_eq!((status, body.len()), (StatusCode::NOT_FOUND, 0));
    let absent = tempo.get("/api/v2/traces/123").await;
    assert_eq!(absent, json!({"trace": {}, "metrics": {}}));
}

#[tokio::test]
async fn tags_and_their_values() {
    let tempo = Tempo::new().await;
    let tags = tempo.get("/api/v2/search/tags").await;
    let scope = |name: &str| {
        let scopes = tags["scopes"].as_array().expect("scopes").iter();
        scopes.clone().find(|scope| scope["name"] == name).expect("a scope")["tags"].clone()
    };
    assert_eq!(scope("event"), json!(["exception.type"]));
    assert_eq!(scope("resource"), json!(["service.name", "zone"]));
    let own = scope("span");
    for name in ["http.response.status_code", "tags", "url.path", "spanwise.capture"] {
        assert!(own.as_array().expect("names").contains(&json!(name)), "{own}");
    }
    assert!(scope("intrinsic").as_array().expect("names").contains(&json!("rootName")));
    let some = tempo.get("/api/v2/search/tags?scope=span&q=%7Bname%3D%22call%22%7D").await;
    assert_eq!(some["scopes"], json!([{"name": "span"}]));
    let v1 = tempo.get("/api/search/tags").await;
    assert!(v1["tagNames"].as_array().expect("names").contains(&json!("zone")));

    let typed = |kind: &str, value: &str| json!({"type": kind, "value": value});
    for (tag, query, values) in [
        ("resource.service.name", "", vec![typed("string", "cart"), typed("string", "web")]),
        ("resource.service.name", r#"{ name = "call" }"#, vec![typed("string", "web")]),
        ("resource.service.name", r#"{ name = "call" && status ="#, vec![typed("string", "web")]),
        (".http.response.status_code", "", vec![typed("int", "500")]),
        ("span.tags", "", vec![typed("string", "a"), typed("string", "b")]),
        ("event.exception.type", "", vec![typed("string", "KeyError")]),
        ("name", "{ status = error }", vec![typed("string", "SELECT"), typed("string", "load")]),
        (
            "status",
            "",
            vec![typed("keyword", "error"), typed("keyword", "ok"), typed("keyword", "unset")],
        ),
        (".nothing", "", vec![]),
    ] {
        // Grafana encodes the name twice.
        let tag = encoded(&encoded(tag));
        let path = format!("/api/v2/search/tag/{tag}/values?q={}", encoded(query));
        assert_eq!(tempo.get(&path).await["tagValues"], json!(values), "{path}");
    }
    for (tag, values) in [
        ("service.name", json!(["cart", "web"])),
        ("http.response.status_code", json!(["500"])),
        ("zone", json!(["eu-1"])),
        ("status", json!(["error", "ok", "unset"])),
    ] {
        let answer = tempo.get(&format!("/api/search/tag/{tag}/values")).await;
        assert_eq!(answer["tagValues"], values, "{tag}");
    }
}

#[tokio::test]
async fn metrics_are_series() {
    let tempo = Tempo::new().await;
    let end = now() / 1_000_000_000 + 10;
    let (start, step) = (end - 120, 60);
    let ask = async |query: &str, more: &str| {
        let query = encoded(query);
        tempo
            .get(&format!(
                "/api/metrics/query_range?q={query}&start={start}&end={end}&step={step}s{more}"
            ))
            .await
    };
    let counted = ask("{ .zone != nil } | count_over_time() by (resource.service.name)", "").await;
    let series = counted["series"].as_array().expect("series");
    let sum = |series: &Value| {
        let samples = series["samples"].as_array().expect("samples").iter();
        samples.map(|sample| sample["value"].as_f64().unwrap_or(0.0)).sum::<f64>()
    };
    let label =
        |value: &str| json!([{"key": "resource.service.name", "value": {"stringValue": value}}]);
    assert_eq!((&series[0]["labels"], sum(&series[0])), (&label("cart"), 2.0));
    assert_eq!((&series[1]["labels"], sum(&series[1])), (&label("web"), 2.0));
    let exemplar = &series[0]["exemplars"][0];
    assert_eq!(
        exemplar["labels"][0],
        json!({"key": "trace:id", "value": {"stringValue": SDK_TRACE.to_string()}})
    );
    assert!(
        exemplar["timestampMs"].is_string() && series[0]["samples"][0]["timestampMs"].is_string()
    );
    assert_eq!(counted["metrics"]["inspectedSpans"], "4", "of rows, without their traces");
    assert_eq!(counted["metrics"].get("inspectedTraces"), None);

    let of_traces = ask("{ rootName = `GET /cart` } | count_over_time()", "&exemplars=0").await;
    assert_eq!(sum(&of_traces["series"][0]), 4.0);
    assert_eq!(
        of_traces["series"][0]["labels"],
        json!([{"key": "__name__", "value": {"stringValue": "count_over_time"}}])
    );
    assert!(of_traces["metrics"]["inspectedTraces"].as_u64().expect("traces") > 0);
    let without = ask("{ status = error } | rate() with(exemplars=false)", "").await;
    assert_eq!(without["series"][0].get("exemplars"), None);

    let query = encoded("{ .zone != nil } | max_over_time(duration)");
    let instant = tempo.get(&format!("/api/metrics/query?q={query}&since=1h")).await;
    assert_eq!(
        instant["series"],
        json!([{
            "labels": [{"key": "__name__", "value": {"stringValue": "max_over_time"}}],
            "value": 0.1,
        }])
    );
    let few = ask("{} | rate() by (name)", "&maxSeries=1").await;
    assert_eq!(
        (&few["status"], few["series"].as_array().map(Vec::len)),
        (&json!("PARTIAL"), Some(1))
    );
    assert!(few["message"].as_str().expect("a message").contains("group by fewer"));
}

#[tokio::test]
async fn what_is_wrong_is_told_with_its_place() {
    let tempo = Tempo::new().await;
    for (path, part) in [
        ("/api/search?q=%7B", "line 1, column 2: expected"),
        ("/api/search?q=%7B%7D%7Crate()", "metrics query"),
        ("/api/search?q=%7B%7D&tags=a%3Db", "tags and q"),
        ("/api/search?limit=0", "positive"),
        ("/api/search?limit=x", "invalid limit"),
        ("/api/search?limit=999999", "exceeds"),
        ("/api/search?spss=101", "spans per span set"),
        ("/api/search?minDuration=10", "invalid minDuration"),
        ("/api/search?minDuration=2s&maxDuration=1s", "greater"),
        ("/api/search?start=5&end=5", "start must be before end"),
        ("/api/search?tags=a", "invalid tags"),
        ("/api/traces/xyz", "hex characters"),
        ("/api/v2/traces/0", "hex characters"),
        ("/api/v2/search/tags?scope=x", "invalid scope"),
        ("/api/v2/search/tag/a%20b%20c/values", "no field of TraceQL"),
        ("/api/metrics/query_range?q=%7B%7D", "no metrics query"),
        ("/api/metrics/query_range", "no query"),
        ("/api/metrics/query_range?q=%7B%7D%7Crate()&start=5&end=4", "before end"),
        ("/api/metrics/query_range?q=%7B%7D%7Crate()&start=1&end=900000&step=1s", "longer step"),
        ("/api/metrics/query_range?q=%7B%7D%7Crate()&step=x", "valid duration"),
        ("/api/metrics/query?q=%7B%7D%7Crate()&start=yesterday", "no time"),
    ] {
        let why = tempo.refused(path).await;
        assert!(why.contains(part), "{path}: {why}");
    }
    let (status, _, body) = tempo.ask("/api/overrides", "*/*").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(String::from_utf8_lossy(&body).contains("Tempo's API"));
}

#[tokio::test]
async fn hostile_queries_end_at_once_with_a_clear_error() {
    let tempo = Tempo::new().await;
    let deep = format!("{{ {}.a{} }}", "(".repeat(10_000), ")".repeat(10_000));
    let large = format!("{{ .a =~ \"{}\" }}", "(a{1000}){1000}");
    for (query, part) in [(deep, "nested"), (encoded(&large), "expression")] {
        let began = std::time::Instant::now();
        let query = query.replace(' ', "%20").replace('{', "%7B").replace('}', "%7D");
        let why = tempo.refused(&format!("/api/search?q={query}")).await;
        assert!(why.contains(part), "{why}");
        assert!(why.len() < 1_000, "{} bytes", why.len());
        assert!(began.elapsed().as_secs() < 2);
    }
    // Matching is linear in the text.
    assert!(tempo.found(r#"{ name =~ "(a*)*(a*)*(a*)*(a*)*b" }"#).await.is_empty());
}

/// A message with the five bytes before it that gRPC has.
fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).expect("short").to_be_bytes();
    [&[0], &length[..], message].concat().into()
}

/// A field of text, as Protocol Buffers have it.
fn text_field(number: u8, text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("short");
    [&[number << 3 | 2, length], text.as_bytes()].concat()
}

#[tokio::test]
async fn the_streaming_querier_speaks_grpc() {
    let tempo = Tempo::new().await;
    let state = ApiState {
        store: Arc::clone(&tempo.api.store) as Arc<dyn Store>,
        status: Arc::new(Parts),
        keys: Arc::default(),
    };
    let router = spanwise_serve::surfaces(state).tempo;
    let call = async |method: &str, message: Vec<u8>| {
        let request = Request::post(format!("/tempopb.StreamingQuerier/{method}"))
            .header(header::CONTENT_TYPE, "application/grpc")
            .body(Body::from(framed(&message)))
            .expect("valid");
        let response = router.clone().oneshot(request).await.expect("never fails");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body");
        let trailers = body.trailers().cloned().unwrap_or(head.headers);
        let status = trailers["grpc-status"].to_str().expect("text").to_owned();
        let message = trailers.get("grpc-message").map(|it| it.to_str().expect("text").to_owned());
        (status, message.unwrap_or_default(), body.to_bytes())
    };
    let contains =
        |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    let (status, _, body) =
        call("Search", text_field(8, "{ status = error && .zone != nil }")).await;
    assert_eq!(status, "0");
    assert!(contains(&body, SDK_ID) && contains(&body, "GET /cart"));
    let (status, why, _) = call("Search", text_field(8, "{ status = }")).await;
    assert_eq!(status, "3", "an invalid argument");
    assert!(why.contains("column%2012") || why.contains("column 12"), "{why}");
    // A request line has no room for so long a query, and a message has.
    for (bytes, status, part) in [(200_000, "3", "bytes"), (1 << 20, "11", "length")] {
        let query = format!("{{ .a = `{}` }}", "x".repeat(bytes));
        let length = u32::try_from(query.len()).expect("short");
        let varint = [length & 127 | 128, length >> 7 & 127 | 128, length >> 14 & 127];
        let varint = varint.map(|seven| u8::try_from(seven).expect("seven bits"));
        let message = [&[8 << 3 | 2], &varint[..], query.as_bytes()].concat();
        let (got, why, _) = call("Search", message).await;
        assert!(got == status && why.contains(part), "{got}: {why}");
    }
    let (_, _, body) = call("SearchTagsV2", Vec::new()).await;
    assert!(contains(&body, "resource") && contains(&body, "exception.type"));
    let (_, _, body) = call("SearchTags", text_field(1, "resource")).await;
    assert!(contains(&body, "zone") && !contains(&body, "exception.type"));
    let (_, _, body) = call("SearchTagValuesV2", text_field(1, "resource.service.name")).await;
    assert!(contains(&body, "cart") && contains(&body, "string"));
    let (_, _, body) = call("SearchTagValues", text_field(1, "service.name")).await;
    assert!(contains(&body, "cart"));
    // From 1970 to the end of time, as varints of nanoseconds.
    let time = [&[0x10, 1, 0x18][..], &[0xff; 8], &[0x7f]].concat();
    let query = text_field(1, "{ .zone != nil } | count_over_time()");
    let (status, why, body) = call("MetricsQueryInstant", [query, time].concat()).await;
    assert_eq!((status.as_str(), why.as_str()), ("0", ""));
    assert!(contains(&body, "count_over_time"));
    let (status, why, _) = call("MetricsQueryRange", text_field(1, "{} | rate()")).await;
    assert_eq!(status, "3", "{why}");
    let (status, _, _) = call("Nothing", Vec::new()).await;
    assert_eq!(status, "12", "unimplemented");
    // HTTP is at the root of this port.
    let request = Request::get("/api/echo").body(Body::empty()).expect("valid");
    let response = router.clone().oneshot(request).await.expect("never fails");
    assert_eq!(response.status(), StatusCode::OK);
}
