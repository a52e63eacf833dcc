//! OTAP streams to rows: the reference producer's streams compared with the same spans as OTLP, and
//! untrusted input.

mod support;

use arrow::ipc::root_as_message;
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use spanwise_model::Span;
use spanwise_wire::otap::{Batch, Broken, OtapError, OtapLimits, StreamDecoder};
use spanwise_wire::otlp::{self, decode_protobuf};
use support::otap::{BatchArrowRecords, PLAIN, Recorded, recorded};
use support::rows;

/// A row with sorted attributes, because OTAP does not keep their order.
fn in_order(mut span: Span) -> Span {
    let sort = |attributes: &mut spanwise_model::Attributes| {
        attributes.sort_by(|a, b| a.0.cmp(&b.0));
    };
    sort(&mut span.attributes);
    span.events.iter_mut().for_each(|event| sort(&mut event.attributes));
    span.links.iter_mut().for_each(|link| sort(&mut link.attributes));
    span.links.sort_by_key(|link| (link.trace_id.to_string(), link.span_id.to_string()));
    span
}

fn all(decoded: otlp::Decoded) -> Vec<Span> {
    assert_eq!((decoded.rejections.total(), decoded.left_out.invalid_links), (0, 0));
    let mut rows: Vec<Span> = rows(decoded).into_iter().map(in_order).collect();
    rows.sort_by_key(|span| span.span_id.to_string());
    rows
}

/// As text, in which NaN equals itself.
fn lines(spans: &[Span]) -> Vec<String> {
    spans.iter().map(|span| format!("{span:?}")).collect()
}

#[test]
fn the_same_spans_make_the_same_rows_as_by_otlp() {
    for name in support::otap::NAMES {
        let mut decoder = StreamDecoder::new(OtapLimits::default());
        let mut spans = 0;
        for (index, Recorded { otlp, otap }) in recorded(name).into_iter().enumerate() {
            let wanted = all(decode_protobuf(&otlp, &otlp::Limits::default()).unwrap());
            let batch = decoder.decode(&otap).unwrap();
            assert_eq!(batch.id, i64::try_from(index).unwrap());
            let found = all(batch.decoded.unwrap());
            for (found, wanted) in lines(&found).iter().zip(lines(&wanted)) {
                assert_eq!(*found, wanted, "{name}, batch {index}");
            }
            assert_eq!(found.len(), wanted.len(), "{name}, batch {index}");
            spans += found.len();
        }
        assert_eq!(spans, 412, "{name}");
        assert!(decoder.kept_bytes() > 0);
    }
}

/// How often the recorded batches use each part of a stream's state.
#[derive(Debug, Default, PartialEq, Eq)]
struct Uses {
    schemas: usize,
    deltas: usize,
    compressed: usize,
}

fn uses(name: &str) -> Uses {
    let mut uses = Uses::default();
    for Recorded { otap, .. } in recorded(name) {
        for payload in BatchArrowRecords::decode(otap).unwrap().arrow_payloads {
            let mut rest = payload.record.as_slice();
            while let Some(([_, _, _, _, length @ ..], after)) = rest.split_first_chunk::<8>() {
                let length = usize::try_from(u32::from_le_bytes(*length)).unwrap();
                let (metadata, after) = after.split_at(length);
                let message = root_as_message(metadata).unwrap();
                rest = &after[usize::try_from(message.bodyLength()).unwrap()..];
                uses.schemas += usize::from(message.header_as_schema().is_some());
                if let Some(dictionary) = message.header_as_dictionary_batch() {
                    uses.deltas += usize::from(dictionary.isDelta());
                }
                if let Some(rows) = message.header_as_record_batch() {
                    uses.compressed += usize::from(rows.compression().is_some());
                }
            }
        }
    }
    uses
}

