//! Spans that are sent twice count once, whatever happens in between.

use std::collections::BTreeSet;
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId, SpanRows, TraceId};
use spanwise_store::{Appended, Key, Selection, SqlLimits, Store, StoreError, TimeRange};

use super::disk::{SmallDisk, fill};
use super::support::{
    BEGIN_UNIX_NANO, SECOND_NANO, abandon, counter, everything, in_files, in_memory, open, origin,
    spans, until_in_files,
};

const SPANS: u64 = 60;

fn trace(n: u64) -> TraceId {
    TraceId([(n / 10) as u8 + 1; 16])
}

/// The `n`-th span as an SDK sends it. Of each ten, two are the halves of one call with the same id
/// and start, and two are attempts of a faulty program with the same id.
fn sent(n: u64) -> Span {
    let number = n as i64;
    let (id, start, kind) = match n % 10 {
        3 | 4 => (n / 10 * 10 + 3, number / 10 * 10 + 3, [Kind::Client, Kind::Server]),
        7 | 8 => (n / 10 * 10 + 7, number, [Kind::Internal; 2]),
        _ => (n, number, [Kind::Internal; 2]),
    };
    let id = SpanId::from_u64(id + 1).expect("not zero");
    let start = BEGIN_UNIX_NANO + start * SECOND_NANO;
    let kind = kind[(n % 2) as usize];
    let mut span = Span::new(id, Capture::App, kind, "cart", "get", start, 7_000);
    span.trace_id = Some(trace(n));
    span.attributes.push(("n".to_owned(), number.into()));
    span
}

fn rows(numbers: impl IntoIterator<Item = u64>) -> SpanRows {
    let spans: Vec<Span> = numbers.into_iter().map(sent).collect();
    spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch").into()
}

fn numbers(batches: &[arrow::array::RecordBatch]) -> Vec<u64> {
    let number = |span: &Span| span.attribute("n").and_then(|n| n.as_int()).expect("its number");
    let mut all: Vec<u64> = spans(batches).iter().map(|span| number(span) as u64).collect();
    all.sort_unstable();
    all
}

/// The number of rows according to SQL.
async fn counted(store: &dyn Store) -> i64 {
    let limits = SqlLimits { timeout: Duration::from_secs(30), rows: 10, memory_bytes: 64 << 20 };
    let answer = store.sql("SELECT count(*) FROM spans", limits).await.expect("answered");
    answer[0].column(0).as_primitive::<Int64Type>().value(0)
}

async fn check(store: &dyn Store, wanted: &BTreeSet<u64>) {
    let wanted: Vec<u64> = wanted.iter().copied().collect();
    assert_eq!(numbers(&everything(store).await), wanted);
    assert_eq!(counted(store).await, wanted.len() as i64);
    for first in (0..SPANS).step_by(10) {
        let of_trace = store.find_by_keys(&[Key::Trace(trace(first))], TimeRange::ALL).await;
        let of_trace = numbers(&of_trace.expect("found"));
        let wanted: Vec<u64> = wanted.iter().copied().filter(|n| n / 10 == first / 10).collect();
        assert_eq!(of_trace, wanted);
    }
}

/// Sends some spans and returns those that were stored.
async fn send(store: &dyn Store, of_batch: &[u64]) -> Vec<u64> {
    match store.append(rows(of_batch.iter().copied()), None).await.expect("taken") {
        Appended::Stored { .. } => of_batch.to_vec(),
        Appended::Partly { rows, .. } => rows.iter().map(|row| of_batch[*row as usize]).collect(),
        Appended::Duplicate => Vec::new(),
    }
}

#[derive(Debug, Clone)]
enum Step {
    Send(Vec<u64>),
    /// Two senders at the same time.
    SendBoth(Vec<u64>, Vec<u64>),
    IntoFiles,
    Restart,
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let batch = || proptest::collection::vec(0..SPANS, 0..25);
    prop_oneof![
        6 => batch().prop_map(Step::Send),
        2 => (batch(), batch()).prop_map(|(one, other)| Step::SendBoth(one, other)),
        1 => Just(Step::IntoFiles),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
    ]
}

