//! Files that move to the bucket, out of it, and to another host.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use spanwise_store::embedded::{EmbeddedConfig, ObjectStorageConfig};
use spanwise_store::{Key, Selection, Store, TimeRange};

use super::super::support::{
    abandon, counter, everything, files, in_files, numbers, open, span_id, until, until_in_files,
};
use super::server::S3;
use super::{append, at, objects, refusal, store_files};

#[tokio::test]
async fn files_go_to_the_bucket_and_are_read_from_there() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let store = open(at(directory.path(), server.config("p"))).await;
    store_files(&*store, 0, 9).await;
    until("a merged file", || counter(&*store, "files_merged") == 8).await;
    until("its parts to go", || objects(&server, "p").iter().all(|kind| kind.len() == 2)).await;
    let status = store.status();
    let remote = status.object_storage.expect("the bucket");
    assert_eq!((remote.remote_files, remote.waiting_files), (2, 0));
    assert_eq!(remote.remote_bytes, status.file_bytes);
    until("the copies to go", || files(&directory.path().join("spans"), "").is_empty()).await;
    let read = counter(&*store, "remote_bytes_read");
    assert_eq!(numbers(&everything(&*store).await), (0..90).collect::<Vec<_>>());
    assert!(counter(&*store, "remote_bytes_read") > read, "it is read from the bucket");
    abandon(store).await;
    // After a restart without any local copy.
    std::fs::remove_dir_all(directory.path().join("cache")).expect("removed");
    let store = open(at(directory.path(), server.config("p"))).await;
    assert_eq!(numbers(&everything(&*store).await), (0..90).collect::<Vec<_>>());
    assert_eq!(store.status().warnings, [""; 0]);
    store_files(&*store, 9, 1).await;
    assert_eq!(numbers(&everything(&*store).await), (0..100).collect::<Vec<_>>());
    // Opening without the bucket would silently lose spans.
    abandon(store).await;
    let error = refusal(in_files(directory.path())).await.to_string();
    assert!(error.contains("--object-storage s3://traces/p"), "{error}");
    let error = refusal(at(directory.path(), server.config("other"))).await.to_string();
    assert!(error.contains("s3://traces/p") && error.contains("s3://traces/other"), "{error}");
}

#[tokio::test]
async fn what_was_read_is_kept_within_bounds() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let store = open(at(directory.path(), server.config("p"))).await;
    store_files(&*store, 0, 3).await;
    abandon(store).await;
    let roomy = ObjectStorageConfig { cache_max_bytes: 10 << 20, ..server.config("p") };
    let store = open(at(directory.path(), roomy.clone())).await;
    let all = numbers(&everything(&*store).await);
    let (requests, misses) =
        (counter(&*store, "remote_requests"), counter(&*store, "remote_cache_misses"));
    assert!(misses > 0);
    assert_eq!(numbers(&everything(&*store).await), all);
    let hits = counter(&*store, "remote_cache_hits");
    assert_eq!(counter(&*store, "remote_cache_misses"), misses, "all of it is in the cache");
    assert_eq!(counter(&*store, "remote_requests"), requests);
    abandon(store).await;
    // The cache survives a restart.
    let store = open(at(directory.path(), roomy)).await;
    assert_eq!(numbers(&everything(&*store).await), all);
    assert_eq!(counter(&*store, "remote_cache_misses"), 0);
    assert!(hits > 0 && counter(&*store, "remote_cache_hits") > 0);
    abandon(store).await;
    // With a lower limit, it shrinks.
    let store = open(at(directory.path(), server.config("p"))).await;
    let cached = || {
        let files = files(&directory.path().join("cache"), "");
        files.iter().map(|path| path.metadata().map_or(0, |about| about.len())).sum::<u64>()
    };
    until("an empty cache", || cached() == 0).await;
    assert_eq!(numbers(&everything(&*store).await), all);
    assert_eq!(cached(), 0);
}

#[tokio::test]
async fn files_wait_as_long_as_they_are_told_to() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let patient = ObjectStorageConfig {
        upload_after: Duration::from_secs(3600),
        cache_max_bytes: 10 << 20,
        ..server.config("p")
    };
    let store = open(at(directory.path(), patient)).await;
    for n in 0..8 {
        append(&*store, n * 10..n * 10 + 10).await;
        until("a file", || store.status().recent_rows == 0).await;
    }
    until("a merged file", || store.status().files == 1).await;
    let waiting = |store: &dyn Store| {
        let remote = store.status().object_storage.expect("the bucket");
        (remote.waiting_files, remote.remote_files)
    };
    assert_eq!(waiting(&*store), (1, 0));
    assert_eq!(counter(&*store, "remote_files_uploaded"), 0, "parts are not uploaded in vain");
    abandon(store).await;
    let store = open(at(directory.path(), server.config("p"))).await;
    until("the file to go", || waiting(&*store) == (0, 1)).await;
    assert_eq!(numbers(&everything(&*store).await), (0..80).collect::<Vec<_>>());
}

