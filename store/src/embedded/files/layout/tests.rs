//! Files return what was written: for all rows, subsets of rows and columns, and after merging.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use spanwise_model::schema::column;
use spanwise_model::{
    AttributeValue, Capture, Evidence, Kind, ResourceJson, Span, SpanBatch, SpanBatchBuilder,
    SpanId, TraceId,
};

use super::Wanted;
use crate::embedded::duplicates::origins::TakenRanges;
use crate::embedded::files::SpanFile;
use crate::embedded::files::{reader, writer};

fn id(n: u64) -> SpanId {
    SpanId::from_u64(n + 1).expect("not zero")
}

fn value() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        "[a-c]{0,3}".prop_map(AttributeValue::from),
        "[0-9a-f]{7,8}".prop_map(AttributeValue::from),
        "[0-9a-fA]{4,32}".prop_map(AttributeValue::from),
        "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".prop_map(AttributeValue::from),
        any::<i64>().prop_map(AttributeValue::Int),
        (0i64..3).prop_map(AttributeValue::Int),
        any::<bool>().prop_map(AttributeValue::Bool),
        Just(AttributeValue::Double(0.5)),
        Just(AttributeValue::Bytes("AQI=".to_owned())),
        Just(AttributeValue::Json("[1]".to_owned())),
    ]
}

prop_compose! {
    /// Few distinct traces, parents inside and outside the file, and names that may or may not be
    /// derived from the resource.
    fn span(n: u64)(
        trace in proptest::option::of(1u8..4),
        assembled in proptest::option::of(1u8..4),
        as_sent in any::<bool>(),
        parent in proptest::option::of(0u64..40),
        found in proptest::option::of(0u64..40),
        instance in proptest::option::of("[ab]?"),
        host in proptest::option::of("[ab]?"),
        resource in prop::sample::select(vec![
            "{}", "not JSON", r#"{"service.instance.id":"a"}"#,
            r#"{"host.name":"a","service.instance.id":"b"}"#, r#"{"host.name":7}"#,
        ]),
        attributes in proptest::collection::vec(("[k-m]", value()), 0..6),
        operation in "[op]",
        client in proptest::option::of((prop_oneof![Just("1.1.1.1"), Just("1.1.1.2")], 7u16..9)),
        peer in proptest::option::of((prop_oneof![Just("1.1.1.1"), Just("1.1.1.3")], 7i64..9)),
        numbers in (proptest::option::of(0i32..2), proptest::option::of(0u32..2)),
        link in (
            proptest::option::of(prop::sample::select(Evidence::ALL)),
            proptest::option::of(prop::sample::select(vec![1.0f32, 0.9, 0.0])),
        ),
    ) -> Span {
        let mut span = Span::new(id(n), Capture::App, Kind::Internal, "s", operation, n as i64, 1);
        span.flow.client_address = client.map(|(address, _)| address.to_owned());
        span.flow.client_port = client.map(|(_, port)| port);
        (span.status_code, span.process_id) = numbers;
        (span.evidence, span.confidence) = link;
        span.trace_id = trace.map(|byte| TraceId([byte; 16]));
        span.parent_span_id = parent.map(id);
        span.assembled_trace_id =
            if as_sent { span.trace_id } else { assembled.map(|byte| TraceId([byte; 16])) };
        span.assembled_parent = if as_sent { span.parent_span_id } else { found.map(id) };
        span.instance = instance;
        span.host = host;
        span.resource = ResourceJson::from_column(resource);
        span.attributes = attributes;
        if let Some((address, port)) = peer {
            let of = if as_sent { "network.peer" } else { "client" };
            span.attributes.push((format!("{of}.address"), address.into()));
            span.attributes.push((format!("{of}.port"), AttributeValue::Int(port)));
        }
        span
    }
}

fn spans(count: u64) -> impl Strategy<Value = Vec<Span>> {
    (0..count).map(span).collect::<Vec<_>>()
}

/// Normalises spans for comparison: sorted by id, attributes sorted.
fn sorted(mut spans: Vec<Span>) -> Vec<Span> {
    for span in &mut spans {
        span.attributes.sort_by_key(|(key, value)| (key.clone(), format!("{value:?}")));
    }
    spans.sort_by_key(|span| span.span_id);
    spans
}

fn written(directory: &Path, generation: u64, spans: &[Span]) -> Arc<SpanFile> {
    // Some rows have attributes in a map, others in templates.
    let (first, others) = spans.split_at(spans.len() / 3);
    let (second, third) = others.split_at(others.len() / 2);
    let maps = first.iter().chain(second).collect::<SpanBatchBuilder>().finish().expect("a batch");
    let mut builder = SpanBatchBuilder::sharing();
    // The builder starts using templates after some thousand rows. Values of this key stay with the
    // rows.
    for (n, span) in third.iter().cycle().take(5_000).enumerate() {
        let mut span = span.clone();
        for (key, value) in &mut span.attributes {
            if key == "l" && matches!(value, AttributeValue::String(_)) {
                *value = n.to_string().into();
            }
        }
        builder.push(&span);
    }
    builder.finish_rows().expect("rows");
    third.iter().for_each(|span| builder.push(span));
    let batches = [
        maps.slice(0, first.len()).into(),
        builder.finish_rows().expect("rows"),
        maps.slice(first.len(), second.len()).into(),
    ];
    let file = writer::write(directory, (generation, generation), &batches, &notes());
    Arc::new(file.expect("written").expect("rows"))
}

