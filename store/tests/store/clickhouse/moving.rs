//! Moving an embedded store to ClickHouse, and the tables that hold it.

use spanwise_store::Store;

use super::server::shared;
use super::{open, sending};
use crate::support::{
    BEGIN_UNIX_NANO, abandon, append, assemble, everything, in_files, in_memory, numbers, origin,
    trace_id, until_in_files,
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
    // And back: what ClickHouse has stays there, nothing is in the way.
    let embedded = crate::support::open(in_memory(directory.path())).await;
    assert_eq!(numbers(&everything(&*embedded).await), Vec::<u64>::new());
    append(&*embedded, 200..210).await;
}

#[tokio::test]
async fn traces_lie_together_and_questions_read_little() {
    let directory = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), directory.path())).await;
    let rows: Vec<u64> = (0..60).collect();
    let number = append(&*store, rows.clone()).await;
    assemble(&*store, number, &rows, trace_id(3)).await;
    until_in_files(&*store).await;
    let plan = |question: &str| {
        shared()
            .ask(&format!("EXPLAIN indexes = 1 SELECT span_id FROM {database}.spans {question}"))
    };
    let by_time = plan(&format!(
        "WHERE start_unix_nano >= {BEGIN_UNIX_NANO} AND intDiv(start_unix_nano, 60000000000) >= 3"
    ));
    assert!(by_time.contains("(intDiv(start_unix_nano, 60000000000) in [3, +Inf))"), "{by_time}");
    for (question, index) in [
        (r"WHERE span_id IN ('\x00\x00\x00\x00\x00\x00\x00\x05')", "span"),
        ("WHERE fragment_id IN (1, 2)", "fragment"),
        ("WHERE service = 'nobody'", "of_service"),
    ] {
        let plan = plan(question);
        assert!(plan.contains(&format!("Name: {index}\n")), "{question}: {plan}");
    }
    let parts = shared().ask(&format!(
        "SELECT DISTINCT partition FROM system.parts WHERE database = '{database}' AND \
         table = 'spans' AND active"
    ));
    assert_eq!(parts.lines().count(), 1, "{parts}");
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
