//! This decoder and prost agree on all kinds of messages: valid and invalid, repeated and split,
//! and with unknown fields.

use std::cell::Cell;
use std::fmt::Debug;

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use proptest::prelude::*;
use prost::Message;
use prost::encoding::encode_varint;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::collect::Limits;
use super::super::keys::Keys;
use super::super::view::{EventView, ResourceView, ScopeView, SpanView};

/// An OTLP message type.
#[derive(Clone, Copy)]
enum Kind {
    Span,
    Event,
    Link,
    Status,
    Resource,
    Scope,
    KeyValue,
    AnyValue,
    ArrayValue,
    KeyValueList,
}

/// The type of a field.
#[derive(Clone, Copy)]
enum Holds {
    Varint,
    Fixed64,
    Fixed32,
    Text,
    Bytes,
    A(Kind),
}

use Holds::{A, Bytes, Fixed32, Fixed64, Text, Varint};

const fn fields(kind: Kind) -> &'static [(u32, Holds)] {
    match kind {
        Kind::Span => &[
            (1, Bytes),
            (2, Bytes),
            (3, Text),
            (4, Bytes),
            (5, Text),
            (6, Varint),
            (7, Fixed64),
            (8, Fixed64),
            (9, A(Kind::KeyValue)),
            (9, A(Kind::KeyValue)),
            (9, A(Kind::KeyValue)),
            (10, Varint),
            (11, A(Kind::Event)),
            (12, Varint),
            (13, A(Kind::Link)),
            (14, Varint),
            (15, A(Kind::Status)),
            (16, Fixed32),
        ],
        Kind::Event => &[(1, Fixed64), (2, Text), (3, A(Kind::KeyValue)), (4, Varint)],
        Kind::Link => {
            &[(1, Bytes), (2, Bytes), (3, Text), (4, A(Kind::KeyValue)), (5, Varint), (6, Fixed32)]
        }
        Kind::Status => &[(2, Text), (3, Varint)],
        Kind::Resource => &[(1, A(Kind::KeyValue)), (2, Varint)],
        Kind::Scope => &[(1, Text), (2, Text), (3, A(Kind::KeyValue)), (4, Varint)],
        Kind::KeyValue => &[(1, Text), (2, A(Kind::AnyValue)), (2, A(Kind::AnyValue)), (3, Varint)],
        Kind::AnyValue => &[
            (1, Text),
            (2, Varint),
            (3, Varint),
            (4, Fixed64),
            (5, A(Kind::ArrayValue)),
            (6, A(Kind::KeyValueList)),
            (7, Bytes),
            (8, Varint),
        ],
        Kind::ArrayValue => &[(1, A(Kind::AnyValue))],
        Kind::KeyValueList => &[(1, A(Kind::KeyValue))],
    }
}

/// Writes a message. On average, one field in `rareness` is invalid.
fn write(random: &mut StdRng, kind: Kind, depth: u32, rareness: u32, into: &mut Vec<u8>) {
    let most = if depth == 0 { 12 } else { 4 };
    for _ in 0..random.random_range(0..=most) {
        let of = fields(kind);
        let (mut number, mut holds) = of[random.random_range(0..of.len())];
        if random.random_range(0..rareness) == 0 {
            match random.random_range(0..3) {
                // Unknown in all message types.
                0 | 1 => {
                    number = random.random_range(17..5000);
                    holds = [Varint, Fixed64, Fixed32, Bytes][random.random_range(0..4)];
                }
                _ => holds = [Varint, Fixed64, Fixed32, Bytes][random.random_range(0..4)],
            }
        }
        match holds {
            Varint => {
                encode_varint(u64::from(number << 3), into);
                // Numbers of all lengths.
                encode_varint(random.random::<u64>() >> random.random_range(0..64), into);
            }
            Fixed64 => {
                encode_varint(u64::from(number << 3 | 1), into);
                into.extend_from_slice(&random.random::<u64>().to_le_bytes());
            }
            Fixed32 => {
                encode_varint(u64::from(number << 3 | 5), into);
                into.extend_from_slice(&random.random::<u32>().to_le_bytes());
            }
            Text | Bytes | A(_) => {
                let mut inner = Vec::new();
                match holds {
                    A(kind) if depth < 8 => write(random, kind, depth + 1, rareness, &mut inner),
                    A(_) => {}
                    _ => {
                        let length = [0, 1, 8, 16, 40, 200][random.random_range(0..6)];
                        inner.extend((0..length).map(|_| random.random_range(b' '..=b'~')));
                        if random.random_range(0..rareness) == 0 {
                            inner.extend_from_slice(&[0xc3, random.random()]);
                        }
                    }
                }
                encode_varint(u64::from(number << 3 | 2), into);
                encode_varint(inner.len() as u64, into);
                into.extend_from_slice(&inner);
            }
        }
    }
}

