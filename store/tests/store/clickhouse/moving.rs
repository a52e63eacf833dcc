//! Moving an embedded store to ClickHouse, and the tables there.

use spanwise_store::{Key, Store, TimeRange};

use super::server::shared;
use super::{open, sending};
use crate::support::{
    BEGIN_UNIX_NANO, abandon, append, everything, in_files, in_memory, numbers, origin, span_id,
    trace_id, until, until_in_files,
};

#[tokio::test]
async fn what_an_embedded_store_has_moves_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let embedded = crate::support::open(in_files(directory.path())).await;
    for n in 0..10 {
        append(&*embedded, n * 10..n * 10 + 10).await;
        until_in_files(&*embedded).await;
    }
    embedded.append(crate::support::batch(100..110), origin(1, 7)).await.expect("taken");
    embedded.close().await.expect("closed");
    abandon(embedded).await;
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), directory.path())).await;
    assert_eq!(numbers(&everything(&*store).await), (0..110).collect::<Vec<_>>());
    until_in_files(&*store).await;
    let again = store.append(crate::support::batch(100..110), origin(1, 7)).await.expect("known");
    assert_eq!(again, spanwise_store::Appended::Duplicate);
    assert_eq!(numbers(&everything(&*store).await), (0..110).collect::<Vec<_>>());
    assert_eq!(shared().ask(&format!("SELECT count() FROM {database}.spans")), "110");
    store.close().await.expect("closed");
    abandon(store).await;
    // Moving back: rows in ClickHouse stay there, and nothing prevents opening.
    let embedded = crate::support::open(in_memory(directory.path())).await;
    assert_eq!(numbers(&everything(&*embedded).await), Vec::<u64>::new());
    append(&*embedded, 200..210).await;
}

/// A snapshot of the crate's unit tests, without its header.
fn recorded(name: &str) -> String {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/clickhouse/snapshots");
    let path = format!("{directory}/spanwise_store__clickhouse__{name}.snap");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.splitn(3, "---\n").nth(2).expect("a recorded text").trim_end().to_owned()
}

#[tokio::test]
async fn a_clusters_statements_are_statements() {
    for name in [
        "schema__tests__a_cluster_has_replicas_and_one_table_over_all",
        "schema__tests__a_cluster_has_replicas_and_one_table_over_all-2",
        "schema__tests__a_cluster_has_replicas_and_one_table_over_all-3",
    ] {
        let tree = shared().ask(&format!("EXPLAIN AST {}", recorded(name)));
        assert!(tree.starts_with("CreateQuery"), "{name}: {tree}");
    }
}

#[tokio::test]
async fn conditions_use_the_indexes() {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), directory.path())).await;
    append(&*store, 0..10).await;
    until_in_files(&*store).await;
    let conditions = recorded("condition__tests__conditions_are_what_they_were");
    for (part, index) in [
        ("start_unix_nano >= -1", "intDiv(start_unix_nano, 60000000000) in [0, +Inf)"),
        ("service = ", "Name: of_service"),
        ("operation = ", "Name: of_operation"),
        ("indexHint", "Name: attribute_pairs"),
        ("assembled_trace_id IN", "Name: assembled_trace"),
        ("trace_id IN", "Name: header_trace"),
        ("span_id IN", "Name: span"),
        ("fragment_id IN", "Name: fragment"),
        ("(request_tcp_seq IN", "Name: hop"),
        ("x_request_id IN", "Name: request"),
    ] {
        let condition = conditions.lines().find(|line| line.starts_with(part)).expect(part);
        let plan = shared().ask(&format!(
            "EXPLAIN indexes = 1 SELECT span_id FROM {database}.spans WHERE {condition}"
        ));
        assert!(plan.contains(index), "{condition}: {plan}");
    }
}

