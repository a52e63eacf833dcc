//! Chains over a store are those of the traces that were sent, and say when some are missing.

use std::time::Duration;

use spanwise_assemble::{Window, WindowConfig};
use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId, Status, TraceId};
use spanwise_query::traceql::Bounds;
use spanwise_query::{Queries, RunFigures};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore};
use spanwise_store::{Appended, Selection, Store, TimeRange};

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const BEGIN: i64 = 1_700_000_000 * SECOND;
const PLENTY: Bounds = Bounds { time: Duration::from_secs(600), traces: 10_000, spans: 1_000_000 };

fn range(from: i64, to: i64) -> TimeRange {
    TimeRange { from_unix_nano: BEGIN + from * SECOND, to_unix_nano: BEGIN + to * SECOND }
}

/// A checkout in this second: `shop` calls `stock`, which calls a database, and `mail`, unless
/// `stock` failed.
fn trace(number: u8, second: i64, failed: bool) -> Vec<Span> {
    let span = |id: u8, parent: u8, kind, service: &str, from: i64, to: i64| {
        let start = BEGIN + second * SECOND + from * MILLISECOND;
        let length = (to - from) * MILLISECOND;
        let id_of = |id: u8| SpanId([number, id, 1, 1, 1, 1, 1, 1]);
        let mut span = Span::new(id_of(id), Capture::App, kind, service, "work", start, length);
        span.trace_id = Some(TraceId([number; 16]));
        span.parent_span_id = (parent > 0).then(|| id_of(parent));
        if failed && matches!(id, 1..=3) {
            span.status = Status::Error;
        }
        span
    };
    let mut spans = vec![
        span(1, 0, Kind::Server, "shop", 0, 100),
        span(2, 1, Kind::Client, "shop", 10, 50),
        span(3, 2, Kind::Server, "stock", 12, 48),
        span(4, 3, Kind::Client, "stock", 20, 30),
    ];
    spans[3].protocol = Some("mysql".to_owned());
    if !failed {
        spans.push(span(5, 1, Kind::Client, "shop", 60, 80));
        spans.push(span(6, 5, Kind::Server, "mail", 61, 79));
    }
    spans
}

async fn add(store: &EmbeddedStore, spans: &[Span]) {
    let rows = spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch");
    let appended = store.append(rows.clone().into(), None).await.expect("stored");
    let Appended::Stored { batch } = appended else { panic!("new") };
    let mut window = Window::new(WindowConfig::default());
    window.push(batch, &rows.into(), 0).expect("spans");
    store.annotate(&window.flush(0)).await.expect("annotated");
}

#[tokio::test]
async fn chains_of_a_range_are_those_of_its_traces() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || EmbeddedStore::open(EmbeddedConfig::new(directory.path().join("data")));
    let trace_of = |number: u8| trace(number, i64::from(number), number.is_multiple_of(10));
    let store = open().await.expect("a store");
    let spans: Vec<Span> = (1..=60).flat_map(trace_of).collect();
    add(&store, &spans).await;
    // Some of the rows are in files, the others in memory.
    store.close().await.expect("closed");
    drop(store);
    let store = open().await.expect("a store");
    let spans: Vec<Span> = (61..=100).flat_map(trace_of).collect();
    add(&store, &spans).await;
    // A span whose parent never came is of no whole run.
    let mut orphan = trace(200, 50, false).remove(1);
    orphan.service = "lost".into();
    add(&store, &[orphan]).await;
    let queries = Queries::new(store);

    let all =
        queries.observed_runs(range(0, 200), PLENTY, RunFigures::Everything).await.expect("runs");
    assert_eq!((all.chains.runs(), all.chains.runs_left_out, all.traces), (100, 1, 101));
    assert!((all.window_seconds - 199.0).abs() < 1e-9, "{}", all.window_seconds);
    assert_eq!(all.warnings.len(), 1, "{:?}", all.warnings);
    assert!(all.warnings[0].starts_with("traces left out: 1;"), "{:?}", all.warnings);
    let chains = all.chains.chains();
    assert_eq!(chains.len(), 1, "a run that a failure cut short is of the same chain");
    let chain = &chains[0];
    assert_eq!((chain.shapes.len(), chain.total.failures), (2, 10));
    let shown = |place: usize| {
        let node = &chain.nodes[place];
        (node.level, node.service.as_str(), node.figures.calls, (node.cr * 100.0).round())
    };
    assert_eq!(chain.nodes.len(), 4);
    assert_eq!(shown(0), (0, "shop", 100, 100.0));
    let rest: Vec<_> = (1..4).map(shown).collect();
    assert!(rest.contains(&(1, "stock", 100, 100.0)), "{rest:?}");
    assert!(rest.contains(&(2, "mysql", 100, 100.0)), "{rest:?}");
    assert!(rest.contains(&(1, "mail", 90, 90.0)), "{rest:?}");
    let stock = chain.nodes.iter().find(|node| node.service == "stock").expect("stock");
    assert_eq!(stock.edge.dependency, spanwise_analyze::Dependency::Strong, "{:?}", stock.edge);
    let typical = chain.total.typical().expect("a typical run");
    assert_ne!(typical.0[0] % 10, 0, "it did not fail");
    assert_eq!(chain.total.failed.expect("a failed run").1.0[0] % 10, 0);

    // A trace is of the range in which it starts, although its other spans are read too.
    let part =
        queries.observed_runs(range(11, 21), PLENTY, RunFigures::Everything).await.expect("runs");
    assert_eq!((part.chains.runs(), part.chains.chains()[0].total.failures), (10, 1));
    let before = queries
        .observed_runs_before(range(11, 21), PLENTY, RunFigures::Everything)
        .await
        .expect("runs");
    assert_eq!((before.chains.runs(), before.time), (10, range(1, 11)));

    // What stops early counts the newest and says so.
    let few = Bounds { traces: 10, ..PLENTY };
    let newest =
        queries.observed_runs(range(0, 200), few, RunFigures::Everything).await.expect("runs");
    assert_eq!(newest.chains.runs(), 63, "the first part is read as a whole");
    assert_eq!(newest.from_unix_nano, BEGIN + 38 * SECOND);
    assert!(newest.whole_seconds().is_none());
    let warned =
        newest.warnings.iter().any(|why| why.contains("only runs from 2023-11-14T22:13:58"));
    assert!(warned, "{:?}", newest.warnings);

    // What is deleted is gone, although the answer was kept.
    queries.delete(&Selection::Trace(TraceId([1; 16]))).await.expect("deleted");
    let rest =
        queries.observed_runs(range(0, 200), PLENTY, RunFigures::Everything).await.expect("runs");
    assert_eq!(rest.chains.runs(), 99);
}