#[test]
fn recorded_streams_use_what_streams_can() {
    for name in support::otap::NAMES {
        let uses = uses(name);
        // Each of the eight tables begins with a schema.
        assert!(uses.schemas > 8 && uses.deltas > 8, "{name}: {uses:?}");
        assert_eq!(uses.compressed > 0, name != PLAIN, "{uses:?}");
    }
}

fn decode_all(decoder: &mut StreamDecoder, batches: &[Bytes]) -> Result<usize, Broken> {
    let mut rows = 0;
    for batch in batches {
        if let Ok(decoded) = decoder.decode(batch)?.decoded {
            rows += support::rows(decoded).len();
        }
    }
    Ok(rows)
}

fn batches(name: &str) -> Vec<Bytes> {
    recorded(name).into_iter().map(|recorded| recorded.otap).collect()
}

#[test]
fn a_batch_that_was_missed_breaks_the_stream() {
    let batches = batches(PLAIN);
    let mut decoder = StreamDecoder::new(OtapLimits::default());
    let Broken { id, error } = decoder.decode(&batches[2]).unwrap_err();
    assert_eq!(id, Some(2));
    assert!(error.to_string().contains("does not begin with a schema"), "{error}");
}

#[test]
fn a_stream_can_begin_again() {
    let batches = batches(PLAIN);
    let mut decoder = StreamDecoder::new(OtapLimits::default());
    let once = decode_all(&mut decoder, &batches).unwrap();
    let kept = decoder.kept_bytes();
    // The first schema ids differ from the last, so they begin new streams without earlier
    // dictionaries.
    assert_eq!(decode_all(&mut decoder, &batches).unwrap(), once);
    assert_eq!(decoder.kept_bytes(), kept);
}

#[test]
fn limits_are_held() {
    let decode = |limits: OtapLimits| decode_all(&mut StreamDecoder::new(limits), &batches(PLAIN));
    for (limits, what) in [
        (OtapLimits { batch_bytes: 4_000, ..OtapLimits::default() }, "bytes of"),
        (OtapLimits { table_rows: 100, ..OtapLimits::default() }, "rows of tables"),
    ] {
        let Broken { id, error } = decode(limits).unwrap_err();
        assert!(id.is_some());
        assert!(
            matches!(error, OtapError::TooLarge { what: found, .. } if found.starts_with(what)),
            "{error}"
        );
    }
    // Exceeding a limit of rows does not break the stream.
    let few = otlp::Limits { spans: 10, ..otlp::Limits::default() };
    let limits = OtapLimits { spans: few, ..OtapLimits::default() };
    assert_eq!(decode(limits).unwrap(), 3 + 6 + 6 + 4);
}

#[test]
fn large_spans_are_left_out_alone() {
    let small = otlp::Limits { span_bytes: 400, ..otlp::Limits::default() };
    let mut decoder = StreamDecoder::new(OtapLimits { spans: small, ..OtapLimits::default() });
    let mut rejected = 0;
    for batch in batches(PLAIN) {
        let Batch { decoded, .. } = decoder.decode(&batch).unwrap();
        rejected += decoded.unwrap().rejections.total();
    }
    assert!(rejected > 50, "{rejected}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = StreamDecoder::new(OtapLimits::default()).decode(&bytes.into());
    }

    /// Bytes of the first batches are changed, and accepted rows are read completely.
    #[test]
    fn damaged_streams_never_panic(
        compressed: bool,
        damage in proptest::collection::vec((0..4_usize, any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let name = support::otap::NAMES[usize::from(compressed)];
        let mut batches: Vec<Vec<u8>> =
            batches(name)[..4].iter().map(|batch| batch.to_vec()).collect();
        for (batch, place, byte) in damage {
            let batch = &mut batches[batch];
            let place = place.index(batch.len());
            batch[place] = byte;
        }
        let batches: Vec<Bytes> = batches.into_iter().map(Bytes::from).collect();
        let _ = decode_all(&mut StreamDecoder::new(OtapLimits::default()), &batches);
    }
}
