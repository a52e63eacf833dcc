//! The contract, as tests that every store must pass. A store that moves rows is tested with its
//! rows in every place.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use spanwise_model::schema::{column, span_schema};
use spanwise_model::{Evidence, Span, Status};
use spanwise_store::embedded::EmbeddedConfig;
use spanwise_store::{
    Appended, AttributeCondition, AttributeTest, Counting, Deleted, Key, Number, Order, Outline,
    Predicate, Query, RowTotal, Selection, SqlLimits, Store, StoreError, TimeRange,
};

use super::clickhouse;
use super::support::{
    BEGIN_UNIX_NANO, SECOND_NANO, abandon, append, assemble, batch, everything, in_bucket,
    in_files, in_memory, numbers, open, origin, span, span_id, spans, trace_id, until_in_files,
};

/// Where the rows are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// In the embedded store's memory.
    Memory,
    /// In the embedded store's files.
    Files,
    /// In files in object storage.
    Bucket,
    /// In the spool of the ClickHouse store.
    Spool,
    /// In ClickHouse.
    ClickHouse,
    /// In a ClickHouse cluster.
    Cluster,
}

/// The storage that survives closing a store.
struct Home {
    place: Place,
    directory: tempfile::TempDir,
    bucket: tempfile::TempDir,
    /// The address of ClickHouse, if it is used.
    address: String,
}

impl Home {
    fn new(place: Place) -> Self {
        let address = match place {
            Place::Memory | Place::Files | Place::Bucket => String::new(),
            Place::Spool | Place::ClickHouse => {
                let server = clickhouse::server::shared();
                server.address(&server.new_database())
            }
            Place::Cluster => {
                let cluster = clickhouse::cluster::cluster();
                cluster.address(0, &cluster.new_database())
            }
        };
        let directory = tempfile::tempdir().expect("a directory");
        let bucket = tempfile::tempdir().expect("a directory");
        Self { place, directory, bucket, address }
    }

    async fn open(&self) -> Arc<dyn Store> {
        self.open_in(self.place).await
    }

    fn in_bucket(&self) -> EmbeddedConfig {
        let url = format!("file://{}", self.bucket.path().display());
        in_bucket(self.directory.path(), &url)
    }

    /// Opens the store so that rows stay in, or move to, another place.
    async fn open_in(&self, place: Place) -> Arc<dyn Store> {
        let directory = self.directory.path();
        match place {
            Place::Memory if self.place == Place::Bucket => {
                let generation_max_age = std::time::Duration::from_secs(3600);
                open(EmbeddedConfig { generation_max_age, ..self.in_bucket() }).await
            }
            Place::Memory => open(in_memory(directory)).await,
            Place::Bucket => open(self.in_bucket()).await,
            Place::Files => open(in_files(directory)).await,
            Place::Spool => clickhouse::open(clickhouse::keeping(&self.address, directory)).await,
            Place::ClickHouse | Place::Cluster => {
                clickhouse::open(clickhouse::sending(&self.address, directory)).await
            }
        }
    }
}

impl Place {
    /// Whether assembly can still annotate rows in this place.
    const fn is_recent(self) -> bool {
        matches!(self, Self::Memory | Self::Spool)
    }

    /// The place from which rows move here.
    const fn recent(self) -> Self {
        match self {
            Self::Memory | Self::Files | Self::Bucket => Self::Memory,
            Self::Spool | Self::ClickHouse | Self::Cluster => Self::Spool,
        }
    }
}

async fn settle(place: Place, store: &dyn Store) {
    if !place.is_recent() {
        until_in_files(store).await;
    }
}

macro_rules! contract {
    ($($test:ident),+ $(,)?) => {
        contract!(in_memory Memory $($test)+);
        contract!(in_files Files $($test)+);
        contract!(in_object_storage Bucket $($test)+);
        contract!(in_the_spool Spool $($test)+);
        contract!(in_clickhouse ClickHouse $($test)+);
        contract!(in_a_cluster Cluster ignore = "make test-cluster"; $($test)+);
    };
    ($module:ident $place:ident $attribute:meta; $($test:ident)+) => {
        mod $module {
            $(#[tokio::test]
            #[$attribute]
            async fn $test() {
                super::$test(super::Place::$place).await;
            })+
        }
    };
    ($module:ident $place:ident $($test:ident)+) => {
        mod $module {
            $(#[tokio::test]
            async fn $test() {
                super::$test(super::Place::$place).await;
            })+
        }
    };
}

