//! The load decoded with the official protobuf types.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use spanwise_bench_load::{Load, LoadConfig, LoadError, Profile, Tags};

const START: i64 = 1_700_000_000_000_000_000;
const HOUR: i64 = 3_600_000_000_000;

fn load(spans: u64, trace_spans: RangeInclusive<u64>) -> Result<Load, LoadError> {
    load_of(Profile::Shop, spans, trace_spans)
}

fn load_of(
    profile: Profile,
    spans: u64,
    trace_spans: RangeInclusive<u64>,
) -> Result<Load, LoadError> {
    Load::new(LoadConfig {
        profile,
        seed: 7,
        spans,
        trace_spans,
        start_unix_nano: START,
        end_unix_nano: START + HOUR,
        known_traces: 50,
        tags: Tags::None,
        batch_spans: LoadConfig::BATCH_SPANS,
    })
}

fn requests(load: &mut Load) -> Vec<Vec<u8>> {
    let mut requests = Vec::new();
    let mut request = Vec::new();
    while let Some(spans) = load.next_request(&mut request) {
        let read = ExportTraceServiceRequest::decode(request.as_slice()).unwrap();
        let counted: usize =
            read.resource_spans.iter().flat_map(|r| &r.scope_spans).map(|s| s.spans.len()).sum();
        assert_eq!(counted as u64, spans);
        assert_eq!(read.encode_to_vec(), request, "written as prost would");
        requests.push(request.clone());
    }
    requests
}

/// All spans, with the name of their service.
fn spans(requests: &[Vec<u8>]) -> Vec<(String, Span)> {
    let mut spans = Vec::new();
    for request in requests {
        for part in ExportTraceServiceRequest::decode(request.as_slice()).unwrap().resource_spans {
            let resource = part.resource.unwrap();
            let name = text(&resource.attributes, "service.name").unwrap();
            let all = part.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.extend(all.map(|span| (name.clone(), span)));
        }
    }
    spans
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|pair| pair.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}

#[test]
fn equal_seeds_make_equal_bytes() {
    for profile in [Profile::Shop, Profile::Pods] {
        let of = || requests(&mut load_of(profile, 5_000, 12..=40).unwrap());
        assert_eq!(of(), of());
    }
}

/// Figures of one load are compared over years, so its bytes must never change.
#[test]
fn bytes_are_those_of_earlier_versions() {
    for (profile, expected) in
        [(Profile::Shop, 0xa390_f6c5_3c2a_29c3), (Profile::Pods, 0xe7c0_00e2_90d2_491a)]
    {
        let requests = requests(&mut load_of(profile, 5_000, 12..=40).unwrap());
        assert_eq!(fnv_1a(&requests.concat()), expected, "{profile:?}");
    }
}

