//! Jaeger's APIs: by HTTP in both versions, by gRPC, and the remote storages'.

use opentelemetry_proto::tonic::common::v1::any_value::Value as OtlpValue;
use opentelemetry_proto::tonic::trace::v1::TracesData;
use prost::Message;
use spanwise_model::{Event, Link, ResourceJson};

use super::*;

/// The id of [`sample`]'s trace, which has 64 bits.
pub(super) const SAMPLE_TRACE: &str = "00f067aa0ba902b7";

/// What an SDK may send: texts of all kinds, every type of attribute, events, a link, an error.
pub(super) fn sample(start: i64) -> [Span; 2] {
    let trace_id: TraceId = format!("{SAMPLE_TRACE:0>32}").parse().expect("an id");
    let make = |number, kind, name: &str| {
        let id = SpanId::from_u64(number).expect("not zero");
        let mut span = Span::new(id, Capture::App, kind, "läden", name, start, 5 * MS);
        span.trace_id = Some(trace_id);
        span.resource = ResourceJson::from_column(r#"{"service.name":"läden","zone":"b"}"#);
        span
    };
    let mut root = make(1, Kind::Server, "GET /übung");
    root.trace_state = Some("k=v".into());
    root.status = Status::Error;
    root.error = Some("Sold".into());
    root.attributes = vec![
        ("string".into(), "ß".into()),
        ("int".into(), AttributeValue::Int(-9_007_199_254_740_993)),
        ("double".into(), AttributeValue::Double(0.5)),
        ("bool".into(), true.into()),
        ("bytes".into(), AttributeValue::Bytes("AQI=".into())),
        ("list".into(), AttributeValue::Json("[1,\"a\"]".into())),
        ("otel.status_description".into(), "out of stock".into()),
        ("otel.scope.name".into(), "shop".into()),
    ];
    let event = |ms: i64, name: &str, attributes| Event {
        time_unix_nano: start + ms * MS,
        name: name.into(),
        attributes,
    };
    root.events = vec![
        event(1, "cache miss", Vec::new()),
        event(2, "exception", vec![("exception.type".into(), "Sold".into())]),
    ];
    root.links = vec![Link {
        trace_id: TraceId([1; 16]),
        span_id: SpanId::from_u64(9).expect("not zero"),
        trace_state: None,
        attributes: Vec::new(),
    }];
    let mut child = make(2, Kind::Client, "SELECT");
    child.parent_span_id = Some(root.span_id);
    [root, child]
}

async fn jaeger(api: &Api, path: &str) -> Value {
    let (status, body) = api.other(&format!("/jaeger/{path}")).await;
    assert_eq!(status, StatusCode::OK, "{path}: {body}");
    body
}

async fn failed(api: &Api, path: &str, status: StatusCode) -> Value {
    let (got, body) = api.other(&format!("/jaeger/{path}")).await;
    assert_eq!(got, status, "{path}: {body}");
    body
}

/// The tags of a list by their keys.
fn tags(list: &Value) -> Value {
    let pairs = list.as_array().expect("a list").iter();
    let pairs = pairs.map(|tag| {
        let key = tag["key"].as_str().expect("a key").to_owned();
        (key, json!([tag["type"], tag["value"]]))
    });
    Value::Object(pairs.collect())
}

#[tokio::test]
async fn names_and_dependencies_are_listed() {
    let api = Api::shop().await;
    let structured = |data: Value, total| json!({ "data": data, "total": total, "limit": 0, "offset": 0, "errors": null });
    let services = jaeger(&api, "api/services").await;
    assert_eq!(services, structured(json!(["cart", "web"]), 2));
    let names = jaeger(&api, "api/services/web/operations").await;
    assert_eq!(names, structured(json!(["GET /", "GET /cart"]), 2));
    let operations = jaeger(&api, "api/operations?service=cart&spanKind=client").await;
    assert_eq!(operations, structured(json!([{ "name": "SELECT", "spanKind": "client" }]), 1));
    failed(&api, "api/operations", StatusCode::BAD_REQUEST).await;
    let links = jaeger(&api, "api/dependencies?service=web").await;
    let calls = json!([{ "parent": "web", "child": "cart", "callCount": 3 }]);
    assert_eq!(links, structured(calls, 0));
    let three = jaeger(&api, "api/v3/services").await;
    assert_eq!(three, json!({ "services": ["cart", "web"] }));
    let three = jaeger(&api, "api/v3/operations?service=cart&span_kind=server").await;
    assert_eq!(three, json!({ "operations": [{ "name": "GET /cart", "spanKind": "server" }] }));
}

#[tokio::test]
async fn what_sdks_sent_comes_back_in_version_1() {
    let api = Api::empty().await;
    let start = now() - 10_000 * MS;
    api.add(&sample(start)).await;
    let answer = jaeger(&api, &format!("api/traces/{SAMPLE_TRACE}")).await;
    assert_eq!(answer["errors"], Value::Null);
    let trace = &answer["data"][0];
    assert_eq!((&trace["traceID"], &trace["warnings"]), (&json!(SAMPLE_TRACE), &Value::Null));
    let zone = json!([{ "key": "zone", "type": "string", "value": "b" }]);
    assert_eq!(trace["processes"], json!({ "p1": { "serviceName": "läden", "tags": zone } }));
    let (root, child) = (&trace["spans"][0], &trace["spans"][1]);
    assert_eq!((&root["startTime"], &root["duration"]), (&json!(start / 1_000), &json!(5_000)));
    assert_eq!(
        (&root["operationName"], &root["processID"], &root["warnings"], &root["traceID"]),
        (&json!("GET /übung"), &json!("p1"), &Value::Null, &json!(SAMPLE_TRACE))
    );
    let link = json!({
        "refType": "FOLLOWS_FROM", "traceID": "01".repeat(16), "spanID": "0000000000000009",
    });
    assert_eq!(root["references"], json!([link]));
    assert_eq!(
        tags(&root["tags"]),
        json!({
            "string": ["string", "ß"], "int": ["int64", "-9007199254740993"],
            "double": ["float64", 0.5], "bool": ["bool", true], "bytes": ["binary", "AQI="],
            "list": ["string", "[1,\"a\"]"], "otel.scope.name": ["string", "shop"],
            "span.kind": ["string", "server"], "otel.status_code": ["string", "ERROR"],
            "error": ["bool", true], "otel.status_description": ["string", "out of stock"],
            "w3c.tracestate": ["string", "k=v"],
        })
    );
    assert_eq!(root["logs"][0]["timestamp"], start / 1_000 + 1_000);
    assert_eq!(
        tags(&root["logs"][1]["fields"]),
        json!({ "event": ["string", "exception"], "exception.type": ["string", "Sold"] })
    );
    let parent = json!({
        "refType": "CHILD_OF", "traceID": SAMPLE_TRACE, "spanID": "0000000000000001",
    });
    assert_eq!(child["references"], json!([parent]));
    assert_eq!(tags(&child["tags"]), json!({ "span.kind": ["string", "client"] }));
    assert_eq!(child["logs"], json!([]));
}

#[tokio::test]
async fn guessed_parents_say_so_and_raw_traces_have_none() {
    let api = Api::shop().await;
    let id = "ab".repeat(16);
    let answer = jaeger(&api, &format!("api/traces/{id}")).await;
    let spans = &answer["data"][0]["spans"];
    let parents = |spans: &Value| -> Vec<Value> {
        let spans = spans.as_array().expect("a list").iter();
        spans.map(|span| span["references"][0]["spanID"].clone()).collect()
    };
    let hex = |number: u64| json!(format!("{number:016x}"));
    assert_eq!(parents(spans), [hex(999), hex(300), hex(301), hex(302)]);
    let query = tags(&spans[3]["tags"]);
    assert_eq!(query["spanwise.evidence"], json!(["string", "sole_request"]));
    assert_eq!(query["spanwise.confidence"], json!(["float64", 0.9]));
    assert_eq!(query["spanwise.guessed"], json!(["bool", true]));
    assert_eq!(query["network.peer.address"], json!(["string", "10.0.0.9"]));
    assert_eq!(query["otel.status_description"], json!(["string", "23505"]));
    assert_eq!(tags(&spans[2]["tags"]).get("spanwise.guessed"), None, "both sides were seen");
    assert!(answer["data"][0]["warnings"].as_array().is_some_and(|warnings| !warnings.is_empty()));
    let raw = jaeger(&api, &format!("api/traces/{id}?raw=true")).await;
    let spans = &raw["data"][0]["spans"];
    assert_eq!(parents(spans), [hex(999), Value::Null, Value::Null, Value::Null]);
    assert_eq!(tags(&spans[3]["tags"]).get("spanwise.evidence"), None);
}

#[tokio::test]
async fn every_parameter_of_a_search_narrows_it() {
    let api = Api::shop().await;
    api.add(&sample(now() - 10_000 * MS)).await;
    let shop = "l%C3%A4den";
    for (query, found) in [
        ("service=web".to_owned(), 3),
        ("service=web&limit=2".to_owned(), 2),
        ("service=none".to_owned(), 0),
        ("service=cart&operation=SELECT&tags=".to_owned(), 3),
        ("service=cart&minDuration=290ms&maxDuration=300ms".to_owned(), 1),
        ("service=cart&operation=SELECT&minDuration=290ms".to_owned(), 0),
        ("service=cart&tag=error:true".to_owned(), 1),
        (
            "service=cart&tags=%7B%22error%22:%22true%22,%22span.kind%22:%22client%22%7D"
                .to_owned(),
            1,
        ),
        ("service=cart&tag=span.kind:server&tag=url.path:/cart".to_owned(), 3),
        ("service=cart&tag=span.kind:client&tag=url.path:/cart".to_owned(), 0),
        ("service=cart&tag=spanwise.evidence:sole_request".to_owned(), 3),
        ("service=cart&tag=spanwise.protocol:postgresql".to_owned(), 3),
        (format!("service={shop}&tag=zone:b"), 1),
        (format!("service={shop}&tag=double:0.5&tag=bool:true"), 1),
        (format!("service={shop}&tag=exception.type:Sold"), 1),
        (format!("service={shop}&tag=event:cache%20miss&tag=zone:b"), 1),
        (format!("service={shop}&tag=event:cache%20hit"), 0),
        (format!("service={shop}&tag=name:shop"), 1),
        (format!("traceID={SAMPLE_TRACE}&traceID={}", "ab".repeat(16)), 2),
    ] {
        let answer = jaeger(&api, &format!("api/traces?{query}")).await;
        assert_eq!(answer["data"].as_array().expect("a list").len(), found, "{query}");
        assert_eq!(answer["errors"], Value::Null, "{query}");
    }
    let start = (now() - 58_500 * MS) / 1_000;
    let later = jaeger(&api, &format!("api/traces?service=web&start={start}")).await;
    assert_eq!(later["data"].as_array().expect("a list").len(), 1);
    let some = jaeger(&api, &format!("api/traces?traceID={SAMPLE_TRACE}&traceID=ff")).await;
    assert_eq!(some["data"].as_array().expect("a list").len(), 1);
    let missing = json!([{ "msg": "trace not found", "traceID": "00000000000000ff" }]);
    assert_eq!(some["errors"], missing);
    let none = failed(&api, "api/traces/ff", StatusCode::NOT_FOUND).await;
    assert_eq!((&none["data"], &none["errors"][0]["code"]), (&Value::Null, &json!(404)));
    let wrong = failed(&api, "api/traces?limit=5", StatusCode::BAD_REQUEST).await;
    assert_eq!(wrong["errors"][0]["msg"], "parameter 'service' is required");
}

#[tokio::test]
async fn an_archive_is_not_there() {
    let api = Api::shop().await;
    let post = |id: &str| Request::post(format!("/jaeger/api/archive/{id}")).body(Body::empty());
    let (status, _, body) = api.ask_bare(post(&"ab".repeat(16)).expect("valid")).await;
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    let said = body["errors"][0]["msg"].as_str().expect("a sentence");
    assert!(said.contains("archive storage was not configured"), "{said}");
    assert_eq!(api.ask_bare(post("ff").expect("valid")).await.0, StatusCode::NOT_FOUND);
}

/// The text of an OTLP attribute.
fn text(attributes: &[opentelemetry_proto::tonic::common::v1::KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key).expect("is there");
    format!("{:?}", found.value.as_ref().and_then(|value| value.value.clone()).expect("a value"))
}

/// What an SDK sent, as OTLP.
fn check_sample(data: &TracesData, start: i64) {
    assert_eq!(data.resource_spans.len(), 1);
    let resource = data.resource_spans[0].resource.as_ref().expect("a resource");
    assert_eq!(text(&resource.attributes, "service.name"), "StringValue(\"läden\")");
    assert_eq!(text(&resource.attributes, "zone"), "StringValue(\"b\")");
    let scopes = &data.resource_spans[0].scope_spans;
    assert_eq!(scopes[0].scope.as_ref().expect("a scope").name, "shop");
    let (root, child) = (&scopes[0].spans[0], &scopes[1].spans[0]);
    assert_eq!(
        root.trace_id,
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]
    );
    assert_eq!(root.start_time_unix_nano, start as u64);
    assert_eq!(root.end_time_unix_nano, (start + 5 * MS) as u64);
    assert_eq!(
        (root.name.as_str(), root.kind, root.trace_state.as_str()),
        ("GET /übung", 2, "k=v")
    );
    let status = root.status.as_ref().expect("a status");
    assert_eq!((status.code, status.message.as_str()), (2, "out of stock"));
    for (key, value) in [
        ("string", OtlpValue::StringValue("ß".into())),
        ("int", OtlpValue::IntValue(-9_007_199_254_740_993)),
        ("double", OtlpValue::DoubleValue(0.5)),
        ("bool", OtlpValue::BoolValue(true)),
        ("bytes", OtlpValue::BytesValue(vec![1, 2])),
    ] {
        assert_eq!(text(&root.attributes, key), format!("{value:?}"));
    }
    assert!(text(&root.attributes, "list").starts_with("ArrayValue"));
    assert_eq!(root.attributes.len(), 6, "the others are fields");
    assert_eq!((root.events.len(), root.links.len()), (2, 1));
    assert_eq!(root.events[1].attributes[0].key, "exception.type");
    assert_eq!(root.links[0].span_id, [0, 0, 0, 0, 0, 0, 0, 9]);
    assert_eq!((child.parent_span_id.as_slice(), child.kind), (root.span_id.as_slice(), 3));
    assert!(root.parent_span_id.is_empty() && child.attributes.is_empty());
}

