//! OTLP requests to rows: every kind of field, both encodings, invalid input.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span, Status, span, status,
};
use proptest::prelude::*;
use prost::Message;
use spanwise_model::SpanBatch;
use spanwise_wire::otlp::{
    Decoded, Limits, OtlpError, Together, decode_json, decode_protobuf, decode_protobuf_together,
    response_json, response_protobuf,
};

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.into(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

fn int(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

/// A span with every kind of field and value.
fn full_span() -> Span {
    let any = |value| AnyValue { value: Some(value) };
    Span {
        trace_id: (1..=16).collect(),
        span_id: (1..=8).collect(),
        parent_span_id: (11..=18).collect(),
        trace_state: "vendor=1".into(),
        flags: 1,
        name: "POST /cart/{id}".into(),
        kind: span::SpanKind::Server as i32,
        start_time_unix_nano: 1_700_000_000_000_000_000,
        end_time_unix_nano: 1_700_000_000_012_345_678,
        attributes: vec![
            text("http.request.method", "POST"),
            int("http.response.status_code", 503),
            text("network.peer.address", "::ffff:10.0.0.7"),
            int("network.peer.port", 40_412),
            text("network.local.address", "10.0.0.1"),
            int("network.local.port", 8080),
            attribute(
                "http.request.header.x-request-id",
                Value::ArrayValue(ArrayValue {
                    values: vec![any(Value::StringValue("r-42".into()))],
                }),
            ),
            text("error.type", "503"),
            attribute("a.bool", Value::BoolValue(true)),
            attribute("a.double", Value::DoubleValue(0.25)),
            attribute("a.nan", Value::DoubleValue(f64::NAN)),
            attribute("a.bytes", Value::BytesValue(vec![0, 255])),
            attribute(
                "a.array",
                Value::ArrayValue(ArrayValue {
                    values: vec![
                        any(Value::IntValue(i64::MIN)),
                        any(Value::DoubleValue(f64::INFINITY)),
                        AnyValue { value: None },
                    ],
                }),
            ),
            attribute(
                "a.map",
                Value::KvlistValue(KeyValueList {
                    values: vec![
                        text("z", "last"),
                        attribute("b", Value::BytesValue(vec![1, 2])),
                        attribute("t", Value::BoolValue(false)),
                    ],
                }),
            ),
            KeyValue { key: "a.nothing".into(), ..Default::default() },
        ],
        dropped_attributes_count: 3,
        events: vec![
            span::Event {
                time_unix_nano: 1_700_000_000_001_000_000,
                name: "exception".into(),
                attributes: vec![
                    text("exception.type", "StoreDown"),
                    text("exception.message", "no"),
                ],
                dropped_attributes_count: 1,
            },
            span::Event { name: "retry".into(), ..Default::default() },
        ],
        dropped_events_count: 2,
        links: vec![
            span::Link {
                trace_id: vec![9; 16],
                span_id: vec![8; 8],
                trace_state: "l=1".into(),
                attributes: vec![text("why", "batch")],
                dropped_attributes_count: 4,
                flags: 0,
            },
            span::Link { trace_id: vec![9; 3], ..Default::default() },
        ],
        dropped_links_count: 1,
        status: Some(Status {
            message: "cart is away".into(),
            code: status::StatusCode::Error as i32,
        }),
    }
}

fn request_of(spans: Vec<Span>) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes: vec![
                    text("service.name", "cart"),
                    text("service.instance.id", "cart-7"),
                    text("host.name", "h1"),
                    int("process.pid", 4242),
                    attribute("tags", Value::ArrayValue(ArrayValue::default())),
                ],
                ..Default::default()
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "net/http".into(),
                    version: "1.2".into(),
                    attributes: vec![text("build", "x")],
                    ..Default::default()
                }),
                spans,
                schema_url: "https://opentelemetry.io/schemas/1.30.0".into(),
            }],
            schema_url: String::new(),
        }],
    }
}

fn decoded(request: &ExportTraceServiceRequest) -> Decoded {
    decode_protobuf(&request.encode_to_vec(), &Limits::default()).unwrap()
}

fn rows(decoded: Decoded) -> Vec<spanwise_model::Span> {
    SpanBatch::try_from(decoded.batch).unwrap().spans().collect::<Result<_, _>>().unwrap()
}

/// A minimal valid span.
fn small_span(number: u8) -> Span {
    Span { trace_id: vec![1; 16], span_id: vec![number; 8], ..Default::default() }
}

