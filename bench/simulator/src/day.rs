//! A day of traffic in rollups: what they cost as traces settle, how much they take on the disk, and
//! how fast one chain is read from them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use spanwise_analyze::ShapeId;
use spanwise_analyze::rollup::{LiveConfig, LiveRollup, Minute};
use spanwise_assemble::{Window, WindowConfig};
use spanwise_model::{Span, SpanBatchBuilder, SpanRows};
use spanwise_query::traceql::Bounds;
use spanwise_query::{Queries, RunFigures};
use spanwise_store::embedded::{DerivedFiles, EmbeddedConfig, EmbeddedStore};
use spanwise_store::{DerivedPart, DerivedPartName, Store, TimeRange};

use crate::cost::cpu_seconds;
use crate::random::Random;
use crate::topology::{OperationAt, Topology};
use crate::traffic::Traffic;

const SECOND_NANO: i64 = 1_000_000_000;
const MINUTE_NANO: i64 = 60 * SECOND_NANO;
const HOUR_NANO: i64 = 60 * MINUTE_NANO;
const DAY_HOURS: i64 = 24;
/// As much of the newest time is in minutes.
const HOURS_IN_MINUTES: i64 = 2;
/// A whole hour.
const START_UNIX_NANO: i64 = 1_749_999_600 * SECOND_NANO;
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(15), traces: 500_000, spans: 5_000_000 };
/// Chains that are asked for, one by one.
const PAGES: usize = 200;
/// Batches arrive so often.
const BATCH_NANO: i64 = 2 * SECOND_NANO;

/// CPU time of the live stage, of assembly beside it, and what was counted.
#[derive(Default)]
struct Cost {
    live_seconds: f64,
    assembly_seconds: f64,
    spans: usize,
    minutes: usize,
}

/// Runs of this topology over a day through the live stage, and pages of their chains.
pub(crate) fn measure(topology: &Topology, seed: u64, runs: usize) -> anyhow::Result<()> {
    let directory = std::env::temp_dir().join(format!("spanwise-day-{}", std::process::id()));
    let runtime = tokio::runtime::Runtime::new()?;
    let measured = runtime.block_on(day(topology, seed, runs, directory.clone()));
    drop(std::fs::remove_dir_all(&directory));
    measured
}

async fn day(
    topology: &Topology,
    seed: u64,
    runs: usize,
    directory: std::path::PathBuf,
) -> anyhow::Result<()> {
    let store = EmbeddedStore::open(EmbeddedConfig::new(directory)).await?;
    let files = store.derived().context("the store keeps rollups")?;
    let cost = make(topology, seed, runs, &files)?;
    let (count, bytes) = files.totals();
    println!(
        "a day of {}: {runs} runs, {} spans, {count} files with {bytes} bytes",
        topology.name, cost.spans
    );
    let per_span = |seconds: f64| seconds * 1e6 / cost.spans.max(1) as f64;
    println!(
        "  {} minutes counted live; assembly {:.2} us a span beside it",
        cost.minutes,
        per_span(cost.assembly_seconds)
    );
    println!("figure analysis.live_rollup_cpu_us_per_span {:.3} us", per_span(cost.live_seconds));
    println!("figure analysis.rollup_bytes_per_span {:.3} B", bytes as f64 / cost.spans as f64);
    let time = TimeRange {
        from_unix_nano: START_UNIX_NANO,
        to_unix_nano: START_UNIX_NANO + DAY_HOURS * HOUR_NANO,
    };
    let ask = |what| {
        // A new one each time: nothing is answered from a cache.
        let queries = Queries::new(Arc::<EmbeddedStore>::clone(&store));
        async move { queries.observed_runs(time, BOUNDS, what).await }
    };
    let began = Instant::now();
    let all = ask(RunFigures::Chains).await?;
    let chains = all.chains.chains();
    let list = began.elapsed().as_secs_f64() * 1e3;
    ensure!(all.runs() as usize == runs, "{} of {runs} runs are counted", all.runs());
    let every = (chains.len() / PAGES).max(1);
    let asked: Vec<ShapeId> =
        chains.iter().step_by(every).filter_map(|chain| chain.shapes.first().copied()).collect();
    let mut pages = Vec::new();
    for shape in asked {
        let began = Instant::now();
        let found = ask(RunFigures::ChainsWith(shape)).await?;
        let of_entrance = found.chains.chains();
        let page = of_entrance.iter().find(|chain| chain.shapes.contains(&shape));
        pages.push(began.elapsed().as_secs_f64() * 1e3);
        ensure!(page.is_some(), "chain {shape} is missing");
        ensure!(found.spans == 0 && found.runs() == found.runs_of_rollups, "spans were read");
    }
    pages.sort_by(f64::total_cmp);
    let at = |share: f64| pages[((pages.len() - 1) as f64 * share) as usize];
    println!("  {} pages of chains, one by one; the list has {} chains", pages.len(), chains.len());
    println!("figure analysis.chain_page_p50_ms {:.1} ms", at(0.5));
    println!("figure analysis.chain_page_p95_ms {:.1} ms", at(0.95));
    println!("figure analysis.chain_list_ms {list:.1} ms");
    store.close().await?;
    Ok(())
}

