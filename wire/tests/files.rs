//! Files as the OpenTelemetry Collector's file exporter writes them, and as Jaeger's and Zipkin's
//! UIs and APIs return them.

use std::io::Cursor;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use proptest::prelude::*;
use prost::Message;
use spanwise_model::SpanBatch;
use spanwise_wire::files::{FileError, FileLimits, Kind, Record, open};

fn message(spans: u8) -> Vec<u8> {
    let span = |number: u8| Span {
        trace_id: vec![7; 16],
        span_id: vec![number + 1; 8],
        name: format!("op{number}"),
        ..Default::default()
    };
    let scope_spans =
        vec![ScopeSpans { spans: (0..spans).map(span).collect(), ..Default::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..Default::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// `format: proto` of the exporter: each message follows its length.
fn prefixed(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for message in messages {
        file.extend(u32::try_from(message.len()).expect("short").to_be_bytes());
        file.extend(message);
    }
    file
}

fn read(file: &[u8], limits: FileLimits) -> Vec<Result<Record, FileError>> {
    match open(Cursor::new(file.to_vec()), limits) {
        Ok(records) => records.collect(),
        Err(error) => vec![Err(error)],
    }
}

/// Format and number of spans of each record, or the error.
fn told(file: &[u8]) -> Vec<Result<(Kind, usize), String>> {
    read(file, FileLimits::default())
        .into_iter()
        .map(|record| match record {
            Ok(Record { kind, decoded, .. }) => {
                Ok((kind, decoded.map_or(0, |decoded| decoded.batch.num_rows())))
            }
            Err(error) => Err(error.to_string()),
        })
        .collect()
}

#[test]
fn messages_after_their_lengths() {
    let file = prefixed(&[message(2), message(0), message(3)]);
    let expected = [2, 0, 3].map(|spans| Ok((Kind::OtlpProtobuf, spans)));
    assert_eq!(told(&file), expected);
    // `compression: zstd` of the exporter compresses each message separately.
    let zstd = |bytes: &[u8]| zstd::stream::encode_all(bytes, 3).expect("compressed");
    assert_eq!(
        told(&prefixed(&[zstd(&message(2)), zstd(&message(0)), zstd(&message(3))])),
        expected
    );
    let line = br#"{"resourceSpans":[]}"#;
    assert_eq!(told(&prefixed(&[zstd(line)])), [Ok((Kind::OtlpJson, 0))]);
    // Whole files compressed by other tools, and a single message.
    assert_eq!(told(&zstd(&file)), expected);
    assert_eq!(told(&message(4)), [Ok((Kind::OtlpProtobuf, 4))]);
}

#[test]
fn what_is_cut_off_or_damaged_is_named_and_the_rest_is_read() {
    let whole = prefixed(&[message(1), message(2)]);
    for cut in [1, 4, 20] {
        let file = &whole[..whole.len() - cut];
        let said = told(file);
        assert_eq!(said[0], Ok((Kind::OtlpProtobuf, 1)));
        let error = said[1].as_ref().expect_err("it is cut off");
        assert!(error.starts_with("message 2 is cut off"), "{error}");
    }
    let file = prefixed(&[message(1), vec![0xff; 9], message(2)]);
    let said = told(&file);
    assert_eq!((&said[0], &said[2]), (&Ok((Kind::OtlpProtobuf, 1)), &Ok((Kind::OtlpProtobuf, 2))));
    assert!(said[1].as_ref().expect_err("damaged").starts_with("message 2: "));

    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let line = "{\"resourceSpans\":[]}\n";
    std::io::Write::write_all(&mut gzip, line.repeat(1000).as_bytes()).expect("compressed");
    let gzip = gzip.finish().expect("compressed");
    let said = told(&gzip[..gzip.len() - 12]);
    let error = said.last().expect("something").as_ref().expect_err("it is cut off");
    assert!(
        error.contains("the compressed file, after line") && error.contains("is cut off"),
        "{error}"
    );
}

const JAEGER: &str = r#"{"traceID":"1f","spans":[
  {"traceID":"1f","spanID":"a","operationName":"GET /","startTime":1700000000000000,"duration":1500,
   "references":[],"processID":"p1","tags":[{"key":"http.status_code","type":"int64","value":200}],
   "logs":[{"timestamp":1700000000000100,"fields":[{"key":"event","type":"string","value":"retry"}]}]},
  {"traceID":"1f","spanID":"b","operationName":"SELECT","startTime":1700000000000200,"duration":300,
   "references":[{"refType":"CHILD_OF","traceID":"1f","spanID":"a"}],"processID":"p2","tags":[]}],
  "processes":{"p1":{"serviceName":"shop","tags":[{"key":"hostname","type":"string","value":"h"}]},
               "p2":{"serviceName":"db","tags":[]}}}"#;
const ZIPKIN_V2: &str = r#"{"traceId":"1f","id":"b","parentId":"a","kind":"CLIENT","name":"get /",
  "timestamp":1700000000000000,"duration":1500,"localEndpoint":{"serviceName":"shop"},
  "annotations":[{"timestamp":1700000000000100,"value":"retry"}],"tags":{"http.path":"/"}}"#;