contract!(
    rows_come_back_whole,
    rows_are_found_by_every_key,
    outlines_have_what_is_wanted,
    rows_are_found_by_predicate,
    rows_are_counted_by_words_and_intervals,
    all_rows_are_counted_by_words,
    the_newest_come_first_and_no_more_than_asked,
    a_batch_that_comes_twice_is_stored_once,
    a_span_that_comes_twice_counts_once,
    assembly_is_seen_at_once_and_stays,
    a_restart_keeps_everything,
    old_rows_are_dropped,
    what_is_deleted_is_gone_and_stays_gone,
    what_comes_after_a_deletion_stays,
    a_foreign_schema_is_refused,
);
// Statements do not see the spool.
contract!(statements_in_memory Memory statements_see_every_row);
contract!(statements_in_files Files statements_see_every_row);
contract!(statements_in_object_storage Bucket statements_see_every_row);
contract!(statements_in_clickhouse ClickHouse statements_see_every_row);
contract!(
    statements_in_a_cluster Cluster ignore = "make test-cluster"; statements_see_every_row
);

async fn rows_come_back_whole(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    append(&*store, 0..30).await;
    append(&*store, 30..31).await;
    append(&*store, []).await;
    settle(place, &*store).await;
    let wanted: Vec<_> = (0..31).map(span).collect();
    assert_eq!(spans(&everything(&*store).await), wanted);
}

async fn by_keys(store: &dyn Store, keys: &[Key]) -> Vec<u64> {
    numbers(&store.find_by_keys(keys, TimeRange::ALL).await.expect("found"))
}

async fn rows_are_found_by_every_key(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    let first = append(&*store, 0..40).await;
    let all: Vec<u64> = (0..40).collect();
    assemble(&*store, first, &all, trace_id(1000)).await;
    settle(place, &*store).await;
    append(&*store, 40..80).await;
    settle(place, &*store).await;

    let hop = |n: u64| Key::TcpSequences(u32::MAX - n as u32, n as u32);
    assert_eq!(by_keys(&*store, &[Key::Span(span_id(7))]).await, [7]);
    assert_eq!(by_keys(&*store, &[Key::Trace(trace_id(11))]).await, [45, 47]);
    assert_eq!(by_keys(&*store, &[Key::Fragment(u64::MAX - 4)]).await, [4]);
    assert_eq!(by_keys(&*store, &[hop(66)]).await, [66]);
    assert_eq!(by_keys(&*store, &[Key::XRequestId("request-44".to_owned())]).await, [44]);
    if place.is_recent() {
        assert_eq!(by_keys(&*store, &[Key::AssembledTrace(trace_id(1000))]).await, all);
    }
    let several = [Key::Span(span_id(2)), hop(2), Key::Trace(trace_id(0)), Key::Span(span_id(79))];
    assert_eq!(by_keys(&*store, &several).await, [1, 2, 3, 79]);
    // One sequence number is not enough to match, nor are numbers of two different hops.
    assert_eq!(by_keys(&*store, &[Key::TcpSequences(u32::MAX - 2, 4)]).await, [0u64; 0]);
    let crossed = [Key::TcpSequences(u32::MAX - 2, 4), Key::TcpSequences(u32::MAX - 4, 2)];
    assert_eq!(by_keys(&*store, &crossed).await, [0u64; 0]);
    assert_eq!(by_keys(&*store, &[Key::Span(span_id(5000))]).await, [0u64; 0]);
    assert_eq!(by_keys(&*store, &[]).await, [0u64; 0]);

    let at = |n: i64| BEGIN_UNIX_NANO + n * SECOND_NANO;
    let range = TimeRange { from_unix_nano: at(45), to_unix_nano: at(47) };
    let found = store.find_by_keys(&[Key::Trace(trace_id(11))], range).await.expect("found");
    assert_eq!(numbers(&found), [45], "the end is not in the range");
    assert_eq!(spans(&found), [span(45)], "rows are whole");
}

