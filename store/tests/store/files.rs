//! Files: their format, merging and retention.

use std::fs::File;
use std::time::Duration;

use arrow::array::AsArray;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use spanwise_model::SpanId;
use spanwise_store::embedded::EmbeddedConfig;
use spanwise_store::{Key, Selection, Store, TimeRange};

use super::support::{
    abandon, append, assemble, counter, everything, files, in_files, in_memory, numbers, open,
    span_id, trace_id, until, until_in_files,
};

#[tokio::test]
async fn a_trace_lies_in_one_place_and_traces_by_their_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_memory(directory.path())).await;
    // Rows of four traces, interleaved, in descending order.
    let mixed: Vec<u64> = (0..100).rev().collect();
    let number = append(&*store, mixed.clone()).await;
    let mut rows = Vec::new();
    for (row, n) in (0..).zip(&mixed) {
        rows.push(spanwise_model::Assembled {
            row: spanwise_model::RowRef { batch: number, row },
            trace_id: trace_id(n % 4),
            parent: None,
            evidence: None,
            confidence: None,
        });
    }
    store.annotate(&rows).await.expect("annotated");
    store.close().await.expect("closed");
    let path = files(&directory.path().join("spans"), ".parquet").pop().expect("a file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("opened"))
        .expect("Parquet")
        .build()
        .expect("a reader");
    let order: Vec<u64> = reader
        .flat_map(|batch| {
            let batch = batch.expect("rows");
            let ids = batch.column_by_name("span_id").expect("ids").as_fixed_size_binary().clone();
            let number = |id: Option<&[u8]>| id.and_then(SpanId::from_bytes).expect("an id");
            ids.iter().map(|id| number(id).as_u64() - 1).collect::<Vec<_>>()
        })
        .collect();
    let wanted: Vec<u64> = (0..4).flat_map(|trace| (trace..100).step_by(4)).collect();
    assert_eq!(order, wanted);
}

#[tokio::test]
async fn small_files_are_merged_and_nothing_is_lost_or_doubled() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    for n in 0..8 {
        append(&*store, n * 10..n * 10 + 10).await;
        until_in_files(&*store).await;
    }
    until("a merged file", || store.status().files == 1).await;
    assert_eq!(counter(&*store, "files_merged"), 8);
    assert_eq!(numbers(&everything(&*store).await), (0..80).collect::<Vec<_>>());
    let spans = directory.path().join("spans");
    until("the parts to go", || files(&spans, ".parquet").len() == 1).await;
    // A crash after writing a merged file leaves it beside its parts.
    let merged = files(&spans, ".parquet").pop().expect("a file");
    abandon(store).await;
    std::fs::copy(&merged, spans.join("000000000003-000000000003.parquet")).expect("copied");
    std::fs::write(spans.join("000000000009-000000000009.parquet.tmp"), b"half").expect("written");
    let store = open(in_memory(directory.path())).await;
    assert_eq!(numbers(&everything(&*store).await), (0..80).collect::<Vec<_>>());
    assert_eq!(files(&spans, ".parquet"), [merged]);
    assert!(files(&spans, ".tmp").is_empty());
}

#[tokio::test]
async fn files_are_not_merged_over_one_that_is_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    for n in 0..4 {
        append(&*store, n * 10..n * 10 + 10).await;
        until_in_files(&*store).await;
    }
    abandon(store).await;
    let spans = directory.path().join("spans");
    let away = files(&spans, ".parquet")[2].clone();
    let kept = away.with_extension("kept");
    std::fs::rename(&away, &kept).expect("renamed");
    let store = open(in_files(directory.path())).await;
    for n in 4..12 {
        append(&*store, n * 10..n * 10 + 10).await;
        until_in_files(&*store).await;
    }
    until("a merged file", || counter(&*store, "files_merged") == 8).await;
    abandon(store).await;
    std::fs::rename(&kept, &away).expect("restored");
    let store = open(in_files(directory.path())).await;
    assert_eq!(numbers(&everything(&*store).await), (0..120).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_segment_whose_rows_are_in_a_file_is_done_with() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_memory(directory.path())).await;
    let number = append(&*store, 0..4).await;
    let segment = files(&directory.path().join("wal"), ".log").pop().expect("a segment");
    let bytes = std::fs::read(&segment).expect("read");
    assemble(&*store, number, &[0, 1, 2, 3], trace_id(1)).await;
    store.close().await.expect("closed");
    assert!(!segment.exists());
    // A crash after writing a file leaves its log segment.
    std::fs::write(&segment, bytes).expect("written");
    let store = open(in_memory(directory.path())).await;
    assert_eq!(numbers(&everything(&*store).await), [0, 1, 2, 3]);
    assert!(!segment.exists());
}