async fn run(steps: Vec<Step>) {
    let directory = tempfile::tempdir().expect("a directory");
    let config = in_memory(directory.path());
    let mut store = open(config.clone()).await;
    let mut stored = BTreeSet::new();
    let mut sent = 0;
    let mut duplicates = 0;
    for step in steps {
        match step {
            Step::Send(batch) => {
                let new: BTreeSet<u64> =
                    batch.iter().copied().filter(|n| !stored.contains(n)).collect();
                let taken = send(&*store, &batch).await;
                assert_eq!(taken.len(), new.len(), "each once");
                assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), new);
                sent += batch.len();
                stored.extend(batch);
            }
            Step::SendBoth(one, other) => {
                tokio::join!(send(&*store, &one), send(&*store, &other));
                sent += one.len() + other.len();
                stored.extend(one.into_iter().chain(other));
            }
            Step::IntoFiles => {
                duplicates += counter(&*store, "spans_duplicate");
                abandon(store).await;
                store = open(in_files(directory.path())).await;
                until_in_files(&*store).await;
            }
            Step::Restart | Step::Kill => {
                duplicates += counter(&*store, "spans_duplicate");
                if matches!(step, Step::Restart) {
                    store.close().await.expect("closed");
                }
                abandon(store).await;
                store = open(config.clone()).await;
                continue;
            }
        }
        check(&*store, &stored).await;
    }
    duplicates += counter(&*store, "spans_duplicate");
    assert!(duplicates as usize <= sent - stored.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn what_is_sent_twice_counts_once(steps in proptest::collection::vec(step(), 1..14)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        runtime.expect("a runtime").block_on(run(steps));
    }
}

#[tokio::test]
async fn what_was_let_go_may_come_again() {
    let directory = tempfile::tempdir().expect("a directory");
    for place in ["memory", "files"] {
        let directory = directory.path().join(place);
        let config = if place == "memory" { in_memory(&directory) } else { in_files(&directory) };
        let store = open(config).await;
        let settle = async || {
            if place == "files" {
                until_in_files(&*store).await;
            }
        };
        let all: Vec<u64> = (0..SPANS).collect();
        send(&*store, &all).await;
        settle().await;
        assert_eq!(send(&*store, &all).await, Vec::<u64>::new());
        store.delete(&Selection::Trace(trace(20))).await.expect("deleted");
        assert_eq!(send(&*store, &all).await, Vec::from_iter(20..30), "deleted, {place}");
        settle().await;
        check(&*store, &(0..SPANS).collect()).await;
        if place == "files" {
            store.drop_before(i64::MAX).await.expect("dropped");
            assert_eq!(numbers(&everything(&*store).await), Vec::<u64>::new());
            // At most one maintenance run later.
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(send(&*store, &all).await, all, "let go");
        }
    }
}

#[tokio::test]
async fn what_was_refused_is_no_duplicate() {
    let Some(disk) = SmallDisk::mount(1024) else { return };
    let store = open(in_memory(&disk.path().join("data"))).await;
    send(&*store, &[0, 1]).await;
    let ballast = disk.path().join("ballast");
    fill(&ballast);
    let many: Vec<u64> = (0..SPANS).collect();
    let refused = store.append(rows(many.iter().copied().cycle().take(6_000)), None).await;
    assert!(matches!(refused, Err(StoreError::Full { .. })), "{refused:?}");
    std::fs::remove_file(&ballast).expect("removed");
    assert_eq!(send(&*store, &many).await, Vec::from_iter(2..SPANS));
    check(&*store, &(0..SPANS).collect()).await;
}

/// The sent spans are also in a file, which is imported with its own batch numbers.
#[tokio::test]
async fn what_is_imported_and_sent_counts_once() {
    let directory = tempfile::tempdir().expect("a directory");
    for place in ["memory", "files"] {
        let directory = directory.path().join(place);
        let config = if place == "memory" { in_memory(&directory) } else { in_files(&directory) };
        let mut store = open(config.clone()).await;
        let import = async |store: &dyn Store, source: u8, numbers: &[u64]| {
            let rows = rows(numbers.iter().copied());
            store.append(rows, origin(source, 1)).await.expect("taken")
        };
        let all: Vec<u64> = (0..SPANS).collect();
        send(&*store, &all[..20]).await;
        if place == "files" {
            until_in_files(&*store).await;
        }
        let Appended::Partly { rows: taken, .. } = import(&*store, 1, &all[..40]).await else {
            panic!("half of them are new");
        };
        assert_eq!(taken, Vec::from_iter(20..40), "{place}");
        assert_eq!(import(&*store, 1, &all[..40]).await, Appended::Duplicate, "by its number");
        assert_eq!(import(&*store, 2, &all[..40]).await, Appended::Duplicate, "by its spans");
        assert_eq!(send(&*store, &all[30..]).await, &all[40..]);
        check(&*store, &all.iter().copied().collect()).await;
        abandon(store).await;
        store = open(config).await;
        assert_eq!(import(&*store, 3, &all).await, Appended::Duplicate, "after a kill");
        check(&*store, &all.iter().copied().collect()).await;
    }
}

#[tokio::test]
async fn spans_of_agents_are_told_by_the_numbers_of_their_batches() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(in_memory(directory.path())).await;
    let mut span = sent(1);
    span.capture = Capture::ClientProcess;
    let rows: SpanRows = [&span].into_iter().collect::<SpanBatchBuilder>().finish().unwrap().into();
    for sequence in [1, 2, 2] {
        store.append(rows.clone(), origin(1, sequence)).await.expect("taken");
    }
    assert_eq!(counted(&*store).await, 2);
}
