//! Damage to a file affects only the damaged part.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use spanwise_model::SpanId;
use spanwise_store::{Key, Order, Predicate, Query, SqlLimits, Store, StoreError, TimeRange};

use super::support::{
    abandon, append, batch, counter, everything, files, in_files, in_memory, numbers, open, origin,
    span_id, until_in_files,
};

/// The log of a killed store with three batches of ten rows.
async fn log_of_three(directory: &Path) -> std::path::PathBuf {
    let store = open(in_memory(directory)).await;
    for n in 0..3u64 {
        store.append(batch(n * 10..n * 10 + 10), origin(1, n)).await.expect("stored");
    }
    abandon(store).await;
    files(&directory.join("wal"), ".log").pop().expect("a segment")
}

#[tokio::test]
async fn a_torn_tail_costs_only_the_last_batch() {
    let directory = tempfile::tempdir().expect("a directory");
    let segment = log_of_three(directory.path()).await;
    let bytes = fs::read(&segment).expect("read");
    fs::write(&segment, &bytes[..bytes.len() - 7]).expect("cut");
    let store = open(in_memory(directory.path())).await;
    assert_eq!(numbers(&everything(&*store).await), (0..20).collect::<Vec<_>>());
    assert_eq!(counter(&*store, "log_segments_damaged"), 1);
    assert!(counter(&*store, "log_bytes_damaged") > 0);
    let warnings = store.status().warnings.join("\n");
    assert!(warnings.contains("left out"), "{warnings}");
    // The sender got no response and sends it again.
    store.append(batch(20..30), origin(1, 2)).await.expect("stored");
    abandon(store).await;
    let store = open(in_memory(directory.path())).await;
    assert_eq!(numbers(&everything(&*store).await), (0..30).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_flipped_bit_costs_only_its_batch() {
    let directory = tempfile::tempdir().expect("a directory");
    let segment = log_of_three(directory.path()).await;
    let mut bytes = fs::read(&segment).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, &bytes).expect("written");
    let store = open(in_memory(directory.path())).await;
    let left = numbers(&everything(&*store).await);
    assert_eq!(left, (0..10).chain(20..30).collect::<Vec<_>>());
    assert_eq!(counter(&*store, "log_segments_damaged"), 1);
}

#[tokio::test]
async fn a_log_of_noise_is_no_reason_not_to_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let segment = log_of_three(directory.path()).await;
    fs::write(&segment, vec![0xa5; 5000]).expect("written");
    fs::write(directory.path().join("wal/000000000077.log"), b"").expect("written");
    fs::write(directory.path().join("wal/notes.txt"), b"hello").expect("written");
    let store = open(in_memory(directory.path())).await;
    assert!(numbers(&everything(&*store).await).is_empty());
    assert_eq!(counter(&*store, "log_bytes_damaged"), 5000);
    append(&*store, 0..5).await;
    abandon(store).await;
    let store = open(in_memory(directory.path())).await;
    assert_eq!(numbers(&everything(&*store).await), (0..5).collect::<Vec<_>>());
}

/// Three files of ten rows.
async fn three_files(directory: &Path) -> Vec<std::path::PathBuf> {
    let store = open(in_files(directory)).await;
    for n in 0..3 {
        append(&*store, n * 10..n * 10 + 10).await;
        until_in_files(&*store).await;
    }
    store.close().await.expect("closed");
    let files = files(&directory.join("spans"), ".parquet");
    assert_eq!(files.len(), 3);
    files
}

