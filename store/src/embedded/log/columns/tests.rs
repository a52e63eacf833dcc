use arrow::array::{Int32Array, StringArray};
use proptest::prelude::*;
use spanwise_model::schema::column;
use spanwise_model::{
    AttributeValue, Attributes, Capture, Event, Evidence, Kind, Link, Span, SpanBatchBuilder,
    SpanId, TraceId,
};

use super::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-e]{1,3}", "é{0,3}", Just("long ".repeat(40))]
}

fn value() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        text().prop_map(AttributeValue::String),
        any::<i64>().prop_map(AttributeValue::Int),
        any::<bool>().prop_map(AttributeValue::Bool),
    ]
}

fn attributes() -> impl Strategy<Value = Attributes> {
    prop::collection::vec((text(), value()), 0..6)
}

fn span() -> impl Strategy<Value = Span> {
    let ids = (any::<[u8; 16]>(), 1..u64::MAX, any::<u8>());
    let texts = (text(), text(), text());
    let lists = (attributes(), prop::collection::vec((text(), attributes()), 0..3));
    (ids, texts, any::<i64>(), lists).prop_map(|(ids, texts, start, (attributes, inner))| {
        let (trace, id, some) = ids;
        let id = SpanId::from_u64(id).expect("not zero");
        let kind = Kind::ALL[usize::from(some) % Kind::ALL.len()];
        let mut span = Span::new(id, Capture::App, kind, &texts.0, &texts.1, start, 7);
        let has = |bit: u32| some >> bit & 1 == 1;
        span.trace_id = has(0).then_some(TraceId(trace));
        span.parent_span_id = has(1).then_some(id);
        span.trace_state = has(2).then(|| texts.2.clone());
        span.flow.client_port = has(3).then_some(80);
        span.evidence = has(4).then_some(Evidence::Thread);
        span.confidence = has(5).then_some(0.5);
        span.fragment_id = has(6).then_some(9);
        span.network.rtt_nano = has(7).then_some(start);
        for (name, attributes) in inner {
            let link =
                Link { trace_id: TraceId([1; 16]), span_id: id, trace_state: None, attributes };
            span.events.push(Event { time_unix_nano: 3, name, attributes: attributes_of(&link) });
            span.links.push(link);
        }
        span.attributes = attributes;
        span
    })
}

fn attributes_of(link: &Link) -> Attributes {
    link.attributes.iter().rev().cloned().collect()
}

fn batch(spans: &[Span]) -> RecordBatch {
    spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch")
}

fn written(rows: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(rows, &mut bytes).expect("of the span schema");
    bytes
}

proptest! {
    #[test]
    fn batches_and_parts_of_them_survive(
        spans in prop::collection::vec(span(), 0..20),
        from in any::<prop::sample::Index>(),
        count in any::<prop::sample::Index>(),
    ) {
        let whole = batch(&spans);
        prop_assert_eq!(&read(&written(&whole)).expect("reads"), &whole);
        let from = from.index(spans.len() + 1);
        let part = whole.slice(from, count.index(spans.len() - from + 1));
        prop_assert_eq!(read(&written(&part)).expect("reads"), part);
    }

    #[test]
    fn damage_is_an_error_or_another_batch(
        spans in prop::collection::vec(span(), 1..8),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = written(&batch(&spans));
        let cut = cut.index(bytes.len());
        let _ = read(&bytes[..cut]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = read(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }
}

#[test]
fn a_number_of_rows_alone_is_not_believed() {
    assert!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]).is_err());
    assert_eq!(read(&[0]).expect("no rows").num_rows(), 0);
}

/// A dictionary from another sender: with a null value, with unused values, and with more values
/// than a byte can count.
#[test]
fn dictionaries_of_others_survive() {
    let rows = batch(&[Span::new(SpanId([1; 8]), Capture::App, Kind::Client, "a", "b", 1, 2)]);
    let rows = arrow::compute::concat_batches(&rows.schema(), &vec![rows; 3]).expect("one batch");
    for count in [3_usize, 0x101, 0x1_0001] {
        let values: StringArray =
            (0..count).map(|n| (n != 1).then(|| format!("value {n}"))).collect();
        let last = count as i32 - 1;
        let keys = Int32Array::from(vec![Some(1), None, Some(last)]);
        let errors = DictionaryArray::try_new(keys, Arc::new(values)).expect("a dictionary");
        let at = rows.schema().index_of(column::ERROR).expect("a column");
        let mut columns = rows.columns().to_vec();
        columns[at] = Arc::new(errors);
        let rows = RecordBatch::try_new(rows.schema(), columns).expect("a batch");
        assert_eq!(read(&written(&rows)).expect("reads"), rows);
    }
}