async fn outlines_have_what_is_wanted(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    append(&*store, 0..40).await;
    settle(place, &*store).await;
    let keys = [Key::Trace(trace_id(3)), Key::Span(span_id(14)), Key::Fragment(u64::MAX - 16)];
    let outline = Outline {
        columns: vec![column::SERVICE, column::PARENT_SPAN_ID, column::ATTRIBUTES],
        attributes: vec!["n".to_owned()],
    };
    let found = store.find_outlines(&keys, TimeRange::ALL, &outline).await.expect("found");
    let found = spans(&found);
    let whole = spans(&store.find_by_keys(&keys, TimeRange::ALL).await.expect("found"));
    assert_eq!(whole.len(), 4, "two of the trace, and two others");
    let wanted = |span: &Span| {
        let n = span.attribute("n").cloned();
        (span.span_id, span.service.clone(), span.parent_span_id, span.start_unix_nano, n)
    };
    assert_eq!(
        found.iter().map(wanted).collect::<Vec<_>>(),
        Vec::from_iter(whole.iter().map(wanted))
    );
}

fn query(predicate: Predicate) -> Query {
    let order = Order::NewestFirst;
    Query { predicate, time: TimeRange::ALL, columns: Vec::new(), keys: None, limit: 1000, order }
}

async fn rows_are_found_by_predicate(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    for first in (0..60).step_by(20) {
        append(&*store, first..first + 20).await;
        settle(place, &*store).await;
    }
    let check = async |predicate: Predicate, wanted: &dyn Fn(u64) -> bool| {
        let found = store.find(&query(predicate.clone())).await.expect("found");
        let wanted: Vec<u64> = (0..60).filter(|n| wanted(*n)).collect();
        assert_eq!(numbers(&found), wanted, "{predicate:?}");
    };
    let any = Predicate::default;
    check(any(), &|_| true).await;
    check(Predicate { service: Some("cart".into()), ..any() }, &|n| n % 3 == 0).await;
    check(Predicate { service: Some("nobody".into()), ..any() }, &|_| false).await;
    check(Predicate { operation: Some("GET /4".into()), ..any() }, &|n| n % 5 == 4).await;
    check(Predicate { min_duration_nano: Some(30_000), ..any() }, &|n| n >= 30).await;
    check(Predicate { max_duration_nano: Some(9_000), ..any() }, &|n| n <= 9).await;
    check(Predicate { status: Some(Status::Error), ..any() }, &|n| n % 3 == 2).await;
    check(Predicate { status: Some(Status::Ok), ..any() }, &|n| n % 3 != 2).await;
    let condition = |key: &str, test| AttributeCondition { key: key.into(), test };
    let has = |key: &str, value: &str| condition(key, AttributeTest::Equal(value.into()));
    let attributes = vec![has("http.route", "/pay"), has("cached", "true")];
    check(Predicate { attributes, ..any() }, &|n| n % 2 == 1).await;
    let attributes = vec![has("n", "17")];
    check(Predicate { attributes, ..any() }, &|n| n == 17).await;
    let attributes = vec![has("absent", "")];
    check(Predicate { attributes, ..any() }, &|_| false).await;
    // A double in its displayed form, and in other notations.
    for (shown, holds) in
        [("0.5", true), (".5", true), ("5e-1", true), ("0.50", true), ("5", false)]
    {
        let attributes = vec![has("share", shown)];
        check(Predicate { attributes, ..any() }, &|_| holds).await;
    }
    let attributes = vec![has("n", "17.0")];
    check(Predicate { attributes, ..any() }, &|n| n == 17).await;
    // Every span has this resource.
    let number = |text: &str| Number::parse(text).expect("a number");
    let text = |text: &str| text.to_owned();
    for (key, test, holds) in [
        ("n", AttributeTest::NotEqual(text("17")), &(|n: u64| n != 17) as &dyn Fn(u64) -> bool),
        ("n", AttributeTest::Less(number("7")), &|n| n < 7),
        ("n", AttributeTest::LessOrEqual(number("7.5")), &|n| n <= 7),
        ("n", AttributeTest::Greater(number("-1")), &|_| true),
        ("n", AttributeTest::GreaterOrEqual(number("5e1")), &|n| n >= 50),
        ("share", AttributeTest::Greater(number("0.4")), &|_| true),
        ("share", AttributeTest::Greater(number("0.5")), &|_| false),
        ("http.route", AttributeTest::Contains(text("PA")), &|n| n % 2 == 1),
        ("http.route", AttributeTest::Greater(number("0")), &|_| false),
        ("cached", AttributeTest::Exists, &|_| true),
        ("cached", AttributeTest::Absent, &|_| false),
        ("absent", AttributeTest::Exists, &|_| false),
        ("absent", AttributeTest::Absent, &|_| true),
        ("absent", AttributeTest::NotEqual(text("x")), &|_| false),
        ("service.name", AttributeTest::Equal(text("cart")), &|_| true),
        ("service.name", AttributeTest::Equal(text("stock")), &|_| false),
        ("service.name", AttributeTest::NotEqual(text("stock")), &|_| true),
        ("service.name", AttributeTest::Contains(text("aR")), &|_| true),
        ("service.name", AttributeTest::Exists, &|_| true),
        ("service.name", AttributeTest::Absent, &|_| false),
    ] {
        let attributes = vec![condition(key, test)];
        check(Predicate { attributes, ..any() }, holds).await;
    }
    // Of lists each element, and values anywhere in the row.
    let all = |_: u64| true;
    let none = |_: u64| false;
    let with_events = |n: u64| n.is_multiple_of(7);
    for (key, test, own, anywhere) in [
        (
            "n",
            AttributeTest::Equal(text("17")),
            &(|n: u64| n == 17) as &dyn Fn(u64) -> bool,
            &(|n: u64| n == 17) as &dyn Fn(u64) -> bool,
        ),
        ("n", AttributeTest::Less(number("7")), &|n| n < 7, &|n| n < 7),
        ("service.name", AttributeTest::Equal(text("cart")), &all, &all),
        ("zones", AttributeTest::Equal(text("a")), &none, &with_events),
        ("zones", AttributeTest::Equal(text("7")), &none, &with_events),
        ("zones", AttributeTest::Greater(number("6.5")), &none, &with_events),
        ("zones", AttributeTest::Greater(number("7")), &none, &none),
        ("zones", AttributeTest::Equal(text("b")), &none, &none),
        ("zones", AttributeTest::Exists, &none, &with_events),
        ("absent", AttributeTest::Exists, &none, &none),
    ] {
        let wanted = vec![condition(key, AttributeTest::Element(Box::new(test)))];
        check(Predicate { attributes: wanted.clone(), ..any() }, own).await;
        check(Predicate { anywhere: wanted, ..any() }, anywhere).await;
    }
    check(Predicate { assembled: true, ..any() }, &|_| false).await;
    check(Predicate { root: true, ..any() }, &|_| true).await;
    check(
        Predicate {
            service: Some("stock".into()),
            status: Some(Status::Error),
            min_duration_nano: Some(20_000),
            max_duration_nano: Some(40_000),
            ..any()
        },
        &|n| n % 3 == 2 && (20..=40).contains(&n),
    )
    .await;
}

