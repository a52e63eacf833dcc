//! Object storage that is unreachable, denies access, or has lost objects.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use spanwise_store::embedded::ObjectStorageConfig;
use spanwise_store::{Key, Selection, SqlLimits, Store, StoreError, TimeRange};

use super::super::support::{
    abandon, append, counter, everything, files, numbers, open, span_id, until,
};
use super::server::{S3, config};
use super::{at, objects, refusal, store_files};

fn warns(store: &dyn Store, of: &str) -> bool {
    store.status().warnings.iter().any(|warning| warning.contains(of))
}

async fn of_keys(store: &dyn Store, n: u64) -> Result<Vec<u64>, StoreError> {
    let found = store.find_by_keys(&[Key::Span(span_id(n))], TimeRange::ALL).await;
    found.map(|found| numbers(&found))
}

const LIMITS: SqlLimits =
    SqlLimits { timeout: Duration::from_secs(60), rows: 10, memory_bytes: 64 << 20 };

#[tokio::test]
async fn a_server_that_vanishes_costs_no_span_and_is_used_again_when_it_is_back() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = S3::start(buckets.path());
    let store = open(at(directory.path(), server.config("p"))).await;
    store_files(&*store, 0, 2).await;
    server.kill();
    for n in 2..4 {
        let begin = Instant::now();
        append(&*store, n * 10..n * 10 + 10).await;
        assert!(begin.elapsed() < Duration::from_secs(5), "senders do not wait");
    }
    until("a warning", || warns(&*store, "object storage cannot be used")).await;
    until("files", || store.status().recent_rows == 0).await;
    assert!(store.status().object_storage.is_some_and(|status| status.waiting_files > 0));
    // Local rows are found. For rows that may be remote, the answer is an error, not "not found".
    assert_eq!(of_keys(&*store, 25).await.expect("found"), [25]);
    let error = of_keys(&*store, 5).await.expect_err("it is away");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    let error = store.sql("SELECT count(span_id) FROM spans", LIMITS).await.expect_err("away");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    assert!(counter(&*store, "remote_files_not_reached") > 0);
    // Many queries do not each wait for it.
    let begin = Instant::now();
    for _ in 0..50 {
        let _ = of_keys(&*store, 5).await;
    }
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
    // A deletion also applies to files that cannot be read now.
    store.delete(&Selection::Service("cart".into())).await.expect("deleted");
    let left: Vec<u64> = (0..40).filter(|n| n % 3 != 0).collect();
    assert!(warns(&*store, "left out of answers"), "{:?}", store.status().warnings);
    abandon(store).await;
    // A start does not need object storage, either.
    let store = open(at(directory.path(), server.config("p"))).await;
    assert_eq!(of_keys(&*store, 25).await.expect("found"), [25]);
    server.start_again();
    until("an end of the warnings", || store.status().warnings.is_empty()).await;
    let is_there = || {
        let status = store.status().object_storage.expect("the bucket");
        [status.waiting_files, status.leaving_files, status.hidden_files] == [0; 3]
    };
    until("all files to be there", is_there).await;
    assert_eq!(numbers(&everything(&*store).await), left);
    assert_eq!(counter(&*store, "files_broken_set_aside"), 0);
}

