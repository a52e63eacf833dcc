use prost::Message as _;
use spanwise_analyze::red::{Now, Red, RedConfig};
use spanwise_model::{Assembled, Capture, RowRef, Span, SpanBatchBuilder, SpanId, TraceId};

use super::protobuf::{BucketSpan, MetricFamily};
use super::*;

const MS: i64 = 1_000_000;

/// A call that failed, and three spans of a name with quotes.
fn snapshot() -> RedSnapshot {
    let span = |number, kind, service: &str, ms| {
        let id = SpanId::from_u64(number).expect("not zero");
        Span::new(id, Capture::App, kind, service, "say \"hi\"\n", 5, ms * MS)
    };
    let mut call = span(1, Kind::Client, "web", 9);
    call.status = Status::Error;
    let spans = [
        call,
        span(2, Kind::Server, "cart", 7),
        span(3, Kind::Internal, "cart", 1),
        span(4, Kind::Internal, "cart", 1),
        span(5, Kind::Internal, "cart", 0),
        span(6, Kind::Internal, "cart", 2_000),
    ];
    let batch = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
    let mut red = Red::new(&RedConfig::default());
    let now = Now { nano: 0, unix_nano: 1_700_000_000_250_000_000 };
    red.push(1, &batch, now).expect("spans");
    let found: Vec<Assembled> = (0..6)
        .map(|row| Assembled {
            row: RowRef { batch: 1, row },
            trace_id: TraceId([0xab; 16]),
            parent: if row == 0 { None } else { Some(spans[0].span_id) },
            evidence: None,
            confidence: None,
        })
        .collect();
    red.place(&found, now);
    red.settle_all(now);
    red.snapshot()
}

fn text(format: Exposition) -> String {
    String::from_utf8(write(format, &snapshot())).expect("text")
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|one| one == *line), "{line} is not in:\n{text}");
    }
}

#[test]
fn the_text_has_the_names_that_grafana_reads() {
    let text = text(Exposition::Prometheus);
    let internal = r#"service="cart",span_name="say \"hi\"\n",span_kind="SPAN_KIND_INTERNAL",status_code="STATUS_CODE_UNSET""#;
    let failed = r#"service="web",span_name="say \"hi\"\n",span_kind="SPAN_KIND_CLIENT",status_code="STATUS_CODE_ERROR""#;
    let edge = r#"client="web",server="cart",connection_type="""#;
    has(
        &text,
        &[
            "# TYPE traces_spanmetrics_calls_total counter",
            &format!("traces_spanmetrics_calls_total{{{internal}}} 4"),
            &format!("traces_spanmetrics_calls_total{{{failed}}} 1"),
            "# TYPE traces_spanmetrics_latency histogram",
            &format!("traces_spanmetrics_latency_bucket{{{internal},le=\"0.002\"}} 3"),
            &format!("traces_spanmetrics_latency_bucket{{{internal},le=\"1.024\"}} 3"),
            &format!("traces_spanmetrics_latency_bucket{{{internal},le=\"2.048\"}} 4"),
            &format!("traces_spanmetrics_latency_bucket{{{internal},le=\"+Inf\"}} 4"),
            &format!("traces_spanmetrics_latency_sum{{{internal}}} 2.002"),
            &format!("traces_spanmetrics_latency_count{{{internal}}} 4"),
            "# TYPE traces_service_graph_request_total counter",
            &format!("traces_service_graph_request_total{{{edge}}} 1"),
            &format!("traces_service_graph_request_failed_total{{{edge}}} 1"),
            &format!("traces_service_graph_request_server_seconds_bucket{{{edge},le=\"0.1\"}} 1"),
            &format!("traces_service_graph_request_server_seconds_sum{{{edge}}} 0.007"),
            &format!("traces_service_graph_request_client_seconds_sum{{{edge}}} 0.009"),
        ],
    );
    assert!(!text.contains("trace_id") && !text.contains("# EOF"), "{text}");
    assert_eq!(text.matches("# TYPE").count(), 6);
}

#[test]
fn open_metrics_has_examples() {
    let text = text(Exposition::OpenMetrics);
    let id = "ab".repeat(16);
    let edge = r#"client="web",server="cart",connection_type="""#;
    has(
        &text,
        &[
            "# TYPE traces_spanmetrics_calls counter",
            "# TYPE traces_service_graph_request_failed counter",
            &format!("traces_service_graph_request_failed_total{{{edge}}} 1"),
            &format!(
                "traces_service_graph_request_server_seconds_bucket{{{edge},le=\"0.1\"}} 1 \
                 # {{trace_id=\"{id}\"}} 0.007 1700000000.250"
            ),
        ],
    );
    assert!(text.ends_with("\n# EOF\n"), "{text}");
}

#[test]
fn protobuf_has_native_histograms() {
    let bytes = write(Exposition::Protobuf, &snapshot());
    let mut rest = bytes.as_slice();
    let mut families = Vec::new();
    while !rest.is_empty() {
        families.push(MetricFamily::decode_length_delimited(&mut rest).expect("a family"));
    }
    let names: Vec<(&str, i32)> =
        families.iter().map(|family| (family.name.as_str(), family.kind)).collect();
    let expected = [
        ("traces_spanmetrics_calls_total", 0),
        ("traces_spanmetrics_latency", 4),
        ("traces_service_graph_request_total", 0),
        ("traces_service_graph_request_failed_total", 0),
        ("traces_service_graph_request_server_seconds", 4),
        ("traces_service_graph_request_client_seconds", 4),
    ];
    assert_eq!(names, expected);
    let internal = families[1]
        .metrics
        .iter()
        .find(|metric| metric.labels.iter().any(|label| label.value == "SPAN_KIND_INTERNAL"));
    let histogram = internal.and_then(|metric| metric.histogram.as_ref()).expect("a histogram");
    assert_eq!((histogram.sample_count, histogram.sample_sum), (4, 2.002));
    assert_eq!((histogram.schema, histogram.zero_count), (3, 1));
    // A millisecond lies between 2^(-80/8) and 2^(-79/8) seconds; two seconds end bucket 8.
    let spans = [BucketSpan { offset: -79, length: 1 }, BucketSpan { offset: 86, length: 1 }];
    assert_eq!(histogram.positive_spans, spans);
    assert_eq!(histogram.positive_deltas, [2, -1]);
    assert_eq!(histogram.buckets.len(), 15);
    assert_eq!(histogram.buckets[14].upper_bound, f64::INFINITY);
    assert_eq!(histogram.exemplars.len(), 2);
    let exemplar = histogram.buckets[0].exemplar.as_ref().expect("an exemplar");
    assert_eq!(exemplar.labels[0].value, "ab".repeat(16));
}
