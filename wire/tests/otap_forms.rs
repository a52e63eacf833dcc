//! Forms of OTAP that the Go producer does not write, as hand-made tables.

mod support;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, DictionaryArray, DurationNanosecondArray, FixedSizeBinaryArray, Float64Array,
    Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
    TimestampNanosecondArray, UInt8Array, UInt16Array, UInt32Array,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema, UInt8Type, UInt16Type};
use arrow::ipc::writer::StreamWriter;
use bytes::Bytes;
use prost::Message;
use spanwise_model::{AttributeValue, Kind, Span, Status};
use spanwise_wire::otap::{Broken, OtapError, OtapLimits, StreamDecoder};
use support::otap::{ArrowPayload, BatchArrowRecords};

const RESOURCE_ATTRS: i32 = 1;
const SPANS: i32 = 40;
const SPAN_ATTRS: i32 = 41;
const SPAN_EVENTS: i32 = 42;
const SPAN_EVENT_ATTRS: i32 = 44;

type Column = (&'static str, ArrayRef);

/// A table. `encodings` declares how some columns are encoded.
fn table(columns: Vec<Column>, encodings: &[(&str, &str)]) -> RecordBatch {
    let fields = columns.iter().map(|(name, array)| {
        let field = Field::new(*name, array.data_type().clone(), true);
        match encodings.iter().find(|(column, _)| column == name) {
            None => field,
            Some((_, encoding)) => field
                .with_metadata(HashMap::from([("encoding".to_owned(), (*encoding).to_owned())])),
        }
    });
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
    RecordBatch::try_new(Arc::new(schema), arrays).unwrap()
}

/// A complete IPC stream of one batch, with its end marker.
fn ipc(table: &RecordBatch) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), table.schema_ref()).unwrap();
    writer.write(table).unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn message(id: i64, tables: &[(i32, RecordBatch)]) -> Bytes {
    let arrow_payloads = tables
        .iter()
        .map(|(payload, table)| ArrowPayload {
            schema_id: format!("{payload} {id}"),
            r#type: *payload,
            record: ipc(table),
        })
        .collect();
    BatchArrowRecords { batch_id: id, arrow_payloads, headers: Vec::new() }.encode_to_vec().into()
}

fn decode(tables: &[(i32, RecordBatch)]) -> Result<Vec<Span>, String> {
    let mut decoder = StreamDecoder::new(OtapLimits::default());
    let batch = decoder
        .decode(&message(1, tables))
        .map_err(|Broken { error, .. }| format!("broken: {error}"))?;
    let decoded = batch.decoded.map_err(|error| error.to_string())?;
    Ok(support::rows(decoded))
}

fn fixed<const N: usize>(values: &[[u8; N]]) -> ArrayRef {
    Arc::new(FixedSizeBinaryArray::try_from_iter(values.iter()).unwrap())
}

/// `SPANS` with the minimum of columns, plus these.
fn spans(count: u8, more: Vec<Column>, encodings: &[(&str, &str)]) -> RecordBatch {
    let ids: Vec<[u8; 8]> = (1..=count).map(|number| [number; 8]).collect();
    let mut columns =
        vec![("trace_id", fixed(&vec![[1; 16]; usize::from(count)])), ("span_id", fixed(&ids))];
    columns.extend(more);
    table(columns, encodings)
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a AttributeValue> {
    span.attributes.iter().find(|(other, _)| other == key).map(|(_, value)| value)
}

#[test]
fn columns_may_be_missing_null_or_unknown() {
    let status = StructArray::try_new(
        vec![
            Arc::new(Field::new("code", DataType::Int32, true)),
            Arc::new(Field::new("status_message", DataType::Utf8, true)),
        ]
        .into(),
        vec![Arc::new(Int32Array::from(vec![2, 2])), texts(&[Some("why"), Some("not said")])],
        // The second is null, whatever its columns contain.
        Some(vec![true, false].into()),
    )
    .unwrap();
    let kinds: DictionaryArray<UInt8Type> = DictionaryArray::new(
        UInt8Array::from(vec![Some(1), None]),
        Arc::new(Int32Array::from(vec![3, 2])),
    );
    let rows = decode(&[(
        SPANS,
        spans(
            2,
            vec![
                ("status", Arc::new(status)),
                ("kind", Arc::new(kinds)),
                ("start_time_unix_nano", Arc::new(TimestampNanosecondArray::from(vec![7, 8]))),
                ("duration_time_unix_nano", Arc::new(DurationNanosecondArray::from(vec![5, -8]))),
                ("of_a_later_version", Arc::new(UInt32Array::from(vec![1, 2]))),
            ],
            &[],
        ),
    )])
    .unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].status, rows[0].error.as_deref()), (Status::Error, Some("why")));
    assert_eq!((rows[1].status, rows[1].error.as_deref()), (Status::Unset, None));
    assert_eq!((rows[0].kind, rows[1].kind), (Kind::Server, Kind::Internal));
    assert_eq!((rows[0].start_unix_nano, rows[0].duration_nano), (7, 5));
    // The end is zero, which means none.
    assert_eq!((rows[1].start_unix_nano, rows[1].duration_nano), (8, 0));
    assert_eq!(rows[0].service, "unknown_service");
}

