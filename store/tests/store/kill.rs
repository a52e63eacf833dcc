//! A killed process loses nothing that it acknowledged, and duplicates nothing. A real process is
//! killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use spanwise_store::embedded::EmbeddedConfig;
use spanwise_store::{Selection, Store};

use super::support::{
    abandon, append, assemble, batch, everything, files, in_bucket, in_memory, numbers, open,
    origin, trace_id, until, until_in_files,
};

const DIRECTORY: &str = "SPANWISE_TEST_KILLED_DIRECTORY";
/// Object storage for files, if any.
const BUCKET: &str = "SPANWISE_TEST_KILLED_BUCKET";
const FIRST: &str = "SPANWISE_TEST_KILLED_FIRST";
/// Number of kills; `make test-kill` sets 100.
const ROUNDS: &str = "SPANWISE_TEST_KILLS";
const DEFAULT_ROUNDS: u64 = 10;
/// One in this many batches is deleted again.
const DELETE_EVERY: u64 = 60;
/// Trace numbers of ordinary test spans are smaller.
const OWN_TRACES: u64 = 1 << 40;
const ROWS: u64 = 5;
const SENDERS: u64 = 4;

fn busy(directory: &Path, bucket: Option<&str>) -> EmbeddedConfig {
    // Generations, files, merges and uploads happen all the time, so that kills interrupt them.
    EmbeddedConfig {
        generation_max_age: Duration::from_millis(100),
        settle_deadline: Duration::from_millis(50),
        ..quiet(directory, bucket)
    }
}

fn quiet(directory: &Path, bucket: Option<&str>) -> EmbeddedConfig {
    let object_storage = bucket.and_then(|bucket| in_bucket(directory, bucket).object_storage);
    EmbeddedConfig { object_storage, ..in_memory(directory) }
}

/// The process that is killed. Not a test by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it runs until it is killed, by the test below"]
async fn child() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let first: u64 = std::env::var(FIRST).expect("a number").parse().expect("a number");
    let bucket = std::env::var(BUCKET).ok();
    let store = open(busy(Path::new(&directory), bucket.as_deref())).await;
    let mut senders = Vec::new();
    for sender in 0..SENDERS {
        let store = std::sync::Arc::clone(&store);
        senders.push(tokio::spawn(async move {
            for n in (first + sender..).step_by(SENDERS as usize) {
                let rows: Vec<u64> = (n * ROWS..(n + 1) * ROWS).collect();
                if n % 3 == 0 {
                    let number = append(&*store, rows.clone()).await;
                    let trace = trace_id(OWN_TRACES + n);
                    assemble(&*store, number, &rows, trace).await;
                    if n % DELETE_EVERY == 0 {
                        tell("deleting", n);
                        store.delete(&Selection::Trace(trace)).await.expect("deleted");
                        tell("deleted", n);
                        continue;
                    }
                } else {
                    store.append(batch(rows), origin(1, n)).await.expect("stored");
                }
                tell("stored", n);
            }
        }));
    }
    for sender in senders {
        sender.await.expect("it runs until it is killed");
    }
}