#[tokio::test]
async fn deleted_rows_leave_the_disk_and_then_their_deletion_is_forgotten() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    for n in 0..3 {
        append(&*store, n * 100..n * 100 + 100).await;
        until_in_files(&*store).await;
    }
    let before = store.status();
    store.delete(&Selection::Service("cart".into())).await.expect("deleted");
    let name = "files_rewritten_without_deleted";
    until("files without the rows", || counter(&*store, name) == 3).await;
    let after = store.status();
    assert_eq!((after.files, after.file_rows), (3, 200));
    assert!(after.file_bytes < before.file_bytes);
    until("the end of the deletion", || !directory.path().join("deletions").exists()).await;
    // A file without remaining rows is removed.
    for service in ["payment", "stock"] {
        store.delete(&Selection::Service(service.into())).await.expect("deleted");
    }
    until("no file", || store.status().files == 0).await;
    until("no file", || files(&directory.path().join("spans"), "").is_empty()).await;
    append(&*store, 300..310).await;
    abandon(store).await;
    let store = open(in_files(directory.path())).await;
    assert_eq!(numbers(&everything(&*store).await), (300..310).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_oldest_go_first_where_bytes_are_bounded() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    for n in 0..4 {
        append(&*store, n * 100..n * 100 + 100).await;
        until_in_files(&*store).await;
    }
    let bytes = store.status().file_bytes;
    abandon(store).await;
    let config = EmbeddedConfig { retain_bytes: Some(bytes * 3 / 5), ..in_files(directory.path()) };
    let store = open(config).await;
    until("old files to go", || store.status().file_bytes <= bytes * 3 / 5).await;
    let left = numbers(&everything(&*store).await);
    assert_eq!(left, (400 - left.len() as u64..400).collect::<Vec<_>>());
    assert!(!left.is_empty());
    assert_eq!(counter(&*store, "rows_dropped_by_size") + left.len() as u64, 400);
    let kept = files(&directory.path().join("spans"), ".parquet").len() as u64;
    assert_eq!(kept, store.status().files);
}

#[tokio::test]
async fn old_files_go_by_age() {
    let directory = tempfile::tempdir().expect("a directory");
    // All test spans have dates in the distant past or the future.
    let config =
        EmbeddedConfig { retain_age: Some(Duration::from_secs(60)), ..in_files(directory.path()) };
    let store = open(config).await;
    append(&*store, 0..10).await;
    until_in_files(&*store).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    if now.as_nanos() > super::support::BEGIN_UNIX_NANO as u128 + 120_000_000_000 {
        until("the old file to go", || store.status().files == 0).await;
        assert_eq!(counter(&*store, "rows_dropped_by_age"), 10);
    } else {
        assert_eq!(store.status().files, 1);
    }
}

#[tokio::test]
async fn a_query_finishes_over_files_that_go_meanwhile() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_files(directory.path())).await;
    let key = [Key::Span(span_id(3))];
    let asking = {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move {
            for _ in 0..200 {
                let found = store.find_by_keys(&key, TimeRange::ALL).await.expect("found");
                assert!(numbers(&found).len() <= 1);
                tokio::task::yield_now().await;
            }
        })
    };
    for n in 0..20 {
        append(&*store, n * 10..n * 10 + 10).await;
        until_in_files(&*store).await;
        assert_eq!(numbers(&everything(&*store).await), (0..n * 10 + 10).collect::<Vec<_>>());
    }
    asking.await.expect("no query failed");
    assert_eq!(counter(&*store, "files_broken_set_aside"), 0);
}