#[test]
fn every_field_has_its_place() {
    let decoded = decoded(&request_of(vec![full_span()]));
    assert_eq!(decoded.left_out.invalid_links, 1);
    assert_eq!(decoded.rejections.total(), 0);
    insta::assert_debug_snapshot!(rows(decoded));
}

#[test]
fn kinds_decide_whose_addresses_they_are() {
    let span =
        |kind: span::SpanKind, attributes| Span { kind: kind as i32, attributes, ..small_span(1) };
    let rows = rows(decoded(&request_of(vec![
        span(
            span::SpanKind::Client,
            vec![
                text("server.address", "db.internal"),
                int("server.port", 5432),
                text("network.peer.address", "10.1.1.1"),
                text("db.system.name", "postgresql"),
                text("http.request.method", "GET"),
            ],
        ),
        span(
            span::SpanKind::Client,
            vec![text("net.peer.name", "old.example"), text("net.peer.port", "80")],
        ),
        span(
            span::SpanKind::Server,
            vec![text("client.address", "192.0.2.9"), text("server.address", "shop.example")],
        ),
        span(span::SpanKind::Server, vec![text("network.peer.address", "/run/app.sock")]),
        span(span::SpanKind::Internal, vec![text("network.peer.address", "10.1.1.1")]),
        span(
            span::SpanKind::Client,
            vec![text("rpc.system", "grpc"), int("rpc.grpc.status_code", 14)],
        ),
    ])));
    let flows: Vec<_> = rows
        .iter()
        .map(|row| {
            let flow = &row.flow;
            (
                flow.client_address.as_deref(),
                flow.server_address.as_deref(),
                flow.server_port,
                row.protocol.as_deref(),
                row.status_code,
            )
        })
        .collect();
    assert_eq!(
        flows,
        [
            (None, Some("10.1.1.1"), Some(5432), Some("postgresql"), None),
            (None, Some("old.example"), Some(80), None, None),
            (Some("192.0.2.9"), None, None, None, None),
            (None, None, None, None, None),
            (None, None, None, None, None),
            (None, None, None, Some("grpc"), Some(14)),
        ]
    );
}

#[test]
fn the_error_is_what_names_it_best() {
    let failed = Some(Status { message: "it broke".into(), code: 2 });
    let exception = span::Event {
        name: "exception".into(),
        attributes: vec![text("exception.type", "IOError")],
        ..Default::default()
    };
    let rows = rows(decoded(&request_of(vec![
        Span { status: failed.clone(), ..small_span(1) },
        Span { status: failed, attributes: vec![text("error.type", "timeout")], ..small_span(2) },
        // Recorded, but handled.
        Span { events: vec![exception], ..small_span(3) },
    ])));
    let errors: Vec<_> = rows.iter().map(|row| row.error.as_deref()).collect();
    assert_eq!(errors, [Some("it broke"), Some("timeout"), None]);
    let description = rows[1].attribute("otel.status_description");
    assert_eq!(description, Some(&"it broke".into()));
}

#[test]
fn absurd_times_are_kept() {
    let span =
        |start, end| Span { start_time_unix_nano: start, end_time_unix_nano: end, ..small_span(1) };
    let rows = rows(decoded(&request_of(vec![
        span(50, 20),
        span(u64::MAX, u64::MAX),
        span(1, u64::MAX),
        span(7, 0),
    ])));
    let times: Vec<_> = rows.iter().map(|r| (r.start_unix_nano, r.duration_nano)).collect();
    assert_eq!(times, [(50, -30), (i64::MAX, 0), (1, i64::MAX), (7, 0)]);
}

#[test]
fn wrong_ids_are_rejected_one_by_one_and_counted() {
    let wrong = |change: fn(&mut Span)| {
        let mut span = small_span(9);
        change(&mut span);
        span
    };
    let decoded = decoded(&request_of(vec![
        small_span(1),
        wrong(|s| s.trace_id = vec![1; 15]),
        wrong(|s| s.trace_id = vec![0; 16]),
        wrong(|s| s.span_id.clear()),
        wrong(|s| s.parent_span_id = vec![1; 7]),
        Span { parent_span_id: vec![0; 8], ..small_span(2) },
    ]));
    assert_eq!(decoded.batch.num_rows(), 2);
    assert_eq!(
        decoded.rejections.counts().collect::<Vec<_>>(),
        [("invalid_parent_span_id", 1), ("invalid_span_id", 1), ("invalid_trace_id", 2)]
    );
    let message = decoded.rejections.message().unwrap();
    assert!(message.starts_with("4 spans were not taken"), "{message}");

    let bytes = response_protobuf(&decoded.rejections);
    let response = ExportTraceServiceResponse::decode(bytes.as_slice()).unwrap();
    assert_eq!(response.partial_success.unwrap().rejected_spans, 4);
    let json: serde_json::Value =
        serde_json::from_str(&response_json(&decoded.rejections)).unwrap();
    assert_eq!(json["partialSuccess"]["rejectedSpans"], "4");
}

