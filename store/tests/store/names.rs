//! Names and values of attributes that the store knows without reading rows, and words of rows.

use std::collections::BTreeSet;

use spanwise_model::schema::column;
use spanwise_model::{
    AttributeValue, Capture, Kind, ResourceJson, Span, SpanBatchBuilder, SpanRows,
};
use spanwise_store::{Counting, Selection, SqlLimits, Store, TimeRange};

use super::support::{
    BEGIN_UNIX_NANO, SECOND_NANO, in_files, in_memory, open, span_id, until_in_files,
};

const COUNT: u64 = 3_000;

/// Spans of two services, each a second after the one before. A few attributes have few values,
/// and one has a value of its own in each.
fn rows() -> SpanRows {
    let mut builder = SpanBatchBuilder::new();
    for n in 0..COUNT {
        let service = if n.is_multiple_of(2) { "cart" } else { "stock" };
        let start = BEGIN_UNIX_NANO + n as i64 * SECOND_NANO;
        let mut span =
            Span::new(span_id(n), Capture::App, Kind::Server, service, "GET /", start, 1_000);
        let zone = if n < COUNT / 2 { "a" } else { "b" };
        span.resource = ResourceJson::from_column(&format!(
            r#"{{"service.name":"{service}","zones":["{zone}",7],"of.{service}":true}}"#
        ));
        let text = |text: String| AttributeValue::String(text);
        span.attributes = vec![
            ("method".to_owned(), text(["GET", "PUT"][n as usize % 2].to_owned())),
            ("code".to_owned(), AttributeValue::Int(200 + n as i64 % 3)),
            ("order".to_owned(), text(format!("order {n}"))),
        ];
        builder.push(&span);
    }
    builder.finish_rows().expect("rows")
}

fn from(second: i64) -> TimeRange {
    TimeRange { from_unix_nano: BEGIN_UNIX_NANO + second * SECOND_NANO, ..TimeRange::ALL }
}

async fn values(store: &dyn Store, key: &str) -> Option<[Vec<(u8, String)>; 2]> {
    let found = store.attribute_values(key, TimeRange::ALL).await.expect("values")?;
    Some([found.own, found.resources].map(Vec::from_iter))
}

async fn services(store: &dyn Store, time: TimeRange) -> Vec<String> {
    let columns = vec![column::SERVICE];
    let counting = Counting { columns, time, step_nano: i64::MAX, only_presence: true };
    let limits = SqlLimits {
        timeout: std::time::Duration::from_secs(20),
        rows: 100,
        memory_bytes: 64 << 20,
    };
    let counts = store.count_rows(&counting, limits).await.expect("counted");
    let there = counts.into_iter().filter(|counts| counts.intervals.iter().sum::<u64>() > 0);
    let mut words: Vec<String> = there.flat_map(|counts| counts.words).collect();
    words.sort();
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_values_are_known_without_rows() {
    for is_in_files in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let config = if is_in_files { in_files } else { in_memory };
        let store = open(config(directory.path())).await;
        store.append(rows(), None).await.expect("stored");
        if is_in_files {
            until_in_files(&*store).await;
        }
        let names = store.attribute_names(TimeRange::ALL).await.expect("names").expect("known");
        let set = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(names.own, set(&["code", "method", "order"]));
        assert_eq!(names.resources, set(&["of.cart", "of.stock", "service.name", "zones"]));
        let later = store.attribute_names(from(COUNT as i64)).await.expect("names");
        assert_eq!(later.expect("known").own, BTreeSet::new(), "nothing starts then");

        let pair = |number, text: &str| (number, text.to_owned());
        let codes = values(&*store, "code").await;
        let methods = values(&*store, "method").await;
        if is_in_files {
            let numbers = ["200", "201", "202"].map(|text| pair(1, text)).to_vec();
            assert_eq!(codes, Some([numbers, vec![]]));
            let words = ["GET", "PUT"].map(|text| pair(0, text)).to_vec();
            assert_eq!(methods, Some([words, vec![]]));
        } else {
            assert_eq!((codes, methods), (None, None), "rows must be read");
        }
        let zones = vec![pair(0, "a"), pair(0, "b"), pair(1, "7")];
        assert_eq!(values(&*store, "zones").await, Some([vec![], zones]));
        assert_eq!(values(&*store, "absent").await, Some([vec![], vec![]]));
        assert_eq!(values(&*store, "order").await, None, "each row has its own");

        assert_eq!(services(&*store, TimeRange::ALL).await, ["cart", "stock"]);
        // Of the last row only.
        assert_eq!(services(&*store, from(COUNT as i64 - 1)).await, ["stock"]);

        // What only deleted rows had must not be told.
        store.delete(&Selection::Service("stock".to_owned())).await.expect("deleted");
        let names = store.attribute_names(TimeRange::ALL).await.expect("names");
        assert!(names.is_none_or(|names| !names.resources.contains("of.stock")));
        assert_eq!(services(&*store, TimeRange::ALL).await, ["cart"]);
    }
}