#[test]
fn ids_are_differences_unless_said_otherwise() {
    let ids = |values: Vec<Option<u16>>| ("id", Arc::new(UInt16Array::from(values)) as ArrayRef);
    let parents = |values: Vec<u16>| ("parent_id", Arc::new(UInt16Array::from(values)) as ArrayRef);
    let types = ("type", Arc::new(UInt8Array::from(vec![1; 4])) as ArrayRef);
    let keys = ("key", texts(&[Some("k"); 4]));
    let values = ("str", texts(&[Some("a"), Some("a"), Some("a"), Some("b")]));
    let attributes = |given, encodings| {
        table(vec![parents(given), types.clone(), keys.clone(), values.clone()], encodings)
    };
    let found = |spans: RecordBatch, attributes: RecordBatch| {
        let rows = decode(&[(SPANS, spans), (SPAN_ATTRS, attributes)]).unwrap();
        rows.iter()
            .map(|row| attribute(row, "k").map(ToString::to_string).unwrap_or_default())
            .collect::<String>()
    };
    // Ids 0, 1, none, 2, 5; parents 0, 1, 5, and 2.
    let usual = spans(5, vec![ids(vec![Some(0), Some(1), None, Some(1), Some(3)])], &[]);
    assert_eq!(found(usual.clone(), attributes(vec![0, 1, 4, 2], &[])), "aaba");
    let plain = [("id", "plain"), ("parent_id", "plain")];
    let said = spans(5, vec![ids(vec![Some(7), Some(3), None, Some(1), Some(0)])], &plain);
    assert_eq!(found(said.clone(), attributes(vec![0, 7, 3, 1], &plain)), "aaba");
    // The whole column as differences, which may be negative.
    let delta = [("parent_id", "delta")];
    assert_eq!(found(usual, attributes(vec![0, 1, 4, 0xffff - 2], &delta)), "aaba");
    let unknown = [("parent_id", "rle")];
    let error = decode(&[(SPANS, said), (SPAN_ATTRS, attributes(vec![0; 4], &unknown))]);
    assert!(error.unwrap_err().contains("unknown encoding"));
}

#[test]
fn zeros_and_no_numbers_are_compared_as_the_sender_does() {
    let doubles = vec![0.0, -0.0, f64::NAN, f64::NAN];
    let attributes = |given: Vec<u16>, encodings| {
        table(
            vec![
                ("parent_id", Arc::new(UInt16Array::from(given))),
                ("key", texts(&[Some("k"); 4])),
                ("type", Arc::new(UInt8Array::from(vec![3; 4]))),
                ("double", Arc::new(Float64Array::from(doubles.clone()))),
            ],
            encodings,
        )
    };
    let ids: ArrayRef = Arc::new(UInt16Array::from(vec![0, 1, 1, 1]));
    for (given, encodings) in [
        // Compared as numbers: zeros are equal, and NaN is not.
        (vec![0, 1, 2, 3], &[][..]),
        // Compared as bits, if the column's encoding is declared: the reverse.
        (vec![0, 1, 2, 1], &[("parent_id", "quasidelta")][..]),
    ] {
        let spans = spans(4, vec![("id", Arc::clone(&ids))], &[]);
        let rows = decode(&[(SPANS, spans), (SPAN_ATTRS, attributes(given, encodings))]).unwrap();
        let found: Vec<_> = rows.iter().map(|row| attribute(row, "k").is_some()).collect();
        assert_eq!(found, [true; 4], "{encodings:?}");
    }
}

