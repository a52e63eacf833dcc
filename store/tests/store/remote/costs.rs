//! Requests and bytes for each kind of query, for docs/object-storage.md.

use std::time::Duration;

use spanwise_model::{Assembled, RowRef, Status};
use spanwise_store::embedded::{EmbeddedConfig, ObjectStorageConfig};
use spanwise_store::{
    Appended, AttributeCondition, AttributeTest, Key, Order, Predicate, Query, SqlLimits, Store,
    TimeRange,
};

use super::super::support::{batch, counter, in_memory, open, span_id, trace_id};
use super::S3;

const SPANS: u64 = 1_000_000;
const BATCH: u64 = 1000;
const TRACE: u64 = 20;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it measures, and takes a minute"]
async fn requests_and_bytes() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let config = |cache_max_bytes| EmbeddedConfig {
        generation_max_age: Duration::from_secs(5),
        generation_max_bytes: 16 << 20,
        recent_max_bytes: 512 << 20,
        object_storage: Some(ObjectStorageConfig {
            cache_max_bytes,
            upload_after: Duration::from_secs(20),
            ..server.config("p")
        }),
        ..in_memory(directory.path())
    };
    let store = open(config(0)).await;
    for first in (0..SPANS).step_by(BATCH as usize) {
        let stored = loop {
            match store.append(batch(first..first + BATCH), None).await {
                Ok(Appended::Stored { batch }) => break batch,
                _ => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        };
        let row = |n: u64| Assembled {
            row: RowRef { batch: stored, row: (n - first) as u32 },
            trace_id: trace_id(n / TRACE),
            parent: (!n.is_multiple_of(TRACE)).then(|| span_id(n / TRACE * TRACE)),
            evidence: None,
            confidence: None,
        };
        let rows: Vec<Assembled> = (first..first + BATCH).map(row).collect();
        store.annotate(&rows).await.expect("annotated");
    }
    loop {
        let status = store.status();
        let remote = status.object_storage.expect("the bucket");
        if [status.recent_rows, remote.waiting_files, remote.leaving_files] == [0; 3]
            && remote.cache_bytes == 0
        {
            println!("{} files, {} bytes", remote.remote_files, remote.remote_bytes);
            let (requests, bytes) = ("remote_requests", "remote_bytes_written");
            let (requests, bytes) = (counter(&*store, requests), counter(&*store, bytes));
            println!("uploads: {requests} requests, {bytes} bytes");
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    store.close().await.expect("closed");
    drop(store);
    let store = open(config(10 << 30)).await;
    let asked = || (counter(&*store, "remote_requests"), counter(&*store, "remote_bytes_read"));
    let tell = |what: &str, before: (u64, u64), rows: usize| {
        let (requests, bytes) = asked();
        println!(
            "{what}: {rows} rows, {} requests, {} bytes",
            requests - before.0,
            bytes - before.1
        );
    };
    tell("a start", (0, 0), 0);
    for trace in [7, 33_333, 12_001, 7] {
        let before = asked();
        let keys = [Key::AssembledTrace(trace_id(trace)), Key::Trace(trace_id(trace))];
        let found = store.find_by_keys(&keys, TimeRange::ALL).await.expect("found");
        tell(&format!("trace {trace}"), before, found.iter().map(|b| b.num_rows()).sum());
    }
    let of = |key: &str, value: &str| AttributeCondition {
        key: key.into(),
        test: AttributeTest::Equal(value.into()),
    };
    let errors = Predicate { status: Some(Status::Error), ..Predicate::default() };
    let one = Predicate { attributes: vec![of("n", "500000")], ..Predicate::default() };
    for (what, predicate) in [("the newest errors", errors), ("an attribute", one)] {
        let before = asked();
        let query = Query {
            predicate,
            time: TimeRange::ALL,
            columns: Vec::new(),
            keys: None,
            limit: 20,
            order: Order::NewestFirst,
        };
        let found = store.find(&query).await.expect("found");
        tell(what, before, found.iter().map(|b| b.num_rows()).sum());
    }
    let before = asked();
    let statement = "SELECT operation, count(*) FROM spans GROUP BY operation";
    let limits = SqlLimits { timeout: Duration::from_secs(60), rows: 1000, memory_bytes: 1 << 30 };
    let found = store.sql(statement, limits).await.expect("answered");
    tell("SQL over all rows", before, found.iter().map(|b| b.num_rows()).sum());
}