#[tokio::test]
async fn truncated_and_foreign_files_are_set_aside_at_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let paths = three_files(directory.path()).await;
    let bytes = fs::read(&paths[1]).expect("read");
    fs::write(&paths[1], &bytes[..bytes.len() / 2]).expect("cut");
    fs::write(directory.path().join("spans/000000000050-000000000050.parquet"), b"PAR1 no")
        .expect("written");
    fs::write(directory.path().join("spans/000000000051-000000000051.parquet"), b"")
        .expect("written");
    let store = open(in_memory(directory.path())).await;
    let left = numbers(&everything(&*store).await);
    assert_eq!(left, (0..10).chain(20..30).collect::<Vec<_>>());
    assert_eq!(counter(&*store, "files_broken_set_aside"), 3);
    assert_eq!(store.status().warnings.len(), 3);
    assert!(store.status().warnings[0].contains(".broken"));
    let broken = files(&directory.path().join("spans"), ".parquet.broken");
    assert_eq!(broken.len(), 3);
    abandon(store).await;
    // The next start reports no problems.
    let store = open(in_memory(directory.path())).await;
    assert_eq!(counter(&*store, "files_broken_set_aside"), 0);
}

#[tokio::test]
async fn a_file_of_another_version_is_left_where_it_is() {
    use arrow::array::{Int64Array, RecordBatch};
    let directory = tempfile::tempdir().expect("a directory");
    three_files(directory.path()).await;
    let other = directory.path().join("spans/000000000060-000000000060.parquet");
    let columns = vec![("n", Arc::new(Int64Array::from(vec![1])) as arrow::array::ArrayRef)];
    let rows = RecordBatch::try_from_iter(columns).expect("rows");
    let file = fs::File::create(&other).expect("a file");
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(file, rows.schema(), None).expect("a writer");
    writer.write(&rows).expect("written");
    writer.close().expect("closed");
    let store = open(in_memory(directory.path())).await;
    assert_eq!(numbers(&everything(&*store).await), (0..30).collect::<Vec<_>>());
    assert_eq!(counter(&*store, "files_unreadable"), 1);
    assert!(store.status().warnings[0].contains("not those of this version"));
    assert!(other.exists());
    // New files do not reuse its name.
    append(&*store, 30..40).await;
    abandon(store).await;
    let store = open(in_files(directory.path())).await;
    until_in_files(&*store).await;
    assert_eq!(numbers(&everything(&*store).await), (0..40).collect::<Vec<_>>());
    let newest = files(&directory.path().join("spans"), ".parquet").pop().expect("a file");
    assert!(newest.ends_with("000000000061-000000000061.parquet"), "{}", newest.display());
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    Find,
    Service,
    Keys,
    Sql,
}

#[tokio::test]
async fn a_file_that_breaks_while_it_is_served_is_set_aside_by_whoever_meets_it() {
    for ask in [Ask::Find, Ask::Service, Ask::Keys, Ask::Sql] {
        let directory = tempfile::tempdir().expect("a directory");
        let paths = three_files(directory.path()).await;
        let store = open(in_memory(directory.path())).await;
        // All pages and filters are destroyed. The footer is in memory.
        let mut bytes = fs::read(&paths[1]).expect("read");
        let footer = bytes.len() - 8;
        let length = u32::from_le_bytes(bytes[footer..footer + 4].try_into().unwrap()) as usize;
        bytes[4..footer - length].fill(0x5a);
        fs::write(&paths[1], &bytes).expect("written");
        let mut wanted: Vec<u64> = (0..10).chain(20..30).collect();
        let found = match ask {
            Ask::Find => numbers(&everything(&*store).await),
            Ask::Service => {
                // The shapes file is intact, and says which rows match.
                wanted.retain(|n| n % 3 == 0);
                numbers(&of_cart(&*store).await)
            }
            Ask::Keys => {
                let keys: Vec<Key> = (0..30).map(|n| Key::Span(span_id(n))).collect();
                numbers(&store.find_by_keys(&keys, TimeRange::ALL).await.expect("found"))
            }
            Ask::Sql => {
                let limits = SqlLimits {
                    timeout: std::time::Duration::from_secs(30),
                    rows: 100,
                    memory_bytes: 64 << 20,
                };
                numbers(&store.sql("SELECT * FROM spans", limits).await.expect("answered"))
            }
        };
        assert_eq!(found, wanted, "{ask:?}");
        assert_eq!(counter(&*store, "files_broken_set_aside"), 1, "{ask:?}");
        assert_eq!(files(&directory.path().join("spans"), ".broken").len(), 1, "{ask:?}");
        let everything = numbers(&everything(&*store).await);
        assert_eq!(everything, (0..10).chain(20..30).collect::<Vec<_>>(), "{ask:?}");
    }
}