#[test]
fn one_unreadable_span_does_not_lose_the_others() {
    let mut request = request_of(vec![small_span(1), small_span(2)]).encode_to_vec();
    // The name of the second span becomes invalid UTF-8.
    let named = request_of(vec![small_span(1), Span { name: "xy".into(), ..small_span(2) }]);
    let bytes = named.encode_to_vec();
    let at = bytes.windows(2).rposition(|pair| pair == b"xy").unwrap();
    request.clear();
    request.extend_from_slice(&bytes);
    request[at] = 0xff;
    let decoded = decode_protobuf(&request, &Limits::default()).unwrap();
    assert_eq!(decoded.batch.num_rows(), 1);
    assert_eq!(decoded.rejections.counts().collect::<Vec<_>>(), [("malformed_span", 1)]);
    assert!(decoded.rejections.message().unwrap().contains("scope_spans[0].spans[1]"));
}

/// A scope of one mebibyte.
fn long_scope() -> InstrumentationScope {
    let long = "n".repeat(1 << 18);
    let attributes = (0..4).map(|number| text(&number.to_string(), &long)).collect();
    InstrumentationScope { attributes, ..Default::default() }
}

#[test]
fn limits_hold() {
    let request = request_of((1..=50).map(small_span).collect()).encode_to_vec();
    let few = Limits { spans: 49, ..Limits::default() };
    let error = decode_protobuf(&request, &few).unwrap_err();
    assert!(matches!(error, OtlpError::TooLarge { what: "spans", limit: 49 }), "{error}");

    // Every span uses a scope with long texts.
    let mut request = request_of((1..=200).map(small_span).collect());
    request.resource_spans[0].scope_spans[0].scope = Some(long_scope());
    let limits = Limits { row_bytes: 64 << 20, ..Limits::default() };
    let error = decode_protobuf(&request.encode_to_vec(), &limits).unwrap_err();
    assert!(matches!(error, OtlpError::TooLarge { what: "bytes of rows", .. }), "{error}");

    let long = Span { name: "n".repeat(5000), ..small_span(1) };
    let limits = Limits { span_bytes: 4096, ..Limits::default() };
    let request = request_of(vec![long, small_span(2)]).encode_to_vec();
    let decoded = decode_protobuf(&request, &limits).unwrap();
    assert_eq!(decoded.batch.num_rows(), 1);
    assert_eq!(decoded.rejections.counts().collect::<Vec<_>>(), [("span_too_large", 1)]);
}

/// The result of each request, decoded together and alone.
fn said_of_each(bodies: &[Vec<u8>], limits: &Limits) -> Vec<Result<String, String>> {
    let mut said = Vec::new();
    for Together { requests, decoded } in decode_protobuf_together(bodies, limits) {
        let Ok((batch, parts)) = decoded else {
            assert_eq!(requests, 1);
            said.push(Err(decoded.unwrap_err().to_string()));
            continue;
        };
        assert_eq!(requests, parts.len());
        let rows = SpanBatch::try_from(batch).unwrap();
        let mut rows = rows.spans().map(Result::unwrap);
        for part in parts {
            let rows: Vec<_> = rows.by_ref().take(part.rows).collect();
            assert_eq!(rows.len(), part.rows);
            said.push(Ok(format!(
                "{rows:?} {:?} {}",
                part.rejections, part.left_out.invalid_links
            )));
        }
        assert_eq!(rows.next(), None);
    }
    said
}

fn said_of_one(body: &[u8], limits: &Limits) -> Result<String, String> {
    let decoded = decode_protobuf(body, limits).map_err(|error| error.to_string())?;
    let (rejections, links) = (decoded.rejections.clone(), decoded.left_out.invalid_links);
    Ok(format!("{:?} {rejections:?} {links}", rows(decoded)))
}

/// A length-delimited field whose tag takes one byte.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag];
    prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
    field.extend_from_slice(bytes);
    field
}

#[test]
fn a_resource_after_its_spans_still_counts() {
    let request = request_of(vec![small_span(1)]);
    let resource = request.resource_spans[0].resource.as_ref().unwrap().encode_to_vec();
    let scope = request.resource_spans[0].scope_spans[0].encode_to_vec();
    let backwards = [field(0x12, &scope), field(0x0a, &resource)].concat();
    let decoded = decode_protobuf(&field(0x0a, &backwards), &Limits::default()).unwrap();
    assert_eq!(rows(decoded)[0].service, "cart");
}

