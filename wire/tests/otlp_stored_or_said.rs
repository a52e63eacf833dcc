//! Success is never reported for spans that are not stored: spans in fields of older versions, in
//! unknown fields, under differently written names, and beyond the limits of one span.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, span};
use prost::Message;
use spanwise_model::{AttributeValue, SpanBatch, Status};
use spanwise_wire::otlp::{Decoded, Limits, OtlpError, decode_json, decode_protobuf};

type RowSpan = spanwise_model::Span;

fn rows(decoded: Decoded) -> Vec<RowSpan> {
    let batch = SpanBatch::try_from(decoded.batch).unwrap();
    batch.spans().map(Result::unwrap).collect()
}

fn small_span(number: u64) -> Span {
    Span {
        trace_id: vec![1; 16],
        span_id: number.to_be_bytes().to_vec(),
        name: number.to_string(),
        ..Default::default()
    }
}

/// A length-delimited field.
fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    prost::encoding::encode_varint(u64::from(number << 3 | 2), &mut out);
    prost::encoding::encode_varint(bytes.len() as u64, &mut out);
    out.extend_from_slice(bytes);
    out
}

fn scope_spans(spans: Vec<Span>) -> Vec<u8> {
    let scope =
        InstrumentationScope { name: "lib".into(), version: "1".into(), ..Default::default() };
    ScopeSpans { scope: Some(scope), spans, ..Default::default() }.encode_to_vec()
}

const SPAN: &str = r#"{"traceId":"01010101010101010101010101010101","spanId":"0000000000000001",
    "name":"1","kind":"SPAN_KIND_SERVER","startTimeUnixNano":"1","endTimeUnixNano":2}"#;

fn json(text: &str) -> Result<Decoded, OtlpError> {
    decode_json(text.replace("SPAN!", SPAN).as_bytes(), &Limits::default())
}

#[test]
fn spans_of_the_instrumentation_library_are_stored() {
    let resource_spans = field(1000, &scope_spans(vec![small_span(1), small_span(2)]));
    let decoded = decode_protobuf(&field(1, &resource_spans), &Limits::default()).unwrap();
    assert_eq!(decoded.rejections.total(), 0);
    let scope =
        [("otel.scope.name".to_owned(), "lib".into()), ("otel.scope.version".into(), "1".into())];
    let found = rows(decoded);
    assert_eq!((found.len(), found[0].attributes.as_slice()), (2, scope.as_slice()));

    let decoded = json(
        r#"{"resourceSpans":[{"instrumentationLibrarySpans":[
            {"instrumentationLibrary":{"name":"lib","version":"1"},"spans":[SPAN!]}]}]}"#,
    );
    assert_eq!(rows(decoded.unwrap())[0].attributes, scope);
}

#[test]
fn spans_that_are_sent_under_both_names_are_stored_once() {
    let new = field(2, &scope_spans(vec![small_span(1), small_span(2)]));
    let old = field(1000, &scope_spans(vec![small_span(2), small_span(3)]));
    for resource_spans in [[new.clone(), old.clone()].concat(), [old, new].concat()] {
        let decoded = decode_protobuf(&field(1, &resource_spans), &Limits::default()).unwrap();
        let mut names: Vec<_> = rows(decoded).into_iter().map(|row| row.operation).collect();
        names.sort();
        assert_eq!(names, ["1", "2", "3"]);
    }
    let other = SPAN.replace("0000000000000001", "0000000000000002");
    let both = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[SPAN!]}}],
            "instrumentationLibrarySpans":[{{"spans":[SPAN!,{other}]}}]}}]}}"#
    );
    assert_eq!(rows(json(&both).unwrap()).len(), 2);
}