/// The spans of one service: every third one.
async fn of_cart(store: &dyn Store) -> Vec<arrow::array::RecordBatch> {
    let predicate = Predicate { service: Some("cart".to_owned()), ..Predicate::default() };
    let query = Query {
        predicate,
        time: TimeRange::ALL,
        columns: Vec::new(),
        keys: None,
        limit: usize::MAX,
        order: Order::NewestFirst,
    };
    store.find(&query).await.expect("found")
}

#[tokio::test]
async fn random_damage_to_a_file_panics_nothing() {
    use rand::{RngExt, SeedableRng};
    let mut random = rand::rngs::StdRng::seed_from_u64(7);
    let directory = tempfile::tempdir().expect("a directory");
    let paths = three_files(directory.path()).await;
    let sound = fs::read(&paths[1]).expect("read");
    for round in 0..25 {
        let mut bytes = sound.clone();
        // Every second round damages the metadata, which is rarely hit at random.
        let first = if round % 2 == 0 { 0 } else { bytes.len() - footer_bytes(&bytes) };
        for _ in 0..1 + round % 8 {
            let at = random.random_range(first..bytes.len());
            bytes[at] = random.random();
        }
        let _ = fs::remove_file(paths[1].with_extension("parquet.broken"));
        fs::write(&paths[1], &bytes).expect("written");
        let store = open(in_memory(directory.path())).await;
        let rest = |n: &u64| !(10..20).contains(n);
        let rest_of = |found: Vec<u64>| found.into_iter().filter(rest).collect::<Vec<_>>();
        let wanted: Vec<u64> = (0..30).filter(rest).collect();
        let keys: Vec<Key> = wanted.iter().map(|n| Key::Span(span_id(*n))).collect();
        let found = store.find_by_keys(&keys, TimeRange::ALL).await.expect("found");
        assert_eq!(rest_of(ids(&found)), wanted, "round {round}");
        let of_cart: Vec<u64> = wanted.iter().copied().filter(|n| n % 3 == 0).collect();
        assert_eq!(rest_of(ids(&self::of_cart(&*store).await)), of_cart, "round {round}");
        assert_eq!(rest_of(ids(&everything(&*store).await)), wanted, "round {round}");
        abandon(store).await;
    }
}

/// The size of a Parquet file's footer, including its length and the magic number.
fn footer_bytes(file: &[u8]) -> usize {
    let length = &file[file.len() - 8..file.len() - 4];
    u32::from_le_bytes(length.try_into().expect("four bytes")) as usize + 8
}

/// Numbers of spans. Their other columns may be damaged.
fn ids(batches: &[arrow::array::RecordBatch]) -> Vec<u64> {
    use arrow::array::{Array, AsArray};
    let mut ids: Vec<u64> = batches
        .iter()
        .flat_map(|batch| {
            let ids = batch.column_by_name("span_id").expect("ids").as_fixed_size_binary().clone();
            (0..ids.len()).filter_map(move |row| SpanId::from_bytes(ids.value(row)))
        })
        .map(|id| id.as_u64() - 1)
        .collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn a_second_opener_is_refused_and_told_why() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_memory(directory.path())).await;
    let refused = spanwise_store::embedded::EmbeddedStore::open(in_memory(directory.path())).await;
    let Err(error) = refused else { panic!("two stores hold one directory") };
    assert!(matches!(error, StoreError::Invalid(_)), "{error:?}");
    assert!(error.to_string().contains("in use by another spanwise; stop"), "{error}");
    store.close().await.expect("closed");
    open(in_memory(directory.path())).await;
}

#[tokio::test]
async fn a_place_that_cannot_be_written_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    fs::write(&file, b"").expect("written");
    let refused = spanwise_store::embedded::EmbeddedStore::open(in_memory(&file)).await;
    let Err(error) = refused else { panic!("a file is no directory") };
    assert!(error.to_string().contains("choose one that can be written"), "{error}");
}
