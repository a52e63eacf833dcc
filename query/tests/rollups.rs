//! Rollups are corrected, deleted, damaged and made again, and figures from them are those of spans.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use spanwise_analyze::Chains;
use spanwise_analyze::rollup::{LiveConfig, LiveRollup};
use spanwise_assemble::{Window, WindowConfig};
use spanwise_model::{Capture, Kind, Span, SpanBatchBuilder, SpanId, SpanRows, Status, TraceId};
use spanwise_query::traceql::Bounds;
use spanwise_query::{ObservedRuns, Queries, RollupUpkeep, RollupWork, RunFigures};
use spanwise_store::embedded::{EmbeddedConfig, EmbeddedStore};
use spanwise_store::{Appended, Selection, Store, TimeRange};

const MILLISECOND: i64 = 1_000_000;
const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// A whole hour.
const BEGIN: i64 = 1_699_999_200 * SECOND;
const PLENTY: Bounds = Bounds { time: Duration::from_secs(600), traces: 100_000, spans: 1_000_000 };

/// A checkout at this second: `shop` calls `stock` so many times, and `mail` unless it failed.
fn trace(number: u16, second: i64, calls: u8, failed: bool) -> Vec<Span> {
    let mut trace_id = [7; 16];
    trace_id[..2].copy_from_slice(&number.to_be_bytes());
    let [high, low] = number.to_be_bytes();
    let id_of = |id: u8| SpanId([1, high, low, id, 1, 1, 1, 1]);
    let span = |id: u8, parent: u8, kind, service: &str, from: i64, to: i64| {
        let start = BEGIN + second * SECOND + from * MILLISECOND;
        let length = (to - from) * MILLISECOND;
        let mut span = Span::new(id_of(id), Capture::App, kind, service, "work", start, length);
        span.trace_id = Some(TraceId(trace_id));
        span.parent_span_id = (parent > 0).then(|| id_of(parent));
        span
    };
    let mut spans = vec![span(1, 0, Kind::Server, "shop", 0, 100 + i64::from(number % 50))];
    for call in 0..calls {
        let from = 10 + i64::from(call) * 10;
        let (client, server) = (10 + 2 * call, 11 + 2 * call);
        spans.push(span(client, 1, Kind::Client, "shop", from, from + 9));
        spans.push(span(server, client, Kind::Server, "stock", from + 1, from + 8));
    }
    if failed {
        spans[0].status = Status::Error;
    } else {
        spans.push(span(2, 1, Kind::Client, "shop", 80, 95));
        spans.push(span(3, 2, Kind::Server, "mail", 82, 93));
    }
    spans
}

fn id(number: u16) -> TraceId {
    trace(number, 0, 0, false)[0].trace_id.expect("has one")
}

/// A store with all stages behind it, and a time of its own.
struct World {
    directory: tempfile::TempDir,
    store: Arc<EmbeddedStore>,
    window: Window,
    live: LiveRollup,
    upkeep: RollupUpkeep,
    /// Seconds after [`BEGIN`].
    second: i64,
    removals: u64,
}

impl World {
    async fn new(second: i64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self::open(directory, second).await
    }

    async fn open(directory: tempfile::TempDir, second: i64) -> Self {
        let store = EmbeddedStore::open(EmbeddedConfig::new(directory.path().join("data")));
        let store = store.await.expect("a store");
        let queries = Queries::new(Arc::<EmbeddedStore>::clone(&store));
        let upkeep = RollupUpkeep::new(queries).expect("keeps rollups");
        let stored = upkeep.marks().end_unix_nano().unwrap_or(i64::MIN);
        let live = LiveRollup::new(LiveConfig::default(), BEGIN + second * SECOND, stored);
        let removals = upkeep.marks().removals();
        let window = Window::new(WindowConfig::default());
        let mut world = Self { directory, store, window, live, upkeep, second, removals };
        let unsettled = world.store.unsettled();
        for batch in unsettled {
            world.take(batch.batch, batch.rows);
        }
        world
    }

    /// Kills the program and starts it again.
    async fn restart(self) -> Self {
        let Self { directory, store, upkeep, second, .. } = self;
        drop((store, upkeep));
        // The store's tasks end when they next look.
        tokio::time::sleep(Duration::from_millis(600)).await;
        Self::open(directory, second).await
    }

    fn now(&self) -> i64 {
        BEGIN + self.second * SECOND
    }

    fn now_nano(&self) -> u64 {
        (self.second + 100_000) as u64 * SECOND as u64
    }

    fn mark(&self, late: Vec<i64>) {
        for minute in late {
            self.upkeep.marks().mark(minute, self.now()).expect("marked");
        }
    }