#[tokio::test]
async fn what_sdks_sent_comes_back_in_version_3() {
    let api = Api::empty().await;
    let start = now() - 10_000 * MS;
    api.add(&sample(start)).await;
    let answer = jaeger(&api, &format!("api/v3/traces/{SAMPLE_TRACE}")).await;
    let span = &answer["result"]["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["traceId"], format!("{SAMPLE_TRACE:0>32}"));
    assert_eq!(span["startTimeUnixNano"], start.to_string());
    check_sample(&serde_json::from_value(answer["result"].clone()).expect("OTLP"), start);
    let search = |query: &str| {
        format!(
            "api/v3/traces?query.start_time_min=2020-01-01T00:00:00Z\
             &query.startTimeMax=2060-01-01T00:00:00Z&{query}"
        )
    };
    let found = jaeger(&api, &search("query.serviceName=l%C3%A4den&query.durationMin=5ms")).await;
    check_sample(&serde_json::from_value(found["result"].clone()).expect("OTLP"), start);
    let none = failed(&api, &search("query.serviceName=x"), StatusCode::NOT_FOUND).await;
    assert_eq!(none, json!({ "error": { "httpCode": 404, "message": "No traces found" } }));
    let wrong = failed(&api, "api/v3/traces", StatusCode::BAD_REQUEST).await;
    assert_eq!(wrong["error"]["httpCode"], 400);
    let summaries =
        search("query.attributes=%7B%22zone%22:%22b%22%7D").replace("traces?", "trace-summaries?");
    let summaries = jaeger(&api, &summaries).await;
    let summary = &summaries["summaries"][0];
    assert_eq!(summary["rootOperationName"], "GET /übung");
    assert_eq!((&summary["spanCount"], &summary["errorSpanCount"]), (&json!(2), &json!(1)));
}

/// Calls a method; the messages that come back, and the status.
pub(super) async fn call(api: &Api, method: &str, question: &[u8]) -> (Vec<Vec<u8>>, String) {
    let mut body = vec![0];
    body.extend((question.len() as u32).to_be_bytes());
    body.extend(question);
    let request = Request::post(format!("/jaeger.{method}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .body(Body::from(body))
        .expect("valid");
    let response = api.jaeger.clone().oneshot(request).await.expect("never fails");
    let at_once = response.headers().get("grpc-status").cloned();
    let collected = response.into_body().collect().await.expect("a body");
    let status = at_once.or_else(|| collected.trailers()?.get("grpc-status").cloned());
    let bytes = collected.to_bytes();
    let (mut messages, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((prefix, after)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
        messages.push(after[..length].to_vec());
        rest = &after[length..];
    }
    let status = status.expect("a status").to_str().expect("a number").to_owned();
    (messages, status)
}

/// A message with these fields, which are texts, bytes or messages.
pub(super) fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, value) in fields {
        bytes.extend([number << 3 | 2, u8::try_from(value.len()).expect("short")]);
        bytes.extend(*value);
    }
    bytes
}

#[tokio::test]
async fn a_jaeger_reads_its_storage_here() {
    let api = Api::empty().await;
    let start = now() - 10_000 * MS;
    api.add(&sample(start)).await;
    let id: TraceId = format!("{SAMPLE_TRACE:0>32}").parse().expect("an id");
    let find = message(&[(1, &message(&[(1, "läden".as_bytes()), (2, "SELECT".as_bytes())]))]);
    let typed = message(&[
        (1, b"int"),
        (2, &[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0xff, 1]),
    ]);
    let by_tag = message(&[(1, &message(&[(3, &typed)]))]);
    let by_id = message(&[(1, &message(&[(1, &id.0)]))]);
    for (method, question) in [
        ("api_v3.QueryService/GetTrace", message(&[(1, SAMPLE_TRACE.as_bytes())])),
        ("api_v3.QueryService/FindTraces", find.clone()),
        ("storage.v2.TraceReader/GetTraces", by_id),
        ("storage.v2.TraceReader/FindTraces", find.clone()),
        ("storage.v2.TraceReader/FindTraces", by_tag),
    ] {
        let (messages, status) = call(&api, method, &question).await;
        assert_eq!((messages.len(), status.as_str()), (1, "0"), "{method}");
        check_sample(&TracesData::decode(&messages[0][..]).expect("OTLP"), start);
    }
    // A list of ids, of spans in Jaeger's own form, and of names.
    let (messages, status) = call(&api, "storage.v2.TraceReader/FindTraceIDs", &find).await;
    assert_eq!(status, "0");
    assert!(messages[0].windows(16).any(|window| window == id.0));
    let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    for service in ["storage.v1.SpanReaderPlugin", "api_v2.QueryService"] {
        let by_id = message(&[(1, &id.0)]);
        let (messages, _) = call(&api, &format!("{service}/GetTrace"), &by_id).await;
        for part in ["GET /übung", "läden", "exception", "otel.status_code", "out of stock"] {
            assert!(has(&messages[0], part.as_bytes()), "{part}");
        }
        let (found, _) = call(&api, &format!("{service}/FindTraces"), &find).await;
        assert_eq!(found, messages);
    }
    assert_eq!(call(&api, "api_v2.QueryService/ArchiveTrace", &[]).await.1, "12");
    let services = message(&[(1, "läden".as_bytes())]);
    for method in [
        "storage.v2.TraceReader",
        "storage.v1.SpanReaderPlugin",
        "api_v2.QueryService",
        "api_v3.QueryService",
    ] {
        let (messages, _) = call(&api, &format!("{method}/GetServices"), &[]).await;
        assert_eq!((messages.len(), &messages[0]), (1, &services), "{method}");
    }
    let (messages, _) = call(&api, "storage.v2.TraceReader/GetOperations", &services).await;
    let select = message(&[(1, b"SELECT"), (2, b"client")]);
    assert!(has(&messages[0], &select));
    let (messages, _) = call(&api, "storage.v2.Capabilities/GetCapabilities", &[]).await;
    assert_eq!(messages, [vec![0x0a, 4, 8, 1, 16, 1]]);
    // What is not known is left out in version 2, and an error in the others.
    let unknown = message(&[(1, &message(&[(1, &[9; 16])]))]);
    let (messages, status) = call(&api, "storage.v2.TraceReader/GetTraces", &unknown).await;
    assert_eq!((messages.len(), status.as_str()), (0, "0"));
    let (_, status) =
        call(&api, "storage.v1.SpanReaderPlugin/GetTrace", &message(&[(1, &[9; 16])])).await;
    assert_eq!(status, "5");
    let filter = message(&[(1, &message(&[(9, &[])]))]);
    let (_, status) = call(&api, "storage.v2.TraceReader/FindTraces", &filter).await;
    assert_eq!(status, "3", "a filter is refused, not ignored");
    let (_, status) = call(&api, "storage.v2.TraceReader/Other", &[]).await;
    assert_eq!(status, "12");
}

#[tokio::test]
async fn a_large_trace_comes_in_parts() {
    let api = Api::empty().await;
    let start = now() - 10_000 * MS;
    let spans: Vec<Span> = (1..=600)
        .map(|number| {
            let mut span = span(number, Capture::App, "many", "work", start, 5);
            span.trace_id = Some(TraceId([7; 16]));
            span.parent_span_id = SpanId::from_u64(number - 1);
            span.attributes = vec![("text".into(), "x".repeat(4_000).into())];
            span
        })
        .collect();
    api.add(&spans).await;
    let by_id = message(&[(1, &message(&[(1, &[7; 16])]))]);
    let (messages, _) = call(&api, "storage.v2.TraceReader/GetTraces", &by_id).await;
    assert!(messages.len() > 1 && messages.iter().all(|message| message.len() < 2 << 20));
    let count = messages.iter().flat_map(|bytes| {
        let data = TracesData::decode(&bytes[..]).expect("OTLP");
        data.resource_spans.into_iter().flat_map(|resource| resource.scope_spans)
    });
    assert_eq!(count.map(|scope| scope.spans.len()).sum::<usize>(), 600);
}
