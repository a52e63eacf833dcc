//! A search in files returns exactly the spans that match the predicate, whichever indexes were
//! used.

use std::sync::LazyLock;

use arrow::array::AsArray;
use arrow::buffer::BooleanBuffer;
use proptest::prelude::*;
use spanwise_model::{
    AttributeValue, Capture, Event, Kind, Link, ResourceJson, Span, SpanBatchBuilder, SpanId,
    Status, TraceId,
};

use super::*;
use crate::contract::{AttributeCondition, AttributeTest, Number, TimeRange};
use crate::embedded::duplicates::origins::TakenRanges;
use crate::embedded::files::writer;
use crate::embedded::keys::in_range;

/// Spans in a file, enough for several blocks.
const SPANS: u64 = 10_000;
const SERVICES: [&str; 4] = ["cart", "stock", "payment", "seldom"];

/// The `n`-th span. All starts are distinct.
fn span(n: u64) -> Span {
    // Fibonacci hashing, for independent numbers.
    let draw = |salt: u64| (n ^ salt << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    let service = match draw(1) % 500 {
        0 => "seldom",
        other => SERVICES[other as usize % 3],
    };
    let id = SpanId::from_u64(n + 1).expect("not zero");
    let duration = (1i64 << (draw(2) % 40)) + (draw(3) % 1000) as i64;
    let operation = format!("op{}", draw(4) % 5);
    let start = (n * 1000) as i64;
    let mut span = Span::new(id, Capture::App, Kind::Internal, service, operation, start, duration);
    span.status = [Status::Unset, Status::Ok, Status::Error][draw(5) as usize % 3];
    let trace = |n: u64| TraceId([(n / 10 % 255) as u8 + 1; 16]);
    span.trace_id = Some(trace(n));
    span.assembled_trace_id = (draw(6) % 10 > 0).then(|| trace(n));
    span.assembled_parent = (draw(7) % 10 > 0).then_some(id);
    // An attribute with few distinct values, and one with many.
    span.attributes = vec![
        ("many".to_owned(), ["a", "b"][draw(8) as usize % 2].into()),
        ("few".to_owned(), format!("{}", draw(9) % 3000).into()),
        // Numbers of both types, some of them as texts.
        (
            "number".to_owned(),
            match (draw(10) % 40) as i64 {
                n @ 0..20 => n.into(),
                n @ 20..35 => AttributeValue::Double(n as f64 - 25.0),
                n => (n - 30).to_string().into(),
            },
        ),
    ];
    // Some spans have a key in both places, and some have no such resource.
    let zone: AttributeValue = ["a", "b", "c"][draw(11) as usize % 3].into();
    let size = AttributeValue::Int((draw(12) % 4) as i64);
    let resource = [("zone", &zone), ("size", &size)];
    span.resource = ResourceJson::from_attributes(resource.into_iter().take(draw(13) as usize % 3));
    if draw(14).is_multiple_of(10) {
        span.attributes.push(("zone".to_owned(), "c".into()));
    }
    // Few have a list, an event, or a scope with what others have themselves.
    let nested = vec![("many".to_owned(), "c".into()), ("number".to_owned(), 7.into())];
    match draw(15) % 60 {
        0 => span.attributes[0].1 = AttributeValue::Json(r#"["a","c",7]"#.to_owned()),
        1 => span.attributes.push(("otel.scope.many".to_owned(), "C".into())),
        2 => span.events.push(Event { time_unix_nano: 1, name: "e".into(), attributes: nested }),
        3 => span.links.push(Link {
            trace_id: trace(1),
            span_id: id,
            trace_state: None,
            attributes: nested,
        }),
        _ => {}
    }
    span
}

const fn is_deleted(n: u64) -> bool {
    n >= SPANS && n % 5 == 2
}

/// Two files. Some rows of the second are deleted.
static FILES: LazyLock<(tempfile::TempDir, Snapshot)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().expect("a directory");
    let files = [1, 2].map(|generation| {
        let spans: Vec<Span> = ((generation - 1) * SPANS..generation * SPANS).map(span).collect();
        let batch = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
        let notes =
            writer::Notes { origins: TakenRanges::new(), deletions: 0, written_unix_nano: 0 };
        let file =
            writer::write(directory.path(), (generation, generation), &[batch.into()], &notes);
        Arc::new(file.expect("written").expect("rows"))
    });
    let numbers = numbers(&reader::read(&files[1], &[files[1].all_rows()], &Wanted::ALL).unwrap());
    // Caches of earlier searches must respect the deletion.
    found(&Snapshot { recent: Vec::new(), files: files.to_vec() }, &all("cart"));
    let rows = BooleanBuffer::collect_bool(numbers.len(), |row| is_deleted(numbers[row]));
    assert!(files[1].remove_rows(rows) > 0);
    (directory, Snapshot { recent: Vec::new(), files: files.to_vec() })
});

