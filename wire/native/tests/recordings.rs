//! What the C library records, read back: a whole recording, programs killed with -9, and files that
//! were cut or overwritten with anything.

mod otlp_metrics;

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use spanwise_native::otlp::{Number, NumberMetric, NumberPoint, ResourceValue};
use spanwise_native::{Counts, Following, Recording, Rule, host, otlp, rules, set_rules};

/// The library's own test program, which also writes recordings.
fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../agents/native");
        let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native");
        let target = build.join("library");
        let made = Command::new("make")
            .arg("-s")
            .arg("-C")
            .arg(library)
            .arg(format!("BUILD={}", build.display()))
            .arg(&target)
            .status()
            .expect("make runs");
        assert!(made.success(), "the library builds");
        target
    })
}

fn record(dir: &Path) -> String {
    let output = Command::new(program()).arg("record").arg(dir).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// All spans as OTLP, and the counts.
fn spans(dir: &Path) -> (Vec<Span>, Counts, Vec<String>) {
    let mut recording = Recording::open(&[dir.to_owned()]).expect("a directory");
    let mut spans = Vec::new();
    while let Some(piece) = recording.next_piece() {
        let mut bytes = Vec::new();
        otlp::traces(&recording.processes[piece.process], &piece, |_| true, &mut bytes);
        let request = ExportTraceServiceRequest::decode(&bytes[..]).expect("OTLP");
        for resource in request.resource_spans {
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    let mut sum = Counts::default();
    for (_, counts) in recording.counts() {
        sum.read += counts.read;
        sum.open += counts.open;
        sum.damaged += counts.damaged;
        sum.dropped_ends += counts.dropped_ends;
    }
    (spans, sum, recording.problems())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn text(span: &Span, key: &str) -> Option<Value> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.clone()?.value
}

#[test]
fn a_recording_is_read_with_ids_attributes_events_and_links() {
    let dir = tempfile::tempdir().expect("a directory");
    let before = std::time::SystemTime::now();
    let printed = record(dir.path());
    let after = std::time::SystemTime::now();
    let (spans, counts, problems) = spans(dir.path());
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!((counts.read, counts.open), (2, 2));
    let find = |name: &str, open: bool| {
        let is = |span: &&Span| span.name == name && text(span, "spanwise.open").is_some() == open;
        let found: Vec<&Span> = spans.iter().filter(is).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0]
    };
    let (serve, query, task) = (find("serve", false), find("query", false), find("task", false));
    assert_eq!(hex(&serve.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&serve.parent_span_id), "b7ad6b7169203331");
    assert_eq!(serve.trace_state, "x=1");
    assert_eq!((serve.kind, serve.flags), (2, 0x301));
    let status = serve.status.clone().expect("a status");
    assert_eq!((status.code, status.message.as_str()), (2, "failed"));
    assert_eq!(text(serve, "http.response.status_code"), Some(Value::IntValue(500)));
    assert_eq!(text(serve, "text"), Some(Value::StringValue("café".to_owned())));
    assert_eq!((&query.trace_id, &query.parent_span_id), (&serve.trace_id, &serve.span_id));
    // The ids that the program gave away are those that the reader makes.
    let given = format!("query 00-{}-{}-01\n", hex(&query.trace_id), hex(&query.span_id));
    assert_eq!(printed, given);
    assert_eq!(query.events.len(), 1);
    assert_eq!((query.events[0].name.as_str(), query.events[0].attributes.len()), ("retry", 1));
    assert_eq!(hex(&query.links[0].span_id), "b7ad6b7169203331");
    assert_eq!((&task.trace_id, &task.parent_span_id), (&serve.trace_id, &query.span_id));
    assert_eq!(text(task, "http.response.status_code"), Some(Value::IntValue(500)));
    let (open, inner) = (find("serve", true), find("query", true));
    assert!(open.parent_span_id.is_empty(), "a root");
    assert_eq!((&inner.parent_span_id, &inner.trace_id), (&open.span_id, &open.trace_id));
    let unix = |time: std::time::SystemTime| {
        time.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos() as u64
    };
    for span in &spans {
        assert!(span.start_time_unix_nano >= unix(before), "the wall clock");
        assert!(span.end_time_unix_nano <= unix(after), "the wall clock");
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
    }
}

#[test]
fn logs_and_metrics_are_read() {
    let dir = tempfile::tempdir().expect("a directory");
    record(dir.path());
    let mut recording = Recording::open(&[dir.path().to_owned()]).expect("a directory");
    let (mut logs, mut points) = (Vec::new(), Vec::new());
    while let Some(piece) = recording.next_piece() {
        logs.extend(piece.logs);
        points.extend(piece.metrics);
    }
    assert_eq!(logs.len(), 1);
    assert_eq!((logs[0].severity, logs[0].trace_id), (13, 0x0af7651916cd43dd8448eb211c80319c));
    let instruments = &recording.processes[0].instruments;
    let last = |name: &str| {
        let is = |point: &&spanwise_native::MetricPoint| {
            instruments[usize::from(point.instrument)].name == name
        };
        points.iter().rfind(is).expect("a point").words.clone()
    };
    assert_eq!(last("requests"), [3]);
    let histogram = last("latency");
    assert_eq!(histogram[0], 2, "count");
    assert_eq!(f64::from_bits(histogram[1]), 9.0, "sum");
    assert_eq!((f64::from_bits(histogram[2]), f64::from_bits(histogram[3])), (4.0, 5.0));
    // 4 is the upper bound of bucket 15 of scale 3; 5 is in (2^(18/8), 2^(19/8)].
    assert_eq!(&histogram[4..], [0, 15, 1, 0, 0, 1]);
}

#[test]
fn times_are_those_of_the_wall_clock_to_the_microsecond() {
    let dir = tempfile::tempdir().expect("a directory");
    let output = Command::new(program()).arg("clocks").arg(dir.path()).output().expect("it runs");
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).expect("text");
    let (mut spans, ..) = spans(dir.path());
    spans.sort_by_key(|span| span.start_time_unix_nano);
    assert_eq!((spans.len(), said.lines().count()), (60, 60));
    for (index, (line, span)) in said.lines().zip(&spans).enumerate() {
        let (before, after) = line.split_once(' ').expect("two times");
        let [before, after]: [u64; 2] = [before, after].map(|time| time.parse().expect("a time"));
        let start = span.start_time_unix_nano;
        assert!(start + 1000 >= before, "{index}: {} ns too early", before - start);
        assert!(start <= after + 1000, "{index}: {} ns too late", start - after);
    }
}

/// The bucket of scale 3 of a value, by bounds that are computed as powers.
fn bucket(value: f64) -> i32 {
    let bound = |index: i32| (f64::from(index) / 8.0).exp2();
    (-240..=272).find(|index| bound(*index) < value && value <= bound(index + 1)).expect("a bucket")
}

#[test]
fn a_histogram_is_what_its_receiver_would_compute() {
    let dir = tempfile::tempdir().expect("a directory");
    // From 2^-28 to 2^33, evenly by their logarithm; and bounds themselves, and zeros.
    let mut state = 7_u64;
    let mut values: Vec<f64> = (0..5000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 11) as f64 / (1_u64 << 53) as f64).mul_add(61.0, -28.0).exp2()
        })
        .collect();
    values.extend((-28..=33).map(|power| f64::from(power).exp2()));
    values.extend([0.75, 1.5, 3.0, 1e-3, 123_456.0]);
    let zeros = [0.0, 1e-12, 1e-9];
    let mut input = String::new();
    for value in values.iter().chain(&zeros) {
        input += &format!("{value:e}\n");
    }
    // No values of a histogram, so they are not counted.
    input += "-1\nnan\ninf\n";
    let mut child = Command::new(program())
        .arg("observe")
        .arg(dir.path())
        .stdin(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input.as_bytes()).expect("written");
    drop(stdin);
    assert!(child.wait().expect("its state").success());

    let mut recording = Recording::open(&[dir.path().to_owned()]).expect("a directory");
    let mut last = None;
    while let Some(piece) = recording.next_piece() {
        let process = &recording.processes[piece.process];
        let mut bytes = Vec::new();
        otlp::metrics(process, &piece.metrics, &mut bytes);
        let request = otlp_metrics::ExportMetricsServiceRequest::decode(&bytes[..]).expect("OTLP");
        for (resource, metric) in request.metrics() {
            assert_eq!(resource["service.name"], "library");
            assert_eq!((metric.name.as_str(), metric.unit.as_str()), ("latency", "ms"));
            last = metric.exponential_histogram.clone();
        }
    }
    let histogram = last.expect("a histogram");
    assert_eq!(histogram.aggregation_temporality, 2, "since the start");
    let [point] = &histogram.data_points[..] else { panic!("{histogram:?}") };
    assert!(point.start_time_unix_nano < point.time_unix_nano);
    assert_eq!((point.scale, point.negative.clone()), (3, None));
    assert_eq!(point.count, (values.len() + zeros.len()) as u64);
    assert_eq!(point.zero_count, zeros.len() as u64);
    assert!(zeros.iter().all(|zero| *zero < point.zero_threshold));
    assert!(values.iter().all(|value| *value >= point.zero_threshold));
    // Added in the same order, so to the last bit.
    let sum = values.iter().chain(&zeros).fold(0.0, |sum, value| sum + value);
    assert_eq!(point.sum, Some(sum));
    let largest = values.iter().copied().fold(0.0, f64::max);
    assert_eq!((point.min, point.max), (Some(0.0), Some(largest)));
    let positive = point.positive.as_ref().expect("buckets");
    let mut expected = vec![0_u64; positive.bucket_counts.len()];
    for value in &values {
        let index = usize::try_from(bucket(*value) - positive.offset).expect("not below the first");
        expected[index] += 1;
    }
    assert_eq!(positive.bucket_counts, expected);
    assert!(expected[0] > 0 && expected[expected.len() - 1] > 0, "no more buckets than needed");
}

