//! Flight messages: round trips and untrusted input.

use std::sync::{Arc, LazyLock, Mutex};

use arrow::array::{ArrayRef, AsArray, DictionaryArray, Int32Array, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int32Type};
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow::ipc::{CompressionType, MetadataVersion};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use bytes::Bytes;
use futures::TryStreamExt;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use spanwise_model::{
    Capture, Evidence, Kind, Link, Slot, Span, SpanBatch, SpanBatchBuilder, SpanId, SpanRows,
    Templated, TraceId, schema,
};
use spanwise_wire::flight::{
    Encoder, FlightError, FlightLimits, Origin, Put, PutDecoder, schema_message,
};

fn spans(count: u64) -> Vec<Span> {
    (1..=count)
        .map(|number| {
            let mut span = Span::new(
                SpanId::from_u64(number).unwrap(),
                if number % 2 == 0 { Capture::ClientProcess } else { Capture::ServerProcess },
                if number % 2 == 0 { Kind::Client } else { Kind::Server },
                ["cart", "orders", "stock"][usize::try_from(number % 3).unwrap()],
                format!("GET /{}", number % 5),
                1_700_000_000_000_000_000 + number.cast_signed(),
                1000,
            );
            span.request_tcp_seq = Some(u32::try_from(number).unwrap());
            span.evidence = (number % 4 == 0).then_some(Evidence::Thread);
            span.attributes = vec![
                ("http.route".into(), "/x".into()),
                ("url.path".into(), format!("/x/{number}").into()),
                ("n".into(), 7_i64.into()),
            ];
            span
        })
        .collect()
}

const ORIGIN: Origin = Origin { source: [7; 16], sequence: 1 };

/// A builder of batches whose rows share templates.
fn sharing() -> SpanBatchBuilder {
    let mut builder = SpanBatchBuilder::sharing();
    // It learns templates from these.
    spans(5000).iter().for_each(|span| builder.push(span));
    builder.finish_rows().unwrap();
    builder
}

/// A batch whose rows share templates.
fn shared_rows(spans: &[Span]) -> SpanRows {
    static BUILDER: LazyLock<Mutex<SpanBatchBuilder>> = LazyLock::new(|| sharing().into());
    let mut builder = BUILDER.lock().unwrap();
    spans.iter().for_each(|span| builder.push(span));
    builder.finish_rows().unwrap()
}

fn messages(rows: &SpanRows) -> Vec<FlightData> {
    let encoded = Encoder::new().unwrap().encode(rows, ORIGIN).unwrap();
    std::iter::once(schema_message()).chain(encoded.messages).collect()
}

/// Schema and one batch.
fn stream(count: u64) -> Vec<FlightData> {
    messages(&shared_rows(&spans(count)))
}

/// The batch of a stream according to Arrow's own reader.
fn read(sent: Vec<FlightData>) -> RecordBatch {
    let messages = futures::stream::iter(sent.into_iter().map(Ok));
    let batches = FlightRecordBatchStream::new_from_flight_data(messages).try_collect::<Vec<_>>();
    let [batch] = futures::executor::block_on(batches).unwrap().try_into().unwrap();
    batch
}

/// Messages from Arrow's own writer.
fn written(batch: &RecordBatch, compression: Option<CompressionType>) -> Vec<FlightData> {
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)
        .and_then(|options| options.try_with_compression(compression))
        .unwrap();
    let generator = IpcDataGenerator::default();
    let mut tracker = DictionaryTracker::new(false);
    generator.schema_to_bytes_with_dictionary_tracker(&batch.schema(), &mut tracker, &options);
    let (dictionaries, rows) =
        generator.encode(batch, &mut tracker, &options, &mut IpcWriteContext::default()).unwrap();
    let message = |encoded: arrow::ipc::writer::EncodedData| {
        FlightData::new().with_data_header(encoded.ipc_message).with_data_body(encoded.arrow_data)
    };
    let metadata = stream(1).pop().unwrap().app_metadata;
    std::iter::once(schema_message())
        .chain(dictionaries.into_iter().map(message))
        .chain(std::iter::once(message(rows).with_app_metadata(metadata)))
        .collect()
}

/// Like [`stream`], compressed with zstd.
fn zstd_stream(count: u64) -> Vec<FlightData> {
    written(&read(stream(count)), Some(CompressionType::ZSTD))
}

