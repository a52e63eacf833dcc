//! ClickHouse is down, goes down during work, is full, denies access, or is newer than this
//! program.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spanwise_store::clickhouse::{ClickHouseConfig, ClickHouseStore};
use spanwise_store::{Key, Order, Predicate, Query, Store, StoreError, TimeRange};

use super::server::{ClickHouse, address, shared};
use super::{keeping, open, sending};
use crate::disk::SmallDisk;
use crate::support::{
    abandon, append, assemble, batch, counter, everything, numbers, origin, span_id, trace_id,
    until, until_in_files,
};

fn warned(store: &dyn Store, words: &str) -> bool {
    store.status().warnings.iter().any(|warning| warning.contains(words))
}

/// A port without a listener.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

#[tokio::test]
async fn one_that_is_away_at_the_start_is_waited_for() {
    let (data, spool) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let port = free_port();
    let store = open(sending(&address(port, "later"), spool.path())).await;
    append(&*store, 0..50).await;
    until("a warning", || warned(&*store, "cannot be reached")).await;
    assert!(!format!("{:?}", store.status()).contains("ss%2Fw"), "no password is shown");
    // An answer without ClickHouse's rows would be wrong.
    let error = store.find_by_keys(&[Key::Span(span_id(1))], TimeRange::ALL).await;
    let Err(StoreError::Unavailable { reason }) = error else { panic!("{error:?}") };
    assert!(
        reason.contains("cannot be reached") && reason.contains("see that it runs"),
        "{reason}"
    );
    append(&*store, 50..60).await;
    abandon(store).await;

    let server = ClickHouse::start(data.path(), port);
    server.ask("CREATE DATABASE later");
    let store = open(sending(&address(port, "later"), spool.path())).await;
    until_in_files(&*store).await;
    assert!(store.status().warnings.is_empty(), "{:?}", store.status().warnings);
    assert_eq!(numbers(&everything(&*store).await), (0..60).collect::<Vec<_>>());
}