async fn all_rows_are_counted_by_words(place: Place) {
    // ClickHouse counts what has come to it.
    if place == Place::Spool {
        return;
    }
    let home = Home::new(place);
    let store = home.open().await;
    let limits = SqlLimits {
        timeout: std::time::Duration::from_secs(20),
        rows: 10_000,
        memory_bytes: 64 << 20,
    };
    let wanted_of = |columns: &[&'static str], numbers: &mut dyn Iterator<Item = u64>| {
        let mut wanted: std::collections::BTreeMap<Vec<String>, (u64, i64)> = Default::default();
        for n in numbers {
            let span = span(n);
            let words = columns.iter().map(|column| match *column {
                column::SERVICE => span.service.clone(),
                column::OPERATION => span.operation.clone(),
                column::KIND => span.kind.to_string(),
                column::CAPTURE => span.capture.to_string(),
                _ => span.status.to_string(),
            });
            let (rows, latest) = wanted.entry(words.collect()).or_insert((0, i64::MIN));
            *rows += 1;
            *latest = (*latest).max(span.start_unix_nano);
        }
        Vec::from_iter(wanted)
    };
    let columns = [vec![column::OPERATION, column::SERVICE], RowTotal::COLUMNS.to_vec()];
    let mut there = 0;
    for first in (0..60).step_by(20) {
        append(&*store, first..first + 20).await;
        there += 20;
        // What is in memory counts as well as what is in files.
        for settled in [false, true] {
            if settled {
                settle(place, &*store).await;
            } else if matches!(place, Place::ClickHouse | Place::Cluster) {
                continue;
            }
            for columns in &columns {
                let mut found = store.total_rows(columns, limits).await.expect("counted");
                found.sort_by(|one, other| one.words.cmp(&other.words));
                let found =
                    found.into_iter().map(|it| (it.words, (it.rows, it.last_start_unix_nano)));
                assert_eq!(found.collect::<Vec<_>>(), wanted_of(columns, &mut (0..there)));
            }
        }
    }
    // Deleted rows do not count, also where the file was counted before.
    let gone = span(7).service;
    store.delete(&Selection::Service(gone.clone())).await.expect("deleted");
    let mut found = store.total_rows(&columns[0], limits).await.expect("counted");
    found.sort_by(|one, other| one.words.cmp(&other.words));
    let found = found.into_iter().map(|it| (it.words, (it.rows, it.last_start_unix_nano)));
    let left = &mut (0..there).filter(|n| span(*n).service != gone);
    assert_eq!(found.collect::<Vec<_>>(), wanted_of(&columns[0], left));
}