fn decode(messages: Vec<FlightData>) -> Result<Option<Put>, FlightError> {
    let mut decoder = PutDecoder::new(FlightLimits::default(), Arc::default());
    let mut last = None;
    for message in messages {
        last = decoder.push(message)?;
    }
    Ok(last)
}

fn rows(put: Option<Put>) -> (Origin, Vec<Span>) {
    let Some(Put::Batch { origin, rows, .. }) = put else { panic!("no batch: {put:?}") };
    let spans = SpanBatch::try_from(rows).unwrap().spans().collect::<Result<_, _>>().unwrap();
    (origin, spans)
}

#[test]
fn batches_survive_on_one_stream_in_any_number() {
    let mut encoder = Encoder::new().unwrap();
    let mut decoder = PutDecoder::new(FlightLimits::default(), Arc::default());
    assert!(decoder.push(schema_message()).unwrap().is_none());
    for (index, count) in [1, 500, 3].into_iter().enumerate() {
        let wanted = spans(count);
        let origin = Origin { sequence: index as u64 + 1, ..ORIGIN };
        let encoded = encoder.encode(&shared_rows(&wanted), origin).unwrap();
        let mut last = None;
        for message in encoded.messages {
            last = decoder.push(message).unwrap();
        }
        assert_eq!(rows(last), (origin, wanted));
    }
}

/// The rows after a round trip.
fn arrived(sent: &SpanRows) -> SpanRows {
    let put = decode(messages(sent)).unwrap();
    let Some(Put::Batch { rows, .. }) = put else { panic!("no batch: {put:?}") };
    rows
}

/// The batch after a round trip.
fn sent(batch: &RecordBatch) -> RecordBatch {
    arrived(&batch.clone().into()).whole().unwrap()
}

#[test]
fn what_spans_have_in_common_stays_in_common() {
    let mut all = spans(300);
    // Some of these have too many attributes for a template.
    for (span, number) in all.iter_mut().zip(0_i64..).step_by(50) {
        span.attributes = (0..200).map(|key| (format!("k{key}"), number.into())).collect();
    }
    let rows = shared_rows(&all);
    let templates = Arc::default();
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut decoder = PutDecoder::new(FlightLimits::default(), Arc::clone(&templates));
        let mut last = None;
        for message in messages(&rows) {
            last = decoder.push(message).unwrap();
        }
        let Some(Put::Batch { rows: found, .. }) = last else { panic!("no batch: {last:?}") };
        assert_eq!(found.whole().unwrap(), rows.whole().unwrap());
        let [found, wanted] = [&found, &rows].map(|rows| rows.templated().unwrap());
        assert_eq!(found.offsets(), wanted.offsets());
        assert_eq!(found.texts(), wanted.texts());
        let slots = |templated: &Templated| -> Vec<Vec<Slot>> {
            templated.templates().iter().map(|template| template.slots().to_vec()).collect()
        };
        assert_eq!(slots(found), slots(wanted));
        assert!((1..10).contains(&found.templates().len()));
        ids.push(found.templates().iter().map(|template| template.id()).collect::<Vec<_>>());
    }
    assert_eq!(ids[0], ids[1], "another stream's templates are the same ones");
}

/// The messages of a batch after a test changed its columns.
fn changed(change: impl FnOnce(&mut Vec<ArrayRef>)) -> Vec<FlightData> {
    let batch = read(stream(20));
    let mut columns = batch.columns().to_vec();
    change(&mut columns);
    written(&RecordBatch::try_new(batch.schema(), columns).unwrap(), None)
}

