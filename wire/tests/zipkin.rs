//! Zipkin's formats to rows: every kind of field, each encoding, invalid input.

mod support;

use proptest::prelude::*;
use prost::Message;
use spanwise_model::{Kind, Span, SpanId};
use spanwise_wire::DecodeError;
use spanwise_wire::otlp::{Decoded, Limits};
use spanwise_wire::zipkin::{self, Format};
use support::rows;
use support::thrift::{Value, text};

const ARRIVED: i64 = 1_600_000_000_000_000_000;

fn decode(format: Format, body: &[u8]) -> Result<Decoded, DecodeError> {
    zipkin::decode(format, body, &Limits::default(), ARRIVED)
}

fn taken(format: Format, body: &[u8]) -> Vec<Span> {
    let decoded = decode(format, body).unwrap();
    assert_eq!(decoded.rejections.total(), 0, "{:?}", decoded.rejections.message());
    rows(decoded)
}

/// Both halves of a call under one id, and a span of the called process, as Brave reports them.
const V2: &str = r#"[
  {"traceId":"5982fe77008310cc80f1da5e10147517","parentId":"90394f6bcffb5d13",
   "id":"67fae42571535f60","kind":"CLIENT","name":"get /items","timestamp":1502787600000000,
   "duration":26326,"localEndpoint":{"serviceName":"frontend","ipv4":"172.17.0.13","port":8081},
   "remoteEndpoint":{"serviceName":"backend","ipv4":"172.17.0.9","port":9000},
   "annotations":[{"timestamp":1502787600010000,"value":"retry"}],
   "tags":{"http.method":"GET","http.path":"/items","http.status_code":"500","error":"500"}},
  {"traceId":"5982fe77008310cc80f1da5e10147517","parentId":"90394f6bcffb5d13",
   "id":"67fae42571535f60","kind":"SERVER","name":"get /items","timestamp":1502787600005000,
   "duration":20000,"localEndpoint":{"serviceName":"backend","ipv4":"172.17.0.9","port":9000},
   "remoteEndpoint":{"ipv6":"::ffff:172.17.0.13","port":63840},"shared":true,
   "tags":{"http.path":"/items","error":"java.lang.IllegalStateException: gone"}},
  {"traceId":"5982fe77008310cc80f1da5e10147517","parentId":"67fae42571535f60",
   "id":"7b","name":"render","timestamp":1502787600006000,
   "localEndpoint":{"serviceName":"backend"},"debug":true,"tags":{"n":3,"later":null}}]"#;

#[test]
fn every_field_of_version_2_has_its_place() {
    insta::assert_debug_snapshot!(taken(Format::V2Json, V2.as_bytes()));
}

#[test]
fn the_called_half_of_a_shared_span_is_a_row_of_its_own() {
    let rows = taken(Format::V2Json, V2.as_bytes());
    let shared: SpanId = "67fae42571535f60".parse().unwrap();
    assert_eq!((rows[0].kind, rows[0].span_id), (Kind::Client, shared));
    assert_eq!((rows[1].kind, rows[1].span_id), (Kind::Server, shared.receiving_half()));
    assert_eq!(rows[1].parent_span_id, Some(shared));
    assert_eq!(rows[2].parent_span_id, Some(shared));
}

#[test]
fn ids_and_numbers_are_read_as_they_are_sent() {
    let json = r#"[{"traceId":"48485A3953BB6124","id":"1","parentId":null,"name":null,
        "timestamp":1.5027876e15,"duration":"10","tags":null,"annotations":null,"new":{}},
        {"traceId":"48485a3953bb6124","id":"2","timestamp":0,"kind":"consumer","shared":true,
        "annotations":[{"timestamp":7,"value":"first"},{"timestamp":5,"value":"second"}]},
        {"traceId":"48485a3953bb6124","id":"3"}]"#;
    let rows = taken(Format::V2Json, json.as_bytes());
    assert_eq!(rows[0].trace_id.unwrap().to_string(), "000000000000000048485a3953bb6124");
    let times: Vec<_> = rows.iter().map(|row| (row.start_unix_nano, row.duration_nano)).collect();
    assert_eq!(times, [(1_502_787_600_000_000_000, 10_000), (5_000, 0), (ARRIVED, 0)]);
    assert_eq!(rows[2].attribute("zipkin.timestamp_missing"), Some(&true.into()));
    assert_eq!(rows[1].parent_span_id, SpanId::from_u64(2));
    assert_eq!((rows[0].service.as_str(), rows[0].kind), ("unknown_service", Kind::Internal));
}