async fn rows_are_counted_by_words_and_intervals(place: Place) {
    // ClickHouse counts what has come to it.
    if place == Place::Spool {
        return;
    }
    let home = Home::new(place);
    let store = home.open().await;
    for first in (0..60).step_by(20) {
        append(&*store, first..first + 20).await;
        settle(place, &*store).await;
    }
    let limits = SqlLimits {
        timeout: std::time::Duration::from_secs(20),
        rows: 10_000,
        memory_bytes: 64 << 20,
    };
    // From the fifth to the fiftieth, in intervals of seven; and all at once.
    // In no order of columns.
    let words = vec![column::STATUS, column::OPERATION, column::SERVICE];
    for (columns, step) in [(words, 7), (vec![], 45)] {
        let time = TimeRange {
            from_unix_nano: BEGIN_UNIX_NANO + 5 * SECOND_NANO,
            to_unix_nano: BEGIN_UNIX_NANO + 50 * SECOND_NANO,
        };
        let counting = Counting {
            columns: columns.clone(),
            time,
            step_nano: step * SECOND_NANO,
            only_presence: false,
        };
        let mut found = store.count_rows(&counting, limits).await.expect("counted");
        found.sort_by(|one, other| one.words.cmp(&other.words));
        let mut wanted: std::collections::BTreeMap<Vec<String>, Vec<u64>> = Default::default();
        for n in 5..50u64 {
            let span = span(n);
            let words = columns.iter().map(|column| match *column {
                column::SERVICE => span.service.clone(),
                column::OPERATION => span.operation.clone(),
                _ => span.status.to_string(),
            });
            let intervals = 45u64.div_ceil(step as u64) as usize;
            let counts = wanted.entry(words.collect()).or_insert_with(|| vec![0; intervals]);
            counts[(n as usize - 5) / step as usize] += 1;
        }
        let found: Vec<_> = found.into_iter().map(|it| (it.words, it.intervals)).collect();
        assert_eq!(found, Vec::from_iter(wanted));
    }
    let time = TimeRange::ALL;
    let counting =
        Counting { columns: vec![column::KIND], time, step_nano: 1, only_presence: false };
    assert!(matches!(store.count_rows(&counting, limits).await, Err(StoreError::Limit(_))));
}

async fn the_newest_come_first_and_no_more_than_asked(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    // The batches' rows interleave in time.
    for first in 0..5 {
        append(&*store, (first..100).step_by(5)).await;
        settle(place, &*store).await;
    }
    for limit in [0, 1, 7, 99, 100, 500] {
        let asked = Query {
            columns: vec![column::SPAN_ID, column::SERVICE],
            keys: None,
            limit,
            ..query(Predicate::default())
        };
        let found = store.find(&asked).await.expect("found");
        let starts: Vec<i64> = found
            .iter()
            .flat_map(|batch| {
                let starts = batch.column_by_name(column::START_UNIX_NANO).expect("the start");
                starts.as_primitive::<Int64Type>().values().to_vec()
            })
            .collect();
        let wanted: Vec<i64> =
            (0..100).rev().take(limit).map(|n| BEGIN_UNIX_NANO + n * SECOND_NANO).collect();
        assert_eq!(starts, wanted, "limit {limit}");
        assert!(found.iter().all(|batch| batch.num_columns() == 3));
    }
    // The longest are also the newest, except for one service.
    for limit in [1, 7, 500] {
        let order = Order::LongestFirst;
        let predicate = Predicate { service: Some("stock".into()), ..Predicate::default() };
        let found = store.find(&Query { order, limit, ..query(predicate) }).await.expect("found");
        let durations: Vec<i64> = found
            .iter()
            .flat_map(|batch| {
                let durations = batch.column_by_name(column::DURATION_NANO).expect("durations");
                durations.as_primitive::<Int64Type>().values().to_vec()
            })
            .collect();
        let wanted = (0..100).rev().filter(|n| n % 3 == 2).map(|n| n * 1000);
        assert_eq!(durations, wanted.take(limit).collect::<Vec<i64>>(), "limit {limit}");
    }
    let at = |n: i64| BEGIN_UNIX_NANO + n * SECOND_NANO;
    let time = TimeRange { from_unix_nano: at(10), to_unix_nano: at(20) };
    let found =
        store.find(&Query { time, limit: 5, ..query(Predicate::default()) }).await.expect("found");
    assert_eq!(numbers(&found), [15, 16, 17, 18, 19]);
}