#[test]
fn buckets_with_bounds_are_what_their_receiver_reads() {
    let point = NumberPoint {
        attributes: vec![("key", "value".to_owned())],
        start_ns: 5,
        value: Number::Buckets {
            bounds: host::wait_bounds_seconds().collect(),
            counts: (0..host::WAIT_BUCKETS as u64).collect(),
            sum: 1.25,
        },
    };
    let metric = NumberMetric::new(host::PROCESS_RUN_QUEUE_LATENCY, vec![point]);
    let mut bytes = Vec::new();
    otlp::numbers(&[("process.pid", ResourceValue::Integer(7))], &[metric], 9, &mut bytes);
    let request = otlp_metrics::ExportMetricsServiceRequest::decode(&bytes[..]).expect("OTLP");
    let found: Vec<_> = request.metrics().collect();
    let [(resource, metric)] = &found[..] else { panic!("{request:?}") };
    assert_eq!(resource["process.pid"], "7");
    assert_eq!(metric.name, "spanwise.process.run_queue.latency");
    let histogram = metric.histogram.as_ref().expect("a histogram");
    let [point] = &histogram.data_points[..] else { panic!("{histogram:?}") };
    assert_eq!(otlp_metrics::attributes(&point.attributes)["key"], "value");
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
    assert_eq!((point.count, point.sum), (300, Some(1.25)), "0 + 1 + … + 24");
    assert_eq!(point.bucket_counts, (0..25).collect::<Vec<u64>>());
    assert_eq!(point.explicit_bounds.len(), 24);
    for (index, bound) in point.explicit_bounds.iter().enumerate() {
        let microseconds = bound * 1e6;
        assert!((microseconds / f64::from(1 << index) - 1.0).abs() < 1e-12, "{index}: {bound}");
    }
}