const ZIPKIN_V1: &str = r#"{"traceId":"1f","id":"b","name":"get /","timestamp":1700000000000000,
  "duration":1500,"annotations":[{"timestamp":1700000000000000,"value":"cs",
  "endpoint":{"serviceName":"shop","ipv4":"127.0.0.1"}}],"binaryAnnotations":[]}"#;

#[test]
fn what_jaeger_and_zipkin_answer() {
    let (jaeger, v1, v2) = (Kind::JaegerJson, Kind::ZipkinV1Json, Kind::ZipkinV2Json);
    for (file, kind, spans) in [
        (format!(r#"{{"data":[{JAEGER}],"total":0,"limit":0,"errors":null}}"#), jaeger, 2),
        (format!("[{JAEGER},{JAEGER}]"), jaeger, 4),
        (JAEGER.to_owned(), jaeger, 2),
        (format!("[{ZIPKIN_V2},{ZIPKIN_V2}]"), v2, 2),
        (format!("[[{ZIPKIN_V2}],[{ZIPKIN_V2},{ZIPKIN_V2}]]"), v2, 3),
        (ZIPKIN_V2.to_owned(), v2, 1),
        (format!("[{ZIPKIN_V1}]"), v1, 1),
        (format!("[[{ZIPKIN_V1}]]"), v1, 1),
    ] {
        assert_eq!(told(file.as_bytes()), [Ok((kind, spans))], "{file}");
        // On one line, and several such lines.
        let line = file.replace('\n', "") + "\n";
        assert_eq!(told(line.repeat(2).as_bytes()), [Ok((kind, spans)), Ok((kind, spans))]);
    }
    assert_eq!(told(b"[]"), [Ok((v2, 0))]);
}

#[test]
fn traces_of_jaeger_are_read_whole() {
    let records = read(JAEGER.as_bytes(), FileLimits::default());
    let decoded = records.into_iter().next().expect("a record").expect("read").decoded;
    let batch = SpanBatch::try_from(decoded.expect("spans").batch).expect("the schema");
    let spans: Vec<_> = batch.spans().map(|span| span.expect("a span")).collect();
    let [root, child] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((root.service.as_str(), child.service.as_str()), ("shop", "db"));
    assert_eq!(child.parent_span_id, Some(root.span_id));
    assert_eq!(child.trace_id, root.trace_id);
    assert_eq!((root.start_unix_nano, root.duration_nano), (1_700_000_000_000_000_000, 1_500_000));
    assert_eq!((root.host.as_deref(), root.events[0].name.as_str()), (Some("h"), "retry"));
}

#[test]
fn other_lists_are_told_from_spans() {
    for (file, reason) in [
        ("[1]", "something else than objects"),
        ("[[[1]]]", "list of lists of lists"),
        (r#"[{"a":1}]"#, "neither Jaeger traces nor Zipkin spans"),
        (r#"{"a":1}"#, "without resourceSpans"),
    ] {
        let said = told(file.as_bytes());
        let error = said[0].as_ref().expect_err(file);
        assert!(error.contains(reason) && error.contains("known are"), "{error}");
    }
}

#[test]
fn records_are_bounded() {
    let limits = FileLimits { record_bytes: 100, ..FileLimits::default() };
    for file in [
        format!("{{\"resourceSpans\":[{}]}}\n", " ".repeat(200)).into_bytes(),
        b"{\n".iter().copied().chain([b' '; 200]).collect(),
        prefixed(&[vec![0x0a; 101]]),
        prefixed(&[zstd::stream::encode_all([b' '; 100_000].as_slice(), 3).expect("compressed")]),
    ] {
        let said = read(&file, limits);
        let error = said[0].as_ref().expect_err("too large").to_string();
        assert!(error.contains("larger than 100 bytes"), "{error}");
    }
    assert!(told(b"").is_empty() && told(b"\n \n").is_empty());
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(
        begin in prop::sample::select(vec![&b"{"[..], b"[", b"\x0a", b"\0\0\0\x05", b"\x1f\x8b", b""]),
        rest: Vec<u8>,
    ) {
        let said = told(&[begin, &rest].concat());
        prop_assert!(said.len() <= rest.len() + 2);
    }
}