/// The same spans in memory.
static MEMORY: LazyLock<Snapshot> = LazyLock::new(|| {
    let mut builder = SpanBatchBuilder::sharing();
    let views = (0..2 * SPANS).filter(|n| !is_deleted(*n)).collect::<Vec<u64>>();
    let views = views.chunks(1_500).map(|numbers| {
        numbers.iter().for_each(|n| builder.push(&span(*n)));
        let rows = builder.finish_rows().expect("rows");
        let starts = starts(rows.columns()).expect("starts").values();
        let starts = (starts[0], starts[starts.len() - 1]);
        Arc::new(View { rows, starts })
    });
    Snapshot { recent: views.collect(), files: Vec::new() }
});

fn all(service: &str) -> Query {
    let predicate = Predicate { service: Some(service.to_owned()), ..Predicate::default() };
    Query {
        predicate,
        time: TimeRange::ALL,
        columns: Vec::new(),
        keys: None,
        limit: usize::MAX,
        order: Order::NewestFirst,
    }
}

fn numbers(batches: &[RecordBatch]) -> Vec<u64> {
    let of = |batch: &RecordBatch| {
        let ids = batch.column_by_name(column::SPAN_ID).expect("ids").as_fixed_size_binary();
        ids.values().as_chunks().0.iter().map(|id| u64::from_be_bytes(*id) - 1).collect::<Vec<_>>()
    };
    batches.iter().flat_map(of).collect()
}

fn found(snapshot: &Snapshot, query: &Query) -> Vec<u64> {
    let found = find(snapshot, query).expect("found");
    assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
    numbers(&found.rows)
}

fn fulfils(span: &Span, predicate: &Predicate) -> bool {
    let Predicate { service, operation, min_duration_nano, max_duration_nano, .. } = predicate;
    let nested: Vec<(String, AttributeValue)> = (span.events.iter().map(|event| &event.attributes))
        .chain(span.links.iter().map(|link| &link.attributes))
        .flatten()
        .cloned()
        .collect();
    let anywhere = |wanted: &AttributeCondition| {
        let scope = format!("otel.scope.{}", wanted.key);
        let passes =
            |value: &AttributeValue| wanted.test.passes(value.type_number(), &value.to_string());
        let named = |key: &str| {
            nested.iter().find(|(name, _)| name == key).is_some_and(|(_, value)| passes(value))
        };
        named(&wanted.key)
            || span.attribute(&scope).is_some_and(passes)
            || has(span, &AttributeCondition { key: wanted.key.clone(), test: wanted.test.clone() })
    };
    service.as_ref().is_none_or(|service| *service == span.service)
        && operation.as_ref().is_none_or(|operation| *operation == span.operation)
        && min_duration_nano.is_none_or(|least| span.duration_nano >= least)
        && max_duration_nano.is_none_or(|most| span.duration_nano <= most)
        && match predicate.status {
            Some(Status::Ok) => span.status != Status::Error,
            Some(status) => span.status == status,
            None => true,
        }
        && predicate.attributes.iter().all(|wanted| has(span, wanted))
        && predicate.anywhere.iter().all(anywhere)
        && (!predicate.assembled || span.assembled_trace_id.is_some())
        && (!predicate.root || span.assembled_parent.is_none())
}

/// Whether the span itself or its resource fulfils a condition.
fn has(span: &Span, wanted: &AttributeCondition) -> bool {
    let own = span.attribute(&wanted.key).cloned();
    let resource: serde_json::Value = serde_json::from_str(span.resource.as_str()).expect("JSON");
    let of_resource = resource.get(&wanted.key).map(|value| match value {
        serde_json::Value::String(text) => AttributeValue::from(text.as_str()),
        number => AttributeValue::Int(number.as_i64().expect("a number")),
    });
    let values: Vec<AttributeValue> = own.into_iter().chain(of_resource).collect();
    let passes =
        values.iter().any(|value| wanted.test.passes(value.type_number(), &value.to_string()));
    wanted.test.holds(!values.is_empty(), passes)
}