#[tokio::test]
async fn no_clock_makes_partitions_or_hides_a_row() {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), directory.path())).await;
    let starts = [0, 1, -1, i64::MIN, i64::MAX, i64::MAX - 1, BEGIN_UNIX_NANO, -61_000_000_000];
    let mut builder = spanwise_model::SpanBatchBuilder::new();
    for (n, start) in (0..).zip(starts) {
        let mut span = crate::support::span(n);
        span.start_unix_nano = start;
        span.events.clear();
        builder.push(&span);
    }
    store.append(builder.finish().expect("a batch").into(), None).await.expect("taken");
    until_in_files(&*store).await;
    assert_eq!(numbers(&everything(&*store).await), (0..8).collect::<Vec<_>>());
    let parts = shared().ask(&format!(
        "SELECT uniqExact(partition) FROM system.parts WHERE database = '{database}' AND \
         table = 'spans' AND active"
    ));
    assert_eq!(parts, "1");
    for (from, to, wanted) in [
        (i64::MIN, 0, vec![2, 3, 7]),
        (-1, 1, vec![0, 2]),
        (-60_999_999_999, 2, vec![0, 1, 2]),
        (-61_000_000_000, -1, vec![7]),
        (BEGIN_UNIX_NANO, i64::MAX, vec![4, 5, 6]),
        (i64::MAX - 1, i64::MAX, vec![4, 5]),
    ] {
        let query = spanwise_store::Query {
            predicate: spanwise_store::Predicate::default(),
            time: spanwise_store::TimeRange { from_unix_nano: from, to_unix_nano: to },
            columns: Vec::new(),
            keys: None,
            limit: 100,
            order: spanwise_store::Order::NewestFirst,
        };
        let found = store.find(&query).await.expect("found");
        assert_eq!(numbers(&found), wanted, "{from} to {to}");
    }
}

#[tokio::test]
async fn a_file_of_several_parts_arrives_whole() {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), directory.path())).await;
    // More rows than a row group has.
    append(&*store, 0..70_000).await;
    until_in_files(&*store).await;
    let counts = shared().ask(&format!(
        "SELECT count(), uniqExact(span_id), uniqExact(insert_id) FROM {database}.spans"
    ));
    assert_eq!(counts, "70000\t70000\t1");
    let found = store.find_by_keys(&[Key::Span(span_id(69_999))], TimeRange::ALL).await;
    assert_eq!(numbers(&found.expect("found")), [69_999]);
}

#[tokio::test]
async fn many_keys_are_one_question() {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), directory.path())).await;
    append(&*store, 0..100).await;
    until_in_files(&*store).await;
    let keys: Vec<Key> = (0..20_000u64)
        .flat_map(|n| {
            let hop = Key::TcpSequences(u32::MAX - n as u32, n as u32);
            [Key::Span(span_id(n)), Key::Fragment(u64::MAX - n), hop, Key::Trace(trace_id(n))]
        })
        .collect();
    let found = store.find_by_keys(&keys, TimeRange::ALL).await.expect("found");
    assert_eq!(numbers(&found), (0..100).collect::<Vec<_>>());
}

/// The statements behind `/api/v1/services` and `/api/v1/operations`.
pub(crate) const LISTS: [&str; 2] = [
    "SELECT service, capture, status, count(*) AS spans, max(start_unix_nano) AS last_seen \
     FROM spans GROUP BY service, capture, status ORDER BY service, capture, status",
    "SELECT operation, kind, count(*) AS spans FROM spans WHERE service = 'cart' \
     GROUP BY operation, kind ORDER BY spans DESC, operation LIMIT 1000",
];

/// The list from the projections, once all parts have them. It equals the list computed from rows.
pub(crate) async fn list_from_counts(
    ask: impl Fn(&str) -> String,
    database: &str,
    list: &str,
) -> String {
    let list = list.replace("FROM spans", &format!("FROM {database}.spans"));
    let from_rows = format!("{list} SETTINGS optimize_use_projections = 0");
    let explained = format!("EXPLAIN {list}");
    until("counts", || {
        let plan = ask(&explained);
        plan.contains("(lists)") && !plan.contains(&format!("ReadFromMergeTree ({database}"))
    })
    .await;
    let counted = ask(&list);
    assert_eq!(counted, ask(&from_rows));
    counted
}

