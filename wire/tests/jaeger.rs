//! Jaeger's formats to rows: every kind of field, each encoding, invalid input.

mod support;

use proptest::prelude::*;
use prost::Message;
use spanwise_wire::DecodeError;
use spanwise_wire::jaeger::{
    Datagrams, Protocol, decode_protobuf, decode_protobuf_span, decode_thrift,
};
use spanwise_wire::otlp::{Decoded, Limits};
use support::rows;
use support::thrift::{Value, call, tag, text};

const START_MICROS: i64 = 1_700_000_000_000_000;
const ARRIVED: i64 = 1_700_000_001_000_000_000;

fn no_rejections(decoded: Decoded) -> Vec<spanwise_model::Span> {
    assert_eq!(decoded.rejections.total(), 0, "{:?}", decoded.rejections.message());
    rows(decoded)
}

/// A server's span with every kind of field and value.
fn full_span() -> Value {
    let reference = |kind, trace, span| {
        let ids = [(2, trace), (3, 0), (4, span)].map(|(field, id)| (field, Value::I64(id)));
        Value::Struct([vec![(1, Value::I32(kind))], ids.to_vec()].concat())
    };
    let log =
        |fields| Value::Struct(vec![(1, Value::I64(START_MICROS + 5)), (2, Value::List(fields))]);
    Value::Struct(vec![
        (1, Value::I64(-2)),
        (2, Value::I64(7)),
        (3, Value::I64(11)),
        (4, Value::I64(10)),
        (5, text("POST /cart")),
        (6, Value::List(vec![reference(0, -2, 10), reference(1, 99, 98), reference(0, 0, 0)])),
        (7, Value::I32(3)),
        (8, Value::I64(START_MICROS)),
        (9, Value::I64(1500)),
        (
            10,
            Value::List(vec![
                tag("span.kind", 0, 3, text("server")),
                tag("http.method", 0, 3, text("POST")),
                tag("http.status_code", 3, 6, Value::I64(503)),
                tag("error", 2, 5, Value::Bool(true)),
                tag("peer.ipv4", 3, 6, Value::I64(0x0a00_0007)),
                tag("peer.port", 3, 6, Value::I64(40_412)),
                tag("ratio", 1, 4, Value::Double(0.25)),
                tag("cached", 2, 5, Value::Bool(false)),
                tag("blob", 4, 7, Value::Bytes(vec![0, 255])),
                tag("w3c.tracestate", 0, 3, text("vendor=1")),
            ]),
        ),
        (
            11,
            Value::List(vec![
                log(vec![
                    tag("event", 0, 3, text("error")),
                    tag("error.kind", 0, 3, text("IOError")),
                ]),
                log(vec![tag("message", 0, 3, text("gave up"))]),
            ]),
        ),
        (12, Value::List(vec![text("of a later version")])),
    ])
}

fn small_span(id: i64) -> Value {
    Value::Struct(vec![
        (1, Value::I64(1)),
        (3, Value::I64(id)),
        (5, text("small")),
        (8, Value::I64(START_MICROS)),
        (9, Value::I64(10)),
    ])
}

fn process() -> Value {
    let tags = vec![
        tag("hostname", 0, 3, text("h1")),
        tag("client-uuid", 0, 3, text("cart-7")),
        tag("pid", 3, 6, Value::I64(4242)),
        tag("jaeger.version", 0, 3, text("Go-2.30.0")),
    ];
    Value::Struct(vec![(1, text("cart")), (2, Value::List(tags))])
}

fn batch(spans: Vec<Value>) -> Value {
    let seen = Value::I64(3);
    Value::Struct(vec![(1, process()), (2, Value::List(spans)), (3, seen)])
}

fn datagram(protocol: Protocol, bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let mut datagrams = Datagrams::new(&Limits::default(), ARRIVED);
    datagrams.add(protocol, bytes)?;
    datagrams.finish()
}

#[test]
fn every_field_of_thrift_has_its_place() {
    let bytes = batch(vec![full_span(), small_span(12)]).binary();
    let decoded = decode_thrift(&bytes, &Limits::default()).unwrap();
    assert_eq!(decoded.left_out.invalid_links, 1);
    insta::assert_debug_snapshot!(no_rejections(decoded));
}