fn tell(what: &str, n: u64) {
    // One write call, which the pipe accepts atomically.
    let line = format!("{what} {n}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).expect("told");
}

/// Batches that the child reported.
#[derive(Default)]
struct Told {
    stored: Vec<u64>,
    /// Whether the deletion of each batch was acknowledged.
    deletions: BTreeMap<u64, bool>,
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the child until it has acknowledged this many batches, then kills it. Adds what it reported
/// to `told`.
fn run_and_kill(
    (directory, bucket): (&Path, Option<&str>),
    first: u64,
    batches: usize,
    told: &mut Told,
) {
    let mut child = Killed(
        Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "kill::child", "--ignored", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory)
            .envs(bucket.map(|bucket| (BUCKET, bucket)))
            .env(FIRST, first.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the child starts"),
    );
    let output = BufReader::new(child.0.stdout.take().expect("a pipe"));
    let enough = told.stored.len() + batches;
    let mut child = Some(child);
    // Reads what was still in the pipe at the kill, too.
    for line in output.lines().map_while(Result::ok) {
        let Some((what, n)) = line.split_once(' ') else { continue };
        let Ok(n) = n.parse::<u64>() else { continue };
        match what {
            "stored" => told.stored.push(n),
            "deleting" => drop(told.deletions.insert(n, false)),
            "deleted" => drop(told.deletions.insert(n, true)),
            _ => {}
        }
        if told.stored.len() >= enough {
            child.take();
        }
    }
    assert!(told.stored.len() >= enough, "the child ended by itself");
}

fn rounds() -> u64 {
    std::env::var(ROUNDS).ok().and_then(|n| n.parse().ok()).unwrap_or(DEFAULT_ROUNDS)
}

#[tokio::test]
async fn whatever_was_acknowledged_is_there_once_after_a_kill() {
    let directory = tempfile::tempdir().expect("a directory");
    kill_again_and_again(directory.path(), None).await;
}

#[tokio::test]
async fn whatever_was_acknowledged_is_there_once_after_a_kill_with_object_storage() {
    let (directory, bucket) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let url = format!("file://{}", bucket.path().display());
    let found = kill_again_and_again(directory.path(), Some(&url)).await;
    // Everything reaches the bucket, and there are no leftovers.
    let store = open(in_bucket(directory.path(), &url)).await;
    until_in_files(&*store).await;
    let is_tidy = || {
        let status = store.status().object_storage.expect("the bucket");
        let there = files(&bucket.path().join("heads"), ".head").len() as u64;
        let spans = files(&bucket.path().join("spans"), ".parquet").len() as u64;
        let shapes = files(&bucket.path().join("shapes"), ".parquet").len() as u64;
        status.leaving_files == 0 && [there, spans, shapes] == [status.remote_files; 3]
    };
    until("a tidy bucket", is_tidy).await;
    assert_eq!(numbers(&everything(&*store).await), found);
}

/// Returns the numbers of the final rows.
async fn kill_again_and_again(directory: &Path, bucket: Option<&str>) -> Vec<u64> {
    let mut last = Vec::new();
    let mut random = rand::rngs::StdRng::seed_from_u64(20_261);
    let mut told = Told::default();
    let mut both = false;
    for round in 0..rounds() {
        let (before, batches) = (told.stored.len(), random.random_range(1..400));
        // Each round uses much larger numbers than the previous one.
        run_and_kill((directory, bucket), round * 1_000_000, batches, &mut told);
        println!("round {round}: killed after {} batches", told.stored.len() - before);

        let store = open(quiet(directory, bucket)).await;
        let found = numbers(&everything(&*store).await);
        let mut once = found.clone();
        once.dedup();
        assert_eq!(found.len(), once.len(), "round {round}: rows are there twice");
        let rows = |n: &u64| n * ROWS..(n + 1) * ROWS;
        let missing =
            told.stored.iter().flat_map(rows).find(|row| found.binary_search(row).is_err());
        assert_eq!(missing, None, "round {round}: an acknowledged row is lost");
        let deleted = told.deletions.iter().filter(|(_, done)| **done);
        let back = deleted.flat_map(|(n, _)| rows(n)).find(|row| found.binary_search(row).is_ok());
        assert_eq!(back, None, "round {round}: a deleted row came back");
        // A batch is stored completely or not at all.
        assert_eq!(found.len() as u64 % ROWS, 0, "round {round}");
        let status = store.status();
        println!("    {} files, {} rows in the log", status.files, status.recent_rows);
        both |= status.files > 0 && status.recent_rows > 0;
        let broken = status.counters.iter().find(|(name, _)| name == "files_broken_set_aside");
        assert_eq!(broken, None, "round {round}");
        abandon(store).await;
        last = found;
    }
    assert!(both, "no kill met a store with both files and a log");
    assert!(told.deletions.values().any(|done| *done), "nothing was deleted");
    last
}