#[tokio::test]
async fn lists_come_from_counts_and_forget_what_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), directory.path())).await;
    for n in 0..3 {
        append(&*store, n * 1000..n * 1000 + 1000).await;
        until_in_files(&*store).await;
    }
    let ask = |statement: &str| shared().ask(statement);
    let services = list_from_counts(ask, &database, LISTS[0]).await;
    assert!(services.lines().all(|line| line.contains("\t500\t")), "{services}");
    assert!(list_from_counts(ask, &database, LISTS[1]).await.starts_with("GET /0"));
    let payment = spanwise_store::Selection::Service("payment".to_owned());
    assert_eq!(store.delete(&payment).await.expect("deleted").rows, 1000);
    let services = list_from_counts(ask, &database, LISTS[0]).await;
    assert!(!services.contains("payment"), "{services}");
    let trace = spanwise_store::Selection::Trace(trace_id(1));
    assert_eq!(store.delete(&trace).await.expect("deleted").rows, 1);
    let services = list_from_counts(ask, &database, LISTS[0]).await;
    assert!(services.contains("\t499\t"), "{services}");
}

#[tokio::test]
async fn tables_of_the_first_version_get_counts() {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let first = include_str!("../../clickhouse/version-1.sql");
    shared().ask(&first.replacen(" spans (", &format!(" {database}.spans ("), 1));
    shared().ask(&format!(
        "CREATE TABLE {database}.spanwise_schema (version UInt32, brought_about DateTime('UTC') \
         DEFAULT now()) ENGINE = MergeTree ORDER BY version"
    ));
    shared().ask(&format!("INSERT INTO {database}.spanwise_schema (version) VALUES (1)"));
    // Rows as that version inserted them, with current starts, which its TTL keeps.
    let columns = "span_id, start_unix_nano, duration_nano, service, operation, kind, status, \
                   capture, resource, partition_day, insert_id";
    shared().ask(&format!(
        "INSERT INTO {database}.spans ({columns}) SELECT reinterpretAsFixedString(number + 1), \
         toUnixTimestamp64Nano(now64(9)), 1, ['cart', 'stock'][number % 2 + 1], 'GET /', 'server', \
         'ok', 'app', '{{}}', today(), 1 FROM numbers(1000)"
    ));
    let config = sending(&shared().address(&database), directory.path());
    let ask = |statement: &str| shared().ask(statement);
    for _ in 0..2 {
        abandon(open(config.clone()).await).await;
        let services = list_from_counts(ask, &database, LISTS[0]).await;
        assert_eq!(services.matches("\tok\t500\t").count(), 2, "{services}");
    }
    let version = shared().ask(&format!("SELECT max(version) FROM {database}.spanwise_schema"));
    assert_eq!(version, "2");
    let store = open(config).await;
    let cart = spanwise_store::Selection::Service("cart".to_owned());
    assert_eq!(store.delete(&cart).await.expect("deleted").rows, 500);
    assert!(!list_from_counts(ask, &database, LISTS[0]).await.contains("cart"));
}

#[tokio::test]
async fn a_table_that_was_dropped_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), directory.path())).await;
    append(&*store, 0..10).await;
    until_in_files(&*store).await;
    shared().ask(&format!("DROP TABLE {database}.spans SYNC"));
    append(&*store, 10..20).await;
    until_in_files(&*store).await;
    assert_eq!(numbers(&everything(&*store).await), (10..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn keeping_spans_for_another_time_changes_the_tables() {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let ttl = || {
        let table = shared().ask(&format!("SHOW CREATE TABLE {database}.spans FORMAT TSVRaw"));
        table.lines().find(|line| line.starts_with("TTL ")).unwrap_or_default().to_owned()
    };
    let day = std::time::Duration::from_secs(86_400);
    let mut before = String::new();
    for (retain_age, seconds) in
        [(Some(day), "172800"), (Some(day), "172800"), (Some(day * 6), "604800"), (None, "")]
    {
        let mut config = sending(&shared().address(&database), directory.path());
        config.retain_age = retain_age;
        let store = open(config).await;
        let now = ttl();
        assert!(now.contains(seconds) && now.is_empty() == seconds.is_empty(), "{now}");
        before.clone_from(&now);
        store.close().await.expect("closed");
        abandon(store).await;
    }
    assert_eq!(before, "");
}