#[test]
fn both_protocols_say_the_same() {
    let batch = batch(vec![full_span(), small_span(12)]);
    let expected = no_rejections(decode_thrift(&batch.binary(), &Limits::default()).unwrap());
    let (binary, compact) = call("emitBatch", &batch);
    assert_eq!(no_rejections(datagram(Protocol::Binary, &binary).unwrap()), expected);
    assert_eq!(no_rejections(datagram(Protocol::Compact, &compact).unwrap()), expected);
}

#[test]
fn datagrams_are_taken_one_by_one() {
    let (_, good) = call("emitBatch", &batch(vec![small_span(1)]));
    let (_, other) = call("emitOther", &batch(vec![small_span(2)]));
    let mut datagrams = Datagrams::new(&Limits::default(), ARRIVED);
    assert!(datagrams.add(Protocol::Compact, &good).is_ok());
    let error = datagrams.add(Protocol::Compact, &other).unwrap_err().to_string();
    assert!(error.contains("calls `emitOther`"), "{error}");
    for cut in 0..good.len() {
        let error = datagrams.add(Protocol::Compact, &good[..cut]).unwrap_err();
        assert!(matches!(error, DecodeError::Malformed { .. }), "at {cut}: {error}");
    }
    assert!(datagrams.add(Protocol::Compact, &good).is_ok());
    assert_eq!(no_rejections(datagrams.finish().unwrap()).len(), 2);
}

#[test]
fn an_old_clients_zipkin_batch_is_taken_too() {
    let endpoint = Value::Struct(vec![(1, Value::I32(0x0a00_0001)), (3, text("old"))]);
    let annotation =
        Value::Struct(vec![(1, Value::I64(START_MICROS)), (2, text("sr")), (3, endpoint)]);
    let span = Value::Struct(vec![
        (1, Value::I64(1)),
        (3, text("get")),
        (4, Value::I64(2)),
        (6, Value::List(vec![annotation])),
        (10, Value::I64(START_MICROS)),
        (11, Value::I64(10)),
    ]);
    let (binary, compact) = call("emitZipkinBatch", &Value::List(vec![span]));
    let one = no_rejections(datagram(Protocol::Binary, &binary).unwrap());
    let two = no_rejections(datagram(Protocol::Compact, &compact).unwrap());
    assert_eq!((one[0].service.as_str(), one[0].operation.as_str()), ("old", "get"));
    assert_eq!(one, two);
}

#[test]
fn a_process_after_its_spans_still_counts() {
    let Value::Struct(mut fields) = batch(vec![small_span(1)]) else { unreachable!() };
    fields.reverse();
    let decoded = decode_thrift(&Value::Struct(fields).binary(), &Limits::default()).unwrap();
    assert_eq!(no_rejections(decoded)[0].service, "cart");
}

#[test]
fn wrong_ids_are_rejected_one_by_one_and_counted() {
    let bytes = batch(vec![small_span(0), small_span(1), Value::Struct(vec![])]).binary();
    let decoded = decode_thrift(&bytes, &Limits::default()).unwrap();
    assert_eq!(decoded.batch.num_rows(), 1);
    let counts: Vec<_> = decoded.rejections.counts().collect();
    assert_eq!(counts, [("invalid_span_id", 1), ("invalid_trace_id", 1)]);
}

#[test]
fn limits_hold() {
    let bytes = batch((1..=50).map(small_span).collect()).binary();
    let few = Limits { spans: 49, ..Limits::default() };
    let error = decode_thrift(&bytes, &few).unwrap_err();
    assert!(matches!(error, DecodeError::TooLarge { what: "spans", limit: 49 }), "{error}");
    let few = Limits { row_bytes: 4000, ..Limits::default() };
    let error = decode_thrift(&bytes, &few).unwrap_err();
    assert!(matches!(error, DecodeError::TooLarge { what: "bytes of rows", .. }), "{error}");
    let small = Limits { span_bytes: 100, ..Limits::default() };
    let bytes = batch(vec![full_span(), small_span(1)]).binary();
    let decoded = decode_thrift(&bytes, &small).unwrap();
    assert_eq!(decoded.rejections.counts().collect::<Vec<_>>(), [("span_too_large", 1)]);
    assert_eq!(decoded.batch.num_rows(), 1);
}