#[test]
fn wide_ids_may_have_a_dictionary() {
    let spans = spans(2, vec![("id", Arc::new(UInt16Array::from(vec![0, 1])))], &[]);
    let events = table(
        vec![
            ("id", Arc::new(UInt32Array::from(vec![70_000, 1]))),
            ("parent_id", Arc::new(UInt16Array::from(vec![1, 0]))),
            ("name", texts(&[Some("b"), Some("b")])),
            // The later event first. Events of a span are sorted.
            ("time_unix_nano", Arc::new(TimestampNanosecondArray::from(vec![20, 10]))),
        ],
        &[],
    );
    let parents: DictionaryArray<UInt8Type> = DictionaryArray::new(
        UInt8Array::from(vec![0, 1]),
        Arc::new(UInt32Array::from(vec![70_000, 70_001])),
    );
    let attributes = table(
        vec![
            ("parent_id", Arc::new(parents)),
            ("key", texts(&[Some("n"), Some("n")])),
            ("type", Arc::new(UInt8Array::from(vec![2, 2]))),
            ("int", Arc::new(Int64Array::from(vec![20, 10]))),
        ],
        &[],
    );
    let rows =
        decode(&[(SPANS, spans), (SPAN_EVENTS, events), (SPAN_EVENT_ATTRS, attributes)]).unwrap();
    assert!(rows[0].events.is_empty());
    let found: Vec<_> = rows[1]
        .events
        .iter()
        .map(|event| (event.time_unix_nano, event.attributes[0].1.clone()))
        .collect();
    assert_eq!(found, [(10, AttributeValue::Int(10)), (20, AttributeValue::Int(20))]);
}

#[test]
fn a_resource_without_a_scope_and_the_other_way_round() {
    let resource = StructArray::from(vec![(
        Arc::new(Field::new("id", DataType::UInt16, true)),
        Arc::new(UInt16Array::from(vec![0, 1, 0])) as ArrayRef,
    )]);
    let names: DictionaryArray<UInt16Type> = vec!["a", "b", "b"].into_iter().collect();
    let scope = StructArray::from(vec![(
        Arc::new(Field::new("name", names.data_type().clone(), true)),
        Arc::new(names) as ArrayRef,
    )]);
    let attributes = table(
        vec![
            ("parent_id", Arc::new(UInt16Array::from(vec![0, 1]))),
            ("key", texts(&[Some("service.name"), Some("service.name")])),
            ("type", Arc::new(UInt8Array::from(vec![1, 1]))),
            ("str", texts(&[Some("cart"), Some("stock")])),
        ],
        &[],
    );
    let spans = spans(3, vec![("resource", Arc::new(resource)), ("scope", Arc::new(scope))], &[]);
    let rows = decode(&[(RESOURCE_ATTRS, attributes), (SPANS, spans)]).unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row.service.as_str(), attribute(row, "otel.scope.name").unwrap().to_string()))
        .collect();
    assert_eq!(
        found,
        [("cart", "a".to_owned()), ("stock", "b".to_owned()), ("stock", "b".to_owned())]
    );
}

