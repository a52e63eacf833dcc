//! One set of traces, asked through every surface: the same spans, parents, times and attributes
//! come back from each.
//!
//! What a dialect cannot say: Zipkin has texts only, and an event's attributes are in its text;
//! with Jaeger's version 1 lists and maps are texts. Both have times in microseconds, which is
//! what the set has. Attributes that a dialect adds of its own are not compared, nor are those of
//! events and links.

use std::collections::BTreeMap;

use base64::Engine as _;
use opentelemetry_proto::tonic::common::v1::any_value::Value as OtlpValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::TracesData;
use prost::Message;
use spanwise_model::{Event, Link, ResourceJson};

use super::jaeger::{call, message};
use super::*;

const TRACES: u64 = 1_002;
/// The attributes that are compared.
const KEYS: [&str; 9] =
    ["text", "int", "double", "flag", "bytes", "list", "map", "url.path", "big"];

/// A span as every dialect can say it.
#[derive(Debug, Clone, PartialEq)]
struct Common {
    parent: Option<String>,
    service: String,
    name: String,
    start_nano: i64,
    duration_nano: i64,
    attributes: BTreeMap<String, String>,
    /// Names of events, with their times.
    events: Vec<(i64, String)>,
    links: Vec<String>,
}

type Spans = BTreeMap<String, Common>;