#[tokio::test]
async fn deletion_and_retention_reach_the_bucket() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let store = open(at(directory.path(), server.config("p"))).await;
    store_files(&*store, 0, 3).await;
    let before = objects(&server, "p");
    assert!(before.iter().all(|kind| kind.len() == 3), "{before:?}");
    let deleted = store.delete(&Selection::Service("cart".into())).await.expect("deleted");
    let left: Vec<u64> = (0..30).filter(|n| n % 3 != 0).collect();
    assert_eq!(deleted.rows, 30 - left.len() as u64);
    assert_eq!(numbers(&everything(&*store).await), left);
    let are_new = || {
        let now = objects(&server, "p");
        let is_new = |(now, before): (&Vec<String>, &Vec<String>)| {
            now.len() == 3 && now.iter().all(|name| !before.contains(name))
        };
        now.iter().zip(&before).all(is_new)
    };
    until("new objects without the rows, and none with them", are_new).await;
    until("the end of the deletion", || !directory.path().join("deletions").exists()).await;
    let rows = |path| {
        let file = std::fs::File::open(path).expect("opened");
        let file = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
        file.metadata().file_metadata().num_rows()
    };
    let rows = files(&server.objects("p").join("spans"), "").into_iter().map(rows).sum::<i64>();
    assert_eq!(rows, left.len() as i64, "any reader finds just what is left");
    abandon(store).await;
    let config =
        EmbeddedConfig { retain_bytes: Some(1), ..at(directory.path(), server.config("p")) };
    let store = open(config).await;
    until("an empty bucket", || objects(&server, "p").iter().all(Vec::is_empty)).await;
    assert_eq!(store.status().files, 0);
    until("no head", || files(&directory.path().join("heads"), "").is_empty()).await;
    assert!(files(&directory.path().join("cache"), "").is_empty());
}

#[tokio::test]
async fn another_machine_takes_over_what_is_there_and_one_only_writes() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let old = open(at(directory.path(), server.config("p"))).await;
    store_files(&*old, 0, 5).await;

    let new_directory = tempfile::tempdir().unwrap();
    let error = refusal(at(new_directory.path(), server.config("p"))).await.to_string();
    let id =
        error.split("--object-storage-take-over ").nth(1).and_then(|rest| rest.split(' ').next());
    let id = id.unwrap_or_else(|| panic!("{error}")).to_owned();
    let wrong = ObjectStorageConfig { take_over: Some("0".repeat(16)), ..server.config("p") };
    let again = refusal(at(new_directory.path(), wrong)).await.to_string();
    assert!(again.contains(&id), "{again}");

    let take_over = ObjectStorageConfig { take_over: Some(id), ..server.config("p") };
    // Spans of another store must not be mixed with those of the bucket.
    let other = tempfile::tempdir().unwrap();
    let own = open(in_files(other.path())).await;
    store_rows(&*own).await;
    abandon(own).await;
    let error = refusal(at(other.path(), take_over.clone())).await.to_string();
    assert!(error.contains("cannot become one store"), "{error}");
    // The attempt became the owner, and the next one is told so.
    let error = refusal(at(new_directory.path(), take_over)).await.to_string();
    let id =
        error.split("--object-storage-take-over ").nth(1).and_then(|rest| rest.split(' ').next());
    let take_over = ObjectStorageConfig { take_over: id.map(str::to_owned), ..server.config("p") };

    let new = open(at(new_directory.path(), take_over.clone())).await;
    assert_eq!(numbers(&everything(&*new).await), (0..50).collect::<Vec<_>>());
    let key = [Key::Span(span_id(17))];
    assert_eq!(numbers(&new.find_by_keys(&key, TimeRange::ALL).await.expect("found")), [17]);
    store_files(&*new, 5, 1).await;
    // The old server continues to store spans, leaves the bucket alone, and reports it.
    append(&*old, 100..110).await;
    until("a word about it", || {
        old.status().warnings.iter().any(|warning| warning.contains("was taken over"))
    })
    .await;
    assert_eq!(old.status().object_storage.expect("the bucket").waiting_files, 1);
    assert_eq!(numbers(&new_rows(&*old).await), (100..110).collect::<Vec<_>>());
    assert_eq!(numbers(&everything(&*new).await), (0..60).collect::<Vec<_>>());
    abandon(old).await;
    let error = refusal(at(directory.path(), server.config("p"))).await.to_string();
    assert!(error.contains("belongs to the server"), "{error}");
    // Taking over happens once. The setting may remain.
    abandon(new).await;
    let new = open(at(new_directory.path(), take_over)).await;
    store_files(&*new, 6, 1).await;
    assert_eq!(numbers(&everything(&*new).await), (0..70).collect::<Vec<_>>());
}

async fn store_rows(store: &dyn Store) {
    append(store, 200..210).await;
    until_in_files(store).await;
}

async fn new_rows(store: &dyn Store) -> Vec<arrow::array::RecordBatch> {
    let keys: Vec<Key> = (100..110).map(|n| Key::Span(span_id(n))).collect();
    store.find_by_keys(&keys, TimeRange::ALL).await.expect("found")
}

#[tokio::test]
async fn a_query_finishes_over_objects_that_go_meanwhile() {
    let (directory, buckets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = S3::start(buckets.path());
    let store = open(at(directory.path(), server.config("p"))).await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let asking = {
        let (store, stop) = (std::sync::Arc::clone(&store), std::sync::Arc::clone(&stop));
        tokio::spawn(async move {
            let mut asked = 0;
            while !stop.load(Ordering::Acquire) {
                let key = [Key::Span(span_id(3))];
                let found = store.find_by_keys(&key, TimeRange::ALL).await.expect("found");
                assert!(numbers(&found).len() <= 1);
                asked += 1;
                tokio::task::yield_now().await;
            }
            asked
        })
    };
    store_files(&*store, 0, 17).await;
    until("merged files", || counter(&*store, "files_merged") == 16).await;
    stop.store(true, Ordering::Release);
    assert!(asking.await.expect("no query failed") > 0);
    assert_eq!(counter(&*store, "files_broken_set_aside"), 0);
    assert_eq!(numbers(&everything(&*store).await), (0..170).collect::<Vec<_>>());
}