async fn a_batch_that_comes_twice_is_stored_once(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    let send = async |store: &dyn Store, n: u64| {
        store.append(batch([n]), origin(1, n)).await.expect("taken")
    };
    assert!(matches!(send(&*store, 5).await, Appended::Stored { .. }));
    assert_eq!(send(&*store, 5).await, Appended::Duplicate);
    // An earlier batch that was refused arrives later and is no duplicate.
    assert!(matches!(send(&*store, 3).await, Appended::Stored { .. }));
    assert_eq!(send(&*store, 3).await, Appended::Duplicate);
    let other = store.append(batch([100]), origin(2, 5)).await.expect("taken");
    assert!(matches!(other, Appended::Stored { .. }), "another sender's");
    // Two at the same time, as after a reconnect.
    let (one, two) = tokio::join!(send(&*store, 9), send(&*store, 9));
    let duplicates = [one, two].iter().filter(|a| **a == Appended::Duplicate).count();
    assert_eq!(duplicates, 1);
    settle(place, &*store).await;
    abandon(store).await;
    let store = home.open().await;
    for n in [3, 5, 9] {
        assert_eq!(send(&*store, n).await, Appended::Duplicate, "after a restart");
    }
    assert!(matches!(send(&*store, 4).await, Appended::Stored { .. }));
    settle(place, &*store).await;
    assert_eq!(numbers(&everything(&*store).await), [3, 4, 5, 9, 100]);
}

async fn a_span_that_comes_twice_counts_once(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    // Every second span has a trace id.
    let send = async |store: &dyn Store, numbers: &[u64]| match store
        .append(batch(numbers.iter().copied()), None)
        .await
        .expect("taken")
    {
        Appended::Stored { .. } => numbers.to_vec(),
        Appended::Partly { rows, .. } => rows.iter().map(|row| numbers[*row as usize]).collect(),
        Appended::Duplicate => Vec::new(),
    };
    assert_eq!(send(&*store, &[1, 3, 5, 7, 9]).await, [1, 3, 5, 7, 9]);
    assert_eq!(send(&*store, &[1, 3, 5, 7, 9]).await, [0u64; 0]);
    assert_eq!(send(&*store, &[1, 11, 3]).await, [11]);
    settle(place, &*store).await;
    assert_eq!(send(&*store, &[13, 5, 13]).await, [13]);
    let (one, two) = tokio::join!(send(&*store, &[15, 17]), send(&*store, &[17, 19]));
    assert_eq!(one.len() + two.len(), 3);
    settle(place, &*store).await;
    let mut wanted: Vec<u64> = (1..20).step_by(2).collect();
    assert_eq!(numbers(&everything(&*store).await), wanted);
    let what_waits: usize = store.unsettled().iter().map(|waiting| waiting.rows.num_rows()).sum();
    assert!(!place.is_recent() || what_waits == wanted.len());
    abandon(store).await;
    if !matches!(place, Place::ClickHouse | Place::Cluster) {
        // ClickHouse is not searched for duplicates.
        let store = home.open().await;
        assert_eq!(send(&*store, &[21, 7, 19]).await, [21]);
        settle(place, &*store).await;
        wanted.push(21);
        assert_eq!(numbers(&everything(&*store).await), wanted);
    }
}