#[tokio::test]
async fn one_that_does_not_let_us_in_is_said_to_at_once() {
    let spool = tempfile::tempdir().unwrap();
    let port = shared().port;
    for (address, words) in [
        (
            format!("clickhouse://spanwise:wrong@127.0.0.1:{port}/default"),
            "check user and password",
        ),
        (format!("clickhouse://nobody@127.0.0.1:{port}/default"), "check user and password"),
        (shared().address("no_such_database"), "CREATE DATABASE"),
    ] {
        let error = ClickHouseStore::open(sending(&address, spool.path())).await.err();
        let Some(StoreError::Invalid(reason)) = error else { panic!("{error:?}") };
        assert!(reason.contains(words), "{reason}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let spool = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let config = sending(&shared().address(&database), spool.path());
    abandon(open(config.clone()).await).await;
    shared().ask(&format!("INSERT INTO {database}.spanwise_schema (version) VALUES (99)"));
    let mut refused = None;
    for _ in 0..100 {
        refused = ClickHouseStore::open(config.clone()).await.err();
        if refused.as_ref().is_some_and(|error| !error.to_string().contains("in use")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let Some(StoreError::Invalid(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("version 99") && reason.contains("another database"), "{reason}");
}

#[tokio::test]
async fn kills_in_the_midst_lose_nothing_and_double_nothing() {
    let (data, spool) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = ClickHouse::start(data.path(), 0);
    let database = server.new_database();
    let store = open(sending(&server.address(&database), spool.path())).await;
    let done = Arc::new(AtomicBool::new(false));
    let sender = {
        let (store, done) = (Arc::clone(&store), Arc::clone(&done));
        tokio::spawn(async move {
            let mut sent = 0;
            while !done.load(Ordering::Relaxed) {
                store
                    .append(batch(sent * 10..sent * 10 + 10), origin(1, sent))
                    .await
                    .expect("taken");
                sent += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            sent
        })
    };
    for round in 0..3 {
        let before = counter(&*store, "rows_inserted");
        until("inserts", || counter(&*store, "rows_inserted") > before + 100).await;
        tokio::time::sleep(Duration::from_millis(31 * round)).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(400)).await;
        server.start_again();
        // Whatever is in progress, each row is found once.
        let found = loop {
            match store.find(&everything_of(100_000)).await {
                Ok(found) => break numbers(&found),
                Err(StoreError::Unavailable { .. }) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
    }
    done.store(true, Ordering::Relaxed);
    let sent: u64 = sender.await.expect("sent");
    until_in_files(&*store).await;
    assert!(counter(&*store, "inserts_failed_away") > 0);
    assert_eq!(numbers(&everything(&*store).await), (0..sent * 10).collect::<Vec<_>>());
    let rows = server.ask(&format!("SELECT count() FROM {database}.spans"));
    assert_eq!(rows, (sent * 10).to_string());
}

pub(crate) fn everything_of(limit: usize) -> Query {
    Query {
        predicate: Predicate::default(),
        time: TimeRange::ALL,
        columns: Vec::new(),
        keys: None,
        limit,
        order: Order::NewestFirst,
    }
}

#[tokio::test]
async fn what_was_sent_and_not_noted_is_sent_again_and_kept_once() {
    let spool = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let config = sending(&shared().address(&database), spool.path());
    let keeping = keeping(&shared().address(&database), spool.path());
    let store = open(keeping.clone()).await;
    let number = append(&*store, 0..100).await;
    assemble(&*store, number, &(0..100).collect::<Vec<_>>(), trace_id(1)).await;
    abandon(store).await;
    // The log and the note before ClickHouse confirms.
    let saved = tempfile::tempdir().unwrap();
    copy(spool.path(), saved.path());
    let store = open(config.clone()).await;
    until_in_files(&*store).await;
    abandon(store).await;
    copy(saved.path(), spool.path());
    let store = open(config).await;
    assert_eq!(numbers(&everything(&*store).await), (0..100).collect::<Vec<_>>());
    until_in_files(&*store).await;
    assert_eq!(numbers(&everything(&*store).await), (0..100).collect::<Vec<_>>());
    assert_eq!(shared().ask(&format!("SELECT count() FROM {database}.spans")), "100");
}

pub(crate) fn copy(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            std::fs::create_dir_all(&target).expect("made");
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).expect("copied");
        }
    }
}

#[tokio::test]
async fn too_many_parts_are_waited_out() {
    let spool = tempfile::tempdir().unwrap();
    let database = shared().new_database();
    let store = open(sending(&shared().address(&database), spool.path())).await;
    shared().ask(&format!(
        "ALTER TABLE {database}.spans MODIFY SETTING parts_to_delay_insert = 1, \
         parts_to_throw_insert = 1"
    ));
    shared().ask(&format!("SYSTEM STOP MERGES {database}.spans"));
    for n in 0..4 {
        append(&*store, n * 10..n * 10 + 10).await;
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    until("a refusal", || counter(&*store, "inserts_refused_full") > 0).await;
    assert!(warned(&*store, "merges do not keep up"), "{:?}", store.status().warnings);
    assert_eq!(numbers(&everything(&*store).await), (0..40).collect::<Vec<_>>());
    shared().ask(&format!(
        "ALTER TABLE {database}.spans RESET SETTING parts_to_delay_insert, parts_to_throw_insert"
    ));
    until_in_files(&*store).await;
    assert!(store.status().warnings.is_empty(), "{:?}", store.status().warnings);
    assert_eq!(numbers(&everything(&*store).await), (0..40).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_spool_refuses_until_clickhouse_is_back() {
    let (data, spool) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = ClickHouse::start(data.path(), 0);
    let database = server.new_database();
    let config = sending(&server.address(&database), spool.path());
    let store = open(ClickHouseConfig { spool_max_bytes: 20_000, ..config }).await;
    server.kill();
    append(&*store, 0..50).await;
    until("a warning", || warned(&*store, "cannot be reached")).await;
    let mut taken = 50;
    let error = loop {
        match store.append(batch(taken..taken + 50), None).await {
            Ok(_) => taken += 50,
            Err(error) => break error,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(taken < 100_000, "it is never full");
    };
    let StoreError::Full { reason, retry_after } = error else { panic!("{error:?}") };
    assert!(reason.contains("wait for ClickHouse") && reason.contains("cannot be"), "{reason}");
    assert!(retry_after > Duration::ZERO);
    assert!(counter(&*store, "batches_refused_spool_full") > 0);
    server.start_again();
    until_in_files(&*store).await;
    append(&*store, taken..taken + 50).await;
    assert_eq!(numbers(&everything(&*store).await), (0..taken + 50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_full_disk_there_is_waited_out() {
    let Some(disk) = SmallDisk::mount(64 << 10) else { return };
    let spool = tempfile::tempdir().unwrap();
    let server = ClickHouse::start(&disk.path().join("data"), 0);
    let database = server.new_database();
    let store = open(sending(&server.address(&database), spool.path())).await;
    append(&*store, 0..100).await;
    until_in_files(&*store).await;
    let ballast = disk.path().join("ballast");
    crate::disk::fill(&ballast);
    append(&*store, 100..200).await;
    until("a refusal", || counter(&*store, "inserts_refused_full") > 0).await;
    assert!(warned(&*store, "free some space there"), "{:?}", store.status().warnings);
    std::fs::remove_file(&ballast).expect("removed");
    until_in_files(&*store).await;
    assert_eq!(numbers(&everything(&*store).await), (0..200).collect::<Vec<_>>());
}