#[test]
fn a_program_killed_under_load_loses_nothing() {
    let kills = std::env::var("SPANWISE_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    for kill in 0..kills {
        let dir = tempfile::tempdir().expect("a directory");
        let mut child = Command::new(program())
            .arg("load")
            .arg(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("it runs");
        let made = dir.path().join("made");
        let begun = |path: &Path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            let at = |n: usize| {
                bytes.get(n..n + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().expect("8")))
            };
            (at(0), at(8))
        };
        while begun(&made).0 < 50_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(kill * 137 % 2000));
        child.kill().expect("killed");
        child.wait().expect("ended");
        let (begun, ended) = begun(&made);
        let (spans, counts, problems) = spans(dir.path());
        assert_eq!(problems, Vec::<String>::new());
        assert!((ended..=ended + 1).contains(&counts.read), "{ended} ended, {counts:?}");
        assert!(
            (begun..=begun + 1).contains(&(counts.read + counts.open)),
            "{begun} begun, {counts:?}"
        );
        assert_eq!(counts.damaged + counts.dropped_ends, 0);
        let ids: HashSet<&Vec<u8>> = spans.iter().map(|span| &span.span_id).collect();
        assert_eq!(ids.len(), spans.len(), "each once");
        let orphans = spans
            .iter()
            .filter(|span| (span.name == "query") != ids.contains(&span.parent_span_id));
        assert_eq!(orphans.count(), 0, "each query has its request, and no request a parent");
    }
}