async fn assembly_is_seen_at_once_and_stays(place: Place) {
    if !place.is_recent() {
        return assembly_reaches_files(place).await;
    }
    let home = Home::new(place);
    let store = home.open().await;
    let number = append(&*store, 0..4).await;
    assert_eq!(store.unsettled().len(), 1);
    assemble(&*store, number, &[0, 1, 2, 3], trace_id(7)).await;
    assert!(store.unsettled().is_empty());
    let found = by_keys(&*store, &[Key::AssembledTrace(trace_id(7))]).await;
    assert_eq!(found, [0, 1, 2, 3]);
    let roots = Predicate { assembled: true, root: true, ..Predicate::default() };
    let roots = store.find(&query(roots)).await.expect("found");
    assert_eq!(numbers(&roots), [0]);
    // A later result replaces an earlier one.
    assemble(&*store, number, &[0, 1], trace_id(8)).await;
    assert_eq!(by_keys(&*store, &[Key::AssembledTrace(trace_id(7))]).await, [2, 3]);
    assert_eq!(by_keys(&*store, &[Key::AssembledTrace(trace_id(8))]).await, [0, 1]);
    // Sent values stay for rows that assembly has not processed.
    let number = append(&*store, 10..14).await;
    assemble(&*store, number, &[10], trace_id(9)).await;
    let rest = spans(&store.find_by_keys(&[Key::Span(span_id(12))], TimeRange::ALL).await.unwrap());
    assert_eq!(rest, [span(12)]);
    assert_eq!(rest[0].evidence, Some(Evidence::Thread));
}

async fn assembly_reaches_files(place: Place) {
    let home = Home::new(place);
    let store = home.open_in(place.recent()).await;
    for (first, trace) in [(0, 7), (4, 8)] {
        let number = append(&*store, first..first + 4).await;
        let all: Vec<u64> = (first..first + 4).collect();
        assemble(&*store, number, &all, trace_id(trace)).await;
    }
    store.close().await.expect("closed");
    if matches!(place, Place::Files | Place::Bucket) {
        assert_eq!(store.status().recent_rows, 0, "what is assembled is in a file");
    }
    abandon(store).await;
    let store = home.open().await;
    settle(place, &*store).await;
    assert_eq!(by_keys(&*store, &[Key::AssembledTrace(trace_id(8))]).await, [4, 5, 6, 7]);
    let found = store.find_by_keys(&[Key::Span(span_id(5))], TimeRange::ALL).await.unwrap();
    let found = &spans(&found)[0];
    assert_eq!(found.assembled_trace_id, Some(trace_id(8)));
    assert_eq!(found.assembled_parent, Some(span_id(4)));
    assert_eq!(found.evidence, Some(Evidence::TcpSequence));
    assert_eq!(found.confidence, Some(1.0));
    let roots = Predicate { assembled: true, root: true, ..Predicate::default() };
    assert_eq!(numbers(&store.find(&query(roots)).await.unwrap()), [0, 4]);
}

async fn a_restart_keeps_everything(place: Place) {
    let home = Home::new(place);
    let mut stored = 0;
    for round in 0..4 {
        let store = home.open().await;
        assert_eq!(numbers(&everything(&*store).await), (0..stored).collect::<Vec<_>>());
        append(&*store, stored..stored + 10).await;
        settle(place, &*store).await;
        append(&*store, stored + 10..stored + 15).await;
        stored += 15;
        if round % 2 == 0 {
            store.close().await.expect("closed");
            let refused = store.append(batch([1]), None).await.expect_err("closed");
            assert!(matches!(refused, StoreError::Full { .. }), "{refused}");
        }
        abandon(store).await;
    }
    let store = home.open().await;
    if !matches!(place, Place::ClickHouse | Place::Cluster) {
        let waiting: usize = store.unsettled().iter().map(|waiting| waiting.rows.num_rows()).sum();
        assert_eq!(waiting as u64, store.status().recent_rows);
    }
    assert_eq!(spans(&everything(&*store).await), (0..stored).map(span).collect::<Vec<_>>());
}

async fn old_rows_are_dropped(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    for first in [0, 10, 20] {
        append(&*store, first..first + 10).await;
        settle(place, &*store).await;
    }
    store.drop_before(BEGIN_UNIX_NANO + 15 * SECOND_NANO).await.expect("dropped");
    let left = numbers(&everything(&*store).await);
    // Only rows that started before may be dropped, and only whole files.
    assert!(left.ends_with(&(15..30).collect::<Vec<_>>()), "{left:?}");
    if matches!(place, Place::Files | Place::Bucket) {
        assert_eq!(left, (10..30).collect::<Vec<_>>());
    }
    abandon(store).await;
    let store = home.open().await;
    assert_eq!(numbers(&everything(&*store).await), left, "after a restart");
}