/// A view's content as text. NaN then equals itself, and the order of noted attributes of events
/// and links does not matter.
fn content(view: &SpanView<'_>) -> (String, Vec<String>, Vec<String>) {
    let events: Vec<_> = view
        .events
        .iter()
        .map(|event| {
            let attributes = &view.inner[event.attributes.clone()];
            let EventView { time_unix_nano, name, dropped_attributes_count, .. } = event;
            format!("{time_unix_nano} {name} {attributes:?} {dropped_attributes_count}")
        })
        .collect();
    let links: Vec<_> = view
        .links
        .iter()
        .map(|link| {
            let attributes = &view.inner[link.attributes.clone()];
            let ids = (link.trace_id, link.span_id, link.trace_state);
            format!("{ids:?} {attributes:?} {}", link.dropped_attributes_count)
        })
        .collect();
    let plain =
        SpanView { events: Vec::new(), links: Vec::new(), inner: Vec::new(), ..view.clone() };
    (format!("{plain:?}"), events, links)
}

/// How often both decoders accepted, and how often both rejected.
#[derive(Default, Debug)]
struct Verdicts {
    yes: Cell<u32>,
    no: Cell<u32>,
}

fn check<T: Debug + PartialEq, E, F>(
    verdicts: &Verdicts,
    ours: Result<T, E>,
    theirs: Result<T, F>,
) -> Result<(), TestCaseError>
where
    E: Debug,
    F: Debug,
{
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => {
            prop_assert_eq!(ours, theirs);
            verdicts.yes.set(verdicts.yes.get() + 1);
        }
        (Err(_), Err(_)) => verdicts.no.set(verdicts.no.get() + 1),
        (ours, theirs) => prop_assert!(false, "ours {:?}, prost's {:?}", ours, theirs),
    }
    Ok(())
}

fn check_all(verdicts: &Verdicts, seed: u64, rareness: u32) -> Result<(), TestCaseError> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut bytes = Vec::new();
    write(&mut random, Kind::Span, 0, rareness, &mut bytes);
    if random.random_range(0..rareness) == 0 && !bytes.is_empty() {
        bytes.truncate(random.random_range(0..bytes.len()));
    }
    let mut view = SpanView::default();
    let ours = super::span(&bytes, &mut view, &Limits::default()).map(|()| content(&view));
    let theirs = Span::decode(bytes.as_slice());
    check(verdicts, ours, theirs.as_ref().map(|span| content(&span.into())))?;

    bytes.clear();
    write(&mut random, Kind::Resource, 0, rareness, &mut bytes);
    let mut view = ResourceView::default();
    let ours =
        super::resource(&bytes, &mut view, &mut Keys::default()).map(|()| format!("{view:?}"));
    let theirs = Resource::decode(bytes.as_slice());
    let theirs = theirs.as_ref().map(|resource| format!("{:?}", ResourceView::from(resource)));
    check(verdicts, ours, theirs)?;

    bytes.clear();
    write(&mut random, Kind::Scope, 0, rareness, &mut bytes);
    let mut view = ScopeView::default();
    let ours = super::scope(&bytes, &mut view, &mut Keys::default()).map(|()| format!("{view:?}"));
    let theirs = InstrumentationScope::decode(bytes.as_slice());
    let theirs = theirs.as_ref().map(|scope| format!("{:?}", ScopeView::from(scope)));
    check(verdicts, ours, theirs)
}

#[test]
fn both_decoders_agree_on_messages_of_every_shape() {
    let verdicts = Verdicts::default();
    let config = ProptestConfig { cases: 4_000, failure_persistence: None, ..Default::default() };
    proptest!(config, |(seed: u64, rareness in prop::sample::select(vec![8_u32, 60, 1_000]))| {
        check_all(&verdicts, seed, rareness)?;
    });
    // Both results must be frequent, or the test would show little.
    assert!(verdicts.yes.get() > 3_000 && verdicts.no.get() > 500, "{verdicts:?}");
}

#[test]
fn both_decoders_end_at_the_same_depth() {
    let deep = |levels: usize, array: bool| {
        let mut value = Vec::new();
        for _ in 0..levels {
            // An AnyValue in an ArrayValue in an AnyValue, or in a KeyValue of a KeyValueList.
            let wraps: &[u8] = if array { &[0x0a, 0x2a] } else { &[0x12, 0x0a, 0x32] };
            for tag in wraps {
                let length = value.len();
                let mut outer = vec![*tag];
                encode_varint(length as u64, &mut outer);
                outer.append(&mut value);
                value = outer;
            }
        }
        let mut pair = vec![0x12];
        encode_varint(value.len() as u64, &mut pair);
        pair.append(&mut value);
        let mut span = vec![0x4a];
        encode_varint(pair.len() as u64, &mut span);
        span.append(&mut pair);
        span
    };
    for array in [true, false] {
        let mut last = true;
        for levels in 20..60 {
            let bytes = deep(levels, array);
            let mut view = SpanView::default();
            let ours = super::span(&bytes, &mut view, &Limits::default()).is_ok();
            assert_eq!(ours, Span::decode(bytes.as_slice()).is_ok(), "{levels} {array}");
            last = ours;
        }
        assert!(!last, "the deepest is refused");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let mut view = SpanView::default();
        let ours = super::span(&bytes, &mut view, &Limits::default());
        if ours.is_ok() {
            prop_assert!(Span::decode(bytes.as_slice()).is_ok());
        }
    }
}