#[test]
fn what_is_no_batch_is_refused() {
    for wrong in [&b"GET / HTTP/1.1"[..], b"{}", &[15, 0, 2, 8, 0, 0, 0, 1, 0, 0, 0, 0, 0]] {
        let error = decode_thrift(wrong, &Limits::default()).unwrap_err();
        assert!(matches!(error, DecodeError::Malformed { .. }), "{error}");
    }
    let bytes = batch(vec![full_span()]).binary();
    for cut in 0..bytes.len() {
        let error = decode_thrift(&bytes[..cut], &Limits::default()).unwrap_err();
        assert!(matches!(error, DecodeError::Malformed { .. }), "at {cut}: {error}");
    }
}

/// `PostSpansRequest` as a sender would encode it.
mod proto {
    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Request {
        #[prost(message, optional, tag = "1")]
        pub(super) batch: Option<Batch>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Batch {
        #[prost(message, repeated, tag = "1")]
        pub(super) spans: Vec<Span>,
        #[prost(message, optional, tag = "2")]
        pub(super) process: Option<Process>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Span {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) span_id: Vec<u8>,
        #[prost(string, tag = "3")]
        pub(super) operation_name: String,
        #[prost(message, repeated, tag = "4")]
        pub(super) references: Vec<Reference>,
        #[prost(message, optional, tag = "6")]
        pub(super) start_time: Option<Time>,
        #[prost(message, optional, tag = "7")]
        pub(super) duration: Option<Time>,
        #[prost(message, repeated, tag = "8")]
        pub(super) tags: Vec<KeyValue>,
        #[prost(message, repeated, tag = "9")]
        pub(super) logs: Vec<Log>,
        #[prost(message, optional, tag = "10")]
        pub(super) process: Option<Process>,
        #[prost(string, repeated, tag = "12")]
        pub(super) warnings: Vec<String>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Reference {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) span_id: Vec<u8>,
        #[prost(int32, tag = "3")]
        pub(super) kind: i32,
    }

    #[derive(Clone, Copy, PartialEq, Eq, Message)]
    pub(super) struct Time {
        #[prost(int64, tag = "1")]
        pub(super) seconds: i64,
        #[prost(int32, tag = "2")]
        pub(super) nanos: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct KeyValue {
        #[prost(string, tag = "1")]
        pub(super) key: String,
        #[prost(int32, tag = "2")]
        pub(super) kind: i32,
        #[prost(string, tag = "3")]
        pub(super) text: String,
        #[prost(bool, tag = "4")]
        pub(super) flag: bool,
        #[prost(int64, tag = "5")]
        pub(super) int: i64,
        #[prost(double, tag = "6")]
        pub(super) double: f64,
        #[prost(bytes = "vec", tag = "7")]
        pub(super) bytes: Vec<u8>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Log {
        #[prost(message, optional, tag = "1")]
        pub(super) timestamp: Option<Time>,
        #[prost(message, repeated, tag = "2")]
        pub(super) fields: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Process {
        #[prost(string, tag = "1")]
        pub(super) service_name: String,
        #[prost(message, repeated, tag = "2")]
        pub(super) tags: Vec<KeyValue>,
    }

    pub(super) fn text(key: &str, text: &str) -> KeyValue {
        KeyValue { key: key.into(), text: text.into(), ..Default::default() }
    }
}

fn proto_span() -> proto::Span {
    use proto::text;
    proto::Span {
        trace_id: [vec![0; 8], vec![1; 8]].concat(),
        span_id: vec![2; 8],
        operation_name: "SELECT".into(),
        references: vec![proto::Reference {
            trace_id: [vec![0; 8], vec![1; 8]].concat(),
            span_id: vec![3; 8],
            kind: 0,
        }],
        start_time: Some(proto::Time { seconds: 1_700_000_000, nanos: 123_456_789 }),
        duration: Some(proto::Time { seconds: 1, nanos: 5 }),
        tags: vec![
            text("span.kind", "client"),
            text("db.type", "postgresql"),
            text("peer.address", "10.0.0.9:5432"),
            text("otel.status_code", "ERROR"),
            text("otel.status_description", "no such table"),
            text("otel.scope.name", "pgx"),
            proto::KeyValue { key: "error".into(), kind: 1, flag: true, ..Default::default() },
            proto::KeyValue { key: "rows".into(), kind: 2, int: -1, ..Default::default() },
            proto::KeyValue { key: "cost".into(), kind: 3, double: 0.5, ..Default::default() },
            proto::KeyValue { key: "plan".into(), kind: 4, bytes: vec![1], ..Default::default() },
        ],
        logs: vec![proto::Log {
            timestamp: Some(proto::Time { seconds: 1_700_000_000, nanos: 1 }),
            fields: vec![text("event", "exception"), text("exception.type", "SqlError")],
        }],
        process: None,
        warnings: vec!["clock skew".into()],
    }
}

fn request(spans: Vec<proto::Span>) -> Vec<u8> {
    let process =
        proto::Process { service_name: "cart".into(), tags: vec![proto::text("hostname", "h1")] };
    let batch = Some(proto::Batch { spans, process: Some(process) });
    proto::Request { batch }.encode_to_vec()
}

#[test]
fn every_field_of_protobuf_has_its_place() {
    let decoded = decode_protobuf(&request(vec![proto_span()]), &Limits::default()).unwrap();
    insta::assert_debug_snapshot!(no_rejections(decoded));
}

#[test]
fn a_spans_own_process_goes_before_the_batchs() {
    let other = |name: &str| {
        let process = proto::Process { service_name: name.into(), tags: vec![] };
        proto::Span { process: Some(process), ..proto_span() }
    };
    let spans = vec![other("one"), other("one"), proto_span(), other("two")];
    let rows = no_rejections(decode_protobuf(&request(spans), &Limits::default()).unwrap());
    let services: Vec<_> = rows.iter().map(|row| row.service.as_str()).collect();
    assert_eq!(services, ["one", "one", "cart", "two"]);
}

#[test]
fn a_span_that_is_written_to_a_storage_is_read_as_one_of_a_batch() {
    let process = proto::Process { service_name: "one".into(), tags: vec![] };
    let span = proto::Span { process: Some(process), ..proto_span() };
    // `WriteSpanRequest.span`
    let written = proto::Batch { spans: vec![span.clone()], process: None }.encode_to_vec();
    let limits = Limits::default();
    let rows = no_rejections(decode_protobuf_span(&written, &limits).unwrap());
    assert_eq!(rows, no_rejections(decode_protobuf(&request(vec![span]), &limits).unwrap()));
    assert_eq!(rows[0].service, "one");
    assert!(decode_protobuf_span(b"\xff", &limits).is_err());
}

#[test]
fn one_unreadable_span_does_not_lose_the_others() {
    let named = proto::Span { operation_name: "xy".into(), ..proto_span() };
    let mut bytes = request(vec![proto_span(), named]);
    let at = bytes.windows(2).rposition(|pair| pair == b"xy").unwrap();
    bytes[at] = 0xff;
    let decoded = decode_protobuf(&bytes, &Limits::default()).unwrap();
    assert_eq!(decoded.batch.num_rows(), 1);
    assert_eq!(decoded.rejections.counts().collect::<Vec<_>>(), [("malformed_span", 1)]);
    let only = proto::Span { operation_name: "xy".into(), ..proto_span() };
    let mut bytes = request(vec![only]);
    let at = bytes.windows(2).rposition(|pair| pair == b"xy").unwrap();
    bytes[at] = 0xff;
    let error = decode_protobuf(&bytes, &Limits::default()).unwrap_err().to_string();
    assert!(error.contains("no Jaeger PostSpansRequest"), "{error}");
}

#[test]
fn an_empty_request_is_taken() {
    assert_eq!(decode_protobuf(&[], &Limits::default()).unwrap().batch.num_rows(), 0);
    let nothing = batch(vec![]).binary();
    assert_eq!(decode_thrift(&nothing, &Limits::default()).unwrap().batch.num_rows(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = decode_protobuf(&bytes, &Limits::default());
        let _ = decode_thrift(&bytes, &Limits::default());
        let _ = datagram(Protocol::Binary, &bytes);
        let _ = datagram(Protocol::Compact, &bytes);
    }

    #[test]
    fn damaged_requests_never_panic(at in 0_usize..4096, byte: u8) {
        let damaged = |mut bytes: Vec<u8>| {
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes
        };
        let whole = batch(vec![full_span()]);
        let (binary, compact) = call("emitBatch", &whole);
        for decoded in [
            decode_thrift(&damaged(whole.binary()), &Limits::default()),
            decode_protobuf(&damaged(request(vec![proto_span()])), &Limits::default()),
            datagram(Protocol::Binary, &damaged(binary)),
            datagram(Protocol::Compact, &damaged(compact)),
        ].into_iter().flatten() {
            rows(decoded);
        }
    }
}