#[test]
fn the_status_of_before_is_read_where_there_is_no_newer_one() {
    for (status, expected) in [
        (&[0x08, 2][..], Status::Error),
        (&[0x08, 0], Status::Unset),
        (&[0x08, 2, 0x18, 1], Status::Ok),
    ] {
        let span = [small_span(1).encode_to_vec(), field(15, status)].concat();
        let request = field(1, &field(2, &field(2, &span)));
        let decoded = decode_protobuf(&request, &Limits::default()).unwrap();
        assert_eq!(rows(decoded)[0].status, expected, "{status:?}");
    }
    for (status, expected) in [
        (r#"{"deprecatedCode":"DEPRECATED_STATUS_CODE_ABORTED"}"#, Status::Error),
        (r#"{"deprecatedCode":2}"#, Status::Error),
        (r#"{"deprecatedCode":"DEPRECATED_STATUS_CODE_OK"}"#, Status::Unset),
        (r#"{"deprecatedCode":2,"code":1}"#, Status::Ok),
    ] {
        let span = SPAN.replacen('{', &format!("{{\"status\":{status},"), 1);
        let text = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}"#);
        assert_eq!(rows(json(&text).unwrap())[0].status, expected, "{status}");
    }
}

#[test]
fn spans_in_fields_that_are_not_known_are_rejected_with_a_count_and_a_place() {
    let scope = scope_spans(vec![small_span(8), small_span(9)]);
    let good = field(2, &scope_spans(vec![small_span(1)]));
    let span = small_span(8).encode_to_vec();
    for (request, count, place) in [
        ([field(1, &good), field(7, &field(2, &scope))].concat(), 2, "field 7 of the request"),
        (
            field(1, &[good.clone(), field(999, &scope)].concat()),
            2,
            "field 999 of resource_spans[0]",
        ),
        (
            field(1, &field(2, &[scope_spans(vec![small_span(1)]), field(6, &span)].concat())),
            1,
            "field 6 of resource_spans[0].scope_spans[0]",
        ),
    ] {
        let decoded = decode_protobuf(&request, &Limits::default()).unwrap();
        assert_eq!(decoded.rejections.counts().collect::<Vec<_>>(), [("unknown_field", count)]);
        let message = decoded.rejections.message().unwrap();
        assert!(message.contains(place), "{message}");
        assert_eq!(rows(decoded).len(), 1);
    }
    // If there is nothing else, the request fails.
    let error = decode_protobuf(&field(1, &field(999, &scope)), &Limits::default()).unwrap_err();
    assert!(error.to_string().contains("field 999"), "{error}");
    // Unknown fields without spans come from a newer version.
    let newer = field(1, &[good, field(999, b"text"), field(998, &field(1, b"x"))].concat());
    assert_eq!(decode_protobuf(&newer, &Limits::default()).unwrap().rejections.total(), 0);

    for (text, count, place) in [
        (
            r#"{"resourceSpans":[{"scopeSpans":[{"spans":[SPAN!]}],"spans":[SPAN!,SPAN!]}]}"#,
            2,
            "resourceSpans[0].spans",
        ),
        (
            r#"{"resourceSpans":[{"scopeSpans":[{"spans":[SPAN!],"moreSpans":{"a":[SPAN!]}}]}]}"#,
            1,
            "moreSpans",
        ),
        (
            r#"{"resourceSpans":[{"scopeSpans":[{"spans":[SPAN!]}]}],"batches":[SPAN!]}"#,
            1,
            "`batches`",
        ),
    ] {
        let decoded = json(text).unwrap();
        assert_eq!(decoded.rejections.total(), count, "{text}");
        let message = decoded.rejections.message().unwrap();
        assert!(message.contains(place), "{message}");
        assert_eq!(rows(decoded).len(), 1);
    }
}

#[test]
fn names_of_lists_are_read_however_they_are_written() {
    for text in [
        r#"{"resource_spans":[{"scope_spans":[{"spans":[SPAN!]}]}]}"#,
        r#"{"ResourceSpans":[{"ScopeSpans":[{"Spans":[SPAN!]}]}]}"#,
        r#"{"resourcespans":[{"scopespans":[{"spans":[SPAN!]}]}],"schemaUrl":"x"}"#,
        "\u{feff}{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[SPAN!]}]}]}",
        r#"{"resourceSpans":[{"instrumentation_library_spans":[{"spans":[SPAN!]}]}]}"#,
    ] {
        let found = rows(json(text).unwrap());
        assert_eq!((found.len(), found[0].kind), (1, spanwise_model::Kind::Server), "{text}");
    }
}

#[test]
fn what_is_no_request_is_refused_with_a_sentence() {
    for (text, word) in [
        (r#"{"resourceLogs":[{"scopeLogs":[]}]}"#, "resourceLogs"),
        (r#"{"resourceMetrics":[{}]}"#, "only traces"),
        (r#"{"data":[{"traceID":"1"}]}"#, "resourceSpans"),
        (r#"[{"traceId":"1","id":"1"}]"#, "a list of spans is Zipkin's"),
        ("", "EOF"),
        ("null", "it is `null`, not an object"),
        ("\u{feff} null\n", "it is `null`, not an object"),
        ("1", "expected an object"),
        ("\"resourceSpans\"", "expected an object"),
        ("{\"resourceSpans\":[]}\n{\"resourceSpans\":[]}", "spanwise import"),
        (r#"{"resourceSpans":{"scopeSpans":[]}}"#, "sequence"),
        ("\u{1f}\u{8b}", "JSON"),
        ("\n\u{5d}\n\u{17}", "protobuf"),
    ] {
        let error = json(text).unwrap_err().to_string();
        let word = if text.starts_with('\u{1f}') { "expected" } else { word };
        assert!(error.contains(word), "{text:?}: {error}");
    }
    let protobuf: [(&[u8], &str); 5] = [
        (b"{\"resourceSpans\":[]}", "application/json"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "Content-Encoding: gzip"),
        (b"\x28\xb5\x2f\xfd\x04\x58\x09\x00\x00", "Content-Encoding: zstd"),
        (b"\x10\x01", "no resource_spans"),
        (b"\x00\x00\x00\x00\x02\x0a\x00", "gRPC"),
    ];
    for (body, word) in protobuf {
        let error = decode_protobuf(body, &Limits::default()).unwrap_err().to_string();
        assert!(error.contains(word), "{body:?}: {error}");
    }
}

#[test]
fn ids_in_base64_are_refused_with_a_sentence_that_says_hexadecimal() {
    let span = SPAN.replace("01010101010101010101010101010101", "AQEBAQEBAQEBAQEBAQEBAQ==");
    let text = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span},SPAN!]}}]}}]}}"#);
    let decoded = json(&text).unwrap();
    let message = decoded.rejections.message().unwrap();
    assert!(message.starts_with("1 span was not taken: 1 with an invalid trace id"), "{message}");
    assert!(message.contains("32 hexadecimal digits, not base64"), "{message}");
}