#[test]
fn filters_are_written_and_read() {
    let dir = tempfile::tempdir().expect("a directory");
    record(dir.path());
    let off = Rule { on: false, level: 0, pattern: "q*".to_owned() };
    set_rules(dir.path(), std::slice::from_ref(&off)).expect("set");
    assert_eq!(rules(dir.path()).expect("read"), [off]);
    // A program that starts later follows them.
    for file in std::fs::read_dir(dir.path()).expect("files").flatten() {
        if file.file_name() != "control" {
            std::fs::remove_file(file.path()).expect("removed");
        }
    }
    let made = Command::new(program()).arg("filtered").arg(dir.path()).status().expect("runs");
    assert!(made.success());
    let names: Vec<String> = spans(dir.path()).0.into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["serve"]);
}

#[test]
fn damaged_files_are_read_as_far_as_they_are_whole() {
    let whole = tempfile::tempdir().expect("a directory");
    record(whole.path());
    let files: Vec<(PathBuf, Vec<u8>)> = std::fs::read_dir(whole.path())
        .expect("files")
        .flatten()
        .map(|file| (file.path(), std::fs::read(file.path()).expect("read")))
        .collect();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..300 {
        let (path, bytes) = &files[next() as usize % files.len()];
        let mut damaged = bytes.clone();
        if round % 3 == 0 {
            damaged.truncate(next() as usize % bytes.len());
        } else {
            // The first pages are what matters most.
            for _ in 0..1 + next() % 8 {
                let at = next() as usize % bytes.len().min(9000);
                damaged[at] = next() as u8;
            }
        }
        std::fs::write(path, &damaged).expect("written");
        let _ = spans(whole.path());
        std::fs::write(path, bytes).expect("written");
    }
    assert_eq!(spans(whole.path()).1.read, 2, "undamaged again");
    let segment = files.iter().find(|(path, _)| path.to_string_lossy().ends_with(".0.segment"));
    let (path, bytes) = segment.expect("a segment");
    std::fs::write(path, &bytes[..16]).expect("written");
    let (_, _, problems) = spans(whole.path());
    assert!(!problems.is_empty(), "what is not whole is named");
}

/// A damaged head may claim more than any disk holds: what is not there takes no time.
#[test]
fn a_head_beyond_all_data_comes_to_an_end() {
    let dir = tempfile::tempdir().expect("a directory");
    record(dir.path());
    let (whole, ..) = spans(dir.path());
    let rings: Vec<PathBuf> = std::fs::read_dir(dir.path())
        .expect("files")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ring"))
        .collect();
    let far = 0x6e00_0000_0000_0000_u64;
    for [head, capacity, segment] in [
        [Some(far), None, None],
        // Rings and segments that are larger than their files.
        [Some(far), Some(1 << 62), Some(0)],
        [Some(far), Some(0), Some(1 << 62)],
        [Some(u64::MAX), Some(0), Some(1 << 12)],
    ] {
        let mut kept = Vec::new();
        for path in &rings {
            let before = std::fs::read(path).expect("read");
            let mut bytes = before.clone();
            for (at, value) in [(128, head), (48, capacity), (56, segment)] {
                if let Some(value) = value {
                    bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
                }
            }
            std::fs::write(path, bytes).expect("written");
            kept.push(before);
        }
        assert!(spans(dir.path()).0.len() <= whole.len());
        let mut following = Following::open(dir.path(), Vec::new(), None).expect("followed");
        while following.poll(&mut |_, _| false).1 {}
        for (path, before) in rings.iter().zip(kept) {
            std::fs::write(path, before).expect("written");
        }
    }
}