#[test]
fn what_belongs_to_nothing_in_the_batch_is_left_out_and_counted() {
    let ids = |ids: [u16; 2]| Arc::new(UInt16Array::from(ids.to_vec())) as ArrayRef;
    let attributes = |parents: ArrayRef| {
        table(
            vec![
                ("parent_id", parents),
                ("key", texts(&[Some("a"), Some("b")])),
                ("type", Arc::new(UInt8Array::from(vec![1, 1]))),
                ("str", texts(&[Some("x"), Some("y")])),
            ],
            &[("parent_id", "plain")],
        )
    };
    let events = table(
        vec![("id", ids([3, 4])), ("parent_id", ids([20, 30])), ("name", texts(&[None, None]))],
        &[("id", "plain"), ("parent_id", "plain")],
    );
    let batch = message(
        1,
        &[
            (SPANS, spans(2, vec![("id", ids([10, 20]))], &[("id", "plain")])),
            (SPAN_ATTRS, attributes(ids([20, 11]))),
            (SPAN_EVENTS, events),
            (SPAN_EVENT_ATTRS, attributes(Arc::new(UInt32Array::from(vec![3, 5])))),
        ],
    );
    let batch = StreamDecoder::new(OtapLimits::default()).decode(&batch).unwrap();
    // An attribute of a span, an event, and an attribute of an event.
    assert_eq!(batch.orphans, 3);
    let rows = support::rows(batch.decoded.unwrap());
    assert!(rows[0].attributes.is_empty() && rows[0].events.is_empty(), "{:?}", rows[0]);
    assert!(attribute(&rows[1], "a").is_some() && rows[1].attributes.len() == 1, "{:?}", rows[1]);
    assert_eq!(rows[1].events.len(), 1);
    assert_eq!(rows[1].events[0].attributes.len(), 1);
}

#[test]
fn what_is_wrong_with_a_table_is_said() {
    let attributes = |columns| (SPAN_ATTRS, table(columns, &[]));
    let parent = || ("parent_id", Arc::new(UInt16Array::from(vec![0])) as ArrayRef);
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)])]);
    for (columns, part) in [
        (vec![("key", texts(&[Some("k")]))], "row 0 has no `parent_id`"),
        (
            vec![parent(), ("type", Arc::new(UInt8Array::from(vec![8])) as ArrayRef)],
            "unknown type 8",
        ),
        (vec![parent(), ("key", Arc::new(Int64Array::from(vec![1])))], "column `key` should not"),
        (
            vec![parent(), ("x", Arc::new(list))],
            "broken: the OTAP batch cannot be read: SPAN_ATTRS",
        ),
    ] {
        let error = decode(&[(SPANS, spans(1, Vec::new(), &[])), attributes(columns)]).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let twice = decode(&[(SPANS, spans(1, Vec::new(), &[])), (SPANS, spans(1, Vec::new(), &[]))]);
    assert!(twice.unwrap_err().contains("more than once"));
    assert_eq!(decode(&[]).unwrap(), []);
}

/// A dictionary with one long text that every row uses.
fn one_text_in_many_rows(of_spans: u8, rows: u16, text: &str) -> Bytes {
    let values: DictionaryArray<UInt16Type> =
        DictionaryArray::new(UInt16Array::from(vec![0; usize::from(rows)]), texts(&[Some(text)]));
    let attributes = table(
        vec![
            ("parent_id", Arc::new(UInt16Array::from(vec![0; usize::from(rows)]))),
            ("key", texts(&vec![Some("k"); usize::from(rows)])),
            ("type", Arc::new(UInt8Array::from(vec![1; usize::from(rows)]))),
            ("str", Arc::new(values)),
        ],
        &[],
    );
    let ids: ArrayRef = Arc::new(UInt16Array::from(vec![0; usize::from(of_spans)]));
    message(1, &[(SPANS, spans(of_spans, vec![("id", ids)], &[])), (SPAN_ATTRS, attributes)])
}

#[test]
fn a_text_that_many_rows_name_is_counted_for_each() {
    let mut decoder = StreamDecoder::new(OtapLimits::default());
    let text = "x".repeat(1 << 20);
    // 20,000 MiB in each span.
    let decoded = decoder.decode(&one_text_in_many_rows(50, 20_000, &text)).unwrap();
    let decoded = decoded.decoded.unwrap();
    assert_eq!((decoded.batch.num_rows(), decoded.rejections.total()), (0, 50));
    // Exceeds the size limit of a batch, whether spans are accepted or rejected.
    for rows in [3, 20_000] {
        let batch = decoder.decode(&one_text_in_many_rows(100, rows, &text)).unwrap();
        let error = batch.decoded.unwrap_err();
        assert!(matches!(error, OtapError::TooLarge { what: "bytes of rows", .. }), "{error}");
    }
}
