//! Memory for recent rows is limited, and shared buffers count once.

use std::sync::Arc;
use std::time::Duration;

use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use spanwise_store::embedded::EmbeddedConfig;
use spanwise_store::{Store, StoreError};

use super::support::{append, batch, counter, everything, in_memory, numbers, open, until};

#[tokio::test]
async fn full_memory_refuses_until_files_are_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = EmbeddedConfig {
        recent_max_bytes: 1 << 20,
        settle_deadline: Duration::from_secs(2),
        ..in_memory(directory.path())
    };
    let store = open(config).await;
    let mut taken = 0;
    let error = loop {
        match store.append(batch(taken..taken + 50), None).await {
            Ok(_) => taken += 50,
            Err(error) => break error,
        }
    };
    assert!(taken >= 100, "{taken}");
    let StoreError::Full { reason, .. } = &error else { panic!("{error:?}") };
    assert!(reason.contains("MiB for recent spans are taken"), "{reason}");
    assert_eq!(counter(&*store, "batches_refused_memory_full"), 1);
    assert!(store.status().recent_bytes <= 1 << 20);
    // The memory limit closes the generation long before its maximum age.
    until("a file", || store.status().files > 0).await;
    append(&*store, taken..taken + 50).await;
    assert_eq!(numbers(&everything(&*store).await), (0..taken + 50).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_batch_that_can_never_fit_is_the_senders_mistake() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = EmbeddedConfig { recent_max_bytes: 1 << 20, ..in_memory(directory.path()) };
    let store = open(config).await;
    let error = store.append(batch(0..5000), None).await.expect_err("refused");
    assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
    assert!(error.to_string().contains("send smaller batches"), "{error}");
}

#[tokio::test]
async fn a_batch_off_the_wire_counts_about_as_one_that_was_built() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_memory(directory.path())).await;
    let built = batch(0..1000).whole().expect("a batch");
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, built.schema_ref()).expect("a stream");
    writer.write(&built).expect("written");
    writer.finish().expect("finished");
    let length = stream.len() as u64;
    let mut reader = StreamReader::try_new(std::io::Cursor::new(stream), None).expect("a stream");
    // All columns of this batch share one buffer.
    let received = reader.next().expect("one").expect("a batch");
    store.append(received.into(), None).await.expect("stored");
    let bytes = store.status().recent_bytes;
    assert!((length / 2..length * 4).contains(&bytes), "{bytes} for a stream of {length}");
}

#[tokio::test]
async fn senders_that_go_away_leave_nothing_reserved() {
    let directory = tempfile::tempdir().expect("a directory");
    let config = EmbeddedConfig { recent_max_bytes: 8 << 20, ..in_memory(directory.path()) };
    let store = open(config).await;
    for n in 0..50 {
        let store = Arc::clone(&store);
        let sending = tokio::spawn(async move {
            store.append(batch(n * 10..n * 10 + 10), super::support::origin(1, n)).await
        });
        tokio::task::yield_now().await;
        sending.abort();
    }
    // Each batch was stored or refused. After sending all again, each is stored once.
    for n in 0..50 {
        store
            .append(batch(n * 10..n * 10 + 10), super::support::origin(1, n))
            .await
            .expect("taken");
    }
    until("rows", || store.status().recent_rows == 500).await;
    assert_eq!(numbers(&everything(&*store).await), (0..500).collect::<Vec<_>>());
}
