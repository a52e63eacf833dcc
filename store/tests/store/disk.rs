//! A full disk: a small file system that the test mounts.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use spanwise_store::embedded::EmbeddedConfig;
use spanwise_store::{Key, Store, StoreError, TimeRange};

use super::support::{
    abandon, append, batch, counter, everything, in_memory, numbers, open, origin, span_id,
    until_in_files,
};

/// A file system of this many KiB. It is unmounted when dropped.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn mount(kib: u32) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "tmpfs"])
            .arg(directory.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(directory)),
            Ok(output) => {
                let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                println!("skipped: a file system cannot be mounted here: {reason}");
                None
            }
            Err(error) => {
                println!("skipped: `mount` cannot be run: {error}");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

pub(crate) fn fill(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).expect("a file");
    while file.write_all(&[0; 1024]).is_ok() {}
}

/// Fills a store on the disk until there is no more room. Returns the number of spans stored.
async fn store_until_full(store: &dyn Store) -> (u64, StoreError) {
    for n in 0..100_000 {
        match store.append(batch(n * 50..n * 50 + 50), origin(1, n)).await {
            Ok(_) => {}
            Err(error) => return (n * 50, error),
        }
    }
    panic!("the disk never became full");
}

async fn check_full_disk(config: EmbeddedConfig, ballast: &Path) {
    let directory = config.directory.clone();
    let store = open(config.clone()).await;
    let (taken, error) = store_until_full(&*store).await;
    assert!(taken > 0);
    let StoreError::Full { reason, retry_after } = &error else { panic!("{error:?}") };
    assert!(reason.contains("free some space"), "{reason}");
    assert!(*retry_after > Duration::ZERO);
    assert!(counter(&*store, "batches_refused_log_unwritten") > 0);
    assert!(store.status().warnings.iter().any(|warning| warning.contains("are refused")));
    // The store still answers, and refuses cleanly.
    let before: Vec<u64> = (0..taken).collect();
    assert_eq!(numbers(&everything(&*store).await), before);
    for _ in 0..3 {
        assert!(store.append(batch(taken..taken + 50), origin(1, taken / 50)).await.is_err());
    }
    let found = store.find_by_keys(&[Key::Span(span_id(3))], TimeRange::ALL).await.expect("found");
    assert_eq!(numbers(&found), [3]);
    // Once there is room, it continues by itself.
    std::fs::remove_file(ballast).expect("removed");
    let again = store.append(batch(taken..taken + 50), origin(1, taken / 50)).await;
    assert!(again.is_ok(), "{again:?}");
    assert!(!store.status().warnings.iter().any(|warning| warning.contains("are refused")));
    abandon(store).await;
    // A restart finds exactly the acknowledged rows, once each.
    let store = open(EmbeddedConfig { directory, ..config }).await;
    assert_eq!(numbers(&everything(&*store).await), (0..taken + 50).collect::<Vec<_>>());
    assert_eq!(counter(&*store, "log_segments_damaged"), 0, "refused batches leave no trace");
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let Some(disk) = SmallDisk::mount(1024) else { return };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![0; 512 << 10]).expect("written");
    check_full_disk(in_memory(&disk.path().join("data")), &ballast).await;
}

#[tokio::test]
async fn space_for_others_stays_free() {
    let Some(disk) = SmallDisk::mount(1024) else { return };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![0; 512 << 10]).expect("written");
    let config =
        EmbeddedConfig { min_free_bytes: 256 << 10, ..in_memory(&disk.path().join("data")) };
    check_full_disk(config, &ballast).await;
}

#[tokio::test]
async fn a_store_opens_on_a_full_disk_and_serves_what_it_has() {
    let Some(disk) = SmallDisk::mount(512) else { return };
    let config = in_memory(&disk.path().join("data"));
    let store = open(config.clone()).await;
    append(&*store, 0..20).await;
    abandon(store).await;
    let ballast = disk.path().join("ballast");
    fill(&ballast);
    let store = open(config).await;
    assert_eq!(numbers(&everything(&*store).await), (0..20).collect::<Vec<_>>());
    let error = store.append(batch(20..70), None).await.expect_err("refused");
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    std::fs::remove_file(&ballast).expect("removed");
    append(&*store, 20..40).await;
    assert_eq!(numbers(&everything(&*store).await), (0..40).collect::<Vec<_>>());
}

#[tokio::test]
async fn rows_that_cannot_become_a_file_stay_in_the_log() {
    let Some(disk) = SmallDisk::mount(512) else { return };
    let config = EmbeddedConfig {
        generation_max_age: Duration::from_millis(500),
        settle_deadline: Duration::ZERO,
        ..in_memory(&disk.path().join("data"))
    };
    let store = open(config.clone()).await;
    append(&*store, 0..200).await;
    let ballast = disk.path().join("ballast");
    fill(&ballast);
    super::support::until("a failed write", || counter(&*store, "file_writes_failed") > 0).await;
    let warnings = store.status().warnings.join("\n");
    assert!(warnings.contains("no file can be written"), "{warnings}");
    assert_eq!(numbers(&everything(&*store).await), (0..200).collect::<Vec<_>>());
    std::fs::remove_file(&ballast).expect("removed");
    until_in_files(&*store).await;
    assert_eq!(store.status().warnings, Vec::<String>::new());
    assert_eq!(numbers(&everything(&*store).await), (0..200).collect::<Vec<_>>());
    abandon(store).await;
    let store = open(config).await;
    assert_eq!(numbers(&everything(&*store).await), (0..200).collect::<Vec<_>>());
}