    fn take(&mut self, batch: u64, rows: SpanRows) {
        self.live.push(batch, &rows, self.now_nano()).expect("spans");
        self.window.push(batch, &rows, self.now_nano()).expect("spans");
    }

    async fn receive(&mut self, spans: &[Span]) {
        if spans.is_empty() {
            return;
        }
        let rows: SpanRows =
            spans.iter().collect::<SpanBatchBuilder>().finish().expect("a batch").into();
        match self.store.append(rows.clone(), None).await.expect("stored") {
            Appended::Stored { batch } => self.take(batch, rows),
            other => panic!("is new: {other:?}"),
        }
    }

    /// Lets time pass, with all that happens then.
    async fn pass(&mut self, seconds: i64) -> Vec<RollupWork> {
        let (end, mut works) = (self.second + seconds, Vec::new());
        while self.second < end {
            self.second = (self.second + 5).min(end);
            let results = self.window.poll(self.now_nano());
            let late = self.live.place(&results, self.now_nano());
            self.mark(late);
            self.store.annotate(&results).await.expect("annotated");
            let (late, _) = self.live.settle(self.now_nano(), usize::MAX);
            self.mark(late);
            let changed = self.live.take_changed(self.now_nano(), usize::MAX);
            let (now, now_nano, live) = (self.now(), self.now_nano(), &mut self.live);
            self.upkeep
                .read_again(&changed, now, |id, found| live.recount(id, found, now_nano))
                .await
                .expect("read");
            loop {
                let (live, removals) = (&mut self.live, self.removals);
                let counted = |minute| Some((live.take(minute, now_nano)?, removals));
                match self.upkeep.step(now, counted).await.expect("made") {
                    RollupWork::Nothing => break,
                    work => works.push(work),
                }
            }
        }
        works
    }

    async fn ask(&self, from: i64, to: i64, what: RunFigures) -> Arc<ObservedRuns> {
        let time =
            TimeRange { from_unix_nano: BEGIN + from * SECOND, to_unix_nano: BEGIN + to * SECOND };
        let queries = Queries::new(Arc::<EmbeddedStore>::clone(&self.store));
        queries.observed_runs(time, PLENTY, what).await.expect("runs")
    }

    /// Figures with rollups, after they were held against those of spans, unless they say that
    /// they are being corrected.
    async fn figures(&self, from: i64, to: i64) -> Arc<ObservedRuns> {
        let found = self.ask(from, to, RunFigures::Chains).await;
        if found.outdated_rollups > 0 {
            assert!(found.warnings.iter().any(|it| it.contains("being corrected")));
            return found;
        }
        let queries = Queries::new(Arc::<EmbeddedStore>::clone(&self.store));
        let all = queries.observed_runs(found.time, PLENTY, RunFigures::Everything);
        let all = all.await.expect("runs");
        assert!(same(&found.chains, &all.chains), "{} {}", found.runs(), all.runs());
        assert_eq!(found.warnings, all.warnings);
        assert!((found.window_seconds - all.window_seconds).abs() < 1e-9);
        found
    }

    fn files(&self) -> Vec<TimeRange> {
        self.store.derived().expect("keeps them").list(TimeRange::ALL)
    }
}

/// Whether all figures are the same. Examples may be others.
fn same(one: &Chains, other: &Chains) -> bool {
    let figures = |chains: &Chains| {
        let chains = chains.chains();
        let of = |chain: &spanwise_analyze::Chain| {
            let total = &chain.total;
            let nodes: Vec<_> = chain.nodes.iter().map(|node| (node.path, &node.figures)).collect();
            format!(
                "{:?} {} {} {:?} {} {} {:?} {nodes:?}",
                chain.shapes,
                total.runs,
                total.failures,
                total.durations,
                total.first_unix_nano,
                total.last_unix_nano,
                total.slowest
            )
        };
        chains.iter().map(of).collect::<Vec<_>>()
    };
    figures(one) == figures(other) && one.runs_left_out == other.runs_left_out
}