fn text(key: String, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.into())) });
    KeyValue { key, value, ..Default::default() }
}

fn request_of(spans: Vec<Span>, service: &str) -> ExportTraceServiceRequest {
    let attributes = vec![text("service.name".into(), service)];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes, ..Default::default() }),
            scope_spans: vec![ScopeSpans { spans, ..Default::default() }],
            ..Default::default()
        }],
    }
}

#[test]
fn of_a_span_the_first_attributes_events_and_links_are_kept_and_the_others_counted() {
    let limits = Limits { span_attributes: 3, span_events: 2, span_links: 1, ..Limits::default() };
    let attributes: Vec<_> = (0..9).map(|n| text(format!("key.{n}"), "value")).collect();
    let event = span::Event { name: "e".into(), ..Default::default() };
    let link = span::Link { trace_id: vec![2; 16], span_id: vec![2; 8], ..Default::default() };
    let full = |number| Span {
        attributes: attributes.clone(),
        dropped_attributes_count: 10,
        events: vec![event.clone(); 5],
        links: vec![link.clone(); 4],
        ..small_span(number)
    };
    // Spans that resemble earlier ones take another path.
    let plain = |number| Span { attributes: attributes.clone(), ..small_span(number) };
    let spans: Vec<Span> = (1..=20).map(full).chain((21..=40).map(plain)).collect();
    let request = request_of(spans, "shop");
    let json = serde_json::to_vec(&request).unwrap();
    for decoded in [
        decode_protobuf(&request.encode_to_vec(), &limits).unwrap(),
        decode_json(&json, &limits).unwrap(),
    ] {
        let left_out = decoded.left_out;
        assert_eq!(
            (left_out.attributes, left_out.events, left_out.links),
            (40 * 6, 20 * 3, 20 * 3)
        );
        for (number, row) in (1..).zip(rows(decoded)) {
            let count = |key: &str| row.attribute(key).cloned();
            let (dropped, events) = if number <= 20 { (16, 2) } else { (6, 0) };
            assert_eq!(count("key.2"), Some("value".into()));
            assert_eq!(count("key.3"), None);
            assert_eq!(count("otel.dropped_attributes_count"), Some(AttributeValue::Int(dropped)));
            assert_eq!(row.events.len(), events);
            let dropped = (number <= 20).then_some(AttributeValue::Int(3));
            assert_eq!(count("otel.dropped_events_count"), dropped);
            assert_eq!(count("otel.dropped_links_count"), dropped);
        }
    }
}

#[test]
fn long_texts_are_cut_marked_and_counted_and_others_are_not() {
    let long = "ä".repeat(200_000);
    let attributes = vec![text("long".into(), &long), text("k".repeat(2000), "v")];
    let span = Span { name: long.clone(), attributes, ..small_span(1) };
    let request = request_of(vec![span.clone(), span, small_span(2)], &long);
    let decoded = decode_protobuf(&request.encode_to_vec(), &Limits::default()).unwrap();
    assert_eq!(decoded.left_out.texts, 1 + 1 + 2 * 3, "service, in its column and its resource");
    let found = rows(decoded);
    assert!(found[0].operation.len() <= 1024 && found[0].operation.ends_with('…'));
    assert!(found[0].service.len() <= 1024 && found[0].service.ends_with('…'));
    let value = found[0].attribute("long").and_then(|value| value.as_str()).unwrap();
    assert!(value.len() <= 256 << 10 && value.ends_with("ä…"));
    assert!(found[0].attributes.iter().all(|(key, _)| key.len() <= 1024));
    assert_eq!(found[2].operation, "2");
}

#[test]
fn spans_with_long_names_are_cut_also_where_others_like_them_are_known() {
    let attributes = vec![text("shared".into(), "value")];
    let named = |number: u64, name: &str| Span {
        name: name.to_owned(),
        attributes: attributes.clone(),
        ..small_span(number)
    };
    let long = "n".repeat(5000);
    let spans = (1..=50).map(|number| named(number, if number % 2 == 0 { &long } else { "short" }));
    let request = request_of(spans.collect(), "shop");
    let decoded = decode_protobuf(&request.encode_to_vec(), &Limits::default()).unwrap();
    assert_eq!(decoded.left_out.texts, 25);
    assert!(rows(decoded).iter().all(|row| row.operation.len() <= 1024));
}