/// Makes the day's files.
fn make(topology: &Topology, seed: u64, runs: usize, files: &DerivedFiles) -> anyhow::Result<Cost> {
    let mut random = Random::new(seed);
    let rate: f64 = topology.entrances.iter().map(|(_, rate)| rate).sum();
    let mut until: Vec<(f64, OperationAt)> = Vec::new();
    let mut sum = 0.0;
    for (entrance, per_second) in &topology.entrances {
        sum += per_second;
        until.push((sum, *entrance));
    }
    let mut traffic = Traffic::new(topology, seed ^ 0xfeed);
    let mut live = LiveRollup::new(LiveConfig::default(), START_UNIX_NANO - HOUR_NANO, i64::MIN);
    let mut window = Window::new(WindowConfig::default());
    let (mut cost, mut hour) = (Cost::default(), Minute::default());
    let mut spans: Vec<Span> = Vec::new();
    let (mut run, mut batch) = (0, 0);
    let day = DAY_HOURS * HOUR_NANO;
    for step in 0..day / BATCH_NANO + 60 {
        let now = step * BATCH_NANO;
        spans.clear();
        while run < runs && (run as f64 / runs as f64 * day as f64) < now as f64 {
            let place = random.share() * rate;
            let entrance = until[until.partition_point(|(end, _)| *end <= place)].1;
            traffic.run(entrance, START_UNIX_NANO + (run as f64 / runs as f64 * day as f64) as i64);
            let before = spans.len();
            let mut of_run = Vec::new();
            traffic.spans(&mut of_run);
            spans.append(&mut of_run);
            cost.spans += spans.len() - before;
            run += 1;
        }
        let now_nano = now.unsigned_abs();
        if !spans.is_empty() {
            batch += 1;
            let rows: SpanRows =
                spans.iter().collect::<SpanBatchBuilder>().finish().context("a batch")?.into();
            let began = cpu_seconds();
            live.push(batch, &rows, now_nano)?;
            let between = cpu_seconds();
            window.push(batch, &rows, now_nano)?;
            cost.live_seconds += between - began;
            cost.assembly_seconds += cpu_seconds() - between;
        }
        let began = cpu_seconds();
        let results = window.poll(now_nano);
        let between = cpu_seconds();
        cost.assembly_seconds += between - began;
        let late = live.place(&results, now_nano);
        let (late_too, _) = live.settle(now_nano, usize::MAX);
        cost.live_seconds += cpu_seconds() - between;
        ensure!(late.is_empty() && late_too.is_empty(), "spans came late");
        let settled = now - 30 * SECOND_NANO;
        if settled % MINUTE_NANO != 0 || settled <= 0 || settled > day {
            continue;
        }
        let began = cpu_seconds();
        let minute = START_UNIX_NANO + settled - MINUTE_NANO;
        let figures = live.take(minute, now_nano).context("a minute was not counted live")?;
        let parts = parts(&figures);
        cost.live_seconds += cpu_seconds() - began;
        cost.minutes += 1;
        if settled > day - HOURS_IN_MINUTES * HOUR_NANO {
            put(files, minute, MINUTE_NANO, &parts)?;
            continue;
        }
        let began = cpu_seconds();
        hour.merge(&figures);
        if settled % HOUR_NANO == 0 {
            let mut figures = std::mem::take(&mut hour);
            figures.join_rare_shapes();
            let parts = self::parts(&figures);
            put(files, START_UNIX_NANO + settled - HOUR_NANO, HOUR_NANO, &parts)?;
        }
        cost.live_seconds += cpu_seconds() - began;
    }
    Ok(cost)
}

fn parts(figures: &Minute) -> Vec<DerivedPart> {
    let parts = figures.to_parts().into_iter().map(|(part, bytes)| {
        let (kind, id) = part.numbers();
        DerivedPart { name: DerivedPartName { kind, id }, bytes }
    });
    parts.collect()
}

fn put(files: &DerivedFiles, start: i64, length: i64, parts: &[DerivedPart]) -> anyhow::Result<()> {
    let time = TimeRange { from_unix_nano: start, to_unix_nano: start + length };
    ensure!(files.put(time, parts, files.removals())?, "a rollup was refused");
    Ok(())
}