#[tokio::test]
async fn minutes_are_counted_as_they_settle_and_become_hours() {
    let mut world = World::new(-90).await;
    world.pass(90).await;
    for second in 0..100 {
        let number = second as u16;
        world
            .receive(&trace(number, second * 3, (number % 4) as u8, number.is_multiple_of(7)))
            .await;
        world.pass(3).await;
    }
    let works = world.pass(120).await;
    assert!(!works.is_empty() && works.iter().all(|it| *it == RollupWork::CountedMinute));
    let found = world.figures(-60, 330).await;
    assert_eq!((found.runs(), found.runs_of_rollups, found.spans), (100, 100, 0));
    // The newest part is read from spans.
    world.receive(&trace(900, world.second, 2, false)).await;
    world.pass(5).await;
    let found = world.figures(-60, world.second).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (101, 100));
    // One chain.
    let shape = found.chains.chains()[0].shapes[0];
    let one = world.ask(-60, world.second, RunFigures::ChainsWith(shape)).await;
    assert!(same(&one.chains, &found.chains) && one.runs() == 101);
    // Hours later, minutes are hours. An edge inside of one moves to its start, if the range is long.
    world.pass(4 * 3600).await;
    let hours = world.files().into_iter().filter(|it| it.to_unix_nano - it.from_unix_nano == HOUR);
    assert_eq!(hours.count(), 2);
    let found = world.figures(100, 6 * 3600 + 200).await;
    assert_eq!((found.runs(), found.time.from_unix_nano), (101, BEGIN));
    let found = world.figures(100, 200).await;
    assert_eq!((found.runs_of_rollups, found.time.from_unix_nano), (0, BEGIN + 100 * SECOND));
}

#[tokio::test]
async fn what_was_stored_before_is_made_from_spans() {
    let mut world = World::new(11_000).await;
    for number in 0..30 {
        world.receive(&trace(number, i64::from(number) * 40, 2, false)).await;
    }
    let works = world.pass(60).await;
    assert!(works.contains(&RollupWork::MinuteOfSpans) && works.contains(&RollupWork::Hour));
    assert!(!works.contains(&RollupWork::CountedMinute));
    let found = world.figures(0, 11_000).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (30, 30));
}

#[tokio::test]
async fn late_spans_correct_what_was_counted_and_nothing_is_counted_twice() {
    let mut world = World::new(-90).await;
    let (first, second) = (trace(1, 2, 3, false), trace(2, 5, 1, false));
    world.pass(95).await;
    // A part of the first comes in time, the rest after its minute was made.
    world.receive(&first[..3]).await;
    world.receive(&second[..3]).await;
    // This one is completed before its minute is made, but after it was counted.
    world.pass(25).await;
    world.receive(&second[3..]).await;
    world.pass(120).await;
    let found = world.figures(0, 60).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (2, 2));
    let calls: u64 = found.chains.entrances().values().map(|entrance| entrance.calls).sum();
    assert_eq!(calls, 2 + 1 + 2);
    world.receive(&first[3..]).await;
    // Until it is made again, its figures are those from before.
    world.pass(5).await;
    let found = world.figures(0, 60).await;
    assert_eq!((found.runs(), found.runs_of_rollups, found.outdated_rollups), (2, 2, 1));
    let works = world.pass(15).await;
    assert!(works.contains(&RollupWork::MinuteOfSpans), "{works:?}");
    let found = world.figures(0, 60).await;
    assert_eq!((found.runs(), found.runs_of_rollups, found.outdated_rollups), (2, 2, 0));
    let calls: u64 = found.chains.entrances().values().map(|entrance| entrance.calls).sum();
    assert_eq!(calls, (1 + 3 + 1) + (1 + 1 + 1));
    // A root that comes hours later brings its trace to another hour.
    let third = trace(3, 30, 1, false);
    world.receive(&third[1..]).await;
    world.pass(4 * 3600).await;
    assert_eq!(world.figures(0, 3600).await.chains.runs_left_out, 1);
    world.receive(&third[..1]).await;
    world.pass(120).await;
    let found = world.figures(0, 3600).await;
    assert_eq!((found.runs(), found.runs_of_rollups, found.chains.runs_left_out), (3, 3, 0));
}

#[tokio::test]
async fn a_minute_to_which_spans_come_all_the_time_is_corrected_all_the_time() {
    let mut world = World::new(-90).await;
    world.pass(90).await;
    world.receive(&trace(1, 2, 3, false)).await;
    world.pass(120).await;
    for number in 2..40 {
        world.receive(&trace(number, 10, 1, false)).await;
        world.pass(3).await;
        let found = world.figures(0, 60).await;
        assert_eq!(found.runs(), found.runs_of_rollups, "is always covered");
        // It is made again after 15 seconds.
        assert!(found.runs() + 10 > u64::from(number), "{} of {number}", found.runs());
    }
    world.pass(60).await;
    let found = world.figures(0, 60).await;
    assert_eq!((found.runs(), found.outdated_rollups), (39, 0));
}

