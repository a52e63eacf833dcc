//! Zipkin's API.

use super::jaeger::{SAMPLE_TRACE, sample};
use super::*;

async fn zipkin(api: &Api, path: &str) -> Value {
    let (status, body) = api.other(&format!("/zipkin/api/v2/{path}")).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

async fn refused(api: &Api, path: &str) -> String {
    let (status, body) = api.other(&format!("/zipkin/api/v2/{path}")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{path}: {body}");
    body.as_str().expect("a sentence").to_owned()
}

#[tokio::test]
async fn names_are_listed() {
    let api = Api::shop().await;
    assert_eq!(zipkin(&api, "services").await, json!(["cart", "web"]));
    assert_eq!(zipkin(&api, "spans?serviceName=WEB").await, json!(["GET /", "GET /cart"]));
    assert_eq!(zipkin(&api, "spans?serviceName=none").await, json!([]));
    assert_eq!(zipkin(&api, "remoteServices?serviceName=web").await, json!(["cart"]));
    assert_eq!(zipkin(&api, "remoteServices?serviceName=cart").await, json!(["postgresql"]));
    assert!(refused(&api, "spans").await.contains("serviceName"));
    let keys = zipkin(&api, "autocompleteKeys").await;
    assert!(keys.as_array().expect("a list").contains(&json!("url.path")), "{keys}");
    assert_eq!(zipkin(&api, "autocompleteValues?key=url.path").await, json!(["/cart"]));
    let now = now() / MS;
    let links = zipkin(&api, &format!("dependencies?endTs={now}&lookback=3600000")).await;
    assert_eq!(
        links,
        json!([
            { "parent": "cart", "child": "postgresql 10.0.0.9:5432", "callCount": 3, "errorCount": 1 },
            { "parent": "web", "child": "cart", "callCount": 3 },
        ])
    );
    let (_, config) = api.other("/zipkin/config.json").await;
    assert_eq!(config["dependency"]["enabled"], true);
    let (status, health) = api.other("/zipkin/health").await;
    assert_eq!((status, &health["status"]), (StatusCode::OK, &json!("UP")));
    assert_eq!(api.other("/zipkin/info").await.1["zipkin"]["version"], "1.2.3");
}

#[tokio::test]
async fn spans_that_nobody_sent_are_zipkin_s() {
    let api = Api::shop().await;
    let traces = zipkin(&api, "traces?serviceName=cart&annotationQuery=error").await;
    let traces = traces.as_array().expect("a list");
    assert_eq!(traces.len(), 1);
    let spans = traces[0].as_array().expect("a list");
    assert_eq!(spans.len(), 4);
    let [root, call, cart, query] = [0, 1, 2, 3].map(|place| &spans[place]);
    assert_eq!(root["parentId"], "00000000000003e7", "a parent that is not here");
    assert_eq!((&call["parentId"], &call["kind"]), (&root["id"], &json!("CLIENT")));
    assert_eq!(call["remoteEndpoint"]["serviceName"], "cart");
    assert_eq!(cart["remoteEndpoint"]["serviceName"], "web");
    assert_eq!(
        (&cart["tags"]["url.path"], &cart["tags"]["big"]),
        (&json!("/cart"), &json!("9223372036854775807"))
    );
    assert_eq!(cart["tags"]["spanwise.evidence"], "tcp_sequence");
    assert_eq!(cart["tags"].get("spanwise.guessed"), None);
    assert_eq!(query["tags"]["error"], "23505");
    assert_eq!(query["tags"]["spanwise.capture"], "client-process");
    assert_eq!(query["tags"]["spanwise.evidence"], "sole_request");
    assert_eq!(query["tags"]["spanwise.confidence"], "0.9");
    assert_eq!(query["tags"]["spanwise.guessed"], "true");
    let remote = json!({ "serviceName": "postgresql", "ipv4": "10.0.0.9", "port": 5432 });
    assert_eq!(query["remoteEndpoint"], remote);
    assert_eq!(query["traceId"], "ab".repeat(16));
}

#[tokio::test]
async fn every_parameter_of_a_search_narrows_it() {
    let api = Api::shop().await;
    let now = now() / MS;
    for (query, found) in [
        ("", 3),
        ("serviceName=web", 3),
        ("serviceName=Web&spanName=get%20%2f", 3),
        ("serviceName=web&spanName=all&limit=2", 2),
        ("serviceName=none", 0),
        ("spanName=SELECT", 3),
        ("serviceName=web&spanName=SELECT", 0),
        ("serviceName=web&remoteServiceName=cart", 3),
        ("serviceName=cart&remoteServiceName=postgresql", 3),
        ("serviceName=cart&remoteServiceName=mysql", 0),
        ("serviceName=cart&minDuration=290000", 1),
        ("serviceName=cart&minDuration=1000&maxDuration=20000", 3),
        // One span is that long, and another has that name.
        ("serviceName=cart&spanName=SELECT&minDuration=290000", 1),
        ("serviceName=cart&annotationQuery=url.path%3d%2fcart%20and%20error", 1),
        ("serviceName=cart&annotationQuery=url.path%3d%2fother", 0),
        ("serviceName=cart&annotationQuery=url.path", 3),
        ("serviceName=cart&annotationQuery=error%3d23505", 1),
        ("lookback=59500", 2),
    ] {
        let traces = zipkin(&api, &format!("traces?{query}")).await;
        assert_eq!(traces.as_array().expect("a list").len(), found, "{query}");
    }
    let past = zipkin(&api, &format!("traces?endTs={}&lookback=1000", now - 600_000)).await;
    assert_eq!(past, json!([]));
    assert!(refused(&api, "traces?maxDuration=5").await.contains("only valid with minDuration"));
    assert!(refused(&api, "traces?limit=0").await.contains("limit <= 0"));
}

#[tokio::test]
async fn what_sdks_sent_comes_back() {
    let api = Api::empty().await;
    let start = now() - 10_000 * MS;
    api.add(&sample(start)).await;
    let trace = zipkin(&api, &format!("trace/{SAMPLE_TRACE}")).await;
    let spans = trace.as_array().expect("a list");
    let (root, child) = (&spans[0], &spans[1]);
    assert_eq!(root["traceId"], SAMPLE_TRACE, "64 bits are 16 digits");
    assert_eq!((&root["kind"], &root["name"]), (&json!("SERVER"), &json!("GET /übung")));
    assert_eq!(root.get("parentId"), None);
    assert_eq!(root["timestamp"], start / 1_000);
    assert_eq!(root["duration"], 5_000);
    assert_eq!(root["localEndpoint"], json!({ "serviceName": "läden" }));
    let tags = &root["tags"];
    for (key, value) in [
        ("string", "ß"),
        ("int", "-9007199254740993"),
        ("double", "0.5"),
        ("bool", "true"),
        ("bytes", "AQI="),
        ("list", "[1,\"a\"]"),
        ("error", "out of stock"),
        ("otel.scope.name", "shop"),
        ("zone", "b"),
        ("otel.link.0", "01010101010101010101010101010101/0000000000000009"),
        ("w3c.tracestate", "k=v"),
    ] {
        assert_eq!(tags[key], value, "{key}");
    }
    assert_eq!(
        root["annotations"],
        json!([
            { "timestamp": start / 1_000 + 1_000, "value": "cache miss" },
            { "timestamp": start / 1_000 + 2_000,
              "value": "\"exception\":{\"exception.type\":\"Sold\"}" },
        ])
    );
    assert_eq!(child["parentId"], root["id"]);
    assert_eq!(child["tags"].get("spanwise.evidence"), None, "its sender named its parent");
    assert_eq!(child["tags"].get("error"), None);
    // By an event's name, whatever the case of the service's.
    let found = zipkin(&api, "traces?serviceName=L%C3%84DEN&annotationQuery=cache%20miss").await;
    assert_eq!(found.as_array().expect("a list").len(), 1);
}

#[tokio::test]
async fn both_halves_of_a_shared_span_have_its_id() {
    let api = Api::empty().await;
    let start = now() - 10_000 * MS;
    let id = |number| SpanId::from_u64(number).expect("not zero");
    let make = |number, parent, kind, service: &str| {
        let mut made = span(number, Capture::App, service, "get", start, 5);
        (made.trace_id, made.kind) = (Some(TraceId([5; 16])), kind);
        made.parent_span_id = SpanId::from_u64(parent);
        (made.host, made.process_id) = (None, None);
        made
    };
    let mut half = make(2, 2, Kind::Server, "back");
    half.span_id = id(2).receiving_half();
    let spans = [
        make(1, 0, Kind::Server, "front"),
        make(2, 1, Kind::Client, "front"),
        half,
        make(3, 2, Kind::Client, "back"),
    ];
    api.add(&spans).await;
    let trace = zipkin(&api, &format!("trace/{}", "05".repeat(16))).await;
    let told: Vec<Value> = trace
        .as_array()
        .expect("a list")
        .iter()
        .map(|span| json!([span["id"], span["parentId"], span["shared"]]))
        .collect();
    let hex = |number: u64| format!("{number:016x}");
    assert_eq!(
        told,
        [
            json!([hex(1), null, null]),
            json!([hex(2), hex(1), null]),
            json!([hex(2), hex(1), true]),
            json!([hex(3), hex(2), null]),
        ]
    );
}

#[tokio::test]
async fn traces_are_found_by_their_ids() {
    let api = Api::shop().await;
    let id = "ab".repeat(16);
    assert_eq!(zipkin(&api, &format!("trace/{id}")).await.as_array().expect("a list").len(), 4);
    let (status, body) = api.other("/zipkin/api/v2/trace/00000000000000ff").await;
    assert_eq!((status, body), (StatusCode::NOT_FOUND, json!("00000000000000ff not found\n")));
    assert!(refused(&api, "trace/xyz").await.contains("trace id"));
    let many = zipkin(&api, &format!("traceMany?traceIds={id},00000000000000ff")).await;
    assert_eq!(many.as_array().expect("a list").len(), 1);
    for (ids, why) in [
        (String::new(), "empty"),
        (id.clone(), "single trace"),
        (format!("{id},{id}"), "redundant"),
        (format!("{id},x"), "trace id"),
    ] {
        let error = refused(&api, &format!("traceMany?traceIds={ids}")).await;
        assert!(error.contains(why), "{error}");
    }
}
