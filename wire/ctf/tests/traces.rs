//! Recorded traces, damaged traces, and traces of any types.

use std::path::{Path, PathBuf};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use proptest::prelude::*;
use prost::Message as _;
use spanwise_ctf::{Batch, Counts, Spans, Trace, Value, parse_metadata, traces_below};

fn recorded(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded").join(name)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(recorded(name)).expect("a recording")
}

/// A directory with metadata and one stream.
fn trace(metadata: &[u8], stream: &[u8]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("metadata"), metadata).expect("a file");
    std::fs::write(dir.path().join("stream"), stream).expect("a file");
    dir
}

/// Every event's name, time and fields, and what could not be read.
fn events(dir: &Path) -> Result<(Vec<String>, Vec<String>), String> {
    let mut trace = Trace::open(dir)?;
    let mut found = Vec::new();
    while let Some(step) = trace.step() {
        let Some(event) = step else { continue };
        found.push(format!(
            "{} {} {:?} {:?}",
            event.time_ns, event.class.name, event.common, event.fields
        ));
        assert!(found.len() < 1_000_000, "events have an end");
    }
    Ok((found, trace.problems()))
}

fn batches(dir: &Path, filter: Option<&str>) -> (Vec<Batch>, Counts) {
    let trace = Trace::open(dir).expect("a trace");
    let mut spans = Spans::new(trace, filter.map(str::to_owned));
    let batches = std::iter::from_fn(|| spans.next_batch()).collect();
    (batches, spans.counts)
}

fn spans(batches: &[Batch]) -> Vec<(String, Span)> {
    let mut found = Vec::new();
    for batch in batches {
        let request = ExportTraceServiceRequest::decode(&batch.messages[0][..]).expect("OTLP");
        for of in request.resource_spans {
            let resource = of.resource.expect("a resource");
            let service = match &resource.attributes[0].value.as_ref().expect("a value").value {
                Some(Any::StringValue(service)) => service.clone(),
                other => panic!("{other:?}"),
            };
            for span in of.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                found.push((service.clone(), span));
            }
        }
    }
    found
}

#[test]
fn both_forms_of_metadata_give_the_same_events() {
    let (old, problems) = events(&recorded("lttng")).expect("a trace");
    assert_eq!(problems, [""; 0]);
    assert_eq!(old.len(), 11);
    assert!(old[0].starts_with("1795801704747646578 shop:request_begin "), "{}", old[0]);
    for part in [
        "(\"procname\", Text(\"shop\"))",
        "(\"price\", Float(4.5))",
        "(\"color\", Label(\"MANY\", 3))",
        "(\"pair\", List([Integer(3), Integer(-3)]))",
        "(\"note\", Text(\"1111\"))",
    ] {
        assert!(old[0].contains(part), "{part}: {}", old[0]);
    }
    let dir = trace(&read("ctf2/metadata"), &read("lttng/ch_0"));
    let (new, problems) = events(dir.path()).expect("a trace");
    assert_eq!(problems, [""; 0]);
    assert_eq!(old, new);
}

#[test]
fn events_become_spans() {
    let (batches, counts) = batches(&recorded("lttng"), None);
    assert_eq!(counts, Counts { open: 1, other: 1, messages: 1, ..Counts::default() });
    assert_eq!(batches.iter().map(|batch| batch.items[1]).sum::<u64>(), 1, "log records");
    assert_eq!(batches.iter().map(|batch| batch.items[2]).sum::<u64>(), 1, "points of metrics");
    let spans = spans(&batches);
    let shown: Vec<_> =
        spans.iter().map(|(service, span)| (service.as_str(), span.name.as_str())).collect();
    assert_eq!(
        shown,
        [
            ("talk", "blob"),
            ("shop", "shop:request"),
            ("shop", "shop:request"),
            ("shop", "shop:request"),
        ]
    );
    let (inner, outer, open) = (&spans[1].1, &spans[2].1, &spans[3].1);
    assert_eq!(outer.span_id, [0x11; 8]);
    assert_eq!(inner.parent_span_id, outer.span_id);
    assert_eq!(outer.start_time_unix_nano, 1_795_801_704_747_646_578);
    assert_eq!(outer.end_time_unix_nano, 1_795_801_704_747_652_446);
    assert_eq!(outer.events[0].name, "shop:paid");
    assert!(open.attributes.iter().any(|pair| pair.key == "spanwise.open"));
    assert!(outer.attributes.iter().all(|pair| pair.key != "spanwise.open"));
    let keys: Vec<_> = outer.attributes.iter().map(|pair| pair.key.as_str()).collect();
    assert_eq!(keys, ["items", "price", "color", "pair", "mask", "note", "thread.id"]);
}