#[test]
fn the_error_is_what_the_tag_says() {
    let error = |tags: &str| {
        let json = format!(r#"[{{"traceId":"1","id":"2","timestamp":1,"tags":{tags}}}]"#);
        let row = taken(Format::V2Json, json.as_bytes()).remove(0);
        (row.status.as_str(), row.error)
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(error(r#"{"error":""}"#), ("error", None));
    assert_eq!(error(r#"{"error":"true"}"#), ("error", None));
    assert_eq!(error(r#"{"error":"false"}"#), ("unset", None));
    assert_eq!(error(r#"{"error":"timed out"}"#), ("error", some("timed out")));
    let both = r#"{"error":"it broke","otel.status_code":"ERROR","error.type":"IOError"}"#;
    assert_eq!(error(both), ("error", some("IOError")));
    assert_eq!(error(r#"{"otel.status_code":"OK"}"#), ("ok", None));
}

#[test]
fn wrong_spans_are_rejected_one_by_one_and_counted() {
    let json = r#"[{"traceId":"0","id":"1"},{"traceId":"x","id":"1"},{"id":"1"},
        {"traceId":"1","id":""},{"traceId":"1","id":"2","parentId":"zz"},
        {"traceId":"1","id":"2","timestamp":"soon"},7,{"traceId":"1","id":"2"}]"#;
    let decoded = decode(Format::V2Json, json.as_bytes()).unwrap();
    assert_eq!(decoded.batch.num_rows(), 1);
    assert_eq!(
        decoded.rejections.counts().collect::<Vec<_>>(),
        [
            ("invalid_parent_span_id", 1),
            ("invalid_span_id", 1),
            ("invalid_trace_id", 3),
            ("malformed_span", 2)
        ]
    );
    assert!(decoded.rejections.message().unwrap().contains("spans[5]: expected a whole number"));
}

#[test]
fn what_is_no_list_is_refused_by_name() {
    for (format, body, named) in [
        (Format::V2Json, &b"{}"[..], "Zipkin v2 JSON"),
        (Format::V1Json, b"[7]", "Zipkin v1 JSON"),
        (Format::V2Protobuf, b"{\"a\":1}", "Zipkin v2 protobuf"),
        (Format::V1Thrift, b"[]", "Zipkin v1 thrift"),
    ] {
        let error = decode(format, body).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    for (format, body) in [
        (Format::V2Json, &b"[]"[..]),
        (Format::V1Json, b" [ ] "),
        (Format::V2Protobuf, b""),
        (Format::V1Thrift, &[12, 0, 0, 0, 0]),
    ] {
        assert_eq!(decode(format, body).unwrap().batch.num_rows(), 0);
    }
    assert!(decode(Format::V2Json, "[".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn limits_hold() {
    let span = r#"{"traceId":"1","id":"2","timestamp":1}"#;
    let list = format!("[{}]", [span; 50].join(","));
    let with = |limits| zipkin::decode(Format::V2Json, list.as_bytes(), &limits, ARRIVED);
    let error = with(Limits { spans: 49, ..Limits::default() }).unwrap_err();
    assert!(matches!(error, DecodeError::TooLarge { what: "spans", limit: 49 }), "{error}");
    let error = with(Limits { row_bytes: 4000, ..Limits::default() }).unwrap_err();
    assert!(matches!(error, DecodeError::TooLarge { what: "bytes of rows", .. }), "{error}");
    let decoded = with(Limits { span_bytes: 30, ..Limits::default() }).unwrap();
    assert_eq!(decoded.rejections.counts().collect::<Vec<_>>(), [("span_too_large", 50)]);
}

/// `zipkin.proto` as a sender would encode it.
mod proto {
    use std::collections::BTreeMap;

    use prost::Message;

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct List {
        #[prost(message, repeated, tag = "1")]
        pub(super) spans: Vec<Span>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Span {
        #[prost(bytes = "vec", tag = "1")]
        pub(super) trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) parent_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "3")]
        pub(super) id: Vec<u8>,
        #[prost(int32, tag = "4")]
        pub(super) kind: i32,
        #[prost(string, tag = "5")]
        pub(super) name: String,
        #[prost(fixed64, tag = "6")]
        pub(super) timestamp: u64,
        #[prost(uint64, tag = "7")]
        pub(super) duration: u64,
        #[prost(message, optional, tag = "8")]
        pub(super) local: Option<Endpoint>,
        #[prost(message, optional, tag = "9")]
        pub(super) remote: Option<Endpoint>,
        #[prost(message, repeated, tag = "10")]
        pub(super) annotations: Vec<Annotation>,
        #[prost(btree_map = "string, string", tag = "11")]
        pub(super) tags: BTreeMap<String, String>,
        #[prost(bool, tag = "12")]
        pub(super) debug: bool,
        #[prost(bool, tag = "13")]
        pub(super) shared: bool,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Endpoint {
        #[prost(string, tag = "1")]
        pub(super) service: String,
        #[prost(bytes = "vec", tag = "2")]
        pub(super) ipv4: Vec<u8>,
        #[prost(bytes = "vec", tag = "3")]
        pub(super) ipv6: Vec<u8>,
        #[prost(int32, tag = "4")]
        pub(super) port: i32,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Annotation {
        #[prost(fixed64, tag = "1")]
        pub(super) timestamp: u64,
        #[prost(string, tag = "2")]
        pub(super) value: String,
    }
}

fn proto_list() -> proto::List {
    let hex = |text: &str| {
        (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
            .collect::<Vec<u8>>()
    };
    let endpoint = |service: &str, ipv4: [u8; 4], port| {
        Some(proto::Endpoint {
            service: service.into(),
            ipv4: ipv4.to_vec(),
            port,
            ..Default::default()
        })
    };
    let client = proto::Span {
        trace_id: hex("5982fe77008310cc80f1da5e10147517"),
        parent_id: hex("90394f6bcffb5d13"),
        id: hex("67fae42571535f60"),
        kind: 1,
        name: "get /items".into(),
        timestamp: 1_502_787_600_000_000,
        duration: 26_326,
        local: endpoint("frontend", [172, 17, 0, 13], 8081),
        remote: endpoint("backend", [172, 17, 0, 9], 9000),
        annotations: vec![proto::Annotation {
            timestamp: 1_502_787_600_010_000,
            value: "retry".into(),
        }],
        tags: [
            ("http.method", "GET"),
            ("http.path", "/items"),
            ("http.status_code", "500"),
            ("error", "500"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into(),
        ..Default::default()
    };
    proto::List { spans: vec![client] }
}

/// Attributes by key, because protobuf's maps have no order.
fn sorted(mut rows: Vec<Span>) -> Vec<Span> {
    rows.iter_mut().for_each(|row| row.attributes.sort_by(|one, other| one.0.cmp(&other.0)));
    rows
}

#[test]
fn protobuf_says_what_json_says() {
    let mut json = taken(Format::V2Json, V2.as_bytes());
    json.truncate(1);
    let mut list = proto_list();
    let rows = taken(Format::V2Protobuf, &list.encode_to_vec());
    assert_eq!(sorted(rows), sorted(json));
    // 64-bit trace ids and IPv6 addresses.
    list.spans[0].trace_id = vec![1; 8];
    let v6 = proto::Endpoint { ipv6: vec![0x20; 16], port: 40_000, ..Default::default() };
    list.spans[0].remote = Some(v6);
    let rows = taken(Format::V2Protobuf, &list.encode_to_vec());
    assert_eq!(rows[0].trace_id.unwrap().0, [[0; 8], [1; 8]].concat()[..]);
    assert_eq!(rows[0].flow.server_port, Some(40_000));
    assert!(rows[0].flow.server_address.as_deref().unwrap().starts_with("2020:2020"));
    // Invalid ids affect only their own span.
    list.spans.extend([proto::Span::default(), list.spans[0].clone()]);
    list.spans[2].parent_id = vec![1; 3];
    let decoded = decode(Format::V2Protobuf, &list.encode_to_vec()).unwrap();
    let counts: Vec<_> = decoded.rejections.counts().collect();
    assert_eq!(counts, [("invalid_parent_span_id", 1), ("invalid_trace_id", 1)]);
}

/// A call with both sides in one span.
const V1: &str = r#"[{"traceId":"463ac35c9f6413ad","id":"48485a3953bb6124","name":"get",
  "parentId":"463ac35c9f6413ad","annotations":[
    {"timestamp":1502787600000000,"value":"cs",
     "endpoint":{"serviceName":"front","ipv4":"10.0.0.1"}},
    {"timestamp":1502787600005000,"value":"sr",
     "endpoint":{"serviceName":"back","ipv4":"10.0.0.2","port":9411}},
    {"timestamp":1502787600006000,"value":"cache miss",
     "endpoint":{"serviceName":"back","ipv4":"10.0.0.2","port":9411}},
    {"timestamp":1502787600015000,"value":"ss",
     "endpoint":{"serviceName":"back","ipv4":"10.0.0.2","port":9411}},
    {"timestamp":1502787600020000,"value":"cr",
     "endpoint":{"serviceName":"front","ipv4":"10.0.0.1"}}],
  "binaryAnnotations":[
    {"key":"http.path","value":"/api","endpoint":{"serviceName":"front","ipv4":"10.0.0.1"}},
    {"key":"count","value":7,"type":"I64","endpoint":{"serviceName":"back"}},
    {"key":"ca","value":true,"endpoint":{"ipv4":"10.0.0.1","port":4321}},
    {"key":"sa","value":true,"endpoint":{"serviceName":"back","ipv4":"10.0.0.2","port":80}}]},
 {"traceId":"463ac35c9f6413ad","id":"1","name":"job","timestamp":1502787600000000,"duration":5,
  "binaryAnnotations":[{"key":"lc","value":"","endpoint":{"serviceName":"worker"}}]}]"#;

fn v1_thrift() -> Value {
    let endpoint = |service: &str, ipv4: u32, port: i16| {
        let address = Value::I32(ipv4.cast_signed());
        Value::Struct(vec![(1, address), (2, Value::I16(port)), (3, text(service))])
    };
    let (front, back) = (endpoint("front", 0x0a00_0001, 0), endpoint("back", 0x0a00_0002, 9411));
    let annotation = |after: i64, value: &str, at: &Value| {
        let timestamp = Value::I64(1_502_787_600_000_000 + after);
        Value::Struct(vec![(1, timestamp), (2, text(value)), (3, at.clone())])
    };
    let tag = |key: &str, value: &[u8], kind, at: Value| {
        let (value, kind) = (Value::Bytes(value.to_vec()), Value::I32(kind));
        Value::Struct(vec![(1, text(key)), (2, value), (3, kind), (4, at)])
    };
    let call = Value::Struct(vec![
        (1, Value::I64(0x463a_c35c_9f64_13ad)),
        (3, text("get")),
        (4, Value::I64(0x4848_5a39_53bb_6124)),
        (5, Value::I64(0x463a_c35c_9f64_13ad)),
        (
            6,
            Value::List(vec![
                annotation(0, "cs", &front),
                annotation(5000, "sr", &back),
                annotation(6000, "cache miss", &back),
                annotation(15_000, "ss", &back),
                annotation(20_000, "cr", &front),
            ]),
        ),
        (
            8,
            Value::List(vec![
                tag("http.path", b"/api", 6, front.clone()),
                tag("count", &7_i64.to_be_bytes(), 4, endpoint("back", 0, 0)),
                tag("ca", &[1], 0, endpoint("", 0x0a00_0001, 4321)),
                tag("sa", &[1], 0, endpoint("back", 0x0a00_0002, 80)),
            ]),
        ),
        (9, Value::Bool(false)),
    ]);
    let job = Value::Struct(vec![
        (1, Value::I64(0x463a_c35c_9f64_13ad)),
        (3, text("job")),
        (4, Value::I64(1)),
        (6, Value::List(vec![])),
        (8, Value::List(vec![tag("lc", b"", 6, endpoint("worker", 0, 0))])),
        (10, Value::I64(1_502_787_600_000_000)),
        (11, Value::I64(5)),
    ]);
    Value::List(vec![call, job])
}

#[test]
fn version_1_becomes_a_row_for_each_side() {
    insta::assert_debug_snapshot!(taken(Format::V1Json, V1.as_bytes()));
}

#[test]
fn thrift_says_what_json_says() {
    let rows = taken(Format::V1Thrift, &v1_thrift().binary());
    assert_eq!(rows, taken(Format::V1Json, V1.as_bytes()));
}

#[test]
fn damaged_thrift_is_refused_as_a_whole() {
    let bytes = v1_thrift().binary();
    for cut in 0..bytes.len() {
        let error = decode(Format::V1Thrift, &bytes[..cut]).unwrap_err();
        assert!(matches!(error, DecodeError::Malformed { .. }), "at {cut}: {error}");
    }
}

#[test]
fn many_annotations_cost_no_more_than_their_number() {
    // Each from a different service. There are at most four sides, whatever is sent.
    let annotations: Vec<String> = (0..20_000)
        .map(|n| format!(r#"{{"timestamp":{n},"value":"x","endpoint":{{"serviceName":"s{n}"}}}}"#))
        .collect();
    let json = format!(r#"[{{"traceId":"1","id":"2","annotations":[{}]}}]"#, annotations.join(","));
    let rows = taken(Format::V1Json, json.as_bytes());
    let kept = Limits::default().span_events;
    assert_eq!((rows.len(), rows[0].events.len()), (1, kept));
    let dropped = rows[0].attribute("otel.dropped_events_count").cloned();
    assert_eq!(dropped, Some((20_000 - i64::try_from(kept).unwrap()).into()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        for format in [Format::V1Json, Format::V1Thrift, Format::V2Json, Format::V2Protobuf] {
            let _ = decode(format, &bytes);
        }
    }

    #[test]
    fn damaged_requests_never_panic(at in 0_usize..8192, byte: u8) {
        for (format, mut bytes) in [
            (Format::V1Json, V1.as_bytes().to_vec()),
            (Format::V2Json, V2.as_bytes().to_vec()),
            (Format::V1Thrift, v1_thrift().binary()),
            (Format::V2Protobuf, proto_list().encode_to_vec()),
        ] {
            let at = at % bytes.len();
            bytes[at] = byte;
            if let Ok(decoded) = decode(format, &bytes) {
                rows(decoded);
            }
        }
    }
}