#[test]
fn rows_and_templates_that_do_not_belong_together_are_refused() {
    let columns = schema::span_schema().fields().len();
    let (template, own_texts) = (columns, columns + 1);
    let attributes = schema::span_schema().index_of(schema::column::ATTRIBUTES).unwrap();
    assert_eq!(rows(decode(changed(|_| {})).unwrap()).1, spans(20));
    let refused = |change: fn(&mut Vec<ArrayRef>, [usize; 3])| {
        let messages = changed(|columns| change(columns, [attributes, template, own_texts]));
        let error = decode(messages).unwrap_err().to_string();
        assert!(error.contains("do not belong together"), "{error}");
    };
    // One row has fewer texts than its template needs, and another has more.
    refused(|columns, [_, _, own_texts]| {
        let list = columns[own_texts].as_list::<i32>();
        let mut lengths: Vec<usize> = list.offsets().lengths().collect();
        lengths[0] -= 1;
        lengths[1] += 1;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let field = Arc::new(Field::new("item", DataType::Utf8, false));
        columns[own_texts] = Arc::new(ListArray::new(field, offsets, list.values().clone(), None));
    });
    // Rows without a template have own texts.
    refused(|columns, [_, template, _]| {
        let values = columns[template].as_dictionary::<Int32Type>().values().clone();
        let keys = Int32Array::new_null(20);
        columns[template] = Arc::new(DictionaryArray::new(keys, values));
    });
    // A row has attributes in both places.
    refused(|columns, [attributes, _, _]| {
        let whole = spans(20).iter().collect::<SpanBatchBuilder>().finish().unwrap();
        columns[attributes] = Arc::clone(whole.column(attributes));
    });
}

#[test]
fn a_part_of_a_batch_is_that_part() {
    let mut all = spans(300);
    for (span, number) in all.iter_mut().zip(0_u64..).step_by(3) {
        span.attributes.push(("more".into(), format!("of {number}").into()));
        let trace_id = TraceId::from_bytes(&u128::from(number + 1).to_be_bytes()).unwrap();
        let span_id = SpanId::from_u64(number + 1).unwrap();
        span.trace_id = Some(trace_id);
        span.links = vec![Link { trace_id, span_id, trace_state: None, attributes: vec![] }];
    }
    let batch = all.iter().collect::<SpanBatchBuilder>().finish().unwrap();
    for (from, rows) in [(0, 300), (0, 299), (1, 299), (77, 100), (150, 1), (300, 0)] {
        let part = batch.slice(from, rows);
        assert_eq!(sent(&part), part, "{rows} rows from {from}");
    }
}

#[test]
fn columns_of_any_length_arrive_as_they_were() {
    // Around the block size, with compressible and random data.
    for bytes in [65_533, 65_534, 65_535, 131_068, 200_000] {
        let mut random = StdRng::seed_from_u64(bytes);
        let noise: String =
            (0..bytes).map(|_| char::from(random.random_range(b' '..b'~'))).collect();
        let mut all = spans(2);
        all[0].attributes.push(("noise".into(), noise.into()));
        all[1].attributes.push(("calm".into(), "x".repeat(bytes as usize).into()));
        let batch = all.iter().collect::<SpanBatchBuilder>().finish().unwrap();
        assert_eq!(sent(&batch), batch, "{bytes} bytes");
    }
}

#[test]
fn spans_take_few_bytes_on_the_wire() {
    let encoded = Encoder::new().unwrap().encode(&shared_rows(&spans(4000)), ORIGIN).unwrap();
    let per_span = encoded.bytes / 4000;
    assert!(per_span < 40, "{per_span} bytes per span");
}

#[test]
fn a_batch_without_schema_is_refused() {
    let error = decode(stream(3).split_off(1)).unwrap_err();
    assert!(error.to_string().contains("begin with a schema"), "{error}");
}

#[test]
fn another_schema_is_named_as_such() {
    use arrow::datatypes::{DataType, Field, Schema};
    let schema = Schema::new(vec![Field::new("x", DataType::Float16, true)]);
    let options = IpcWriteOptions::default();
    let foreign: FlightData = arrow_flight::SchemaAsIpc::new(&schema, &options).into();
    let error = decode(vec![foreign]).unwrap_err();
    assert!(matches!(error, FlightError::Schema), "{error}");
    assert_eq!(tonic::Status::from(error).code(), tonic::Code::FailedPrecondition);
}

#[test]
fn zstd_is_taken_too() {
    assert_eq!(rows(decode(zstd_stream(300)).unwrap()), (ORIGIN, spans(300)));
}

const LZ4: u32 = 0x184d_2204;
const ZSTD: u32 = 0xfd2f_b528;

/// The error for a batch whose first compressed buffer claims another length. The length precedes
/// the frame.
fn claim(mut messages: Vec<FlightData>, magic: u32, length: impl Fn(i64) -> i64) -> FlightError {
    let last = messages.last_mut().unwrap();
    let mut body = last.data_body.to_vec();
    let claimed = |at: usize| i64::from_le_bytes(body[at..at + 8].try_into().unwrap());
    let at = (0..body.len() - 12)
        .step_by(8)
        .find(|at| body[at + 8..].starts_with(&magic.to_le_bytes()) && claimed(*at) > 0)
        .unwrap();
    let other = length(claimed(at)).to_le_bytes();
    body[at..at + 8].copy_from_slice(&other);
    last.data_body = body.into();
    decode(messages).unwrap_err()
}