#[tokio::test]
async fn a_clock_that_jumps_deletes_nothing_until_somebody_says_that_it_is_right() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = EmbeddedConfig {
        retain_age: Some(Duration::from_secs(7 * 86_400)),
        ..in_files(directory.path())
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    if now.as_nanos() < super::support::BEGIN_UNIX_NANO as u128 + (20 * 86_400_000_000_000) {
        println!("skipped: this machine's clock is behind that of the tests");
        return;
    }
    // The server last ran one hour after these spans.
    let note = super::support::BEGIN_UNIX_NANO + 3600 * super::support::SECOND_NANO;
    let note = format!("{{\"unix_nano\":{note},\"waited_seconds\":0}}");
    std::fs::write(directory.path().join("clock.json"), note).expect("written");
    let store = open(config.clone()).await;
    append(&*store, 0..10).await;
    until_in_files(&*store).await;
    let warned = || {
        let warnings = store.status().warnings.join("\n");
        warnings.contains("clock is") && warnings.contains("10 spans in 1 file")
    };
    until("a warning", warned).await;
    assert_eq!(counter(&*store, "clock_jumps_ahead"), 1);
    assert_eq!(numbers(&everything(&*store).await), (0..10).collect::<Vec<_>>());
    store.close().await.expect("closed");
    drop(store);
    // A restart does not bypass the check.
    let store = open(config).await;
    let warned = || store.status().warnings.join("\n").contains("clock-is-right");
    until("the warning again", warned).await;
    assert_eq!(store.status().files, 1);
    std::fs::write(directory.path().join("clock-is-right"), "").expect("written");
    until("the file to go", || store.status().files == 0).await;
    until("the warning to go", || store.status().warnings.is_empty()).await;
    assert_eq!(counter(&*store, "rows_dropped_by_age"), 10);
    assert_eq!(counter(&*store, "files_dropped_by_age"), 1);
    assert!(counter(&*store, "bytes_dropped_by_age") > 0);
    assert!(!directory.path().join("clock-is-right").exists(), "it holds once");
}

#[tokio::test]
async fn a_span_from_1970_does_not_tell_how_far_back_spans_reach() {
    let directory = tempfile::tempdir().expect("a directory");
    let oldest = super::support::BEGIN_UNIX_NANO + 3 * super::support::SECOND_NANO;
    for config in [in_memory(directory.path()), in_files(directory.path())] {
        let store = open(config).await;
        if store.status().oldest_unix_nano == 0 {
            let mut spans: Vec<_> = (3..9).map(super::support::span).collect();
            spans[2].start_unix_nano = 0;
            spans[4].start_unix_nano = 900_000_000_000_000_000;
            let rows = spans.iter().collect::<spanwise_model::SpanBatchBuilder>().finish();
            store.append(rows.expect("a batch").into(), None).await.expect("taken");
        } else {
            until_in_files(&*store).await;
        }
        assert_eq!(store.status().oldest_unix_nano, oldest);
        abandon(store).await;
    }
    // Deleted rows are excluded from merges and after restarts.
    let store = open(in_files(directory.path())).await;
    for n in 1..8 {
        append(&*store, n * 10..n * 10 + 10).await;
        until_in_files(&*store).await;
    }
    until("a merged file", || counter(&*store, "files_merged") > 0).await;
    assert_eq!(store.status().oldest_unix_nano, oldest);
}

#[tokio::test]
async fn nobody_else_may_look_into_the_directory() {
    use std::os::unix::fs::MetadataExt;
    fn check(path: &std::path::Path) -> usize {
        let about = std::fs::symlink_metadata(path).expect("there");
        assert_eq!(about.mode() & 0o077, 0, "{} {:o}", path.display(), about.mode());
        if !about.is_dir() {
            return 1;
        }
        let entries = std::fs::read_dir(path).expect("read");
        entries.map(|entry| check(&entry.expect("an entry").path())).sum()
    }
    let (data, bucket) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let directory = data.path().join("new");
    let url = format!("file://{}", bucket.path().display());
    let store = open(super::support::in_bucket(&directory, &url)).await;
    append(&*store, 0..10).await;
    until_in_files(&*store).await;
    append(&*store, 10..20).await;
    store.delete(&Selection::Service("cart".into())).await.expect("deleted");
    everything(&*store).await;
    assert!(check(&directory) >= 4);
}