fn condition() -> impl Strategy<Value = AttributeCondition> {
    let key = prop::sample::select(&["many", "few", "number", "zone", "size", "none"][..]);
    let text =
        prop::sample::select(&["a", "c", "C", "7", "7.0", "-3", "0", "-0.0", "2999", ""][..]);
    (key, text, 0usize..9, any::<bool>()).prop_map(|(key, text, test, in_lists)| {
        let number = Number::parse(text).unwrap_or(Number::Double(1.5));
        let text = text.to_owned();
        let test = match test {
            0 => AttributeTest::Equal(text),
            1 => AttributeTest::NotEqual(text),
            2 => AttributeTest::Less(number),
            3 => AttributeTest::LessOrEqual(number),
            4 => AttributeTest::Greater(number),
            5 => AttributeTest::GreaterOrEqual(number),
            6 => AttributeTest::Contains(text),
            7 => AttributeTest::Exists,
            _ => AttributeTest::Absent,
        };
        let test = match test {
            AttributeTest::NotEqual(_) | AttributeTest::Absent => test,
            test if in_lists => AttributeTest::Element(Box::new(test)),
            test => test,
        };
        AttributeCondition { key: key.to_owned(), test }
    })
}

/// Whether it asks for one value that passes.
fn asks_for_one(condition: &AttributeCondition) -> bool {
    !matches!(condition.test, AttributeTest::NotEqual(_) | AttributeTest::Absent)
}

prop_compose! {
    fn predicate()(
        service in proptest::option::of(prop::sample::select(&["cart", "seldom", "nobody"][..])),
        operation in proptest::option::of("op[0-5]"),
        least in proptest::option::of(0u32..45),
        most in proptest::option::of(0u32..45),
        off_by in -2i64..3,
        status in proptest::option::of(prop::sample::select(
            &[Status::Unset, Status::Ok, Status::Error][..],
        )),
        many in proptest::option::weighted(0.2, "[a-c]"),
        few in proptest::option::weighted(0.2, 0u64..3100),
        other in proptest::option::weighted(0.6, condition()),
        anywhere in proptest::option::weighted(0.4, condition()),
        assembled in any::<bool>(),
        root in proptest::bool::weighted(0.2),
    ) -> Predicate {
        let attribute = |key: &str, test| AttributeCondition { key: key.to_owned(), test };
        let many = many.map(|value| attribute("many", AttributeTest::Equal(value)));
        let few = few.map(|value| attribute("few", AttributeTest::Equal(value.to_string())));
        Predicate {
            service: service.map(str::to_owned),
            operation,
            min_duration_nano: least.map(|power| (1 << power) + off_by),
            max_duration_nano: most.map(|power| (1 << power) + off_by),
            status,
            attributes: many.into_iter().chain(few).chain(other).collect(),
            anywhere: anywhere.into_iter().filter(asks_for_one).collect(),
            assembled,
            root,
            above: None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_search_finds_the_first_that_fulfil_the_predicate(
        predicate in predicate(),
        longest in any::<bool>(),
        in_memory in proptest::bool::weighted(0.2),
        limit in prop_oneof![Just(1usize), 2..40usize, Just(usize::MAX)],
        from in proptest::option::of(0i64..20_000_000),
        to in proptest::option::of(0i64..20_000_000),
    ) {
        let time = TimeRange {
            from_unix_nano: from.unwrap_or(i64::MIN),
            to_unix_nano: to.unwrap_or(i64::MAX),
        };
        let order = if longest { Order::LongestFirst } else { Order::NewestFirst };
        let query = Query { predicate, time, columns: vec![column::SPAN_ID], limit, order, keys: None };
        let is_it = |n: &u64| {
            let span = span(*n);
            !is_deleted(*n)
                && in_range(span.start_unix_nano, time)
                && fulfils(&span, &query.predicate)
        };
        let mut wanted: Vec<u64> = (0..2 * SPANS).rev().filter(is_it).collect();
        if longest {
            // The sort is stable: equal ones stay newest first.
            wanted.sort_by_key(|n| Reverse(span(*n).duration_nano));
        }
        wanted.truncate(limit);
        let snapshot = if in_memory { &*MEMORY } else { &FILES.1 };
        prop_assert_eq!(found(snapshot, &query), wanted);
    }
}