#[test]
fn a_filter_is_for_names_of_spans() {
    let (batches, _) = batches(&recorded("lttng"), Some("blo*"));
    assert_eq!(spans(&batches).len(), 1);
}

#[test]
fn traces_are_found_below_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let deep = dir.path().join("ust/uid/0/64-bit");
    std::fs::create_dir_all(deep.join("index")).expect("a directory");
    std::fs::write(deep.join("metadata"), "/* CTF 1.8 */").expect("a file");
    assert_eq!(traces_below(dir.path()).expect("readable"), [deep]);
}

#[test]
fn a_stream_is_read_up_to_where_it_is_cut() {
    let (metadata, stream) = (read("lttng/metadata"), read("lttng/ch_0"));
    let whole = events(trace(&metadata, &stream).path()).expect("a trace").0;
    for cut in 0..1200 {
        let dir = trace(&metadata, &stream[..cut]);
        let (found, problems) = events(dir.path()).expect("a trace");
        assert_eq!(found[..], whole[..found.len()], "cut at {cut}");
        assert_eq!(problems.len(), usize::from(cut > 0), "cut at {cut}: {problems:?}");
    }
}

#[test]
fn wrong_metadata_is_explained() {
    let integer = "integer { size = 8; }";
    for (text, part) in [
        ("", "neither TSDL"),
        ("{", "fragment 1"),
        ("\u{1e}{\"type\":\"preamble\",\"version\":3}", "not 2"),
        ("\u{1e}{\"type\":\"trace-class\"}", "not the first"),
        ("/* CTF 1.8 */ event { fields := struct { nope x; }; };", "line 1: \"nope\""),
        ("/* CTF 1.8 */ event { fields := struct { string x[n]; }; };", "named \"n\""),
        ("/* CTF 1.8 */\n event { fields := integer { size = 65; }; };", "line 2"),
        ("/* CTF 1.8 */ event { fields := integer { size = 8; align = 3; }; };", "power of two"),
        (&format!("/* CTF 1.8 */ event {{ fields := {integer}; }};"), "no structure"),
        (&format!("/* CTF 1.8 */ event {{ fields := {}", "struct {".repeat(5000)), "nest"),
    ] {
        let problem = parse_metadata(text.as_bytes()).expect_err("wrong");
        assert!(problem.contains(part), "{text:.60}: {problem}");
    }
    // Each name has twice the types of the one before.
    let mut text = format!("/* CTF 1.8 */ typealias {integer} := t0;");
    for n in 1..40 {
        text += &format!("typealias struct {{ t{0} a; t{0} b; }} := t{n};", n - 1);
    }
    assert!(parse_metadata(text.as_bytes()).expect_err("too many").contains("500000 types"));
}

const HEAD: &str = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = ORDER; };";

#[test]
fn fields_of_no_bits_and_lengths_without_end_stop() {
    let head = HEAD.replace("ORDER", "le");
    for fields in [
        "struct { }",
        "struct { integer { size = 64; } n; struct { } x[n]; }",
        "struct { integer { size = 64; } n; integer { size = 8; } x[n]; }",
        "struct { struct { } x[18446744073709551615]; }",
    ] {
        let text = format!("{head} stream {{ }}; event {{ name = e; fields := {fields}; }};");
        let dir = trace(text.as_bytes(), &[0xff; 64]);
        let (found, _) = events(dir.path()).expect("a trace");
        assert!(found.len() <= 1, "{fields}: {}", found.len());
    }
}

