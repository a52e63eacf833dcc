//! Recognised spans give the same rows as decoded ones.

use std::ops::Range;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use proptest::prelude::*;
use prost::Message;
use spanwise_model::{SpanBatch, SpanBatchBuilder};

use super::super::Limits;
use super::super::builders::Builder;
use super::super::protobuf::decode_with;

/// Keys with shared values, keys without, and keys of both kinds that describe the exchange.
const KEYS: [&str; 12] = [
    "http.request.method",
    "http.response.status_code",
    "server.address",
    "client.address",
    "network.peer.address",
    "network.peer.port",
    "db.system.name",
    "error.type",
    "http.request.header.x-request-id",
    "user.id",
    "app.flag",
    "é",
];

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => "[ab]".prop_map(Value::StringValue),
        2 => (200i64..204).prop_map(Value::IntValue),
        1 => any::<i64>().prop_map(Value::IntValue),
        1 => any::<bool>().prop_map(Value::BoolValue),
        1 => (0..4).prop_map(|n| Value::DoubleValue(f64::from(n) / 2.0)),
        1 => Just(Value::BytesValue(vec![1, 2])),
        1 => "10\\\\.0\\\\.0\\\\.[1-9]|::1|\\\\PC{0,9}".prop_map(Value::StringValue),
        1 => (120usize..300).prop_map(|length| Value::StringValue("v".repeat(length))),
    ]
}

prop_compose! {
    fn pair()(key in 0..KEYS.len(), value in proptest::option::weighted(0.97, value())) -> KeyValue {
        let value = Some(AnyValue { value });
        KeyValue { key: KEYS[key].to_owned(), value, ..KeyValue::default() }
    }
}

prop_compose! {
    fn span()(
        attributes in proptest::collection::vec(pair(), 0..6),
        name in "[ab]|\\\\PC{0,3}",
        kind in 0..7,
        code in 0..4,
        rare in 0..12,
    ) -> Span {
        let message = if rare == 0 { "broken".to_owned() } else { String::new() };
        let event = Event { name: "exception".to_owned(), ..Event::default() };
        let link = Link { trace_id: vec![3; 16], span_id: vec![3; 8], ..Link::default() };
        Span {
            trace_id: vec![1; if rare == 1 { 15 } else { 16 }],
            span_id: vec![2; 8],
            parent_span_id: if rare == 2 { Vec::new() } else { vec![4; 8] },
            trace_state: if rare == 3 { "a=b".to_owned() } else { String::new() },
            flags: if rare == 4 { 0x101 } else { 0 },
            name,
            kind,
            start_time_unix_nano: 5,
            end_time_unix_nano: 9,
            status: (code > 0).then_some(Status { code: code - 1, message }),
            events: if rare == 5 { vec![event] } else { Vec::new() },
            links: if rare == 6 { vec![link] } else { Vec::new() },
            dropped_attributes_count: u32::from(rare == 7),
            attributes,
            ..Span::default()
        }
    }
}

fn request(spans: Vec<Span>) -> Vec<u8> {
    // In two scopes.
    let at = spans.len() / 2;
    let scopes = [("one", &spans[..at]), ("two", &spans[at..])].map(|(name, spans)| {
        let scope = InstrumentationScope { name: name.to_owned(), ..Default::default() };
        ScopeSpans { scope: Some(scope), spans: spans.to_vec(), ..ScopeSpans::default() }
    });
    let resource = Some(Resource::default());
    let part = ResourceSpans { resource, scope_spans: scopes.to_vec(), ..Default::default() };
    ExportTraceServiceRequest { resource_spans: vec![part] }.encode_to_vec()
}

/// The content of the request, or the error.
fn read(body: &[u8], builder: &mut Builder) -> Result<String, String> {
    let decoded = decode_with(builder, body, &Limits::default());
    let decoded = decoded.map_err(|error| {
        // Leaves rows behind, as an abandoned request does.
        builder.rows.finish().unwrap();
        error.to_string()
    })?;
    let batch = SpanBatch::try_from(decoded.batch).unwrap();
    let spans: Vec<_> = batch.spans().map(Result::unwrap).collect();
    Ok(format!("{spans:#?} {:?} {}", decoded.rejections, decoded.left_out.invalid_links))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_recognised_is_read_as_if_it_had_been_decoded(
        pool in proptest::collection::vec(span(), 1..40),
        others in proptest::collection::vec(span(), 1..4),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 1..30),
        mutations in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut builder = Builder::new(SpanBatchBuilder::sharing());
        let many: Vec<Span> = pool.iter().cycle().take(3 * 4096).cloned().collect();
        for spans in many.chunks(1000) {
            read(&request(spans.to_vec()), &mut builder).ok();
        }
        let picked = picks.iter().map(|pick| pick.get(&pool).clone());
        let body = request(picked.chain(others).collect());
        let mut plain = Builder::new(SpanBatchBuilder::new());
        prop_assert_eq!(read(&body, &mut builder), read(&body, &mut plain));
        for (at, byte) in mutations {
            let mut wrong = body.clone();
            wrong[at.index(body.len())] = byte;
            prop_assert_eq!(read(&wrong, &mut builder), read(&wrong, &mut plain));
        }
    }
}

fn spans(numbers: Range<u64>) -> Vec<Span> {
    let text = |text: String| Some(AnyValue { value: Some(Value::StringValue(text)) });
    let span = |n: u64| Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        name: format!("GET /{n}"),
        attributes: [("app.order.id", format!("o{n}")), ("app.region", format!("r{}", n % 7))]
            .map(|(key, value)| KeyValue {
                key: key.to_owned(),
                value: text(value),
                ..KeyValue::default()
            })
            .to_vec(),
        ..Span::default()
    };
    numbers.map(span).collect()
}

#[test]
fn spans_like_others_are_recognised() {
    let mut builder = Builder::new(SpanBatchBuilder::sharing());
    for start in (0..20).map(|batch| batch * 1000) {
        read(&request(spans(start..start + 1000)), &mut builder).unwrap();
    }
    // Seven regions in two scopes, whatever their names and orders.
    assert_eq!((builder.repeats.known.len(), builder.repeats.misses), (14, 0));
}