#[test]
fn a_claimed_length_is_not_believed() {
    for (messages, magic) in [(stream(300), LZ4), (zstd_stream(300), ZSTD)] {
        let error = claim(messages, magic, |_| 1 << 62);
        assert!(matches!(error, FlightError::TooLarge { .. }), "{error}");
    }
    let lies: [fn(i64) -> i64; 3] = [|length| length - 8, |_| 0, |length| length + 8];
    for lie in lies {
        let error = claim(stream(300), LZ4, lie);
        assert!(error.to_string().contains("has another length"), "{error}");
    }
}

#[test]
fn limits_hold() {
    let push_all = |limits| {
        let mut decoder = PutDecoder::new(limits, Arc::default());
        stream(1000).into_iter().try_for_each(|message| decoder.push(message).map(|_| ()))
    };
    let small = FlightLimits { message_bytes: 1000, ..FlightLimits::default() };
    assert!(matches!(push_all(small), Err(FlightError::TooLarge { limit: 1000, .. })));
    let small = FlightLimits { batch_bytes: 50_000, ..FlightLimits::default() };
    assert!(matches!(push_all(small), Err(FlightError::TooLarge { .. })));
    push_all(FlightLimits::default()).unwrap();
}

#[test]
fn every_truncation_is_an_error() {
    let whole = stream(5);
    for index in 0..whole.len() {
        let parts: [fn(&mut FlightData) -> &mut Bytes; 2] =
            [|m| &mut m.data_header, |m| &mut m.data_body];
        for part in parts {
            let length = part(&mut whole[index].clone()).len();
            // At different positions, where truncation loses something necessary.
            for cut in [1, length / 4, length / 2] {
                if cut == 0 || cut >= length {
                    continue;
                }
                let mut messages = whole.clone();
                part(&mut messages[index]).truncate(cut);
                assert!(decode(messages).is_err(), "message {index} cut to {cut} of {length}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_messages_never_panic(
        message in 0_usize..64,
        in_header: bool,
        at: prop::sample::Index,
        bytes in prop::collection::vec(any::<u8>(), 1..9),
    ) {
        let mut messages = stream(4);
        let count = messages.len();
        let message = &mut messages[message % count];
        let part = if in_header { &mut message.data_header } else { &mut message.data_body };
        if !part.is_empty() {
            let mut damaged = part.to_vec();
            let at = at.index(damaged.len());
            for (target, byte) in damaged[at..].iter_mut().zip(&bytes) {
                *target = *byte;
            }
            *part = damaged.into();
        }
        match decode(messages) {
            Ok(Some(Put::Batch { rows, .. })) => {
                // Everything accepted can be read to the last cell.
                let batch = SpanBatch::try_from(rows).unwrap();
                for span in batch.spans() {
                    span.unwrap();
                }
            }
            Ok(_) => {}
            // The error for a caught panic of Arrow, which must not occur.
            Err(error) => {
                let text = error.to_string();
                prop_assert!(!text.contains("Arrow could not read"), "{}", text);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(header: Vec<u8>, body: Vec<u8>, metadata: Vec<u8>) {
        let message = FlightData::new()
            .with_data_header(header)
            .with_data_body(body)
            .with_app_metadata(metadata);
        let _ = decode(vec![schema_message(), message]);
    }
}

#[test]
fn a_span_with_attributes_without_end_is_refused() {
    let with = |count: usize| {
        let mut one = spans(1).remove(0);
        one.attributes = (0..count).map(|n| (format!("k{n}"), "v".into())).collect();
        let rows: SpanRows = [one].iter().collect::<SpanBatchBuilder>().finish().unwrap().into();
        let templates = Arc::default();
        let mut decoder = PutDecoder::new(FlightLimits::default(), templates);
        messages(&rows).into_iter().map(|message| decoder.push(message)).last().unwrap()
    };
    assert!(matches!(with(1_100), Ok(Some(Put::Batch { .. }))));
    let refused = with(200_000);
    assert!(
        matches!(refused, Err(FlightError::TooLarge { what: "attributes of a span", .. })),
        "{refused:?}"
    );
}