#[test]
fn clocks_wrap_and_have_offsets() {
    let text = HEAD.replace("ORDER", "le")
        + "clock { name = c; freq = 1000; offset_s = 5; offset = 500; };
           stream { event.header := struct { integer { size = 8; map = clock.c.value; } t; }; };
           event { name = e; fields := struct { integer { size = 8; } n; }; };";
    let dir = trace(text.as_bytes(), &[250, 0, 4, 1, 3, 2]);
    let (found, problems) = events(dir.path()).expect("a trace");
    assert_eq!(problems, [""; 0]);
    let times: Vec<u64> =
        found.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(times, [5_750_000_000, 5_760_000_000, 6_015_000_000]);
}

/// A number of any size at any place: metadata, value, and how it is written.
fn numbers() -> impl Strategy<Value = Vec<(u32, bool, u64)>> {
    prop::collection::vec((1_u32..=64, any::<bool>(), any::<u64>()), 1..12)
}

proptest! {
    #[test]
    fn packed_numbers_are_read_back(numbers in numbers(), big in any::<bool>()) {
        let mut bits = Vec::new();
        let (mut fields, mut expected) = (String::new(), Vec::new());
        for (index, (size, signed, value)) in numbers.iter().enumerate() {
            let value = value & (u64::MAX >> (64 - size));
            fields += &format!(
                "integer {{ size = {size}; align = 1; signed = {signed}; }} f{index};"
            );
            let negative = *signed && value >> (size - 1) == 1;
            let shown = i128::from(value) - if negative { 1_i128 << size } else { 0 };
            expected.push(shown);
            let of = (0..*size).map(|bit| value >> bit & 1 == 1);
            if big { bits.extend(of.rev()) } else { bits.extend(of) }
        }
        let mut stream = vec![0_u8; bits.len().div_ceil(8)];
        for (index, bit) in bits.iter().enumerate() {
            let shift = if big { 7 - index % 8 } else { index % 8 };
            stream[index / 8] |= u8::from(*bit) << shift;
        }
        let order = if big { "be" } else { "le" };
        let text = HEAD.replace("ORDER", order)
            + &format!("stream {{ }}; event {{ name = e; fields := struct {{ {fields} }}; }};");
        let dir = trace(text.as_bytes(), &stream);
        let mut trace = Trace::open(dir.path()).expect("a trace");
        let event = trace.step().expect("an event").expect("a whole one");
        let found: Vec<i128> = event.fields.iter().map(|(_, value)| match value {
            Value::Integer(number) => *number,
            other => panic!("{other:?}"),
        }).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn damaged_traces_do_no_harm(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        in_metadata in any::<bool>(),
        json in any::<bool>(),
    ) {
        let mut metadata = read(if json { "ctf2/metadata" } else { "lttng/metadata" });
        let mut stream = read("lttng/ch_0");
        let damaged = if in_metadata { &mut metadata } else { &mut stream };
        for (at, value) in flips {
            let length = damaged.len().min(if in_metadata { 8192 } else { 1200 });
            damaged[at.index(length)] = value;
        }
        let dir = trace(&metadata, &stream);
        if let Ok(trace) = Trace::open(dir.path()) {
            let mut spans = Spans::new(trace, None);
            let mut count = 0;
            while spans.next_batch().is_some() {
                count += 1;
                prop_assert!(count < 1000);
            }
        }
    }

    #[test]
    fn garbage_is_no_metadata(bytes in prop::collection::vec(any::<u8>(), 0..400), head in 0..4) {
        let mut all = match head {
            0 => b"/* CTF 1.8 */".to_vec(),
            1 => b"\x1e{\"type\":\"preamble\",\"version\":2}\x1e".to_vec(),
            2 => vec![0x57, 0x1d, 0xd1, 0x75],
            _ => Vec::new(),
        };
        all.extend(bytes);
        let _ = parse_metadata(&all);
    }
}