#[tokio::test]
async fn a_restart_loses_nothing_and_counts_nothing_twice() {
    let mut world = World::new(-90).await;
    world.pass(90).await;
    for second in 0..40 {
        world.receive(&trace(second as u16, second * 3, 2, false)).await;
        world.pass(3).await;
    }
    // Some minutes are stored, one is open, and the last spans are not assembled.
    world.receive(&trace(100, 121, 2, false)).await;
    let stored = world.files().len();
    assert!(stored >= 1);
    let mut world = world.restart().await;
    world.pass(5).await;
    assert_eq!(world.figures(0, 130).await.runs(), 41);
    world.receive(&trace(101, 130, 2, false)).await;
    world.pass(200).await;
    let found = world.figures(0, 240).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (42, 42));
    // Late spans of a minute that the run before counted.
    let (whole, mut late) = (trace(102, 20, 2, false), world);
    late.receive(&whole[..2]).await;
    late.pass(120).await;
    let mut late = late.restart().await;
    late.receive(&whole[2..]).await;
    late.pass(5).await;
    assert!(late.figures(0, 240).await.outdated_rollups > 0);
    let mut late = late.restart().await;
    let found = late.figures(0, 240).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (43, 43));
    assert!(found.outdated_rollups > 0, "also after a crash");
    late.pass(120).await;
    assert_eq!(late.figures(0, 240).await.outdated_rollups, 0);
    let found = late.figures(0, 240).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (43, 43));
}

#[tokio::test]
async fn what_is_deleted_is_in_no_figure() {
    let mut world = World::new(-90).await;
    world.pass(90).await;
    for number in 0..20 {
        world.receive(&trace(number, i64::from(number) * 20, 1, false)).await;
        world.pass(20).await;
    }
    world.pass(120).await;
    assert_eq!(world.figures(0, 480).await.runs_of_rollups, 20);
    let queries = Queries::new(Arc::<EmbeddedStore>::clone(&world.store));
    queries.delete(&Selection::Trace(id(3))).await.expect("deleted");
    let found = world.figures(0, 480).await;
    assert_eq!(found.runs(), 19, "at once");
    assert!(found.runs_of_rollups > 5, "only its time is made again");
    world.pass(60).await;
    let found = world.figures(0, 480).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (19, 19));
    queries.delete(&Selection::Service("mail".into())).await.expect("deleted");
    let found = world.figures(0, 480).await;
    assert!(found.chains.chains()[0].nodes.iter().all(|node| node.service != "mail"));
    drop(queries);
    let mut world = world.restart().await;
    world.pass(120).await;
    let found = world.figures(0, 480).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (19, 19));
    assert!(found.chains.chains()[0].nodes.iter().all(|node| node.service != "mail"));
}

#[tokio::test]
async fn a_damaged_file_is_named_and_made_again() {
    let mut world = World::new(-90).await;
    world.pass(90).await;
    for number in 0..10 {
        world.receive(&trace(number, i64::from(number) * 20, 1, false)).await;
        world.pass(20).await;
    }
    world.pass(120).await;
    let directory = world.directory.path().join("data/derived");
    let file = directory.join(format!("{}-{}", BEGIN / SECOND + 60, BEGIN / SECOND + 120));
    let mut bytes = std::fs::read(&file).expect("there");
    // In the first part, behind the table.
    bytes[130] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    let found = world.figures(0, 240).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (10, 7));
    let warnings = world.store.status().warnings;
    assert!(warnings.iter().any(|it| it.contains("made again from spans")), "{warnings:?}");
    world.pass(10).await;
    let found = world.figures(0, 240).await;
    assert_eq!((found.runs(), found.runs_of_rollups), (10, 10));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever comes when and in which parts: figures with rollups are those of all spans.
    #[test]
    fn figures_with_rollups_are_those_of_spans(
        traces in prop::collection::vec(
            (0..400_i64, 0..4_u8, any::<bool>(), 0..9_usize, prop::sample::select(vec![
                0_i64, 0, 0, 3, 20, 45, 150,
            ])),
            1..40,
        ),
        ranges in prop::collection::vec((-30..500_i64, 1..600_i64), 3),
    ) {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async move {
            let mut world = World::new(-90).await;
            world.pass(90).await;
            // What is received at which second.
            let mut parts: Vec<(i64, Vec<Span>)> = Vec::new();
            for (number, (second, calls, failed, cut, delay)) in traces.iter().enumerate() {
                let mut spans = trace(number as u16, *second, *calls, *failed);
                let rest = spans.split_off((*cut).min(spans.len()));
                parts.push((*second + 1, spans));
                parts.push((*second + 1 + delay, rest));
            }
            parts.sort_by_key(|(second, _)| *second);
            for (second, spans) in parts {
                let wait = second - world.second;
                world.pass(wait.max(0)).await;
                world.receive(&spans).await;
            }
            world.pass(10).await;
            for (from, length) in &ranges {
                world.figures(*from, from + length).await;
            }
            world.pass(200).await;
            let all = world.figures(0, 480).await;
            assert_eq!((all.runs_of_rollups, all.outdated_rollups), (all.runs(), 0));
            for (from, length) in ranges {
                world.figures(from, from + length).await;
            }
        });
    }
}