#[test]
fn a_scope_around_its_spans_is_that_of_all() {
    let scope = |name: &str, version: &str| {
        let (name, version) = (name.to_owned(), version.to_owned());
        InstrumentationScope { name, version, ..Default::default() }.encode_to_vec()
    };
    let span = |number| field(0x12, &small_span(number).encode_to_vec());
    let pieces = [
        field(0x0a, &scope("net/http", "")),
        span(1),
        span(2),
        field(0x0a, &scope("", "1.2")),
        span(3),
    ];
    let request = field(0x0a, &field(0x12, &pieces.concat()));
    let rows = rows(decode_protobuf(&request, &Limits::default()).unwrap());
    assert_eq!(rows.iter().map(|row| row.span_id.0[0]).collect::<Vec<_>>(), [1, 2, 3]);
    for row in rows {
        let expected = [("otel.scope.name", "net/http"), ("otel.scope.version", "1.2")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.into()));
        assert_eq!(row.attributes, expected);
    }
}

#[test]
fn requests_become_one_batch_until_it_is_large() {
    let body = request_of((1..=50).map(small_span).collect()).encode_to_vec();
    let together = |bodies: &[Vec<u8>]| -> Vec<usize> {
        let together = decode_protobuf_together(bodies, &Limits::default());
        together.iter().map(|together| together.requests).collect()
    };
    assert_eq!(together(&[]), [0; 0]);
    assert_eq!(together(&vec![body.clone(); 5]), [5]);
    // Every span uses a scope with long texts.
    let mut large = request_of((1..=50).map(small_span).collect());
    large.resource_spans[0].scope_spans[0].scope = Some(long_scope());
    assert_eq!(together(&[body.clone(), large.encode_to_vec(), body.clone(), body]), [2, 2]);
}

#[test]
fn an_empty_request_is_taken() {
    for decoded in [
        decode_protobuf(&[], &Limits::default()).unwrap(),
        decode_json(b"{}", &Limits::default()).unwrap(),
        decode_json(br#"{"resourceSpans":null}"#, &Limits::default()).unwrap(),
    ] {
        assert_eq!(decoded.batch.num_rows(), 0);
        assert_eq!(decoded.rejections.total(), 0);
    }
}

/// The example of the OTLP repository (`examples/trace.json`).
const EXAMPLE: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name",
"value":{"stringValue":"my.service"}}]},"scopeSpans":[{"scope":{"name":"my.library",
"version":"1.0.0","attributes":[{"key":"my.scope.attribute","value":{"stringValue":
"some scope attribute"}}]},"spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C",
"spanId":"EEE19B7EC3C1B174","parentSpanId":"EEE19B7EC3C1B173","name":"I'm a server span",
"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","kind":2,
"attributes":[{"key":"my.span.attr","value":{"stringValue":"some value"}}]}]}]}]}"#;

#[test]
fn the_example_of_the_specification_is_read() {
    let rows = rows(decode_json(EXAMPLE.as_bytes(), &Limits::default()).unwrap());
    insta::assert_debug_snapshot!(rows);
}

#[test]
fn json_is_read_tolerantly() {
    let json = r#"{"resource_spans":[null,{"resource":{"attributes":null,"later":1},
        "scope_spans":[{"spans":[{"trace_id":"5b8efff798038103d269b633813fc60c",
        "span_id":"eee19b7ec3c1b174","kind":"SPAN_KIND_CLIENT","status":{"code":
        "STATUS_CODE_ERROR","message":null},"start_time_unix_nano":1544712660000000000,
        "endTimeUnixNano":"1544712660000000007","unknown":[{"deep":{}}],
        "droppedEventsCount":"2","traceState":null,"links":[],"events":[{"timeUnixNano":5,
        "name":"e","attributes":[{"key":"k"}]}],"attributes":[
        {"key":"i","value":{"intValue":"-9223372036854775808"}},
        {"key":"j","value":{"int_value":3.0}},
        {"key":"d","value":{"doubleValue":"NaN"}},
        {"key":"e","value":{"doubleValue":1}},
        {"key":"b","value":{"bytesValue":"_-8"}},
        {"key":"a","value":{"arrayValue":{"values":[{"boolValue":true},{}]}}},
        {"key":"m","value":{"kvlistValue":{"values":[{"key":"x","value":{"intValue":1}}]}}},
        {"key":"n","value":null},{"key":"u","value":{"futureValue":{"x":1}}}]}]}]}]}"#;
    let rows = rows(decode_json(json.as_bytes(), &Limits::default()).unwrap());
    insta::assert_debug_snapshot!(rows);
}

