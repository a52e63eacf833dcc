//! A ClickHouse cluster. The kit runs the contract against it; these tests cover what only a
//! cluster can do. The servers come from one specific x86-64 library, so the tests run only on
//! request, by `make test-cluster`.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use spanwise_store::{Deleted, Selection, Store, StoreError};

use super::faults::{copy, everything_of};
use super::moving::{LISTS, list_from_counts};
use super::server::{PASSWORD, USER, address, ask, here, new_name};
use super::{keeping, open, sending};
use crate::support::{
    abandon, append, assemble, everything, numbers, trace_id, until, until_in_files,
};

/// Two shards of two servers each.
pub(crate) struct Cluster {
    _child: Child,
    /// Closing it ends the servers.
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// One for each server, ordered by shard.
    ports: Vec<u16>,
}

impl Cluster {
    fn start() -> Self {
        // The script removes it, however the test ends.
        let data = tempfile::tempdir().expect("a directory").keep();
        let mut child = Command::new("python3")
            .arg(here("cluster.py"))
            .arg("--into")
            .arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("chdb-cluster"))
            .arg("--data")
            .arg(data)
            .args(["--user", USER, "--password", PASSWORD])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the cluster starts; it needs python3");
        let input = child.stdin.take().expect("a pipe");
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        output.read_line(&mut line).expect("a line");
        let ports = line.trim().strip_prefix("listening on ").map(|ports| {
            ports.split(' ').map(|port| port.parse().expect("a port")).collect::<Vec<u16>>()
        });
        let ports = ports.unwrap_or_else(|| {
            panic!(
                "the cluster did not start; it said `{line}`. It needs Debian's zookeeper, and \
                 npm's registry to be reachable (`make test-cluster`)"
            )
        });
        assert_eq!(ports.len(), 4);
        Self { _child: child, input, output, ports }
    }

    /// The address of a database through one of the servers.
    pub(crate) fn address(&self, server: usize, database: &str) -> String {
        format!("{}?cluster=spanwise", address(self.ports[server], database))
    }

    /// Kills a server without restart.
    fn kill(&mut self, server: usize) {
        writeln!(self.input, "kill {server}").expect("said");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        assert_eq!(line, "killed\n");
    }

    fn ask(&self, server: usize, statement: &str) -> String {
        ask(self.ports[server], statement)
    }

    /// Creates a new database on all servers.
    pub(crate) fn new_database(&self) -> String {
        let name = new_name();
        self.ask(0, &format!("CREATE DATABASE {name} ON CLUSTER 'spanwise'"));
        name
    }
}

/// The cluster that tests share.
pub(crate) fn cluster() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(Cluster::start)
}

/// For each server, its own number of rows and its answer for all.
fn counts(cluster: &Cluster, database: &str) -> Vec<(u64, u64)> {
    let count = |server, table: &str| {
        let answer = cluster.ask(server, &format!("SELECT count() FROM {database}.{table}"));
        answer.parse().expect("a number")
    };
    (0..4).map(|server| (count(server, "spans_local"), count(server, "spans"))).collect()
}

#[tokio::test]
#[ignore = "make test-cluster"]
async fn every_shard_and_replica_has_its_rows_and_forgets_them() {
    let cluster = cluster();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = cluster.new_database();
    // Two of our servers, connected to servers of different shards.
    let store = open(sending(&cluster.address(0, &database), first.path())).await;
    let other = open(sending(&cluster.address(3, &database), second.path())).await;
    append(&*store, 0..200).await;
    append(&*other, 200..400).await;
    until_in_files(&*store).await;
    until_in_files(&*other).await;
    let all: Vec<u64> = (0..400).collect();
    assert_eq!(numbers(&everything(&*store).await), all);
    assert_eq!(numbers(&everything(&*other).await), all);
    until("replication", || {
        let counts = counts(cluster, &database);
        counts[0] == counts[1] && counts[2] == counts[3] && counts[0].0 + counts[2].0 == 400
    })
    .await;
    let counts_now = counts(cluster, &database);
    assert!(counts_now.iter().all(|(here, all)| *here > 100 && *all == 400), "{counts_now:?}");
    // Statistics cover all shards.
    until("figures", || store.status().file_rows == 400).await;

    // Each shard answers lists from its projections.
    let ask = |statement: &str| cluster.ask(3, statement);
    let services = list_from_counts(ask, &database, LISTS[0]).await;
    assert_eq!(services.lines().count(), 6, "{services}");

    let deleted = store.delete(&Selection::Service("cart".into())).await.expect("deleted");
    assert_eq!(deleted, Deleted { rows: 134 });
    let left: Vec<u64> = (0..400).filter(|n| n % 3 != 0).collect();
    assert_eq!(numbers(&everything(&*other).await), left);
    let here: u64 = counts(cluster, &database).iter().map(|(here, _)| here).sum();
    assert_eq!(here, 2 * 266);
    assert!(!list_from_counts(ask, &database, LISTS[0]).await.contains("cart"));
}