/// A trace of an SDK: every type of attribute, unicode, an error, events and a link.
fn of_sdk(number: u64, start: i64) -> Vec<Span> {
    let mut trace_id = [7; 16];
    trace_id[8..].copy_from_slice(&number.to_be_bytes());
    let first = 1_000_000 + number * 10;
    (0..4)
        .map(|at| {
            let kind = [Kind::Server, Kind::Client, Kind::Internal, Kind::Producer][at as usize];
            let (service, name) = (["läden", "kasse"][at as usize % 2], format!("op ü{}", at % 3));
            let id = SpanId::from_u64(first + at).expect("not zero");
            let begin = start + at as i64 * MS;
            let mut span = Span::new(id, Capture::App, kind, service, &*name, begin, 9 * MS);
            span.trace_id = Some(TraceId(trace_id));
            span.parent_span_id = (at > 0).then(|| SpanId::from_u64(first + at / 2)).flatten();
            span.resource =
                ResourceJson::from_column(&format!(r#"{{"service.name":"{service}","zone":"b"}}"#));
            span.attributes = vec![
                ("text".into(), format!("ß \"{number}\" \u{1f9ed}").into()),
                ("int".into(), AttributeValue::Int(-9_007_199_254_740_993 - number as i64)),
                ("double".into(), AttributeValue::Double(0.5 + number as f64)),
                ("flag".into(), (number.is_multiple_of(2)).into()),
                ("bytes".into(), AttributeValue::Bytes("AQI=".into())),
                ("list".into(), AttributeValue::Json("[1,\"a\",true]".into())),
                ("map".into(), AttributeValue::Json("{\"k\":{\"l\":[1.5]}}".into())),
            ];
            if at == 3 {
                span.status = Status::Error;
                span.error = Some("Sold".into());
                let attributes = vec![("exception.type".into(), "Sold".into())];
                let time_unix_nano = begin + MS;
                span.events = vec![Event { time_unix_nano, name: "exception".into(), attributes }];
                span.links = vec![Link {
                    trace_id: TraceId([1; 16]),
                    span_id: SpanId::from_u64(9).expect("not zero"),
                    trace_state: None,
                    attributes: Vec::new(),
                }];
            }
            span
        })
        .collect()
}

fn set() -> Vec<Span> {
    let start = (now() - 300_000 * MS) / 1_000 * 1_000;
    let mut spans = Vec::new();
    for number in 0..TRACES {
        let at = start + number as i64 * 200 * MS;
        match number % 3 {
            0 => spans.extend(of_sdk(number, at)),
            1 => spans.extend(request(1_000 + number * 10, at, 20, number % 2 == 0)),
            // An SDK's span calls what no SDK sees.
            _ => {
                let sdk = of_sdk(number, at);
                let mut seen = request(1_000 + number * 10, at + 2 * MS, 5, false);
                seen[0].trace_id = sdk[1].trace_id;
                seen[0].parent_span_id = Some(sdk[1].span_id);
                spans.extend(sdk);
                spans.extend(seen);
            }
        }
    }
    spans
}

fn compact(text: &str) -> String {
    serde_json::from_str::<Value>(text).map_or_else(|_| text.to_owned(), |json| json.to_string())
}

/// A value as a text, by the type that its dialect gives it.
fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn kept(pairs: impl Iterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let pairs = pairs.filter(|(key, _)| KEYS.contains(&key.as_str()));
    pairs.map(|(key, text)| (key, compact(&text))).collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn digits(value: &Value) -> i64 {
    as_text(value).parse().unwrap_or_else(|_| panic!("{value} is a number"))
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is a text")).to_owned()
}

fn native(span: &Value) -> (String, Common) {
    let attributes = list(&span["attributes"]);
    let events = list(&span["events"]);
    let links = list(&span["links"]);
    let common = Common {
        parent: span["parent"].as_str().map(str::to_owned),
        service: text_of(&span["service"]),
        name: text_of(&span["operation"]),
        start_nano: digits(&span["start_unix_nano"]),
        duration_nano: digits(&span["duration_nano"]),
        attributes: kept(attributes.map(|one| (text_of(&one["key"]), as_text(&one["value"])))),
        events: events.map(|one| (digits(&one["time_unix_nano"]), text_of(&one["name"]))).collect(),
        links: links.map(|one| text_of(&one["span_id"])).collect(),
    };
    (text_of(&span["span_id"]), common)
}

fn jaeger_v1(trace: &Value, span: &Value) -> (String, Common) {
    let process = &trace["processes"][span["processID"].as_str().expect("a process")];
    let references = |kind: &'static str| {
        list(&span["references"])
            .filter(move |one| one["refType"] == kind)
            .map(|one| text_of(&one["spanID"]))
    };
    let event = |log: &Value| {
        let name = list(&log["fields"]).find(|field| field["key"] == "event").expect("a name");
        (digits(&log["timestamp"]) * 1_000, text_of(&name["value"]))
    };
    let tags = list(&span["tags"]);
    let common = Common {
        parent: references("CHILD_OF").next(),
        service: text_of(&process["serviceName"]),
        name: text_of(&span["operationName"]),
        start_nano: digits(&span["startTime"]) * 1_000,
        duration_nano: digits(&span["duration"]) * 1_000,
        attributes: kept(tags.map(|tag| (text_of(&tag["key"]), as_text(&tag["value"])))),
        events: list(&span["logs"]).map(event).collect(),
        links: references("FOLLOWS_FROM").collect(),
    };
    (text_of(&span["spanID"]), common)
}

fn zipkin(span: &Value) -> (String, Common) {
    let tags = span["tags"].as_object().cloned().unwrap_or_default();
    let annotations = list(&span["annotations"]);
    let event = |one: &Value| {
        let value = text_of(&one["value"]);
        let name = value.trim_start_matches('"').split('"').next().unwrap_or_default().to_owned();
        (digits(&one["timestamp"]) * 1_000, name)
    };
    let links = tags.iter().filter(|(key, _)| key.starts_with("otel.link."));
    let link = |text: String| text.rsplit('/').next().unwrap_or_default().to_owned();
    let links = links.map(|(_, value)| link(text_of(value))).collect();
    let common = Common {
        parent: span["parentId"].as_str().map(str::to_owned),
        service: text_of(&span["localEndpoint"]["serviceName"]),
        name: text_of(&span["name"]),
        start_nano: digits(&span["timestamp"]) * 1_000,
        duration_nano: digits(&span["duration"]) * 1_000,
        events: annotations.map(event).collect(),
        links,
        attributes: kept(tags.into_iter().map(|(key, value)| (key, as_text(&value)))),
    };
    (text_of(&span["id"]), common)
}

fn otlp_json(value: &Option<AnyValue>) -> Value {
    let Some(value) = value.as_ref().and_then(|value| value.value.as_ref()) else {
        return Value::Null;
    };
    match value {
        OtlpValue::StringValue(text) => text.as_str().into(),
        OtlpValue::BoolValue(flag) => (*flag).into(),
        OtlpValue::IntValue(number) => (*number).into(),
        OtlpValue::DoubleValue(number) => (*number).into(),
        OtlpValue::BytesValue(bytes) => {
            assert_eq!(bytes, &[1, 2]);
            "AQI=".into()
        }
        OtlpValue::ArrayValue(list) => {
            let one = |value: &AnyValue| otlp_json(&Some(value.clone()));
            list.values.iter().map(one).collect::<Vec<_>>().into()
        }
        OtlpValue::KvlistValue(list) => {
            let one = |pair: &KeyValue| (pair.key.clone(), otlp_json(&pair.value));
            Value::Object(list.values.iter().map(one).collect())
        }
        other => panic!("no such value was sent: {other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn otlp(data: &TracesData) -> Spans {
    let mut spans = Spans::new();
    for resource in &data.resource_spans {
        let attributes = &resource.resource.as_ref().expect("a resource").attributes;
        let service = attributes.iter().find(|one| one.key == "service.name").expect("a service");
        let service = text_of(&otlp_json(&service.value));
        for span in resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
            let attributes = span.attributes.iter();
            let events = span.events.iter();
            let common = Common {
                parent: (!span.parent_span_id.is_empty()).then(|| hex(&span.parent_span_id)),
                service: service.clone(),
                name: span.name.clone(),
                start_nano: span.start_time_unix_nano as i64,
                duration_nano: (span.end_time_unix_nano - span.start_time_unix_nano) as i64,
                attributes: kept(
                    attributes.map(|one| (one.key.clone(), as_text(&otlp_json(&one.value)))),
                ),
                events: events.map(|one| (one.time_unix_nano as i64, one.name.clone())).collect(),
                links: span.links.iter().map(|link| hex(&link.span_id)).collect(),
            };
            assert!(spans.insert(hex(&span.span_id), common).is_none(), "a span comes once");
        }
    }
    spans
}

/// A value of Protocol Buffers' JSON.
fn proto_json(value: &Value) -> Value {
    let (kind, value) = value.as_object().and_then(|one| one.iter().next()).expect("a value");
    match kind.as_str() {
        "intValue" => digits(value).into(),
        "arrayValue" => list(&value["values"]).map(proto_json).collect::<Vec<_>>().into(),
        "kvlistValue" => {
            let one = |pair: &Value| (text_of(&pair["key"]), proto_json(&pair["value"]));
            Value::Object(list(&value["values"]).map(one).collect())
        }
        _ => value.clone(),
    }
}

fn hex_of(base64: &Value) -> String {
    let text = base64.as_str().unwrap_or_default();
    hex(&base64::prelude::BASE64_STANDARD.decode(text).expect("base64"))
}

/// Tempo's JSON.
fn tempo_json(resources: &Value) -> Spans {
    let mut spans = Spans::new();
    for resource in list(resources) {
        let service =
            list(&resource["resource"]["attributes"]).find(|one| one["key"] == "service.name");
        let service = text_of(&proto_json(&service.expect("a service")["value"]));
        for span in list(&resource["scopeSpans"]).flat_map(|scope| list(&scope["spans"])) {
            let attributes = list(&span["attributes"]);
            let events = list(&span["events"]);
            let start_nano = digits(&span["startTimeUnixNano"]);
            let common = Common {
                parent: Some(hex_of(&span["parentSpanId"])).filter(|id| !id.is_empty()),
                service: service.clone(),
                name: text_of(&span["name"]),
                start_nano,
                duration_nano: digits(&span["endTimeUnixNano"]) - start_nano,
                attributes: kept(
                    attributes
                        .map(|one| (text_of(&one["key"]), as_text(&proto_json(&one["value"])))),
                ),
                events: events
                    .map(|one| (digits(&one["timeUnixNano"]), text_of(&one["name"])))
                    .collect(),
                links: list(&span["links"]).map(|link| hex_of(&link["spanId"])).collect(),
            };
            assert!(spans.insert(hex_of(&span["spanId"]), common).is_none(), "a span comes once");
        }
    }
    spans
}

/// What a method of gRPC streams.
async fn streamed(api: &Api, method: &str, question: &[u8]) -> Spans {
    let (messages, status) = call(api, method, question).await;
    assert_eq!(status, "0", "{method}");
    messages.iter().flat_map(|one| otlp(&TracesData::decode(&one[..]).expect("OTLP"))).collect()
}

#[track_caller]
fn same(surface: &str, id: &str, came: &Spans, expected: &Spans) {
    for (span, common) in expected {
        assert_eq!(came.get(span), Some(common), "{surface}: span {span} of trace {id}");
    }
    assert_eq!(came.len(), expected.len(), "{surface}: trace {id}");
}

#[tokio::test]
async fn the_same_comes_back_from_every_surface() {
    let api = Api::empty().await;
    let sent = set();
    api.add(&sent).await;
    let (mut ids, mut cursor) = (Vec::<String>::new(), String::new());
    loop {
        let found = api.get(&format!("search?limit=500&cursor={cursor}")).await;
        ids.extend(list(&found["traces"]).map(|one| text_of(&one["trace_id"])));
        match found["next_cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(ids.len() as u64, TRACES);
    let mut all = Spans::new();
    for id in &ids {
        let page = api.get(&format!("traces/{id}")).await;
        let expected: Spans = list(&page["spans"]).map(native).collect();

        let body = api.other(&format!("/jaeger/api/traces/{id}")).await.1;
        let trace = &body["data"][0];
        let came = list(&trace["spans"]).map(|span| jaeger_v1(trace, span)).collect();
        same("Jaeger v1", id, &came, &expected);

        let body = api.other(&format!("/jaeger/api/v3/traces/{id}")).await.1;
        let data = serde_json::from_value(body["result"].clone()).expect("OTLP");
        same("Jaeger v3", id, &otlp(&data), &expected);
        let question = message(&[(1, id.as_bytes())]);
        let came = streamed(&api, "api_v3.QueryService/GetTrace", &question).await;
        same("Jaeger v3 by gRPC", id, &came, &expected);
        let bytes = id.parse::<TraceId>().expect("an id").0;
        let question = message(&[(1, &message(&[(1, &bytes)]))]);
        let came = streamed(&api, "storage.v2.TraceReader/GetTraces", &question).await;
        same("Jaeger's storage v2", id, &came, &expected);

        let body = api.other(&format!("/zipkin/api/v2/trace/{id}")).await.1;
        same("Zipkin", id, &list(&body).map(zipkin).collect(), &expected);

        let request = Request::get(format!("/tempo/api/traces/{id}"))
            .header(header::ACCEPT, "application/protobuf")
            .body(Body::empty());
        let (_, _, bytes) = api.ask_bare(request.expect("valid")).await;
        let data = TracesData::decode(&bytes[..]).expect("OTLP");
        same("Tempo", id, &otlp(&data), &expected);
        let body = api.other(&format!("/tempo/api/traces/{id}")).await.1;
        same("Tempo in JSON", id, &tempo_json(&body["batches"]), &expected);
        let body = api.other(&format!("/tempo/api/v2/traces/{id}")).await.1;
        let resources = &body["trace"]["resourceSpans"];
        same("Tempo v2 in JSON", id, &tempo_json(resources), &expected);

        let spans: Vec<&String> = expected.keys().collect();
        let called = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "read_spans", "arguments": {"trace_id": id, "span_ids": spans},
        }});
        let called = called.to_string();
        let request = mcp::request(&called).body(Body::from(called)).expect("valid");
        let answer: Value = serde_json::from_slice(&api.ask_bare(request).await.2).expect("JSON");
        let text = text_of(&answer["result"]["content"][0]["text"]);
        let spans: Value = serde_json::from_str(&text).expect("JSON");
        same("MCP", id, &list(&spans).map(native).collect(), &expected);
        all.extend(expected);
    }
    // What came back is what was sent.
    assert_eq!(all.len(), sent.len());
    for span in &sent {
        let came = &all[&span.span_id.to_string()];
        let values = span.attributes.iter();
        let values = values.map(|(key, value)| (key.clone(), as_text(&value.to_json())));
        assert_eq!(came.attributes, kept(values), "{}", span.span_id);
        assert_eq!((&came.name, &came.service), (&span.operation, &span.service));
        assert_eq!(came.start_nano, span.start_unix_nano);
        assert_eq!(came.duration_nano, span.duration_nano);
        assert_eq!(came.events.len(), span.events.len());
        assert_eq!(came.links.len(), span.links.len());
        if let Some(parent) = span.parent_span_id {
            assert_eq!(came.parent, Some(parent.to_string()));
        }
    }
    let hanging = all.values().filter(|span| span.parent.is_some()).count() as u64;
    assert_eq!(all.len() as u64 - hanging, TRACES, "each trace has one root");
    // SQL has the same rows.
    let statement = "SELECT span_id, assembled_parent, service, operation, start_unix_nano, \
                     duration_nano, attributes['text'], attributes['int'] FROM spans";
    let body = json!({"query": statement}).to_string();
    let request = Request::post("/api/v1/sql").header(header::CONTENT_TYPE, "application/json");
    let (_, _, body) = api.ask(request.body(Body::from(body)).expect("valid")).await;
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(list(&answer["rows"]).count(), all.len());
    for row in list(&answer["rows"]) {
        let span = &all[&text_of(&row[0])];
        assert_eq!(row[1].as_str(), span.parent.as_deref(), "{row}");
        assert_eq!((&row[2], &row[3]), (&json!(span.service), &json!(span.name)));
        assert_eq!(digits(&row[4]), span.start_nano);
        assert_eq!(digits(&row[5]), span.duration_nano);
        for (cell, key) in [(6, "text"), (7, "int")] {
            // An attribute is its type and its value.
            let value = span.attributes.get(key);
            let value = value.map(|text| format!("{{type: {}, value: {text}}}", cell - 6));
            assert_eq!(row[cell].as_str(), value.as_deref(), "{row}");
        }
    }
}