fn notes() -> writer::Notes {
    writer::Notes { origins: TakenRanges::new(), deletions: 0, written_unix_nano: 0 }
}

fn read(file: &SpanFile, rows: &[std::ops::Range<usize>]) -> Vec<Span> {
    let batches = reader::read(file, rows, &Wanted::ALL).expect("read");
    let of = |batch| {
        let batch = SpanBatch::try_from(batch).expect("spans");
        batch.spans().map(|span| span.expect("a span")).collect::<Vec<_>>()
    };
    batches.into_iter().flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(
        first in spans(30), second in spans(25), picked in proptest::collection::vec(any::<bool>(), 30),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let wanted = sorted(first.clone());
        let file = written(directory.path(), 1, &first);
        prop_assert_eq!(&sorted(read(&file, &[file.all_rows()])), &wanted);

        // A subset of the rows, whose parents may be outside the subset.
        let picked: Vec<_> =
            (0..30usize).filter(|row| picked[*row]).map(|row| row..row + 1).collect();
        for span in sorted(read(&file, &picked)) {
            prop_assert!(wanted.contains(&span), "{:?}", span);
        }
        // A subset of the columns.
        let columns = [column::ASSEMBLED_PARENT, column::HOST, column::ATTRIBUTES];
        let some = Wanted { keys: Some(&["k"]), parent_ids: false, ..Wanted::columns(&columns) };
        let all = read(&file, &[file.all_rows()]);
        let batches = reader::read(&file, &[file.all_rows()], &some).expect("read");
        let parents: Vec<bool> = batches
            .iter()
            .flat_map(|batch| {
                let parents = batch.column_by_name(column::ASSEMBLED_PARENT).expect("parents");
                (0..batch.num_rows()).map(|row| parents.is_valid(row)).collect::<Vec<_>>()
            })
            .collect();
        let has_parent: Vec<bool> = all.iter().map(|span| span.assembled_parent.is_some()).collect();
        prop_assert_eq!(parents, has_parent);

        // Merges two files with different attributes.
        let parts = [file, written(directory.path(), 2, &second)];
        let merged = writer::merge(directory.path(), (1, 2), &parts, &notes());
        let merged = merged.expect("merged").expect("rows");
        let mut both = wanted;
        both.extend(sorted(second));
        both.sort_by_key(|span| (span.span_id, format!("{span:?}")));
        let mut found = sorted(read(&merged, &[merged.all_rows()]));
        found.sort_by_key(|span| (span.span_id, format!("{span:?}")));
        prop_assert_eq!(found, both);
    }
}

/// Takes minutes if each attribute is compared with all earlier ones.
#[test]
fn a_span_of_very_many_attributes_is_written_and_read() {
    let mut span = Span::new(id(1), Capture::App, Kind::Internal, "s", "o", 1, 1);
    // Each key occurs twice.
    let key = |n: i64| (format!("key {}", n / 2), AttributeValue::Int(n));
    span.attributes = (0..400_000).map(key).collect();
    let batch = [&span].into_iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
    let directory = tempfile::tempdir().expect("a directory");
    let file = writer::write(directory.path(), (1, 1), &[batch.into()], &notes());
    let file = file.expect("written").expect("rows");
    assert_eq!(sorted(read(&file, &[file.all_rows()])), sorted(vec![span]));
}

/// If there are many shapes, only those of the selected rows are read.
#[test]
fn a_few_rows_of_many_shapes_are_what_was_written() {
    let spans: Vec<Span> = (0..3_000)
        .map(|n| {
            let operation = format!("operation {}", n % 1_500);
            let mut span = Span::new(id(n), Capture::App, Kind::Internal, "s", operation, 9, 1);
            span.instance = Some(format!("instance {}", n % 7));
            span.host = (n % 3 == 0).then(|| "host".to_owned());
            span.status_code = Some((n % 5) as i32 - 2);
            span
        })
        .collect();
    let directory = tempfile::tempdir().expect("a directory");
    let mut builder = SpanBatchBuilder::new();
    spans.iter().for_each(|span| builder.push(span));
    let rows = [builder.finish().expect("a batch").into()];
    let file = writer::write(directory.path(), (1, 1), &rows, &notes()).expect("written");
    let file = file.expect("rows");
    let read = |rows: &[std::ops::Range<usize>]| -> Vec<Span> {
        let batches = reader::read(&file, rows, &Wanted::ALL).expect("read");
        let spans = |batch| {
            let batch = SpanBatch::try_from(batch).expect("spans");
            batch.spans().map(|span| span.expect("a span")).collect::<Vec<_>>()
        };
        batches.into_iter().flat_map(spans).collect()
    };
    // First a few shapes are read, then all, which are cached.
    for _ in 0..2 {
        for first in (0..2_990).step_by(331) {
            let few = read(&[first..first + 2, first + 7..first + 8]);
            assert_eq!(few.len(), 3);
            for span in few {
                let written = spans.iter().find(|written| written.span_id == span.span_id);
                assert_eq!(Some(&span), written);
            }
        }
        assert_eq!(read(&[file.all_rows()]).len(), spans.len());
    }
}