#[test]
fn json_mistakes_are_named() {
    let at = |json: &str| decode_json(json.as_bytes(), &Limits::default()).unwrap_err().to_string();
    assert!(at("[1]").contains("the request"), "{}", at("[1]"));
    assert!(at("{\"resourceSpans\":[7]}").contains("resourceSpans[0]"));
    let wrong = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"-1"}]}]}]}"#;
    assert!(at(wrong).contains("-1 is out of range"), "{}", at(wrong));
    // An invalid id affects only its own span.
    let id = EXAMPLE.replace("EEE19B7EC3C1B174", "not-an-id");
    let decoded = decode_json(id.as_bytes(), &Limits::default()).unwrap();
    assert_eq!(decoded.rejections.counts().collect::<Vec<_>>(), [("invalid_span_id", 1)]);
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let deep = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"attributes":[{{"key":"k","value":{}"#,
        r#"{"arrayValue":{"values":["#.repeat(100_000)
    );
    assert!(decode_json(deep.as_bytes(), &Limits::default()).is_err());

    let mut value = AnyValue { value: Some(Value::IntValue(1)) };
    for _ in 0..400 {
        value = AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![value] })) };
    }
    let attribute = KeyValue { key: "deep".into(), value: Some(value), ..Default::default() };
    let span = Span { attributes: vec![attribute], ..small_span(1) };
    let bytes = request_of(vec![span]).encode_to_vec();
    assert!(matches!(
        decode_protobuf(&bytes, &Limits::default()),
        Err(OtlpError::Malformed { .. })
    ));
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = request_of(vec![full_span()]).encode_to_vec();
    for cut in 1..bytes.len() {
        let error = decode_protobuf(&bytes[..cut], &Limits::default()).unwrap_err();
        assert!(matches!(error, OtlpError::Malformed { .. }), "at {cut}: {error}");
    }
    for cut in 0..EXAMPLE.len() {
        assert!(decode_json(&EXAMPLE.as_bytes()[..cut], &Limits::default()).is_err(), "at {cut}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = decode_protobuf(&bytes, &Limits::default());
        let _ = decode_json(&bytes, &Limits::default());
    }

    #[test]
    fn requests_that_are_read_together_are_read_as_if_alone(
        picks in proptest::collection::vec((0..7, 1..6_u8), 0..12),
    ) {
        let limits = Limits { span_bytes: 4096, ..Limits::default() };
        let body = |(kind, number): (i32, u8)| {
            let whole = request_of((0..number).map(|n| small_span(10 * number + n)).collect());
            let scope = whole.resource_spans[0].scope_spans[0].scope.clone().unwrap();
            let scope = field(0x0a, &scope.encode_to_vec());
            let span = field(0x12, &small_span(number).encode_to_vec());
            let long = Span { name: "n".repeat(5000), ..small_span(1) };
            let wrong = Span { trace_id: vec![1; 3], ..full_span() };
            match kind {
                0 => whole.encode_to_vec(),
                // Truncated near the end.
                1 => { let bytes = whole.encode_to_vec(); bytes[..bytes.len() - 3].to_vec() }
                2 => field(0x0a, &field(0x12, &[span.clone(), scope, span].concat())),
                3 => request_of(vec![full_span(), wrong, long]).encode_to_vec(),
                4 => vec![number; number.into()],
                5 => field(0x0a, &field(0x12, &field(0x12, b"none of it"))),
                _ => Vec::new(),
            }
        };
        let bodies: Vec<Vec<u8>> = picks.into_iter().map(body).collect();
        let alone: Vec<_> = bodies.iter().map(|body| said_of_one(body, &limits)).collect();
        prop_assert_eq!(said_of_each(&bodies, &limits), alone);
    }

    #[test]
    fn damaged_requests_never_panic(at in 0_usize..4096, byte: u8) {
        let mut bytes = request_of(vec![full_span()]).encode_to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(decoded) = decode_protobuf(&bytes, &Limits::default()) {
            prop_assert!(decoded.batch.num_rows() as u64 + decoded.rejections.total() <= 2);
            rows(decoded);
        }
        let mut json = EXAMPLE.as_bytes().to_vec();
        let at = at % json.len();
        json[at] = byte;
        if let Ok(decoded) = decode_json(&json, &Limits::default()) {
            rows(decoded);
        }
    }
}