/// A hash that is the same on every host (Fowler, Noll, Vo).
fn fnv_1a(bytes: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

#[test]
fn spans_are_as_many_and_as_large_as_said() {
    let mut load = load(30_000, 12..=40).unwrap();
    let requests = requests(&mut load);
    let bytes: usize = requests.iter().map(Vec::len).sum();
    let each = bytes as f64 / 30_000.0;
    assert!((530.0..570.0).contains(&each), "{each} bytes a span");

    let spans = spans(&requests);
    assert_eq!(spans.len(), 30_000);
    let attributes: usize = spans.iter().map(|(_, span)| span.attributes.len()).sum();
    let each = attributes as f64 / spans.len() as f64;
    assert!((9.0..12.0).contains(&each), "{each} attributes a span");
    let usual = spans.iter().filter(|(_, span)| (8..=12).contains(&span.attributes.len())).count();
    assert!(usual > 29_400, "{usual} of 30,000 spans have 8 to 12 attributes");
    let failed =
        spans.iter().filter(|(_, span)| span.status.as_ref().is_some_and(|s| s.code == 2)).count();
    assert!((300..600).contains(&failed), "{failed} of 30,000 spans failed");
    assert_eq!(failed as u64, load.known().error_count);
    let services: HashSet<&String> = spans.iter().map(|(service, _)| service).collect();
    assert_eq!(services.len(), 30);
    // Most batches are full. Only those at the end are smaller.
    let small = requests.len() - 90;
    assert!(30_000 / small > 100, "{} requests", requests.len());
}

/// The properties of the second profile.
#[test]
fn spans_of_pods_are_as_said() {
    let mut load = load_of(Profile::Pods, 60_000, 12..=40).unwrap();
    let requests = requests(&mut load);
    let bytes: usize = requests.iter().map(Vec::len).sum();
    let each = bytes as f64 / 60_000.0;
    assert!((530.0..570.0).contains(&each), "{each} bytes a span");

    let spans = spans(&requests);
    assert_eq!(spans.len(), 60_000);
    let usual = spans.iter().filter(|(_, span)| (8..=14).contains(&span.attributes.len())).count();
    assert!(usual > 59_000, "{usual} of 60,000 spans have 8 to 14 attributes");
    let services: HashSet<&String> = spans.iter().map(|(service, _)| service).collect();
    assert_eq!(services.len(), 30);

    let failed: Vec<&Span> = (spans.iter().map(|(_, span)| span))
        .filter(|span| span.status.as_ref().is_some_and(|status| status.code == 2))
        .collect();
    assert!((700..1_100).contains(&failed.len()), "{} of 60,000 spans failed", failed.len());
    let stack = |span: &Span| text(&span.events[0].attributes, "exception.stacktrace").unwrap();
    assert!(failed.iter().all(|span| stack(span).lines().count() > 10));

    let resources = requests.iter().flat_map(|request| {
        ExportTraceServiceRequest::decode(request.as_slice()).unwrap().resource_spans
    });
    let resources: Vec<Vec<KeyValue>> =
        resources.map(|part| part.resource.unwrap().attributes).collect();
    assert!(resources.iter().all(|resource| (40..60).contains(&resource.len())));
    let of = |key: &str| -> HashSet<String> {
        resources.iter().map(|resource| text(resource, key).unwrap()).collect()
    };
    let (pods, images) = (of("k8s.pod.name").len(), of("container.image.id").len());
    assert!(pods > 100 && images == 30, "{pods} pods, {images} images");
    let agents = spans.iter().filter(|(_, span)| span.parent_span_id.is_empty());
    let agents: HashSet<String> =
        agents.filter_map(|(_, span)| text(&span.attributes, "user_agent.original")).collect();
    assert!(agents.len() > 100, "{} user agents", agents.len());
}

#[test]
fn what_is_known_is_true() {
    for profile in [Profile::Shop, Profile::Pods] {
        check_what_is_known(load_of(profile, 20_000, 12..=40).unwrap());
    }
}

fn check_what_is_known(mut load: Load) {
    let spans = spans(&requests(&mut load));
    let mut traces: HashMap<String, Vec<&(String, Span)>> = HashMap::new();
    for span in &spans {
        traces.entry(hex::encode(&span.1.trace_id)).or_default().push(span);
    }
    let known = load.known();
    assert_eq!(known.trace_count, traces.len() as u64);
    assert_eq!(known.span_count, 20_000);
    assert_eq!(known.traces.len(), 50);
    for trace in &known.traces {
        let spans = &traces[&trace.trace_id];
        assert_eq!(spans.len(), trace.spans);
        let services: HashSet<&str> = spans.iter().map(|(service, _)| service.as_str()).collect();
        assert_eq!(services, trace.services.iter().copied().collect());
        let (_, root) = spans.iter().find(|(_, span)| span.parent_span_id.is_empty()).unwrap();
        assert_eq!(root.start_time_unix_nano, trace.start_unix_nano as u64);
        assert_eq!(text(&root.attributes, "user.id").as_ref(), Some(&trace.user_id));
        assert_eq!(text(&root.attributes, "app.order.id"), trace.order_id);
    }
    assert!(known.traces.iter().any(|trace| trace.order_id.is_some()));
}

#[test]
fn time_goes_on_through_the_whole_range() {
    let spans = spans(&requests(&mut load(20_000, 12..=40).unwrap()));
    let roots = spans.iter().filter(|(_, span)| span.parent_span_id.is_empty());
    let starts: Vec<i64> =
        roots.map(|(_, span)| span.start_time_unix_nano as i64 - START).collect();
    assert!(starts.iter().all(|start| (0..HOUR).contains(start)));
    let early = starts.iter().filter(|start| **start < HOUR / 2).count() as f64;
    assert!((0.45..0.55).contains(&(early / starts.len() as f64)));
    // Exporters wait only briefly: roots are ordered except for batching.
    let late = starts.windows(2).filter(|pair| pair[1] + HOUR / 4 < pair[0]).count();
    assert!(late < starts.len() / 50, "{late} of {} far out of order", starts.len());
}

#[test]
fn one_trace_may_be_large() {
    let mut load = load(20_000, 20_000..=20_000).unwrap();
    let spans = spans(&requests(&mut load));
    let ids: HashSet<&Vec<u8>> = spans.iter().map(|(_, span)| &span.trace_id).collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(load.known().traces[0].spans, 20_000);
}

#[test]
fn what_cannot_be_made_is_refused() {
    assert_eq!(load(5, 12..=40).err(), Some(LoadError::Spans));
    assert_eq!(load(100, 12..=14).err(), Some(LoadError::Spans));
    assert_eq!(load(24, 12..=12).map(|load| load.known().trace_count), Ok(0));
    assert_eq!(load(100, 1..=4).err(), Some(LoadError::Spans));
}