#[tokio::test]
async fn wrong_credentials_are_told_and_right_ones_go_on() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let wrong = || config(server.port, "p", "wrong");
    let error = refusal(at(directory.path(), wrong())).await.to_string();
    assert!(error.contains("credentials were refused"), "{error}");
    let store = open(at(directory.path(), server.config("p"))).await;
    store_files(&*store, 0, 1).await;
    abandon(store).await;
    let store = open(at(directory.path(), wrong())).await;
    append(&*store, 10..20).await;
    until("a warning", || warns(&*store, "credentials were refused")).await;
    assert_eq!(of_keys(&*store, 12).await.expect("found"), [12]);
    abandon(store).await;
    let store = open(at(directory.path(), server.config("p"))).await;
    until("an end of the warnings", || store.status().warnings.is_empty()).await;
    assert_eq!(numbers(&everything(&*store).await), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_address_that_leads_nowhere_is_told_at_once() {
    let directory = tempfile::tempdir().unwrap();
    for (url, says) in [
        ("traces", "s3://BUCKET/PREFIX"),
        ("http://bucket/prefix", "s3://BUCKET/PREFIX"),
        ("s3://", "s3://BUCKET/PREFIX"),
        ("file:///not/there", "/not/there"),
    ] {
        let error = refusal(at(directory.path(), ObjectStorageConfig::new(url.into()))).await;
        assert!(error.to_string().contains(says), "{url}: {error}");
    }
    let buckets = tempfile::tempdir().unwrap();
    let server = S3::start(buckets.path());
    std::fs::remove_dir(server.objects("")).expect("no bucket");
    let error = refusal(at(directory.path(), server.config("p"))).await;
    assert!(error.to_string().contains("traces"), "{error}");
}

#[tokio::test]
async fn damaged_objects_are_told_and_cost_only_their_own_spans() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let store = open(at(directory.path(), server.config("p"))).await;
    store_files(&*store, 0, 5).await;
    let spans = files(&server.objects("p").join("spans"), ".parquet");
    let cut = std::fs::File::options().write(true).open(&spans[1]).expect("opened");
    cut.set_len(cut.metadata().expect("its length").len() / 3).expect("cut");
    std::fs::remove_file(&spans[2]).expect("removed");
    let mut bytes = std::fs::read(&spans[3]).expect("read");
    bytes[100] ^= 1;
    std::fs::write(&spans[3], bytes).expect("written");
    let left: Vec<u64> = (0..10).chain(40..50).collect();
    assert_eq!(numbers(&everything(&*store).await), left);
    assert_eq!(counter(&*store, "files_broken_set_aside"), 3);
    for says in ["bytes instead of", "it is gone", "not as it was uploaded"] {
        assert!(warns(&*store, says), "{says}: {:?}", store.status().warnings);
    }
    // None of it is removed, also after a restart.
    abandon(store).await;
    let store = open(at(directory.path(), server.config("p"))).await;
    assert_eq!(numbers(&everything(&*store).await), left);
    store_files(&*store, 5, 1).await;
    assert_eq!(objects(&server, "p")[0].len(), 6);
    assert_eq!(objects(&server, "p")[1].len(), 5);
}

#[tokio::test]
async fn a_bucket_that_is_gone_is_no_damage() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let store = open(at(directory.path(), server.config("p"))).await;
    store_files(&*store, 0, 2).await;
    let (bucket, away) = (server.objects(""), buckets.path().join("elsewhere"));
    std::fs::rename(&bucket, &away).expect("moved");
    let error = of_keys(&*store, 5).await.expect_err("it is away");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
    append(&*store, 20..30).await;
    until("a warning", || !store.status().warnings.is_empty()).await;
    std::fs::rename(&away, &bucket).expect("moved back");
    until("an end of the warnings", || store.status().warnings.is_empty()).await;
    assert_eq!(numbers(&everything(&*store).await), (0..30).collect::<Vec<_>>());
    assert_eq!(counter(&*store, "files_broken_set_aside"), 0);
}

/// Answers every request in the same way, or not at all.
fn stubborn(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut buffer = [0; 65536];
                while stream.read(&mut buffer).is_ok_and(|count| count > 0) {
                    if answer.is_empty() {
                        continue;
                    }
                    let _ = stream.write_all(answer.as_bytes());
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn a_server_that_throttles_or_hangs_blocks_nobody() {
    const SLOW_DOWN: &str =
        "HTTP/1.1 503 Slow Down\r\nContent-Length: 27\r\n\r\n<Error>SlowDown</Error>....";
    for answer in [SLOW_DOWN, ""] {
        let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let server = S3::start(buckets.path());
        let store = open(at(directory.path(), server.config("p"))).await;
        store_files(&*store, 0, 1).await;
        abandon(store).await;
        let slow = ObjectStorageConfig {
            options: config(stubborn(answer), "p", "any").options,
            ..server.config("p")
        };
        let begin = Instant::now();
        let store = open(at(directory.path(), slow)).await;
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?} to start", begin.elapsed());
        for n in 1..5 {
            let begin = Instant::now();
            append(&*store, n * 10..n * 10 + 10).await;
            assert!(begin.elapsed() < Duration::from_secs(5), "senders do not wait");
        }
        until("a warning", || warns(&*store, "object storage cannot be used")).await;
        assert_eq!(of_keys(&*store, 33).await.expect("found"), [33]);
        store.close().await.expect("closed");
        let store = open(at(directory.path(), server.config("p"))).await;
        until("all to be there", || {
            store.status().object_storage.is_some_and(|s| s.waiting_files == 0)
        })
        .await;
        assert_eq!(numbers(&everything(&*store).await), (0..50).collect::<Vec<_>>());
    }
}