#[tokio::test]
#[ignore = "make test-cluster"]
async fn what_is_sent_again_by_another_way_is_kept_once() {
    let cluster = cluster();
    let spool = tempfile::tempdir().unwrap();
    let database = cluster.new_database();
    let store = open(keeping(&cluster.address(0, &database), spool.path())).await;
    let number = append(&*store, 0..100).await;
    assemble(&*store, number, &(0..50).collect::<Vec<_>>(), trace_id(1)).await;
    abandon(store).await;
    let saved = tempfile::tempdir().unwrap();
    copy(spool.path(), saved.path());
    let store = open(sending(&cluster.address(0, &database), spool.path())).await;
    until_in_files(&*store).await;
    abandon(store).await;
    copy(saved.path(), spool.path());
    let store = open(sending(&cluster.address(3, &database), spool.path())).await;
    until_in_files(&*store).await;
    assert_eq!(numbers(&everything(&*store).await), (0..100).collect::<Vec<_>>());
    assert_eq!(cluster.ask(1, &format!("SELECT count() FROM {database}.spans")), "100");
}

#[tokio::test]
#[ignore = "make test-cluster"]
async fn how_long_rows_are_kept_is_told_to_every_server() {
    let cluster = cluster();
    let spool = tempfile::tempdir().unwrap();
    let database = cluster.new_database();
    let day = Duration::from_secs(86_400);
    for (retain_age, ttl) in [(None, ""), (Some(day * 6), "604800"), (Some(day), "172800")] {
        let mut config = sending(&cluster.address(0, &database), spool.path());
        config.retain_age = retain_age;
        let store = open(config).await;
        for server in 0..4 {
            let ttl_there = || {
                let table = cluster.ask(
                    server,
                    &format!(
                        "SELECT extract(create_table_query, ' TTL (.*?) SETTINGS ') FROM \
                         system.tables WHERE database = '{database}' AND name = 'spans_local'"
                    ),
                );
                table.contains(ttl) && table.is_empty() == ttl.is_empty()
            };
            until("every server to know", ttl_there).await;
        }
        abandon(store).await;
    }
}

#[tokio::test]
#[ignore = "make test-cluster"]
async fn replicas_that_go_away_take_nothing_along() {
    let mut cluster = Cluster::start();
    let spool = tempfile::tempdir().unwrap();
    let database = cluster.new_database();
    let store = open(sending(&cluster.address(0, &database), spool.path())).await;
    append(&*store, 0..100).await;
    until_in_files(&*store).await;
    until("replication", || {
        let counts = counts(&cluster, &database);
        counts[1].0 + counts[3].0 == 100
    })
    .await;
    // The other shard's preferred server, and the second one of this shard.
    cluster.kill(2);
    cluster.kill(1);
    assert_eq!(numbers(&everything(&*store).await), (0..100).collect::<Vec<_>>());
    append(&*store, 100..200).await;
    until_in_files(&*store).await;
    assert_eq!(numbers(&everything(&*store).await), (0..200).collect::<Vec<_>>());
    // A whole shard is down: nothing is lost, and there are no partial answers.
    cluster.kill(3);
    append(&*store, 200..210).await;
    until("a warning", || !store.status().warnings.is_empty()).await;
    let error = store.find(&everything_of(1000)).await.expect_err("a shard is away");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
}