/// Checks the result of every kind of query.
async fn check_only(place: Place, store: &dyn Store, wanted: &[u64]) {
    assert_eq!(numbers(&everything(store).await), wanted);
    let every_key: Vec<Key> = (0..100).map(|n| Key::Span(span_id(n))).collect();
    assert_eq!(by_keys(store, &every_key).await, wanted);
    if place == Place::Spool {
        // Statements do not see the spool.
        return;
    }
    let limits = SqlLimits {
        timeout: std::time::Duration::from_secs(30),
        rows: 1000,
        memory_bytes: 64 << 20,
    };
    let statement = "SELECT service, count(*) AS n FROM spans GROUP BY service";
    let answer = store.sql(statement, limits).await.expect("answered");
    let left: i64 = answer
        .iter()
        .map(|batch| cast(batch.column(1), &DataType::Int64).expect("a number"))
        .flat_map(|counts| counts.as_primitive::<Int64Type>().values().to_vec())
        .sum();
    assert_eq!(left as usize, wanted.len());
}

async fn what_is_deleted_is_gone_and_stays_gone(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    append(&*store, 0..40).await;
    settle(place, &*store).await;
    append(&*store, 40..80).await;
    settle(place, &*store).await;
    let deleted = store.delete(&Selection::Service("cart".into())).await.expect("deleted");
    let mut left: Vec<u64> = (0..80).filter(|n| n % 3 != 0).collect();
    assert_eq!(deleted, Deleted { rows: 80 - left.len() as u64 });
    check_only(place, &*store, &left).await;
    // Deletes a trace by the id in its headers.
    let before = left.len();
    left.retain(|n| !(n % 2 == 1 && n / 4 == 11));
    let trace = Selection::Trace(trace_id(11));
    let deleted = store.delete(&trace).await.expect("deleted");
    assert_eq!(deleted.rows, (before - left.len()) as u64);
    assert_eq!(store.delete(&trace).await.expect("deleted"), Deleted { rows: 0 });
    let nobody = Selection::Service("nobody".into());
    assert_eq!(store.delete(&nobody).await.expect("deleted"), Deleted { rows: 0 });
    check_only(place, &*store, &left).await;
    abandon(store).await;
    for _ in 0..2 {
        let store = home.open().await;
        settle(place, &*store).await;
        check_only(place, &*store, &left).await;
        abandon(store).await;
    }
}

async fn what_comes_after_a_deletion_stays(place: Place) {
    let home = Home::new(place);
    let store = home.open_in(place.recent()).await;
    let first = append(&*store, 0..10).await;
    assemble(&*store, first, &(0..10).collect::<Vec<_>>(), trace_id(1000)).await;
    // Deletes the assembled trace while it is in memory.
    let deleted = store.delete(&Selection::Trace(trace_id(1000))).await.expect("deleted");
    assert_eq!(deleted, Deleted { rows: 10 });
    let second = append(&*store, 10..20).await;
    assemble(&*store, second, &(10..20).collect::<Vec<_>>(), trace_id(1000)).await;
    let wanted: Vec<u64> = (10..20).collect();
    check_only(place.recent(), &*store, &wanted).await;
    abandon(store).await;
    let store = home.open().await;
    settle(place, &*store).await;
    check_only(place, &*store, &wanted).await;
}

async fn a_foreign_schema_is_refused(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let foreign = RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(vec![1]))]).unwrap();
    let error = store.append(foreign.into(), None).await.expect_err("refused");
    assert!(matches!(error, StoreError::Invalid(_)), "{error}");
    assert_eq!(store.status().recent_rows, 0);
}

async fn statements_see_every_row(place: Place) {
    let home = Home::new(place);
    let store = home.open().await;
    append(&*store, 0..30).await;
    settle(place, &*store).await;
    append(&*store, 30..60).await;
    settle(place, &*store).await;
    let limits = SqlLimits {
        timeout: std::time::Duration::from_secs(30),
        rows: 100,
        memory_bytes: 64 << 20,
    };
    let answer = store
        .sql("SELECT service, count(*) AS n FROM spans GROUP BY service ORDER BY service", limits)
        .await
        .expect("answered");
    let counts: Vec<i64> = answer
        .iter()
        .flat_map(|batch| {
            // Whether counts are signed depends on the engine.
            let counts = cast(batch.column(1), &DataType::Int64).expect("a number");
            counts.as_primitive::<Int64Type>().values().to_vec()
        })
        .collect();
    assert_eq!(counts, [20, 20, 20]);
    let answer = store.sql("SELECT * FROM spans WHERE status = 'error'", limits).await.unwrap();
    assert_eq!(answer[0].schema().fields(), span_schema().fields());
    assert_eq!(numbers(&answer), (0..60).filter(|n| n % 3 == 2).collect::<Vec<_>>());
}
